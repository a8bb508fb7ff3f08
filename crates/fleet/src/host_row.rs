//! One row for one host at one time: what a fleet keeps of a survey, in a few hundred bytes.
//!
//! A row is a line of JSON or a row of Parquet. Shares are from 0 to 1; where unknown frames leave a
//! share open, `_min` and `_max` are its bounds. What could not be read, such as frames without root,
//! is null.

mod columns;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use columns::{read_parquet, to_parquet};

/// One host at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRow {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Wall-clock time of the survey, nanoseconds since 1970.
    pub taken_at_unix_ns: u64,
    /// The host's name.
    pub host: String,
    /// A hash of the machine's id, which names the host without disclosing the id.
    pub machine_id: String,
    /// `uname -r`.
    pub kernel: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Seconds since boot.
    pub uptime_s: Option<f64>,
    /// Labels that the fleet gives to the host: `rack`, `role`.
    pub labels: BTreeMap<String, String>,
    /// The measures.
    #[serde(flatten)]
    pub measures: Measures,
}

/// The value of [`HostRow::schema`].
pub const SCHEMA: &str = "prairie-host-row";
/// Version of the fields; grows when one changes its meaning or goes.
pub const SCHEMA_VERSION: u32 = 1;

macro_rules! measures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The measures of a row, shares from 0 to 1.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Measures {
            $($(#[$doc])* pub $name: Option<f64>,)*
        }

        impl Measures {
            /// The names, in the order of columns.
            pub const NAMES: [&'static str; [$(stringify!($name)),*].len()] = [$(stringify!($name)),*];

            /// The values in the same order.
            pub fn values(&self) -> [Option<f64>; Self::NAMES.len()] {
                [$(self.$name),*]
            }

            /// The same measures with each value changed.
            pub fn map(self, of: impl Fn(f64) -> f64) -> Measures {
                Measures { $($name: self.$name.map(&of)),* }
            }

            /// The value at a place of that order, to be set.
            fn value_mut(&mut self, at: usize) -> &mut Option<f64> {
                let all = [$(&mut self.$name),*];
                all.into_iter().nth(at).expect("a place below the number of names")
            }
        }
    };
}

measures! {
    /// Free memory.
    free_share,
    /// F_u(9): free memory in pieces smaller than 2 MiB, of free memory.
    unusable_2_mib,
    /// Free memory in free 1 GiB blocks, of free memory.
    free_1_gib,
    /// Initialized memory, of memory.
    initialized,
    /// Unmovable memory, of initialized memory, if unknown frames are movable.
    unmovable_min,
    /// The same if unknown frames are unmovable.
    unmovable_max,
    /// Polluted pageblocks, of initialized ones, if unknown frames are movable.
    polluted_min,
    /// The same if unknown frames are unmovable.
    polluted_max,
    /// Potential contiguity at 2 MiB, of initialized memory, if unknown frames are unmovable.
    potential_2_mib_min,
    /// The same if unknown frames are movable.
    potential_2_mib_max,
    /// Potential contiguity at 1 GiB, of all memory, if unknown frames are unmovable.
    potential_1_gib_min,
    /// The same if unknown frames are movable.
    potential_1_gib_max,
    /// Anonymous memory on huge pages, of anonymous memory.
    coverage,
    /// Huge-page faults since boot that got small pages, of all.
    fallback,
    /// Allocations since boot that stopped to compact memory, a second.
    stalls_per_s,
}

impl Measures {
    /// The first value that cannot be a share, and its name.
    pub fn impossible(&self) -> Option<(&'static str, f64)> {
        let named = Self::NAMES.into_iter().zip(self.values());
        let mut shares = named
            .filter(|(name, _)| *name != "stalls_per_s")
            .filter_map(|(name, value)| Some((name, value?)));
        shares.find(|(_, value)| !(0.0..=1.0).contains(value))
    }
}

/// The hash of a machine's id: 16 hexadecimal digits. An id must not be disclosed (machine-id(5)).
pub fn hashed_id(id: &str) -> String {
    crate::identity::hash(&format!("prairie {}", id.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn row(at: u64) -> HostRow {
        HostRow {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            taken_at_unix_ns: 1_790_000_000_000_000_000 + at,
            host: format!("host-{at}"),
            machine_id: hashed_id(&at.to_string()),
            kernel: "6.12.0".to_owned(),
            memory_bytes: 64 << 30,
            uptime_s: at.is_multiple_of(2).then_some(at as f64),
            labels: [("rack".to_owned(), format!("r{at}"))].into(),
            measures: Measures {
                polluted_min: Some(0.25),
                coverage: at.is_multiple_of(3).then_some(0.5),
                ..Measures::default()
            },
        }
    }

    #[test]
    fn a_row_is_a_few_hundred_bytes() {
        let mut full = row(1);
        for at in 0..Measures::NAMES.len() {
            *full.measures.value_mut(at) = Some(0.123_456);
        }
        let line = serde_json::to_string(&full).unwrap();
        assert!(line.len() < 800, "{} bytes: {line}", line.len());
        assert_eq!(serde_json::from_str::<HostRow>(&line).unwrap(), full);
        // A line of an older version lacks fields.
        let short: HostRow = serde_json::from_str(r#"{"host":"a","coverage":null}"#).unwrap();
        assert_eq!((short.host.as_str(), short.measures.coverage), ("a", None));
    }

    #[test]
    fn ids_are_hashed_and_stay_apart() {
        let id = "0123456789abcdef0123456789abcdef";
        let hashed = hashed_id(id);
        assert_eq!(hashed, hashed_id(&format!("{id}\n")));
        assert!(hashed.len() == 16 && !id.contains(&hashed));
        assert_ne!(hashed, hashed_id("1123456789abcdef0123456789abcdef"));
    }
}
