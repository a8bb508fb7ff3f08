/* What users of preloaded allocators ran into, a case for each argument. A case that goes well ends
 * with status 0; one that fails says why and ends with 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* Known to no C library of today, but to the heap. */
#define WEAK __attribute__((weak))
WEAK void free_sized(void *, size_t);
WEAK void free_aligned_sized(void *, size_t, size_t);
WEAK void cfree(void *);
/* In debug builds: whether all levels of the heap agree. No thread may be inside it meanwhile. */
WEAK int prairie_heap_validate(void);
extern char **environ;

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "line %d: not so: %s (errno %d)\n", __LINE__, #condition, errno); \
            _exit(1);                                                                \
        }                                                                            \
    } while (0)

/* Keeps the compiler from knowing what a pointer or a size is. */
static void *hidden(void *p) { __asm__ volatile("" : "+r"(p)); return p; }
static size_t unknown(size_t n) { __asm__ volatile("" : "+r"(n)); return n; }
static int aligned(void *p, size_t to) { return p && (uintptr_t)p % to == 0; }

/* Through a pointer: GCC takes for granted that the built-in function leaves errno alone. */
static int (*volatile posix_memalign_hidden)(void **, size_t, size_t) = posix_memalign;
static int posix_memalign_fails(size_t align, size_t size) {
    void *untouched = &untouched;
    int error = posix_memalign_hidden(&untouched, align, size);
    CHECK(error != 0 && untouched == &untouched);
    return error;
}

static void family(void) {
    for (size_t size = 0; size < 300000; size += size < 2000 ? 1 : 1777) {
        char *p = malloc(size);
        CHECK(aligned(p, 16) && malloc_usable_size(p) >= size);
        memset(p, 0xa5, malloc_usable_size(p));
        char *q = realloc(p, size * 2 + 1);
        CHECK(aligned(q, 16));
        for (size_t i = 0; i < size; i++) CHECK((unsigned char)q[i] == 0xa5);
        free(q);
        char *zeros = calloc(size, 1);
        for (size_t i = 0; i < size; i++) CHECK(zeros[i] == 0);
        memset(zeros, 1, size);
        free_sized(zeros, size);
    }
    char *big = calloc(3, 10 << 20);
    for (size_t i = 0; i < 30 << 20; i += 1000) CHECK(big[i] == 0);
    memset(big, 1, 30 << 20);
    free(big);
    big = calloc(3, 10 << 20);
    for (size_t i = 0; i < 30 << 20; i += 1000) CHECK(big[i] == 0);
    free(big);
    CHECK(malloc_usable_size(NULL) == 0);
    void *p = reallocarray(NULL, 10, 10);
    CHECK(p && malloc_usable_size(p) >= 100);
    cfree(p);
    p = valloc(10);
    CHECK(aligned(p, 4096));
    free(p);
    p = pvalloc(4097);
    CHECK(aligned(p, 4096) && malloc_usable_size(p) >= 8192);
    free(p);
    /* Size 0 frees, as glibc has it; a fitting size stays in place, which _FORTIFY_SOURCE users
     * need before they use the slack. */
    CHECK(realloc(malloc(10), 0) == NULL);
    p = malloc(100);
    CHECK(realloc(p, malloc_usable_size(p)) == p);
    free(p);
    malloc_trim(0);
}

static void alignment(void) {
    CHECK(aligned(malloc(1), 16) && aligned(malloc(8), 16));
    for (size_t align = 8; align <= 1 << 30; align *= 2)
        for (size_t size = 0; size <= 70000; size = size * 3 + (size == 0)) {
            void *p = NULL;
            CHECK(posix_memalign(&p, align, size) == 0 && aligned(p, align));
            CHECK(malloc_usable_size(p) >= size);
            memset(p, 1, size);
            free_aligned_sized(p, align, size);
            void *q = memalign(align, size);
            CHECK(aligned(q, align));
            q = realloc(q, size + 1);
            CHECK(q);
            free(q);
        }
    free(aligned_alloc(64, 100)); /* not a multiple: C17 allows it */
    errno = 0;
    CHECK(aligned_alloc(unknown(48), 96) == NULL && errno == EINVAL);
    void *untouched = &untouched;
    CHECK(posix_memalign(&untouched, unknown(24), 8) == EINVAL && untouched == &untouched);
    CHECK(posix_memalign(&untouched, unknown(4), 8) == EINVAL);
    errno = 0;
    CHECK(posix_memalign_fails(24, 8) == EINVAL && errno == 0);
    CHECK(posix_memalign_fails(64, SIZE_MAX) == ENOMEM && errno == ENOMEM);
    CHECK(untouched == &untouched);
}

#define FAILS(call) do { errno = 0; CHECK((call) == NULL && errno == ENOMEM); } while (0)

static void errors(void) {
    void *kept = malloc(100);
    size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 15, SIZE_MAX - 4095, SIZE_MAX / 2 + 1,
                      (size_t)PTRDIFF_MAX, (size_t)1 << 62, (size_t)1 << 48};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = unknown(sizes[i]);
        FAILS(malloc(n));
        FAILS(calloc(n, 1));
        FAILS(calloc(1, n));
        FAILS(calloc(n, n));
        FAILS(realloc(kept, n));
        FAILS(reallocarray(kept, n, 2));
        FAILS(memalign(4096, n));
        FAILS(memalign(1 << 30, n));
        FAILS(aligned_alloc(64, n));
        FAILS(valloc(n));
        FAILS(pvalloc(n));
    }
    FAILS(calloc(unknown((size_t)1 << 33), (size_t)1 << 33));
    memset(kept, 1, 100);
    errno = 77;
    free(kept);
    free(malloc(10 << 20));
    free(NULL);
    CHECK(errno == 77);
    free(malloc(3));
    CHECK(errno == 77);
}

/* A signal handler that allocates, or forks, whatever its thread was at. The next signal follows that
   long after a handler has ended, so that the thread gets on however slow the machine is. */
static volatile int handled;
static int wanted;
static struct itimerval until_next;
static void *held[64];
static void ask_for_next(void) {
    if (handled < wanted) setitimer(ITIMER_REAL, &until_next, NULL);
}
static void allocates(int signal) {
    (void)signal;
    for (int i = 0; i < 64; i++) held[i] = malloc(16 + 997 * i);
    for (int i = 0; i < 64; i++) free(held[i]);
    handled++;
    ask_for_next();
}
static void forks(int signal) {
    (void)signal;
    int kept = errno;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 200; i++) free(malloc(10 + 1500 * i));
        handled = 1000; /* the child goes on with what was interrupted, and ends soon */
    } else if (child > 0)
        handled++;
    ask_for_next();
    errno = kept;
}
static void work(int rounds) {
    static void *slots[3000];
    for (int i = 0; i < rounds; i++) {
        int slot = rand() % 3000;
        free(slots[slot]);
        slots[slot] = malloc(1 + rand() % (i % 16 ? 600 : 400000));
        if (slots[slot]) *(char *)slots[slot] = 1;
    }
}
static void by_timer(void (*handler)(int), int micros, int times) {
    signal(SIGALRM, handler);
    wanted = times;
    until_next.it_value.tv_usec = micros;
    pid_t self = getpid();
    ask_for_next();
    while (handled < times) work(2000);
    if (getpid() != self) _exit(0);
    int status;
    while (wait(&status) > 0) CHECK(status == 0);
}
static void signal_allocates(void) { by_timer(allocates, 200, 800); }
static void signal_forks(void) { by_timer(forks, 2000, 40); }

/* Only debug builds can tell; whoever runs another one says so. */
static void levels_agree(void) {
    if (!prairie_heap_validate && getenv("TRAPS_ON_RELEASE")) return;
    CHECK(prairie_heap_validate && prairie_heap_validate() == 0);
}

static volatile int stop;
static void *worker(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    unsigned char *slots[500] = {0};
    size_t sizes[500] = {0};
    while (!stop) {
        int i = rand_r(&seed) % 500;
        if (slots[i]) {
            for (size_t b = 0; b < sizes[i]; b += 61) CHECK(slots[i][b] == (unsigned char)i);
            free(slots[i]);
        }
        sizes[i] = rand_r(&seed) % (rand_r(&seed) % 20 ? 900 : 300000);
        slots[i] = malloc(sizes[i]);
        CHECK(slots[i]);
        memset(slots[i], i, sizes[i]);
    }
    for (int i = 0; i < 500; i++) free(slots[i]);
    return NULL;
}
static void with_workers(void (*meanwhile)(void)) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, worker, (void *)(i + 1));
    meanwhile();
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    levels_agree();
}
static int forks_wanted = 25;
static void fork_many(void) {
    for (int i = 0; i < forks_wanted; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            work(3000);
            pthread_t thread;
            pthread_create(&thread, NULL, (void *(*)(void *))malloc, (void *)100);
            pthread_join(thread, NULL);
            if (i % 10 == 0) { /* a child forks as well */
                pid_t grandchild = fork();
                if (grandchild == 0) _exit(0);
                int status;
                CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
            }
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}
static void fork_threads(void) { with_workers(fork_many); }

/* Every function of the family, from four threads that free each other's blocks, with a pattern in each
 * block, while the process forks and the caches are emptied. */
typedef struct { unsigned char *block; size_t size; } Filled;
static Filled shared[64];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char pattern_of(const void *block) { return (uintptr_t)block >> 4 ^ (uintptr_t)block >> 17; }
static Filled filled(void *block, size_t size) {
    CHECK(block && malloc_usable_size(block) >= size);
    memset(block, pattern_of(block), size);
    return (Filled){block, size};
}
static void intact(Filled it, size_t up_to, unsigned char pattern) {
    for (size_t b = 0; b < up_to; b += b < 256 ? 1 : 509) CHECK(it.block[b] == pattern);
}
static Filled allocated(unsigned *seed) {
    size_t limit = rand_r(seed) % 8 ? 300 : rand_r(seed) % 8 ? 9000 : 900000;
    size_t size = 1 + rand_r(seed) % limit;
    size_t align = (size_t)16 << rand_r(seed) % 10;
    void *block = NULL;
    switch (rand_r(seed) % 8) {
    case 0:
        block = calloc(size / 8 + 1, 8);
        for (size_t b = 0; b < size; b++) CHECK(((char *)block)[b] == 0);
        break;
    case 1: CHECK(posix_memalign(&block, align, size) == 0 && aligned(block, align)); break;
    case 2: CHECK(aligned(block = aligned_alloc(align, size), align)); break;
    case 3: CHECK(aligned(block = memalign(align, size), align)); break;
    case 4: CHECK(aligned(block = rand_r(seed) % 2 ? valloc(size) : pvalloc(size), 4096)); break;
    case 5: block = reallocarray(NULL, size, 1); break;
    default: block = malloc(size);
    }
    return filled(block, size);
}
static void released(Filled it, unsigned *seed) {
    if (!it.block) return;
    intact(it, it.size, pattern_of(it.block));
    if (rand_r(seed) % 8 == 0) {
        unsigned char pattern = pattern_of(it.block);
        size_t size = 1 + rand_r(seed) % (2 * it.size), kept = size < it.size ? size : it.size;
        it.block = realloc(it.block, size);
        CHECK(it.block);
        intact(it, kept, pattern);
    }
    free(it.block);
}
static void *stresses(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    Filled own[200] = {0};
    for (int turn = 0; turn < 20000; turn++) {
        int at = rand_r(&seed) % 200;
        if (rand_r(&seed) % 4 == 0) { /* what another thread allocated is freed here */
            pthread_mutex_lock(&shared_lock);
            Filled other = shared[at % 64];
            shared[at % 64] = own[at];
            pthread_mutex_unlock(&shared_lock);
            own[at] = other;
        }
        released(own[at], &seed);
        own[at] = allocated(&seed);
        if (turn % 5000 == 4999) malloc_trim(0);
    }
    for (int i = 0; i < 200; i++) released(own[i], &seed);
    return NULL;
}
static void stress(void) {
    for (uintptr_t round = 0; round < 2; round++) {
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, stresses, (void *)(round * 4 + i + 1));
        for (int i = 0; i < 4; i++) {
            pid_t child = fork();
            if (child == 0) { work(2000); _exit(0); }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        /* Not in the children: there a thread may be gone in the middle of a count. */
        levels_agree();
    }
}

/* A thread inside fflush holds stdio's list and allocates; fork takes the two the other way round. */
static ssize_t writes(void *cookie, const char *text, size_t length) {
    (void)cookie, (void)text;
    for (int i = 0; i < 300; i++) free(malloc(3000 + 5000 * i));
    return length;
}
static void *flusher(void *argument) {
    (void)argument;
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = writes});
    while (!stop) {
        fputs("text", stream);
        fflush(NULL);
    }
    return NULL;
}
static void fork_fflush(void) {
    forks_wanted = 6; /* each waits until the flusher gives way */
    pthread_t thread;
    pthread_create(&thread, NULL, flusher, NULL);
    fork_many();
    stop = 1;
    pthread_join(thread, NULL);
}

static void spawn(void) {
    char *arguments[] = {"true", NULL};
    for (int i = 0; i < 50; i++) {
        pid_t child;
        CHECK(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        if ((child = vfork()) == 0) _exit(0);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        free(malloc(1000));
    }
}
static void spawn_threads(void) { with_workers(spawn); }

/* Keys: as many as without a preload. Destructors may allocate, in any round. */
static pthread_key_t keys[2000];
static void allocates_at_end(void *value) {
    void *p = malloc(500);
    CHECK(p);
    free(value);
    static _Thread_local int rounds;
    pthread_setspecific(keys[0], rounds++ < 3 ? p : (free(p), NULL));
}
static void *dies(void *argument) {
    (void)argument;
    pthread_setspecific(keys[0], malloc(100));
    for (int i = 0; i < 100; i++) free(malloc(i * 50));
    return malloc(200);
}
static void threads_die(void) {
    CHECK(pthread_key_create(&keys[0], allocates_at_end) == 0);
    for (int round = 0; round < 300; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, dies, NULL) == 0);
        for (int i = 0; i < 4; i++) {
            void *left;
            pthread_join(threads[i], &left);
            free(left);
        }
    }
    struct mallinfo2 info = mallinfo2();
    CHECK(info.uordblks < 64 << 20);
    levels_agree();
}
static void count_keys(void) {
    int count = 0;
    free(malloc(1));
    while (pthread_key_create(&keys[count], NULL) == 0) count++;
    printf("%d\n", count);
}

static void memory_limit(void) {
    struct rlimit limit = {500 << 20, 500 << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    static void *blocks[10000];
    for (int round = 0; round < 3; round++) {
        size_t size = round == 0 ? 1 << 20 : round == 1 ? 100000 : 3 << 20;
        int count = 0;
        errno = 0;
        while (count < 10000 && (blocks[count] = malloc(size))) memset(blocks[count++], 1, 100);
        CHECK(errno == ENOMEM && count * size > 150u << 20);
        void *small = malloc(10);
        free(small);
        size_t large_size = 400 << 20;
        FAILS(malloc(large_size));
        FAILS(calloc(large_size, 1));
        FAILS(aligned_alloc(64, large_size));
        FAILS(memalign(4096, large_size));
        FAILS(valloc(large_size));
        FAILS(pvalloc(large_size));
        errno = 0;
        CHECK(posix_memalign_fails(4096, large_size) == ENOMEM && errno == ENOMEM);
        while (count) free(blocks[--count]);
        void *large = malloc(100 << 20);
        CHECK(large);
        free(large);
    }
    /* A thread may find no room for its stack, but nothing breaks. */
    pthread_t thread;
    int error = pthread_create(&thread, NULL, dies, NULL);
    CHECK(error == 0 || error == EAGAIN);
    void *left = NULL;
    if (error == 0) pthread_join(thread, &left);
    free(left);
    free(malloc(100));
}

static size_t kib_of(const char *field) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, field, &kib) == 1) break;
    fclose(status);
    return kib;
}
static size_t resident_kib(void) { return kib_of("VmRSS: %zu"); }
/* Many objects of some pages, of which three in four are freed, then larger ones, which do not fit
 * into the holes. Prints the KiB that are resident, of which about 97,000 are live. */
static void grows_over_holes(void) {
    enum { SMALL = 2500, LARGE = 24, SMALL_SIZE = 40 << 10, LARGE_SIZE = 3 << 20 };
    static void *small[SMALL], *large[LARGE];
    for (int i = 0; i < SMALL; i++) {
        CHECK(small[i] = malloc(SMALL_SIZE));
        memset(small[i], 1, SMALL_SIZE);
    }
    for (int i = 0; i < SMALL; i++) if (i % 4) free(small[i]);
    for (int i = 0; i < LARGE; i++) {
        CHECK(large[i] = malloc(LARGE_SIZE));
        memset(large[i], 2, LARGE_SIZE);
    }
    for (int i = 0; i < SMALL; i += 4) CHECK(((char *)small[i])[SMALL_SIZE - 1] == 1);
    printf("%zu\n", resident_kib());
}

static size_t peak_kib(void) { return kib_of("VmHWM: %zu"); }

/* Arrays that realloc cannot extend in place, as another block follows them each time, keep what they
 * hold. Prints the KiB by which the peak of resident memory rose; the array has 66,000 at most. */
static void grows_large(void) {
    enum { MIB = 1 << 20, STEPS = 64 };
    static void *behind[STEPS];
    size_t before = peak_kib();
    size_t *array = NULL, filled = 0, size = MIB;
    for (int step = 0; step < STEPS && size <= 64 * MIB; step++, size += size / 6 & ~7) {
        CHECK(array = realloc(array, size));
        for (; filled < size / sizeof *array; filled++) array[filled] = filled;
        CHECK(behind[step] = malloc(2 * MIB));
    }
    for (size_t i = 0; i < filled; i++) CHECK(array[i] == i);
    size_t risen = peak_kib() - before;
    for (; size > MIB / 2; size = size / 3 & ~7) {
        CHECK(array = realloc(array, size));
        if (filled > size / sizeof *array) filled = size / sizeof *array;
        for (size_t i = 0; i < filled; i++) CHECK(array[i] == i);
    }
    free(array);
    for (int step = 0; step < STEPS; step++) free(behind[step]);
    printf("%zu\n", risen);
}

/* A large array becomes shorter and grows again, with a locked page in it. Prints whether the first happened
 * in place. */
static void truncated(void) {
    enum { MIB = 1 << 20 };
    char *array = malloc(41 * MIB + 12345), *other = malloc(5 * MIB);
    memset(array, 1, 41 * MIB);
    memset(other, 2, 5 * MIB);
    CHECK(mlock(array + 4 * MIB, 4096) == 0);
    uintptr_t start = (uintptr_t)array;
    char *shorter = realloc(array, 9 * MIB);
    printf("%s\n", (uintptr_t)shorter == start ? "in place" : "moved");
    CHECK(shorter && malloc_usable_size(shorter) >= 9 * MIB && malloc_usable_size(shorter) < 20 * MIB);
    char *third = malloc(30 * MIB);
    memset(third, 3, 30 * MIB);
    char *longer = realloc(shorter, 60 * MIB);
    memset(longer + 9 * MIB, 4, 51 * MIB);
    for (size_t i = 0; i < 9 * MIB; i++) CHECK(longer[i] == 1);
    for (size_t i = 0; i < 5 * MIB; i++) CHECK(other[i] == 2);
    for (size_t i = 0; i < 30 * MIB; i++) CHECK(third[i] == 3);
    free(longer);
    free(other);
    free(third);
}

static void plugin(void) {
    void *library = dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_DEEPBIND);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    char *(*make)(void) = (char *(*)(void))dlsym(library, "make");
    void (*take)(char *) = (void (*)(char *))dlsym(library, "take");
    for (int i = 0; i < 1000; i++) {
        free(make());
        take(malloc(10));
    }
}

/* Objects of whole pages that the program never writes to cost none of them. */
static void untouched(void) {
    enum { BLOCKS = 2000, SIZE = 8000 };
    static void *blocks[BLOCKS];
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) CHECK(blocks[i] = hidden(malloc(SIZE)));
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    }
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < BLOCKS * 4 / 4);
}

/* What must end the process with one line. */
static void *other_thread_frees(void *p) { free(p); return NULL; }
static void twice(size_t size) {
    char *p = hidden(malloc(size));
    free(p);
    free(hidden(p));
}
static void twice_apart(size_t size) {
    char *p = hidden(malloc(size)), *q = malloc(size);
    free(p);
    free(q);
    free(hidden(p));
}
static void twice_elsewhere(size_t size) {
    char *p = hidden(malloc(size));
    free(p);
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread_frees, hidden(p));
    pthread_join(thread, NULL);
}
static void foreign(size_t size) {
    static char unallocated[1 << 20];
    free(malloc(10));
    free(hidden(size ? unallocated + 4096 : (char *)&size));
}
static void interior(size_t size) {
    char *p = hidden(malloc(size));
    free(hidden(p + (size > 300000 ? 8192 : 8)));
}
static void interior_by_an_object(size_t size) {
    /* Passes as an object until its cache is full. */
    static char *blocks[5000];
    for (int i = 0; i < 5000; i++) blocks[i] = malloc(size);
    free(hidden(blocks[0] + 16));
    for (int i = 1; i < 5000; i++) free(blocks[i]);
}

/* With PRAIRIE_HEAP_GUARD=1 each object has a page of its own. */
static void guard_after_free(size_t size) {
    volatile char *p = hidden(malloc(size));
    p[0] = 1;
    free((void *)p);
    p[size - 1] = 2;
}
static void guard_behind(size_t size) {
    volatile char *p = hidden(malloc(size));
    p[size + 15] = 1;
}
static void guard_close_behind(size_t size) {
    volatile char *p = hidden(malloc(size));
    p[size] = 1;
    free((void *)p);
}
static void guard_in_front(size_t size) {
    volatile char *p = hidden(malloc(size));
    p[-4096] = 1;
}
static void guard_twice(size_t size) {
    char *p = hidden(malloc(size));
    free(p);
    free(hidden(p));
}
static void guard_interior(size_t size) {
    char *p = hidden(malloc(size));
    free(hidden(p + 1));
}
/* 64 MiB live in objects of one size, as many freed: for the profile. */
static __attribute__((noinline)) void *hold(size_t size) {
    void *p = malloc(size);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
static void hold_64_mib(size_t size) {
    for (size_t held = 0; held < 64 << 20; held += size) free(hold(size)), hold(size);
}

/* The last of the program's threads ends, by pthread_exit, and the process with it. */
static void last_thread_ends(void) {
    free(malloc(1000));
    pthread_exit(NULL);
}

/* Allocates for longer than the heap waits between two publications of its statistics. */
static void allocate_for_a_second(void) {
    struct timespec start, now;
    unsigned random = 1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        void *blocks[64];
        for (int i = 0; i < 64; i++) {
            random = random * 1103515245 + 12345;
            blocks[i] = malloc(random >> 16 & (random >> 31 ? 0x3ffff : 0x3ff));
            CHECK(blocks[i]);
        }
        for (int i = 0; i < 64; i++) free(blocks[i]);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 <
             start.tv_sec * 1000 + start.tv_nsec / 1000000 + 1000);
}
static void *allocates_for_ever(void *unused) {
    for (;;) allocate_for_a_second();
}

/* The heap is no cancellation point: a thread that is to be cancelled allocates until it comes to
   one of its own. */
static sem_t is_cancelled;
static int has_allocated;
static void *allocates_when_cancelled(void *unused) {
    while (sem_trywait(&is_cancelled) != 0) {}
    allocate_for_a_second();
    malloc_trim(0);
    has_allocated = 1;
    pthread_testcancel();
    return NULL;
}
/* The same where each moment is a cancellation point, outside the heap. */
static sem_t may_be_cancelled;
static void *allocates_and_spins(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    allocate_for_a_second();
    has_allocated = 1;
    sem_post(&may_be_cancelled);
    for (;;) {}
}
static void cancelled_threads(void) {
    pthread_t thread;
    void *result;
    sem_init(&is_cancelled, 0, 0);
    sem_init(&may_be_cancelled, 0, 0);
    CHECK(pthread_create(&thread, NULL, allocates_when_cancelled, NULL) == 0);
    CHECK(pthread_cancel(thread) == 0 && sem_post(&is_cancelled) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && has_allocated);
    has_allocated = 0;
    CHECK(pthread_create(&thread, NULL, allocates_and_spins, NULL) == 0);
    CHECK(sem_wait(&may_be_cancelled) == 0 && pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && has_allocated);
    allocate_for_a_second();
}

/* Threads cancelled inside the heap: undefined in POSIX. The program may end, but must not hang. */
static sem_t may_allocate;
static void *allocates_until_cancelled(void *largest) {
    unsigned seed = 1;
    void *objects[64] = {0};
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    sem_post(&may_allocate);
    for (;;) {
        size_t place = rand_r(&seed) % 64;
        free(objects[place]);
        objects[place] = NULL;
        objects[place] = hidden(malloc(1 + rand_r(&seed) % (size_t)largest));
    }
}
static void cancelled_inside(size_t largest) {
    for (int round = 0; round < 100; round++) {
        pthread_t thread;
        sem_init(&may_allocate, 0, 0);
        CHECK(pthread_create(&thread, NULL, allocates_until_cancelled, (void *)largest) == 0);
        sem_wait(&may_allocate);
        usleep(round * 5);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
        free(hidden(malloc(largest)));
    }
}

/* A thread that can be cancelled at any moment replaces the program, while others allocate. */
static void *replaces_the_program(void *unused) {
    char *const arguments[] = {"traps", "family", NULL};
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (size_t size = 1; size < 1 << 22; size *= 2) free(hidden(malloc(size)));
    execv("/proc/self/exe", arguments);
    return NULL;
}
static void thread_execs(void) {
    pthread_t thread;
    for (size_t other = 0; other < 3; other++)
        CHECK(pthread_create(&thread, NULL, allocates_for_ever, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, replaces_the_program, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK(!"the program goes on");
}

/* Threads allocate while signals interrupt them, they move between CPUs, and another thread empties
 * their caches. A signal that restarts a section of the heap finds the thread at an abort handler,
 * which a signature precedes. */
#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053
#define PLACE_IN_PROGRAM(context) ((context)->uc_mcontext.gregs[REG_RIP])
#elif defined(__aarch64__)
#define RSEQ_SIGNATURE 0xd428bc00
#define PLACE_IN_PROGRAM(context) ((context)->uc_mcontext.pc)
#endif
extern WEAK const unsigned __rseq_size;
enum { MOVING_THREADS = 3, ENOUGH_RESTARTS = 20, MOST_SIGNALS = 1000000 };
static int signals, restarts, enough;
static cpu_set_t allowed_cpus;

static void counts_restart(int signal, siginfo_t *info, void *context) {
    uint32_t before;
    memcpy(&before, (char *)PLACE_IN_PROGRAM((ucontext_t *)context) - 4, sizeof before);
    __atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
    if (before == RSEQ_SIGNATURE) __atomic_add_fetch(&restarts, 1, __ATOMIC_RELAXED);
}
static void *moves(void *argument) {
    unsigned seed = (uintptr_t)argument;
    struct { uint64_t *start; size_t words; } objects[200] = {0};
    for (unsigned round = 0; !__atomic_load_n(&enough, __ATOMIC_RELAXED); round++) {
        unsigned place = rand_r(&seed) % 200;
        uint64_t *start = objects[place].start, mark = (uintptr_t)argument << 32 | place;
        if (start) CHECK(start[0] == mark && start[objects[place].words - 1] == mark);
        free(hidden(start));
        size_t words = 1 + rand_r(&seed) % (round % 64 ? 32 : 1500);
        start = objects[place].start = hidden(malloc(words * 8));
        start[0] = start[words - 1] = mark;
        objects[place].words = words;
        int cpu = rand_r(&seed) % 64;
        if (round % 256 == 0 && CPU_ISSET(cpu, &allowed_cpus)) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
        }
    }
    for (size_t place = 0; place < 200; place++) free(objects[place].start);
    return NULL;
}
static void restarted(void) {
    pthread_t threads[MOVING_THREADS];
    struct sigaction counts = {.sa_sigaction = counts_restart, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    int registered = &__rseq_size && __rseq_size;
    sigset_t alarm;
    CHECK(sched_getaffinity(0, sizeof allowed_cpus, &allowed_cpus) == 0);
    sigaction(SIGALRM, &counts, NULL);
    for (uintptr_t i = 0; i < MOVING_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, moves, (void *)(i + 1)) == 0);
    sigemptyset(&alarm), sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    /* Counted in signals, not in seconds, as an emulated machine may get little of its host's time. */
    for (int round = 0, needs = registered ? ENOUGH_RESTARTS : 0; round < 100
            || (__atomic_load_n(&restarts, __ATOMIC_RELAXED) < needs
                && __atomic_load_n(&signals, __ATOMIC_RELAXED) < MOST_SIGNALS); round++) {
        malloc_trim(0);
        usleep(1000);
    }
    __atomic_store_n(&enough, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < MOVING_THREADS; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%d restarts by %d signals\n", restarts, signals);
    fflush(stdout);
    CHECK(registered ? restarts >= ENOUGH_RESTARTS : restarts == 0);
    levels_agree();
}

int main(int count, char **arguments) {
    static const struct { const char *name; void (*run)(void); } cases[] = {
        {"family", family}, {"alignment", alignment}, {"errors", errors},
        {"signal_allocates", signal_allocates}, {"signal_forks", signal_forks},
        {"fork_threads", fork_threads}, {"fork_fflush", fork_fflush}, {"stress", stress},
        {"spawn_threads", spawn_threads}, {"threads_die", threads_die},
        {"count_keys", count_keys}, {"memory_limit", memory_limit}, {"plugin", plugin},
        {"last_thread_ends", last_thread_ends}, {"untouched", untouched},
        {"cancelled_threads", cancelled_threads}, {"thread_execs", thread_execs},
        {"grows_over_holes", grows_over_holes}, {"grows_large", grows_large},
        {"truncated", truncated}, {"restarted", restarted},
    };
    static const struct { const char *name; void (*run)(size_t); } faults[] = {
        {"guard_after_free", guard_after_free}, {"guard_behind", guard_behind},
        {"guard_close_behind", guard_close_behind}, {"guard_in_front", guard_in_front},
        {"guard_twice", guard_twice}, {"guard_interior", guard_interior},
        {"hold_64_mib", hold_64_mib}, {"cancelled_inside", cancelled_inside},
        {"twice", twice}, {"twice_apart", twice_apart}, {"twice_elsewhere", twice_elsewhere},
        {"foreign", foreign}, {"interior", interior},
        {"interior_by_an_object", interior_by_an_object},
    };
    const char *name = count > 1 ? arguments[1] : "";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(name, cases[i].name)) return cases[i].run(), 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (!strcmp(name, faults[i].name)) return faults[i].run(atol(arguments[2])), 0;
    fprintf(stderr, "no case is called %s\n", name);
    return 2;
}
