//! `prairie offload profile`: how much of each container's memory is cold, and its kinds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use prairie_daemon::file::{Buffer, Held};
use prairie_host::cgroup::{MemoryStat, memory_stat};
use prairie_host::remedy;
use prairie_offload::ageing::Means;
use prairie_offload::coldness::{Coldness, GENERATIONS_AT, MEASURED_AT};
use prairie_offload::world::accessed_bits::{self, IdleProcesses};
use prairie_offload::world::discover::{CgroupPattern, discover};
use prairie_offload::world::generations::Generations;
use prairie_offload::world::probe::{Host, Paths};
use serde::Serialize;

use crate::output::{self, Header};
use crate::progress;
use crate::view::offload::{self as view, Profiled};

/// Measure how much memory of each container is cold
///
/// Takes five minutes by accessed bits, six by MGLRU's generations. It changes no memory, but it
/// clears accessed bits or begins generations: do not run it beside the daemon, whose ages it
/// would disturb. With `--no-ages` it only reads, and answers at once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Cgroup patterns below the root [default with --no-ages: *]
    #[arg(value_name = "CGROUP", required_unless_present_any = ["tax", "no_ages"])]
    cgroups: Vec<String>,

    /// Cgroup patterns that count as memory tax; may be repeated
    #[arg(long, value_name = "CGROUP")]
    tax: Vec<String>,

    /// Omit ages: report only what memory is used for
    #[arg(long)]
    no_ages: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  sudo prairie offload profile workload.slice/web.service
  prairie offload profile --no-ages";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    /// The source of ages; `None` with `--no-ages`.
    source: Option<&'static str>,
    /// Memory of the host.
    host_bytes: u64,
    cgroups: &'a [Profiled],
}

/// Marks, waits, reads, prints.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let rules = [patterns(&args.tax)?, patterns(&args.cgroups())?];
    let host = Host::probe(Paths::live());
    let named = discover(&host.paths.cgroup, &[&rules[0], &rules[1]]);
    let (paths, tax): (Vec<String>, Vec<bool>) = named
        .into_iter()
        .filter(|named| !named.covered)
        .map(|named| (named.path, named.rule == 0))
        .unzip();
    if paths.is_empty() {
        bail!("no cgroup below {} matches", host.paths.cgroup.display());
    }
    let run = Run { host: &host, paths: &paths, interrupted };
    let (source, coldness) = match host.means() {
        _ if args.no_ages => (None, Some(vec![None; paths.len()])),
        Means::Generations => (Some("MGLRU's generations"), known(run.by_generations()?)),
        Means::AccessedBits => {
            (Some("accessed bits of mapped memory"), known(run.by_accessed_bits()?))
        }
        Means::None => bail!(
            "this host cannot measure ages; `prairie offload check` shows why, --no-ages omits them"
        ),
    };
    let Some(coldness) = coldness else {
        return Ok(output::interrupted());
    };
    let profiled: Vec<Profiled> = paths
        .iter()
        .zip(tax)
        .zip(coldness)
        .map(|((path, tax), coldness)| profiled(&host, path, tax, coldness))
        .collect();
    let host_bytes = memory_bytes(&host.paths.proc)?;
    let report = view::profile(source, host_bytes, &profiled);
    output::publish(&report, args.json, None, || Document {
        header: Header::new("prairie-offload-profile", 1),
        source,
        host_bytes,
        cgroups: &profiled,
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The patterns; all top-level cgroups by default. Reading them is harmless; measuring ages
    /// would disturb the whole host.
    fn cgroups(&self) -> Vec<String> {
        match self.cgroups.is_empty() && self.tax.is_empty() {
            true => vec!["*".to_owned()],
            false => self.cgroups.clone(),
        }
    }
}

fn patterns(texts: &[String]) -> anyhow::Result<Vec<CgroupPattern>> {
    texts.iter().map(|text| CgroupPattern::new(text).map_err(anyhow::Error::msg)).collect()
}

fn known(coldness: Option<Vec<Coldness>>) -> Option<Vec<Option<Coldness>>> {
    coldness.map(|all| all.into_iter().map(Some).collect())
}

fn profiled(host: &Host, path: &str, tax: bool, coldness: Option<Coldness>) -> Profiled {
    let directory = host.paths.cgroup.join(path);
    let stat = stat(&directory).unwrap_or_default();
    let current = std::fs::read_to_string(directory.join("memory.current")).unwrap_or_default();
    Profiled {
        cgroup: path.to_owned(),
        tax,
        coldness,
        current_bytes: current.trim().parse().unwrap_or(stat.anon.saturating_add(stat.file)),
        anon_bytes: stat.anon,
        file_bytes: stat.file,
    }
}

/// Memory of the host.
fn memory_bytes(proc: &Path) -> anyhow::Result<u64> {
    let path = proc.join("meminfo");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let sizes = prairie_host::texts::fields::sizes("proc/meminfo", &text)?;
    sizes.get("MemTotal").copied().context("proc/meminfo: no MemTotal")
}

struct Run<'a> {
    host: &'a Host,
    paths: &'a [String],
    interrupted: &'static AtomicBool,
}

impl Run<'_> {
    /// `None` if interrupted.
    fn by_generations(&self) -> anyhow::Result<Option<Vec<Coldness>>> {
        let mut generations = Generations::open(&self.host.paths.debugfs).context("lru_gen")?;
        let mut buffer = Buffer::default();
        let mut after_five = Vec::new();
        let started = Instant::now();
        for (at, when) in GENERATIONS_AT.into_iter().enumerate() {
            if !self.wait(started, when, GENERATIONS_AT[GENERATIONS_AT.len() - 1]) {
                return Ok(None);
            }
            generations.refresh(Duration::ZERO, Duration::ZERO, &mut buffer)?;
            for path in self.paths {
                for command in generations.beginnings(path) {
                    generations.command().write(command.as_str()).context("lru_gen")?;
                }
            }
            generations.refresh(Duration::ZERO, Duration::ZERO, &mut buffer)?;
            if at == 2 {
                after_five = self.paths.iter().map(|path| generations.of(path).to_vec()).collect();
            }
        }
        let of =
            |(path, five): (&String, &Vec<_>)| Coldness::of_generations(five, generations.of(path));
        Ok(Some(self.paths.iter().zip(&after_five).map(of).collect()))
    }

    /// `None` if interrupted.
    fn by_accessed_bits(&self) -> anyhow::Result<Option<Vec<Coldness>>> {
        let proc = &self.host.paths.proc;
        let directories: Vec<PathBuf> =
            self.paths.iter().map(|path| self.host.paths.cgroup.join(path)).collect();
        for (directory, path) in directories.iter().zip(self.paths) {
            if accessed_bits::clear(proc, directory).is_empty() {
                let remedy = remedy::by_user(
                    "run as root (sudo)",
                    "expected processes in it, CAP_DAC_OVERRIDE, and CAP_SYS_PTRACE",
                );
                bail!("{path}: cannot clear the accessed bits of any process; {remedy}");
            }
        }
        let started = Instant::now();
        let mut mapped = vec![(0, [0; 3]); directories.len()];
        for (at, when) in MEASURED_AT.into_iter().enumerate() {
            if !self.wait(started, when, MEASURED_AT[MEASURED_AT.len() - 1]) {
                return Ok(None);
            }
            for (directory, (total, referenced)) in directories.iter().zip(&mut mapped) {
                let processes = accessed_bits::processes(directory);
                let idle = IdleProcesses::of(proc, &processes).bytes().unwrap_or(0);
                let stat = stat(directory).unwrap_or_default();
                *total = stat.anon.saturating_add(stat.file_mapped).max(idle);
                referenced[at] = *total - idle;
            }
        }
        let of = |(total, referenced): (u64, [u64; 3])| Coldness::of_referenced(total, referenced);
        Ok(Some(mapped.into_iter().map(of).collect()))
    }

    /// Waits until `when` after the start; false if interrupted.
    fn wait(&self, started: Instant, when: Duration, all: Duration) -> bool {
        let bar = progress::bar(Some(all.as_secs()), "Waiting for memory to age");
        while started.elapsed() < when {
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            bar.set_position(started.elapsed().as_secs());
            sleep((when - started.elapsed().min(when)).min(Duration::from_millis(200)));
        }
        bar.finish_and_clear();
        !self.interrupted.load(Ordering::Relaxed)
    }
}

fn stat(directory: &Path) -> Option<MemoryStat> {
    let held = Held::open(&directory.join("memory.stat")).ok()?;
    memory_stat::parse("memory.stat", held.read(&mut Buffer::default()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// Hosts without a cgroup cannot print the document.
    #[test]
    fn the_document_follows_its_schema() {
        let profiled = |coldness| Profiled {
            cgroup: "web.service".to_owned(),
            tax: false,
            coldness,
            current_bytes: 3,
            anon_bytes: 2,
            file_bytes: 1,
        };
        for (source, coldness) in
            [(None, None), (Some("MGLRU's generations"), Some(Coldness::default()))]
        {
            let header = Header::new("prairie-offload-profile", 1);
            let cgroups = &[profiled(coldness)];
            let document = Document { header, source, host_bytes: 4, cgroups };
            schema::check(&serde_json::to_value(document).unwrap());
        }
    }
}
