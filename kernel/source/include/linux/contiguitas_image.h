/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the kernel's own image may lie. It is unmovable, and the page tables that map all memory lie right
 * above it, so address space randomization must not put it above the border. For the code that
 * decompresses the kernel, which knows no zones.
 */
#ifndef _LINUX_CONTIGUITAS_IMAGE_H
#define _LINUX_CONTIGUITAS_IMAGE_H

/*
 * The image ends below this address: chosen, what lies below the first border of a small node. It leaves
 * some hundred places of 2 MiB. The virtual address has its own randomization, which stays as it is.
 */
#define CONTIGUITAS_IMAGE_END 0x10000000ULL

/* limit: the end of the memory that randomization may use. */
static inline u64 contiguitas_image_limit(u64 limit)
{
	char value[sizeof("off")];

	if (!IS_ENABLED(CONFIG_CONTIGUITAS) || limit < CONTIGUITAS_IMAGE_END)
		return limit;
	if (cmdline_find_option("contiguitas", value, sizeof(value)) == strlen("off") && !strcmp(value, "off"))
		return limit;
	return CONTIGUITAS_IMAGE_END;
}

#endif
