// SPDX-License-Identifier: GPL-2.0-only
/*
 * Confinement: what keeps movable memory above, and what the zones' marks are.
 *
 * Unmovable requests cannot use ZONE_MOVABLE; the kernel sees to that by itself. Movable requests
 * may use lower zones as far as these have more than their reserve. With all of a lower zone
 * reserved, allocation, reclaim, compaction and the decision to retry agree that there is nothing.
 * Reclaim itself, which ignores reserves, still can use it.
 */
#include <linux/math.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/vmstat.h>

#include "../internal.h"
#include "contiguitas.h"

struct contiguitas_node *contiguitas_nodes[MAX_NUMNODES] __read_mostly;
struct contiguitas_band contiguitas_bands[MAX_NUMNODES] __read_mostly;

/* Nodes with a ZONE_MOVABLE whose border cannot move: nothing is confined there. */
static nodemask_t released = NODE_MASK_NONE;
/* A zone's reserve against movable requests is computed and written as one. */
static DEFINE_SPINLOCK(bar_lock);

void __init contiguitas_release(int nid)
{
	node_set(nid, released);
}

/* The zones below a border. */
static bool is_confined(struct zone *zone)
{
	struct zone *movable = &zone->zone_pgdat->node_zones[ZONE_MOVABLE];

	return contiguitas_enabled && zone_idx(zone) < ZONE_MOVABLE && populated_zone(movable) &&
	       !node_isset(zone_to_nid(zone), released);
}

/*
 * What a zone keeps from movable requests if the region keeps "target": its part by size, and
 * never less than it keeps for devices. ZONE_DMA keeps everything.
 */
static unsigned long part(const struct contiguitas_node *node, struct zone *zone,
			  unsigned long target)
{
	unsigned long part;

	if (IS_ENABLED(CONFIG_ZONE_DMA) && !zone_idx(zone))
		return zone->spanned_pages;
	part = mult_frac(target, zone_managed_pages(zone), contiguitas_size_below(node));
	return min(zone->spanned_pages,
		   max_t(unsigned long, part, zone->lowmem_reserve[ZONE_MOVABLE - 1]));
}

/*
 * All of a zone is reserved: what it spans, for that is known while a hand-over is under way.
 * While the region below lends, its target is.
 */
void contiguitas_bar(struct zone *zone)
{
	const struct contiguitas_node *node = contiguitas_nodes[zone_to_nid(zone)];
	unsigned long flags;

	spin_lock_irqsave(&bar_lock, flags);
	zone->lowmem_reserve[ZONE_MOVABLE] = node && node->lends ? part(node, zone, node->lends) :
								   zone->spanned_pages;
	spin_unlock_irqrestore(&bar_lock, flags);
}

/* From now on the region keeps "target" of its free pages from movable requests; 0: all. */
void contiguitas_lend(struct contiguitas_node *node, unsigned long target)
{
	struct zone *zone;

	WRITE_ONCE(node->lends, target);
	for (zone = NODE_DATA(node->nid)->node_zones; zone <= node->lower; zone++)
		if (populated_zone(zone))
			contiguitas_bar(zone);
}

/* The free pages that movable requests could then use. */
unsigned long contiguitas_lendable(const struct contiguitas_node *node, unsigned long target)
{
	unsigned long pages = 0;
	struct zone *zone;

	for (zone = NODE_DATA(node->nid)->node_zones; zone <= node->lower; zone++) {
		unsigned long free, keeps;

		if (!managed_zone(zone))
			continue;
		free = zone_page_state_snapshot(zone, NR_FREE_PAGES);
		keeps = part(node, zone, target) + high_wmark_pages(zone);
		pages += free > keeps ? free - keeps : 0;
	}
	return pages;
}

/*
 * The kernel tries the zones of a node from the highest one down, so the zone beside the
 * border, which is small at first and soon full, would come first. Unmovable memory shall lie
 * far from the border: here ZONE_NORMAL comes after ZONE_DMA32. ZONE_DMA stays last, for what
 * can use no other. Called before the first allocation, and when memory is plugged.
 */
void contiguitas_order_zones(struct zoneref *zones, int count)
{
#ifdef CONFIG_ZONE_DMA32
	int at;

	for (at = 0; at + 1 < count; at++)
		if (zonelist_zone_idx(&zones[at]) == ZONE_NORMAL &&
		    zonelist_zone_idx(&zones[at + 1]) == ZONE_DMA32 &&
		    is_confined(zonelist_zone(&zones[at]))) {
			swap(zones[at], zones[at + 1]);
			return;
		}
#endif
}

/*
 * What a zone keeps from requests that may use the one beside the border: as without a border,
 * where that zone has all memory that lies above here. Devices that reach only low addresses
 * depend on it.
 */
static void keep_low_memory(struct zone *zone)
{
	struct zone *zones = zone->zone_pgdat->node_zones;
	int upper = ZONE_MOVABLE - 1;

	while (upper > zone_idx(zone) && !populated_zone(&zones[upper]))
		upper--;
	if (upper == zone_idx(zone))
		return;
	for (; upper < ZONE_MOVABLE; upper++)
		zone->lowmem_reserve[upper] = zone->lowmem_reserve[ZONE_MOVABLE];
}

/* Called when the kernel has computed its reserves, from boot on. */
void contiguitas_reserve(void)
{
	struct zone *zone;

	for_each_zone(zone) {
		if (is_confined(zone)) {
			keep_low_memory(zone);
			contiguitas_bar(zone);
		}
	}
}

/* What a zone keeps from requests that may use zones up to "highest". */
static unsigned long kept(struct zone *zone, enum zone_type highest)
{
	unsigned long most = 0;
	int upper;

	for (upper = zone_idx(zone); upper <= highest; upper++)
		most = max_t(unsigned long, most, zone->lowmem_reserve[upper]);
	return min(most + high_wmark_pages(zone), zone_managed_pages(zone));
}

/*
 * The kernel subtracts the reserves of all zones from what programs may take (MemAvailable,
 * limits on dirty memory, those of each node too). What is confined is partly in use, and would
 * be subtracted twice: count what a kernel without a border would.
 */
unsigned long contiguitas_total_reserve(unsigned long reserve)
{
	struct zone *zone;

	for_each_zone(zone) {
		unsigned long *of_node = &zone->zone_pgdat->totalreserve_pages;
		unsigned long all, less;

		if (!is_confined(zone))
			continue;
		/* The values may change meanwhile. */
		all = kept(zone, ZONE_MOVABLE);
		less = all - min(all, kept(zone, ZONE_MOVABLE - 1));
		reserve -= min(reserve, less);
		*of_node -= min(*of_node, less);
	}
	return reserve;
}

unsigned long contiguitas_size_below(const struct contiguitas_node *node)
{
	struct zone *zone;
	unsigned long pages = 0;

	for (zone = NODE_DATA(node->nid)->node_zones; zone <= node->lower; zone++)
		pages += zone_managed_pages(zone);
	return pages;
}

/* As the simulator's: a share of the node, never less than the zones' own marks or a pageblock. */
void contiguitas_marks(const struct contiguitas_node *node, struct contiguitas_marks *marks)
{
	const struct contiguitas_tunables *tunables = &contiguitas_tunables;
	unsigned long below = contiguitas_size_below(node);
	unsigned long pages = below + zone_managed_pages(node->movable);
	unsigned long long low = 0;
	struct zone *zone;

	for (zone = NODE_DATA(node->nid)->node_zones; zone <= node->lower; zone++)
		if (managed_zone(zone))
			low += low_wmark_pages(zone);
	low = max3(low, (unsigned long long)pages * READ_ONCE(tunables->low_per_1024) / 1024,
		   (unsigned long long)pageblock_nr_pages);
	marks->low[CONTIGUITAS_UNMOVABLE] = low;
	marks->target[CONTIGUITAS_UNMOVABLE] = low * READ_ONCE(tunables->target_lows);
	/* Above the target, or the region would shrink without end. */
	marks->high = low * max(READ_ONCE(tunables->high_lows), READ_ONCE(tunables->target_lows));
	marks->low[CONTIGUITAS_MOVABLE] = low_wmark_pages(node->movable);
	marks->target[CONTIGUITAS_MOVABLE] = high_wmark_pages(node->movable) + pageblock_nr_pages;
}

unsigned long contiguitas_droppable(struct zone *zone)
{
	unsigned long files = zone_page_state(zone, NR_ZONE_INACTIVE_FILE) +
			      zone_page_state(zone, NR_ZONE_ACTIVE_FILE);
	unsigned long busy = zone_page_state(zone, NR_ZONE_WRITE_PENDING);

	return files > busy ? files - busy : 0;
}

/*
 * What is free for ordinary requests: CMA's and the reserves against them are not. Page cache below
 * the border (that of block devices: the kernel asks for it as unmovable) counts as free. It must
 * not make the region grow, since reclaim can drop it.
 */
void contiguitas_available(const struct contiguitas_node *node,
			   unsigned long long available[CONTIGUITAS_REGIONS])
{
	unsigned long long below = 0;
	struct zone *zone;

	for (zone = NODE_DATA(node->nid)->node_zones; zone <= node->lower; zone++) {
		unsigned long free = zone_page_state_snapshot(zone, NR_FREE_PAGES);
		unsigned long barred = zone->lowmem_reserve[ZONE_NORMAL] +
				       zone_page_state(zone, NR_FREE_CMA_PAGES);

		below += free > barred ? free - barred : 0;
		below += contiguitas_droppable(zone);
	}
	available[CONTIGUITAS_UNMOVABLE] = below;
	available[CONTIGUITAS_MOVABLE] = zone_page_state_snapshot(node->movable, NR_FREE_PAGES);
}

/* The bands beside the border whose blocks are used last. */
void contiguitas_set_band(struct contiguitas_node *node)
{
	const unsigned int *share = contiguitas_tunables.band_per_1024;
	struct contiguitas_band *band = &contiguitas_bands[node->nid];
	unsigned long border = contiguitas_border(node);
	unsigned long below = border - NODE_DATA(node->nid)->node_start_pfn;
	unsigned long above = node->movable->spanned_pages;

	WRITE_ONCE(band->start, border - below / 1024 * READ_ONCE(share[CONTIGUITAS_UNMOVABLE]));
	WRITE_ONCE(band->end, border + above / 1024 * READ_ONCE(share[CONTIGUITAS_MOVABLE]));
}

/*
 * What the kernel would keep free without huge pages, in KiB, as calculate_min_free_kbytes()
 * computes it.
 */
static u64 usual_min_free_kbytes(u64 pages)
{
	u64 usual = int_sqrt64((pages << (PAGE_SHIFT - 10)) * 16);

	usual = clamp_t(u64, usual, 128, 262144);
	usual = max_t(s64, usual, user_min_free_kbytes);
	return min_t(u64, usual, min_free_kbytes);
}

/*
 * A zone's share of min_free_kbytes in pages, from which its marks follow.
 *
 * ZONE_MOVABLE has a share of all, which only sets the distance between its marks. The kernel
 * relates it to the lower zones, which are small here: kswapd would keep several times as much
 * of it free as without a border.
 *
 * The lower zones have, together, what is kept for requests that cannot wait. The kernel raises
 * min_free_kbytes to help huge pages, up to 5 % of memory. Those lie above, and below the
 * border all of it would be missing: it is more than the first border leaves free on a node of
 * 4 GiB.
 */
u64 contiguitas_share_of_min(struct zone *zone, u64 share)
{
	u64 below = 0, above = 0;
	struct zone *each;

	for_each_zone(each)
		*(zone_idx(each) == ZONE_MOVABLE ? &above : &below) += zone_managed_pages(each);
	/* Without a border all is as without the change. */
	if (!contiguitas_enabled || !above)
		return share;
	if (zone_idx(zone) == ZONE_MOVABLE)
		return mul_u64_u64_div_u64(min_free_kbytes >> (PAGE_SHIFT - 10),
					   zone_managed_pages(zone), below + above);
	return mul_u64_u64_div_u64(usual_min_free_kbytes(below + above) >> (PAGE_SHIFT - 10),
				   zone_managed_pages(zone), below);
}

/*
 * Marks and limits of the per-CPU lists follow the new sizes. Reserves do not: what lies above
 * any zone remains the same, and the zone below the border is barred while its span changes.
 */
void contiguitas_after_resize(void)
{
	setup_per_zone_wmarks();
	refresh_zone_stat_thresholds();
}
