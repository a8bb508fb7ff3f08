/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the kernel's own image may lie. It is unmovable, and the page tables that map all
 * memory lie right above it, so address space randomization must not put it above the border.
 * For the code that decompresses the kernel, which knows no zones.
 */
#ifndef _LINUX_CONTIGUITAS_IMAGE_H
#define _LINUX_CONTIGUITAS_IMAGE_H

#include <linux/string.h>
#include <linux/types.h>

/*
 * The image ends below this address: chosen, what lies below the first border of a small node.
 * It leaves some hundred places of 2 MiB. The virtual address has its own randomization, which
 * stays as it is.
 */
#define CONTIGUITAS_IMAGE_END 0x10000000ULL

/* Of the decompressor. */
int cmdline_find_option(const char *option, char *buffer, int size);

static inline bool contiguitas_keeps_image_low(void)
{
	char value[sizeof("off")];

	return IS_ENABLED(CONFIG_CONTIGUITAS) &&
	       (cmdline_find_option("contiguitas", value, sizeof(value)) != strlen("off") ||
		strcmp(value, "off"));
}

/* limit: the end of the memory that randomization may use. */
static inline u64 contiguitas_image_limit(u64 limit)
{
	if (limit > CONTIGUITAS_IMAGE_END && contiguitas_keeps_image_low())
		return CONTIGUITAS_IMAGE_END;
	return limit;
}

#endif
