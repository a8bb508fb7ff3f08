//! The systems that are compared, and a visitor for them: each has a type of its own.

use prairie_frames::placement::Placement;
use prairie_frames::placement::classes::{self, Classes};
use prairie_frames::placement::linux::{Config, Linux};
use prairie_frames::placement::lists::{Division, Lists};
use prairie_frames::placement::regions::{self, Hardware, Regions};
use prairie_frames::placement::superpageblocks::Superpageblocks;
use prairie_frames::placement::zones::{Kernelcore, Zones};
use prairie_frames::{Layout, Order};
use prairie_model::compacting::Compacting;

/// CPUs that share Linux's per-CPU lists.
const CPUS: u16 = 16;

/// All of them, Linux first.
pub const SYSTEMS: [&str; 11] = [
    "linux",
    "linux, no compaction",
    "linux-defrag",
    "zones, kernelcore 12 %",
    "zones, kernelcore 25 %",
    "lists",
    "classes, 64 MiB",
    "classes, 1 GiB",
    "superpageblocks",
    "contiguitas",
    "contiguitas-hw",
];

/// What is done with a system.
pub trait Visit {
    /// The results.
    type Output;
    /// Does it.
    fn visit<P: Placement>(self, placement: P) -> Self::Output;
}

/// Makes the system of this name for a layout.
pub fn visit<V: Visit>(name: &str, layout: &Layout, visitor: V) -> V::Output {
    let linux = Config { cpus_per_node: CPUS, ..Config::default() };
    let zones =
        |percent| Zones::new(layout, Order::LARGEST_FREE, Some(Kernelcore::Percent(percent)));
    let classes = |order| {
        let tree = Order::new(order).expect("a small order");
        Classes::new(layout, classes::Config { tree })
    };
    match name {
        "linux" => visitor.visit(Compacting::new(layout, Linux::new(layout, linux), false)),
        "linux, no compaction" => visitor.visit(Linux::new(layout, linux)),
        "linux-defrag" => {
            let config = Config { cpus_per_node: CPUS, ..Config::linux_6_15() };
            visitor.visit(Compacting::new(layout, Linux::new(layout, config), true))
        }
        "zones, kernelcore 12 %" => visitor.visit(zones(12)),
        "zones, kernelcore 25 %" => visitor.visit(zones(25)),
        "lists" => visitor.visit(Lists::new(layout, Order::LARGEST_FREE, Division::TwoWay)),
        "classes, 64 MiB" => visitor.visit(classes(14)),
        "classes, 1 GiB" => visitor.visit(classes(18)),
        "superpageblocks" => visitor.visit(Superpageblocks::new(layout, Default::default())),
        "contiguitas" => visitor.visit(Regions::new(layout, Default::default())),
        "contiguitas-hw" => {
            let hardware = Some(Hardware::default());
            let config = regions::Config { hardware, ..Default::default() };
            visitor.visit(Regions::new(layout, config))
        }
        other => unreachable!("no system is called {other}"),
    }
}
