// SPDX-License-Identifier: GPL-2.0-only
/* The boot parameter, the first border of each node, and the start of everything. */
#include <linux/crash_dump.h>
#include <linux/init.h>
#include <linux/initrd.h>
#include <linux/list.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/pfn.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/suspend.h>

#include <asm/sections.h>

#include "../internal.h"
#include "contiguitas.h"

/* Share of a node below the border at the start, in 1/1024: the simulator's default. */
#define INITIAL_PER_1024 64
/* Never less than this below the border: chosen, some four times what the kernel itself takes. */
#define INITIAL_LEAST ((unsigned long)SZ_256M)
/*
 * Smaller nodes have no border, that of a crash kernel above all: chosen, the image takes much
 * of them.
 */
#define SMALLEST_NODE PFN_DOWN(SZ_512M)

bool contiguitas_enabled __read_mostly = true;
/* Bytes of a node below the border, if the boot parameter names them. */
static unsigned long long initial_bytes __initdata;

static int __init contiguitas_parameter(char *text)
{
	if (text && !strcmp(text, "off"))
		contiguitas_enabled = false;
	else if (text && strcmp(text, "on"))
		initial_bytes = memparse(text, NULL);
	return 0;
}
early_param("contiguitas", contiguitas_parameter);

/*
 * What is allocated before there are zones is never moved again: the direct map's page tables,
 * the page map, hash tables, the node's own descriptor. It shall lie far from the border, at
 * the low end. Called twice, since the nodes' setup returns to the high end.
 */
void __init contiguitas_boot_memory(void)
{
	if (contiguitas_enabled)
		memblock_set_bottom_up(true);
}

static unsigned long __init initial_pages(unsigned long node_pages)
{
	unsigned long pages = node_pages * INITIAL_PER_1024 / 1024;

	if (initial_bytes)
		return PFN_DOWN(initial_bytes);
	return max(pages, min(PFN_DOWN(INITIAL_LEAST), node_pages / 4));
}

/* Where what stays of a reserved range ends: the initial file system goes once it is unpacked. */
static phys_addr_t __init end_of_what_stays(phys_addr_t start, phys_addr_t stop)
{
#ifdef CONFIG_BLK_DEV_INITRD
	phys_addr_t first = initrd_start ? __pa(initrd_start) : 0;
	phys_addr_t last = initrd_start ? PAGE_ALIGN(__pa(initrd_end)) : 0;

	/* Neighbors become one range. */
	if (start < last && stop > first && stop <= last)
		return max(start, first);
#endif
	return stop;
}

/*
 * Where the last of what boot reserved ends in the lower half of a node: the kernel's image
 * with page tables above it, the memory of a crash kernel. None of it moves, so the border
 * could not rise past it. What is reserved in the upper half stops the border there.
 */
static unsigned long __init reserved_end(int nid)
{
	unsigned long first, last, middle, end = 0;
	phys_addr_t start, stop;
	u64 i;

	get_pfn_range_for_nid(nid, &first, &last);
	middle = first + (last - first) / 2;
	for_each_reserved_mem_range(i, &start, &stop) {
		stop = end_of_what_stays(start, stop);
		if (PFN_DOWN(start) >= first && PFN_UP(stop) <= middle && start < stop)
			end = max(end, PFN_UP(stop));
	}
	return end;
}

/*
 * The first page of ZONE_MOVABLE in a node: above the requested number of its pages. The
 * zone right below the border must be the highest one and have memory of its own, or it could not
 * take any over: hence not below the lowest page that ZONE_MOVABLE may use, and a block more.
 */
static unsigned long __init first_border(int nid, unsigned long lowest_usable)
{
	unsigned long first, last, present = 0, below = 0, wanted, border = 0;
	int i;

	for_each_mem_pfn_range(i, nid, &first, &last, NULL)
		present += last - first;
	if (present < SMALLEST_NODE)
		return 0;
	wanted = initial_pages(present);
	for_each_mem_pfn_range(i, nid, &first, &last, NULL) {
		unsigned long usable = clamp(lowest_usable, first, last);
		unsigned long lacking;

		below += usable - first;
		if (usable == last)
			continue;
		lacking = wanted > below ? wanted - below : 0;
		if (!border)
			lacking = max_t(unsigned long, lacking, MAX_ORDER_NR_PAGES);
		border = usable + lacking;
		if (border < last)
			return border;
		border = last;
		below += last - usable;
	}
	return 0;
}

/* Called in place of what "kernelcore=" asks for. Whether it did that. */
bool __init contiguitas_place_borders(unsigned long *movable_pfn, unsigned long lowest_usable)
{
	int nid;

	/* A crash kernel lives for minutes, in little memory. */
	if (is_kdump_kernel())
		contiguitas_enabled = false;
	if (!contiguitas_enabled)
		return false;
	for_each_node_state(nid, N_MEMORY)
		movable_pfn[nid] = first_border(nid, max(lowest_usable, reserved_end(nid)));
	return true;
}

/* The zone that ends where ZONE_MOVABLE begins, or below it with a hole between. */
static struct zone *__init zone_below(int nid)
{
	struct zone *zones = NODE_DATA(nid)->node_zones;
	int type;

	for (type = ZONE_MOVABLE - 1; type >= 0; type--)
		if (populated_zone(&zones[type]))
			return &zones[type];
	return NULL;
}

/* Boot fills the lists with ascending addresses and takes from the head: right below the border. */
static void __init reverse_lists(struct zone *zone)
{
	unsigned long flags;
	int order, type;

	spin_lock_irqsave(&zone->lock, flags);
	for (order = 0; order < ARRAY_SIZE(zone->free_area); order++)
		for (type = 0; type < MIGRATE_TYPES; type++) {
			struct list_head *list = &zone->free_area[order].free_list[type];
			struct list_head *at, *next;

			list_for_each_safe(at, next, list)
				list_move(at, list);
		}
	spin_unlock_irqrestore(&zone->lock, flags);
}

/* What is known of a node; nothing if it has no border that can move. */
static struct contiguitas_node *__init new_node(int nid)
{
	struct zone *movable = &NODE_DATA(nid)->node_zones[ZONE_MOVABLE];
	struct zone *lower = zone_below(nid);
	struct contiguitas_node *node;
	unsigned long below;
	int region;

	if (!populated_zone(movable) || !lower ||
	    zone_end_pfn(lower) != movable->zone_start_pfn ||
	    !pageblock_aligned(movable->zone_start_pfn))
		return NULL;
	node = kzalloc_node(sizeof(*node), GFP_KERNEL, nid);
	if (!node)
		return NULL;
	node->nid = nid;
	if (contiguitas_create_thread(node)) {
		kfree(node);
		return NULL;
	}
	node->lower = lower;
	node->movable = movable;
	init_waitqueue_head(&node->wake);
	init_waitqueue_head(&node->answered);
	init_rwsem(&node->blocks);
	init_irq_work(&node->ask, contiguitas_ask_later);
	node->surplus = ULONG_MAX;
	/* Until the thread's first round. */
	node->stuck = true;
	node->resizer.tuning = (struct contiguitas_tuning)CONTIGUITAS_DEFAULT_TUNING;
	for (region = 0; region < CONTIGUITAS_REGIONS; region++)
		contiguitas_pressure_init(&node->pressure[region]);
	below = contiguitas_size_below(node);
	/* Chosen: half of what boot left below, and three quarters of the node. */
	node->floor = below / 2;
	node->ceiling = (below + zone_managed_pages(movable)) / 4 * 3;
	/*
	 * Who saw a zone without holes would skip the look at each block's own zone, and take
	 * blocks off lists that are not theirs any more. For good: never set again.
	 */
	clear_zone_contiguous(lower);
	clear_zone_contiguous(movable);
	reverse_lists(movable);
	return node;
}

/* A memory block caches the zone that it lies in, and may hold the border of its node. */
bool __contiguitas_keeps_online(int nid)
{
	if (nid >= 0 && !contiguitas_nodes[nid])
		return false;
	pr_warn_ratelimited("contiguitas: memory is not onlined or offlined beside a border\n");
	return true;
}

/*
 * An image is read into unmovable pages, for which there is no room below the border, and the
 * threads that would move it are frozen: the machine would not come back.
 */
static int refuse_hibernation(struct notifier_block *self, unsigned long action, void *data)
{
	if (action != PM_HIBERNATION_PREPARE)
		return NOTIFY_DONE;
	pr_warn("contiguitas: hibernation is refused; boot with contiguitas=off for it\n");
	return NOTIFY_BAD;
}

static int __init contiguitas_init(void)
{
	struct contiguitas_node *home;
	bool any = false;
	int nid, error;

	if (!contiguitas_enabled)
		return 0;
	for (nid = 0; nid < CONTIGUITAS_REGIONS; nid++)
		contiguitas_pressure_init(&contiguitas_system[nid]);
	for_each_node_state(nid, N_MEMORY) {
		contiguitas_nodes[nid] = new_node(nid);
		if (!contiguitas_nodes[nid]) {
			pr_info("contiguitas: node %d has no border that can move\n", nid);
			contiguitas_release(nid);
			continue;
		}
		contiguitas_set_band(contiguitas_nodes[nid]);
		any = true;
	}
	contiguitas_update_reserves();
	if (!any)
		return 0;
	home = contiguitas_nodes[pfn_to_nid(PFN_DOWN(__pa_symbol(_text)))];
	if (home && PFN_UP(__pa_symbol(_end)) > contiguitas_border(home))
		pr_warn("contiguitas: the kernel lies above the border; boot with nokaslr\n");
	pm_notifier(refuse_hibernation, 0);
	static_branch_enable(&contiguitas_key);
	contiguitas_after_resize();
	error = contiguitas_running_out_init();
	for_each_node_state(nid, N_MEMORY) {
		struct contiguitas_node *node = contiguitas_nodes[nid];

		if (!node)
			continue;
		wake_up_process(node->thread);
		pr_info("contiguitas: node %d: border at %#lx, %lu MiB below\n", nid,
			contiguitas_border(node),
			contiguitas_size_below(node) >> (20 - PAGE_SHIFT));
	}
	return error ?: contiguitas_sysfs_init();
}
/*
 * As early as the kernel has threads, marks, and /sys/kernel/mm: what comes after it, the
 * initial file system and drivers above all, may need more than the first border leaves.
 */
postcore_initcall_sync(contiguitas_init);
