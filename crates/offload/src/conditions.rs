//! The conditions of all guards: when a container is left alone, and how small it may become.

use crate::guard::{Guard, History};
use crate::observation::{Idle, Observation};
use crate::profile::Profile;
use crate::signal::{Signal, memory};
use std::time::Duration;

/// The first guard that blocks reclaim because of the observation itself, before anything is
/// computed.
pub fn blocking(
    signals: &[Signal],
    profile: &Profile,
    history: &History,
    now: &Observation,
) -> Option<Guard> {
    if let Some(remaining) = now.orders.emergency {
        return Some(Guard::Emergency { remaining });
    }
    let before = &history.before;
    let passed = now.at.saturating_sub(before.at);
    // A late tick is honest, and so is one that a change calls for; a suspended machine is not.
    if passed < profile.period / 2 || passed > profile.period * (history.periods + 2) {
        return Some(Guard::Clock { passed });
    }
    if let Some(what) = contradiction(before, now) {
        return Some(Guard::Contradiction { what });
    }
    let remaining = |until: Duration| Some(until.saturating_sub(now.at)).filter(|d| !d.is_zero());
    if let Some(remaining) = remaining(history.first_seen + profile.warm_up) {
        return Some(Guard::WarmUp { remaining });
    }
    if let Some(remaining) = remaining(history.hold_until) {
        return Some(Guard::Burst { remaining });
    }
    let by_signal = |signal: &Signal| (signal.guard?)(profile, history, now);
    signals.iter().find_map(by_signal).or_else(|| in_motion(profile, history, now))
}

/// Whether the container changes by itself, apart from reclaim.
fn in_motion(profile: &Profile, history: &History, now: &Observation) -> Option<Guard> {
    let before = history.before.current_bytes;
    if before == 0 {
        return None;
    }
    let grown = now.current_bytes as f64 - before as f64;
    let shrunk = -grown - history.taken_pages as f64 * 4096.0;
    let (growth, shrinkage) = (grown / before as f64, shrunk / before as f64);
    if growth > profile.motion_limit {
        return Some(Guard::Expanding { share: growth });
    }
    (shrinkage > profile.motion_limit).then_some(Guard::Contracting { share: shrinkage })
}

/// Counters that cannot be true together.
fn contradiction(before: &Observation, now: &Observation) -> Option<&'static str> {
    let wall_us = now.at.saturating_sub(before.at).as_micros() as u64;
    let (b, n) = (&before.stat, &now.stat);
    // The kernel books a stall when it ends, so a period can show a little more than itself.
    if now.grown(before, memory::SOME) > wall_us.saturating_mul(2) {
        return Some("memory.pressure grew by more than the time that passed");
    }
    let went_backwards = now.counters[memory::SOME] < before.counters[memory::SOME];
    if went_backwards || n.pgsteal < b.pgsteal || n.pgscan < b.pgscan {
        return Some("a counter went backwards");
    }
    if now.swap_bytes == 0 && n.zswapped > 1 << 20 {
        return Some("memory.swap.current is 0 while zswap holds pages");
    }
    (n.zswap > n.zswapped.saturating_mul(2).saturating_add(1 << 20))
        .then_some("zswap charges more than twice what it holds")
}

/// No container is made smaller than this: its profile's least size, or what the kernel protects.
pub fn floor_bytes(profile: &Profile, now: &Observation) -> u64 {
    profile.min_size_bytes.max(now.protected_bytes)
}

/// The first closed guard that concerns where memory could go and what of it could be taken.
/// `file_only` says that page cache can be taken alone.
pub fn no_target(
    profile: &Profile,
    now: &Observation,
    file_only: bool,
    scanned: f64,
) -> Option<Guard> {
    let floor_bytes = floor_bytes(profile, now);
    if now.current_bytes <= floor_bytes {
        return Some(Guard::Small { floor_bytes });
    }
    if let (Some(guard), false) = (anon_blocked(profile, now), file_only) {
        return Some(guard);
    }
    if scanned > profile.scan_limit {
        return Some(Guard::Scanning { per_page: scanned });
    }
    match now.idle {
        Idle::Measuring => Some(Guard::Ageing),
        Idle::Bytes(bytes) if bytes < 4096 => Some(Guard::NothingIdle),
        Idle::Bytes(_) | Idle::Unknown => None,
    }
}

/// Why anonymous memory must stay, whatever may happen to the page cache.
pub fn anon_blocked(profile: &Profile, now: &Observation) -> Option<Guard> {
    let room = &now.room;
    let free_bytes = room.swap_free_bytes;
    if room.swap_bytes == 0 || (free_bytes as f64) < profile.swap_reserve * room.swap_bytes as f64 {
        return Some(Guard::NoRoom { free_bytes });
    }
    if room.write_budget_bytes == Some(0) {
        return Some(Guard::WriteBudget);
    }
    if room.pool_gains_nothing {
        return Some(Guard::NoGain);
    }
    now.orders.yields.then_some(Guard::Yielding)
}
