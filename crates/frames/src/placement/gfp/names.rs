//! The names of GFP flags, what they stand for, and their numbers by kernel version.
//!
//! Each number stands once in this file. The numbers of compounds follow from their parts, and the
//! release that renumbered the flags is that of the rule [`GFP_RECLAIM`].

use crate::KernelVersion;
use crate::placement::linux::version::GFP_RECLAIM;

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
    /// The bit in versions before [`GFP_RECLAIM`], from 3.10 on (`include/linux/gfp.h`).
    old_bit: Option<u8>,
    /// The bit since then and until 4.5, the last version that prints no names.
    new_bit: Option<u8>,
}

impl Name {
    /// The bit that a kernel prints that prints no names (before 4.6), if it has the flag.
    pub fn unnamed_bit(&self, version: KernelVersion) -> Option<u8> {
        if version < GFP_RECLAIM.since { self.old_bit } else { self.new_bit }
    }
}

/// Of several flags, whose numbers are those of the parts.
const fn compound(name: &'static str, parts: &'static [&'static str]) -> Name {
    Name { name, bits: 0, parts, old_bit: None, new_bit: None }
}

/// Of one flag whose number has not been printed without its name.
const fn recent(name: &'static str, bits: u32) -> Name {
    Name { name, bits, parts: &[], old_bit: None, new_bit: None }
}

/// Of one flag, with its number before it was printed by name.
const fn flag(name: &'static str, bits: u32, old_bit: Option<u8>, new_bit: Option<u8>) -> Name {
    Name { name, bits, parts: &[], old_bit, new_bit }
}

/// Of one flag that had one number in all versions before it was printed by name.
const fn kept(name: &'static str, bits: u32, bit: u8) -> Name {
    flag(name, bits, Some(bit), Some(bit))
}

/// The bit of `__GFP_ATOMIC` in Linux 6.1.
const ATOMIC: u32 = 0x200;

/// Every name, compounds first, larger before those that they contain.
pub const NAMES: [Name; ROWS.len()] = {
    let mut names = ROWS;
    let mut row = 0;
    while row < names.len() {
        names[row].bits = bits(ROWS[row].name);
        row += 1;
    }
    names
};

/// The same, with the bits of single flags only.
const ROWS: [Name; 52] = [
    compound("GFP_TRANSHUGE", &["GFP_TRANSHUGE_LIGHT", "__GFP_DIRECT_RECLAIM"]),
    compound(
        "GFP_TRANSHUGE_LIGHT",
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
    compound("GFP_HIGHUSER_MOVABLE", &["GFP_HIGHUSER", "__GFP_MOVABLE"]),
    compound("GFP_HIGHUSER", &["GFP_USER", "__GFP_HIGHMEM"]),
    compound("GFP_USER", &["GFP_KERNEL", "__GFP_HARDWALL"]),
    compound("GFP_TEMPORARY", &["GFP_KERNEL", "__GFP_RECLAIMABLE"]),
    compound("GFP_KERNEL_ACCOUNT", &["GFP_KERNEL", "__GFP_ACCOUNT"]),
    compound("GFP_KERNEL", &["__GFP_RECLAIM", "__GFP_IO", "__GFP_FS"]),
    compound("GFP_NOFS", &["__GFP_RECLAIM", "__GFP_IO"]),
    compound("GFP_NOIO", &["__GFP_RECLAIM"]),
    // The number has `__GFP_ATOMIC`, which only 4.4 to 6.2 have.
    Name { bits: ATOMIC, ..compound("GFP_ATOMIC", &["__GFP_HIGH", "__GFP_KSWAPD_RECLAIM"]) },
    compound("GFP_NOWAIT", &["__GFP_KSWAPD_RECLAIM"]),
    compound("GFP_DMA", &["__GFP_DMA"]),
    compound("GFP_DMA32", &["__GFP_DMA32"]),
    compound("__GFP_RECLAIM", &["__GFP_DIRECT_RECLAIM", "__GFP_KSWAPD_RECLAIM"]),
    Name { old_bit: Some(4), ..compound("__GFP_WAIT", &["__GFP_DIRECT_RECLAIM"]) },
    Name {
        old_bit: Some(10),
        new_bit: Some(10),
        ..compound("__GFP_REPEAT", &["__GFP_RETRY_MAYFAIL"])
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
    flag("__GFP_ATOMIC", ATOMIC, None, Some(19)),
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
    while row < ROWS.len() {
        if is_same(ROWS[row].name.as_bytes(), name.as_bytes()) {
            let (mut all, mut part) = (ROWS[row].bits, 0);
            while part < ROWS[row].parts.len() {
                all |= bits(ROWS[row].parts[part]);
                part += 1;
            }
            return all;
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
    fn numbers_of_compounds_are_those_of_linux_6_1() {
        let known = [
            ("GFP_TRANSHUGE", 0x1c_24ca),
            ("GFP_TRANSHUGE_LIGHT", 0x1c_20ca),
            ("GFP_HIGHUSER_MOVABLE", 0x10_0cca),
            ("GFP_KERNEL_ACCOUNT", 0x40_0cc0),
            ("GFP_NOFS", 0xc40),
            ("GFP_ATOMIC", 0xa20),
            ("__GFP_WAIT", 0x400),
            ("__GFP_REPEAT", 0x4000),
        ];
        for (name, number) in known {
            assert_eq!((bits(name), find(name).unwrap().bits), (number, number), "{name}");
        }
    }

    #[test]
    fn the_rule_says_which_numbers_a_version_has() {
        let reclaimable = find("__GFP_RECLAIMABLE").unwrap();
        assert_eq!(reclaimable.unnamed_bit(KernelVersion::new(4, 3)), Some(19));
        assert_eq!(reclaimable.unnamed_bit(KernelVersion::new(4, 4)), Some(4));
    }

    #[test]
    fn single_flags_are_single_bits_that_no_other_has() {
        for (row, flag) in NAMES.iter().enumerate().filter(|(_, name)| name.parts.is_empty()) {
            assert!(flag.bits == 0 || flag.bits.is_power_of_two(), "{}", flag.name);
            for other in NAMES[row + 1..].iter().filter(|name| name.parts.is_empty()) {
                let both = [(flag.old_bit, other.old_bit), (flag.new_bit, other.new_bit)];
                assert!(both.iter().all(|(a, b)| a.is_none() || a != b), "{}", other.name);
                assert!(flag.bits & other.bits == 0 && flag.name != other.name, "{}", other.name);
            }
        }
    }
}
