//! Agents that reclaim from a container: the controllers of the crate `offload`, with a simulated
//! clock and simulated files.

use std::time::Duration;

use prairie_offload::ageing::{Means, Step};
use prairie_offload::g_swap::GSwap;
use prairie_offload::oomd::{Oomd, OomdObservation};
use prairie_offload::pressure::Pressure;
use prairie_offload::senpai::Senpai;
use prairie_offload::senpai_py::SenpaiPy;
use prairie_offload::signal::returned::returned_pages;
use prairie_offload::signal::{io, memory};
use prairie_offload::{Controller, Idle, Observation, Profile};

use super::container::Container;
use crate::psi::kernel::{Group, Line, PressureFile, TaskCounts};
use crate::psi::{Resource, Task};

/// Seconds between two steps of the published formula, and of g-swap here.
const PERIOD_S: f64 = 6.0;

/// Seconds between two steps of oomd's plugin: its loop of 5 s counts six ticks down to zero.
const OOMD_S: f64 = 35.0;

/// An agent.
pub enum Agent {
    /// No agent.
    None,
    /// The formula as published: memory and IO pressure, no guard, no age.
    Published(Senpai),
    /// Prairie's controller.
    Prairie(Box<Controller>),
    /// A fixed rate of promotions.
    GSwap(GSwap),
    /// `senpai.py`.
    SenpaiPy(Option<SenpaiPy>),
    /// oomd's plugin, and the running averages that it reads.
    Oomd(Oomd, Box<[Group; 2]>),
}

impl Agent {
    /// The formula with a ratio and the paper's threshold.
    pub fn published(reclaim_ratio: f64) -> Agent {
        Agent::Published(Senpai { reclaim_ratio, ..Senpai::default() })
    }

    /// Prairie's controller, telling age by `means`; a page's return costs `return_cost`.
    pub fn prairie(profile: Profile, means: Means, return_cost: Duration) -> Agent {
        Agent::Prairie(Box::new(Controller::new(profile, means, true, return_cost)))
    }

    /// `senpai.py` with its defaults.
    pub fn senpai_py() -> Agent {
        Agent::SenpaiPy(None)
    }

    /// oomd's plugin with its defaults.
    pub fn oomd() -> Agent {
        let group = |resource| Group::new(resource, 1);
        Agent::Oomd(Oomd::default(), Box::new([group(Resource::Memory), group(Resource::Io)]))
    }
}

/// Refaulted pages since the last period at which Prairie's daemon lowers the limit on swap, so
/// that the kernel frees the slots of refaulted pages. The daemon's own threshold is 16
/// (`offload/src/daemon/slots.rs`).
const REFAULTING_PAGES: u64 = 64;

/// An agent at work on one container.
pub struct Driver {
    agent: Agent,
    before: Option<Observation>,
    next_s: f64,
    stalls_us: [u64; 2],
}

impl Driver {
    /// The agent, which first looks now.
    pub fn new(agent: Agent, container: &Container) -> Driver {
        Driver { agent, before: None, next_s: container.now_s(), stalls_us: [0; 2] }
    }

    /// Runs the container and its agent until `to_s`, in whole seconds.
    pub fn run(&mut self, container: &mut Container, to_s: f64) {
        while container.now_s() < to_s {
            container.advance((container.now_s() + 1.0).min(to_s));
            self.second(container);
        }
    }

    fn second(&mut self, container: &mut Container) {
        if let Agent::SenpaiPy(Some(law)) = &self.agent {
            container.hold_below(law.limit_bytes());
        }
        let now = container.observe();
        self.average(&now);
        if let (Agent::Prairie(_), Some(before)) = (&self.agent, &self.before)
            && returned_pages(before, &now) >= REFAULTING_PAGES
        {
            // As its daemon sees between two periods, within a second.
            container.gives_up_slots = true;
        }
        if container.now_s() < self.next_s {
            return;
        }
        self.next_s += match &self.agent {
            Agent::Prairie(controller) => controller.profile().period.as_secs_f64(),
            Agent::SenpaiPy(_) => 1.0,
            Agent::Oomd(..) => OOMD_S,
            _ => PERIOD_S,
        };
        self.act(container, &now);
        self.before = Some(now);
    }

    fn act(&mut self, container: &mut Container, now: &Observation) {
        let before = self.before.unwrap_or(*now);
        match &mut self.agent {
            Agent::None => {}
            Agent::Published(law) => {
                let pressure = Pressure::between(&before, now, Duration::ZERO).governing().1;
                take(container, law.reclaim_bytes(now.current_bytes, pressure));
            }
            Agent::GSwap(law) => take(container, law.reclaim_bytes(&before, now)),
            Agent::SenpaiPy(law) => {
                let law = law.get_or_insert_with(|| SenpaiPy::new(now.current_bytes));
                if let Some(limit) =
                    law.tick(now.counters[memory::SOME] - before.counters[memory::SOME])
                {
                    container.hold_below(limit);
                }
            }
            Agent::Oomd(law, groups) => {
                let now_ns = now.at.as_nanos() as u64;
                let [memory, io] = [0, 1].map(|at| stall(&groups[at].read(now_ns)));
                let seen = OomdObservation {
                    current_bytes: now.current_bytes,
                    file_bytes: now.stat.file,
                    anon_bytes: now.stat.anon,
                    swap: (now.room.swap_bytes, now.room.swap_free_bytes),
                    memory,
                    io,
                };
                take(container, law.reclaim_bytes(&seen));
            }
            Agent::Prairie(controller) => {
                container.gives_up_slots &= returned_pages(&before, now) > 0;
                decide(controller, container, now);
            }
        }
    }

    /// Keeps the running averages that oomd's plugin reads: a second's stall as one piece.
    fn average(&mut self, now: &Observation) {
        let Agent::Oomd(_, groups) = &mut self.agent else { return };
        let second = now.at.as_nanos() as u64;
        for (at, total) in
            [now.counters[memory::SOME], now.counters[io::SOME]].into_iter().enumerate()
        {
            let grown = total.saturating_sub(self.stalls_us[at]).min(1_000_000);
            self.stalls_us[at] = total;
            let wait = [Task::Stalled(Resource::Memory), Task::Stalled(Resource::Io)][at];
            let began = second.saturating_sub(1_000_000_000);
            groups[at].set(began, 0, TaskCounts::of(&[wait]));
            groups[at].set(began + grown * 1_000, 0, TaskCounts::of(&[Task::Productive]));
        }
    }
}

fn stall(shown: &PressureFile) -> prairie_host::psi::Stall {
    let [avg10, avg60, avg300] = shown.hundredths(Line::Some).map(|value| value as u32);
    prairie_host::psi::Stall { avg10, avg60, avg300, total_us: shown.total_us(Line::Some) }
}

fn take(container: &mut Container, bytes: u64) {
    if bytes >= 4096 {
        container.reclaim(bytes, false);
    }
}

/// One period of Prairie's controller, as its daemon goes through it.
fn decide(controller: &mut Controller, container: &mut Container, now: &Observation) {
    let age_s = controller.min_age().as_secs_f64();
    let generations = controller.means() == Means::Generations;
    let mut now = *now;
    if generations {
        now.idle = Idle::Bytes(container.idle_bytes(age_s));
    }
    let decision = controller.decide(&now);
    match decision.ageing {
        Step::Wait => {}
        Step::Mark if generations => container.begin_generation(),
        Step::Mark => container.clear_accessed(),
        Step::Measure => controller.measured(now.at, container.untouched_bytes()),
    }
    match decision.reclaim {
        Some(reclaim) if generations => {
            container.evict_idle(reclaim.bytes, age_s, reclaim.file_only);
        }
        Some(reclaim) => {
            container.reclaim(reclaim.bytes, reclaim.file_only);
        }
        None => {}
    }
}
