/* Where the kernel has put what threads of two NUMA nodes allocate.
 *
 * Two threads, each on a CPU of its node, allocate objects, write to them, and ask the kernel
 * (move_pages) for the node of each. Then each frees what the other has allocated, and allocates
 * again: a heap that hands those objects out again has them on the wrong node. A last phase keeps one
 * object of eight, so that others come from spans in use.
 *
 * Usage: nodes exchange | exhaust MIB | hotplug CPU
 *   exchange   the three phases; prints their shares
 *   exhaust    allocates MIB on the first node, more than it has, and prints how much is there
 *   hotplug    puts CPU online, which is off, and prints the share of a thread on it
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OBJECTS 10000
#define ROUNDS 6
#define CHUNK 1024

/* Phases: all objects are new, all are exchanged, all but one of eight are. */
enum { FRESH, CROSSWISE, PARTIAL, PHASES };
static const char *names[PHASES] = {"fresh", "crosswise", "partial"};

/* In debug builds: whether all levels of each node's heap agree and hold what lies on it. */
__attribute__((weak)) int prairie_heap_validate(void);

static char *objects[2][OBJECTS];
static long own[2][PHASES], all[2][PHASES];
static pthread_barrier_t together;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Moves the thread to a CPU; returns the kernel's number of the CPU's node. */
static int pin(int cpu) {
    cpu_set_t set;
    unsigned now, node;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) fail("sched_setaffinity");
    if (syscall(SYS_getcpu, &now, &node, NULL)) fail("getcpu");
    return (int)node;
}

/* Asks for the node of each page. A page that is just moved, to a huge page for one, has none. */
static void ask(void **places, int *nodes, long count) {
    for (int tries = 0; tries < 100; tries++) {
        if (syscall(SYS_move_pages, 0, count, places, NULL, nodes, 0) < 0) fail("move_pages");
        long known = 0;
        while (known < count && nodes[known] >= 0) known++;
        if (known == count) return;
        usleep(10000);
    }
    fail("an object that was written has no page");
}

/* Of `count` objects, those whose first byte lies on the node. */
static long on_node(char **object, long count, int node) {
    long found = 0;
    void *places[CHUNK];
    int nodes[CHUNK];
    for (long at = 0; at < count; at += CHUNK) {
        long some = count - at < CHUNK ? count - at : CHUNK;
        for (long i = 0; i < some; i++)
            places[i] = (void *)((unsigned long)object[at + i] & ~4095ul);
        ask(places, nodes, some);
        for (long i = 0; i < some; i++) found += nodes[i] == node;
    }
    return found;
}

/* Mostly small objects, as in servers; 1 in 256 is larger than the largest size class. */
static size_t size_of(unsigned *seed) {
    unsigned random = rand_r(seed);
    if (random % 256 == 0) return (300 << 10) + random % (200 << 10);
    if (random % 16 == 0) return 1024 + random % 8192;
    return 16 + random % 500;
}

static int stays(int phase, long i) {
    return phase == PARTIAL && i % 8 == 0;
}

static void fill(char **object, int phase, unsigned *seed) {
    for (long i = 0; i < OBJECTS; i++) {
        if (stays(phase, i)) continue;
        size_t size = size_of(seed);
        if (!(object[i] = malloc(size))) fail("malloc");
        memset(object[i], 1, size);
    }
}

static void count(int thread, int phase, int node) {
    own[thread][phase] += on_node(objects[thread], OBJECTS, node);
    all[thread][phase] += OBJECTS;
}

static void *exchange(void *argument) {
    int thread = (int)(long)argument, node = pin(thread);
    unsigned seed = thread + 1;
    fill(objects[thread], FRESH, &seed);
    count(thread, FRESH, node);
    for (int round = 0; round < ROUNDS; round++) {
        int phase = round < ROUNDS / 2 ? CROSSWISE : PARTIAL;
        char **others = objects[!thread];
        pthread_barrier_wait(&together);
        for (long i = 0; i < OBJECTS; i++)
            if (!stays(phase, i)) free(others[i]);
        pthread_barrier_wait(&together);
        fill(objects[thread], phase, &seed);
        count(thread, phase, node);
    }
    return NULL;
}

static void two_threads(void) {
    pthread_t threads[2];
    pthread_barrier_init(&together, NULL, 2);
    for (long i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, exchange, (void *)i)) fail("pthread_create");
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int phase = 0; phase < PHASES; phase++)
        printf("%s=%.2f ", names[phase],
               100.0 * (own[0][phase] + own[1][phase]) / (all[0][phase] + all[1][phase]));
    printf("\n");
}

static void exhaust(long mib) {
    int node = pin(0);
    char **object = calloc(mib, sizeof *object);
    for (long i = 0; i < mib; i++) {
        if (!(object[i] = malloc(1 << 20))) fail("malloc");
        memset(object[i], 1, 1 << 20);
    }
    printf("mib=%ld first_half=%.2f all=%.2f\n", mib, 100.0 * on_node(object, mib / 2, node) / (mib / 2),
           100.0 * on_node(object, mib, node) / mib);
}

static void hotplug(int cpu) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
    FILE *file = fopen(path, "w");
    if (!file || fputs("1", file) < 0 || fclose(file)) fail(path);
    unsigned seed = 1;
    int node = pin(cpu);
    fill(objects[0], FRESH, &seed);
    printf("node=%d fresh=%.2f\n", node, 100.0 * on_node(objects[0], OBJECTS, node) / OBJECTS);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "exchange")) two_threads();
    else if (!strcmp(mode, "exhaust") && count > 2) exhaust(atol(arguments[2]));
    else if (!strcmp(mode, "hotplug") && count > 2) hotplug(atoi(arguments[2]));
    else return 2;
    if (prairie_heap_validate && prairie_heap_validate()) return 3;
    return 0;
}
