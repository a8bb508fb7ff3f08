// SPDX-License-Identifier: GPL-2.0-only
#include "sizing.h"

#define PER_MILLE 1000

typedef unsigned long long pages_t;

static int direction(enum contiguitas_resize resize)
{
	switch (resize) {
	case CONTIGUITAS_GROW:
		return 1;
	case CONTIGUITAS_SHRINK:
	case CONTIGUITAS_YIELD:
		return -1;
	default:
		return 0;
	}
}

/* A region's pressure in thousandths of its threshold. */
static pages_t relative(const struct contiguitas_resizer *resizer,
			const struct contiguitas_view *view, enum contiguitas_region region)
{
	unsigned int threshold = resizer->tuning.threshold[region];

	return (pages_t)view->pressure[region] * PER_MILLE / (threshold ? threshold : 1);
}

/* By which share of its size the unmovable region should change, in thousandths. */
static long long drive(const struct contiguitas_resizer *resizer,
		       const struct contiguitas_view *view)
{
	const struct contiguitas_tuning *tuning = &resizer->tuning;
	long long most = tuning->largest_step;
	pages_t up = tuning->weight[CONTIGUITAS_UNMOVABLE] *
		     relative(resizer, view, CONTIGUITAS_UNMOVABLE);
	pages_t down = tuning->weight[CONTIGUITAS_MOVABLE] *
		       relative(resizer, view, CONTIGUITAS_MOVABLE);
	long long both = (long long)(up / PER_MILLE) - (long long)(down / PER_MILLE);

	if (both > most)
		return most;
	return both < -most ? -most : both;
}

static struct contiguitas_decision wanted(const struct contiguitas_resizer *resizer,
					  const struct contiguitas_view *view)
{
	long long change = drive(resizer, view);
	pages_t step = view->size * (pages_t)(change < 0 ? -change : change) / PER_MILLE;
	_Bool presses = change > 0 && relative(resizer, view, CONTIGUITAS_UNMOVABLE) >= PER_MILLE;
	_Bool is_pressed = change < 0 && relative(resizer, view, CONTIGUITAS_MOVABLE) >= PER_MILLE;
	struct contiguitas_decision decision = { CONTIGUITAS_STAY, 0 };

	if (view->available[CONTIGUITAS_UNMOVABLE] < view->low[CONTIGUITAS_UNMOVABLE] || presses) {
		decision.resize = CONTIGUITAS_GROW;
		decision.beyond = presses ? step : 0;
	} else if (view->available[CONTIGUITAS_UNMOVABLE] > view->high) {
		decision.resize = CONTIGUITAS_SHRINK;
	} else if (view->available[CONTIGUITAS_MOVABLE] < view->low[CONTIGUITAS_MOVABLE] ||
		   is_pressed) {
		decision.resize = CONTIGUITAS_YIELD;
		decision.beyond = is_pressed ? step : 0;
	}
	return decision;
}

/* Whether the thread has anything to do. */
_Bool contiguitas_is_due(const struct contiguitas_resizer *resizer,
			 const struct contiguitas_view *view)
{
	return wanted(resizer, view).resize != CONTIGUITAS_STAY ||
	       relative(resizer, view, CONTIGUITAS_UNMOVABLE) >= PER_MILLE ||
	       relative(resizer, view, CONTIGUITAS_MOVABLE) >= PER_MILLE;
}

/* Decides at a wake-up. */
struct contiguitas_decision contiguitas_decide(struct contiguitas_resizer *resizer,
					       const struct contiguitas_view *view)
{
	struct contiguitas_decision decision = wanted(resizer, view);
	_Bool turns = resizer->last && direction(decision.resize) != resizer->last;
	_Bool urgent = 0;

	if (resizer->since + 1 != 0)
		resizer->since++;
	if (decision.resize == CONTIGUITAS_GROW)
		urgent = view->available[CONTIGUITAS_UNMOVABLE] <
			 view->low[CONTIGUITAS_UNMOVABLE] / 2;
	else if (decision.resize == CONTIGUITAS_YIELD)
		urgent = view->available[CONTIGUITAS_MOVABLE] <
			 view->low[CONTIGUITAS_MOVABLE] / 2;
	if (decision.resize != CONTIGUITAS_STAY && turns && !urgent &&
	    resizer->since <= resizer->tuning.hold) {
		resizer->refused++;
		decision.resize = CONTIGUITAS_STAY;
		decision.beyond = 0;
	}
	return decision;
}

/* The border moved as decided. */
void contiguitas_moved(struct contiguitas_resizer *resizer, enum contiguitas_resize resize)
{
	if (!direction(resize))
		return;
	resizer->last = direction(resize);
	resizer->since = 0;
}

static pages_t plus(pages_t pages, pages_t more)
{
	return pages + more < pages ? ~0ULL : pages + more;
}

/* Whether to go on with a resize for one pageblock more. */
_Bool contiguitas_goes_on(const struct contiguitas_decision *decision,
			  const unsigned long long available[CONTIGUITAS_REGIONS],
			  const struct contiguitas_marks *marks, unsigned long long pageblock)
{
	pages_t below = available[CONTIGUITAS_UNMOVABLE];
	pages_t above = available[CONTIGUITAS_MOVABLE];

	switch (decision->resize) {
	case CONTIGUITAS_GROW:
		return below < plus(marks->target[CONTIGUITAS_UNMOVABLE], decision->beyond) &&
		       above >= plus(marks->low[CONTIGUITAS_MOVABLE], pageblock);
	case CONTIGUITAS_SHRINK:
		return below >= plus(marks->target[CONTIGUITAS_UNMOVABLE], pageblock);
	case CONTIGUITAS_YIELD:
		return above < plus(marks->target[CONTIGUITAS_MOVABLE], decision->beyond) &&
		       below >= plus(marks->low[CONTIGUITAS_UNMOVABLE], pageblock);
	default:
		return 0;
	}
}

/* The pressure's average after a wake-up, from the share of time stalled; both in millionths. */
unsigned int contiguitas_average(unsigned int average, unsigned int share)
{
	unsigned int next = average / 8 * 7 + share / 8;

	return next < 1000000 ? next : 1000000;
}
