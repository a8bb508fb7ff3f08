/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When the border of a node moves, which way, and how far: a pure decision.
 *
 * Integers only, no kernel headers: a host program compiles the same file, and Prairie's simulator
 * (crates/frames/src/placement/regions/resizer.rs) must decide alike. Its documentation gives the
 * rule and the reasons.
 */
#ifndef CONTIGUITAS_SIZING_H
#define CONTIGUITAS_SIZING_H

enum contiguitas_region { CONTIGUITAS_UNMOVABLE, CONTIGUITAS_MOVABLE, CONTIGUITAS_REGIONS };

/* What the resizer sees of a node. Pages, but for the pressures. */
struct contiguitas_view {
	/* Pages of the unmovable region. */
	unsigned long long size;
	/* What each region has free for ordinary requests. */
	unsigned long long available[CONTIGUITAS_REGIONS];
	/* Below this a region is short. */
	unsigned long long low[CONTIGUITAS_REGIONS];
	/* Above this the unmovable region has far too much. */
	unsigned long long high;
	/* Share of time stalled for lack of each region's memory, in thousandths. */
	unsigned int pressure[CONTIGUITAS_REGIONS];
};

enum contiguitas_resize {
	CONTIGUITAS_STAY,
	/* Up, until the unmovable region has its target and "beyond" pages more. */
	CONTIGUITAS_GROW,
	/* Down, until the unmovable region is down to its target. */
	CONTIGUITAS_SHRINK,
	/* Down, until the movable region has its target and "beyond" pages more. */
	CONTIGUITAS_YIELD,
};

struct contiguitas_decision {
	enum contiguitas_resize resize;
	unsigned long long beyond;
};

/* Shares are in thousandths. */
struct contiguitas_tuning {
	/* The pressure from which on a region counts as stalling. */
	unsigned int threshold[CONTIGUITAS_REGIONS];
	/* How far the border moves for each threshold's worth of pressure. */
	unsigned int weight[CONTIGUITAS_REGIONS];
	/* The most that pressure moves the border at once. */
	unsigned int largest_step;
	/* Wake-ups for which the border does not turn round. */
	unsigned int hold;
};

/* The simulator's defaults; its documentation says where they come from. All of them are chosen. */
#define CONTIGUITAS_DEFAULT_TUNING { { 10, 10 }, { 50, 50 }, 250, 8 }

struct contiguitas_resizer {
	struct contiguitas_tuning tuning;
	/* Which way the border last went: 1 up, -1 down, 0 not yet. */
	int last;
	/* Wake-ups since then. */
	unsigned int since;
	/* Turns that had to wait. */
	unsigned long long refused;
};

/* What the regions of a node should have, in pages. */
struct contiguitas_marks {
	unsigned long long low[CONTIGUITAS_REGIONS];
	unsigned long long target[CONTIGUITAS_REGIONS];
	/* Of the unmovable region. */
	unsigned long long high;
};

_Bool contiguitas_is_due(const struct contiguitas_resizer *resizer,
			 const struct contiguitas_view *view);
struct contiguitas_decision contiguitas_decide(struct contiguitas_resizer *resizer,
					       const struct contiguitas_view *view);
void contiguitas_moved(struct contiguitas_resizer *resizer, enum contiguitas_resize resize);
_Bool contiguitas_goes_on(const struct contiguitas_decision *decision,
			  const unsigned long long available[CONTIGUITAS_REGIONS],
			  const struct contiguitas_marks *marks, unsigned long long pageblock);
unsigned int contiguitas_average(unsigned int average, unsigned int share);

#endif
