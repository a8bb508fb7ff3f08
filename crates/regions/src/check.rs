//! Whether a host qualifies, what could be gained, and what is in the way. Writes nothing.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use prairie_daemon::finding::{Finding, Verdict, is_ready};
use prairie_host::Roots;
use serde::Serialize;

use crate::choice::{self, Block, Obstacle, Place};
use crate::host::Host;
use crate::sample::page_bytes;

/// A block that cannot change sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stuck {
    /// The block.
    #[serde(flatten)]
    pub block: Block,
    /// What keeps it.
    pub obstacle: Obstacle,
    /// In words.
    pub why: String,
    /// What to do about it.
    pub remedy: &'static str,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Nothing is missing.
    pub qualifies: bool,
    /// Things that matter.
    pub findings: Vec<Finding>,
    /// What could be gained.
    pub gain: Gain,
    /// Blocks that cannot change sides.
    pub stuck: Vec<Stuck>,
}

/// What confinement could do on this host, in bytes and blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gain {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// All blocks.
    pub blocks: u64,
    /// Blocks that are movable already.
    pub movable: u64,
    /// Blocks of the kernel zones that could become movable now.
    pub could_move: u64,
    /// Kernel memory outside of reserved frames.
    pub unmovable_bytes: u64,
    /// Blocks that hold any of it.
    pub polluted_blocks: u64,
    /// Blocks that would hold all of it, packed.
    pub packed_blocks: u64,
}

/// Looks at everything.
///
/// # Errors
/// I/O errors of files that every Linux has.
pub fn check(roots: &Roots) -> io::Result<Report> {
    let mut findings = Vec::new();
    let folder = roots.sys.join("devices/system/memory");
    if !folder.join("block_size_bytes").exists() {
        let remedy = "use a kernel with CONFIG_MEMORY_HOTPLUG and CONFIG_MEMORY_HOTREMOVE";
        let found = format!("{}: no memory blocks", folder.display());
        findings.push(Finding::new("hotplug", Verdict::Missing, found, remedy));
        return Ok(Report { qualifies: false, findings, gain: Gain::default(), stuck: Vec::new() });
    }
    let mut host = Host::open(roots)?;
    let mut blocks = host.blocks(&[])?;
    for block in &mut blocks {
        host.scan(block, Duration::ZERO);
    }
    findings.push(size(host.block_frames, blocks.len() as u64));
    findings.push(flags(&host));
    findings.push(writable(&folder, &blocks));
    findings.push(zones(&folder, &blocks));
    findings.push(onliner(&folder));
    findings.extend(udev());
    findings.push(kdump(roots, &folder));
    findings.extend(devices(roots));
    findings.push(pressure(roots));
    findings.extend(hugetlb(&blocks));
    findings.extend(swap(roots));
    findings.extend(offline(&blocks));
    let (gain, stuck) = (gain(&blocks, host.block_frames), stuck(&blocks));
    if gain.could_move + gain.movable == 0 && host.has_flags() {
        let remedy = "start the daemon early after boot; `prairie survey` shows what is in the way";
        let found = "no block could become movable now";
        findings.push(Finding::new("gain", Verdict::Missing, found, remedy));
    }
    let qualifies = is_ready(&findings);
    Ok(Report { qualifies, findings, gain, stuck })
}

/// What a daemon warns of at its start: others who act on the same blocks, or on each change. Reads
/// no block.
pub fn warnings(roots: &Roots) -> Vec<Finding> {
    let folder = roots.sys.join("devices/system/memory");
    let mut findings = vec![kdump(roots, &folder), pressure(roots)];
    findings.extend(udev());
    findings.extend(devices(roots));
    findings.retain(|finding| finding.verdict == Verdict::Warning);
    findings
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn size(block_frames: u64, count: u64) -> Finding {
    let mib = block_frames / 256;
    let found = format!("{count} blocks of {mib} MiB");
    let about = "block size";
    match mib {
        ..=256 => Finding::new(about, Verdict::Good, found, ""),
        _ => Finding::new(
            about,
            Verdict::Warning,
            found,
            "blocks grow with memory: growth takes longer and one unmovable page holds a whole \
             block; set ready_blocks = 1 and expect little shrinking",
        ),
    }
}

fn flags(host: &Host) -> Finding {
    match host.has_flags() {
        true => Finding::new("page flags", Verdict::Good, "kpageflags can be read", ""),
        false => Finding::new(
            "page flags",
            Verdict::Missing,
            "kpageflags cannot be read",
            "needs root and a kernel with CONFIG_PROC_PAGE_MONITOR; without it hugetlb pages do \
             not show, and emptying them never ends",
        ),
    }
}

fn writable(folder: &Path, blocks: &[Block]) -> Finding {
    let about = "permission";
    let first = blocks.first().map(|block| folder.join(format!("memory{}/state", block.number)));
    let opened = first.map(|path| fs::OpenOptions::new().write(true).open(path));
    match opened {
        Some(Ok(_)) => Finding::new(about, Verdict::Good, "memory blocks can be written", ""),
        Some(Err(error)) => Finding::new(
            about,
            Verdict::Missing,
            format!("memory blocks cannot be written: {error}"),
            "needs root on the host, /sys mounted rw, and CONFIG_MEMORY_HOTREMOVE",
        ),
        None => Finding::new(about, Verdict::Missing, "no memory blocks", ""),
    }
}

fn zones(folder: &Path, blocks: &[Block]) -> Finding {
    let about = "zones";
    let named = blocks
        .iter()
        .any(|block| folder.join(format!("memory{}/valid_zones", block.number)).exists());
    match named {
        true => Finding::new(about, Verdict::Good, "valid_zones is there", ""),
        false => Finding::new(
            about,
            Verdict::Missing,
            "no valid_zones",
            "use a kernel with CONFIG_MEMORY_HOTREMOVE, 4.14 or later",
        ),
    }
}

fn onliner(folder: &Path) -> Finding {
    let about = "onliner";
    match read(&folder.join("auto_online_blocks")).as_deref() {
        Some("offline") => {
            Finding::new(about, Verdict::Good, "the kernel onlines no new memory", "")
        }
        Some(policy) => Finding::new(
            about,
            Verdict::Note,
            format!("the kernel onlines new memory by itself ({policy})"),
            "fine for memory that is there; for memory added later write online_movable into \
             auto_online_blocks",
        ),
        None => Finding::new(about, Verdict::Note, "no auto_online_blocks", ""),
    }
}

/// udev rules that put memory online.
fn udev() -> Option<Finding> {
    let folders =
        ["/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let competes = |path: &Path| {
        read(path).is_some_and(|text| {
            text.lines().filter(|line| !line.trim_start().starts_with('#')).any(|line| {
                line.contains("SUBSYSTEM==\"memory\"") && line.contains("ATTR{state}=\"online")
            })
        })
    };
    let found = entries.flatten().map(|entry| entry.path()).find(|path| competes(path))?;
    Some(Finding::new(
        "onliner",
        Verdict::Warning,
        format!("{} puts memory blocks online", found.display()),
        "override the rule with an empty file of its name in /etc/udev/rules.d: it acts between \
         offline and online",
    ))
}

fn kdump(roots: &Roots, folder: &Path) -> Finding {
    let about = "kdump";
    let loaded = read(&roots.sys.join("kernel/kexec_crash_loaded")).as_deref() == Some("1");
    match (loaded, read(&folder.join("crash_hotplug")).as_deref()) {
        (false, _) => Finding::new(about, Verdict::Good, "no crash kernel is loaded", ""),
        (true, Some("1")) => {
            Finding::new(about, Verdict::Good, "the kernel updates the crash kernel itself", "")
        }
        (true, _) => Finding::new(
            about,
            Verdict::Warning,
            "udev reloads the crash kernel at each conversion",
            "lower operations_per_hour, or use a kernel with crash_hotplug (6.6 or later)",
        ),
    }
}

fn devices(roots: &Roots) -> Vec<Finding> {
    let has = |driver: &str| {
        let folder = roots.sys.join("bus/virtio/drivers").join(driver);
        fs::read_dir(folder).is_ok_and(|entries| {
            entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with("virtio"))
        })
    };
    let mut findings = Vec::new();
    if has("virtio_mem") {
        findings.push(Finding::new(
            "virtio-mem",
            Verdict::Warning,
            "the hypervisor plugs memory through virtio-mem",
            "its driver changes the same blocks: set its memory online_movable and leave its node \
             out with daemon.nodes",
        ));
    }
    if has("virtio_balloon") {
        findings.push(Finding::new(
            "balloon",
            Verdict::Note,
            "a balloon device is there; ballooned blocks are left alone",
            "",
        ));
    }
    findings
}

fn pressure(roots: &Roots) -> Finding {
    match roots.proc.join("pressure/memory").exists() {
        true => Finding::new("pressure", Verdict::Good, "PSI is on", ""),
        false => Finding::new(
            "pressure",
            Verdict::Warning,
            "no PSI: nothing brakes the daemon under pressure",
            "boot with psi=1 (CONFIG_PSI)",
        ),
    }
}

fn hugetlb(blocks: &[Block]) -> Option<Finding> {
    let holds = |block: &&Block| block.occupancy.is_some_and(|found| found.hugetlb > 0);
    let count = blocks.iter().filter(holds).count();
    (count > 0).then(|| {
        Finding::new(
            "hugetlb",
            Verdict::Note,
            format!("{count} blocks hold hugetlb pages and are left alone"),
            "free the pool before the start, and take pages again afterwards",
        )
    })
}

fn swap(roots: &Roots) -> Option<Finding> {
    let text = read(&roots.proc.join("swaps"))?;
    (text.lines().count() <= 1).then(|| {
        Finding::new(
            "swap",
            Verdict::Note,
            "no swap: what does not fit elsewhere cannot be moved",
            "",
        )
    })
}

fn offline(blocks: &[Block]) -> Option<Finding> {
    let count = blocks.iter().filter(|block| block.place == Place::Offline).count();
    (count > 0).then(|| {
        Finding::new(
            "offline",
            Verdict::Warning,
            format!("{count} blocks are offline: lost memory"),
            "the daemon brings them online at its start",
        )
    })
}

fn gain(blocks: &[Block], block_frames: u64) -> Gain {
    let mut gain = Gain {
        block_bytes: block_frames * page_bytes(),
        blocks: blocks.len() as u64,
        ..Gain::default()
    };
    let mut frames = 0;
    for block in blocks {
        let movable = block.place == Place::Movable;
        let free_to_move = block.place == Place::Kernel && choice::obstacle(block).is_none();
        gain.movable += u64::from(movable);
        gain.could_move += u64::from(free_to_move);
        if let Some(found) = block.occupancy {
            let kernel = found.unmovable + found.unflagged;
            frames += kernel;
            gain.polluted_blocks += u64::from(kernel > choice::UNFLAGGED_SLACK);
        }
    }
    gain.unmovable_bytes = frames * page_bytes();
    gain.packed_blocks = frames.div_ceil(block_frames);
    gain
}

fn stuck(blocks: &[Block]) -> Vec<Stuck> {
    let of = |block: &Block| {
        let obstacle = choice::obstacle(block).filter(|_| block.place != Place::Offline)?;
        let (why, remedy) = (obstacle.to_string(), obstacle.remedy());
        Some(Stuck { block: *block, obstacle, why, remedy })
    };
    blocks.iter().filter_map(of).collect()
}
