/*
 * A plugin for QEMU's user mode that writes the loads and stores of a program: what the streams
 * of the migration simulator are compared with, and what the translation model of
 * bench/heap/translations.sh is fed.
 *
 *   cc -O2 -shared -fPIC -o accesses.so accesses.c
 *   qemu-x86_64 -plugin ./accesses.so,to=/tmp/memcached /usr/bin/memcached -t 1 ...
 *   qemu-x86_64 -plugin ./accesses.so,to=/tmp/redis,window=1048576,every=16777216 redis-server ...
 *
 * Each thread writes a file of its own, /tmp/memcached.0 and so on, in the format that
 * crates/migrate/src/access_trace.rs reads: a header of 16 bytes, then 8 bytes an access, little
 * endian: bits 0-47 the address, 48 set for a store, 49-63 the instructions since the access
 * before, up to 32,767.
 *
 * With `window` and `every` a thread writes the first `window` of each `every` accesses only, and,
 * as text, /tmp/redis.0.huge: for each window a line `window RECORD`, with the number of its first
 * record, then a line `START-END` for each range of addresses that huge pages (PMD mappings) back,
 * and the same under a line `end RECORD` when the window ends. That needs Linux 6.7.
 *
 * Declared here is what is used of version 1 of QEMU's plugin interface, because distributions
 * ship the emulator without its header.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef struct qemu_info_t qemu_info_t;
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_CB_RW_REGS };

extern void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern void qemu_plugin_register_vcpu_mem_cb(
    struct qemu_plugin_insn *,
    void (*)(unsigned, qemu_plugin_meminfo_t, uint64_t, void *),
    enum qemu_plugin_cb_flags, enum qemu_plugin_mem_rw, void *);
extern void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb *, void (*)(unsigned, void *), enum qemu_plugin_cb_flags, void *);
extern bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { RECORDS = 1 << 13, MOST_INSTRUCTIONS = (1 << 15) - 1 };
static const char HEADER[16] = "PRAIRIEACCESS\0\1";

static char prefix[4000];
/* Of each `every` accesses of a thread the first `window` are written. */
static uint64_t window = UINT64_MAX, every = UINT64_MAX;
/* Set by QEMU: where the program's address 0 lies in the emulator. */
extern uintptr_t guest_base;

/* A program may be killed at any time, so a buffer never waits for an exit that may not be seen:
 * each is written when full, and every file ends with a whole record. */
static __thread uint64_t buffer[RECORDS];
static __thread unsigned used;
static __thread uint64_t executed, at_last_access;
static __thread int file = -1;
/* The accesses since the last window began, and the records of the windows before. */
static __thread uint64_t accesses, records;
static __thread FILE *huge;

static void write_all(const void *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t done = write(file, from, bytes);
        if (done <= 0) {
            perror("accesses: cannot write the trace");
            _exit(1);
        }
        from = (const char *)from + done;
        bytes -= done;
    }
}

static void flush(unsigned cpu)
{
    if (file < 0) {
        char name[4096];
        snprintf(name, sizeof name, "%s.%u", prefix, cpu);
        file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644);
        if (file < 0) {
            perror(name);
            _exit(1);
        }
        write_all(HEADER, sizeof HEADER);
    }
    write_all(buffer, used * sizeof *buffer);
    used = 0;
}

/* What the kernel's linux/fs.h declares from 6.7 on. */
struct page_region { uint64_t start, end, categories; };
struct pm_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg)
enum { PAGE_IS_HUGE = 1 << 6, REGIONS = 512 };
/* The end of a program's addresses: 2^47 less a page. */
static const uint64_t ADDRESSES = (UINT64_C(1) << 47) - 4096;

/* Writes which of the program's addresses huge pages back at this moment. */
static void write_huge(unsigned cpu, const char *when, uint64_t record)
{
    if (!huge) {
        char name[4096];
        snprintf(name, sizeof name, "%s.%u.huge", prefix, cpu);
        huge = fopen(name, "w");
        if (!huge) {
            perror(name);
            _exit(1);
        }
    }
    fprintf(huge, "%s %" PRIu64 "\n", when, record);
    struct page_region regions[REGIONS];
    struct pm_scan_arg scan = {
        .size = sizeof scan, .end = ADDRESSES, .vec = (uintptr_t)regions, .vec_len = REGIONS,
        .category_mask = PAGE_IS_HUGE, .return_mask = PAGE_IS_HUGE,
    };
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    while (scan.start < ADDRESSES) {
        int found = ioctl(pagemap, PAGEMAP_SCAN, &scan);
        if (found < 0) {
            perror("accesses: /proc/self/pagemap cannot be scanned (Linux 6.7 can)");
            _exit(1);
        }
        for (int at = 0; at < found; at++)
            fprintf(huge, "%" PRIx64 "-%" PRIx64 "\n", regions[at].start - guest_base,
                    regions[at].end - guest_base);
        scan.start = scan.walk_end;
    }
    close(pagemap);
    /* The program may be killed: what is written is whole. */
    fflush(huge);
}

/* Whether an access is written: whether it lies in a window. */
static bool is_in_window(unsigned cpu)
{
    uint64_t at = accesses;
    accesses = at + 1 == every ? 0 : at + 1;
    if (every == UINT64_MAX)
        return true;
    if (at == 0) {
        at_last_access = executed;
        write_huge(cpu, "window", records);
    } else if (at == window) {
        records += window;
        write_huge(cpu, "end", records);
    }
    return at < window;
}

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused)
{
    (void)unused;
    if (!is_in_window(cpu))
        return;
    uint64_t since = executed - at_last_access;
    at_last_access = executed;
    if (since > MOST_INSTRUCTIONS)
        since = MOST_INSTRUCTIONS;
    uint64_t store = qemu_plugin_mem_is_store(info);
    buffer[used++] = (address & 0xFFFFFFFFFFFF) | store << 48 | since << 49;
    if (used == RECORDS)
        flush(cpu);
}

static void on_block(unsigned cpu, void *instructions)
{
    (void)cpu;
    executed += (uintptr_t)instructions;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_cb(
        block, on_block, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)count);
    for (size_t at = 0; at < count; at++)
        qemu_plugin_register_vcpu_mem_cb(
            qemu_plugin_tb_get_insn(block, at), on_access, QEMU_PLUGIN_CB_NO_REGS,
            QEMU_PLUGIN_MEM_RW, NULL);
}

/* Whether an argument NAME=VALUE was understood. */
static bool set(const char *argument)
{
    char *end;
    if (strncmp(argument, "to=", 3) == 0) {
        snprintf(prefix, sizeof prefix, "%s", argument + 3);
        return strlen(argument) - 3 < sizeof prefix;
    }
    if (strncmp(argument, "window=", 7) == 0) {
        window = strtoull(argument + 7, &end, 10);
        return *end == 0 && window > 0;
    }
    if (strncmp(argument, "every=", 6) == 0) {
        every = strtoull(argument + 6, &end, 10);
        return *end == 0 && every > 0;
    }
    return false;
}

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    (void)info;
    bool understood = true;
    for (int at = 0; at < argc; at++)
        understood &= set(argv[at]);
    if (!understood || !prefix[0] || (every == UINT64_MAX) != (window == UINT64_MAX)
        || (every != UINT64_MAX && window >= every)) {
        fprintf(stderr, "accesses: usage: -plugin accesses.so,to=PREFIX[,window=N,every=M]\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
