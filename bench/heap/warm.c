/* Allocates the given number of MB in huge pages, writes to all of them, and ends: what runs next finds the machine's
 * free memory warm. A virtual machine may give free memory back to its host (free page reporting),
 * and then pays milliseconds for each huge page that is used again: which allocator pays is chance. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

int main(int count, char **arguments) {
    size_t size = count > 1 ? strtoull(arguments[1], NULL, 10) << 20 : 0;
    char *mapped = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!size || mapped == MAP_FAILED) {
        fprintf(stderr, "usage: warm MB, no more than there is\n");
        return 2;
    }
    char *start = (char *)(((uintptr_t)mapped + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
    madvise(start, size, MADV_HUGEPAGE);
    for (size_t at = 0; at < size; at += 4096) start[at] = 1;
    return 0;
}
