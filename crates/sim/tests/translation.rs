//! Fragmenter, translation and what they give together.
#![allow(missing_docs)]

use prairie_sim::translation::hardware::Hardware;
use prairie_sim::translation::study::{Assumptions, Figure, figure};

fn small() -> Assumptions {
    Assumptions { frames: 2 << 18, visits: 60_000, ..Assumptions::default() }
}

fn compute(assumptions: &Assumptions) -> Figure {
    figure(&Hardware::default(), assumptions).unwrap()
}

/// The fragmenter does to Linux what its degree says, and not to Contiguitas.
#[test]
fn a_fragmenter_pollutes_linux_by_its_degree_and_contiguitas_hardly() {
    let figure = compute(&small());
    let [partial, full] = figure.machines.as_slice() else { panic!("two degrees") };
    assert!((0.2..0.8).contains(&partial.linux.polluted), "{partial:?}");
    assert!(full.linux.polluted > 0.8, "{full:?}");
    assert!(full.linux.huge < partial.linux.huge, "{figure:?}");
    for machine in &figure.machines {
        assert!(machine.contiguitas.polluted < 0.1, "{machine:?}");
        assert!(machine.contiguitas.huge > 0.9, "{machine:?}");
        assert_eq!(machine.linux.free_gigabytes, 0, "{machine:?}");
        assert!(machine.contiguitas.free_gigabytes >= 1, "{machine:?}");
    }
}

#[test]
fn more_fragmentation_and_larger_programs_gain_more() {
    let figure = compute(&small());
    let web = figure.programs.iter().find(|program| program.workload == "web").unwrap();
    // The anchor, by definition.
    assert!((web.share_base - 0.2).abs() < 1e-9, "{web:?}");
    for program in &figure.programs {
        let [partial, full] = program.gains.as_slice() else { panic!("two degrees") };
        assert!(full > partial && *partial > 0.0, "{program:?}");
        assert!(program.share_huge < program.share_base, "{program:?}");
        assert!(program.gains_gigantic.iter().all(|&gain| gain >= 0.0), "{program:?}");
    }
    let share =
        |name: &str| figure.programs.iter().find(|p| p.workload == name).unwrap().share_base;
    assert!(share("ci") < share("web") && share("web") < share("cache-a"));
}

#[test]
fn one_input_gives_one_figure() {
    let assumptions = Assumptions { visits: 5_000, frames: 1 << 18, ..small() };
    assert_eq!(compute(&assumptions), compute(&assumptions));
}
