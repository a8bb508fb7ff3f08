//! One container of the daemon: its cgroup, its controller, and the means to take its memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ageing::Means;
use crate::call_size::CallSize;
use crate::config::{Backend, Rule};
use crate::controller::{Controller, Reclaim};
use crate::objective::Standing;
use crate::observation::{Idle, Observation, Orders, Room};
use crate::signal::SIGNALS;
use crate::tiers::Tiers;
use crate::world::accessed_bits::IdleProcesses;
use crate::world::cgroup::{Cgroup, CgroupError};
use crate::world::discover::MatchedCgroup;
use crate::world::generations::Generations;
use crate::world::lease::Leases;
use crate::world::probe::Host;
use crate::world::reclaim::{Work, takes_swappiness};
use crate::world::trigger::Trigger;
use prairie_daemon::file::{Buffer, Held, Words};

/// Share of a second that some task must stall before the trigger fires: far above the threshold
/// of any profile, so that only bursts wake the daemon.
const BURST: f64 = 0.1;

/// Limits, its own and those above it, change rarely.
const LIMITS_EVERY: Duration = Duration::from_secs(120);

/// A container.
#[derive(Debug)]
pub struct Container {
    /// Its number; another cgroup of the same path has another.
    pub id: u64,
    /// The rule that names it.
    pub rule: usize,
    /// The inode of its directory, as listed.
    pub(super) inode: u64,
    /// Its files are gone: it leaves at the next search for cgroups.
    pub(super) gone: bool,
    /// Its files.
    pub cgroup: Cgroup,
    /// The controller.
    pub controller: Controller,
    /// Reports of bursts, where the kernel does.
    pub trigger: Option<Trigger>,
    /// The daemon listens to it.
    pub(super) heard: bool,
    /// It reported one since the last decision.
    pub burst: bool,
    /// When it is next sampled.
    pub due: Duration,
    /// What is asked of it from outside.
    pub(super) orders: Orders,
    /// It would use room for what it offloads.
    pub(super) wants: bool,
    /// Jobs under way for it.
    pub jobs: u32,
    /// Left alone until then, because the kernel refused.
    pub refused_until: Duration,
    /// The last observation.
    pub seen: Observation,
    /// The last one for which everything was read.
    counted: Observation,
    /// The last observation was not such a one.
    pub(super) rests: bool,
    /// When its limits were last read.
    limits_at: Duration,
    /// Leased limits are to be checked with them: another program may have changed one.
    pub(super) checks_leases: bool,
    how: ReclaimMeans,
    /// How much one call asks for.
    call_size: CallSize,
    request: Option<Request>,
    /// The processes whose accessed bits were cleared last.
    cleared: Arc<BTreeSet<u32>>,
    /// What was idle of them at the last measurement.
    idle_processes: IdleProcesses,
    pub(super) backend: Backend,
    pub(super) routed: bool,
    pub(super) tiers: Tiers,
    /// The request after the last observation.
    pub(super) asked_bytes: u64,
    /// Its limit on swap is lowered, so that slots of what is back are freed.
    pub(super) gives_up_slots: bool,
}

/// A request, from which is learned what a call takes.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// `pgscan` and `pgsteal` before it.
    scanned: u64,
    taken: u64,
    /// Bytes that its calls were to take, once they were made.
    asked: Option<u64>,
}

/// By what its memory is taken.
#[derive(Debug)]
enum ReclaimMeans {
    /// `memory.reclaim`.
    Reclaim { file: Arc<Held>, current: Arc<Held>, swappiness: bool },
    /// `memory.high`, lowered and restored at once.
    Poke,
    /// Nothing may be written: a dry run.
    Nothing,
}

/// The files that a container may write.
pub struct Access<'a> {
    /// The capabilities of the host.
    pub host: &'a Host,
    /// Leased limits.
    pub leases: &'a Arc<Mutex<Leases>>,
    /// Nothing is written.
    pub dry_run: bool,
    /// PSI triggers are wanted.
    pub triggers: bool,
    /// The cost of a refault.
    pub return_cost: Duration,
    /// CPU time that one call may use.
    pub call_time: Duration,
}

impl Container {
    /// Opens the cgroup and prepares to take its memory.
    ///
    /// # Errors
    /// [`CgroupError`]: files missing, or its control files read-only.
    pub fn open(
        id: u64,
        named: &MatchedCgroup,
        rule: &Rule,
        hands: &Access<'_>,
    ) -> Result<Container, CgroupError> {
        let cgroup = Cgroup::open(&hands.host.paths.cgroup, &named.path, SIGNALS)?;
        let means = if hands.dry_run { Means::None } else { hands.host.means() };
        let how = match hands.dry_run {
            true => ReclaimMeans::Nothing,
            false => ReclaimMeans::of(&cgroup.directory)?,
        };
        let arm = || Trigger::arm(&cgroup.directory, BURST).ok();
        let trigger = if hands.triggers && !hands.dry_run { arm() } else { None };
        let controller = Controller::new(rule.profile, means, false, hands.return_cost);
        Ok(Container {
            id,
            rule: named.rule,
            inode: named.inode,
            gone: false,
            cgroup,
            controller,
            trigger,
            heard: false,
            burst: false,
            due: Duration::ZERO,
            orders: Orders::default(),
            wants: false,
            jobs: 0,
            refused_until: Duration::ZERO,
            seen: Observation::default(),
            counted: Observation::default(),
            rests: false,
            limits_at: Duration::ZERO,
            checks_leases: false,
            how,
            call_size: CallSize::new(hands.call_time, hands.host.lists()),
            request: None,
            cleared: Arc::default(),
            idle_processes: IdleProcesses::default(),
            backend: rule.backend,
            routed: false,
            tiers: Tiers::default(),
            asked_bytes: 0,
            gives_up_slots: false,
        })
    }

    /// Another rule names it now, or the rule has changed.
    pub fn set_rule(&mut self, number: usize, rule: &Rule) {
        self.rule = number;
        self.controller.set_profile(rule.profile);
        if std::mem::replace(&mut self.backend, rule.backend) != rule.backend {
            // What was learned with the other back end is no reason to go past zswap with this one.
            (self.routed, self.tiers) = (false, Tiers::default());
        }
    }

    /// The name of the means by which its memory is taken.
    pub fn means(&self) -> &'static str {
        match (&self.how, self.controller.means()) {
            (ReclaimMeans::Nothing, _) => "none (dry run)",
            (_, Means::Generations) => "lru_gen",
            (ReclaimMeans::Reclaim { .. }, Means::AccessedBits) => {
                "memory.reclaim after accessed bits"
            }
            (ReclaimMeans::Reclaim { .. }, Means::None) => "memory.reclaim",
            (ReclaimMeans::Poke, _) => "memory.high, restored at once",
        }
    }

    /// Reads the cheap files, and returns whether they are sufficient for this period.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn glimpse(
        &mut self,
        now: Duration,
        generations: Option<&Generations>,
        buffer: &mut Buffer,
    ) -> Result<(Observation, bool), CgroupError> {
        let idle = self.idle(generations);
        let seen = self.cgroup.glimpse(now, &self.seen, buffer)?;
        let burst = std::mem::take(&mut self.burst);
        let seen = Observation { idle, burst, orders: self.orders, ..seen };
        let is_settled = self.jobs == 0 && !self.gives_up_slots;
        Ok((seen, is_settled && self.controller.can_rest(&self.counted, &seen)))
    }

    /// Whether nothing was idle when it was last sampled, nothing can be idle by `now`, and nothing
    /// is to be done about age.
    pub fn is_settled(&self, now: Duration) -> bool {
        self.controller.settled_until(&self.seen).is_some_and(|until| now < until)
    }

    /// Periods until it is sampled again: two as long as nothing can be reclaimed and no age step is
    /// due, otherwise as many as its controller says.
    pub fn periods_to_next_look(&self, now: Duration) -> u32 {
        let period = self.controller.profile().period;
        let settled = self.controller.settled_until(&self.seen);
        if self.rests && settled.is_some_and(|until| now + period * 2 <= until) {
            return 2;
        }
        let has_objective = self.orders.standing != Standing::None;
        let watched = self.gives_up_slots || self.burst || has_objective;
        if watched { 1 } else { self.controller.periods_to_next_look() }
    }

    /// Samples the rest.
    ///
    /// # Errors
    /// [`CgroupError`].
    pub fn count(
        &mut self,
        glimpse: Observation,
        room: Room,
        buffer: &mut Buffer,
    ) -> Result<Observation, CgroupError> {
        let passed = glimpse.at.checked_sub(self.limits_at);
        let settled = self.controller.settled_until(&glimpse);
        let needed = settled.is_none_or(|until| glimpse.at >= until);
        if passed.is_none_or(|passed| needed && passed >= LIMITS_EVERY) {
            self.cgroup.refresh();
            self.limits_at = glimpse.at;
            self.checks_leases = true;
        }
        let mut seen = self.cgroup.count(glimpse, room, buffer)?;
        // Without swap the kernel reclaims page cache alone, whatever is requested.
        let file_only = self.takes_file_only() || seen.room.swap_bytes == 0;
        self.controller.set_file_only(file_only);
        match self.backend {
            Backend::FileOnly => seen.room = Room::default(),
            // It writes to no device.
            Backend::Zswap if self.routed => {
                seen.room = Room { write_budget_bytes: None, write_scarcity: 0.0, ..seen.room };
            }
            _ => {}
        }
        self.counted = seen;
        self.learn_from_request();
        Ok(seen)
    }

    /// CPU time that one call may use.
    pub fn limit_calls(&mut self, limit: Duration) {
        self.call_size = self.call_size.with_limit(limit);
    }

    /// A request begins.
    pub fn begin_request(&mut self) {
        let stat = &self.counted.stat;
        self.request = Some(Request { scanned: stat.pgscan, taken: stat.pgsteal, asked: None });
    }

    /// Its calls, which were to take `asked` bytes, were made.
    pub fn end_request(&mut self, asked: u64, size: Option<CallSize>) {
        self.call_size = size.unwrap_or(self.call_size);
        if let Some(request) = &mut self.request {
            request.asked = Some(asked);
        }
    }

    /// Once a request's calls were made, the next look shows what they took.
    fn learn_from_request(&mut self) {
        let Some(Request { scanned, taken, asked: Some(asked) }) = self.request else { return };
        let stat = &self.counted.stat;
        let grown = |now: u64, before: u64| now.saturating_sub(before).saturating_mul(4096);
        let (scanned, taken) = (grown(stat.pgscan, scanned), grown(stat.pgsteal, taken));
        self.call_size = self.call_size.after_request(asked, scanned, taken);
        self.request = None;
    }

    /// Idle memory by generations.
    fn idle(&self, generations: Option<&Generations>) -> Idle {
        if self.controller.means() != Means::Generations {
            return Idle::Unknown;
        }
        let idle = generations.and_then(|generations| {
            generations.idle_bytes(&self.cgroup.path, self.controller.min_age(), false)
        });
        idle.map_or(Idle::Measuring, Idle::Bytes)
    }

    fn takes_file_only(&self) -> bool {
        let swappiness = matches!(self.how, ReclaimMeans::Reclaim { swappiness: true, .. });
        swappiness || self.controller.means() == Means::Generations
    }

    /// The job that reclaims the decided amount, if there is a way.
    pub fn take(
        &self,
        reclaim: Reclaim,
        generations: Option<&Generations>,
        leases: &Arc<Mutex<Leases>>,
    ) -> Option<Work> {
        let Reclaim { bytes, file_only, anon_weight } = reclaim;
        if let (Means::Generations, Some(generations)) = (self.controller.means(), generations) {
            let age = self.controller.min_age();
            let path = &self.cgroup.path;
            let anon_weight = (!file_only).then_some(anon_weight);
            let evictions = generations.evictions(path, age, bytes, anon_weight);
            let file = generations.command();
            return (!evictions.is_empty()).then_some(Work::Evict {
                file,
                evictions,
                size: self.call_size,
            });
        }
        match &self.how {
            ReclaimMeans::Reclaim { file, current, swappiness } => Some(Work::Reclaim {
                file: file.clone(),
                current: current.clone(),
                bytes,
                swappiness: (*swappiness && file_only).then_some(0),
                size: self.call_size,
            }),
            ReclaimMeans::Poke => Some(Work::Poke {
                leases: leases.clone(),
                directory: self.cgroup.directory.clone(),
                bytes,
            }),
            ReclaimMeans::Nothing => None,
        }
    }

    /// The job that marks age.
    pub fn mark(&self, proc: &Path, generations: Option<&Generations>) -> Option<Work> {
        match self.controller.means() {
            Means::Generations => {
                let generations = generations?;
                let commands: Vec<Words> = generations.beginnings(&self.cgroup.path);
                let file = generations.command();
                (!commands.is_empty()).then_some(Work::Begin { file, commands })
            }
            Means::AccessedBits => {
                Some(Work::Clear { proc: proc.to_owned(), directory: self.directory() })
            }
            Means::None => None,
        }
    }

    /// Accessed bits were cleared, of these processes.
    pub fn cleared(&mut self, processes: BTreeSet<u32>) {
        self.cleared = Arc::new(processes);
    }

    /// The job that measures age; nothing while another job is under way, which may be just that.
    pub fn measure(&self, proc: &Path) -> Option<Work> {
        (self.jobs == 0).then(|| Work::Measure {
            proc: proc.to_owned(),
            directory: self.directory(),
            cleared: self.cleared.clone(),
        })
    }

    /// Age was measured.
    pub fn measured(&mut self, now: Duration, idle: IdleProcesses) {
        match idle.bytes() {
            Some(bytes) => {
                let bytes = bytes.saturating_add(self.unmapped_cache_bytes());
                self.controller.measured(now, bytes);
            }
            None => self.controller.ageing_failed(),
        }
        self.idle_processes = idle;
    }

    /// Forgets a measurement of processes that have ended since.
    pub fn check_processes(&mut self, proc: &Path) {
        if matches!(self.controller.idle(), Idle::Bytes(_)) && self.idle_processes.have_ended(proc)
        {
            self.idle_processes = IdleProcesses::default();
            self.controller.ageing_failed();
        }
    }

    fn directory(&self) -> PathBuf {
        self.cgroup.directory.clone()
    }

    /// Page cache that no process has mapped: accessed bits say nothing of it, and the kernel
    /// keeps what is read again on the active list.
    fn unmapped_cache_bytes(&self) -> u64 {
        let stat = &self.seen.stat;
        stat.inactive_file.min(stat.file.saturating_sub(stat.file_mapped))
    }
}

impl ReclaimMeans {
    fn of(directory: &Path) -> Result<ReclaimMeans, CgroupError> {
        let open = |file: &'static str| {
            Held::open_for_writing(&directory.join(file))
                .map_err(|source| CgroupError::Io { file, source })
        };
        match open("memory.reclaim") {
            Ok(file) => {
                let current = Held::open(&directory.join("memory.current"))
                    .map_err(|source| CgroupError::Io { file: "memory.current", source })?;
                let swappiness = takes_swappiness(&file);
                Ok(ReclaimMeans::Reclaim {
                    file: Arc::new(file),
                    current: Arc::new(current),
                    swappiness,
                })
            }
            Err(CgroupError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                open("memory.high").map(|_| ReclaimMeans::Poke)
            }
            Err(trouble) => Err(trouble),
        }
    }
}
