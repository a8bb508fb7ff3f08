//! The heap's only word of thread-local storage: the thread's cache, where there is no cache of its
//! CPU.
//!
//! It is reached by the initial-exec model: no call of `__tls_get_addr`, which may allocate. A
//! library loaded late gets it from the C library's surplus of static TLS, where 8 bytes are always
//! available.

use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss.prairie_heap_thread, \"awT\", @nobits",
    ".balign 8",
    ".hidden prairie_heap_thread",
    ".globl prairie_heap_thread",
    ".type prairie_heap_thread, @object",
    ".size prairie_heap_thread, 8",
    "prairie_heap_thread:",
    ".zero 8",
    ".popsection",
);

/// The word's address in the running thread.
#[inline]
fn place() -> *mut usize {
    let place;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: adds the word's offset, which the loader has filled in, to the thread pointer.
    unsafe {
        asm!(
            "mov {place}, fs:[0]",
            "add {place}, [rip + prairie_heap_thread@GOTTPOFF]",
            place = out(reg) place,
            options(nostack, pure, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: adds the word's offset, which the loader has filled in, to the thread pointer.
    unsafe {
        asm!(
            "adrp {place}, :gottprel:prairie_heap_thread",
            "ldr {place}, [{place}, :gottprel_lo12:prairie_heap_thread]",
            "mrs {thread}, tpidr_el0",
            "add {place}, {place}, {thread}",
            place = out(reg) place,
            thread = out(reg) _,
            options(nostack, pure, readonly),
        );
    }
    place
}

/// The word of the running thread, 0 at first.
#[inline]
pub fn get() -> usize {
    // SAFETY: the word lives as long as its thread, and no other thread knows of it.
    unsafe { place().read() }
}

/// Sets the word of the running thread.
#[inline]
pub fn set(word: usize) {
    // SAFETY: as for `get`.
    unsafe { place().write(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_word() {
        set(5);
        std::thread::spawn(|| {
            assert_eq!(get(), 0);
            set(7);
            assert_eq!(get(), 7);
        })
        .join()
        .unwrap();
        assert_eq!(get(), 5);
        set(0);
    }
}
