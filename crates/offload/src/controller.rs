//! One container's controller: observations in, decisions out.
//!
//! It joins the paper's formula ([`crate::senpai`]) with what keeps it honest: a pressure of three
//! terms, guards, ageing before the first bite, and debt for what was taken too much. It has no
//! clock and touches nothing, so a daemon and a simulation run the same.

use std::time::Duration;

use serde::Serialize;

use crate::ageing::{Ageing, Means, Step};
use crate::conditions;
use crate::guard::{Guard, History};
use crate::observation::{Idle, Observation};
use crate::over_reclaim::OverReclaim;
use crate::pressure::Pressure;
use crate::profile::Profile;
use crate::returns::Returns;
use crate::signal::returned::returned_pages;
use crate::signal::{Period, SIGNALS, Signal};

/// Bytes of a page, in the kernel's counters.
const PAGE: u64 = 4096;

/// Counters are read at least this often.
const MAX_REST: Duration = Duration::from_secs(60);

/// A container that has grown or shrunk by less stands still: half of what the kernel charges to a
/// CPU at once.
const STEADY_BYTES: u64 = 32 * PAGE;

/// Periods that a container that stays calm is looked at once in.
pub const MAX_SAMPLING_PERIODS: u32 = 4;

/// A container that lies about its age is asked for at most so many times the profile's.
const MAX_MIN_AGE_FACTOR: u32 = 8;

/// What a controller says about one period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// What to take.
    pub reclaim: Option<Reclaim>,
    /// What to do about age.
    #[serde(skip)]
    pub ageing: Step,
    /// Why nothing is taken.
    pub guard: Option<Guard>,
    /// The share of each signal.
    pub pressure: Pressure,
    /// The name of the signal that governs, and its share.
    pub governing: (&'static str, f64),
    /// What the formula allows in the periods that this look is for, in bytes.
    pub allowance_bytes: u64,
    /// What left since the last observation, in bytes.
    pub taken_bytes: u64,
    /// What came back since the last observation, in pages.
    pub returned_pages: u64,
    /// What is still owed, in bytes.
    pub owed_bytes: u64,
    /// Memory must have been idle for so long.
    pub min_age: Duration,
    /// Idle page cache, more than the kernel takes before it turns to anonymous memory: until it
    /// is gone a request takes no anonymous page, whatever the swappiness.
    pub cache_hides_anon: bool,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reclaim {
    /// So many bytes.
    pub bytes: u64,
    /// Only of the page cache: there is no place for anonymous memory.
    pub file_only: bool,
}

/// The controller of one container.
#[derive(Clone, Debug)]
pub struct Controller {
    profile: Profile,
    signals: &'static [Signal],
    /// What one page's return costs.
    return_cost: Duration,
    /// Whether the world can take page cache alone.
    file_only: bool,
    ageing: Ageing,
    over_reclaim: OverReclaim,
    returns: Returns,
    past: Option<History>,
    asked_bytes: u64,
    /// Periods to the next look.
    periods: u32,
    min_age: Duration,
    /// Size at the mark that was set while the container started.
    marked_bytes: Option<u64>,
}

impl Controller {
    /// A controller for a container that was first seen now.
    pub fn new(profile: Profile, means: Means, file_only: bool, cost: Duration) -> Controller {
        Controller {
            profile,
            signals: SIGNALS,
            return_cost: cost,
            file_only,
            ageing: Ageing::new(means, profile.min_age),
            over_reclaim: OverReclaim::default(),
            returns: Returns::default(),
            past: None,
            asked_bytes: 0,
            periods: 1,
            min_age: profile.min_age,
            marked_bytes: None,
        }
    }

    /// Uses other signals than the daemon's.
    ///
    /// # Panics
    /// With more than 8 signals, or none.
    pub fn with_signals(mut self, signals: &'static [Signal]) -> Controller {
        Pressure::none(signals);
        self.signals = signals;
        self
    }

    /// Takes another profile; what is known of the container stays.
    pub fn set_profile(&mut self, profile: Profile) {
        if profile.min_age != self.profile.min_age {
            self.min_age = profile.min_age;
            self.ageing.renew(profile.min_age);
        }
        self.profile = profile;
    }

    /// What one page's return costs, measured anew.
    pub fn set_return_cost(&mut self, cost: Duration) {
        self.return_cost = cost;
    }

    /// Whether the world can take page cache alone now.
    pub fn set_file_only(&mut self, file_only: bool) {
        self.file_only = file_only;
    }

    /// The world could not mark or measure age after all: begin again.
    pub fn ageing_failed(&mut self) {
        self.ageing.renew(self.min_age);
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The age that memory must have now.
    pub fn min_age(&self) -> Duration {
        self.min_age
    }

    /// By what age is told.
    pub fn means(&self) -> Means {
        self.ageing.means()
    }

    /// What the accessed bits tell. A world that reads generations has its own answer.
    pub fn idle(&self) -> Idle {
        self.ageing.idle()
    }

    /// The world followed [`Step::Measure`].
    pub fn measured(&mut self, now: Duration, idle_bytes: u64) {
        self.ageing.measured(now, idle_bytes);
    }

    /// Whether [`Controller::decide`] may be told the counters of `counted`, when they were last
    /// read, as those of `now`, of which the totals of pressure, the size and `idle` are known.
    ///
    /// Nothing will be taken, whatever the counters say, where there is nothing idle to take, or
    /// too little in all; that they have moved is unlikely where nothing else has. If so, it is
    /// seen a minute later at the latest, and before anything is taken.
    pub fn can_rest(&self, counted: &Observation, now: &Observation) -> bool {
        // What a request took is counted against it.
        let nothing_asked = self.past.is_some() && self.asked_bytes == 0;
        let totals = |seen: &Observation| (seen.counters, seen.burst);
        nothing_asked
            && self.takes_nothing(now)
            && totals(now) == totals(counted)
            && now.current_bytes.abs_diff(counted.current_bytes) < STEADY_BYTES
            && now.at.checked_sub(counted.at).is_some_and(|passed| passed < MAX_REST)
    }

    /// Nothing will be taken before, and nothing done about age, of a container that looks like
    /// `now`; nothing where that depends on more than time.
    pub fn settled_until(&self, now: &Observation) -> Option<Duration> {
        if self.takes_nothing(now) { self.ageing.settled_until(now.at) } else { None }
    }

    /// In so many periods the container is to be looked at next.
    ///
    /// A look costs some 20 µs, most of them the kernel's for `memory.stat`. So a container that
    /// gives memory, or works off what it gave too much, and is calm, at half the threshold or
    /// below, is looked at every other period, if it stays so every fourth, and gives the allowance
    /// of all of these at once, as far as that is no more than a period's largest step. On average
    /// the formula's amount is taken. Each request still follows a look, so that nothing is taken
    /// after a change that the look shows. A world that comes back sooner is told the allowance of
    /// the periods that have passed.
    pub fn periods_to_next_look(&self) -> u32 {
        self.periods
    }

    /// Whether nothing would be taken even if there were no pressure, no debt and all the room.
    fn takes_nothing(&self, now: &Observation) -> bool {
        let most = self.profile.senpai.reclaim_bytes(now.current_bytes, 0.0);
        let is_idle = match self.idle_of(now) {
            Idle::Measuring => false,
            Idle::Bytes(bytes) => bytes >= PAGE,
            Idle::Unknown => true,
        };
        !is_idle || most < PAGE || now.current_bytes <= conditions::floor_bytes(&self.profile, now)
    }

    /// Decides on the period that ends with `now`.
    pub fn decide(&mut self, now: &Observation) -> Decision {
        let Some(mut past) = self.past else { return self.first(now) };
        let before = past.before;
        if now.at < before.at {
            // Times of a clock that went back mean nothing any more.
            self.ageing.renew(self.min_age);
            past =
                History { first_seen: now.at, hold_until: Duration::ZERO, returning: None, ..past };
        }
        let taken_pages = now.stat.pgsteal.saturating_sub(before.stat.pgsteal);
        let periods = self.periods_between(before.at, now.at);
        let returned = returned_pages(&before, now);
        let pressure = Pressure::of(
            self.signals,
            &Period { before: &before, now, return_cost: self.return_cost },
        );
        past.taken_pages = taken_pages;
        past.periods = self.periods;
        past.scanned_per_page = self.scanned(&past, now, taken_pages);
        if now.burst {
            past.hold_until = now.at + self.profile.hold;
        }
        self.count(&mut past, now, taken_pages, returned);

        let idle_at = Observation { idle: self.idle_of(now), ..*now };
        let mut decision = Decision {
            taken_bytes: taken_pages.saturating_mul(PAGE),
            returned_pages: returned,
            pressure,
            governing: pressure.governing(),
            ..self.nothing()
        };
        decision.guard = conditions::blocking(self.signals, &self.profile, &past, &idle_at);
        decision.ageing = self.age(&decision.guard, now);
        if decision.guard.is_none() {
            self.allow(&past, &idle_at, periods, &mut decision);
        }
        decision.owed_bytes = self.over_reclaim.owed_bytes();
        decision.min_age = self.min_age;
        decision.cache_hides_anon = cache_hides_anon(now);
        self.asked_bytes = decision.reclaim.map_or(0, |reclaim| reclaim.bytes);
        self.periods = self.next_look(&decision);
        self.past = Some(History { before: *now, ..past });
        decision
    }

    /// A request was not carried out after all (the cgroup is gone, the workers are busy).
    pub fn not_carried_out(&mut self) {
        self.asked_bytes = 0;
        self.periods = 1;
    }

    /// Periods that a look is for: those that have passed, of those that were agreed upon.
    fn periods_between(&self, before: Duration, now: Duration) -> u32 {
        let passed = now.saturating_sub(before).as_secs_f64();
        let periods = (passed / self.profile.period.as_secs_f64()).round() as u32;
        periods.clamp(1, self.periods)
    }

    /// Periods to the look after a decision: twice as many as before while all is calm.
    fn next_look(&self, decision: &Decision) -> u32 {
        if !self.is_calm(decision) {
            return 1;
        }
        let senpai = &self.profile.senpai;
        let is_one_step =
            |periods: &u32| senpai.reclaim_ratio * f64::from(*periods) <= senpai.max_step;
        let most = (self.periods * 2).min(MAX_SAMPLING_PERIODS);
        (1..=most).rev().find(is_one_step).unwrap_or(1)
    }

    fn is_calm(&self, decision: &Decision) -> bool {
        let gives =
            decision.reclaim.is_some() || matches!(decision.guard, Some(Guard::OverReclaim { .. }));
        gives && decision.governing.1 <= self.profile.senpai.threshold / 2.0
    }

    /// A decision to do nothing.
    fn nothing(&self) -> Decision {
        let pressure = Pressure::none(self.signals);
        Decision {
            reclaim: None,
            ageing: Step::Wait,
            guard: None,
            pressure,
            governing: pressure.governing(),
            allowance_bytes: 0,
            taken_bytes: 0,
            returned_pages: 0,
            owed_bytes: 0,
            min_age: self.profile.min_age,
            cache_hides_anon: false,
        }
    }

    fn first(&mut self, now: &Observation) -> Decision {
        self.past = Some(History {
            before: *now,
            first_seen: now.at,
            hold_until: Duration::ZERO,
            periods: 1,
            taken_pages: 0,
            scanned_per_page: 0.0,
            returning: None,
        });
        let guard = Some(Guard::FirstLook);
        let ageing = self.age(&guard, now);
        Decision { guard, ageing, ..self.nothing() }
    }

    /// Pages scanned for each page taken, smoothed over periods in which something was asked for.
    fn scanned(&self, past: &History, now: &Observation, taken_pages: u64) -> f64 {
        let scanned = now.stat.pgscan.saturating_sub(past.before.stat.pgscan);
        if self.asked_bytes == 0 {
            // Decays, so that a container that was left alone for scanning gets another try.
            return past.scanned_per_page * 0.9;
        }
        0.5 * past.scanned_per_page + 0.5 * scanned as f64 / taken_pages.max(1) as f64
    }

    /// OverReclaim, idle memory and returns, brought up to date.
    fn count(&mut self, past: &mut History, now: &Observation, taken_pages: u64, returned: u64) {
        let taken_bytes = taken_pages.saturating_mul(PAGE);
        self.over_reclaim = self.over_reclaim.after(self.asked_bytes, taken_bytes);
        self.ageing.taken(taken_bytes);
        self.returns.count(now.at, taken_pages, returned);
        if !self.returns.exceed(self.profile.return_limit) {
            return;
        }
        let (taken, returned) = self.returns.totals();
        past.returning = Some((returned, taken, now.at + self.profile.hold));
        self.returns.clear();
        self.min_age = (self.min_age * 2).min(self.profile.min_age * MAX_MIN_AGE_FACTOR);
        self.ageing.renew(self.min_age);
    }

    /// What is known of idle memory: the bits' measurement, or the generations as observed.
    fn idle_of(&self, now: &Observation) -> Idle {
        match self.ageing.means() {
            Means::AccessedBits => self.ageing.idle(),
            Means::Generations if !self.ageing.is_ripe(now.at) => Idle::Measuring,
            Means::Generations | Means::None => now.idle,
        }
    }

    /// Marks age while the container is left alone, too, but not while it is pressed: clearing
    /// bits costs it faults of the walk.
    ///
    /// From the first look on, so that the wait for ages and the warm-up are one: what has not
    /// been touched since a mark is idle, whatever the container did when it was set. Only what
    /// came after it cannot be told; a container that has grown meanwhile is marked anew.
    fn age(&mut self, guard: &Option<Guard>, now: &Observation) -> Step {
        match guard {
            Some(Guard::FirstLook | Guard::WarmUp { .. }) => {
                self.marked_bytes.get_or_insert(now.current_bytes);
                self.ageing.step(now.at)
            }
            None | Some(Guard::Expanding { .. } | Guard::Contracting { .. }) => {
                let marked = self.marked_bytes.take();
                if marked.is_some_and(|bytes| now.current_bytes > bytes / 4 * 5) {
                    self.ageing.renew(self.min_age);
                }
                self.ageing.step(now.at)
            }
            Some(_) => Step::Wait,
        }
    }

    /// What may be taken, for so many periods.
    fn allow(&mut self, past: &History, now: &Observation, periods: u32, decision: &mut Decision) {
        let profile = &self.profile;
        let pressure = decision.governing.1;
        let each = profile.senpai.reclaim_bytes(now.current_bytes, pressure);
        let allowance = each * u64::from(periods);
        decision.allowance_bytes = allowance;
        let (over_reclaim, ask) = self.over_reclaim.pay(allowance);
        self.over_reclaim = over_reclaim;
        decision.guard = conditions::no_target(profile, now, self.file_only, past.scanned_per_page);
        if decision.guard.is_some() {
            return;
        }
        let blocked = conditions::anon_blocked(profile, now);
        let file_only = blocked.is_some();
        let floor = conditions::floor_bytes(profile, now);
        let bytes = ask
            .min(now.current_bytes - floor)
            .min(if let Idle::Bytes(idle) = now.idle { idle } else { u64::MAX })
            .min(if file_only { now.stat.inactive_file } else { u64::MAX });
        decision.guard = match bytes {
            PAGE.. => None,
            // There is no page cache to take in its stead.
            _ if file_only => blocked,
            _ if allowance == 0 => Some(Guard::Pressure),
            _ if ask == 0 => Some(Guard::OverReclaim { owed_bytes: over_reclaim.owed_bytes() }),
            _ => Some(Guard::Tiny),
        };
        if decision.guard.is_none() {
            // A round number of pages: what is below one would be rounded up by the kernel.
            decision.reclaim = Some(Reclaim { bytes: bytes / PAGE * PAGE, file_only });
        }
    }
}

/// While more than this is on the inactive file list, small requests take nothing but page cache
/// (`get_scan_count`: the list shifted by the first priority, 12, is not empty).
const HIDING_BYTES: u64 = PAGE << 12;

fn cache_hides_anon(now: &Observation) -> bool {
    now.stat.inactive_file > HIDING_BYTES && now.stat.anon > now.stat.inactive_file
}
