//! The survey of the machine that runs the tests, against the kernel's own figures.
#![allow(missing_docs)]

mod common;

use common::take;
use prairie_host::{Roots, Survey};

/// The live survey, or the reason why there is none to compare.
fn survey() -> Option<Survey> {
    let capture = match take(&Roots::live()) {
        Ok(capture) => capture,
        Err(error) => {
            prairie_testing::skip(error);
            return None;
        }
    };
    if capture.frames.is_none() {
        let why = capture.left_out.iter().map(|left| left.why.as_str()).collect::<Vec<_>>();
        prairie_testing::skip(format_args!("no frames ({})", why.join("; ")));
        return None;
    }
    Some(Survey::of(&capture).unwrap())
}

/// How far two figures are apart, as a share of the larger.
fn apart(a: u64, b: u64) -> f64 {
    a.abs_diff(b) as f64 / a.max(b).max(1) as f64
}

#[test]
fn frames_agree_with_the_free_lists_and_zones() {
    let Some(survey) = survey() else { return };
    for zone in &survey.zones {
        let (Some(frames), Some(lists)) = (&zone.frames, &zone.free_lists) else { continue };
        let extent = zone.extent.as_ref().expect("frames are told by zoneinfo's spans");
        println!(
            "{}: {} of {} frames free by flags, {} by the lists",
            zone.id, frames.by_mobility.free, frames.present_frames, lists.free_frames
        );
        assert!(frames.present_frames <= extent.spanned_frames);
        // A host in use continues while it is read: the test allows a twentieth of the zone.
        let slack = extent.present_frames / 20;
        assert!(frames.by_mobility.free.abs_diff(lists.free_frames) <= slack, "{}", zone.id);
        // No more free blocks of 4 MiB by flags than the lists hold, but for what changed since.
        let on_lists = lists.blocks_by_order.get(10).copied().unwrap_or(0);
        assert!(frames.available[1].blocks.abs_diff(on_lists) <= slack / 1024 + 8, "{}", zone.id);
    }
    for check in &survey.cross_checks {
        println!(
            "{}: {} by flags, {} by the kernel ({})",
            check.what, check.by_flags_frames, check.by_kernel_frames, check.relation
        );
    }
    let present = &survey.cross_checks[0];
    assert!(apart(present.by_flags_frames, present.by_kernel_frames) < 0.01, "{present:?}");
}

#[test]
fn every_frame_has_one_class() {
    let Some(survey) = survey() else { return };
    let frames = survey.frames.unwrap();
    let mobility = frames.by_mobility;
    let by_class: u64 = frames.by_class.iter().map(|class| class.frames).sum();
    assert_eq!(by_class, frames.present_frames);
    let by_mobility = mobility.free + mobility.movable + mobility.unmovable + mobility.unknown;
    assert_eq!(by_mobility, frames.present_frames);
    for potential in &frames.potential {
        assert!(potential.unknown_unmovable.blocks <= potential.unknown_movable.blocks);
    }
}

#[test]
fn kernel_functions_are_found() {
    let table = match std::fs::read_to_string("/proc/kallsyms") {
        Ok(text) => prairie_host::Kallsyms::parse(&text),
        Err(error) => return prairie_testing::skip(format_args!("/proc/kallsyms: {error}")),
    };
    match table {
        Ok(table) => assert!(table.len() > 1000, "{} functions", table.len()),
        Err(error) => prairie_testing::skip(error),
    }
}
