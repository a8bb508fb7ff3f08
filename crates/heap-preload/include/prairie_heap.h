/* Prairie's heap, for C and C++ programs that link it.
 *
 * malloc's family has its usual names and is declared by <stdlib.h> and <malloc.h>; this header
 * declares the functions that C libraries of today lack. */
#ifndef PRAIRIE_HEAP_H
#define PRAIRIE_HEAP_H

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C23: as free(). The sizes and the alignment are not relied on. */
void free_sized(void *object, size_t size);
void free_aligned_sized(void *object, size_t alignment, size_t size);

#ifdef __cplusplus
}
#endif

#endif
