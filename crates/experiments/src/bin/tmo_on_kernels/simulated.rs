//! The simulation of a guest's setting.

use prairie_model::random::{Random, Spread};
use prairie_offload::g_swap::GSwap;
use prairie_offload::senpai::Senpai;
use prairie_tmo::agent::{Agent, Driver};
use prairie_tmo::app::App;
use prairie_tmo::backend::{Backend, Ssd, Zswap};
use prairie_tmo::container::{Container, ContainerParts, Counters};
use prairie_tmo::experiment::web::{self, LOOK_S, Server};
use prairie_tmo::kernel::Kernel;

use crate::measured::Setting;
use crate::outcome::{LAST_S, Outcome};

/// A device that answers each request after that time.
fn device(name: &'static str, us: f64) -> Ssd {
    let mut ssd = Ssd::new(name, us, 64, 0.0);
    ssd.read = Spread::fixed(us * 1e3);
    ssd
}

fn agent(setting: &Setting) -> Agent {
    let Setting { ratio: reclaim_ratio, threshold, .. } = *setting;
    match setting.agent.as_str() {
        "published" => Agent::Published(Senpai { reclaim_ratio, threshold, ..Senpai::default() }),
        "promotions" => Agent::GSwap(GSwap::default()),
        _ => Agent::None,
    }
}

fn backend(setting: &Setting, wait_us: Option<f64>) -> Backend {
    match setting.backend.trim_end_matches("us") {
        "none" => Backend::None,
        "zswap" => {
            let read = wait_us.map_or(Zswap::default().read, |us| Spread::fixed(us * 1e3));
            Backend::Zswap(Zswap { read, ..Zswap::default() })
        }
        us => Backend::Device(device("device", wait_us.unwrap_or(us.parse().unwrap_or(470.0)))),
    }
}

/// Runs a setting, with the waits that were measured in the guest for anonymous pages and files.
pub fn simulate(setting: &Setting, waits: [Option<f64>; 2]) -> Outcome {
    let backend = backend(setting, waits[0]);
    let disk = device("disk", waits[1].unwrap_or(470.0));
    let kernel = Kernel::LINUX_6_12;
    let (bytes, real_pages, busy_tasks) = (setting.mib << 20, 1, 1);
    match App::named(&setting.application) {
        Some(app) => {
            let parts = ContainerParts {
                pages: app.pages((bytes / 4096) as usize, &mut Random::new(setting.seed)),
                real_pages,
                compression: app.compression,
                busy_tasks,
                backend,
                disk,
                swap_bytes: bytes,
                kernel,
            };
            application(setting, Container::new(parts, setting.seed))
        }
        None => {
            let size = web::Setting { limit_bytes: bytes, real_pages, busy_tasks, disk, kernel };
            server(setting, Server::new(size, backend, setting.seed))
        }
    }
}

fn application(setting: &Setting, mut container: Container) -> Outcome {
    let mut driver = Driver::new(agent(setting), &container);
    let start = container.resident_bytes().map(|bytes| bytes as f64);
    driver.run(&mut container, setting.seconds - LAST_S);
    let before = *container.counters();
    driver.run(&mut container, setting.seconds);
    let resident = container.resident_bytes().map(|bytes| bytes as f64);
    let all = start[0] + start[1];
    let away = [0, 1].map(|kind| (start[kind] - resident[kind]) / all);
    Outcome { away, least_rate: 1.0, rate: 1.0, ..outcome(&container, &before) }
}

fn server(setting: &Setting, mut server: Server) -> Outcome {
    let mut driver = Driver::new(agent(setting), &server.container);
    let mut before = *server.container.counters();
    let (mut most_saved, mut least_rate) = (0.0f64, 1.0f64);
    let mut rates = Vec::new();
    while server.container.now_s() < setting.seconds {
        let is_last = server.container.now_s() >= setting.seconds - LAST_S;
        if !is_last {
            before = *server.container.counters();
        }
        server.live(&mut driver);
        most_saved = most_saved.max(saved(&server.container));
        least_rate = least_rate.min(server.requests.rate);
        if is_last {
            rates.push(server.requests.rate);
        }
    }
    let rate = rates.iter().sum::<f64>() * LOOK_S / LAST_S;
    let end = outcome(&server.container, &before);
    let away = [end.swapped_bytes / server.container.filled_bytes() as f64, f64::NAN];
    Outcome { most_saved, least_rate, rate, away, ..end }
}

fn saved(container: &Container) -> f64 {
    1.0 - container.host_bytes() as f64 / container.filled_bytes() as f64
}

/// What the container shows at the end, with rates since `before`.
fn outcome(container: &Container, before: &Counters) -> Outcome {
    let now = container.counters();
    let swap_ins = now.zswap[0] + now.device[0] - before.zswap[0] - before.device[0];
    Outcome {
        saved: saved(container),
        pressure: [0, 1].map(|at| (now.some_us[at] - before.some_us[at]) / LAST_S / 1e6),
        returns_a_second: (now.major_faults - before.major_faults) as f64 / LAST_S,
        swap_ins_a_second: swap_ins as f64 / LAST_S,
        // What is in memory as well keeps its slot.
        swapped_bytes: (container.swap_bytes() - container.stat().swapcached) as f64,
        ..Outcome::default()
    }
}
