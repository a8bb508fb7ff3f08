//! From lines to reports.

use prairie_frames::KernelVersion;

use super::line::{LogLine, strip, without_colors};
use super::zones::{self, MemoryLine};
use super::{Incident, IncidentKind, SlabCache, Task, Victim, ZoneState, header};
use crate::ZoneId;

/// Reports that are kept; more are counted only.
pub(crate) const MAX_INCIDENTS: usize = 10_000;

/// Lines after a report's last line until it is closed.
const PATIENCE_LINES: u64 = 500;

/// Reports that may be incomplete at one time: several CPUs print at once.
const MAX_OPEN: usize = 16;

/// Tasks of an OOM report that are kept.
const MAX_TASKS: usize = 20;

/// Functions of a call trace that are kept.
const MAX_FUNCTIONS: usize = 40;

/// Takes a log line by line.
///
/// Lines of several reports may be interleaved, because CPUs print at once. A line goes to the
/// report of its caller where the kernel prints callers, else to the last one that does not have
/// such a line yet.
#[derive(Debug, Default)]
pub struct Parser {
    lines: u64,
    /// Whether a line had a prefix of kernel logs, or began a report.
    any_known: bool,
    incidents: Vec<Incident>,
    open: Vec<Open>,
    beyond: u64,
    release: Option<String>,
}

/// A report that may get more lines.
#[derive(Debug)]
struct Open {
    incident: Incident,
    caller: Option<String>,
    last_line: u64,
    /// The zone that a `lowmem_reserve[]` belongs to.
    zone: Option<ZoneId>,
    has_trace: bool,
    in_trace: bool,
    /// The columns of the table of tasks, once its head was seen.
    columns: Vec<String>,
}

impl Parser {
    /// Takes the next line, with or without its line feed.
    pub fn push(&mut self, line: &str) {
        self.lines += 1;
        let text = without_colors(line);
        let line = strip(&text);
        self.any_known |= line.message.len() < text.trim_end().len();
        if line.message.starts_with("Linux version ") {
            self.any_known = true;
            self.release = header::release(line.message).map(str::to_owned);
        }
        let version = self.release.as_deref().and_then(KernelVersion::of_kernel);
        if let Some(incident) = header::parse(line.message, version) {
            self.any_known = true;
            self.begin(incident, &line);
            return;
        }
        let now = self.lines;
        self.close_until(|open| now - open.last_line <= PATIENCE_LINES);
        self.continue_report(&line);
    }

    /// Lines so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Whether any line looks like one of a kernel log.
    pub fn is_kernel_log(&self) -> bool {
        self.any_known
    }

    /// Reports beyond the first 10,000, which were not kept.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// The reports, in the order in which they began.
    pub fn finish(mut self) -> Vec<Incident> {
        self.close_until(|_| false);
        self.incidents.sort_by_key(|incident| incident.line);
        self.incidents
    }

    fn begin(&mut self, mut incident: Incident, line: &LogLine<'_>) {
        incident.line = self.lines;
        incident.time = line.time.map(str::to_owned);
        incident.kernel_release = self.release.clone();
        let caller = line.caller.map(str::to_owned);
        // A task that reports again is done with its last report.
        let same = |open: &Open| open.incident.process == incident.process && open.caller == caller;
        let at = self.open.iter().position(same).or((self.open.len() >= MAX_OPEN).then_some(0));
        if let Some(at) = at {
            let open = self.open.remove(at);
            self.keep(open.incident);
        }
        self.open.push(Open {
            incident,
            caller,
            last_line: self.lines,
            zone: None,
            has_trace: false,
            in_trace: false,
            columns: Vec::new(),
        });
    }

    fn keep(&mut self, incident: Incident) {
        if self.incidents.len() < MAX_INCIDENTS {
            self.incidents.push(incident);
        } else {
            self.beyond += 1;
        }
    }

    fn close_until(&mut self, stays: impl Fn(&Open) -> bool) {
        let mut at = 0;
        while at < self.open.len() {
            if stays(&self.open[at]) {
                at += 1;
            } else {
                let open = self.open.remove(at);
                self.keep(open.incident);
            }
        }
    }

    /// Gives a line to the report that it belongs to, if to any.
    fn continue_report(&mut self, line: &LogLine<'_>) {
        let now = self.lines;
        let mine = |open: &Open| open.caller.as_deref() == line.caller;
        let has_callers = line.caller.is_some() && self.open.iter().any(mine);
        for open in self.open.iter_mut().rev() {
            if has_callers && !mine(open) {
                continue;
            }
            if open.take(line.message) {
                open.last_line = now;
                return;
            }
        }
    }
}

impl Open {
    /// Takes a line; false if it does not belong here, or is here already.
    fn take(&mut self, message: &str) -> bool {
        if let Some(line) = zones::parse(message) {
            self.in_trace = false;
            return self.memory(line);
        }
        self.process_line(message)
            || self.slab(message)
            || self.cgroup(message)
            || self.table(message)
            || self.killed(message)
            || self.trace(message)
    }

    fn memory(&mut self, line: MemoryLine) -> bool {
        let memory = &mut self.incident.memory;
        let set = |place: &mut Option<u64>, value: u64| {
            let is_new = place.is_none();
            place.get_or_insert(value);
            is_new
        };
        match line {
            MemoryLine::Sizes(id, sizes) => {
                let zone = self.zone_mut(id);
                let is_new = zone.sizes_kib.is_empty();
                if is_new {
                    zone.sizes_kib = sizes;
                    self.zone = Some(id);
                }
                is_new
            }
            MemoryLine::Reserve(pages) => {
                let Some(id) = self.zone.take() else { return false };
                self.zone_mut(id).lowmem_reserve_pages = pages;
                true
            }
            MemoryLine::FreeBlocks(id, blocks, page_kib) => {
                let zone = self.zone_mut(id);
                let is_new = zone.free_blocks.is_empty();
                if is_new {
                    (zone.free_blocks, zone.page_kib) = (blocks, page_kib);
                }
                is_new
            }
            MemoryLine::Pages(pages) => {
                let is_new = pages.keys().all(|name| !memory.pages.contains_key(name));
                if is_new {
                    memory.pages.extend(pages);
                }
                is_new
            }
            MemoryLine::Ram(pages) => set(&mut memory.ram_pages, pages),
            MemoryLine::Reserved(pages) => set(&mut memory.reserved_pages, pages),
            MemoryLine::SwapFree(kib) => set(&mut memory.swap_free_kib, kib),
            MemoryLine::SwapTotal(kib) => set(&mut memory.swap_total_kib, kib),
        }
    }

    fn zone_mut(&mut self, id: ZoneId) -> &mut ZoneState {
        let zones = &mut self.incident.memory.zones;
        let at = zones.iter().position(|zone| zone.id == id).unwrap_or_else(|| {
            zones.push(ZoneState::new(id));
            zones.len() - 1
        });
        &mut zones[at]
    }

    /// `CPU: 0 PID: 12 Comm: x Not tainted …`, `x cpuset=/ mems_allowed=0`
    fn process_line(&mut self, message: &str) -> bool {
        if let Some(mems) = header::list(message, "mems_allowed=")
            && !message.starts_with("oom-kill:")
        {
            self.incident.request.mems_allowed.get_or_insert(mems);
            return true;
        }
        let pid = header::number_after(message, "PID: ").or(header::number_after(message, "Pid: "));
        let Some(pid) = pid.filter(|_| self.incident.pid.is_none()) else { return false };
        self.incident.pid = Some(pid);
        if let Some(release) = header::release(message) {
            self.incident.kernel_release = Some(release.to_owned());
            let gfp = &self.incident.request.gfp;
            // The number means other flags on another kernel.
            if !gfp.named {
                let version = KernelVersion::of_kernel(release);
                self.incident.request.gfp = super::Gfp::new(gfp.mask, None, version);
            }
        }
        true
    }

    /// `  cache: skbuff, object size: 232, …, default order: 1, min order: 0`, after `SLUB: Unable
    /// to allocate memory`.
    fn slab(&mut self, message: &str) -> bool {
        let Some(rest) = message.trim_start().strip_prefix("cache: ") else { return false };
        let Some((name, rest)) = rest.split_once(',') else { return false };
        if self.incident.slab_cache.is_some() {
            return false;
        }
        self.incident.slab_cache = Some(SlabCache {
            name: name.to_owned(),
            default_order: header::number_after(rest, "default order: "),
            min_order: header::number_after(rest, "min order: "),
        });
        true
    }

    /// The lines on the cgroup whose limit was hit.
    fn cgroup(&mut self, message: &str) -> bool {
        if self.incident.kind != IncidentKind::OutOfMemory {
            return false;
        }
        let mut limit = self.incident.cgroup.clone().unwrap_or_default();
        let kib = |rest: &str, key: &str| header::number_after::<u64>(rest, key);
        if let Some((_, path)) = message.split_once("as a result of limit of ") {
            limit.path = Some(path.trim().to_owned());
        } else if let Some(rest) = message.strip_prefix("memory: usage ") {
            limit.usage_kib = kib(&format!("usage {rest}"), "usage ");
            limit.limit_kib = kib(rest, "limit ");
        } else if let Some(rest) =
            message.strip_prefix("swap: usage ").or(message.strip_prefix("memory+swap: usage "))
        {
            let usage = kib(&format!("usage {rest}"), "usage ");
            limit.swap_kib = usage.zip(kib(rest, "limit "));
        } else if let Some(path) = message.strip_prefix("Memory cgroup stats for ") {
            let path = path.split(':').next().unwrap_or_default();
            limit.path.get_or_insert(path.to_owned());
        } else if let Some(rest) = message.strip_prefix("oom-kill:constraint=") {
            self.incident.constraint = Some(rest.split(',').next().unwrap_or_default().to_owned());
            let Some((_, path)) = rest.split_once("oom_memcg=") else { return true };
            let path = path.split(',').next().unwrap_or_default();
            limit.path.get_or_insert(path.to_owned());
        } else {
            return false;
        }
        self.incident.cgroup = Some(limit);
        true
    }

    /// The table of tasks, and its head.
    fn table(&mut self, message: &str) -> bool {
        if self.incident.kind != IncidentKind::OutOfMemory {
            return false;
        }
        let Some(rest) = message.trim_start().strip_prefix('[') else { return false };
        let Some((pid, rest)) = rest.split_once(']') else { return false };
        let words = || rest.split_ascii_whitespace();
        if pid.trim() == "pid" {
            self.columns = words().map(str::to_owned).collect();
            return true;
        }
        let (Ok(pid), false) = (pid.trim().parse(), self.columns.is_empty()) else { return false };
        let last = self.columns.len() - 1;
        if words().count() <= last {
            return false;
        }
        let value = |name: &str| {
            let at = self.columns.iter().position(|column| column == name)?;
            words().nth(at)?.parse::<i64>().ok()
        };
        let pages = |name| u64::try_from(value(name).unwrap_or(0)).unwrap_or(0);
        let task = Task {
            pid,
            name: words().skip(last).collect::<Vec<_>>().join(" "),
            rss_pages: pages("rss"),
            swap_pages: pages("swapents"),
            oom_score_adj: value("oom_score_adj").unwrap_or(0),
        };
        let tasks = &mut self.incident.tasks;
        let at = tasks.partition_point(|other| other.rss_pages >= task.rss_pages);
        tasks.insert(at, task);
        tasks.truncate(MAX_TASKS);
        true
    }

    /// `Out of memory: Killed process 12 (x) total-vm:…kB, anon-rss:…kB`
    fn killed(&mut self, message: &str) -> bool {
        if self.incident.kind != IncidentKind::OutOfMemory {
            return false;
        }
        let Some((_, rest)) = message
            .split_once("Kill")
            .filter(|(before, _)| before.is_empty() || before.ends_with(": "))
        else {
            return false;
        };
        let Some((_, rest)) = rest.split_once(" process ") else { return false };
        let Some((pid, rest)) = rest.split_once(' ') else { return false };
        let Ok(pid) = pid.trim_end_matches(',').parse() else { return false };
        let name = rest.strip_prefix('(').and_then(|rest| rest.split_once(") "));
        let anon_rss_kib = header::number_after(rest, "anon-rss:");
        match &mut self.incident.victim {
            // `Kill process` says who is chosen, `Killed process` how large it was.
            Some(victim) if victim.pid == pid && victim.anon_rss_kib.is_none() => {
                victim.anon_rss_kib = anon_rss_kib;
            }
            Some(_) => return false,
            none => {
                let name = name.map_or(String::new(), |(name, _)| name.to_owned());
                *none = Some(Victim { pid, name, anon_rss_kib });
            }
        }
        true
    }

    /// The call trace.
    fn trace(&mut self, message: &str) -> bool {
        let line = message.trim();
        if line.starts_with("Call Trace:") || line.starts_with("Call trace:") {
            let is_new = !self.has_trace;
            (self.has_trace, self.in_trace) = (true, is_new);
            return is_new;
        }
        if !self.in_trace {
            return false;
        }
        if matches!(line, "<TASK>" | "<IRQ>" | "</IRQ>") || line.is_empty() {
            return true;
        }
        let line = line.trim_start_matches("<IRQ>").trim_start_matches("<EOI>").trim_start();
        // `[<ffffffff8118a4d4>] warn_alloc_failed+0x114/0x180`, `? dump_stack_lvl+0x34/0x48`
        let frame = match line.strip_prefix("[<") {
            Some(rest) => rest.split_once("] ").map_or(line, |(_, frame)| frame),
            None => line,
        };
        let Some((function, offsets)) = frame.split_once("+0x") else {
            self.in_trace = false;
            return line == "</TASK>";
        };
        let is_sure = !function.starts_with("? ") && offsets.contains("/0x");
        if is_sure && self.incident.call_trace.len() < MAX_FUNCTIONS {
            self.incident.call_trace.push(function.trim().to_owned());
        }
        true
    }
}
