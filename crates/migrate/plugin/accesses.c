/*
 * A plugin for QEMU's user mode that writes every load and store of a program: what the streams
 * of the migration simulator are compared with.
 *
 *   cc -O2 -shared -fPIC -o accesses.so accesses.c
 *   qemu-x86_64 -plugin ./accesses.so,to=/tmp/memcached /usr/bin/memcached -t 1 ...
 *
 * Each thread writes a file of its own, /tmp/memcached.0 and so on, in the format that
 * crates/migrate/src/access_trace.rs reads: a header of 16 bytes, then 8 bytes an access, little
 * endian: bits 0-47 the address, 48 set for a store, 49-63 the instructions since the access
 * before, up to 32,767.
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

/* A program may be killed at any time, so a buffer never waits for an exit that may not be seen:
 * each is written when full, and every file ends with a whole record. */
static __thread uint64_t buffer[RECORDS];
static __thread unsigned used;
static __thread uint64_t executed, at_last_access;
static __thread int file = -1;

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

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused)
{
    (void)unused;
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

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    (void)info;
    if (argc != 1 || strncmp(argv[0], "to=", 3) != 0 || strlen(argv[0]) - 3 >= sizeof prefix) {
        fprintf(stderr, "accesses: usage: -plugin accesses.so,to=PREFIX\n");
        return 1;
    }
    strcpy(prefix, argv[0] + 3);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
