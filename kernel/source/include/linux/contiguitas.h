/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the rest of memory management calls of Contiguitas. The hooks compile to nothing without
 * CONFIG_CONTIGUITAS, and to a static branch that is not taken while it is switched off.
 */
#ifndef _LINUX_CONTIGUITAS_H
#define _LINUX_CONTIGUITAS_H

#include <linux/compaction.h>
#include <linux/gfp.h>
#include <linux/jump_label.h>
#include <linux/mmzone.h>
#include <linux/page-isolation.h>
#include <linux/sched.h>

struct alloc_context;

/* The kernel's setup_per_zone_lowmem_reserve(), by a name that others can call. */
void contiguitas_update_reserves(void);
/*
 * Slabs without objects, kept for the next request, go from all caches: a burst leaves them
 * beside the border.
 */
void contiguitas_drop_empty_slabs(void);

#ifdef CONFIG_CONTIGUITAS

DECLARE_STATIC_KEY_FALSE(contiguitas_key);

static inline bool contiguitas_active(void)
{
	return static_branch_unlikely(&contiguitas_key);
}

/* Boot. */
/* Whether the border shall exist at all: set before memory is divided into zones. */
extern bool contiguitas_enabled;
void contiguitas_boot_memory(void);
bool contiguitas_place_borders(unsigned long *movable_pfn, unsigned long lowest_usable);

/* Whether memory blocks of a node stay as they are; says so. */
bool __contiguitas_keeps_online(int nid);

static inline bool contiguitas_keeps_online(int nid)
{
	return contiguitas_active() && __contiguitas_keeps_online(nid);
}

/* Confinement. */
void contiguitas_order_zones(struct zoneref *zones, int count);
void contiguitas_reserve(void);
unsigned long contiguitas_total_reserve(unsigned long reserve);
u64 contiguitas_share_of_min(struct zone *zone, u64 share);

/* Who takes a pageblock off the lists by its number must not meet a hand-over. */
bool __contiguitas_read_trylock(struct zone *zone);
void __contiguitas_read_unlock(struct zone *zone);
bool __contiguitas_mover_waits(struct zone *zone);

static inline bool contiguitas_read_trylock(struct zone *zone)
{
	return !contiguitas_active() || __contiguitas_read_trylock(zone);
}

static inline void contiguitas_read_unlock(struct zone *zone)
{
	if (contiguitas_active())
		__contiguitas_read_unlock(zone);
}

static inline bool contiguitas_mover_waits(struct zone *zone)
{
	return contiguitas_active() && __contiguitas_mover_waits(zone);
}

/*
 * Whether compaction looks at every page of a zone for a free one: above the border, at the
 * highest priority, which contiguitas_retry() sets. Otherwise it samples: a few entries of the
 * free lists, after which it may skip the upper half of the zone, and every 32nd page once some
 * pageblocks had no free one. If all free pages lie between these, it finds none, and a further
 * try does not either.
 */
static inline bool contiguitas_scans_all(struct zone *zone, bool highest_priority)
{
	return contiguitas_active() && highest_priority && zone_idx(zone) == ZONE_MOVABLE;
}

/* Whether what a hand-over allocates stays as it is. Not if it was asked for cleared. */
bool __contiguitas_takes(void);

static inline bool contiguitas_takes(gfp_t flags)
{
	return contiguitas_active() && (current->flags & PF_KTHREAD) && !(flags & __GFP_ZERO) &&
	       __contiguitas_takes();
}

/* Whether a page still lies in the zone whose lock was taken for it. */
#define contiguitas_changed_zone(page, zone) (contiguitas_active() && page_zone(page) != (zone))

/*
 * Whether unmovable and reclaimable requests share the pageblocks of a zone: its node has a
 * ZONE_MOVABLE for others.
 */
static inline bool contiguitas_mixes(struct zone *zone)
{
	return contiguitas_active() &&
	       populated_zone(&zone->zone_pgdat->node_zones[ZONE_MOVABLE]);
}

/* Running out. */
bool __contiguitas_wake(struct zone *zone, enum zone_type highest);
bool __contiguitas_wait(const struct alloc_context *ac, unsigned int order, unsigned int *waits);
void __contiguitas_prepare_pins(unsigned long pages);
bool __contiguitas_retry(const struct alloc_context *ac, unsigned int order, int tries,
			 enum compact_priority *priority);

static inline bool contiguitas_wake(struct zone *zone, enum zone_type highest)
{
	return contiguitas_active() && __contiguitas_wake(zone, highest);
}

static inline bool contiguitas_wait(const struct alloc_context *ac, unsigned int order,
				    unsigned int *waits)
{
	return contiguitas_active() && __contiguitas_wait(ac, order, waits);
}

static inline void contiguitas_prepare_pins(unsigned long pages)
{
	if (contiguitas_active())
		__contiguitas_prepare_pins(pages);
}

static inline bool contiguitas_retry(const struct alloc_context *ac, unsigned int order, int tries,
				     enum compact_priority *priority)
{
	return contiguitas_active() && __contiguitas_retry(ac, order, tries, priority);
}

/* Pressure. */
void __contiguitas_stall(const struct alloc_context *ac, bool begins);

static inline void contiguitas_stall_begin(const struct alloc_context *ac)
{
	if (contiguitas_active())
		__contiguitas_stall(ac, true);
}

static inline void contiguitas_stall_end(const struct alloc_context *ac)
{
	if (contiguitas_active())
		__contiguitas_stall(ac, false);
}

/* Placement. */
extern bool contiguitas_gigantic_movable;

/*
 * For each node the first page of the band below the border and the first one after the band
 * above.
 */
struct contiguitas_band {
	unsigned long start, end;
};
extern struct contiguitas_band contiguitas_bands[];

void __contiguitas_freed(struct zone *zone);

/* A block of this order comes free. Whether it is to be used last. */
static inline bool contiguitas_comes_last(struct zone *zone, unsigned long pfn,
					  unsigned int order)
{
	struct contiguitas_band *band;

	if (!contiguitas_active())
		return false;
	if (order >= pageblock_order)
		__contiguitas_freed(zone);
	band = &contiguitas_bands[zone_to_nid(zone)];
	return pfn >= READ_ONCE(band->start) && pfn < READ_ONCE(band->end);
}

/*
 * Whether a page lies in a pageblock that is to change sides. Without locks: it may be retired or
 * used again right now, which costs a try to shrink at worst.
 */
static inline bool contiguitas_is_retired_page(struct page *page)
{
	return contiguitas_active() && page_zonenum(page) < ZONE_MOVABLE &&
	       is_migrate_isolate_page(page);
}

/*
 * Retired slabs that a request passes by in a node's list, with interrupts off, before it takes
 * a new one: chosen.
 */
#define CONTIGUITAS_MOST_PASSED 64

static inline bool contiguitas_passes_enough(struct page *page, unsigned int *passed)
{
	return contiguitas_is_retired_page(page) && ++*passed > CONTIGUITAS_MOST_PASSED;
}

/* Gigantic pages can be migrated while nobody pins them, so they may lie above the border. */
static inline gfp_t contiguitas_gigantic_gfp(gfp_t gfp)
{
	if (contiguitas_active() && READ_ONCE(contiguitas_gigantic_movable))
		gfp |= __GFP_HIGHMEM | __GFP_MOVABLE;
	return gfp;
}

#else

#define contiguitas_enabled false
static inline void contiguitas_boot_memory(void) {}
static inline bool contiguitas_place_borders(unsigned long *movable_pfn,
					     unsigned long lowest_usable) { return false; }
static inline void contiguitas_order_zones(struct zoneref *zones, int count) {}
static inline void contiguitas_reserve(void) {}
static inline unsigned long contiguitas_total_reserve(unsigned long reserve) { return reserve; }
static inline u64 contiguitas_share_of_min(struct zone *zone, u64 share) { return share; }
static inline bool contiguitas_read_trylock(struct zone *zone) { return true; }
static inline void contiguitas_read_unlock(struct zone *zone) {}
static inline bool contiguitas_mover_waits(struct zone *zone) { return false; }
static inline bool contiguitas_scans_all(struct zone *zone, bool highest_priority) { return false; }
static inline bool contiguitas_takes(gfp_t flags) { return false; }
#define contiguitas_changed_zone(page, zone) false
static inline bool contiguitas_wake(struct zone *zone, enum zone_type highest) { return false; }
static inline bool contiguitas_keeps_online(int nid) { return false; }
static inline bool contiguitas_mixes(struct zone *zone) { return false; }
static inline bool contiguitas_wait(const struct alloc_context *ac, unsigned int order,
				    unsigned int *waits) { return false; }
static inline void contiguitas_prepare_pins(unsigned long pages) {}
static inline bool contiguitas_retry(const struct alloc_context *ac, unsigned int order, int tries,
				     enum compact_priority *priority) { return false; }
static inline void contiguitas_stall_begin(const struct alloc_context *ac) {}
static inline void contiguitas_stall_end(const struct alloc_context *ac) {}
static inline bool contiguitas_comes_last(struct zone *zone, unsigned long pfn,
					  unsigned int order) { return false; }
static inline bool contiguitas_is_retired_page(struct page *page) { return false; }
static inline bool contiguitas_passes_enough(struct page *page,
					     unsigned int *passed) { return false; }
static inline gfp_t contiguitas_gigantic_gfp(gfp_t gfp) { return gfp; }

#endif
#endif
