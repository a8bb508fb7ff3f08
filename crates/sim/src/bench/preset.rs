//! The machines that the benchmarks run on, and the load on them.

use std::fmt;
use std::str::FromStr;

use crate::machine::scenario::{self, Scenario};

/// A machine of the benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The 32-bit Xeon of the 2006 paper's Figure 4: 1,518 MiB, huge pages of 4 MiB.
    X86,
    /// The POWER5 of the same figure: 4,019 MiB, huge pages of 16 MiB.
    Ppc64,
    /// A server of today: 64 GiB, huge pages of 2 MiB.
    Modern,
    /// A machine small enough for tests: 96 MiB, huge pages of 2 MiB.
    Small,
}

/// How hard the machine is worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// One kernel compile at a time.
    Light,
    /// One for every 250 MiB, as section 7 has it.
    #[default]
    Heavy,
}

/// Common to all machines: kernel trees that are unpacked, compiled and walked through.
const COMMON: &str = include_str!("common.toml");

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 4] = [Preset::X86, Preset::Ppc64, Preset::Modern, Preset::Small];

    /// The name by which commands know it.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::X86 => "x86",
            Preset::Ppc64 => "ppc64",
            Preset::Modern => "modern",
            Preset::Small => "small",
        }
    }

    /// The hardware, as a scenario has it.
    const fn hardware(self) -> &'static str {
        match self {
            Preset::X86 => {
                "[machine]\narchitecture = \"x86-32\"\nmemory = \"1518M\"\ncpus = 4\nswap = \"2G\"\n\
                 kernel = \"12M\"\nhuge_order = 10\n\
                 [disk]\nseek = \"400us\"\nbandwidth = \"60M\"\n[vm]\nthp = \"never\"\n"
            }
            Preset::Ppc64 => {
                "[machine]\narchitecture = \"ppc64\"\nmemory = \"4019M\"\ncpus = 4\nswap = \"4G\"\n\
                 kernel = \"24M\"\nhuge_order = 12\n\
                 [disk]\nseek = \"400us\"\nbandwidth = \"60M\"\n[vm]\nthp = \"never\"\n"
            }
            Preset::Modern => {
                "[machine]\nmemory = \"64G\"\ncpus = 32\nswap = \"8G\"\nkernel = \"64M\"\n\
                 [disk]\nseek = \"20us\"\nbandwidth = \"2G\"\n"
            }
            Preset::Small => {
                "[machine]\nmemory = \"96M\"\ncpus = 2\nswap = \"64M\"\nkernel = \"4M\"\n\
                 [disk]\nseek = \"100us\"\nbandwidth = \"200M\"\n\
                 [vm]\nthp = \"never\"\n"
            }
        }
    }

    /// The machine and its workload.
    ///
    /// # Panics
    /// Never: tests parse each of them.
    pub fn scenario(self, seed: u64) -> Scenario {
        let text = format!("{}\n{COMMON}", self.hardware());
        let mut scenario = scenario::parse(&text).expect("the presets are scenarios");
        scenario.name = self.name().to_owned();
        scenario.seed = seed;
        let memory = scenario.machine.memory.0;
        let trees = (memory / (250 << 20)).max(1) as u32;
        for set in &mut scenario.files {
            match set.name.as_str() {
                "tree" if self == Preset::Small => set.count = 1_000,
                "tree" => set.copies = trees.min(64),
                "big" => {
                    set.size = prairie_model::random::Spread::fixed(memory as f64);
                }
                "system" if self == Preset::Small => set.count = 3_000,
                _ => {}
            }
        }
        for process in &mut scenario.processes {
            if process.name == "dd" {
                process.write = prairie_model::random::Spread::fixed(memory as f64);
            }
            if self == Preset::Small {
                let factor = 0.15;
                process.anonymous = match process.anonymous {
                    prairie_model::random::Spread::Lognormal(median, sigma) => {
                        prairie_model::random::Spread::Lognormal(median * factor, sigma)
                    }
                    other => other,
                };
            }
        }
        scenario
    }

    /// The systems that the paper compares on it, and Linux 6.1 where its lists hold the machine's
    /// huge pages.
    pub const fn systems(self) -> &'static str {
        match self {
            Preset::X86 => "buddy,zones,zones+kernelcore=1024M,lists,linux",
            Preset::Ppc64 => "buddy,zones,zones+kernelcore=2048M,lists",
            Preset::Modern => "buddy,zones+kernelcore=32G,lists,linux",
            Preset::Small => "buddy,zones,zones+kernelcore=48M,lists,linux",
        }
    }

    /// Whether it has pages of 1 GiB.
    pub const fn has_gigantic(self) -> bool {
        matches!(self, Preset::Modern)
    }

    /// Kernel compiles at a time.
    pub fn compiles(self, load: Load) -> u32 {
        let memory = self.scenario(1).machine.memory.0;
        match load {
            Load::Light => 1,
            Load::Heavy => (memory / (250 << 20)).max(2) as u32,
        }
    }

    /// The seconds of a phase on the machine.
    pub const fn seconds(self, full: u64) -> u64 {
        match self {
            Preset::Small => full.div_ceil(20),
            _ => full,
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Preset, String> {
        let found = Preset::ALL.into_iter().find(|preset| preset.name() == name);
        found.ok_or_else(|| "the machines are x86, ppc64, modern and small".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_scenario() {
        for preset in Preset::ALL {
            let scenario = preset.scenario(7);
            scenario.check().unwrap();
            assert_eq!((scenario.seed, preset.name().parse()), (7, Ok(preset)));
        }
        assert_eq!(Preset::X86.compiles(Load::Heavy), 6);
        assert_eq!(Preset::Ppc64.compiles(Load::Heavy), 16);
        assert_eq!(Preset::X86.compiles(Load::Light), 1);
    }
}
