//! The controller of one container: observations in, decisions out.
//!
//! It combines the paper's formula ([`crate::senpai`]) with what keeps it safe: pressure by several
//! signals, guards, page ages before the first request, and compensation for over-reclaim. It has no
//! clock and no I/O, so a daemon and a simulation run the same code.

use std::time::Duration;

use serde::Serialize;

use crate::ageing::{Ageing, Means, Step};
use crate::balance::Balance;
use crate::conditions;
use crate::guard::{Guard, History};
use crate::observation::{Idle, Observation, Room};
use crate::over_reclaim::OverReclaim;
use crate::pressure::Pressure;
use crate::profile::Profile;
use crate::restraint::Restraint;
use crate::returns::{Returns, WINDOW};
use crate::signal::returned::{returned_anon, returned_pages};
use crate::signal::{Period, SIGNALS, Signal};
use crate::trial::Trial;

/// Bytes of a page, in the kernel's counters.
const PAGE: u64 = 4096;

/// The longest time between two readings of all counters.
const MAX_REST: Duration = Duration::from_secs(60);

/// A container that has grown or shrunk by less is steady: half of what the kernel charges to a
/// CPU at once.
const STEADY_BYTES: u64 = 32 * PAGE;

/// An idle container is sampled at least once in this many periods.
pub const MAX_SAMPLING_PERIODS: u32 = 4;

/// The share of the pressure threshold that refaults of a bad choice may cost (*chosen*): ten times
/// as much, and the formula itself stops.
const RETURN_COST: f64 = 0.1;

/// The most that one period counts as scanned for a page, in multiples of the profile's limit
/// (*chosen*): the guard then blocks for seven periods.
const MAX_SCANNED: f64 = 4.0;

/// Over-reclaim is compensated for no longer than this without pressure (chosen). What a kernel
/// takes beyond a request is far less.
const MOST_OWED: Duration = Duration::from_secs(3600);

/// A container that misreports its age has to show at most this multiple of the profile's age.
const MAX_MIN_AGE_FACTOR: u32 = 8;

/// The decision on one period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Decision {
    /// The amount and kind of memory to reclaim.
    pub reclaim: Option<Reclaim>,
    /// The next step of age measurement.
    #[serde(skip)]
    pub ageing: Step,
    /// Why nothing is reclaimed.
    pub guard: Option<Guard>,
    /// The share of each signal.
    pub pressure: Pressure,
    /// The name of the signal that governs, and its share.
    pub governing: (&'static str, f64),
    /// What the formula allows in the periods since the last observation, in bytes.
    pub allowance_bytes: u64,
    /// Reclaimed since the last observation, in bytes.
    pub taken_bytes: u64,
    /// Refaulted since the last observation, in pages.
    pub returned_pages: u64,
    /// The anonymous pages among them.
    #[serde(skip)]
    pub returned_anon_pages: u64,
    /// Over-reclaim that is not yet compensated, in bytes.
    pub owed_bytes: u64,
    /// Memory must have been idle for so long.
    pub min_age: Duration,
    /// Idle page cache, more than the kernel takes before it turns to anonymous memory: until it
    /// is gone a request takes no anonymous page, whatever the swappiness. Not with generations.
    pub cache_hides_anon: bool,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reclaim {
    /// Bytes to reclaim.
    pub bytes: u64,
    /// Reclaim page cache only, because there is no room for anonymous memory.
    pub file_only: bool,
    /// The weight of an idle anonymous page, 0 to 1, where one of the page cache weighs the rest:
    /// for a world that can choose.
    pub anon_weight: f64,
}

/// The controller of one container.
#[derive(Clone, Debug)]
pub struct Controller {
    profile: Profile,
    signals: &'static [Signal],
    /// Cost of one refault.
    return_cost: Duration,
    /// Whether the world can reclaim page cache alone.
    file_only: bool,
    ageing: Ageing,
    over_reclaim: OverReclaim,
    returns: Returns,
    balance: Balance,
    trial: Trial,
    restraint: Restraint,
    past: Option<History>,
    asked_bytes: u64,
    /// Periods to the next sample.
    periods: u32,
    min_age: Duration,
    /// Size at the mark that was set while the container started.
    marked_bytes: Option<u64>,
}

impl Controller {
    /// A controller for a container that has just appeared.
    pub fn new(profile: Profile, means: Means, file_only: bool, cost: Duration) -> Controller {
        Controller {
            profile,
            signals: SIGNALS,
            return_cost: cost,
            file_only,
            ageing: Ageing::new(means, profile.min_age),
            over_reclaim: OverReclaim::default(),
            returns: Returns::default(),
            balance: Balance::default(),
            trial: Trial::default(),
            restraint: Restraint::default(),
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

    /// Replaces the profile and keeps what is known of the container.
    pub fn set_profile(&mut self, profile: Profile) {
        if profile.min_age != self.profile.min_age {
            self.min_age = profile.min_age;
            self.ageing.renew(profile.min_age);
        }
        self.profile = profile;
    }

    /// Sets the measured cost of one refault.
    pub fn set_return_cost(&mut self, cost: Duration) {
        self.return_cost = cost;
    }

    /// Sets whether the world can reclaim page cache alone.
    pub fn set_file_only(&mut self, file_only: bool) {
        self.file_only = file_only;
    }

    /// Restarts the measurement of ages, because the world could not mark or measure.
    pub fn ageing_failed(&mut self) {
        self.ageing.renew(self.min_age);
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The age that memory must have to be reclaimed.
    pub fn min_age(&self) -> Duration {
        self.min_age
    }

    /// The mechanism that measures ages.
    pub fn means(&self) -> Means {
        self.ageing.means()
    }

    /// Idle memory by accessed bits. A world with generations reads them itself.
    pub fn idle(&self) -> Idle {
        self.ageing.idle()
    }

    /// Reports the result of [`Step::Measure`].
    pub fn measured(&mut self, now: Duration, idle_bytes: u64) {
        self.ageing.measured(now, idle_bytes);
    }

    /// Whether [`Controller::decide`] may use the counters of `counted`, the last complete reading,
    /// for `now`, where only the pressure totals, the size, and `idle` have been read.
    ///
    /// Nothing is reclaimed, whatever the counters are, where no memory is idle or the container is
    /// too small. Counters rarely change when nothing else does. If they do, the change is read at
    /// most a minute later, and before anything is reclaimed.
    pub fn can_rest(&self, counted: &Observation, now: &Observation) -> bool {
        // The effect of a request has to be counted.
        let nothing_asked = self.past.is_some() && self.asked_bytes == 0;
        let totals = |seen: &Observation| (seen.counters, seen.burst);
        nothing_asked
            && self.takes_nothing(now)
            && totals(now) == totals(counted)
            && now.current_bytes.abs_diff(counted.current_bytes) < STEADY_BYTES
            && now.at.checked_sub(counted.at).is_some_and(|passed| passed < MAX_REST)
    }

    /// The time before which nothing is reclaimed and no age step is due, for a container that stays
    /// like `now`. `None` if that depends on more than time.
    pub fn settled_until(&self, now: &Observation) -> Option<Duration> {
        if self.takes_nothing(now) { self.ageing.settled_until(now.at) } else { None }
    }

    /// Periods until the container is to be sampled next.
    ///
    /// A sample costs about 20 µs, most of them the kernel's for `memory.stat`. So a container that
    /// is idle (pressure at most half the threshold, and either a request or over-reclaim pending)
    /// is sampled every other period, and every fourth if it stays idle. A request then covers the
    /// allowance of all of these periods, as far as that is no more than the largest step of one
    /// period, so that on average the formula's amount is reclaimed. Each request still follows a
    /// sample, so that nothing is reclaimed after a change that the sample shows. A world that
    /// samples sooner gets the allowance of the periods that have passed.
    pub fn periods_to_next_look(&self) -> u32 {
        self.periods
    }

    /// Whether nothing would be reclaimed even without pressure and over-reclaim, and with enough swap.
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
            // The clock went backwards, so recorded times are invalid.
            self.ageing.renew(self.min_age);
            self.returns = Returns::default();
            self.balance = Balance::default();
            self.trial = Trial::default();
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
        let standing = &now.orders.standing;
        self.restraint = self.restraint.after(now.at, standing, self.profile.hold);

        let idle_at = Observation { idle: self.idle_of(now), ..*now };
        let mut decision = Decision {
            taken_bytes: taken_pages.saturating_mul(PAGE),
            returned_pages: returned,
            returned_anon_pages: returned_anon(&before, now),
            pressure,
            governing: pressure.governing(),
            ..self.nothing()
        };
        decision.guard = conditions::blocking(self.signals, &self.profile, &past, &idle_at)
            .or_else(|| self.restraint.guard(now.at, standing));
        decision.ageing = self.age(&decision.guard, now);
        if decision.guard.is_none() {
            self.allow(&past, &idle_at, periods, &mut decision);
        }
        decision.owed_bytes = self.over_reclaim.owed_bytes();
        decision.min_age = self.min_age;
        decision.cache_hides_anon = self.means() != Means::Generations && cache_hides_anon(now);
        self.asked_bytes = decision.reclaim.map_or(0, |reclaim| reclaim.bytes);
        self.periods = self.next_look(&decision);
        self.past = Some(History { before: *now, ..past });
        decision
    }

    /// Cancels the last request: the cgroup is gone, or the workers are busy.
    pub fn not_carried_out(&mut self) {
        self.asked_bytes = 0;
        self.periods = 1;
    }

    /// Periods that a sample stands for: those that passed, up to those that were announced.
    fn periods_between(&self, before: Duration, now: Duration) -> u32 {
        let passed = now.saturating_sub(before).as_secs_f64();
        let periods = (passed / self.profile.period.as_secs_f64()).round() as u32;
        periods.clamp(1, self.periods)
    }

    /// Periods to the sample after a decision: twice as many as before while the container is idle.
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
            returned_anon_pages: 0,
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

    /// Pages scanned per reclaimed page, smoothed over periods with a request.
    fn scanned(&self, past: &History, now: &Observation, taken_pages: u64) -> f64 {
        let scanned = now.stat.pgscan.saturating_sub(past.before.stat.pgscan);
        if self.asked_bytes == 0 {
            // Decays, so that a container that the scan guard blocks is tried again.
            return past.scanned_per_page * 0.9;
        }
        // One period in which hardly anything was found must not block for minutes.
        let most = self.profile.scan_limit * MAX_SCANNED;
        let now = (scanned as f64 / taken_pages.max(1) as f64).min(most);
        0.5 * past.scanned_per_page + 0.5 * now
    }

    /// Updates over-reclaim, idle memory, and refaults.
    fn count(&mut self, past: &mut History, now: &Observation, taken_pages: u64, returned: u64) {
        let taken_bytes = taken_pages.saturating_mul(PAGE);
        self.over_reclaim = self.over_reclaim.after(self.asked_bytes, taken_bytes);
        self.over_reclaim = self.over_reclaim.at_most(self.most_owed_bytes(now));
        self.ageing.taken(taken_bytes);
        self.returns.count(now.at, taken_pages, returned);
        self.balance.count(&past.before, now);
        self.trial.count(taken_pages);
        if !self.chose_badly(now) {
            return;
        }
        let (taken, returned) = self.returns.totals();
        self.trial = Trial::default();
        past.returning = Some((returned, taken, now.at + self.profile.hold));
        self.min_age = (self.min_age * 2).min(self.profile.min_age * MAX_MIN_AGE_FACTOR);
        let measured = match self.ageing.means() {
            Means::None => Duration::ZERO,
            Means::AccessedBits | Means::Generations => self.min_age,
        };
        self.returns.start_again(now.at + self.profile.hold.max(measured));
        self.ageing.renew(self.min_age);
    }

    /// What is allowed without pressure in [`MOST_OWED`].
    fn most_owed_bytes(&self, now: &Observation) -> u64 {
        let each = self.profile.senpai.reclaim_bytes(now.current_bytes, 0.0);
        let periods = MOST_OWED.div_duration_f64(self.profile.period);
        (each as f64 * periods) as u64
    }

    /// Whether refaults are too many for what they cost, or at any cost.
    fn chose_badly(&self, now: &Observation) -> bool {
        let affordable = self.profile.senpai.threshold * RETURN_COST;
        let is_costly = self.returns.share_of_time(self.return_cost) > affordable;
        // A trial is judged before the window of refaults is over.
        let is_on_trial = self.trial.is_running(now.at, self.min_age);
        let length = if is_on_trial { self.min_age.min(WINDOW) } else { WINDOW };
        let maximum = self.profile.return_maximum * length.div_duration_f64(WINDOW);
        self.returns.exceed(self.profile.return_limit) && is_costly || self.returns.exceed(maximum)
    }

    /// Idle memory, as measured by accessed bits or observed by generations.
    fn idle_of(&self, now: &Observation) -> Idle {
        match self.ageing.means() {
            Means::AccessedBits => self.ageing.idle(),
            Means::Generations if !self.ageing.is_ripe(now.at) => Idle::Measuring,
            Means::Generations | Means::None => now.idle,
        }
    }

    /// Marks ages while a guard blocks for an idle reason, too, but not under pressure: clearing
    /// bits costs the container faults of the walk.
    ///
    /// Marks start with the first sample, so that measuring ages and warm-up overlap: what has not
    /// been touched since a mark is idle, whatever the container did at the mark. Memory that was
    /// added later is not covered, so a container that has grown is marked again.
    fn age(&mut self, guard: &Option<Guard>, now: &Observation) -> Step {
        match guard {
            Some(Guard::FirstLook | Guard::WarmUp { .. }) => {
                self.marked_bytes.get_or_insert(now.current_bytes);
                self.ageing.step(now.at, false)
            }
            None | Some(Guard::Expanding { .. } | Guard::Contracting { .. }) => {
                let marked = self.marked_bytes.take();
                if marked.is_some_and(|bytes| now.current_bytes > bytes / 4 * 5) {
                    self.ageing.renew(self.min_age);
                }
                self.ageing.step(now.at, self.is_enough(now))
            }
            Some(_) => Step::Wait,
        }
    }

    /// Whether the idle memory suffices for all requests until a generation that begins now is old
    /// enough.
    fn is_enough(&self, now: &Observation) -> bool {
        let requests = self.min_age.as_secs_f64() / self.profile.period.as_secs_f64();
        let each = self.profile.senpai.reclaim_bytes(now.current_bytes, 0.0);
        let most = (each as f64 * requests.ceil()) as u64;
        matches!(self.idle_of(now), Idle::Bytes(bytes) if bytes >= most)
    }

    /// Whether the share of refaults matters at all, and not only their cost.
    fn has_trials(&self) -> bool {
        self.profile.return_maximum < 1.0
    }

    /// How many pages may be reclaimed as far as trials are concerned, and how long that holds.
    fn permitted(&self, now: &Observation) -> (u64, Duration) {
        if !self.has_trials() {
            return (u64::MAX, Duration::ZERO);
        }
        let most = now.current_bytes as f64 * self.profile.senpai.max_step / PAGE as f64;
        self.trial.permits(now.at, self.min_age, most as u64)
    }

    /// Sets what may be reclaimed for a number of periods.
    fn allow(&mut self, past: &History, now: &Observation, periods: u32, decision: &mut Decision) {
        let profile = &self.profile;
        let pressure = decision.governing.1;
        let each = profile.senpai.reclaim_bytes(now.current_bytes, pressure);
        let each = (each as f64 * self.restraint.share()) as u64;
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
        let shaped = if file_only { ask } else { shaped(ask, &now.room) };
        let (permitted, remaining) = self.permitted(now);
        let bytes = shaped
            .min(permitted.saturating_mul(PAGE))
            .min(now.current_bytes - floor)
            .min(if let Idle::Bytes(idle) = now.idle { idle } else { u64::MAX })
            .min(if file_only { now.stat.inactive_file } else { u64::MAX });
        decision.guard = match bytes {
            PAGE.. => None,
            _ if permitted == 0 => Some(Guard::Trial { remaining }),
            // There is no page cache to reclaim instead.
            _ if file_only => blocked,
            _ if allowance == 0 => Some(Guard::Pressure),
            _ if ask >= PAGE && shaped < PAGE => Some(Guard::WriteBudget),
            _ if ask == 0 => Some(Guard::OverReclaim { owed_bytes: over_reclaim.owed_bytes() }),
            _ => Some(Guard::Tiny),
        };
        if decision.guard.is_none() {
            if self.has_trials() {
                self.trial.begin(now.at);
            }
            // A round number of pages: what is below one would be rounded up by the kernel.
            let anon_weight = self.balance.anon_weight(profile.return_limit);
            decision.reclaim = Some(Reclaim { bytes: bytes / PAGE * PAGE, file_only, anon_weight });
        }
    }
}

/// What is requested of `bytes` where swap devices are to be spared.
fn shaped(bytes: u64, room: &Room) -> u64 {
    let admitted = (bytes as f64 * (1.0 - room.write_scarcity)) as u64;
    admitted.min(room.write_budget_bytes.unwrap_or(u64::MAX))
}

/// While more than this is on the inactive file list, small requests take nothing but page cache
/// (`get_scan_count`: the list shifted by the first priority, 12, is not empty).
const HIDING_BYTES: u64 = PAGE << 12;

fn cache_hides_anon(now: &Observation) -> bool {
    now.stat.inactive_file > HIDING_BYTES && now.stat.anon > now.stat.inactive_file
}
