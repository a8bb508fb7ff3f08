//! GFP flags as tracing tools print them, and as kernels number them.

use prairie_frames::placement::gfp::names;

use crate::{GfpFlags, Recording};

/// The flags that a text like `GFP_KERNEL|__GFP_ZERO|0x1000000` names, in the numbers of Linux 6.1,
/// whatever those of the recorded kernel were. Names that are not known, of kernels yet to come,
/// count for nothing; `None` if a part is neither a number nor a name.
pub fn parse(text: &str) -> Option<GfpFlags> {
    let mut flags = 0;
    for part in text.split('|') {
        flags |= match names::find(part) {
            Some(name) => name.bits,
            None if matches!(part, "none" | "0" | "(null)") => 0,
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
            let known = names::find(name).filter(|known| known.name.starts_with("__"));
            if let (Some(known), Some(bit)) = (known, single_bit(expression)) {
                bits[bit] = known.bits;
            }
        }
        Renumbering { bits }
    }

    /// Reads the numbers of a recorded kernel; `None` if the recording has no format file.
    pub fn of_recording(recording: &Recording) -> Option<Renumbering> {
        let mut formats = recording.tracepoint_formats.iter();
        let format = formats.find(|(name, _)| name.ends_with("mm_page_alloc"));
        format.map(|(_, text)| Renumbering::of_format(text))
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
