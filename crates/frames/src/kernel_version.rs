//! Releases of Linux.

use core::fmt;
use core::str::FromStr;

/// A release of Linux, without the stable update: what formats and rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// 6 of 6.12.
    pub major: u8,
    /// 12 of 6.12.
    pub minor: u8,
}

impl KernelVersion {
    /// The release whose page allocator the models follow, and from which newer rules differ.
    pub const V6_1: KernelVersion = KernelVersion::new(6, 1);

    /// The release `major.minor`.
    pub const fn new(major: u8, minor: u8) -> KernelVersion {
        KernelVersion { major, minor }
    }

    /// The release that a kernel reports of itself (`uname -r`): `6.12.95+deb13-amd64` is 6.12.
    pub fn of_kernel(release: &str) -> Option<KernelVersion> {
        let (major, rest) = release.trim().split_once('.')?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(KernelVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for KernelVersion {
    type Err = core::num::ParseIntError;

    /// Reads `6.1`.
    fn from_str(text: &str) -> Result<KernelVersion, Self::Err> {
        let (major, minor) = text.split_once('.').unwrap_or((text, ""));
        Ok(KernelVersion { major: major.parse()?, minor: minor.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::KernelVersion;

    #[test]
    fn versions_are_read_as_they_are_written() {
        for text in ["6.1", "6.12", "7.3"] {
            assert_eq!(text.parse::<KernelVersion>().unwrap().to_string(), text);
        }
        for wrong in ["", "6", "6.", ".1", "6.x", "6.1.2"] {
            assert!(wrong.parse::<KernelVersion>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn kernels_report_their_release() {
        for (text, version) in [
            ("6.1.0-56-amd64", Some(KernelVersion::V6_1)),
            ("6.12.95+deb12-amd64\n", Some(KernelVersion::new(6, 12))),
            ("3.10.0-514.el7.x86_64", Some(KernelVersion::new(3, 10))),
            ("7.3-rc1", Some(KernelVersion::new(7, 3))),
            ("six", None),
            ("6.x", None),
        ] {
            assert_eq!(KernelVersion::of_kernel(text), version, "{text}");
        }
    }
}
