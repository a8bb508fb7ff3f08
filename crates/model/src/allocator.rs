//! The allocators by name, with their options, and how to build each of them.
//!
//! [`ALLOCATORS`] has one entry per allocator. An [`Allocator`] is an entry with the options that
//! a text such as `contiguitas+no-bias` or `linux@6.1` gave it.

mod machine_placement;
mod options;
mod policies;
mod registry;
mod site;

use std::fmt;
use std::str::FromStr;

use prairie_frames::KernelVersion;
use prairie_frames::placement::Placement;
use prairie_frames::placement::classes;
use prairie_frames::placement::freebsd;
use prairie_frames::placement::linux::{self, Modeled, RULES};
use prairie_frames::placement::lists::Division;
use prairie_frames::placement::regions;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::zones::Kernelcore;

pub use machine_placement::MachinePlacement;
pub use options::Switch;
pub use policies::Policies;
pub use registry::{ALLOCATORS, Build, Entry};
pub use site::{Site, World, Worlds};

/// The placement of any allocator.
pub type AnyPlacement = Box<dyn Placement + Send>;

/// The placement of any allocator that a machine with reclaim can drive.
pub type AnyStepwise = Box<dyn Stepwise + Send>;

/// Linux and Contiguitas mechanism by mechanism, each added to the one before: confinement with a
/// border that stays (twice, because its size matters), resizing, bias, migration before pins,
/// hardware; then the whole without bias, and without pressure.
pub const ABLATION: [&str; 10] = [
    "linux",
    "contiguitas+fixed+no-bias+no-pin-migration",
    "contiguitas+fixed=20%+no-bias+no-pin-migration",
    "contiguitas+no-bias+no-pin-migration",
    "contiguitas+no-pin-migration",
    "contiguitas",
    "contiguitas-hw",
    "contiguitas+no-bias",
    "contiguitas+no-pressure",
    "contiguitas+no-far-end",
];

/// Linux without compaction, with it, and in defrag mode.
pub const ABLATION_LINUX: [&str; 3] = ["linux+no-compaction", "linux", "linux-defrag"];

/// FreeBSD, and without each mechanism of its own.
pub const ABLATION_FREEBSD: [&str; 4] =
    ["freebsd", "freebsd+no-nofree", "freebsd+no-batch", "freebsd+linear-stacks"];

/// What options set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Reclaim and contiguity, in worlds with reclaim.
    pub policies: Policies,
    /// Switches of Linux's page allocator.
    pub linux: linux::Config,
    /// How Contiguitas is set up.
    pub regions: regions::Config,
    /// How FreeBSD's allocator is set up.
    pub freebsd: freebsd::Config,
    /// How the 2006 paper's lists divide memory.
    pub division: Division,
    /// Whether easily reclaimed pages have a zone of their own.
    pub movable_zone: bool,
    /// Memory outside that zone; `None` for what the machine says.
    pub kernelcore: Option<Kernelcore>,
    /// Trees of `classes`.
    pub classes: classes::Config,
    /// Frames of a memory block, where the regions daemon moves blocks between Linux's zones.
    pub memory_blocks: Option<u64>,
}

/// An allocator with its options.
#[derive(Clone)]
pub struct Allocator {
    name: String,
    entry: &'static Entry,
    version: Option<KernelVersion>,
    /// The effect of the options.
    pub settings: Settings,
}

/// A text that names no allocator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAllocator {
    /// There is no such allocator.
    #[error("`{name}`: unknown allocator{}; known are {}", suggestion(name), known())]
    Name {
        /// The name.
        name: String,
    },
    /// It has no such option.
    #[error("`{allocator}` has no option `{option}`; it has {known}")]
    Option {
        /// The allocator.
        allocator: &'static str,
        /// The option.
        option: String,
        /// The options that it has.
        known: String,
    },
    /// It has no such version.
    #[error("`{allocator}@{version}`: {reason}")]
    Version {
        /// The allocator.
        allocator: &'static str,
        /// The version.
        version: String,
        /// The reason.
        reason: String,
    },
    /// A list names it twice.
    #[error("`{name}` is named twice")]
    Twice {
        /// The allocator with its options.
        name: String,
    },
    /// It, or its option, has no place in this world.
    #[error("`{name}`: {what} has no effect {place}")]
    World {
        /// The allocator with its options.
        name: String,
        /// The allocator or the option.
        what: String,
        /// Where it was requested.
        place: &'static str,
    },
}

/// Whether an allocator of this name follows the rules of the recorded kernel in a replay: one that
/// follows releases of Linux, without a version or an option of its own.
pub fn follows_recording(name: &str) -> bool {
    ALLOCATORS.iter().any(|entry| entry.versions && entry.name == name)
}

fn known() -> String {
    ALLOCATORS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

/// The allocator that was probably meant: at most two typing errors away.
fn suggestion(name: &str) -> String {
    let errors = |entry: &&Entry| strsim::damerau_levenshtein(name, entry.name);
    match ALLOCATORS.iter().min_by_key(errors).filter(|entry| errors(entry) <= 2) {
        Some(entry) => format!(", did you mean `{}`?", entry.name),
        None => String::new(),
    }
}

impl Allocator {
    /// An allocator without options.
    ///
    /// # Panics
    /// If there is none of this name; use [`str::parse`] for text from outside.
    pub fn named(name: &str) -> Allocator {
        name.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// All allocators that run in `world`, without options, baseline first.
    pub fn all(world: World) -> Vec<Allocator> {
        ALLOCATORS.iter().filter(|entry| entry.worlds.has(world)).map(Allocator::plain).collect()
    }

    /// Reads a list of names: separated by commas, with spaces and in any case, `all` for every
    /// other allocator that runs in `world`, and `ablation` for [`ABLATION`].
    ///
    /// # Errors
    /// If a name or an option is unknown or has no effect in `world`, or a name stands twice.
    pub fn parse_list(text: &str, world: World) -> Result<Vec<Allocator>, UnknownAllocator> {
        let mut list: Vec<Allocator> = Vec::new();
        for name in text.split(',').map(|name| name.trim().to_ascii_lowercase()) {
            match name.as_str() {
                "all" => {
                    let mut rest = Allocator::all(world);
                    rest.retain(|other| list.iter().all(|named| named.name != other.name));
                    list.extend(rest);
                }
                "ablation" => list.extend(ABLATION.map(Allocator::named)),
                name => list.push(name.parse()?),
            }
        }
        for (at, allocator) in list.iter().enumerate() {
            allocator.check(world)?;
            if list[..at].iter().any(|other| other.name == allocator.name) {
                return Err(UnknownAllocator::Twice { name: allocator.name.clone() });
            }
        }
        Ok(list)
    }

    /// An allocator without options, of an entry that need not be in [`ALLOCATORS`].
    pub fn plain(entry: &'static Entry) -> Allocator {
        let version = entry.versions.then_some(KernelVersion::V6_1);
        Allocator { name: entry.name.to_owned(), entry, version, settings: (entry.settings)() }
    }

    /// The same allocator with the rules of a release of Linux, where it follows one and its name
    /// gives none. The name stays.
    pub fn under(&self, version: KernelVersion) -> Allocator {
        if !self.entry.versions || self.name.contains('@') {
            return self.clone();
        }
        let mut other = Allocator::plain(self.entry);
        other.settings = Settings::linux(version);
        for option in self.name.split('+').skip(1) {
            other.apply(option).expect("an option that this allocator has");
        }
        Allocator { name: self.name.clone(), version: Some(version), ..other }
    }

    /// The release whose rules it follows, where allocators of its name follow one.
    pub fn version(&self) -> Option<KernelVersion> {
        self.version
    }

    /// The name, with options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The entry, whose name has no options.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// A description with what is not modeled, in one sentence.
    pub fn summary(&self) -> String {
        let mut text = self.entry.description.to_owned();
        if let Some(version) = self.version {
            text = format!("{text} (Linux {version})");
        }
        let mut missing = vec![self.entry.not_modeled];
        if let Some(frames) = self.settings.memory_blocks {
            let mib = (frames * 4096) >> 20;
            text = format!("{text}, and `prairie regions` with memory blocks of {mib} MiB");
            missing.push("page cache that makes room for a block's contents");
        }
        missing.retain(|what| !what.is_empty());
        match missing.join(", ").as_str() {
            "" => text,
            missing => format!("{text}; not modeled: {missing}"),
        }
    }

    /// Whether replays of it can be [compacted](Site::compacts).
    pub fn compacts_in_replay(&self) -> bool {
        self.entry.compacts_in_replay && self.settings.policies.compaction
    }

    /// Builds its placement.
    pub fn build(&self, site: &Site) -> AnyPlacement {
        match self.entry.build {
            Build::Placement(build) => build(&self.settings, site),
            Build::Machine(build) => build(&self.settings, site).into_stepwise(),
        }
    }

    /// Builds its placement for a machine with reclaim; `None` if it cannot be driven that way.
    pub fn build_for_machine(&self, site: &Site) -> Option<MachinePlacement> {
        match self.entry.build {
            Build::Placement(_) => None,
            Build::Machine(build) => Some(build(&self.settings, site)),
        }
    }

    /// Whether the allocator and all its options have an effect in `world`.
    ///
    /// # Errors
    /// If not, naming what has none.
    pub fn check(&self, world: World) -> Result<(), UnknownAllocator> {
        let place = match world {
            World::Replay => "in a replay",
            World::Fleet => "in a fleet",
            World::Machine => "in the simulated machine",
        };
        let refuse =
            |what: String| Err(UnknownAllocator::World { name: self.name.clone(), what, place });
        if !self.entry.worlds.has(world) {
            return refuse("the allocator".to_owned());
        }
        for option in self.name.split('+').skip(1) {
            let name = option.split('=').next().unwrap_or_default();
            match self.entry.switches().find(|switch| switch.name == name) {
                Some(switch) if !switch.worlds.has(world) => {
                    return refuse(format!("the option `{option}`"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn apply(&mut self, option: &str) -> Result<(), UnknownAllocator> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let switch = self.entry.switches().find(|switch| switch.name == name);
        let fits = |switch: &&Switch| option.contains('=') <= !switch.value.is_empty();
        match switch.filter(fits) {
            Some(switch) if (switch.apply)(&mut self.settings, value) => {
                self.name = format!("{}+{option}", self.name);
                Ok(())
            }
            _ => Err(UnknownAllocator::Option {
                allocator: self.entry.name,
                option: option.to_owned(),
                known: match self.entry.switches().map(Switch::usage).collect::<Vec<_>>() {
                    none if none.is_empty() => "none".to_owned(),
                    some => some.join(", "),
                },
            }),
        }
    }

    /// Sets the kernel version of `linux@VERSION`.
    fn set_version(&mut self, text: &str) -> Result<(), UnknownAllocator> {
        let refuse = |reason: &str| UnknownAllocator::Version {
            allocator: self.entry.name,
            version: text.to_owned(),
            reason: reason.to_owned(),
        };
        if !self.entry.versions {
            return Err(refuse("this allocator has no versions"));
        }
        let version = text.parse().map_err(|_| refuse("expected a version such as 6.1"))?;
        if version < KernelVersion::V6_1 {
            return Err(refuse("the oldest version is 6.1"));
        }
        let missing = |rule: &&linux::Rule| {
            rule.since <= version
                && rule.area.decides_frames()
                && matches!(rule.modeled, Modeled::NotYet)
        };
        if let Some(rule) = RULES.iter().find(missing) {
            let reason = format!("since {} {}, which is not modeled", rule.since, rule.what);
            return Err(refuse(&reason));
        }
        self.settings = Settings::linux(version);
        self.version = Some(version);
        self.name = format!("{}@{version}", self.entry.name);
        Ok(())
    }
}

impl FromStr for Allocator {
    type Err = UnknownAllocator;

    /// Reads `NAME`, `NAME@VERSION`, or either with `+OPTION`s.
    fn from_str(text: &str) -> Result<Allocator, UnknownAllocator> {
        let mut parts = text.split('+');
        let head = parts.next().unwrap_or_default();
        let (name, version) = match head.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (head, None),
        };
        let unknown = || UnknownAllocator::Name { name: name.to_owned() };
        let entry = ALLOCATORS.iter().find(|entry| entry.name == name).ok_or_else(unknown)?;
        let mut allocator = Allocator::plain(entry);
        version.map_or(Ok(()), |version| allocator.set_version(version))?;
        parts.try_for_each(|option| allocator.apply(option))?;
        Ok(allocator)
    }
}

impl PartialEq for Allocator {
    fn eq(&self, other: &Allocator) -> bool {
        self.entry.name == other.entry.name && self.settings == other.settings
    }
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Allocator").field(&self.name).finish()
    }
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

#[cfg(test)]
mod tests;
