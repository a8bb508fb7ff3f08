// SPDX-License-Identifier: GPL-2.0-only
/*
 * Retired pageblocks: those below the border that are to change sides, but hold pages that do
 * not move.
 *
 * The buddy allocator prefers small free blocks wherever they lie, hence the pageblocks beside
 * the border that a burst left half empty are used again first, and never come free. A retired
 * pageblock is marked isolated: its free pages are on lists that no request takes from, nothing
 * new is placed there, and what is left in it is freed with time. If the region runs short, all
 * of them come back at once: no page has to be migrated for that.
 *
 * The retired pageblocks are those from "retired_from" up to the border. Called by the node's
 * thread alone.
 */
#include <linux/log2.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>

#include "../internal.h"
#include "contiguitas.h"

#include <trace/events/contiguitas.h>

/* Free pages of a zone's isolated pageblocks: on its lists, but not counted as free. */
static unsigned long isolated_free(struct zone *zone)
{
	unsigned long listed = 0, counted = zone_page_state_snapshot(zone, NR_FREE_PAGES);
	int order;

	for (order = 0; order < ARRAY_SIZE(zone->free_area); order++)
		listed += READ_ONCE(zone->free_area[order].nr_free) << order;
	return listed > counted ? listed - counted : 0;
}

unsigned long contiguitas_retired_free(const struct contiguitas_node *node)
{
	return contiguitas_is_retired(node) ? isolated_free(node->lower) : 0;
}

/*
 * In Linux 6.1 a free block may be larger than a pageblock: what is isolated with this one.
 * Isolating its second half alone would move nothing. Under the zone's lock.
 */
static unsigned long first_of_block(struct zone *zone, unsigned long start)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
	unsigned long head = start & ~(2 * pageblock_nr_pages - 1);
	struct page *page = pfn_to_online_page(head);

	if (page && page_zone(page) == zone && PageBuddy(page) &&
	    buddy_order(page) > pageblock_order)
		return head;
#endif
	return start;
}

/* Marks a pageblock; its free pages no longer count as free. Under the zone's lock. */
static bool isolate_one(struct zone *zone, struct page *page)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	if (!move_freepages_block_isolate(zone, page, MIGRATE_ISOLATE))
		return false;
#else
	int type = get_pageblock_migratetype(page);

	set_pageblock_migratetype(page, MIGRATE_ISOLATE);
	__mod_zone_freepage_state(zone, -move_freepages_block(zone, page, MIGRATE_ISOLATE, NULL),
				  type);
#endif
	zone->nr_isolate_pageblock++;
	return true;
}

/* Whether a pageblock is of a kind that may be retired. */
static bool may_retire(struct zone *zone, unsigned long start)
{
	struct page *page = pfn_to_online_page(start);
	int type;

	if (!page || page_zone(page) != zone)
		return false;
	type = get_pageblock_migratetype(page);
	return type == MIGRATE_UNMOVABLE || type == MIGRATE_RECLAIMABLE || type == MIGRATE_MOVABLE;
}

/*
 * Isolates a pageblock, and what shares a free block with it. How many; none if one may not be
 * retired.
 */
static unsigned int isolate(struct zone *zone, unsigned long start)
{
	unsigned long first, pfn, flags;
	unsigned int done = 0;

	spin_lock_irqsave(&zone->lock, flags);
	first = first_of_block(zone, start);
	if (may_retire(zone, first) && may_retire(zone, start))
		for (pfn = first; pfn <= start; pfn += pageblock_nr_pages)
			done += isolate_one(zone, pfn_to_page(pfn));
	spin_unlock_irqrestore(&zone->lock, flags);
	return done;
}

/* Retires the next pageblocks below those that are. How many. */
unsigned int contiguitas_retire(struct contiguitas_node *node, unsigned int pageblocks)
{
	unsigned long border = contiguitas_border(node);
	unsigned long from = contiguitas_is_retired(node) ? node->retired_from : border;
	unsigned int done = 0;

	while (done < pageblocks) {
		unsigned long start = from - pageblock_nr_pages;
		unsigned int more;

		/* What remains in use is no smaller than the floor. */
		if (start < node->lower->zone_start_pfn + MAX_ORDER_NR_PAGES ||
		    contiguitas_size_below(node) - (border - start) < READ_ONCE(node->floor))
			break;
		more = isolate(node->lower, start);
		if (!more)
			break;
		from -= more * pageblock_nr_pages;
		done += more;
	}
	if (done) {
		WRITE_ONCE(node->retired_from, from);
		node->counts.retired += done;
		/* Pages on per-CPU lists would come back to them. */
		drain_all_pages(node->lower);
		trace_contiguitas_retire(node->nid, from, border);
	}
	return done;
}

/* Those from "start" on may be used again, to be handed over. */
void contiguitas_unretire(struct contiguitas_node *node, unsigned long start)
{
	if (!contiguitas_is_retired(node))
		return;
	undo_isolate_page_range(max(start, node->retired_from), contiguitas_border(node),
				MIGRATE_UNMOVABLE);
	if (start <= node->retired_from)
		WRITE_ONCE(node->retired_from, 0);
}

/* The hand-over of those failed: as before, "from" being the first that was retired. */
void contiguitas_retire_again(struct contiguitas_node *node, unsigned long from,
			      unsigned long start)
{
	unsigned long at = contiguitas_border(node);
	unsigned int done = 1;

	while (done && at > max(from, start)) {
		done = isolate(node->lower, at - pageblock_nr_pages);
		at -= done * pageblock_nr_pages;
	}
	WRITE_ONCE(node->retired_from, min(from, at));
	if (!done)
		contiguitas_unretire(node, from);
}

/*
 * As many as have the free pages that are needed are used again, the lowest first, by requests
 * of this type above all. How many.
 */
unsigned int contiguitas_recall(struct contiguitas_node *node, unsigned long pages, int type)
{
	unsigned long border = contiguitas_border(node), most, from;
	unsigned int done = 0;

	if (!contiguitas_is_retired(node))
		return 0;
	most = isolated_free(node->lower);
	for (from = node->retired_from; from < border; from += pageblock_nr_pages) {
		if (most - min(most, isolated_free(node->lower)) >= pages)
			break;
		undo_isolate_page_range(from, from + pageblock_nr_pages, type);
		done++;
	}
	WRITE_ONCE(node->retired_from, from < border ? from : 0);
	node->counts.recalled += done;
	trace_contiguitas_retire(node->nid, from, border);
	return done;
}

/* The free block that a page begins or lies in: its pages from this one on; 0 if it is in use. */
static unsigned long free_from(unsigned long pfn)
{
	const unsigned long largest = ilog2(MAX_ORDER_NR_PAGES);
	unsigned long order;

	for (order = 0; order <= largest; order++) {
		unsigned long head = pfn & ~((1UL << order) - 1);
		struct page *page = pfn_to_page(head);

		if (PageBuddy(page)) {
			unsigned long size = 1UL << min_t(unsigned long,
					buddy_order_unsafe(page), largest);

			return head + size > pfn ? head + size - pfn : 0;
		}
	}
	return 0;
}

/*
 * Whether pageblocks hold nothing that stays: a look without locks that costs far less than an
 * attempt. Pages on per-CPU lists pass for free ones.
 */
bool contiguitas_may_empty(unsigned long start, unsigned long end)
{
	unsigned long pfn = start;

	while (pfn < end) {
		struct page *page = pfn_to_page(pfn);
		unsigned long pages;

		/* A zone may have holes, for which there is no page map. */
		if (pageblock_aligned(pfn) && !pfn_to_online_page(pfn))
			return false;
		pages = free_from(pfn);
		if (!pages) {
			if (page_count(page) && !PageLRU(compound_head(page)) && !PageHuge(page) &&
			    !__PageMovable(page))
				return false;
			pages = 1;
		}
		pfn += pages;
	}
	return true;
}
