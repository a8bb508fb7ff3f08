//! Whether a host is ready for offloading: a line for each thing that matters, with its remedy.

pub mod oomd;

use std::fs;
use std::path::Path;

use prairie_daemon::finding::{Finding, Verdict};
use prairie_host::cgroup::{mounts, swaps};
use prairie_host::remedy;
use prairie_host::texts::setting;

use crate::ageing::Means;
use crate::config::Config;
use crate::kubernetes::Match;
use crate::world::discover::walk;
use crate::world::pods;
use crate::world::probe::{Host, is_writable};

/// Samples everything; with a configuration at its cgroups, too. Nothing is written: control
/// files are opened for writing and closed again.
pub fn check(host: &Host, config: Option<&Config>) -> Vec<Finding> {
    let mut findings = vec![cgroup_v2(host), psi(host)];
    findings.extend(swap(host));
    findings.extend(zswap(host));
    findings.push(age(host));
    findings.extend(reads(host));
    findings.extend(oomd::running(host));
    if let Some(config) = config {
        findings.extend(cgroups(host, config));
        if findings.iter().any(|finding| finding.about == oomd::ABOUT) {
            findings.extend(oomd::ancestors(host, config, &oomd::dump()));
        }
    }
    findings
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn cgroup_v2(host: &Host) -> Finding {
    let about = "cgroup v2";
    let root = &host.paths.cgroup;
    if !root.join("cgroup.controllers").exists() {
        let remedy = "boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2";
        return Finding::new(about, Verdict::Missing, "not mounted", remedy);
    }
    if !host.has_memory_controller {
        let remedy = "boot with cgroup_no_v1=memory: version 1 holds the memory controller";
        let found = format!("{}: without the memory controller", root.display());
        return Finding::new(about, Verdict::Missing, found, remedy);
    }
    let mountinfo = read(&host.paths.proc.join("self/mountinfo")).unwrap_or_default();
    if mounts::find(&mountinfo, "cgroup2").is_some_and(|mount| mount.read_only) {
        let remedy = "run on the host, or mount it rw into the container";
        return Finding::new(about, Verdict::Missing, "mounted read-only", remedy);
    }
    Finding::new(about, Verdict::Good, format!("{} with the memory controller", root.display()), "")
}

fn psi(host: &Host) -> Finding {
    match host.has_psi {
        true => Finding::new("pressure", Verdict::Good, "PSI is on", ""),
        false => {
            Finding::new("pressure", Verdict::Missing, "no PSI", "boot with psi=1 (CONFIG_PSI)")
        }
    }
}

fn swap(host: &Host) -> Vec<Finding> {
    let about = "swap";
    let text = read(&host.paths.proc.join("swaps")).unwrap_or_default();
    let swaps = match swaps::parse(&text) {
        Ok(swaps) => swaps,
        Err(error) => return vec![Finding::new(about, Verdict::Warning, error.to_string(), "")],
    };
    if swaps.is_empty() {
        let remedy = "add swap (swapon), or zram: without it only page cache is reclaimed";
        return vec![Finding::new(about, Verdict::Warning, "none", remedy)];
    }
    let mut findings = Vec::new();
    for swap in &swaps {
        let mib = swap.size_bytes >> 20;
        let free = swap.size_bytes.saturating_sub(swap.used_bytes);
        let (verdict, remedy) = match free.saturating_mul(10) < swap.size_bytes {
            true => (Verdict::Warning, "add swap: reclaim stops while swap is nearly full"),
            false => (Verdict::Good, ""),
        };
        let found = format!("{}: {mib} MiB, {} MiB free", swap.path, free >> 20);
        findings.push(Finding::new(about, verdict, found, remedy));
        findings.extend(huge_pages(host, swap));
    }
    findings
}

/// Huge pages bypass zswap up to 6.12: they go to a non-rotational device in whole, and refault
/// page by page.
fn huge_pages(host: &Host, swap: &swaps::Swap) -> Option<Finding> {
    let name = swap.path.rsplit('/').next()?;
    let block = host.paths.sys.join("class/block").join(name);
    let rotational = read(&block.join("queue/rotational"))
        .or_else(|| read(&block.join("../queue/rotational")))?;
    let thp = read(&host.paths.sys.join("kernel/mm/transparent_hugepage/enabled"))?;
    let thp = setting::parse("enabled", &thp).ok()?;
    let zswap = read(&host.paths.sys.join("module/zswap/parameters/enabled"))?;
    if thp.value() != "always" || zswap != "Y" || rotational != "0" {
        return None;
    }
    let vmstat = read(&host.paths.proc.join("vmstat")).unwrap_or_default();
    let whole = vmstat.lines().find_map(|line| line.strip_prefix("thp_swpout "));
    let found = format!(
        "{}: huge pages may bypass zswap, unsplit (thp_swpout {})",
        swap.path,
        whole.unwrap_or("unknown")
    );
    let remedy =
        "echo 1 > /sys/block/DEVICE/queue/rotational has them split first (kernels to 6.12)";
    Some(Finding::new("huge pages", Verdict::Warning, found, remedy))
}

fn zswap(host: &Host) -> Vec<Finding> {
    let about = "zswap";
    let parameter = |name: &str| read(&host.paths.sys.join("module/zswap/parameters").join(name));
    match parameter("enabled").as_deref() {
        Some("Y") => {}
        Some(_) => {
            let remedy =
                "echo 1 > /sys/module/zswap/parameters/enabled, if CPU is cheaper than IO here";
            return vec![Finding::new(
                about,
                Verdict::Note,
                "off: pages are written to the device",
                remedy,
            )];
        }
        None => return vec![Finding::new(about, Verdict::Note, "not in this kernel", "")],
    }
    let pool = parameter("zpool").unwrap_or_else(|| "zsmalloc".to_owned());
    let compressor = parameter("compressor").unwrap_or_default();
    let found = format!("on, {compressor} in {pool}");
    let first = match pool.as_str() {
        "zbud" => Finding::new(
            about,
            Verdict::Warning,
            format!("{found}: at most two pages in a page, often without gain"),
            "echo zsmalloc > /sys/module/zswap/parameters/zpool",
        ),
        _ => Finding::new(about, Verdict::Good, found, ""),
    };
    let mut findings = vec![first];
    let counters = host.paths.debugfs.join("zswap");
    for name in
        ["reject_compress_fail", "reject_compress_poor", "reject_alloc_fail", "pool_limit_hit"]
    {
        let count = read(&counters.join(name)).and_then(|text| text.parse::<u64>().ok());
        if let Some(count) = count.filter(|count| *count > 0) {
            let found = format!("{name} {count}");
            let remedy = "for pages that compress badly, set backend = \"device\"";
            findings.push(Finding::new(about, Verdict::Note, found, remedy));
        }
    }
    findings
}

fn age(host: &Host) -> Finding {
    let about = "age";
    match host.means() {
        Means::Generations => {
            Finding::new(about, Verdict::Good, "by MGLRU's generations (lru_gen in debugfs)", "")
        }
        Means::AccessedBits => {
            Finding::new(about, Verdict::Good, "by accessed bits (clear_refs, smaps_rollup)", "")
        }
        Means::None if host.mglru => Finding::new(
            about,
            Verdict::Warning,
            "unknown: MGLRU is on, lru_gen cannot be written",
            "as root, mount -t debugfs none /sys/kernel/debug; kernel lockdown forbids it for good",
        ),
        Means::None => {
            let remedy = remedy::by_user(
                "run as root, on a kernel with CONFIG_PROC_PAGE_MONITOR",
                "run on a kernel with CONFIG_PROC_PAGE_MONITOR",
            );
            Finding::new(
                about,
                Verdict::Warning,
                "unknown: the first requests may reclaim memory in use",
                remedy,
            )
        }
    }
}

/// MGLRU ages pages by accesses through page tables; the classic lists notice reads, too.
fn reads(host: &Host) -> Option<Finding> {
    let found = "unseen: with MGLRU, a file that is read without being mapped looks idle";
    let remedy = "where Web servers and the like read many files, \
        echo n > /sys/kernel/mm/lru_gen/enabled: the classic lists keep files that are read twice";
    host.mglru.then(|| Finding::new("file reads", Verdict::Note, found, remedy))
}

fn cgroups(host: &Host, config: &Config) -> Vec<Finding> {
    let about = "cgroups";
    let mut findings = Vec::new();
    let (pods, trouble) = match config.needs_pods() {
        true => pods::read(&config.kubernetes),
        false => Default::default(),
    };
    if let Some(trouble) = trouble {
        let remedy = "pods in [kubernetes] names a file of pod UIDs with their labels";
        findings.push(Finding::new("kubernetes", Verdict::Warning, trouble, remedy));
    }
    let (named, _) = walk(&host.paths.cgroup, &config.selectors(), &pods);
    for (at, rule) in config.rules.iter().enumerate() {
        for selector in &rule.selectors {
            if named.iter().all(|named| selector.matches(&named.path, &pods) == Match::No) {
                let found = format!("rule {}: no cgroup matches {selector}", at + 1);
                let remedy =
                    "a pattern is a path below the root of cgroup v2; * matches within one level";
                findings.push(Finding::new(about, Verdict::Warning, found, remedy));
            }
        }
    }
    for named in &named {
        let rule = named.rule + 1;
        let mut found = format!("{}: rule {rule}", named.path);
        if !named.also.is_empty() {
            let also: Vec<String> = named.also.iter().map(|at| (at + 1).to_string()).collect();
            found += &format!(" wins over rule {}", also.join(", "));
        }
        if named.covered {
            found += ", skipped: a rule names a cgroup below it";
            findings.push(Finding::new(about, Verdict::Note, found, ""));
            continue;
        }
        if named.undecided {
            found += " needs labels or a namespace of its pod, which are not known";
            let remedy = "pods in [kubernetes] names a file of pod UIDs with their labels";
            findings.push(Finding::new(about, Verdict::Warning, found, remedy));
            continue;
        }
        findings.push(control_file(&host.paths.cgroup.join(&named.path), found));
    }
    findings
}

/// Whether a named cgroup can be acted upon.
fn control_file(directory: &Path, found: String) -> Finding {
    let about = "cgroups";
    let (reclaim, high) = (directory.join("memory.reclaim"), directory.join("memory.high"));
    let missing = Verdict::Missing;
    match (reclaim.exists(), high.exists()) {
        (true, _) if is_writable(&reclaim) => {
            Finding::new(about, Verdict::Good, format!("{found}, by memory.reclaim"), "")
        }
        (false, true) if is_writable(&high) => {
            let remedy = "a kernel from 5.19 on has memory.reclaim";
            let found = format!("{found}, by memory.high, restored at once");
            Finding::new(about, Verdict::Note, found, remedy)
        }
        (false, false) => {
            let remedy = "echo +memory > cgroup.subtree_control of the cgroup above";
            Finding::new(
                about,
                missing,
                format!("{found}: the memory controller is off for it"),
                remedy,
            )
        }
        _ => {
            let remedy = remedy::by_user(
                "run as root, outside containers whose cgroupfs is read-only",
                "run outside containers whose cgroupfs is read-only",
            );
            Finding::new(
                about,
                missing,
                format!("{found}: its control file cannot be written"),
                remedy,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::probe::Paths;

    #[test]
    fn mglru_does_not_see_reads() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("sys/kernel/mm/lru_gen")).unwrap();
        let says = |enabled: &str| {
            fs::write(at("sys/kernel/mm/lru_gen/enabled"), enabled).unwrap();
            let (cgroup, proc) = (at("cgroup"), at("proc"));
            let paths = Paths { cgroup, proc, sys: at("sys"), debugfs: at("debug") };
            let findings = check(&Host::probe(paths), None);
            findings.iter().any(|finding| finding.about == "file reads")
        };
        assert!(says("0x0007\n"));
        assert!(!says("0x0000\n"));
    }
}
