//! The settings of the kernel that the daemon leases: read, written, and restored if they still
//! say what the daemon wrote.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use prairie_host::Roots;

use crate::kswapd;

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// `vm.lowmem_reserve_ratio`.
    LowmemReserveRatio,
    /// `vm.min_free_kbytes`.
    MinFreeKbytes,
    /// `vm.watermark_scale_factor`: room for compaction, and for what a growth moves.
    WatermarkScaleFactor,
    /// `vm.movable_gigantic_pages`, while gigantic pages are taken.
    MovableGiganticPages,
    /// The priority of kswapd, on each node: 20 + nice value.
    KswapdPriority,
}

impl Setting {
    /// All of them.
    pub const ALL: [Setting; 5] = [
        Setting::LowmemReserveRatio,
        Setting::MinFreeKbytes,
        Setting::WatermarkScaleFactor,
        Setting::MovableGiganticPages,
        Setting::KswapdPriority,
    ];

    /// The kernel's name for it, or of what it belongs to.
    pub const fn name(self) -> &'static str {
        match self {
            Setting::LowmemReserveRatio => "lowmem_reserve_ratio",
            Setting::MinFreeKbytes => "min_free_kbytes",
            Setting::WatermarkScaleFactor => "watermark_scale_factor",
            Setting::MovableGiganticPages => "movable_gigantic_pages",
            Setting::KswapdPriority => "kswapd_priority",
        }
    }

    fn path(self, roots: &Roots) -> PathBuf {
        roots.proc.join("sys/vm").join(self.name())
    }

    /// Its value, with single commas for white space.
    ///
    /// # Errors
    /// I/O errors of the system, and values that are not numbers.
    pub fn read(self, roots: &Roots) -> io::Result<Value> {
        match self {
            Setting::KswapdPriority => kswapd::read(roots)?.parse(),
            _ => fs::read_to_string(self.path(roots))?.parse(),
        }
    }

    /// Sets it.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn write(self, roots: &Roots, value: &Value) -> io::Result<()> {
        if self == Setting::KswapdPriority {
            return kswapd::write(roots, &value.0);
        }
        let text = value.0.replace(',', "\t");
        fs::OpenOptions::new()
            .write(true)
            .open(self.path(roots))
            .and_then(|mut file| io::Write::write_all(&mut file, format!("{text}\n").as_bytes()))
    }

    /// Writes `before` if it still says `ours`; what others have set since is theirs. Whether it was
    /// written.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn restore(self, roots: &Roots, ours: &Value, before: &Value) -> io::Result<bool> {
        if self.read(roots)? != *ours {
            return Ok(false);
        }
        self.write(roots, before).map(|()| true)
    }
}

impl FromStr for Setting {
    type Err = ();

    fn from_str(name: &str) -> Result<Setting, ()> {
        Setting::ALL.into_iter().find(|setting| setting.name() == name).ok_or(())
    }
}

/// Numbers, with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(String);

impl FromStr for Value {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Value> {
        let words: Vec<&str> = text
            .split(|c: char| c.is_ascii_whitespace() || c == ',')
            .filter(|word| !word.is_empty())
            .collect();
        let is_number = |word: &&str| word.len() <= 20 && word.bytes().all(|b| b.is_ascii_digit());
        match !words.is_empty() && words.len() <= 16 && words.iter().all(is_number) {
            true => Ok(Value(words.join(","))),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("expected numbers, found {:?}", text.chars().take(40).collect::<String>()),
            )),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_restored_only_while_they_are_ours() {
        let root = tempfile::tempdir().unwrap();
        let roots = Roots::at(&root.path().join("proc"));
        let path = root.path().join("proc/sys/vm/lowmem_reserve_ratio");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "256\t256\t32\t0\n").unwrap();
        let setting = Setting::LowmemReserveRatio;
        let before = setting.read(&roots).unwrap();
        assert_eq!(before.to_string(), "256,256,32,0");
        let ours: Value = "256 15 12 0".parse().unwrap();
        setting.write(&roots, &ours).unwrap();
        assert!(setting.restore(&roots, &ours, &before).unwrap());
        assert_eq!(setting.read(&roots).unwrap(), before);
        assert!(!setting.restore(&roots, &ours, &before).unwrap(), "it is not ours any more");
        assert!(Setting::MinFreeKbytes.read(&roots).is_err());
    }

    #[test]
    fn nothing_but_numbers_is_a_value() {
        for text in ["", "a", "1 b", "-1", "1;2", &"1 ".repeat(17), &"9".repeat(21)] {
            assert!(text.parse::<Value>().is_err(), "{text:?}");
        }
        assert_eq!("min_free_kbytes".parse(), Ok(Setting::MinFreeKbytes));
        assert!("../../kernel/core_pattern".parse::<Setting>().is_err());
    }
}
