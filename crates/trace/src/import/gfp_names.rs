//! The names of GFP flags, as tracing tools print them, and the bits they stand for.

use crate::GfpFlags;

/// Names and the bits of Linux 6.1 (`include/linux/gfp_types.h`). Bits 0 to 4, which decide zones
/// and mobility, are the same in all kernels; the others are translated into 6.1's numbers,
/// whatever those of the recorded kernel were. A flag that 6.1 does not have is 0.
const BITS: [(&str, u32); 53] = [
    ("GFP_ATOMIC", 0xa20),
    ("GFP_DMA", 0x1),
    ("GFP_DMA32", 0x4),
    ("GFP_HIGHUSER", 0x10_0cc2),
    ("GFP_HIGHUSER_MOVABLE", 0x10_0cca),
    ("GFP_KERNEL", 0xcc0),
    ("GFP_KERNEL_ACCOUNT", 0x40_0cc0),
    ("GFP_NOFS", 0xc40),
    ("GFP_NOIO", 0xc00),
    ("GFP_NOWAIT", 0x800),
    ("GFP_TEMPORARY", 0xcd0),
    ("GFP_TRANSHUGE", 0x1c_24ca),
    ("GFP_TRANSHUGE_LIGHT", 0x1c_20ca),
    ("GFP_USER", 0x10_0cc0),
    ("__GFP_ACCOUNT", 0x40_0000),
    ("__GFP_ATOMIC", 0x200),
    ("__GFP_COLD", 0),
    ("__GFP_COMP", 0x4_0000),
    ("__GFP_DIRECT_RECLAIM", 0x400),
    ("__GFP_DMA", 0x1),
    ("__GFP_DMA32", 0x4),
    ("__GFP_FS", 0x80),
    ("__GFP_HARDWALL", 0x10_0000),
    ("__GFP_HIGH", 0x20),
    ("__GFP_HIGHMEM", 0x2),
    ("__GFP_IO", 0x40),
    ("__GFP_KSWAPD_RECLAIM", 0x800),
    ("__GFP_MEMALLOC", 0x2_0000),
    ("__GFP_MOVABLE", 0x8),
    ("__GFP_NOFAIL", 0x8000),
    ("__GFP_NOLOCKDEP", 0x800_0000),
    ("__GFP_NOMEMALLOC", 0x8_0000),
    ("__GFP_NORETRY", 0x1_0000),
    ("__GFP_NOTRACK", 0),
    ("__GFP_NOWARN", 0x2000),
    ("__GFP_NO_OBJ_EXT", 0),
    ("__GFP_OTHER_NODE", 0),
    ("__GFP_RECLAIM", 0xc00),
    ("__GFP_RECLAIMABLE", 0x10),
    ("__GFP_REPEAT", 0x4000),
    ("__GFP_RETRY_MAYFAIL", 0x4000),
    ("__GFP_SKIP_KASAN", 0),
    ("__GFP_SKIP_KASAN_POISON", 0x400_0000),
    ("__GFP_SKIP_KASAN_UNPOISON", 0x200_0000),
    ("__GFP_SKIP_ZERO", 0x100_0000),
    ("__GFP_THISNODE", 0x20_0000),
    ("__GFP_WAIT", 0x400),
    ("__GFP_WRITE", 0x1000),
    ("__GFP_ZERO", 0x100),
    ("__GFP_ZEROTAGS", 0x80_0000),
    ("none", 0),
    ("0", 0),
    ("(null)", 0),
];

/// The flags that a text like `GFP_KERNEL|__GFP_ZERO|0x1000000` names. Names that are not known,
/// of kernels yet to come, count for nothing; `None` if a part is neither a number nor a name.
pub fn parse(text: &str) -> Option<GfpFlags> {
    let mut flags = 0;
    for part in text.split('|') {
        flags |= match BITS.iter().find(|(name, _)| *name == part) {
            Some((_, bits)) => *bits,
            None if part.starts_with("__GFP_") || part.starts_with("GFP_") => 0,
            None => u32::from_str_radix(part.strip_prefix("0x")?, 16).ok()?,
        };
    }
    Some(GfpFlags(flags))
}

/// How one kernel's numbers of flags become those of Linux 6.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renumbering {
    /// By bit of the recorded kernel: the bits of 6.1.
    bits: [u32; 32],
}

impl Renumbering {
    /// Reads the kernel's numbers from the text of `mm_page_alloc`'s `format` file, which a
    /// recording keeps ([`Recording::tracepoint_formats`](crate::Recording)): the table that its
    /// `print fmt` prints flags by. Bits that it does not name stay as they are below 5, where
    /// all kernels agree, and become 0 above.
    pub fn of_format(text: &str) -> Renumbering {
        let mut bits = [0; 32];
        for (bit, own) in bits.iter_mut().enumerate().take(5) {
            *own = 1 << bit;
        }
        for entry in text.split('{').skip(1) {
            let Some((expression, rest)) = entry.split_once('"') else { continue };
            let Some((name, _)) = rest.split_once('"') else { continue };
            let known = BITS.iter().find(|(known, _)| *known == name && name.starts_with("__"));
            if let (Some((_, own)), Some(bit)) = (known, single_bit(expression)) {
                bits[bit] = *own;
            }
        }
        Renumbering { bits }
    }

    /// The flags in 6.1's numbers.
    pub fn apply(&self, flags: GfpFlags) -> GfpFlags {
        let set = (0..32).filter(|&bit| flags.0 >> bit & 1 != 0);
        GfpFlags(set.fold(0, |all, bit| all | self.bits[bit]))
    }
}

/// The bit that a C expression sets: `… (1UL)) << (10) …`, or `(unsigned long)0x400u`; `None` if
/// it sets several.
fn single_bit(expression: &str) -> Option<usize> {
    let bit = if let Some((_, shift)) = expression.split_once("<<") {
        if shift.contains("<<") {
            return None;
        }
        let digits = shift.trim_start_matches([' ', '(']);
        let end = digits.find(|c: char| !c.is_ascii_digit())?;
        digits[..end].parse().ok()?
    } else {
        let hex = expression.split_once("0x")?.1;
        if hex.contains("0x") {
            return None;
        }
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let value = u32::from_str_radix(&hex[..end], 16).ok()?;
        value.is_power_of_two().then(|| value.trailing_zeros() as usize)?
    };
    (bit < 32).then_some(bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_frames::{MigrateType, ZoneKind};

    #[test]
    fn names_become_zones_and_mobility() {
        let user = parse("GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP").unwrap();
        assert_eq!(user.migrate_type(), MigrateType::Movable);
        assert_eq!(user.highest_zone(), ZoneKind::Movable);
        assert_eq!(parse("GFP_KERNEL"), Some(GfpFlags(0xcc0)));
        assert_eq!(parse("__GFP_FUTURE|0x10"), Some(GfpFlags::RECLAIMABLE));
        assert_eq!(parse("none"), Some(GfpFlags(0)));
        assert_eq!(parse("rubbish"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn compounds_are_their_parts() {
        let same = [
            ("GFP_KERNEL", "__GFP_RECLAIM|__GFP_IO|__GFP_FS"),
            ("GFP_USER", "GFP_KERNEL|__GFP_HARDWALL"),
            ("GFP_HIGHUSER_MOVABLE", "GFP_USER|__GFP_HIGHMEM|__GFP_MOVABLE"),
            ("GFP_ATOMIC", "__GFP_HIGH|__GFP_ATOMIC|__GFP_KSWAPD_RECLAIM"),
            ("GFP_TRANSHUGE", "GFP_TRANSHUGE_LIGHT|__GFP_DIRECT_RECLAIM"),
            ("__GFP_RECLAIM", "__GFP_DIRECT_RECLAIM|__GFP_KSWAPD_RECLAIM"),
        ];
        for (whole, parts) in same {
            assert_eq!(parse(whole), parse(parts), "{whole}");
        }
        let light = parse("GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_NOMEMALLOC|__GFP_NOWARN").unwrap();
        assert_eq!(parse("GFP_TRANSHUGE_LIGHT"), Some(GfpFlags(light.0 & !0xc00)));
    }

    #[test]
    fn migrate_types_are_read_from_the_kernel() {
        let text = include_str!("../../tests/fixtures/formats/mm_page_alloc-6.18");
        let renumbering = Renumbering::of_format(text);
        let flags = GfpFlags(1 << 3 | 1 << 10 | 1 << 22);
        assert_eq!(renumbering.apply(flags), flags);
        // __GFP_NO_OBJ_EXT is bit 24 there, and unknown to 6.1, where bit 24 is SKIP_ZERO.
        assert_eq!(renumbering.apply(GfpFlags(1 << 24)), GfpFlags(0));
        let old = r#"{(unsigned long)0x400000u, "__GFP_DIRECT_RECLAIM"}, {(unsigned long)(0x400000u|0x2000000u), "__GFP_RECLAIM"}"#;
        let renumbering = Renumbering::of_format(old);
        assert_eq!(renumbering.apply(GfpFlags(0x40_0001)), GfpFlags(0x401));
    }
}
