//! Addresses of symbols that the C library may or may not define.

/// The address of a symbol as a `*const u8`, null if nothing that is loaded defines it. Unlike
/// `dlsym` this takes no lock and allocates nothing: the loader has filled it in.
macro_rules! weak_address {
    ($symbol:literal) => {{
        let address: *const u8;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: loads an entry of the global offset table.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $symbol),
                concat!("mov {}, [rip + ", $symbol, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: loads an entry of the global offset table.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $symbol),
                concat!("adrp {0}, :got:", $symbol),
                concat!("ldr {0}, [{0}, :got_lo12:", $symbol, "]"),
                out(reg) address,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        address
    }};
}

pub(crate) use weak_address;

/// Identifies the program or library that contains this code to the C library.
pub fn dso_handle() -> *const u8 {
    unsafe extern "C" {
        static __dso_handle: u8;
    }
    &raw const __dso_handle
}
