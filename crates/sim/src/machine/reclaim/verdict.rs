//! What becomes of a page at the end of its inactive list (`folio_check_references`).

use crate::machine::page::{Flags, Use};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is in use: to the active list.
    Activate,
    /// It was used once: another round.
    Keep,
    /// Its contents are not on the disk yet.
    WriteFirst,
    /// It goes.
    Reclaim,
}

/// Decides, and takes note of the look: a page that was touched once has to be touched again.
pub(super) fn judge(used_as: Use, flags: &mut Flags) -> Verdict {
    let touched = flags.take(Flags::YOUNG);
    let referenced = flags.take(Flags::REFERENCED);
    match used_as {
        Use::Anonymous if touched => Verdict::Activate,
        Use::Anonymous => Verdict::Reclaim,
        _ if touched && (referenced || flags.has(Flags::EXECUTABLE)) => Verdict::Activate,
        _ if touched => {
            flags.set(Flags::REFERENCED);
            Verdict::Keep
        }
        _ if flags.has(Flags::WRITEBACK) => Verdict::Keep,
        _ if flags.has(Flags::DIRTY) => Verdict::WriteFirst,
        // Read twice but not mapped: only clean pages of this kind reach this arm.
        _ => Verdict::Reclaim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(used_as: Use, flags: Flags) -> (Verdict, Flags) {
        let mut flags = flags;
        (judge(used_as, &mut flags), flags)
    }

    #[test]
    fn anonymous_memory_that_was_touched_is_in_use() {
        assert_eq!(verdict(Use::Anonymous, Flags::YOUNG).0, Verdict::Activate);
        assert_eq!(verdict(Use::Anonymous, Flags::NONE).0, Verdict::Reclaim);
        assert_eq!(verdict(Use::Anonymous, Flags::REFERENCED).0, Verdict::Reclaim);
    }

    #[test]
    fn a_file_page_has_to_be_touched_twice() {
        let (first, flags) = verdict(Use::File, Flags::YOUNG);
        assert_eq!((first, flags), (Verdict::Keep, Flags::REFERENCED));
        assert_eq!(verdict(Use::File, flags | Flags::YOUNG).0, Verdict::Activate);
        assert_eq!(verdict(Use::File, flags).0, Verdict::Reclaim);
        assert_eq!(verdict(Use::File, Flags::YOUNG | Flags::EXECUTABLE).0, Verdict::Activate);
    }

    #[test]
    fn dirty_pages_stay() {
        assert_eq!(verdict(Use::File, Flags::DIRTY).0, Verdict::WriteFirst);
        assert_eq!(verdict(Use::File, Flags::DIRTY | Flags::WRITEBACK).0, Verdict::Keep);
    }
}
