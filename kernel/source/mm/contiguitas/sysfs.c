// SPDX-License-Identifier: GPL-2.0-only
/* /sys/kernel/mm/contiguitas: where the border is, why, and what may be set. */
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "../internal.h"
#include "contiguitas.h"

#define KIB(pages) ((unsigned long long)(pages) << (PAGE_SHIFT - 10))

static struct kobject *root;

static struct contiguitas_node *node_of(struct kobject *kobject)
{
	int nid;

	for_each_online_node(nid)
		if (contiguitas_nodes[nid] && contiguitas_nodes[nid]->kobject == kobject)
			return contiguitas_nodes[nid];
	return NULL;
}

/* What a node's file shows: a function of the node that prints. */
#define NODE_FILE(name, expression...) \
static ssize_t name##_show(struct kobject *kobject, struct kobj_attribute *attribute, \
			   char *buffer) \
{ \
	struct contiguitas_node *node = node_of(kobject); \
	struct contiguitas_marks marks; \
	unsigned long long available[CONTIGUITAS_REGIONS]; \
\
	if (!node) \
		return -ENODEV; \
	contiguitas_marks(node, &marks); \
	contiguitas_available(node, available); \
	return expression; \
}

#define NODE_NUMBER(name, number) \
NODE_FILE(name, sysfs_emit(buffer, "%llu\n", (unsigned long long)(number))) \
static struct kobj_attribute name##_attribute = __ATTR_RO(name)

NODE_NUMBER(border_pfn, contiguitas_border(node));
NODE_NUMBER(unmovable_kb, KIB(contiguitas_size_below(node)));
NODE_NUMBER(movable_kb, KIB(zone_managed_pages(node->movable)));
NODE_NUMBER(unmovable_available_kb, KIB(available[CONTIGUITAS_UNMOVABLE]));
NODE_NUMBER(movable_available_kb, KIB(available[CONTIGUITAS_MOVABLE]));
NODE_NUMBER(retired_kb, KIB(contiguitas_is_retired(node) ?
			    contiguitas_border(node) - node->retired_from : 0));
NODE_NUMBER(unmovable_low_kb, KIB(marks.low[CONTIGUITAS_UNMOVABLE]));
NODE_NUMBER(unmovable_target_kb, KIB(marks.target[CONTIGUITAS_UNMOVABLE]));
NODE_NUMBER(unmovable_high_kb, KIB(marks.high));
NODE_NUMBER(movable_low_kb, KIB(marks.low[CONTIGUITAS_MOVABLE]));

#define NODE_PRESSURE(name, region) \
NODE_FILE(name, contiguitas_pressure_print(buffer, &node->pressure[region])) \
static struct kobj_attribute name##_attribute = __ATTR_RO(name)

NODE_PRESSURE(unmovable_pressure, CONTIGUITAS_UNMOVABLE);
NODE_PRESSURE(movable_pressure, CONTIGUITAS_MOVABLE);

static int print_counts(char *buffer, struct contiguitas_node *node)
{
	struct contiguitas_counts *counts = &node->counts;

	return sysfs_emit(buffer,
		"wake_ups %lu\npageblocks_grown %lu\npageblocks_shrunk %lu\n"
		"grow_failures %lu\nshrink_failures %lu\naborted_handovers %lu\n"
		"pageblocks_retired %lu\npageblocks_recalled %lu\nslab_drops %lu\ncache_drops %lu\n"
		"turns_refused %llu\nmove_us %llu\nlongest_handover_us %llu\n"
		"waits %ld\nwaits_in_vain %ld\nwait_us %ld\npin_waits %ld\noom_rescues %ld\n"
		"loans %ld\ncompactions_skipped %ld\nretries %ld\nretries_in_vain %ld\n",
		counts->wake_ups, counts->grown, counts->shrunk,
		counts->grow_failures, counts->shrink_failures, counts->aborted_handovers,
		counts->retired, counts->recalled, counts->slab_drops, counts->cache_drops,
		node->resizer.refused, counts->move_ns / 1000, counts->longest_handover_ns / 1000,
		atomic_long_read(&counts->waits), atomic_long_read(&counts->waits_in_vain),
		atomic_long_read(&counts->wait_ns) / 1000, atomic_long_read(&counts->pin_waits),
		atomic_long_read(&counts->oom_rescues), atomic_long_read(&counts->loans),
		atomic_long_read(&counts->compactions_skipped), atomic_long_read(&counts->retries),
		atomic_long_read(&counts->retries_in_vain));
}

NODE_FILE(counters, print_counts(buffer, node))
static struct kobj_attribute counters_attribute = __ATTR_RO(counters);

/* The limits of the unmovable region. */
#define NODE_LIMIT(name, field) \
NODE_FILE(name, sysfs_emit(buffer, "%llu\n", KIB(node->field))) \
static ssize_t name##_store(struct kobject *kobject, struct kobj_attribute *attribute, \
			    const char *text, size_t length) \
{ \
	struct contiguitas_node *node = node_of(kobject); \
	unsigned long value; \
	int error = kstrtoul(text, 0, &value); \
\
	if (error || !node) \
		return error ?: -ENODEV; \
	WRITE_ONCE(node->field, value >> (PAGE_SHIFT - 10)); \
	contiguitas_ask(node); \
	return length; \
} \
static struct kobj_attribute name##_attribute = __ATTR_RW(name)

NODE_LIMIT(floor_kb, floor);
NODE_LIMIT(ceiling_kb, ceiling);

static struct attribute *node_attributes[] = {
	&border_pfn_attribute.attr, &unmovable_kb_attribute.attr, &movable_kb_attribute.attr,
	&unmovable_available_kb_attribute.attr, &movable_available_kb_attribute.attr,
	&retired_kb_attribute.attr, &unmovable_low_kb_attribute.attr,
	&unmovable_target_kb_attribute.attr, &unmovable_high_kb_attribute.attr,
	&movable_low_kb_attribute.attr,
	&unmovable_pressure_attribute.attr, &movable_pressure_attribute.attr,
	&counters_attribute.attr, &floor_kb_attribute.attr, &ceiling_kb_attribute.attr, NULL,
};
static const struct attribute_group node_group = { .attrs = node_attributes };

/* Numbers for all nodes, each within its range. */
static ssize_t store_number(unsigned int *place, unsigned int least, unsigned int most,
			    const char *text, size_t length)
{
	unsigned int value;
	int nid, error = kstrtouint(text, 0, &value);

	if (error)
		return error;
	if (value < least || value > most)
		return -EINVAL;
	WRITE_ONCE(*place, value);
	for_each_online_node(nid)
		if (contiguitas_nodes[nid]) {
			contiguitas_set_band(contiguitas_nodes[nid]);
			contiguitas_ask(contiguitas_nodes[nid]);
		}
	return length;
}

#define TUNABLE(name, place, least, most) \
static ssize_t name##_show(struct kobject *kobject, struct kobj_attribute *attribute, \
			   char *buffer) \
{ \
	return sysfs_emit(buffer, "%u\n", contiguitas_tunables.place); \
} \
static ssize_t name##_store(struct kobject *kobject, struct kobj_attribute *attribute, \
			    const char *text, size_t length) \
{ \
	return store_number(&contiguitas_tunables.place, least, most, text, length); \
} \
static struct kobj_attribute name##_attribute = __ATTR_RW(name)

TUNABLE(low_per_1024, low_per_1024, 0, 512);
TUNABLE(target_lows, target_lows, 1, 64);
TUNABLE(high_lows, high_lows, 1, 256);
TUNABLE(step_pageblocks, step_pageblocks, 0, 65536);
TUNABLE(failure_pageblocks, failure_pageblocks, 1, 65536);
TUNABLE(band_unmovable_per_1024, band_per_1024[CONTIGUITAS_UNMOVABLE], 0, 1024);
TUNABLE(band_movable_per_1024, band_per_1024[CONTIGUITAS_MOVABLE], 0, 1024);
TUNABLE(drop_caches, drop_caches, 0, 1);
TUNABLE(oscillate_pageblocks, oscillate, 0, 64);

/* The resizer's own parameters: each node has a copy, all the same. */
#define TUNING(name, place, least, most) \
static ssize_t name##_show(struct kobject *kobject, struct kobj_attribute *attribute, \
			   char *buffer) \
{ \
	int nid; \
\
	for_each_online_node(nid) \
		if (contiguitas_nodes[nid]) \
			return sysfs_emit(buffer, "%u\n", \
					  contiguitas_nodes[nid]->resizer.tuning.place); \
	return -ENODEV; \
} \
static ssize_t name##_store(struct kobject *kobject, struct kobj_attribute *attribute, \
			    const char *text, size_t length) \
{ \
	ssize_t done = -ENODEV; \
	int nid; \
\
	for_each_online_node(nid) \
		if (contiguitas_nodes[nid]) \
			done = store_number(&contiguitas_nodes[nid]->resizer.tuning.place, least, \
					    most, text, length); \
	return done; \
} \
static struct kobj_attribute name##_attribute = __ATTR_RW(name)

TUNING(threshold_unmovable, threshold[CONTIGUITAS_UNMOVABLE], 1, 1000);
TUNING(threshold_movable, threshold[CONTIGUITAS_MOVABLE], 1, 1000);
TUNING(weight_unmovable, weight[CONTIGUITAS_UNMOVABLE], 0, 1000);
TUNING(weight_movable, weight[CONTIGUITAS_MOVABLE], 0, 1000);
TUNING(largest_step, largest_step, 0, 1000);
TUNING(hold, hold, 0, 100000);

static ssize_t gigantic_movable_show(struct kobject *kobject, struct kobj_attribute *attribute,
				     char *buffer)
{
	return sysfs_emit(buffer, "%d\n", contiguitas_gigantic_movable);
}

static ssize_t gigantic_movable_store(struct kobject *kobject, struct kobj_attribute *attribute,
				      const char *text, size_t length)
{
	bool value;
	int error = kstrtobool(text, &value);

	if (error)
		return error;
	WRITE_ONCE(contiguitas_gigantic_movable, value);
	return length;
}
static struct kobj_attribute gigantic_movable_attribute = __ATTR_RW(gigantic_movable);

static struct attribute *root_attributes[] = {
	&low_per_1024_attribute.attr, &target_lows_attribute.attr, &high_lows_attribute.attr,
	&step_pageblocks_attribute.attr, &failure_pageblocks_attribute.attr,
	&band_unmovable_per_1024_attribute.attr, &band_movable_per_1024_attribute.attr,
	&threshold_unmovable_attribute.attr, &threshold_movable_attribute.attr,
	&weight_unmovable_attribute.attr, &weight_movable_attribute.attr,
	&largest_step_attribute.attr, &hold_attribute.attr,
	&drop_caches_attribute.attr, &oscillate_pageblocks_attribute.attr,
	&gigantic_movable_attribute.attr, NULL,
};
static const struct attribute_group root_group = { .attrs = root_attributes };

int contiguitas_sysfs_init(void)
{
	int nid, error;

	root = kobject_create_and_add("contiguitas", mm_kobj);
	if (!root)
		return -ENOMEM;
	error = sysfs_create_group(root, &root_group);
	for_each_online_node(nid) {
		struct contiguitas_node *node = contiguitas_nodes[nid];
		char name[16];

		if (!node || error)
			continue;
		snprintf(name, sizeof(name), "node%d", nid);
		node->kobject = kobject_create_and_add(name, root);
		error = node->kobject ? sysfs_create_group(node->kobject, &node_group) : -ENOMEM;
	}
	return error;
}
