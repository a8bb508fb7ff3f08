//! The loop's body: samples, asks the policy, carries out one operation at a time, and tells.

mod blocks;
mod leases;
mod operate;
mod reserve;
mod rest;
mod tell;
mod trouble;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prairie_daemon::log::Log;
use prairie_host::Roots;

use crate::choice::{Block, Place};
use crate::config::Config;
use crate::host::Host;
use crate::limits::Pause;
use crate::operation::{BlockFilesDebug, Done, Sysfs};
use crate::policy::{Policy, Reason, Step};
use crate::reclaim::Reclaim;
use crate::record::Record;
use crate::rest::Rest;
use crate::sample::{Sample, page_bytes};
use crate::series::Series;
use crate::settings::{Setting, Value};
use crate::status::Shared;
use crate::timer::Timer;

use reserve::Requests;
use rest::LOOK_EVERY;
use trouble::{Topic, Troubles};

pub use leases::restore_settings;
pub use tell::whole_gigabytes;

/// While an operation is under way, the zones are sampled this often.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// Between two operations of the setup, so that others get to run.
const SETUP_PAUSE: Duration = Duration::from_millis(50);

/// Rounds of reading blocks before one is chosen: three sketch the candidates of a small machine,
/// the others read the first choices (*chosen*). Unread blocks wait for the next poll.
const MAX_READ_ROUNDS: usize = 8;

/// An operation under way.
#[derive(Clone, Copy, Debug)]
struct Current {
    node: u32,
    reason: Reason,
    /// User memory ran short meanwhile.
    is_interrupted: bool,
}

/// The daemon of a host.
#[derive(Debug)]
pub struct Daemon {
    config: Config,
    policy: Policy,
    host: Host,
    files: Arc<dyn BlockFilesDebug>,
    timer: Timer<Done>,
    /// A reservation writes it, too.
    record: Arc<Mutex<Record>>,
    log: Log,
    status: Shared,
    series: Option<Series>,
    dry_run: bool,
    blocks: Vec<Block>,
    listed: Option<Duration>,
    /// Blocks of the list that have to be read before anything is decided.
    unread: Vec<u64>,
    /// Frames of all kernel and all movable zones when the list was read.
    listed_sizes: [u64; 2],
    sampled: Option<Duration>,
    last: Sample,
    rest: Rest,
    /// Free memory was no longer as it was at the last poll.
    changed: bool,
    /// When free memory was last looked at.
    looked: Duration,
    current: Option<Current>,
    scan_at: usize,
    scan_after: Duration,
    pause_until: Duration,
    oom_before: Option<u64>,
    /// Until settings are leased again after one could not be written.
    lease_pause: Pause,
    /// The priority of kswapd was raised, or could not be.
    kswapd_done: bool,
    /// `watermark_scale_factor` was set by others.
    factor_changed_by_others: bool,
    /// `min_free_kbytes` before the first operation: the kernel recomputes it at each.
    min_free_before: Option<Value>,
    recent: VecDeque<String>,
    /// Until blocks are converted again after one, or the record, could not be written.
    pause: Pause,
    troubles: Troubles,
    requests: Requests,
    /// Frees page cache for what a growth moves.
    reclaim: Option<Arc<Reclaim>>,
}

/// What a daemon is started with.
#[derive(Debug)]
pub struct Start {
    /// Its configuration.
    pub config: Config,
    /// Where the kernel's files are.
    pub roots: Roots,
    /// What has to be undone; an earlier daemon's is adopted.
    pub record: Record,
    /// Its log.
    pub log: Log,
    /// Nothing is written anywhere.
    pub dry_run: bool,
    /// Nothing but growth: the guardian's mode.
    pub grow_only: bool,
}

impl Daemon {
    /// Opens everything.
    ///
    /// # Errors
    /// Which file cannot be read, and why. Only the guardian's mode does without `kpageflags`.
    pub fn new(start: Start) -> io::Result<Daemon> {
        let Start { config, roots, record, log, dry_run, grow_only } = start;
        let host = Host::open(&roots)?;
        let reclaim = Reclaim::open(&roots).map(Arc::new);
        if !grow_only {
            host.require_flags()?;
        }
        let min_free_before = Setting::MinFreeKbytes.read(&roots).ok();
        let policy = Policy::new(&config, host.block_frames);
        let series = match &config.daemon.series {
            Some(folder) if !dry_run => Some(Series::create(folder)?),
            _ => None,
        };
        let status = Shared::default();
        {
            let mut status = status.lock();
            (status.schema, status.schema_version) = ("prairie-regions-status".into(), 1);
            status.version = env!("CARGO_PKG_VERSION").into();
            status.dry_run = dry_run;
            status.block_bytes = host.block_frames * page_bytes();
        }
        Ok(Daemon {
            policy: if grow_only { policy.grow_only() } else { policy },
            files: Arc::new(Sysfs::new(roots)),
            host,
            timer: Timer::start()?,
            record: Arc::new(Mutex::new(record)),
            log,
            status,
            series,
            dry_run,
            blocks: Vec::new(),
            listed: None,
            unread: Vec::new(),
            listed_sizes: [0; 2],
            sampled: None,
            last: Sample::default(),
            rest: Rest::default(),
            changed: true,
            looked: Duration::ZERO,
            current: None,
            scan_at: 0,
            scan_after: Duration::ZERO,
            pause_until: Duration::ZERO,
            oom_before: None,
            lease_pause: Pause::default(),
            kswapd_done: false,
            factor_changed_by_others: false,
            min_free_before,
            recent: VecDeque::new(),
            pause: Pause::default(),
            troubles: Troubles::new(),
            requests: Requests::default(),
            reclaim,
            config,
        })
    }

    /// Other files for blocks: the guardian's own, and those of tests.
    pub fn with_files(mut self, files: Arc<dyn BlockFilesDebug>) -> Daemon {
        self.files = files;
        self
    }

    /// Its status.
    pub fn status(&self) -> Shared {
        self.status.clone()
    }

    /// Its log.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Its configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Whether nothing is written anywhere.
    pub const fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// The operations' thread.
    pub const fn timer(&self) -> &Timer<Done> {
        &self.timer
    }

    /// The record.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        // A thread that panicked has left whole lines behind.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blocks as they are known.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Takes another configuration; sockets and series stay as they are until the next start.
    pub fn reload(&mut self, config: Config) {
        self.give_up_leases(&config.settings);
        self.policy.configure(&config);
        self.config = config;
        // What that asks for is due at the next tick.
        self.rest.end();
        self.sampled = None;
    }

    /// Does what is due at `now`; returns when the next thing is.
    pub fn tick(&mut self, now: Duration) -> Duration {
        self.finish_operation(now);
        if self.current.is_none() {
            self.reserve(now);
        }
        let poll = if self.is_busy() { WATCH_EVERY } else { self.config.daemon.poll };
        let due = self.sampled.is_none_or(|at| now >= at + poll || now < at);
        let due = due || (!self.is_busy() && self.is_burst(now));
        if due {
            (self.sampled, self.looked) = (Some(now), now);
            self.watch_guardian();
            if self.rests(now) {
                return now + self.config.daemon.poll.min(LOOK_EVERY);
            }
            match self.host.sample(now) {
                Ok(sample) => self.take_sample(sample, now),
                Err(error) => {
                    self.trouble(Topic::Zones, &format!("the zones cannot be read: {error}"));
                }
            }
            self.begin_rest(now);
        }
        if self.is_list_due(now) {
            self.list(now);
        }
        self.read_new(now);
        if !self.unread.is_empty() {
            return now;
        }
        // Between polls nothing new is known, unless a pause kept from acting on it.
        let news = due || self.sampled.is_some_and(|at| at < self.pause_until);
        if news && !self.is_busy() && now >= self.pause_until {
            self.decide(now);
            // What nothing has changed in is known.
            if self.changed {
                self.scan_one(now);
            }
        }
        if due {
            self.report(now);
        }
        match self.is_busy() {
            true => now + WATCH_EVERY,
            false => (self.sampled.unwrap_or(now) + poll).min(self.looked + LOOK_EVERY),
        }
        .min(if self.pause_until > now { self.pause_until } else { Duration::MAX })
    }

    /// An operation or a reservation is under way.
    const fn is_busy(&self) -> bool {
        self.current.is_some() || self.requests.is_busy()
    }

    /// Starts another guardian if the one that there was is gone.
    fn watch_guardian(&mut self) {
        let renewed = self.record().renew_guardian();
        match renewed {
            Ok(true) => self
                .log
                .note("warning", format_args!("the guardian was gone; another one is started")),
            Ok(false) => self.settled(Topic::Guardian),
            Err(error) => {
                self.trouble(Topic::Guardian, &format!("the guardian cannot be started: {error}"));
            }
        }
    }

    fn take_sample(&mut self, sample: Sample, now: Duration) {
        self.settled(Topic::Zones);
        self.policy.sample(&sample);
        let first = *self.oom_before.get_or_insert(sample.oom_kills);
        self.status.lock().oom_kills = sample.oom_kills.saturating_sub(first);
        if self.is_killing(&sample) {
            self.timer.hurry();
            if let Some(current) = &mut self.current {
                current.is_interrupted = true;
            }
            self.stop_reservation("stopped: user memory runs short");
        } else if self.policy.is_short() {
            self.stop_reservation("stopped: the kernel region runs short");
        }
        self.last = sample;
        if !self.dry_run && !self.requests.is_busy() {
            self.lease(now);
        }
    }

    /// Whether the operation under way takes memory that user processes are about to need: the
    /// movable zone of its node is down to a quarter of its high watermark and there is no cache.
    fn is_killing(&self, sample: &Sample) -> bool {
        let node = self.current.map(|current| current.node);
        let mut nodes = sample.nodes.iter().filter(|own| node.is_none_or(|node| own.node == node));
        self.is_busy()
            && (self.policy.has_killed()
                || nodes.any(|node| {
                    let movable = node.movable;
                    movable.free < movable.high / 4
                        && movable.cache < movable.high
                        && node.kernel.borrowable == 0
                }))
    }

    /// Asks the policy and begins what it says.
    fn decide(&mut self, now: Duration) {
        if !self.pause.is_over(now) {
            return;
        }
        for _ in 0..MAX_READ_ROUNDS {
            match self.policy.next(&self.blocks, now) {
                Step::Wait => return,
                Step::Scan(wanted) => {
                    let ranks = wanted.len() > 1;
                    let is_wanted = |block: &&mut Block| wanted.contains(&block.number);
                    for block in self.blocks.iter_mut().filter(is_wanted) {
                        if ranks && block.place == Place::Movable {
                            self.host.sketch(block, now);
                        } else {
                            self.host.scan(block, now);
                        }
                    }
                }
                // A sketch ranks blocks; the one that is chosen is read before it is converted.
                Step::Convert { block, .. } if self.host.is_sketched(block) => {
                    for own in self.blocks.iter_mut().filter(|own| own.number == block) {
                        self.host.scan(own, now);
                    }
                }
                Step::Drain => {
                    if !self.dry_run {
                        self.host.drain_slabs();
                    }
                    return;
                }
                Step::Online(block) => return self.begin(block, None, Reason::Offline, now),
                Step::Convert { block, to, reason } => {
                    return self.begin(block, Some(to), reason, now);
                }
            }
        }
    }

    /// Ends: waits for the operation in flight, restores settings, finishes the files of the time
    /// series, and returns the changes that remain to undo.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn stop(mut self) -> io::Result<Record> {
        self.timer.hurry();
        if let Some(done) = self.timer.wait() {
            let _ = self.record().idle(done.block, done.place);
        }
        self.drop_reservation();
        // What the record of a dry run says is another daemon's.
        if !self.dry_run {
            restore_settings(&mut self.record(), self.host.roots(), &self.log);
        }
        if let Some(series) = self.series.take() {
            series.finish()?;
        }
        let record = Arc::into_inner(self.record).ok_or_else(|| {
            io::Error::other("a reservation that was stopped still holds the record")
        })?;
        Ok(record.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}
