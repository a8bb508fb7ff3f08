//! The kernel's setting of transparent huge pages.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use serde::Serialize;

use crate::front::file::File;

/// The setting in `/sys/kernel/mm/transparent_hugepage/enabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
#[non_exhaustive]
pub enum HugePageMode {
    /// For all memory.
    Always = 1,
    /// For memory that is advised, as the heap's is.
    Madvise,
    /// For none.
    Never,
    /// The file is missing, in a sandbox or a kernel without them.
    Unknown,
}

impl HugePageMode {
    const ALL: [HugePageMode; 4] =
        [HugePageMode::Always, HugePageMode::Madvise, HugePageMode::Never, HugePageMode::Unknown];

    /// The setting of a number; none of them is of an unknown one.
    pub fn of_number(number: u8) -> HugePageMode {
        let known = HugePageMode::ALL.into_iter().find(|&mode| mode as u8 == number);
        known.unwrap_or(HugePageMode::Unknown)
    }

    /// The setting that the file's text has in brackets.
    fn of_text(text: &[u8]) -> HugePageMode {
        let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
        if has(b"[always]") {
            HugePageMode::Always
        } else if has(b"[madvise]") {
            HugePageMode::Madvise
        } else if has(b"[never]") {
            HugePageMode::Never
        } else {
            HugePageMode::Unknown
        }
    }
}

/// The setting at the first call.
pub fn of_system() -> HugePageMode {
    static READ: AtomicU8 = AtomicU8::new(0);
    let known = READ.load(Relaxed);
    if let Some(&mode) = HugePageMode::ALL.iter().find(|&&mode| mode as u8 == known) {
        return mode;
    }
    let mode = read();
    READ.store(mode as u8, Relaxed);
    mode
}

fn read() -> HugePageMode {
    let Ok(file) = File::open(c"/sys/kernel/mm/transparent_hugepage/enabled") else {
        return HugePageMode::Unknown;
    };
    let mut text = [0; 64];
    let len = file.read(&mut text);
    HugePageMode::of_text(&text[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_the_word_in_brackets() {
        assert_eq!(HugePageMode::of_text(b"always [madvise] never\n"), HugePageMode::Madvise);
        assert_eq!(HugePageMode::of_text(b"[always] madvise never\n"), HugePageMode::Always);
        assert_eq!(HugePageMode::of_text(b"always madvise [never]\n"), HugePageMode::Never);
        assert_eq!(HugePageMode::of_text(b""), HugePageMode::Unknown);
    }
}
