//! Figure 6: programs of a fleet's workloads after a fragmenter, under Linux and Contiguitas.

use prairie_frames::layout::LayoutError;
use prairie_frames::placement::linux::{Config, Linux};
use prairie_frames::placement::regions::Regions;
use serde::Serialize;

use super::fragment::{FragmentedMemory, fragment};
use super::hardware::Hardware;
use super::tlb::{Accesses, Backing};
use crate::workload::{SHIPPED, Workload};
use prairie_model::compacting::Compacting;
use prairie_model::zones::{Architecture, Marks, Shape, layout};

/// Assumptions besides the hardware. One set for all workloads: they differ in nothing but the size
/// of their programs, which is the mean of their file's `jobs.size`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Assumptions {
    /// Skew of visits over a program's memory: 0.99, that of YCSB's zipfian workloads (Cooper et
    /// al., 2010).
    pub skew: f64,
    /// Neighboring pages that are as hot as each other, as a power of two. Ours: 16 KiB.
    pub cluster_order: u32,
    /// Share of cycles that [`anchor`](Assumptions::anchor) spends in walks with pages of 4 KiB.
    /// "Close to 20 % of total cycles [...] for major workload classes" (the paper). It fixes how
    /// many cycles all programs compute between two visits.
    pub walk_share: f64,
    /// The workload that `walk_share` refers to; the paper names Web serving first.
    pub anchor: &'static str,
    /// Degrees of the fragmenter that stand for partial and full fragmentation. Ours: under Linux
    /// the second pollutes nearly all blocks; what the first does is part of the result.
    pub degrees: [f64; 2],
    /// Share of the machine that the program asks for. Ours.
    pub memory_share: f64,
    /// Frames of the machine that is fragmented.
    pub frames: u64,
    /// Visits that are counted, after as many that are not.
    pub visits: u64,
    /// The random seed.
    pub seed: u64,
}

impl Default for Assumptions {
    fn default() -> Assumptions {
        Assumptions {
            skew: 0.99,
            cluster_order: 2,
            walk_share: 0.2,
            anchor: "web",
            degrees: [0.3, 1.0],
            memory_share: 0.9,
            frames: 8 << 18,
            visits: 1_000_000,
            seed: 1,
        }
    }
}

/// A machine after the fragmenter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fragmented {
    /// The fragmenter's degree.
    pub degree: f64,
    /// What Linux 6.1 with compaction has left.
    pub linux: FragmentedMemory,
    /// What Contiguitas has left.
    pub contiguitas: FragmentedMemory,
}

/// One workload's program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Program {
    /// The workload.
    pub workload: String,
    /// Its memory in GiB.
    pub gib: f64,
    /// Share of cycles for translation with pages of 4 KiB alone, and of 2 MiB alone.
    pub share_base: f64,
    /// With pages of 2 MiB alone.
    pub share_huge: f64,
    /// For each degree, the speedup of Contiguitas over Linux, as a share.
    pub gains: Vec<f64>,
    /// For each degree, the additional speedup of 1 GiB pages over 2 MiB, under Contiguitas.
    pub gains_gigantic: Vec<f64>,
}

/// The figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The core.
    pub hardware: Hardware,
    /// Everything else that was put in.
    pub assumptions: Assumptions,
    /// Cycles between two visits that follow from the anchor.
    pub cycles_between: f64,
    /// Machines, by degree.
    pub machines: Vec<Fragmented>,
    /// Programs, by workload.
    pub programs: Vec<Program>,
}

/// Computes the figure. The same input gives the same figure.
///
/// # Errors
/// If the machine has too little memory for a layout.
///
/// # Panics
/// If the anchor is no workload that comes with Prairie.
pub fn figure(hardware: &Hardware, assumptions: &Assumptions) -> Result<Figure, LayoutError> {
    let machines = assumptions.degrees.iter().map(|&degree| fragmented(assumptions, degree));
    let machines = machines.collect::<Result<Vec<_>, _>>()?;
    let workloads = SHIPPED.map(|(name, _)| Workload::shipped(name).expect("it is shipped"));
    let anchor = workloads.iter().find(|workload| workload.name == assumptions.anchor);
    let anchor = accesses(assumptions, anchor.expect("the anchor is a workload"), 1.0);
    let cost = anchor.cost(hardware, &Backing::BASE, assumptions.visits, assumptions.seed);
    // Of s stalled and c other cycles a visit, s / (s + c) is the share that the paper names.
    let stalled = cost.cycles * hardware.exposed / cost.translations as f64;
    let cycles_between = stalled * (1.0 - assumptions.walk_share) / assumptions.walk_share;
    let programs = workloads.iter().map(|workload| {
        let accesses = accesses(assumptions, workload, cycles_between);
        program(hardware, assumptions, &workload.name, &accesses, &machines)
    });
    Ok(Figure {
        hardware: *hardware,
        assumptions: *assumptions,
        cycles_between,
        programs: programs.collect(),
        machines,
    })
}

fn fragmented(assumptions: &Assumptions, degree: f64) -> Result<Fragmented, LayoutError> {
    let shape = Shape {
        frames: assumptions.frames,
        nodes: 1,
        architecture: Architecture::X86_64,
        kernelcore: None,
        marks: Marks::Linux6 { scale_factor: 10, huge_pages: true },
        low: None,
        min_free: None,
    };
    let layout = layout(&shape)?;
    let (share, seed) = (assumptions.memory_share, assumptions.seed);
    let linux = Compacting::new(&layout, Linux::new(&layout, Config::default()), false);
    let contiguitas = Regions::new(&layout, Default::default());
    Ok(Fragmented {
        degree,
        linux: fragment(&layout, linux, degree, share, seed),
        contiguitas: fragment(&layout, contiguitas, degree, share, seed),
    })
}

fn accesses(assumptions: &Assumptions, workload: &Workload, cycles_between: f64) -> Accesses {
    Accesses {
        pages: ((workload.jobs.size.mean() / 4096.0) as u64).max(512),
        skew: assumptions.skew,
        cluster_order: assumptions.cluster_order,
        cycles_between,
    }
}

fn program(
    hardware: &Hardware,
    assumptions: &Assumptions,
    workload: &str,
    accesses: &Accesses,
    machines: &[Fragmented],
) -> Program {
    let share = |backing: &Backing| {
        let cost = accesses.cost(hardware, backing, assumptions.visits, assumptions.seed);
        accesses.share(hardware, &cost)
    };
    // Speed is the share of cycles that are left to compute.
    let gain = |from: f64, to: f64| (1.0 - to) / (1.0 - from) - 1.0;
    let gib = accesses.pages as f64 / 262_144.0;
    let (mut gains, mut gains_gigantic) = (Vec::new(), Vec::new());
    for machine in machines {
        let linux = share(&machine.linux.without_gigantic());
        let contiguitas = share(&machine.contiguitas.without_gigantic());
        let gigantic = share(&machine.contiguitas.with_gigantic(gib));
        gains.push(gain(linux, contiguitas));
        gains_gigantic.push(gain(contiguitas, gigantic));
    }
    Program {
        workload: workload.to_owned(),
        gib,
        share_base: share(&Backing::BASE),
        share_huge: share(&Backing { huge: 1.0, gigantic: 0.0 }),
        gains,
        gains_gigantic,
    }
}
