//! Emergencies: the host's pressure is watched, limits are given back, a container is named, and
//! killed if that is configured.

use std::io;
use std::path::Path;
use std::time::Duration;

use prairie_daemon::file::{Buffer, Held};
use prairie_host::psi;

use super::Daemon;
use crate::check::oomd;
use crate::config::Config;
use crate::emergency::{Candidate, EVERY, Emergency, EmergencyDecision, VerdictAction};
use crate::world::kill;

/// The watch of the host, if a policy is configured.
#[derive(Debug)]
pub(super) struct Watched {
    emergency: Emergency,
    file: Held,
    next: Duration,
    stop_until: Option<Duration>,
}

impl Watched {
    /// Opens the host's pressure, if `config` has a policy.
    ///
    /// # Errors
    /// I/O errors of the system, with the file.
    pub fn open(config: &Config, proc: &Path) -> io::Result<Option<Watched>> {
        let Some(policy) = config.emergency else { return Ok(None) };
        let path = proc.join("pressure/memory");
        let file = Held::open(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let emergency = Emergency::new(policy);
        Ok(Some(Watched { emergency, file, next: Duration::ZERO, stop_until: None }))
    }

    /// The total of stall time of all tasks of the host, in microseconds.
    fn full_us(&self, buffer: &mut Buffer) -> io::Result<u64> {
        let name = "pressure/memory";
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let pressure = psi::parse(name, self.file.read_piece(buffer)?).map_err(invalid)?;
        let missing = || io::Error::other(format!("{name}: no line \"full\""));
        Ok(pressure.full.ok_or_else(missing)?.total_us)
    }
}

impl Daemon {
    /// Looks at the host's pressure when that is due. Returns when to look again.
    pub(super) fn watch_emergency(&mut self, now: Duration) -> Option<Duration> {
        let watched = self.emergency.as_mut()?;
        // Also after a clock that went back.
        if now < watched.next && watched.next <= now + EVERY {
            return Some(watched.next);
        }
        let next = now + EVERY;
        watched.next = next;
        match watched.full_us(&mut self.buffer) {
            Ok(full_us) => {
                let decision = watched.emergency.look(now, full_us);
                watched.stop_until = decision.stop_for.map(|rest| now + rest);
                self.follow_emergency(&decision);
            }
            Err(error) => self.report_once("the host", format!("emergencies: {error}")),
        }
        Some(next)
    }

    /// How long nothing is offloaded because of an emergency.
    pub(super) fn emergency_rest(&self, now: Duration) -> Option<Duration> {
        let until = self.emergency.as_ref()?.stop_until?;
        Some(until.saturating_sub(now)).filter(|rest| !rest.is_zero())
    }

    fn follow_emergency(&mut self, decision: &EmergencyDecision) {
        let percent = decision.full_share * 100.0;
        {
            let mut status = self.status.lock();
            status.emergency.active = decision.stop_for.is_some();
            status.emergency.full_share = decision.full_share;
            status.emergency.count += u64::from(decision.begins);
        }
        if decision.begins {
            self.setting.log.note(
                "emergency",
                format_args!("all tasks stalled for {percent:.1} % of time: offloading stops"),
            );
            self.give_back();
        }
        if decision.ends {
            self.setting.log.note("emergency", format_args!("over: offloading goes on"));
        }
        if decision.verdict_due {
            self.judge();
        }
    }

    /// Restores all limits of containers.
    fn give_back(&mut self) {
        for container in &mut self.containers {
            let mut leases = self.leases.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            leases.restore_below(&container.cgroup.directory);
            drop(leases);
            container.gives_up_slots = false;
            container.cgroup.refresh();
            // However idle it was, its status shows the emergency after a period.
            let period = container.controller.profile().period;
            container.due = container.due.min(container.seen.at + period);
        }
    }

    /// Names a container, and does about it what is configured.
    fn judge(&mut self) {
        let candidates = self.candidates();
        let others_decide = oomd::running(&self.setting.host).is_some();
        let Some(watched) = &self.emergency else { return };
        let Some(verdict) = watched.emergency.verdict(&candidates, others_decide) else {
            let what = "no container could be killed that frees memory";
            return self.setting.log.note("emergency", format_args!("{what}"));
        };
        let container = &self.containers[verdict.candidate];
        let path = &container.cgroup.path;
        let mut killed = false;
        let text = match (verdict.action, self.setting.dry_run) {
            (VerdictAction::Kill, true) => format!("{path}: dry run, else {verdict}"),
            (VerdictAction::Kill, false) => match kill::kill(&container.cgroup.directory) {
                Ok(()) => {
                    killed = true;
                    format!("{path}: {verdict}")
                }
                Err(error) => format!("{path}: cannot be killed: cgroup.kill: {error}"),
            },
            _ => format!("{path}: {verdict}"),
        };
        self.setting.log.note("emergency", format_args!("{text}"));
        let mut status = self.status.lock();
        status.emergency.verdict = text;
        status.emergency.killed += u64::from(killed);
    }

    /// Containers with processes, and what their end frees by a new look.
    fn candidates(&mut self) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (index, container) in self.containers.iter().enumerate() {
            let cgroup = &container.cgroup;
            if !kill::is_populated(&cgroup.directory) {
                continue;
            }
            let current = cgroup.current_bytes(&mut self.buffer).unwrap_or(0);
            let swap = cgroup.swap_bytes(&mut self.buffer).ok().flatten().unwrap_or(0);
            candidates.push(Candidate {
                index,
                priority: self.config.rules[container.rule].priority,
                bytes: current.saturating_add(swap),
                protected_bytes: container.seen.protected_bytes,
            });
        }
        candidates
    }
}
