use prairie_frames::placement::zones::Kernelcore;

use super::*;

fn parsed(text: &str) -> Allocator {
    text.parse().unwrap()
}

#[test]
fn each_step_of_the_ablation_adds_to_the_one_before() {
    let variants = ABLATION.map(parsed);
    for (variant, name) in variants.iter().zip(ABLATION) {
        assert_eq!(variant.name(), name);
        variant.check(World::Fleet).unwrap();
    }
    for pair in variants.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
    assert_eq!(variants[2].settings.regions.initial_per_1024, 204);
}

#[test]
fn names_and_options() {
    let zones = parsed("zones+kernelcore=1024M+linear");
    assert_eq!(zones.settings.kernelcore, Some(Kernelcore::Frames(1 << 18)));
    assert!(zones.settings.policies.linear_reclaim);
    assert_eq!(zones.name(), "zones+kernelcore=1024M+linear");
    let linux = parsed("linux+no-boost+no-kcompactd").settings;
    assert!(!linux.policies.boost && !linux.policies.kcompactd && linux.policies.compaction);
    assert_eq!(linux.linux.watermark_boost_factor, 0);
    for entry in &ALLOCATORS {
        assert_eq!(parsed(entry.name).name(), entry.name);
    }
}

#[test]
fn sizes_of_zones_and_trees() {
    let zones = |text: &str| parsed(text).settings;
    assert_eq!(zones("zones+kernelcore=25%").kernelcore, Some(Kernelcore::Percent(25)));
    assert!(zones("zones").movable_zone && !zones("buddy").movable_zone);
    assert_eq!(parsed("classes+tree=64M"), parsed("classes"));
    assert_eq!(parsed("classes+tree=1G").settings.classes.tree.get(), 18);
    for wrong in ["zones+kernelcore=0%", "zones+kernelcore=101%", "zones+kernelcore=%"] {
        assert!(wrong.parse::<Allocator>().is_err(), "{wrong}");
    }
    for wrong in ["classes+tree=2M", "classes+tree=2G", "classes+tree=96M", "classes+tree"] {
        assert!(wrong.parse::<Allocator>().is_err(), "{wrong}");
    }
}

#[test]
fn the_recorded_kernel_is_linux_without_version_or_option() {
    assert!(follows_recording("linux"));
    for other in ["linux@6.12", "linux+no-pcp", "linux-defrag", "contiguitas"] {
        assert!(!follows_recording(other), "{other}");
    }
}

#[test]
fn memory_blocks_of_the_regions_daemon() {
    let blocks = |text: &str| parsed(text).settings.memory_blocks;
    assert_eq!(blocks("linux"), None);
    assert_eq!(blocks("linux+regions"), Some(1 << 15));
    assert_eq!(blocks("linux@6.12+regions=2G+no-thp"), Some(1 << 19));
    let summary = parsed("linux@7.3+regions=256M").summary();
    assert!(summary.contains("(Linux 7.3), and `prairie regions`"), "{summary}");
    assert!(summary.contains("256 MiB") && summary.contains("page cache"), "{summary}");
    for world in [World::Replay, World::Fleet, World::Machine] {
        parsed("linux+regions").check(world).unwrap();
    }
    for wrong in ["linux+regions=64M", "linux+regions=4G", "linux+regions=384M", "buddy+regions"] {
        assert!(wrong.parse::<Allocator>().is_err(), "{wrong}");
    }
}

#[test]
fn every_switch_without_a_value_changes_something() {
    for entry in &ALLOCATORS {
        for switch in entry.switches().filter(|switch| switch.value.is_empty()) {
            let with = parsed(&format!("{}+{}", entry.name, switch.name));
            assert_ne!(with, parsed(entry.name), "{}+{}", entry.name, switch.name);
        }
    }
}

#[test]
fn versions_of_linux() {
    assert_eq!(parsed("linux@6.1").settings, parsed("linux").settings);
    assert_eq!(parsed("linux@6.1+no-boost").name(), "linux@6.1+no-boost");
    for (wrong, reason) in
        [("linux@5.4", "oldest"), ("linux@six", "expected a version"), ("buddy@6.1", "no versions")]
    {
        let error = wrong.parse::<Allocator>().unwrap_err().to_string();
        assert!(error.contains(wrong) && error.contains(reason), "{error}");
    }
}

#[test]
fn unknown_allocators_are_refused() {
    let error = "lunix".parse::<Allocator>().unwrap_err().to_string();
    assert!(
        error.contains("did you mean `linux`?") && error.contains("superpageblocks"),
        "{error}"
    );
    for wrong in ["linux+fixed", "contiguitas+fixed=0%", "contiguitas+fixed=9", "linux+no-pcp=1"] {
        let error = wrong.parse::<Allocator>().unwrap_err().to_string();
        assert!(error.contains("has no option") && !error.contains('\n'), "{error}");
    }
    let error = "buddy+kernelcore=1G".parse::<Allocator>().unwrap_err().to_string();
    assert_eq!(error, "`buddy` has no option `kernelcore=1G`; it has linear, drain");
    assert!("".parse::<Allocator>().is_err());
}

#[test]
fn lists_of_names() {
    let names = |text: &str, world| -> Vec<String> {
        let list = Allocator::parse_list(text, world).unwrap();
        list.iter().map(|allocator| allocator.name().to_owned()).collect()
    };
    assert_eq!(
        names("Buddy, linux ,CONTIGUITAS", World::Replay),
        ["buddy", "linux", "contiguitas"]
    );
    assert_eq!(names("all", World::Replay).len(), ALLOCATORS.len());
    assert_eq!(names("all", World::Machine).len(), 8);
    assert_eq!(names("ablation", World::Fleet), ABLATION);
    let error = Allocator::parse_list("linux,buddy,Linux", World::Replay).unwrap_err().to_string();
    assert_eq!(error, "`linux` is named twice");
    for (text, world) in [
        ("linux+no-kcompactd", World::Replay),
        ("buddy+linear", World::Fleet),
        ("classes", World::Machine),
    ] {
        let error = Allocator::parse_list(text, world).unwrap_err().to_string();
        assert!(error.contains("no effect") && error.contains(text), "{error}");
    }
}
