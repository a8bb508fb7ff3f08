//! The version of a kernel.

use serde::Serialize;

/// A kernel's release, as far as formats and rules depend on it: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KernelVersion(
    /// 6 of 6.12.
    pub u32,
    /// 12 of 6.12.
    pub u32,
);

impl KernelVersion {
    /// The version at the beginning of a release: `3.10.0-514.el7.x86_64`.
    pub fn of_release(release: &str) -> Option<KernelVersion> {
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        Some(KernelVersion(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}
