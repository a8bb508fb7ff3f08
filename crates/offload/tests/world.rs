//! The daemon on a tree of files that looks like cgroup v2: cgroups come and go, files vanish,
//! clocks jump, and every file may hold garbage.
#![allow(missing_docs)]

mod tree;

use std::fs;
use std::path::Path;
use std::time::Duration;

use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_offload::daemon::{Daemon, Setting};
use prairie_offload::world::fault_alarm::FaultAlarm;
use prairie_offload::world::lease::Leases;
use proptest::prelude::*;
use tree::{MIB, Tree, captured};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const RULE: &str = "[daemon]\nreturn_cost = \"27us\"\ntriggers = false\ncall_time = \"1s\"\n\
                    [[rule]]\ncgroups = [\"work/*\"]\nwarm_up = \"0s\"\n";

#[test]
fn a_quiet_container_is_asked_for_the_papers_share() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    let mut daemon = tree.daemon(RULE);
    daemon.tick(seconds(100));
    assert_eq!(tree.asked("work/a"), None, "the first look has nothing to compare with");
    daemon.tick(seconds(106));
    assert_eq!(tree.asked("work/a"), Some(51 * 4096));
    let status = daemon.status();
    let status = status.lock();
    assert_eq!(status.cgroups[0].asked_bytes, 51 * 4096);
    assert_eq!(status.cgroups[0].requests, 1);
    assert_eq!(status.cgroups[0].guard, "");
}

#[test]
fn nothing_but_what_is_named_is_ever_written() {
    let tree = Tree::new();
    for name in ["work/a", "work/b", "other/c", "d"] {
        tree.cgroup(name, 400 * MIB);
    }
    let before = tree.snapshot();
    let mut daemon = tree.daemon(RULE);
    for step in 0..200 {
        daemon.tick(seconds(6 * step));
    }
    daemon.stop().unwrap();
    let changed: Vec<String> = tree.changed_since(&before);
    assert_eq!(changed, ["work/a/memory.reclaim", "work/b/memory.reclaim"]);
}

#[test]
fn a_dry_run_writes_nothing() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    let before = tree.snapshot();
    let mut daemon = tree.dry_daemon(RULE);
    for step in 0..10 {
        daemon.tick(seconds(6 * step));
    }
    let status = daemon.status().lock().clone();
    assert!(status.cgroups[0].asked_bytes > 0, "it says what it would have asked for");
    daemon.stop().unwrap();
    assert_eq!(tree.changed_since(&before), Vec::<String>::new());
}

#[test]
fn cgroups_come_and_go_and_come_again() {
    let tree = Tree::new();
    let mut daemon = tree.daemon(RULE);
    daemon.tick(seconds(0));
    assert_eq!(daemon.containers().len(), 0);
    tree.cgroup("work/a", 400 * MIB);
    daemon.tick(seconds(10));
    let first = daemon.containers()[0].id;
    tree.remove("work/a");
    tree.cgroup("work/a", 400 * MIB);
    daemon.tick(seconds(20));
    let second = daemon.containers()[0].id;
    assert_ne!(first, second, "another cgroup of the same name starts again");
    tree.remove("work/a");
    // Its files are still open, and still readable here; the next look for cgroups misses it.
    daemon.tick(seconds(30));
    assert_eq!(daemon.containers().len(), 0);
    assert!(daemon.status().lock().cgroups.is_empty());
}

#[test]
fn a_jumping_clock_takes_nothing_and_stops_nothing() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    let mut daemon = tree.daemon(RULE);
    for now in [1_000, 1_006, 500, 506, 100_000, 3] {
        daemon.tick(seconds(now));
    }
    tree.forget("work/a");
    daemon.tick(seconds(9));
    assert_eq!(tree.asked("work/a"), Some(51 * 4096), "two looks six seconds apart suffice");
    tree.forget("work/a");
    daemon.tick(seconds(400));
    assert_eq!(tree.asked("work/a"), None, "a machine that slept");
}

#[test]
fn a_kernel_without_io_pressure_or_swap_figures_is_served_too() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    for file in ["io.pressure", "memory.swap.current", "memory.swap.max", "memory.min"] {
        fs::remove_file(tree.path("work/a").join(file)).unwrap();
    }
    let mut daemon = tree.daemon(RULE);
    daemon.tick(seconds(0));
    daemon.tick(seconds(6));
    assert_eq!(tree.asked("work/a"), Some(51 * 4096));
}

#[test]
fn a_cgroup_without_its_files_is_left_alone_and_reported_once() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    tree.cgroup("work/b", 400 * MIB);
    fs::remove_file(tree.path("work/a/memory.stat")).unwrap();
    let (log, told) = captured(Format::Text);
    let mut daemon = tree.daemon_with(RULE, log, false);
    for step in 0..20 {
        daemon.tick(seconds(6 * step));
    }
    assert_eq!(tree.asked("work/a"), None);
    assert!(tree.asked("work/b").is_some());
    let told = told.text();
    let lines = told.lines().filter(|line| line.contains("work/a: left alone: memory.stat"));
    assert_eq!(lines.count(), 1, "{told}");
}

#[test]
fn swap_that_is_added_late_is_seen() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    tree.write_proc("swaps", "Filename Type Size Used Priority\n");
    let mut daemon = tree.daemon(RULE);
    let guard =
        |daemon: &prairie_offload::daemon::Daemon| daemon.status().lock().cgroups[0].guard.clone();
    for step in 0..5 {
        daemon.tick(seconds(6 * step));
    }
    assert_eq!(tree.asked("work/a"), None, "there is no page cache either");
    assert_eq!(guard(&daemon), "no-room");
    tree.write_proc("swaps", "/dev/vda partition 1048576 0 -2\n");
    daemon.tick(seconds(30));
    assert_eq!(tree.asked("work/a"), Some(51 * 4096));
    tree.forget("work/a");
    tree.write_proc("swaps", "/dev/vda partition 1048576 1048000 -2\n");
    // It was idle, so that the next look is two periods later.
    daemon.tick(seconds(36));
    daemon.tick(seconds(42));
    assert_eq!((tree.asked("work/a"), guard(&daemon).as_str()), (None, "no-room"));
}

/// Who was idle is sampled late, but for a burst.
#[test]
fn a_burst_is_looked_at_within_a_period() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    let mut daemon = tree.daemon(RULE);
    let looked_at = |daemon: &prairie_offload::daemon::Daemon| daemon.containers()[0].seen.at;
    let mut next = seconds(0);
    for at in [0, 6, 18, 42, 66] {
        next = daemon.tick(seconds(at));
        assert_eq!(looked_at(&daemon), seconds(at), "calm for longer and longer");
    }
    assert!(next <= seconds(90));
    let id = daemon.containers()[0].id;
    daemon.burst(id);
    daemon.tick(seconds(69));
    assert_eq!(looked_at(&daemon), seconds(66), "half a period says nothing of pressure");
    daemon.tick(seconds(72));
    assert_eq!(looked_at(&daemon), seconds(72));
    assert_eq!(daemon.status().lock().cgroups[0].guard, "burst");
}

#[test]
fn limits_of_swap_above_a_container_hold() {
    let tree = Tree::new();
    tree.cgroup("work", 800 * MIB);
    tree.cgroup("work/a", 400 * MIB);
    tree.write("work/memory.swap.max", "104857600\n");
    tree.write("work/memory.swap.current", "104000000\n");
    let mut daemon = tree.daemon(RULE);
    daemon.tick(seconds(0));
    daemon.tick(seconds(6));
    assert_eq!(tree.asked("work/a"), None);
    assert_eq!(daemon.status().lock().cgroups[0].guard, "no-room");
}

#[test]
fn what_cannot_be_written_is_refused_with_a_reason() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    // A directory in its place: opening it for writing fails even for root.
    fs::remove_file(tree.path("work/a/memory.reclaim")).unwrap();
    fs::create_dir(tree.path("work/a/memory.reclaim")).unwrap();
    let (log, told) = captured(Format::Text);
    let mut daemon = tree.daemon_with(RULE, log, false);
    daemon.tick(seconds(0));
    daemon.tick(seconds(6));
    assert_eq!(daemon.containers().len(), 0);
    let told = told.text();
    assert!(told.contains("work/a: left alone: memory.reclaim: "), "{told}");
}

#[test]
fn without_memory_reclaim_memory_high_is_lowered_and_put_back() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    fs::remove_file(tree.path("work/a/memory.reclaim")).unwrap();
    let mut daemon = tree.guarded_daemon(RULE);
    daemon.tick(seconds(0));
    daemon.tick(seconds(6));
    // What the file says now is what was there; the record reports what was written in between.
    assert_eq!(tree.first_line("work/a/memory.high"), "max");
    let record = fs::read_to_string(tree.record()).unwrap();
    let ours = 400 * MIB - 51 * 4096;
    assert!(record.contains(&format!(" {ours} max ")), "{record}");
    daemon.stop().unwrap();
}

#[test]
fn a_container_whose_files_went_and_came_is_opened_again() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    fs::remove_file(tree.path("work/a/memory.reclaim")).unwrap();
    let mut daemon = tree.guarded_daemon(RULE);
    daemon.tick(seconds(0));
    let first = daemon.containers()[0].id;
    // As with "-memory" in the parent's cgroup.subtree_control: the directory stays.
    fs::rename(tree.path("work/a/memory.current"), tree.path("current")).unwrap();
    for step in 1..4 {
        daemon.tick(seconds(6 * step));
    }
    assert_eq!(daemon.containers().len(), 0);
    fs::rename(tree.path("current"), tree.path("work/a/memory.current")).unwrap();
    for step in 4..8 {
        daemon.tick(seconds(6 * step));
    }
    assert_ne!(daemon.containers()[0].id, first);
    assert!(daemon.status().lock().cgroups[0].requests > 0);
}

/// A container on the classic lists, with a process whose memory is idle.
fn with_accessed_bits() -> Tree {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    tree.write("work/a/cgroup.procs", "7\n");
    for pid in ["self", "1", "7"] {
        tree.write_proc(&format!("{pid}/clear_refs"), "");
    }
    let idle = "Rss: 409600 kB\nPss: 409600 kB\nReferenced: 0 kB\nLocked: 0 kB\n";
    tree.write_proc("7/smaps_rollup", idle);
    tree
}

const AGED: &str = "[daemon]\nreturn_cost = \"27us\"\ntriggers = false\ncall_time = \"1s\"\n\
                    [[rule]]\ncgroups = [\"work/*\"]\nwarm_up = \"0s\"\nmin_age = \"30s\"\n";

#[test]
fn a_measurement_under_way_is_not_requested_again() {
    let tree = with_accessed_bits();
    // Reading it hangs until there is a writer: a process with a lot of memory.
    let slow = tree.path("../proc/7/smaps_rollup");
    fs::remove_file(&slow).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, &slow, kind, mode, 0).unwrap();
    let log = Log::new(Format::Text, Verbosity::All, Box::new(std::io::sink()));
    let setting = Setting { workers: 1, ..tree.setting(log, false) };
    let mut daemon = Daemon::new(tree.config(AGED), setting, Leases::default()).unwrap();
    daemon.tick(seconds(0));
    // The thread marks meanwhile.
    while fs::read_to_string(tree.path("../proc/7/clear_refs")).unwrap() != "1" {
        std::thread::sleep(Duration::from_millis(1));
    }
    let most = (1..20).map(|step| {
        daemon.tick(seconds(6 * step));
        daemon.containers()[0].jobs
    });
    let most = most.max();
    drop(fs::OpenOptions::new().read(true).write(true).open(&slow).unwrap());
    assert_eq!(most, Some(1));
}

#[test]
fn idle_memory_of_a_process_that_has_ended_is_not_requested() {
    let tree = with_accessed_bits();
    let mut daemon = tree.daemon(AGED);
    let mut step = 0;
    let mut periods = |daemon: &mut Daemon, count: u64| {
        for _ in 0..count {
            daemon.tick(seconds(6 * step));
            step += 1;
        }
    };
    periods(&mut daemon, 12);
    assert!(tree.asked("work/a").is_some(), "idle for 30 s");
    // The service is restarted: another process, all of whose memory is in use.
    fs::remove_dir_all(tree.path("../proc/7")).unwrap();
    tree.write("work/a/cgroup.procs", "8\n");
    tree.write_proc("8/clear_refs", "");
    tree.write_proc("8/smaps_rollup", "Rss: 409600 kB\nReferenced: 409600 kB\n");
    tree.forget("work/a");
    periods(&mut daemon, 20);
    assert_eq!(tree.asked("work/a"), None);
}

#[test]
fn a_process_whose_bits_were_not_cleared_is_not_measured() {
    let tree = with_accessed_bits();
    let mut daemon = tree.daemon(AGED);
    daemon.tick(seconds(0));
    // A child of it, whose page tables begin without accessed bits.
    tree.write("work/a/cgroup.procs", "8\n");
    tree.write_proc("8/clear_refs", "");
    tree.write_proc("8/smaps_rollup", "Rss: 409600 kB\nReferenced: 0 kB\n");
    for step in 1..8 {
        daemon.tick(seconds(6 * step));
    }
    assert_eq!(tree.asked("work/a"), None);
}

#[test]
fn a_container_that_compresses_badly_is_sent_to_the_device_until_the_end() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    tree.stat("work/a", 400 * MIB, &format!("zswap {}\nzswapped {}\n", 90 * MIB, 100 * MIB));
    tree.write("work/a/memory.swap.current", &(100 * MIB).to_string());
    let mut daemon = tree.guarded_daemon(RULE);
    daemon.tick(seconds(0));
    daemon.tick(seconds(6));
    assert_eq!(tree.first_line("work/a/memory.zswap.max"), "0");
    tree.write("work/a/memory.zswap.max", "0\n");
    daemon.stop().unwrap();
    assert_eq!(tree.first_line("work/a/memory.zswap.max"), "max");
}

#[test]
fn a_back_end_that_another_program_has_reset_is_chosen_again() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    let writeback = "work/a/memory.zswap.writeback";
    tree.write(writeback, "1\n");
    let mut daemon = tree.guarded_daemon(&format!("{RULE}backend = \"zswap\"\n"));
    daemon.tick(seconds(0));
    daemon.tick(seconds(6));
    assert_eq!(tree.first_line(writeback), "0");
    tree.write(writeback, "1\n");
    for step in 2..25 {
        daemon.tick(seconds(6 * step));
    }
    assert_eq!(tree.first_line(writeback), "0", "limits are read every two minutes");
    daemon.stop().unwrap();
    assert_eq!(tree.first_line(writeback), "1");
}

#[test]
fn a_limit_on_swap_that_another_program_sets_meanwhile_is_kept() {
    let tree = offloaded();
    let mut daemon = tree.guarded_daemon(RULE);
    daemon.tick(seconds(0));
    write_refaults(&tree, 5_000);
    daemon.tick(seconds(6));
    assert_eq!(tree.first_line("work/a/memory.swap.max"), (250 * MIB + MIB / 16).to_string());
    let theirs = (100 * MIB).to_string();
    tree.write("work/a/memory.swap.max", &format!("{theirs}\n"));
    tree.write("work/a/memory.swap.current", &(90 * MIB).to_string());
    write_refaults(&tree, 10_000);
    daemon.tick(seconds(12));
    assert_eq!(tree.first_line("work/a/memory.swap.max"), theirs, "112 MiB would be more");
    tree.write("work/a/memory.swap.current", &(40 * MIB).to_string());
    write_refaults(&tree, 15_000);
    daemon.tick(seconds(18));
    let lower = 50 * MIB + MIB / 16;
    assert_eq!(tree.first_line("work/a/memory.swap.max"), lower.to_string());
    tree.write("work/a/memory.swap.max", &format!("{lower}\n"));
    daemon.tick(seconds(24));
    assert_eq!(tree.first_line("work/a/memory.swap.max"), theirs);
}

#[test]
fn old_pages_of_a_pool_move_on_where_kernels_can() {
    let limit_of = |can: bool| {
        let tree = Tree::new();
        tree.cgroup("work/a", 400 * MIB);
        if can {
            tree.write("work/a/memory.zswap.writeback", "1\n");
        }
        tree.write("work/a/memory.swap.current", &(200 * MIB).to_string());
        let (zswap, zswapped) = (100 * MIB, 200 * MIB);
        let stat = format!("zswap {zswap}\nzswapped {zswapped}\nzswpout {}\n", 200 << 8);
        tree.stat("work/a", 400 * MIB, &stat);
        let mut daemon = tree.guarded_daemon(&format!("{RULE}backend = \"tiers\"\n"));
        for minute in 0..15 {
            daemon.tick(seconds(60 * minute));
            assert_eq!(tree.first_line("work/a/memory.zswap.max"), "max", "{minute}");
        }
        for minute in 15..20 {
            daemon.tick(seconds(60 * minute));
        }
        let backend = daemon.status().lock().cgroups[0].backend.clone();
        assert_eq!(backend, "tiers");
        let limit = tree.first_line("work/a/memory.zswap.max");
        tree.write("work/a/memory.zswap.max", &format!("{limit}\n"));
        daemon.stop().unwrap();
        assert_eq!(tree.first_line("work/a/memory.zswap.max"), "max", "restored");
        limit
    };
    assert_eq!(limit_of(true), (8 * MIB).to_string(), "nothing was stored for 15 minutes");
    assert_eq!(limit_of(false), "max", "kernels before 6.8");
}

/// 200 MiB of swap, of which 50 MiB are back in memory, after `pages` refaults.
fn write_refaults(tree: &Tree, pages: u64) {
    let more = format!(
        "swapcached {}\nzswapped {}\nworkingset_refault_anon {pages}\n",
        50 * MIB,
        200 * MIB
    );
    tree.stat("work/a", 400 * MIB, &more);
}

/// A container that has offloaded 200 MiB.
fn offloaded() -> Tree {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    tree.write("work/a/memory.swap.current", &(200 * MIB).to_string());
    tree
}

#[test]
fn kernels_that_drop_copies_need_no_limit() {
    let tree = offloaded();
    tree.write_proc("sys/kernel/osrelease", "6.12.95\n");
    let mut daemon = tree.guarded_daemon(RULE);
    daemon.tick(seconds(0));
    for period in 1..5 {
        write_refaults(&tree, 5_000 * period);
        daemon.tick(seconds(6 * period));
        assert_eq!(tree.first_line("work/a/memory.swap.max"), "max", "period {period}");
    }
}

#[test]
fn slots_of_what_is_back_are_given_up_while_it_comes_back() {
    let tree = offloaded();
    let mut daemon = tree.guarded_daemon(RULE);
    daemon.tick(seconds(0));
    let back = |pages| write_refaults(&tree, pages);
    back(5_000);
    daemon.tick(seconds(6));
    let limit = 250 * MIB + MIB / 16;
    assert_eq!(tree.first_line("work/a/memory.swap.max"), limit.to_string());
    tree.write("work/a/memory.swap.max", &format!("{limit}\n"));
    tree.write("work/a/memory.swap.current", &(100 * MIB).to_string());
    back(10_000);
    daemon.tick(seconds(12));
    let limit = 125 * MIB + MIB / 16;
    assert_eq!(tree.first_line("work/a/memory.swap.max"), limit.to_string());
    tree.write("work/a/memory.swap.max", &format!("{limit}\n"));
    daemon.tick(seconds(18));
    assert_eq!(tree.first_line("work/a/memory.swap.max"), "max", "nothing came back any more");
}

#[test]
fn refaults_of_files_do_not_prolong_a_limit_on_swap() {
    let tree = offloaded();
    let mut daemon = tree.guarded_daemon(RULE);
    daemon.tick(seconds(0));
    write_refaults(&tree, 5_000);
    daemon.tick(seconds(6));
    assert_ne!(tree.first_line("work/a/memory.swap.max"), "max");
    let limit = tree.first_line("work/a/memory.swap.max");
    tree.write("work/a/memory.swap.max", &format!("{limit}\n"));
    let more = "swapcached 52428800\nzswapped 209715200\nworkingset_refault_anon 5000\n\
                workingset_refault_file 9000\npgmajfault 9000\n";
    tree.stat("work/a", 400 * MIB, more);
    daemon.tick(seconds(12));
    assert_eq!(tree.first_line("work/a/memory.swap.max"), "max");
}

#[test]
fn a_limit_on_swap_leaves_room_for_what_is_written_next() {
    let tree = offloaded();
    let mut daemon = tree.guarded_daemon(RULE);
    daemon.tick(seconds(0));
    write_refaults(&tree, 5_000);
    tree.write("work/a/memory.swap.current", "4096\n");
    daemon.tick(seconds(6));
    assert_eq!(tree.first_line("work/a/memory.swap.max"), (2 * MIB).to_string());
}

#[test]
fn what_comes_back_between_two_periods_is_seen_at_once() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    tree.cgroup("work/b", 400 * MIB);
    for name in ["a", "b"] {
        tree.write(&format!("work/{name}/memory.swap.current"), &(200 * MIB).to_string());
    }
    let cached = |mib: u64| {
        tree.write_proc(
            "meminfo",
            &format!("MemTotal: 4096000 kB\nSwapCached: {} kB\n", mib << 10),
        );
    };
    let limits = || ["a", "b"].map(|name| tree.first_line(&format!("work/{name}/memory.swap.max")));
    let max = || "max".to_owned();
    cached(10);
    let mut daemon =
        tree.guarded_daemon(&RULE.replacen("[daemon]", "[daemon]\ndiscover = \"60s\"", 1));
    daemon.tick(seconds(0));
    // The groups of containers begin at different times.
    daemon.tick(seconds(1));
    let ms = |ms: u64| Duration::from_millis(1_000 + ms);
    let back = |name: &str, mib: u64| {
        let (kept, pages) = (mib * MIB, mib * 256);
        let more =
            format!("swapcached {kept}\nzswapped {}\nworkingset_refault_anon {pages}\n", 200 * MIB);
        tree.stat(&format!("work/{name}"), (400 + mib) * MIB, &more);
        tree.write(&format!("work/{name}/memory.current"), &((400 + mib) * MIB).to_string());
    };
    assert_eq!(daemon.tick(ms(10)), ms(250), "while something is offloaded");
    back("a", 2);
    assert_eq!(daemon.tick(ms(250)), ms(500));
    assert_eq!(limits(), [max(), max()], "the host's figure stands still");
    cached(12);
    daemon.tick(ms(500));
    let limit = 250 * MIB + MIB / 16;
    assert_eq!(limits(), [limit.to_string(), max()]);
    // It is followed, though the figure stands still now that slots are freed.
    tree.write("work/a/memory.swap.max", &format!("{limit}\n"));
    tree.write("work/a/memory.swap.current", &(100 * MIB).to_string());
    daemon.tick(ms(750));
    let limit = 125 * MIB + MIB / 16;
    assert_eq!(limits(), [limit.to_string(), max()]);
    tree.write("work/a/memory.swap.max", &format!("{limit}\n"));
    daemon.stop().unwrap();
    assert_eq!(limits(), [max(), max()]);
}

#[test]
fn an_alarm_takes_the_place_of_looking_again_and_again() {
    let tree = Tree::new();
    for name in ["work/a", "work/b"] {
        tree.cgroup(name, 400 * MIB);
        tree.write(&format!("{name}/memory.swap.current"), &(200 * MIB).to_string());
    }
    let sys = tree.path("../sys");
    std::fs::create_dir_all(sys.join("devices/system/cpu")).unwrap();
    std::fs::write(sys.join("devices/system/cpu/online"), "0\n").unwrap();
    let Ok(alarm) = FaultAlarm::open(&sys) else {
        prairie_testing::skip("perf events are not allowed here");
        return;
    };
    let log = Log::new(Format::Text, Verbosity::All, Box::new(std::io::sink()));
    let setting = Setting { alarm: Some(alarm), ..tree.setting(log, false) };
    let leases = Leases::guarded(Path::new("cat"), &[], &tree.record()).unwrap();
    let config = RULE.replacen("[daemon]", "[daemon]\ndiscover = \"60s\"", 1);
    let mut daemon = Daemon::new(tree.config(&config), setting, leases).unwrap();
    let limits = || ["a", "b"].map(|name| tree.first_line(&format!("work/{name}/memory.swap.max")));
    let max = || "max".to_owned();
    daemon.tick(seconds(0));
    daemon.tick(seconds(1));
    let ms = |ms: u64| Duration::from_millis(1_000 + ms);
    assert_eq!(daemon.tick(ms(10)), seconds(6), "nothing to look at before the period ends");
    // An alarm for nothing is followed by a pause, a second one soon after by a longer one.
    daemon.faults();
    assert_eq!(daemon.tick(ms(20)), ms(50));
    assert_eq!(daemon.tick(ms(50)), seconds(6));
    daemon.faults();
    assert_eq!(daemon.tick(ms(60)), ms(120));
    let more = format!("swapcached {MIB}\nzswapped {}\nworkingset_refault_anon 256\n", 200 * MIB);
    tree.stat("work/a", 401 * MIB, &more);
    tree.write("work/a/memory.current", &(401 * MIB).to_string());
    assert_eq!(daemon.tick(ms(120)), seconds(6));
    assert_eq!(limits(), [max(), max()], "nobody told");
    daemon.faults();
    let limit = 250 * MIB + MIB / 16;
    assert_eq!(daemon.tick(ms(130)), ms(380), "then it is followed");
    assert_eq!(limits(), [limit.to_string(), max()]);
    tree.write("work/a/memory.swap.max", &format!("{limit}\n"));
    tree.write("work/a/memory.swap.current", &(100 * MIB).to_string());
    daemon.tick(ms(380));
    let limit = 125 * MIB + MIB / 16;
    assert_eq!(limits(), [limit.to_string(), max()]);
    daemon.stop().unwrap();
}

#[test]
fn a_new_configuration_takes_hold_and_lets_go() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    tree.cgroup("batch/b", 400 * MIB);
    let mut daemon = tree.daemon(RULE);
    daemon.tick(seconds(0));
    assert_eq!(daemon.containers()[0].cgroup.path, "work/a");
    daemon.reload(tree.config(&RULE.replace("work/*", "batch/*")));
    daemon.tick(seconds(1));
    assert_eq!(daemon.containers().len(), 1);
    assert_eq!(daemon.containers()[0].cgroup.path, "batch/b");
    daemon.stop().unwrap();
}

#[test]
fn hundreds_of_cgroups_are_spread_over_the_period() {
    let tree = Tree::new();
    for at in 0..240 {
        tree.cgroup(&format!("work/c{at}"), 400 * MIB);
    }
    let mut daemon = tree.daemon(RULE);
    let mut now = Duration::from_secs(1);
    let mut wakes = 0;
    while now < seconds(61) {
        now = daemon.tick(now).max(now + Duration::from_millis(10));
        wakes += 1;
    }
    assert!((0..240).all(|at| tree.asked(&format!("work/c{at}")).is_some()));
    assert!(wakes <= 10 * 8 + 12, "{wakes} wakes in ten periods");
}

#[test]
fn a_rule_without_matches_is_reported() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    let (log, told) = captured(Format::Text);
    let two = format!("{RULE}[[rule]]\ncgroups = [\"work/a\", \"nowhere/*\"]\n");
    let mut daemon = tree.daemon_with(&two, log, false);
    daemon.tick(seconds(0));
    daemon.tick(seconds(10));
    let told = told.text();
    assert!(told.contains("rule 2: no cgroup matches \"nowhere/*\""), "{told}");
    assert!(told.contains("work/a: rule 1 wins over rule 2"), "{told}");
    assert_eq!(told.matches("wins over").count(), 1, "{told}");
}

#[test]
fn every_line_of_a_json_log_is_json() {
    let tree = Tree::new();
    tree.cgroup("work/a", 400 * MIB);
    let (log, told) = captured(Format::Json);
    let mut daemon = tree.daemon_with(RULE, log, false);
    for step in 0..4 {
        daemon.tick(seconds(6 * step));
    }
    let text = told.text();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let decided = lines.iter().find(|line| line["decision"]["reclaim"]["bytes"] == 51 * 4096);
    assert!(decided.is_some(), "{text}");
}

/// A container's control files, and what may stand in any of them.
fn garbage() -> impl Strategy<Value = (usize, String)> {
    let texts = prop_oneof![
        "\\PC{0,80}",
        "[0-9a-z =.\n-]{0,200}",
        Just("18446744073709551615\n".to_owned()),
        Just("max\n".to_owned()),
        Just("-1\n".to_owned()),
        Just("some avg10=0.00 avg60=0.00 avg300=0.00 total=18446744073709551615\n".to_owned()),
        Just("anon 18446744073709551615\npgsteal 18446744073709551615\nzswpin 1\n".to_owned()),
    ];
    (any::<usize>(), texts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any contents of any file: no panic, no write elsewhere, and the other container is
    /// served.
    #[test]
    fn garbage_in_every_file(damages in prop::collection::vec(garbage(), 1..12), vanish in any::<bool>()) {
        let tree = Tree::new();
        tree.cgroup("work/damaged", 400 * MIB);
        tree.cgroup("work/whole", 400 * MIB);
        tree.cgroup("other/c", 400 * MIB);
        let before = tree.snapshot();
        let mut daemon = tree.daemon(RULE);
        daemon.tick(seconds(0));
        let mut now = 0;
        for (which, text) in damages {
            let names = tree::FILES;
            let name = names[which % names.len()];
            tree.write(&format!("work/damaged/{name}"), &text);
            if vanish {
                let _ = fs::remove_file(tree.path("work/damaged").join(name));
            }
            now += 6;
            daemon.tick(seconds(now));
            now += 6;
            daemon.tick(seconds(now));
        }
        prop_assert!(tree.asked("work/whole").is_some());
        daemon.stop().unwrap();
        let changed = tree.changed_since(&before);
        prop_assert!(changed.iter().all(|path| path.starts_with("work/damaged/") || path == "work/whole/memory.reclaim"), "{changed:?}");
    }

    /// The same for the host's files.
    #[test]
    fn garbage_in_the_hosts_files(damages in prop::collection::vec(garbage(), 1..6)) {
        let tree = Tree::new();
        tree.cgroup("work/a", 400 * MIB);
        let mut daemon = tree.daemon(RULE);
        daemon.tick(seconds(0));
        for (at, (which, text)) in damages.into_iter().enumerate() {
            tree.write_proc(["swaps", "meminfo", "vmstat"][which % 3], &text);
            daemon.tick(seconds(6 * (at as u64 + 1)));
        }
        daemon.stop().unwrap();
    }
}
