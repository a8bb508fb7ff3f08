/*
 * A plugin for QEMU's user mode that gives the kernel a program's advice on huge pages, which QEMU
 * drops: MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLLAPSE. With it the program's memory is backed as
 * it would be without the emulator.
 *
 *   cc -O2 -shared -fPIC -o advice.so advice.c
 *   qemu-x86_64 -plugin ./advice.so program ...
 *
 * For programs of x86-64. Declared here is what is used of version 1 of QEMU's plugin interface.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
extern void qemu_plugin_register_vcpu_syscall_cb(
    qemu_plugin_id_t,
    void (*)(qemu_plugin_id_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
             uint64_t, uint64_t, uint64_t));

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

/* Set by QEMU: where the program's address 0 lies in the emulator. */
extern uintptr_t guest_base;

enum { MADVISE = 28, COLLAPSE = 25 }; /* the call's number on x86-64, and an advice of Linux 6.1 */

/* Before QEMU sees the call. What the kernel answers is lost: QEMU returns success. */
static void on_call(qemu_plugin_id_t id, unsigned cpu, int64_t call, uint64_t start, uint64_t size,
                    uint64_t advice, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)cpu, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (call == MADVISE
        && (advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE || advice == COLLAPSE))
        madvise((void *)(guest_base + start), size, advice);
}

__attribute__((visibility("default"))) int
qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    return 0;
}
