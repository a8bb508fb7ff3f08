// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's sizing decisions as a program: reads observations, writes decisions, one a line.
 * crates/frames/tests/regions_kernel.rs compares them with the simulator's.
 */
#include <stdio.h>

#include "../source/mm/contiguitas/sizing.h"

int main(void)
{
	struct contiguitas_resizer resizer = { .tuning = CONTIGUITAS_DEFAULT_TUNING };
	struct contiguitas_decision decision = { CONTIGUITAS_STAY, 0 };
	char kind;

	while (scanf(" %c", &kind) == 1) {
		struct contiguitas_view view;
		struct contiguitas_tuning tuning;
		struct contiguitas_marks marks;
		unsigned long long available[CONTIGUITAS_REGIONS], pageblock;

		switch (kind) {
		case 'n': /* A new resizer. */
			if (scanf("%u %u %u %u %u %u", &tuning.threshold[0], &tuning.threshold[1],
				  &tuning.weight[0], &tuning.weight[1], &tuning.largest_step,
				  &tuning.hold) != 6)
				return 1;
			resizer = (struct contiguitas_resizer){ .tuning = tuning };
			break;
		case 'v': /* A wake-up. */
			if (scanf("%llu %llu %llu %llu %llu %llu %u %u", &view.size,
				  &view.available[0], &view.available[1], &view.low[0],
				  &view.low[1], &view.high, &view.pressure[0],
				  &view.pressure[1]) != 8)
				return 1;
			printf("%d ", contiguitas_is_due(&resizer, &view));
			decision = contiguitas_decide(&resizer, &view);
			printf("%d %llu %llu\n", decision.resize, decision.beyond,
			       resizer.refused);
			break;
		case 'm': /* The border moved as decided. */
			contiguitas_moved(&resizer, decision.resize);
			break;
		case 'g': /* Whether to go on, after the last decision. */
			if (scanf("%llu %llu %llu %llu %llu %llu %llu", &available[0], &available[1],
				  &marks.low[0], &marks.low[1], &marks.target[0], &marks.target[1],
				  &pageblock) != 7)
				return 1;
			printf("%d\n", contiguitas_goes_on(&decision, available, &marks, pageblock));
			break;
		default:
			return 1;
		}
	}
	return 0;
}
