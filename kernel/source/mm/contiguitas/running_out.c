// SPDX-License-Identifier: GPL-2.0-only
/*
 * What happens when a region runs out, or has far too much: the thread is woken early; a
 * request that may wait does so for a bounded time; one for a huge page is tried again; room is
 * made before long pins; the OOM killer asks first.
 */
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/psi.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "../internal.h"
#include "contiguitas.h"

#include <trace/events/contiguitas.h>

/* The longest that a request waits for one move: chosen, ten moves of 8 MiB as measured. */
#define LONGEST_WAIT (HZ / 10)
/* The longest that a long pin waits for its room: chosen, for 4 GiB at the same pace. */
#define LONGEST_PIN_WAIT (5 * HZ)
/* How often one request waits before it goes the kernel's usual way for good: chosen. */
#define MOST_WAITS 8
/* The longest that the OOM killer waits: chosen. */
#define LONGEST_RESCUE HZ

/* The longest that kswapd is held back for a thread that was asked: chosen, two of its periods. */
#define LONGEST_HOLD (HZ / 5)

/*
 * Whether the region below the border lacks what the other side has, and the thread can bring
 * it.
 */
static bool growth_will_do(const struct contiguitas_node *node)
{
	unsigned long long available[CONTIGUITAS_REGIONS];
	struct contiguitas_marks marks;

	if (READ_ONCE(node->stuck) ||
	    time_after(jiffies, READ_ONCE(node->kicked_at) + LONGEST_HOLD) ||
	    contiguitas_size_below(node) + pageblock_nr_pages > READ_ONCE(node->ceiling))
		return false;
	contiguitas_marks(node, &marks);
	contiguitas_available(node, available);
	available[CONTIGUITAS_MOVABLE] += contiguitas_droppable(node->movable);
	return available[CONTIGUITAS_UNMOVABLE] < marks.low[CONTIGUITAS_UNMOVABLE] &&
	       available[CONTIGUITAS_MOVABLE] >=
		       marks.low[CONTIGUITAS_MOVABLE] + pageblock_nr_pages;
}

/*
 * Reclaim begins: something is below its low mark. Whether kswapd need not run. For a request that
 * cannot use ZONE_MOVABLE it would scan all pages of users to find that they lie above the border.
 * It has to run for zones that growth does not reach, and to end a boost of their marks.
 */
bool __contiguitas_wake(struct zone *zone, enum zone_type highest)
{
	struct contiguitas_node *node = contiguitas_nodes[zone_to_nid(zone)];

	if (!node)
		return false;
	if (!READ_ONCE(node->kicked))
		contiguitas_ask(node);
	return highest < ZONE_MOVABLE && highest >= zone_idx(node->lower) &&
	       !zone->watermark_boost && growth_will_do(node);
}

void contiguitas_ask(struct contiguitas_node *node)
{
	if (!READ_ONCE(node->kicked))
		WRITE_ONCE(node->kicked_at, jiffies);
	WRITE_ONCE(node->kicked, true);
	wake_up(&node->wake);
}

void contiguitas_ask_later(struct irq_work *work)
{
	struct contiguitas_node *node = container_of(work, struct contiguitas_node, ask);

	WRITE_ONCE(node->freed, true);
	contiguitas_ask(node);
}

/*
 * A pageblock came free. If that leaves far too much below the border, the thread looks at
 * once, even if it has just decided: it retires what a burst held while the burst still frees
 * it. The last pages freed are the first to be used again, and they lie beside the border.
 * Under zone->lock, where nobody can be woken.
 */
void __contiguitas_freed(struct zone *zone)
{
	struct contiguitas_node *node = contiguitas_nodes[zone_to_nid(zone)];

	if (node && zone == node->lower && !READ_ONCE(node->freed) &&
	    zone_page_state(zone, NR_FREE_PAGES) > READ_ONCE(node->surplus))
		irq_work_queue(&node->ask);
}

/* Whether this number of pages is available below the border, above its low mark. */
bool contiguitas_has_room(const struct contiguitas_node *node, unsigned long pages)
{
	unsigned long long available[CONTIGUITAS_REGIONS];
	struct contiguitas_marks marks;

	contiguitas_marks(node, &marks);
	contiguitas_available(node, available);
	return available[CONTIGUITAS_UNMOVABLE] >= marks.low[CONTIGUITAS_UNMOVABLE] + pages;
}

/*
 * Whether a request that asked has an answer. One move is enough for a few pages. Who needs
 * room for many waits until all of it is there: every further request would be served on top of
 * this one.
 */
static bool is_answered(struct contiguitas_node *node, int moves, int rounds, unsigned long room)
{
	/* A round that was under way may not have known of this request: the second one did. */
	if (atomic_read(&node->rounds) - rounds >= 2)
		return true;
	return room ? contiguitas_has_room(node, room) : atomic_read(&node->moves) != moves;
}

/*
 * Asks for pages below the border and waits for an answer: for a move, or for as much room as is
 * named. Whether it came.
 */
static bool wait_for(struct contiguitas_node *node, unsigned long pages, unsigned long room,
		     unsigned long longest)
{
	int moves = atomic_read(&node->moves), rounds = atomic_read(&node->rounds);
	u64 began = ktime_get_ns(), waited;
	unsigned long pressure;
	bool served;

	atomic_long_add(pages, &node->wanted);
	contiguitas_ask(node);
	psi_memstall_enter(&pressure);
	contiguitas_stall_change(node, CONTIGUITAS_UNMOVABLE, true);
	/*
	 * Without room it is a short wait, and not killable: a victim of the OOM killer asks for
	 * memory to end, too.
	 */
	if (room)
		wait_event_killable_timeout(node->answered,
					    is_answered(node, moves, rounds, room), longest);
	else
		wait_event_timeout(node->answered, is_answered(node, moves, rounds, room), longest);
	contiguitas_stall_change(node, CONTIGUITAS_UNMOVABLE, false);
	psi_memstall_leave(&pressure);
	served = room ? contiguitas_has_room(node, room) : atomic_read(&node->moves) != moves;
	waited = ktime_get_ns() - began;
	atomic_long_inc(&node->counts.waits);
	atomic_long_add(waited, &node->counts.wait_ns);
	if (!served)
		atomic_long_inc(&node->counts.waits_in_vain);
	trace_contiguitas_wait(node->nid, pages, served, waited);
	return served;
}

/*
 * Before direct reclaim: an unmovable request that may wait does so. Reclaim would scan memory that
 * it cannot use. Whether to try again, that is, whether the border moved.
 */
bool __contiguitas_wait(const struct alloc_context *ac, unsigned int order, unsigned int *waits)
{
	struct zone *zone = ac->preferred_zoneref->zone;
	struct contiguitas_node *node = zone ? contiguitas_nodes[zone_to_nid(zone)] : NULL;

	/* What must lie in a zone further below cannot use what the border would bring. */
	if (!node || ac->highest_zoneidx == ZONE_MOVABLE ||
	    ac->highest_zoneidx < zone_idx(node->lower) || current == node->thread)
		return false;
	if (*waits >= MOST_WAITS)
		return false;
	/* While users have memory here, reclaim finds some. */
	if (READ_ONCE(node->lends) && contiguitas_has_room(node, 1UL << order))
		return false;
	(*waits)++;
	return wait_for(node, 1UL << order, 0, LONGEST_WAIT);
}

/*
 * A movable request of a high order that may be tried again (as for hugetlb pages) is about to
 * fail. The kernel tries again while some zone would have a free block of that order if all
 * that can be reclaimed were. The zones below the border are barred, so as soon as the movable
 * region has no such block, the first failure of compaction would be the last. There every
 * pageblock can become one: what counts is whether reclaim leaves compaction the pages that it
 * needs. Compaction then looks at all of the zone, wherever it stopped before, and however long
 * it was to pause, and at each page for a free one (contiguitas_scans_all()). Once at least:
 * kcompactd may have made a block now and then, for which the kernel used up all tries while
 * compaction paused.
 */
bool __contiguitas_retry(const struct alloc_context *ac, unsigned int order, int tries,
			 enum compact_priority *priority)
{
	struct zone *zone = ac->preferred_zoneref->zone;
	struct contiguitas_node *node = zone ? contiguitas_nodes[zone_to_nid(zone)] : NULL;
	unsigned long pages;

	if (!node || ac->highest_zoneidx != ZONE_MOVABLE || order <= PAGE_ALLOC_COSTLY_ORDER ||
	    fatal_signal_pending(current))
		return false;
	pages = zone_page_state_snapshot(node->movable, NR_FREE_PAGES) +
		contiguitas_droppable(node->movable);
	if (pages < low_wmark_pages(node->movable) + compact_gap(order) + (1UL << order))
		return false;
	if (tries > MAX_RECLAIM_RETRIES && *priority == MIN_COMPACT_PRIORITY) {
		atomic_long_inc(&node->counts.retries_in_vain);
		return false;
	}
	atomic_long_inc(&node->counts.retries);
	*priority = MIN_COMPACT_PRIORITY;
	return true;
}

/*
 * Before a long pin: its pages are going to be migrated below the border. While they are isolated
 * for that the border cannot pass them, so room is made first.
 */
void __contiguitas_prepare_pins(unsigned long pages)
{
	struct contiguitas_node *node = contiguitas_nodes[numa_mem_id()];
	int tries;

	/* Others may take what was made room for. */
	for (tries = 0; node && tries < MOST_WAITS && !contiguitas_has_room(node, pages); tries++) {
		atomic_long_inc(&node->counts.pin_waits);
		if (!wait_for(node, pages, pages, LONGEST_PIN_WAIT))
			return;
	}
}

/* The last resort before a task is killed: whichever region can give memory does. */
static int rescue(struct notifier_block *self, unsigned long unused, void *freed)
{
	int nid;

	for_each_online_node(nid) {
		struct contiguitas_node *node = contiguitas_nodes[nid];
		int rounds;
		long given;

		if (!node || current == node->thread)
			continue;
		rounds = atomic_read(&node->rounds);
		atomic_long_set(&node->given, 0);
		atomic_set(&node->emergency, 1);
		contiguitas_ask(node);
		wait_event_timeout(node->answered, atomic_long_read(&node->given) ||
				   atomic_read(&node->rounds) - rounds >= 2, LONGEST_RESCUE);
		given = atomic_long_read(&node->given);
		if (given) {
			atomic_long_inc(&node->counts.oom_rescues);
			*(unsigned long *)freed += given;
		}
	}
	return NOTIFY_OK;
}

static struct notifier_block oom_notifier = { .notifier_call = rescue };

int contiguitas_running_out_init(void)
{
	return register_oom_notifier(&oom_notifier);
}
