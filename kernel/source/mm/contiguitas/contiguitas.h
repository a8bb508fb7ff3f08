/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of this folder share. */
#ifndef MM_CONTIGUITAS_H
#define MM_CONTIGUITAS_H

#include <linux/atomic.h>
#include <linux/contiguitas.h>
#include <linux/irq_work.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <linux/wait.h>

#include "sizing.h"

/* Averages of PSI's lengths: 10, 60 and 300 seconds. */
#define CONTIGUITAS_AVERAGES 3

/* The stalls for lack of one region's memory, as PSI counts "some". */
struct contiguitas_pressure {
	spinlock_t lock;
	unsigned int stalled;
	u64 since;
	u64 total;
	/* The resizer's own average, in millionths, and "total" when it was last taken. */
	unsigned int average;
	u64 counted;
	/* For /proc/pressure: fixed-point averages, "total" and time of their last update. */
	unsigned long averages[CONTIGUITAS_AVERAGES];
	u64 averaged;
	u64 averaged_at;
};

struct contiguitas_counts {
	unsigned long wake_ups, grown, shrunk, pages_migrated;
	unsigned long grow_failures, shrink_failures, aborted_handovers;
	unsigned long long move_ns, longest_handover_ns;
	unsigned long retired, recalled, slab_drops, cache_drops;
	atomic_long_t waits, waits_in_vain, wait_ns, pin_waits, oom_rescues, loans,
		compactions_skipped, retries, retries_in_vain;
};

/* The end of a pause and its length, in jiffies; no length if there is none. */
struct contiguitas_pause {
	unsigned long end, length;
};

struct contiguitas_node {
	int nid;
	/* The zone right below ZONE_MOVABLE, and ZONE_MOVABLE. */
	struct zone *lower, *movable;
	struct task_struct *thread;
	wait_queue_head_t wake;
	/* Woken after each move, and after each round that moved nothing. */
	wait_queue_head_t answered;
	atomic_t moves, rounds;
	/* Pages that waiting requests lack below the border. */
	atomic_long_t wanted;
	/* The OOM killer is about to act. */
	atomic_t emergency;
	/* Pages that users have got since then. */
	atomic_long_t given;
	bool kicked;
	/* Since when, in jiffies. */
	unsigned long kicked_at;
	/* The last round brought nothing, though the region below lacks memory. */
	bool stuck;
	/*
	 * Asks from where nobody can be woken; and the free pages below the border that call
	 * for it.
	 */
	struct irq_work ask;
	unsigned long surplus;
	/* It came: the thread has not retired it yet. */
	bool freed;
	/* The thread empties pageblocks and takes all their pages. */
	bool takes;
	/* For tests: which way the border went last. */
	bool up;
	/* Readers: who takes blocks off free lists by their number. Writer: a hand-over. */
	struct rw_semaphore blocks;
	struct contiguitas_resizer resizer;
	/* Until empty slabs, and caches, are dropped again to shrink. */
	struct contiguitas_pause slab_pause, cache_pause;
	/* When caches were dropped last, in jiffies. */
	unsigned long caches_dropped;
	/* The first of the retired pageblocks, which end at the border; 0 if there is none. */
	unsigned long retired_from;
	/* In pages below the border. */
	unsigned long floor, ceiling;
	/* What it keeps of its free pages while movable requests may use the others; else 0. */
	unsigned long lends;
	struct contiguitas_pressure pressure[CONTIGUITAS_REGIONS];
	struct contiguitas_counts counts;
	struct kobject *kobject;
};

struct contiguitas_tunables {
	/* As the simulator's Config. */
	unsigned int low_per_1024, target_lows, high_lows;
	unsigned int step_pageblocks, failure_pageblocks;
	unsigned int band_per_1024[CONTIGUITAS_REGIONS];
	/* Whether caches are dropped if nothing else helps to shrink. */
	unsigned int drop_caches;
	/* For tests: pageblocks by which the border moves back and forth at each wake-up. */
	unsigned int oscillate;
};

extern struct contiguitas_tunables contiguitas_tunables;
extern struct contiguitas_node *contiguitas_nodes[];
/* Stalls on any node. */
extern struct contiguitas_pressure contiguitas_system[];

static inline unsigned long contiguitas_border(const struct contiguitas_node *node)
{
	return READ_ONCE(node->movable->zone_start_pfn);
}

static inline bool contiguitas_is_retired(const struct contiguitas_node *node)
{
	return READ_ONCE(node->retired_from);
}

/* Who waits has more memory now. */
static inline void contiguitas_answer(struct contiguitas_node *node)
{
	atomic_inc(&node->moves);
	wake_up_all(&node->answered);
}

/* Managed pages of all zones below the border. */
unsigned long contiguitas_size_below(const struct contiguitas_node *node);
/* Page cache of a zone that need not be written first. */
unsigned long contiguitas_droppable(struct zone *zone);
void contiguitas_marks(const struct contiguitas_node *node, struct contiguitas_marks *marks);
void contiguitas_available(const struct contiguitas_node *node,
			   unsigned long long available[CONTIGUITAS_REGIONS]);

/* The border moves by that many pageblocks; 0 or an error. Called by the node's thread alone. */
int contiguitas_grow(struct contiguitas_node *node, unsigned int pageblocks);
int contiguitas_shrink(struct contiguitas_node *node, unsigned int pageblocks);
void contiguitas_set_band(struct contiguitas_node *node);
void contiguitas_after_resize(void);
void contiguitas_bar(struct zone *zone);
void contiguitas_lend(struct contiguitas_node *node, unsigned long target);
unsigned long contiguitas_lendable(const struct contiguitas_node *node, unsigned long target);
/* The border of this node cannot move: its memory is managed as without the change. */
void contiguitas_release(int nid);
/*
 * Whether the zone below the border is as small as it can be; and whether that many pages can
 * leave it.
 */
bool contiguitas_is_lowest(const struct contiguitas_node *node);
bool contiguitas_can_shrink(const struct contiguitas_node *node, unsigned long pages);

unsigned int contiguitas_retire(struct contiguitas_node *node, unsigned int pageblocks);
void contiguitas_unretire(struct contiguitas_node *node, unsigned long start);
void contiguitas_retire_again(struct contiguitas_node *node, unsigned long from,
			      unsigned long start);
unsigned int contiguitas_recall(struct contiguitas_node *node, unsigned long pages, int type);
/* Free pages of retired pageblocks, which the kernel does not count as free. */
unsigned long contiguitas_retired_free(const struct contiguitas_node *node);
bool contiguitas_may_empty(unsigned long start, unsigned long end);

int contiguitas_create_thread(struct contiguitas_node *node);
void contiguitas_ask(struct contiguitas_node *node);
void contiguitas_ask_later(struct irq_work *work);

void contiguitas_pressure_init(struct contiguitas_pressure *pressure);
void contiguitas_stall_change(struct contiguitas_node *node, enum contiguitas_region region,
			      bool begins);
/* Takes what stalled in the last "period" ns into the resizer's average; in thousandths. */
unsigned int contiguitas_pressure_tick(struct contiguitas_pressure *pressure, u64 period);
int contiguitas_pressure_print(char *buffer, struct contiguitas_pressure *pressure);

/* Whether "pages" are available below the border, above its low mark. */
bool contiguitas_has_room(const struct contiguitas_node *node, unsigned long pages);
int contiguitas_running_out_init(void);
int contiguitas_sysfs_init(void);

#endif
