// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory pressure, kept apart for the two regions: PSI cannot tell what its stalls lack.
 *
 * Counted where PSI counts requests that stall for memory (reclaim, compaction), and where a
 * request waits for the border. Refaults that PSI counts too are not told apart here.
 */
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/proc_fs.h>
#include <linux/psi.h>
#include <linux/sched/clock.h>
#include <linux/sched/loadavg.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "../internal.h"
#include "contiguitas.h"

/* How often PSI's averages are taken, and their decay over that time in fixed point. */
#define AVERAGE_EVERY (2 * NSEC_PER_SEC)
static const unsigned long decay[CONTIGUITAS_AVERAGES] = { 1677, 1981, 2034 };
static const unsigned int seconds[CONTIGUITAS_AVERAGES] = { 10, 60, 300 };

struct contiguitas_pressure contiguitas_system[CONTIGUITAS_REGIONS];

void contiguitas_pressure_init(struct contiguitas_pressure *pressure)
{
	spin_lock_init(&pressure->lock);
	pressure->averaged_at = ktime_get_ns();
}

static void change(struct contiguitas_pressure *pressure, bool begins)
{
	unsigned long flags;

	spin_lock_irqsave(&pressure->lock, flags);
	if (begins) {
		if (!pressure->stalled++)
			pressure->since = ktime_get_ns();
	} else if (!WARN_ON_ONCE(!pressure->stalled) && !--pressure->stalled) {
		pressure->total += ktime_get_ns() - pressure->since;
	}
	spin_unlock_irqrestore(&pressure->lock, flags);
}

void contiguitas_stall_change(struct contiguitas_node *node, enum contiguitas_region region,
			      bool begins)
{
	change(&node->pressure[region], begins);
	change(&contiguitas_system[region], begins);
}

/* A request begins or ends to stall in reclaim or compaction. */
void __contiguitas_stall(const struct alloc_context *ac, bool begins)
{
	struct zone *zone = ac->preferred_zoneref->zone;
	struct contiguitas_node *node = zone ? contiguitas_nodes[zone_to_nid(zone)] : NULL;

	if (node)
		contiguitas_stall_change(node, ac->highest_zoneidx == ZONE_MOVABLE ?
					 CONTIGUITAS_MOVABLE : CONTIGUITAS_UNMOVABLE, begins);
}

/* The time stalled so far, with what still lasts. Under the lock. */
static u64 stalled_until(const struct contiguitas_pressure *pressure, u64 now)
{
	return pressure->total + (pressure->stalled ? now - pressure->since : 0);
}

unsigned int contiguitas_pressure_tick(struct contiguitas_pressure *pressure, u64 period)
{
	u64 total, share;

	spin_lock_irq(&pressure->lock);
	total = stalled_until(pressure, ktime_get_ns());
	spin_unlock_irq(&pressure->lock);
	share = min_t(u64, (total - pressure->counted) * 1000000 / max_t(u64, period, 1), 1000000);
	pressure->counted = total;
	pressure->average = contiguitas_average(pressure->average, share);
	return pressure->average / 1000;
}

/* Brings the averages up to date, as PSI does: whole periods, those without stalls at once. */
static void bring_up(struct contiguitas_pressure *pressure, u64 now)
{
	u64 periods = (now - pressure->averaged_at) / AVERAGE_EVERY;
	u64 total, share;
	int i;

	if (!periods)
		return;
	total = stalled_until(pressure, now);
	share = min_t(u64, (total - pressure->averaged) * 100 / (periods * AVERAGE_EVERY), 100);
	for (i = 0; i < CONTIGUITAS_AVERAGES; i++)
		for (u64 p = 0; p < min_t(u64, periods, 600); p++)
			pressure->averages[i] = calc_load(pressure->averages[i], decay[i],
							  share * FIXED_1);
	pressure->averaged = total;
	pressure->averaged_at += periods * AVERAGE_EVERY;
}

int contiguitas_pressure_print(char *buffer, struct contiguitas_pressure *pressure)
{
	unsigned long averages[CONTIGUITAS_AVERAGES];
	u64 total, now;
	int i, at;

	spin_lock_irq(&pressure->lock);
	now = ktime_get_ns();
	bring_up(pressure, now);
	total = stalled_until(pressure, now);
	memcpy(averages, pressure->averages, sizeof(averages));
	spin_unlock_irq(&pressure->lock);
	at = sprintf(buffer, "some");
	for (i = 0; i < CONTIGUITAS_AVERAGES; i++)
		at += sprintf(buffer + at, " avg%u=%lu.%02lu", seconds[i], LOAD_INT(averages[i]),
			      LOAD_FRAC(averages[i]));
	return at + sprintf(buffer + at, " total=%llu\n", total / NSEC_PER_USEC);
}

static int show(struct seq_file *file, void *unused)
{
	char line[128];

	contiguitas_pressure_print(line, file->private);
	seq_puts(file, line);
	return 0;
}

/* Next to /proc/pressure/memory. */
static int __init contiguitas_pressure_proc(void)
{
	if (!static_key_enabled(&contiguitas_key))
		return 0;
#ifdef CONFIG_PSI
	if (static_key_enabled(&psi_disabled))
		return 0;
	proc_create_single_data("pressure/memory_unmovable", 0444, NULL, show,
				&contiguitas_system[CONTIGUITAS_UNMOVABLE]);
	proc_create_single_data("pressure/memory_movable", 0444, NULL, show,
				&contiguitas_system[CONTIGUITAS_MOVABLE]);
#endif
	return 0;
}
late_initcall_sync(contiguitas_pressure_proc);
