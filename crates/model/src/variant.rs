//! A system with mechanisms taken away, and the one place that says which placement stands for
//! which name.

use std::fmt;
use std::str::FromStr;

use prairie_frames::placement::Placement;
use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::classes::Classes;
use prairie_frames::placement::freebsd::FreeBsd;
use prairie_frames::placement::linux::{self, Linux};
use prairie_frames::placement::lists::{Division, Lists};
use prairie_frames::placement::regions::{Config, Hardware, Regions};
use prairie_frames::placement::superpageblocks::Superpageblocks;
use prairie_frames::placement::zones::{Kernelcore, Zones};
use prairie_frames::{Layout, Order};

use crate::system::{SystemName, UnknownSystem};

/// A system, and what of Contiguitas is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The name, with the options that it was given.
    name: String,
    /// The system.
    pub system: SystemName,
    /// How Contiguitas is set up, if that is the system.
    pub regions: Config,
}

/// Contiguitas mechanism by mechanism beside Linux, each on top of the one before: confinement with
/// a border that stays (twice, for how large is the question), resizing, bias, migration before
/// pins, hardware; then the whole without bias, and without pressure.
pub const ABLATION: [&str; 9] = [
    "linux",
    "contiguitas+fixed+no-bias+no-pin-migration",
    "contiguitas+fixed=20%+no-bias+no-pin-migration",
    "contiguitas+no-bias+no-pin-migration",
    "contiguitas+no-pin-migration",
    "contiguitas",
    "contiguitas-hw",
    "contiguitas+no-bias",
    "contiguitas+no-pressure",
];

/// Does something with a placement, whichever it is.
pub trait Visitor {
    /// What comes of it.
    type Out;
    /// Does it.
    fn visit<P: Placement + Send + 'static>(self, placement: P) -> Self::Out;
}

/// A text that names no variant of a system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownVariant {
    /// There is no such system.
    #[error(transparent)]
    System(#[from] UnknownSystem),
    /// It has no such option.
    #[error(
        "`{system}` has no option `{option}`; contiguitas and contiguitas-hw have fixed, \
         fixed=PERCENT%, no-bias, no-pressure, no-pin-migration"
    )]
    Option {
        /// The system.
        system: SystemName,
        /// The option.
        option: String,
    },
}

impl Variant {
    /// The name, with options.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands the placement for a machine of `layout` to a visitor. `kernelcore` is of `zones`;
    /// Linux depends on more of the machine, and is made by the caller.
    pub fn place<V: Visitor>(
        &self,
        layout: &Layout,
        kernelcore: Option<Kernelcore>,
        linux: impl FnOnce(linux::Config) -> Linux,
        visitor: V,
    ) -> V::Out {
        let largest = Order::LARGEST_FREE;
        match self.system {
            SystemName::Buddy => visitor.visit(Buddy::new(layout, largest)),
            SystemName::Lists => visitor.visit(Lists::new(layout, largest, Division::TwoWay)),
            SystemName::ListsThreeWay => {
                visitor.visit(Lists::new(layout, largest, Division::ThreeWay))
            }
            SystemName::Zones => visitor.visit(Zones::new(layout, largest, kernelcore)),
            SystemName::FreeBsd => visitor.visit(FreeBsd::new(layout, Default::default())),
            SystemName::Linux => visitor.visit(linux(linux::Config::default())),
            SystemName::LinuxDefrag => visitor.visit(linux(linux::Config::linux_6_15())),
            SystemName::Classes => visitor.visit(Classes::new(layout, Default::default())),
            SystemName::Contiguitas | SystemName::ContiguitasHw => {
                visitor.visit(Regions::new(layout, self.regions.clone()))
            }
            SystemName::Superpageblocks => {
                visitor.visit(Superpageblocks::new(layout, Default::default()))
            }
        }
    }

    fn apply(&mut self, option: &str) -> Result<(), UnknownVariant> {
        let unknown = UnknownVariant::Option { system: self.system, option: option.to_owned() };
        if !matches!(self.system, SystemName::Contiguitas | SystemName::ContiguitasHw) {
            return Err(unknown);
        }
        let percent = option.strip_prefix("fixed=").and_then(|share| share.strip_suffix('%'));
        let percent: Option<u64> = percent.and_then(|share| share.parse().ok());
        match (option, percent) {
            ("no-bias", _) => self.regions.bias = false,
            ("no-pressure", _) => self.regions.tuning.weight = [0, 0],
            ("no-pin-migration", _) => self.regions.pin_migration = false,
            ("fixed", _) => self.fix(self.regions.initial_per_1024),
            (_, Some(percent @ 1..=99)) => self.fix(percent * 1024 / 100),
            _ => return Err(unknown),
        }
        Ok(())
    }

    /// The border stays where it is at the start.
    fn fix(&mut self, initial_per_1024: u64) {
        self.regions = Config {
            initial_per_1024,
            step_pageblocks: 0,
            failure_pageblocks: 0,
            ..self.regions.clone()
        };
    }
}

impl From<SystemName> for Variant {
    fn from(system: SystemName) -> Variant {
        let hardware = (system == SystemName::ContiguitasHw).then(Hardware::default);
        let regions = Config { hardware, ..Config::default() };
        Variant { name: system.name().to_owned(), system, regions }
    }
}

impl FromStr for Variant {
    type Err = UnknownVariant;

    /// `NAME`, or `NAME+OPTION+OPTION`.
    fn from_str(text: &str) -> Result<Variant, UnknownVariant> {
        let mut parts = text.split('+');
        let system: SystemName = parts.next().unwrap_or_default().parse()?;
        let mut variant = Variant::from(system);
        for option in parts {
            variant.apply(option)?;
            variant.name = format!("{}+{option}", variant.name);
        }
        Ok(variant)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_the_ablation_adds_to_the_one_before() {
        let variants = ABLATION.map(|name| name.parse::<Variant>().unwrap());
        for (variant, name) in variants.iter().zip(ABLATION) {
            assert_eq!(variant.name(), name);
        }
        for pair in variants.windows(2) {
            assert_ne!((pair[0].system, &pair[0].regions), (pair[1].system, &pair[1].regions));
        }
        assert_eq!(variants[2].regions.initial_per_1024, 204);
        assert_eq!(variants[5], SystemName::Contiguitas.into());
    }

    #[test]
    fn options_of_others_are_refused() {
        for wrong in ["linux+fixed", "contiguitas+fixed=0%", "contiguitas+fixed=9", "x+no-bias"] {
            let error = wrong.parse::<Variant>().unwrap_err().to_string();
            assert!(error.contains("contiguitas") && !error.contains('\n'), "{error}");
        }
    }
}
