/* Calls one function of malloc's family, and reports the number of the process's threads: the
   heap's own one runs if the heap was set up when the program was loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#ifdef __cplusplus
#define ALLOCATE operator new(100)
#endif

void *volatile kept;

int main(void) {
    char text[64];
    struct stat tasks;
    kept = ALLOCATE;
    if (kept == NULL || stat("/proc/self/task", &tasks) != 0)
        return 1;
    snprintf(text, sizeof text, "%d threads\n", (int)tasks.st_nlink - 2);
    fputs(text, stderr);
    return 0;
}
