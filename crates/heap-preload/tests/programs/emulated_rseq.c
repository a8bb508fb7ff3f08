/* Restartable sequences for one thread where the system has none, as in qemu-aarch64: the program
 * defines what glibc does, and a signal handler does what the kernel does. Ends with status 0 if the
 * heap keeps objects apart while signals restart its sections. */
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)
#define SIGNATURE 0xd428bc00

struct area { uint32_t cpu_id_start, cpu_id; uint64_t rseq_cs, flags, more; };
struct section { uint32_t version, flags; uint64_t start, length, abort; };

/* The only thread-local variable of the program, so its offset is its alignment. */
static __thread struct area area __attribute__((aligned(32))) = {0};
const ptrdiff_t __rseq_offset = 32;
const unsigned __rseq_size = 32;
__attribute__((weak)) int prairie_heap_validate(void);

static volatile unsigned signals, restarts;
static void as_the_kernel_does(int signal, siginfo_t *info, void *context) {
    unsigned long long *place = (unsigned long long *)&((ucontext_t *)context)->uc_mcontext.pc;
    const struct section *section = (const struct section *)area.rseq_cs;
    signals++;
    area.rseq_cs = 0;
    if (!section || *place - section->start >= section->length) return;
    CHECK(*(uint32_t *)(section->abort - 4) == SIGNATURE && section->version == 0);
    *place = section->abort;
    restarts++;
}

int main(int count, char **arguments) {
    static struct { uint64_t *start; size_t words; } objects[500];
    struct sigaction act = {.sa_sigaction = as_the_kernel_does, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    unsigned seed = 1;
    CHECK((char *)&area - (char *)__builtin_thread_pointer() == __rseq_offset);
    free(malloc(10));
    free(malloc(10));
    CHECK(area.rseq_cs != 0);
    if (count > 1) {
        /* A size whose double free ends the program. */
        void *volatile object = malloc(atol(arguments[1]));
        free(object);
        free(object);
        return 1;
    }
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    unsigned long round = 0;
    for (; restarts < 200 && signals < 1000000; round++) {
        unsigned place = rand_r(&seed) % 500;
        uint64_t *start = objects[place].start;
        if (start) CHECK(start[0] == place && start[objects[place].words - 1] == place);
        free(start);
        size_t words = 1 + rand_r(&seed) % (round % 64 ? 32 : 4500);
        start = objects[place].start = malloc(words * 8);
        CHECK(start && (uintptr_t)start % 16 == 0);
        start[0] = start[words - 1] = place;
        objects[place].words = words;
        if (round % 2000 == 0) {
            /* Stacks run empty and overflow, get room, and are emptied. */
            static void *many[3000];
            for (int i = 0; i < 3000; i++) memset(many[i] = malloc(64), 1, 64);
            for (int i = 0; i < 3000; i++) free(many[i]);
            malloc_trim(0);
        }
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (unsigned place = 0; place < 500; place++) free(objects[place].start);
    printf("%u restarts by %u signals in %lu rounds\n", restarts, signals, round);
    CHECK(restarts >= 200);
    CHECK(!prairie_heap_validate || prairie_heap_validate() == 0);
    return 0;
}
