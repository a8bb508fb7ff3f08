//! Which release's rules `linux` follows in a replay: those of the recorded kernel, where there are any.

use prairie_frames::KernelVersion;
use prairie_frames::placement::linux::VALIDATED;
use prairie_model::allocator::Allocator;
use serde::Serialize;

/// The rules that `linux` follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinuxRules {
    /// The release, such as `6.12`.
    pub release: String,
    /// Whether recordings of that release validate its rules frame by frame.
    pub validated: bool,
    /// What they are in place of, or what is validated; one sentence.
    pub note: Option<String>,
}

impl LinuxRules {
    /// Chooses rules for a kernel that reports a release (`uname -r`), or nothing, and gives them to
    /// `linux` where its name has no release. Nothing if no allocator is meant.
    pub fn choose(systems: &mut [Allocator], recorded: &str) -> Option<LinuxRules> {
        let meant =
            |system: &&mut Allocator| system.version().is_some() && !system.name().contains('@');
        let mut meant = systems.iter_mut().filter(meant).peekable();
        meant.peek()?;
        let (version, note) = rules_for(recorded);
        meant.for_each(|system| *system = system.under(version));
        let validated = VALIDATED.contains(&version);
        Some(LinuxRules { release: version.to_string(), validated, note })
    }
}

/// The release whose rules fit a recorded kernel best, and what is to be said about it.
fn rules_for(recorded: &str) -> (KernelVersion, Option<String>) {
    let oldest = VALIDATED[0];
    if recorded.is_empty() {
        return (oldest, None);
    }
    let Some(version) = KernelVersion::of_kernel(recorded) else {
        let note = format!("{recorded:?} is no release of Linux: `linux` follows {oldest}");
        return (oldest, Some(note));
    };
    if version < oldest {
        let note =
            format!("Linux {version} is older than the oldest rules: `linux` follows {oldest}");
        return (oldest, Some(note));
    }
    let note = (!VALIDATED.contains(&version)).then(|| {
        format!("the rules of Linux {version} are not validated; those of {} are", validated())
    });
    (version, note)
}

/// The validated releases, as text.
fn validated() -> String {
    let names: Vec<String> = VALIDATED.iter().map(KernelVersion::to_string).collect();
    let (last, others) = names.split_last().expect("there are some");
    format!("{}, and {last}", others.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str], recorded: &str) -> (Vec<Allocator>, Option<LinuxRules>) {
        let mut systems: Vec<Allocator> = names.iter().map(|name| Allocator::named(name)).collect();
        let rules = LinuxRules::choose(&mut systems, recorded);
        (systems, rules)
    }

    #[test]
    fn linux_follows_the_recorded_kernel() {
        for release in ["6.1.0-56-amd64", "6.12.95+deb12-amd64", "6.18.44-fc-v657", "7.3.4"] {
            let version = KernelVersion::of_kernel(release).unwrap();
            let (systems, rules) = chosen(&["buddy", "linux"], release);
            let rules = rules.unwrap();
            assert_eq!((rules.release, rules.note), (version.to_string(), None));
            assert!(rules.validated);
            assert_eq!(systems[1].name(), "linux");
            assert_eq!(systems[1].settings, Allocator::named(&format!("linux@{version}")).settings);
        }
    }

    #[test]
    fn options_stay_and_a_named_release_stays() {
        let (systems, _) = chosen(&["linux+no-pcp", "linux@6.1"], "6.18.1");
        assert_eq!(systems[0].name(), "linux+no-pcp");
        assert_eq!(systems[0].settings, Allocator::named("linux@6.18+no-pcp").settings);
        assert_eq!(systems[1].settings, Allocator::named("linux@6.1").settings);
        assert_eq!(chosen(&["linux@6.1", "buddy"], "6.18.1").1, None);
    }

    #[test]
    fn a_kernel_without_validated_rules_is_named_beside_those_that_have_them() {
        for (recorded, release, says) in [
            (
                "6.7.9",
                "6.7",
                "the rules of Linux 6.7 are not validated; those of 6.1, 6.12, 6.18, and 7.3 are",
            ),
            ("6.16.3+deb14-amd64", "6.16", "Linux 6.16 are not validated"),
            (
                "5.10.0-30-amd64",
                "6.1",
                "Linux 5.10 is older than the oldest rules: `linux` follows 6.1",
            ),
            ("six", "6.1", "\"six\" is no release of Linux"),
        ] {
            let rules = chosen(&["linux"], recorded).1.unwrap();
            assert_eq!(rules.release, release);
            assert_eq!(rules.validated, release == "6.1");
            assert!(rules.note.unwrap().contains(says), "{recorded}");
        }
        assert_eq!(chosen(&["linux"], "").1.unwrap().note, None);
    }
}
