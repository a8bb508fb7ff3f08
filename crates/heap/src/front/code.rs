//! The page map's code for the size class of a page's objects.
//!
//! 0 means none, as in memory that was never written. Then come the classes whose objects' marks
//! lie [apart](super::mark), then all smaller ones: so a free learns with one comparison that an
//! object is small and carries its mark, which nearly all do.

use super::mark::PLACE_APART;
use super::size_class::{CLASSES, SizeClass};

/// The byte of the smallest class.
#[doc(hidden)]
pub const FIRST_CARRYING: usize = CLASSES - PLACE_APART + 1;

const _: () = assert!(FIRST_CARRYING + PLACE_APART <= u8::MAX as usize);

/// The byte of a class.
#[inline]
pub const fn of(class: SizeClass) -> u8 {
    let place = class.number() - 1;
    let code = if place < PLACE_APART { place + FIRST_CARRYING } else { place - PLACE_APART + 1 };
    code as u8
}

/// The class of a byte, if it has one.
#[inline]
pub const fn class(code: u8) -> Option<SizeClass> {
    let code = code as usize;
    let number = match code.checked_sub(FIRST_CARRYING) {
        Some(place) if place < PLACE_APART => place + 1,
        Some(_) => 0,
        None if code == 0 => 0,
        None => code + PLACE_APART,
    };
    SizeClass::new(number as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_a_byte_and_no_other_byte_has_one() {
        let mut classes = 0;
        for code in 0..=u8::MAX {
            let Some(found) = class(code) else { continue };
            assert_eq!(
                (of(found), found.number() - 1 < PLACE_APART),
                (code, code as usize >= FIRST_CARRYING)
            );
            classes += 1;
        }
        assert_eq!((class(0), classes), (None, CLASSES));
    }
}
