// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hand-over of pageblocks between ZONE_MOVABLE and the zone below it.
 *
 * alloc_contig_range() empties and takes the pageblocks, so that no page of them is in use or on a
 * list. Then nothing else of a zone counts them but its free, managed, present and spanned pages.
 * Three locks keep others away while they change sides:
 *
 * - "blocks", written: nobody who finds free blocks by their number (compaction) is on the way.
 * - The pageblocks are marked isolated under the old zone's lock, so that nobody else isolates
 *   them; who read a page's zone before it took that zone's lock looks again.
 * - The pages' counts are frozen at 0, so that no speculative reference is taken.
 */
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/page_ref.h>
#include <linux/pageblock-flags.h>

#include "../internal.h"
#include "contiguitas.h"

#define CREATE_TRACE_POINTS
#include <trace/events/contiguitas.h>

bool __contiguitas_read_trylock(struct zone *zone)
{
	struct contiguitas_node *node = contiguitas_nodes[zone_to_nid(zone)];

	if (!node || down_read_trylock(&node->blocks))
		return true;
	atomic_long_inc(&node->counts.compactions_skipped);
	return false;
}

void __contiguitas_read_unlock(struct zone *zone)
{
	struct contiguitas_node *node = contiguitas_nodes[zone_to_nid(zone)];

	if (node)
		up_read(&node->blocks);
}

bool __contiguitas_mover_waits(struct zone *zone)
{
	struct contiguitas_node *node = contiguitas_nodes[zone_to_nid(zone)];

	return node && rwsem_is_contended(&node->blocks);
}

/* Whether all pages are there, of this zone, and of a kind that can change sides. */
static bool may_move(const struct zone *zone, unsigned long start, unsigned long end)
{
	unsigned long pfn;

	for (pfn = start; pfn < end; pfn++) {
		struct page *page = pfn_to_online_page(pfn);
		int type;

		if (!page || page_zone(page) != zone || PageReserved(page))
			return false;
		if (!pageblock_aligned(pfn))
			continue;
		type = get_pageblock_migratetype(page);
		if (type != MIGRATE_UNMOVABLE && type != MIGRATE_RECLAIMABLE &&
		    type != MIGRATE_MOVABLE)
			return false;
	}
	return true;
}

/* Back to where they came from. Not free_contig_range(), which warns of speculative references. */
static void give_back(unsigned long start, unsigned long end)
{
	for (; start < end; start++)
		__free_page(pfn_to_page(start));
}

/*
 * Whether the thread of a node is taking pageblocks. What it allocates meanwhile is handed over
 * and freed, or receives a page that is migrated: "init_on_alloc" need not clear it.
 */
bool __contiguitas_takes(void)
{
	int nid;

	for_each_online_node(nid) {
		const struct contiguitas_node *node = contiguitas_nodes[nid];

		if (node && node->thread == current)
			return node->takes;
	}
	return false;
}

/* Empties each pageblock and takes it. Those of one type together. */
static int take(unsigned long start, unsigned long end)
{
	unsigned long from = start;

	while (from < end) {
		int type = get_pageblock_migratetype(pfn_to_page(from));
		unsigned long to = from + pageblock_nr_pages;
		int error;

		while (to < end && get_pageblock_migratetype(pfn_to_page(to)) == type)
			to += pageblock_nr_pages;
		error = alloc_contig_range(from, to, type, GFP_KERNEL | __GFP_NOWARN);
		if (error) {
			give_back(start, from);
			return error;
		}
		from = to;
	}
	return 0;
}

static void mark(unsigned long start, unsigned long end, int type)
{
	unsigned long pfn;

	for (pfn = start; pfn < end; pfn += pageblock_nr_pages)
		set_pageblock_migratetype(pfn_to_page(pfn), type);
}

/* Marks the pageblocks as isolated, so that nobody else can, unless somebody has. */
static bool claim(struct zone *zone, unsigned long start, unsigned long end)
{
	unsigned long pfn, flags;
	bool is_free = true;

	spin_lock_irqsave(&zone->lock, flags);
	for (pfn = start; pfn < end; pfn += pageblock_nr_pages)
		is_free &= !is_migrate_isolate_page(pfn_to_page(pfn));
	if (is_free)
		mark(start, end, MIGRATE_ISOLATE);
	spin_unlock_irqrestore(&zone->lock, flags);
	return is_free;
}

static void unclaim(struct zone *zone, unsigned long start, unsigned long end, int type)
{
	unsigned long flags;

	spin_lock_irqsave(&zone->lock, flags);
	mark(start, end, type);
	spin_unlock_irqrestore(&zone->lock, flags);
}

static void unfreeze(unsigned long start, unsigned long end)
{
	for (; start < end; start++)
		page_ref_unfreeze(pfn_to_page(start), 1);
}

static bool freeze(unsigned long start, unsigned long end)
{
	unsigned long pfn;

	for (pfn = start; pfn < end; pfn++)
		if (!page_ref_freeze(pfn_to_page(pfn), 1)) {
			unfreeze(start, pfn);
			return false;
		}
	return true;
}

/* Others may set a flag at the same time: hardware's errors are noted in any page. */
static void set_zone(struct page *page, enum zone_type type)
{
	unsigned long old = READ_ONCE(page->flags), new;

	do {
		new = old & ~(ZONES_MASK << ZONES_PGSHIFT);
		new |= (type & ZONES_MASK) << ZONES_PGSHIFT;
	} while (!try_cmpxchg(&page->flags, &old, new));
}

/* The border's new place in both spans; the lower zone's end and ZONE_MOVABLE's start. */
static void set_spans(struct contiguitas_node *node, unsigned long border)
{
	struct zone *lower = node->lower, *movable = node->movable;
	unsigned long end = zone_end_pfn(movable);
	unsigned long flags;

	pgdat_resize_lock(NODE_DATA(node->nid), &flags);
	zone_span_writelock(lower);
	lower->spanned_pages = border - lower->zone_start_pfn;
	contiguitas_bar(lower);
	zone_span_writeunlock(lower);
	zone_span_writelock(movable);
	movable->spanned_pages = end - border;
	WRITE_ONCE(movable->zone_start_pfn, border);
	zone_span_writeunlock(movable);
	pgdat_resize_unlock(NODE_DATA(node->nid), &flags);
}

static void count_pages(struct zone *from, struct zone *to, long pages)
{
	from->present_pages -= pages;
	from->present_early_pages -= pages;
	to->present_pages += pages;
	to->present_early_pages += pages;
	/* Freeing adds them to the new zone. */
	atomic_long_sub(pages, &from->managed_pages);
}

/*
 * The order in which a pageblock comes free. Only single pages with a hardware error stay off
 * the lists.
 */
static unsigned int free_order(unsigned long start)
{
	unsigned long pfn;

	if (IS_ENABLED(CONFIG_MEMORY_FAILURE))
		for (pfn = start; pfn < start + pageblock_nr_pages; pfn++)
			if (PageHWPoison(pfn_to_page(pfn)))
				return 0;
	return pageblock_order;
}

static void give(unsigned long start, unsigned long end)
{
	unsigned int order = 0;

	/* To the tail of the lists, past the per-CPU lists: what was handed over is used last. */
	for (; start < end; start += 1UL << order) {
		if (pageblock_aligned(start))
			order = free_order(start);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
		__free_pages_core(pfn_to_page(start), order, MEMINIT_EARLY);
#else
		__free_pages_core(pfn_to_page(start), order);
#endif
	}
}

/* What was taken changes sides. Under the writer's lock. */
static int exchange(struct contiguitas_node *node, unsigned long start, unsigned long end, bool up)
{
	struct zone *from = up ? node->movable : node->lower;
	struct zone *to = up ? node->lower : node->movable;
	unsigned long pfn;

	if (!claim(from, start, end))
		return -EAGAIN;
	if (!freeze(start, end)) {
		unclaim(from, start, end, up ? MIGRATE_MOVABLE : MIGRATE_UNMOVABLE);
		return -EAGAIN;
	}
	/* Meanwhile the pages are outside the span of their own zone, which only frees look at. */
	set_spans(node, up ? end : start);
	for (pfn = start; pfn < end; pfn++)
		set_zone(pfn_to_page(pfn), zone_idx(to));
	count_pages(from, to, end - start);
	contiguitas_set_band(node);
	unclaim(to, start, end, up ? MIGRATE_UNMOVABLE : MIGRATE_MOVABLE);
	return 0;
}

/* Hands over what was taken. */
static int hand_over(struct contiguitas_node *node, unsigned long start, unsigned long end, bool up)
{
	u64 began, took;
	int error;

	down_write(&node->blocks);
	began = ktime_get_ns();
	error = exchange(node, start, end, up);
	took = ktime_get_ns() - began;
	up_write(&node->blocks);
	node->counts.longest_handover_ns = max_t(u64, node->counts.longest_handover_ns, took);
	if (error) {
		node->counts.aborted_handovers++;
		give_back(start, end);
	} else {
		give(start, end);
	}
	return error;
}

static int move(struct contiguitas_node *node, unsigned long start, unsigned int pageblocks,
		bool up)
{
	unsigned long end = start + (unsigned long)pageblocks * pageblock_nr_pages;
	struct zone *from = up ? node->movable : node->lower;
	u64 began = ktime_get_ns(), took;
	int error = -EBUSY;

	get_online_mems();
	node->takes = true;
	if (may_move(from, start, end))
		error = take(start, end);
	node->takes = false;
	if (!error)
		error = hand_over(node, start, end, up);
	put_online_mems();
	took = ktime_get_ns() - began;
	node->counts.move_ns += took;
	trace_contiguitas_move(node->nid, start, end - start, up, error, took);
	if (!error)
		contiguitas_answer(node);
	return error;
}

/* Not even tried. */
static int refuse(struct contiguitas_node *node, unsigned long start, unsigned long pages, bool up,
		  int error)
{
	trace_contiguitas_move(node->nid, start, pages, up, error, 0);
	return error;
}

int contiguitas_grow(struct contiguitas_node *node, unsigned int pageblocks)
{
	unsigned long border = contiguitas_border(node);
	unsigned long pages = pageblocks * pageblock_nr_pages;
	int error;

	/* ZONE_MOVABLE keeps a block: a zone without memory would have to leave all zonelists. */
	if (border + pages + MAX_ORDER_NR_PAGES > zone_end_pfn(node->movable) ||
	    contiguitas_size_below(node) + pages > READ_ONCE(node->ceiling))
		return refuse(node, border, pages, true, -ENOSPC);
	/* Those that are retired lie beside the border. */
	contiguitas_recall(node, ULONG_MAX, MIGRATE_UNMOVABLE);
	error = move(node, border, pageblocks, true);
	if (error)
		node->counts.grow_failures++;
	else
		node->counts.grown += pageblocks;
	return error;
}

/* The zone below the border keeps a block, as ZONE_MOVABLE does. */
static bool keeps_block(const struct contiguitas_node *node, unsigned long pages)
{
	return contiguitas_border(node) >= node->lower->zone_start_pfn + pages + MAX_ORDER_NR_PAGES;
}

bool contiguitas_is_lowest(const struct contiguitas_node *node)
{
	return !keeps_block(node, pageblock_nr_pages);
}

bool contiguitas_can_shrink(const struct contiguitas_node *node, unsigned long pages)
{
	return keeps_block(node, pages) &&
	       contiguitas_size_below(node) >= READ_ONCE(node->floor) + pages;
}

int contiguitas_shrink(struct contiguitas_node *node, unsigned int pageblocks)
{
	unsigned long border = contiguitas_border(node);
	unsigned long pages = pageblocks * pageblock_nr_pages;
	unsigned long retired = node->retired_from;
	int error;

	if (!contiguitas_can_shrink(node, pages))
		return refuse(node, border - pages, pages, false, -ENOSPC);
	if (!contiguitas_may_empty(border - pages, border)) {
		node->counts.shrink_failures++;
		return refuse(node, border - pages, pages, false, -EBUSY);
	}
	contiguitas_unretire(node, border - pages);
	error = move(node, border - pages, pageblocks, false);
	if (error && retired)
		contiguitas_retire_again(node, retired, border - pages);
	if (error)
		node->counts.shrink_failures++;
	else
		node->counts.shrunk += pageblocks;
	return error;
}
