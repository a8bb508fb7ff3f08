//! The names of GFP flags, what they stand for, and their numbers by kernel version.

/// A name that kernels and tracing tools print: of one flag, or of several together.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// `__GFP_IO`, `GFP_KERNEL`.
    pub name: &'static str,
    /// The bits of Linux 6.1 (`include/linux/gfp_types.h`); none if 6.1 does not have the flag.
    pub bits: u32,
    /// The names that this one stands for, which come later in [`NAMES`] or are single flags. Empty
    /// for a single flag. A former name of a flag stands for the present one.
    pub parts: &'static [&'static str],
    /// The bit in Linux 3.10 to 4.3 (`include/linux/gfp.h`), if those versions have the flag.
    pub bit_3_10: Option<u8>,
    /// The bit in Linux 4.4 and 4.5, the last versions that print no names.
    pub bit_4_4: Option<u8>,
}

/// Of several flags.
const fn compound(name: &'static str, bits: u32, parts: &'static [&'static str]) -> Name {
    Name { name, bits, parts, bit_3_10: None, bit_4_4: None }
}

/// Of one flag whose number has not been printed without its name.
const fn recent(name: &'static str, bits: u32) -> Name {
    Name { name, bits, parts: &[], bit_3_10: None, bit_4_4: None }
}

/// Of one flag, with its number before it was printed by name.
const fn flag(name: &'static str, bits: u32, bit_3_10: Option<u8>, bit_4_4: Option<u8>) -> Name {
    Name { name, bits, parts: &[], bit_3_10, bit_4_4 }
}

/// Of one flag that had one number in all versions before it was printed by name.
const fn kept(name: &'static str, bits: u32, bit: u8) -> Name {
    flag(name, bits, Some(bit), Some(bit))
}

/// Every name, compounds first, larger before those that they contain.
pub const NAMES: [Name; 52] = [
    compound("GFP_TRANSHUGE", 0x1c_24ca, &["GFP_TRANSHUGE_LIGHT", "__GFP_DIRECT_RECLAIM"]),
    compound(
        "GFP_TRANSHUGE_LIGHT",
        0x1c_20ca,
        &[
            "__GFP_IO",
            "__GFP_FS",
            "__GFP_HARDWALL",
            "__GFP_HIGHMEM",
            "__GFP_MOVABLE",
            "__GFP_COMP",
            "__GFP_NOMEMALLOC",
            "__GFP_NOWARN",
        ],
    ),
    compound("GFP_HIGHUSER_MOVABLE", 0x10_0cca, &["GFP_HIGHUSER", "__GFP_MOVABLE"]),
    compound("GFP_HIGHUSER", 0x10_0cc2, &["GFP_USER", "__GFP_HIGHMEM"]),
    compound("GFP_USER", 0x10_0cc0, &["GFP_KERNEL", "__GFP_HARDWALL"]),
    compound("GFP_TEMPORARY", 0xcd0, &["GFP_KERNEL", "__GFP_RECLAIMABLE"]),
    compound("GFP_KERNEL_ACCOUNT", 0x40_0cc0, &["GFP_KERNEL", "__GFP_ACCOUNT"]),
    compound("GFP_KERNEL", 0xcc0, &["__GFP_RECLAIM", "__GFP_IO", "__GFP_FS"]),
    compound("GFP_NOFS", 0xc40, &["__GFP_RECLAIM", "__GFP_IO"]),
    compound("GFP_NOIO", 0xc00, &["__GFP_RECLAIM"]),
    // From 4.4 to 6.2 with `__GFP_ATOMIC`, which other versions do not have.
    compound("GFP_ATOMIC", 0xa20, &["__GFP_HIGH", "__GFP_KSWAPD_RECLAIM"]),
    compound("GFP_NOWAIT", 0x800, &["__GFP_KSWAPD_RECLAIM"]),
    compound("GFP_DMA", 0x1, &["__GFP_DMA"]),
    compound("GFP_DMA32", 0x4, &["__GFP_DMA32"]),
    compound("__GFP_RECLAIM", 0xc00, &["__GFP_DIRECT_RECLAIM", "__GFP_KSWAPD_RECLAIM"]),
    Name { bit_3_10: Some(4), ..compound("__GFP_WAIT", 0x400, &["__GFP_DIRECT_RECLAIM"]) },
    Name {
        bit_3_10: Some(10),
        bit_4_4: Some(10),
        ..compound("__GFP_REPEAT", 0x4000, &["__GFP_RETRY_MAYFAIL"])
    },
    kept("__GFP_DMA", 0x1, 0),
    kept("__GFP_HIGHMEM", 0x2, 1),
    kept("__GFP_DMA32", 0x4, 2),
    kept("__GFP_MOVABLE", 0x8, 3),
    flag("__GFP_RECLAIMABLE", 0x10, Some(19), Some(4)),
    kept("__GFP_HIGH", 0x20, 5),
    kept("__GFP_IO", 0x40, 6),
    kept("__GFP_FS", 0x80, 7),
    kept("__GFP_ZERO", 0x100, 15),
    flag("__GFP_ATOMIC", 0x200, None, Some(19)),
    flag("__GFP_DIRECT_RECLAIM", 0x400, None, Some(22)),
    flag("__GFP_KSWAPD_RECLAIM", 0x800, None, Some(25)),
    kept("__GFP_WRITE", 0x1000, 24),
    kept("__GFP_NOWARN", 0x2000, 9),
    recent("__GFP_RETRY_MAYFAIL", 0x4000),
    kept("__GFP_NOFAIL", 0x8000, 11),
    kept("__GFP_NORETRY", 0x1_0000, 12),
    kept("__GFP_MEMALLOC", 0x2_0000, 13),
    kept("__GFP_COMP", 0x4_0000, 14),
    kept("__GFP_NOMEMALLOC", 0x8_0000, 16),
    kept("__GFP_HARDWALL", 0x10_0000, 17),
    kept("__GFP_THISNODE", 0x20_0000, 18),
    flag("__GFP_ACCOUNT", 0x40_0000, None, Some(20)),
    recent("__GFP_ZEROTAGS", 0x80_0000),
    recent("__GFP_SKIP_ZERO", 0x100_0000),
    recent("__GFP_SKIP_KASAN_UNPOISON", 0x200_0000),
    recent("__GFP_SKIP_KASAN_POISON", 0x400_0000),
    recent("__GFP_NOLOCKDEP", 0x800_0000),
    // Flags that 6.1 does not have. Bit 20 was also `__GFP_NOACCOUNT`, in 4.1 to 4.4.
    kept("__GFP_COLD", 0, 8),
    flag("__GFP_KMEMCG", 0, Some(20), None),
    kept("__GFP_NOTRACK", 0, 21),
    flag("__GFP_NO_KSWAPD", 0, Some(22), None),
    kept("__GFP_OTHER_NODE", 0, 23),
    recent("__GFP_NO_OBJ_EXT", 0),
    recent("__GFP_SKIP_KASAN", 0),
];

/// What is known of a name.
pub fn find(name: &str) -> Option<&'static Name> {
    NAMES.iter().find(|known| known.name == name)
}

/// The bits that a name stands for in Linux 6.1.
///
/// # Panics
///
/// If there is no such name; in constants when they are compiled.
pub const fn bits(name: &str) -> u32 {
    let mut row = 0;
    while row < NAMES.len() {
        if is_same(NAMES[row].name.as_bytes(), name.as_bytes()) {
            return NAMES[row].bits;
        }
        row += 1;
    }
    panic!("no such flag")
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_what_their_parts_do() {
        for name in NAMES.iter().filter(|name| !name.parts.is_empty()) {
            let parts = name.parts.iter().fold(0, |all, part| all | bits(part));
            let own = if name.name == "GFP_ATOMIC" { bits("__GFP_ATOMIC") } else { 0 };
            assert_eq!(name.bits, parts | own, "{}", name.name);
        }
    }

    #[test]
    fn single_flags_are_single_bits_that_no_other_has() {
        for (row, flag) in NAMES.iter().enumerate().filter(|(_, name)| name.parts.is_empty()) {
            assert!(flag.bits == 0 || flag.bits.is_power_of_two(), "{}", flag.name);
            for other in NAMES[row + 1..].iter().filter(|name| name.parts.is_empty()) {
                let both = [(flag.bit_3_10, other.bit_3_10), (flag.bit_4_4, other.bit_4_4)];
                assert!(both.iter().all(|(a, b)| a.is_none() || a != b), "{}", other.name);
                assert!(flag.bits & other.bits == 0 && flag.name != other.name, "{}", other.name);
            }
        }
    }
}
