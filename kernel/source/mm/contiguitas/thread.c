// SPDX-License-Identifier: GPL-2.0-only
/* The thread of each node that moves its border, and what it decides from. */
#include <linux/freezer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/clock.h>
#include <linux/swap.h>

#include "../internal.h"
#include "contiguitas.h"

#include <trace/events/contiguitas.h>

/* Between two decisions, at least: the simulator's wake-ups are as far apart. */
#define PERIOD (HZ / 10)
/* Between two looks while nothing happens: chosen. */
#define IDLE_PERIOD HZ
/* Pageblocks that change sides together, if they can: chosen, since each call drains all CPUs. */
#define TOGETHER 4
/* Pauses after empty slabs, and caches, were dropped to shrink; doubled each time: chosen. */
#define SLAB_PAUSE (HZ / 5)
#define LONGEST_SLAB_PAUSE (10 * HZ)
#define FIRST_CACHE_PAUSE (10 * HZ)
#define CACHE_PAUSE (60 * HZ)
#define LONGEST_CACHE_PAUSE (3600 * HZ)

DEFINE_STATIC_KEY_FALSE(contiguitas_key);
bool contiguitas_gigantic_movable __read_mostly = true;

/* The simulator's defaults (Config in crates/frames/src/placement/regions/config.rs). */
struct contiguitas_tunables contiguitas_tunables = {
	.low_per_1024 = 4,
	.target_lows = 2,
	.high_lows = 4,
	.step_pageblocks = 64,
	.failure_pageblocks = 16,
	.band_per_1024 = { 64, 16 },
	.drop_caches = 1,
};

/* What the node is like. Returns how many of the pages available below are retired. */
static unsigned long observe(struct contiguitas_node *node, struct contiguitas_view *view,
			     u64 period)
{
	unsigned long retired = contiguitas_retired_free(node);
	struct contiguitas_marks marks;
	int region;

	contiguitas_marks(node, &marks);
	contiguitas_available(node, view->available);
	/* They come back as soon as they are needed. */
	view->available[CONTIGUITAS_UNMOVABLE] += retired;
	view->size = contiguitas_size_below(node);
	view->high = marks.high;
	WRITE_ONCE(node->surplus, marks.high);
	for (region = 0; region < CONTIGUITAS_REGIONS; region++) {
		view->low[region] = marks.low[region];
		view->pressure[region] = contiguitas_pressure_tick(&node->pressure[region], period);
	}
	return retired;
}

/* Some pageblocks together, or else one. How many moved. */
static unsigned int step(struct contiguitas_node *node, bool up, unsigned int most)
{
	unsigned int together = min_t(unsigned int, most, TOGETHER);
	int (*move)(struct contiguitas_node *, unsigned int) =
		up ? contiguitas_grow : contiguitas_shrink;

	if (!move(node, together))
		return together;
	return together > 1 && !move(node, 1) ? 1 : 0;
}

static bool goes_up(const struct contiguitas_decision *decision)
{
	return decision->resize == CONTIGUITAS_GROW;
}

/* The most pageblocks that may move at once without overshooting the decision's target. */
static unsigned int may_move_together(const struct contiguitas_node *node,
				      const struct contiguitas_decision *decision,
				      unsigned int left)
{
	unsigned long long available[CONTIGUITAS_REGIONS];
	struct contiguitas_marks marks;
	unsigned int count = 0;
	long sign = goes_up(decision) ? 1 : -1;

	contiguitas_marks(node, &marks);
	contiguitas_available(node, available);
	/* Growing drops page cache where nothing is free. */
	if (goes_up(decision))
		available[CONTIGUITAS_MOVABLE] += contiguitas_droppable(node->movable);
	else
		available[CONTIGUITAS_UNMOVABLE] += contiguitas_retired_free(node);
	while (count < min_t(unsigned int, left, TOGETHER) &&
	       contiguitas_goes_on(decision, available, &marks, pageblock_nr_pages)) {
		available[CONTIGUITAS_UNMOVABLE] += sign * (long)pageblock_nr_pages;
		available[CONTIGUITAS_MOVABLE] -= sign * (long)pageblock_nr_pages;
		count++;
	}
	return count;
}

/* Moves the border as decided, a bounded number of pageblocks. How many it came. */
static unsigned int carry_out(struct contiguitas_node *node,
			      const struct contiguitas_decision *decision, unsigned int most)
{
	unsigned int done = 0;

	while (done < most && !kthread_should_stop()) {
		unsigned int count = may_move_together(node, decision, most - done);

		if (count)
			count = step(node, goes_up(decision), count);
		if (!count)
			break;
		done += count;
		/* Growth for who waits goes before shrinking. */
		if (!goes_up(decision) && atomic_long_read(&node->wanted))
			break;
	}
	return done;
}

/*
 * Everything that shrinkers can free goes, as with "echo 2 > /proc/sys/vm/drop_caches": directory
 * entries and inodes of a burst, pages that the kernel keeps for later. They cannot be told to free
 * those beside the border, and the youngest go last.
 */
static void drop_caches(const struct contiguitas_node *node)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	struct mem_cgroup *memcg = mem_cgroup_iter(NULL, NULL, NULL);

	do {
		shrink_slab(GFP_KERNEL, node->nid, memcg, 0);
	} while ((memcg = mem_cgroup_iter(NULL, memcg, NULL)));
#else
	drop_slab();
#endif
}

/*
 * What is free below the border beyond the region's target is retired, from the border down.
 * How many pageblocks.
 */
static unsigned int retire_surplus(struct contiguitas_node *node)
{
	unsigned int retired = 0, more;
	int tries;

	/* A pageblock that is partly in use is worth less than a whole one: hence again. */
	for (tries = 0; tries < 4; tries++) {
		unsigned long long available[CONTIGUITAS_REGIONS], target;
		struct contiguitas_marks marks;

		contiguitas_marks(node, &marks);
		contiguitas_available(node, available);
		target = marks.target[CONTIGUITAS_UNMOVABLE];
		if (available[CONTIGUITAS_UNMOVABLE] < target + pageblock_nr_pages)
			break;
		more = contiguitas_retire(node, (available[CONTIGUITAS_UNMOVABLE] - target) /
					  pageblock_nr_pages);
		if (!more)
			break;
		retired += more;
	}
	return retired;
}

static void drop_slabs(struct contiguitas_node *node)
{
	contiguitas_drop_empty_slabs();
	node->counts.slab_drops++;
}

/*
 * Retires what is free beyond the target. Each CPU puts new objects into the slabs that it has:
 * away from those of a burst. What is lent cannot be retired.
 */
static void retire(struct contiguitas_node *node)
{
	if (!node->lends && retire_surplus(node))
		drop_slabs(node);
}

/* Retired pageblocks are used again until the region has its target and "beyond" pages more. */
static unsigned int recall(struct contiguitas_node *node, unsigned long long beyond)
{
	unsigned long long available[CONTIGUITAS_REGIONS];
	struct contiguitas_marks marks;
	unsigned int done = 0;

	contiguitas_marks(node, &marks);
	contiguitas_available(node, available);
	beyond += marks.target[CONTIGUITAS_UNMOVABLE];
	if (available[CONTIGUITAS_UNMOVABLE] < beyond)
		done = contiguitas_recall(node, beyond - available[CONTIGUITAS_UNMOVABLE],
					  MIGRATE_UNMOVABLE);
	if (done) {
		/*
		 * For who waits it is as if the border had moved, and for the hold against
		 * turning.
		 */
		contiguitas_answer(node);
		contiguitas_moved(&node->resizer, CONTIGUITAS_GROW);
	}
	return done;
}

/* Whether a pause is over; the next one is twice as long. */
static bool is_time(struct contiguitas_pause *pause, unsigned long shortest, unsigned long longest)
{
	if (pause->length && time_before(jiffies, pause->end))
		return false;
	pause->length = clamp_t(unsigned long, pause->length * 2, shortest, longest);
	pause->end = jiffies + pause->length;
	return true;
}

/* Shrinks. If nothing moves, slabs that are empty and then caches give way: ever more seldom. */
static unsigned int shrink(struct contiguitas_node *node,
			   const struct contiguitas_decision *decision)
{
	unsigned int most = READ_ONCE(contiguitas_tunables.step_pageblocks);
	unsigned int done;

	if (decision->resize == CONTIGUITAS_SHRINK)
		retire(node);
	/* At a limit nothing that gives way would help. */
	if (!most || !contiguitas_can_shrink(node, pageblock_nr_pages))
		return 0;
	done = carry_out(node, decision, most);
	if (!done && is_time(&node->slab_pause, SLAB_PAUSE, LONGEST_SLAB_PAUSE)) {
		drop_slabs(node);
		done = carry_out(node, decision, most);
	}
	if (!done && decision->resize == CONTIGUITAS_SHRINK &&
	    READ_ONCE(contiguitas_tunables.drop_caches) &&
	    is_time(&node->cache_pause, CACHE_PAUSE, LONGEST_CACHE_PAUSE)) {
		drop_caches(node);
		node->caches_dropped = jiffies;
		node->counts.cache_drops++;
		drop_slabs(node);
		done = carry_out(node, decision, most);
	}
	if (done)
		node->slab_pause.length = 0;
	return done;
}

/*
 * The region grows: what has to go later may take a while to be freed by itself. The next drop of
 * caches may come sooner than the last one's pause says, but never within a minute of that one.
 */
static void expect_surplus(struct contiguitas_node *node)
{
	unsigned long soonest = jiffies + FIRST_CACHE_PAUSE;
	unsigned long spaced = node->caches_dropped + CACHE_PAUSE;

	node->cache_pause.length = FIRST_CACHE_PAUSE;
	node->cache_pause.end = time_after(spaced, soonest) ? spaced : soonest;
}

/* Requests wait: the region grows until they have what they lack above its low mark. */
static unsigned int serve(struct contiguitas_node *node, unsigned long wanted)
{
	struct contiguitas_decision grow = { CONTIGUITAS_GROW, 0 };
	unsigned int most = READ_ONCE(contiguitas_tunables.failure_pageblocks);
	unsigned int done;

	most = max_t(unsigned long, most, DIV_ROUND_UP(wanted, pageblock_nr_pages) + 1);
	grow.beyond = wanted;
	expect_surplus(node);
	done = recall(node, wanted);
	done += carry_out(node, &grow, most);
	/*
	 * What is free may lie in small blocks: a request of a high order needs one pageblock more,
	 * as long as the other side has it.
	 */
	if (!done && wanted > 1)
		done = step(node, true, 1);
	if (done)
		contiguitas_moved(&node->resizer, CONTIGUITAS_GROW);
	return done;
}

/*
 * A page that stays beside the border keeps all free memory below it, and so does the lowest
 * place that the border can have. Rather than let users wait for reclaim, or kill one, the
 * region lends what it has beyond its target: movable requests may use it where it lies. It is
 * theirs until they free it; a hand-over migrates it to another place below. Unmovable requests
 * avoid what was retired for as long as they have other pageblocks. How many pages users get.
 */
static unsigned long lend(struct contiguitas_node *node)
{
	struct contiguitas_marks marks;
	unsigned long target, pages;

	contiguitas_marks(node, &marks);
	target = marks.target[CONTIGUITAS_UNMOVABLE];
	if (node->lends || contiguitas_lendable(node, target) + contiguitas_retired_free(node) <
			   pageblock_nr_pages)
		return 0;
	contiguitas_recall(node, ULONG_MAX, MIGRATE_MOVABLE);
	pages = contiguitas_lendable(node, target);
	if (pages) {
		contiguitas_lend(node, target);
		atomic_long_inc(&node->counts.loans);
		contiguitas_answer(node);
	}
	return pages;
}

/* Whether users wait for memory so often that the region below shall give some. */
static bool users_press(const struct contiguitas_node *node, const struct contiguitas_view *view)
{
	return view->pressure[CONTIGUITAS_MOVABLE] >=
	       node->resizer.tuning.threshold[CONTIGUITAS_MOVABLE];
}

/*
 * No more is lent as soon as the region below lacks memory itself, or the one above has its own
 * target again and its users do not wait. What the border cannot reach is lent as long as it is
 * not needed.
 */
static void end_loan(struct contiguitas_node *node, const struct contiguitas_view *view)
{
	struct contiguitas_marks marks;

	if (!node->lends)
		return;
	contiguitas_marks(node, &marks);
	if (view->available[CONTIGUITAS_UNMOVABLE] >= view->low[CONTIGUITAS_UNMOVABLE] &&
	    (users_press(node, view) || contiguitas_is_lowest(node) ||
	     view->available[CONTIGUITAS_MOVABLE] < marks.target[CONTIGUITAS_MOVABLE]))
		return;
	contiguitas_lend(node, 0);
}

/*
 * A task is about to be killed. Growth first, for reclaim can help the other side. The killer
 * is told what was given, and only that: if it cannot help, the task has to be killed.
 */
static unsigned int rescue(struct contiguitas_node *node)
{
	struct contiguitas_decision decision = { CONTIGUITAS_GROW, 0 };
	unsigned int most = READ_ONCE(contiguitas_tunables.failure_pageblocks);
	unsigned long long available[CONTIGUITAS_REGIONS];
	struct contiguitas_marks marks;
	unsigned long given;
	unsigned int done;

	contiguitas_marks(node, &marks);
	contiguitas_available(node, available);
	if (available[CONTIGUITAS_UNMOVABLE] >= marks.low[CONTIGUITAS_UNMOVABLE])
		decision.resize = CONTIGUITAS_YIELD;
	done = goes_up(&decision) ? recall(node, 0) : 0;
	done += carry_out(node, &decision, most);
	given = done * pageblock_nr_pages;
	if (done)
		contiguitas_moved(&node->resizer, decision.resize);
	else if (!goes_up(&decision) &&
		 available[CONTIGUITAS_MOVABLE] < marks.target[CONTIGUITAS_MOVABLE])
		given = lend(node);
	atomic_long_set(&node->given, given);
	return done;
}

static unsigned int resize(struct contiguitas_node *node, u64 period)
{
	struct contiguitas_decision decision;
	struct contiguitas_view view;
	unsigned int done = 0;
	unsigned long retired;

	retired = observe(node, &view, period);
	end_loan(node, &view);
	/* Short of what is in use, though not with what is retired. */
	if (view.available[CONTIGUITAS_UNMOVABLE] < view.low[CONTIGUITAS_UNMOVABLE] + retired)
		recall(node, 0);
	decision = contiguitas_decide(&node->resizer, &view);
	trace_contiguitas_decide(node->nid, &view, decision.resize, decision.beyond,
				 contiguitas_border(node));
	if (decision.resize == CONTIGUITAS_STAY)
		return 0;
	if (goes_up(&decision)) {
		expect_surplus(node);
		done = recall(node, decision.beyond);
		done += carry_out(node, &decision, READ_ONCE(contiguitas_tunables.step_pageblocks));
	} else {
		done = shrink(node, &decision);
		/* What the floor keeps is lent in an emergency only. */
		if (!done && (contiguitas_is_lowest(node) ||
			      (contiguitas_is_retired(node) && users_press(node, &view))))
			lend(node);
	}
	if (done)
		contiguitas_moved(&node->resizer, decision.resize);
	return done;
}

/* For tests: to and fro, whatever is free. */
static unsigned int oscillate(struct contiguitas_node *node, unsigned int pageblocks)
{
	node->up = !node->up;
	return step(node, node->up, pageblocks);
}

/* One round: who waits first, then what the resizer decides, at most once in a period. */
static void work(struct contiguitas_node *node, u64 *decided)
{
	unsigned long wanted = atomic_long_xchg(&node->wanted, 0);
	bool emergency = atomic_xchg(&node->emergency, 0);
	unsigned int test = READ_ONCE(contiguitas_tunables.oscillate);
	u64 now = ktime_get_ns();
	unsigned int done = 0;

	node->counts.wake_ups++;
	if (wanted)
		done += serve(node, wanted);
	if (emergency)
		done += rescue(node);
	if (READ_ONCE(node->freed)) {
		/* What comes free from now on asks again. */
		smp_store_mb(node->freed, false);
		if (!test)
			retire(node);
	}
	if (now - *decided >= jiffies_to_nsecs(PERIOD)) {
		done += test ? oscillate(node, test) : resize(node, now - *decided);
		*decided = now;
	}
	WRITE_ONCE(node->stuck, !done && !contiguitas_has_room(node, 0));
	if (done)
		contiguitas_after_resize();
	atomic_inc(&node->rounds);
	wake_up_all(&node->answered);
}

static bool is_asked(struct contiguitas_node *node)
{
	return atomic_long_read(&node->wanted) || atomic_read(&node->emergency) ||
	       READ_ONCE(node->freed);
}

/* Whether to look again soon: not at all sides' ease. */
static bool is_restless(struct contiguitas_node *node)
{
	struct contiguitas_resizer *resizer = &node->resizer;

	return node->pressure[0].average || node->pressure[1].average ||
	       resizer->since <= resizer->tuning.hold + 1 ||
	       READ_ONCE(contiguitas_tunables.oscillate);
}

static int contiguitas_thread(void *data)
{
	struct contiguitas_node *node = data;
	u64 decided = 0;

	set_freezable();
	/*
	 * Moves drain all CPUs by work queues. The workers that these start when first used
	 * stay for minutes: now their stacks lie far from the border, in a burst they would lie
	 * beside it.
	 */
	lru_add_drain_all();
	contiguitas_drop_empty_slabs();
	while (!kthread_should_stop()) {
		unsigned long pause = is_restless(node) ? PERIOD : IDLE_PERIOD;

		/*
		 * Who waits is served at once, and what a burst frees is retired at once.
		 * Reclaim may wake the thread thousands of times a second; more than one
		 * decision in a period would mean nothing.
		 */
		wait_event_freezable_timeout(node->wake, READ_ONCE(node->kicked) ||
					     is_asked(node) || kthread_should_stop(), pause);
		if (READ_ONCE(node->kicked) && !is_asked(node)) {
			u64 since = ktime_get_ns() - decided;

			if (since < jiffies_to_nsecs(PERIOD))
				wait_event_freezable_timeout(node->wake, is_asked(node),
					PERIOD - nsecs_to_jiffies(since));
		}
		WRITE_ONCE(node->kicked, false);
		try_to_freeze();
		work(node, &decided);
	}
	return 0;
}

/* It sleeps until it is woken. */
int contiguitas_create_thread(struct contiguitas_node *node)
{
	struct task_struct *thread;

	thread = kthread_create_on_node(contiguitas_thread, node, node->nid, "kcontigd%d",
					node->nid);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	node->thread = thread;
	/* Nothing has grown or was dropped yet. */
	node->caches_dropped = jiffies - CACHE_PAUSE;
	node->cache_pause.length = LONGEST_CACHE_PAUSE;
	node->cache_pause.end = jiffies + LONGEST_CACHE_PAUSE;
	return 0;
}
