//! Figure 11: a memory-bound Web server. And the server itself, for Figure 12.

use crate::access::Rhythm;
use crate::agent::{Agent, Driver};
use crate::app::WEB;
use crate::backend::{Backend, Ssd, Zswap};
use crate::container::{Container, ContainerParts};
use crate::findings::{Curves, Findings, Row, Unit, Value};
use crate::kernel::Kernel;
use prairie_model::random::Random;

/// The file system's cache, loaded at the start.
const CACHE: f64 = 0.40;

/// Anonymous memory that requests load over time, as a share of the limit, and the time in which a
/// server at full rate has loaded all but a third of it.
const LOADED: f64 = 0.50;
const LOADING_S: f64 = 3_600.0;

/// Memory of the requests under way at full rate, and what the server keeps free.
const IN_FLIGHT: f64 = 0.20;
const RESERVE: f64 = 0.02;

/// Seconds between two looks of the server at its free memory.
pub const LOOK_S: f64 = 30.0;

/// The size of a server, and what it runs on.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Memory that the server may have.
    pub limit_bytes: u64,
    /// Real pages that a page of the model stands for.
    pub real_pages: u32,
    /// Tasks that are busy at any time.
    pub busy_tasks: u32,
    /// Where files are.
    pub disk: Ssd,
    /// Its kernel.
    pub kernel: Kernel,
}

impl Default for Setting {
    /// Most of a host of 64 GiB (§4.2).
    fn default() -> Setting {
        Setting {
            limit_bytes: 52 << 30,
            real_pages: super::REAL_PAGES,
            busy_tasks: WEB.busy_tasks,
            disk: Ssd::fast(),
            kernel: Kernel::LINUX_6_12,
        }
    }
}

impl Setting {
    /// Pages of the file system's cache, and of the anonymous memory that requests load.
    pub fn pages(&self, seed: u64) -> [Vec<Rhythm>; 2] {
        let mut random = Random::new(seed);
        [CACHE, LOADED].map(|share| {
            let pages = self.limit_bytes as f64 * share / 4096.0 / f64::from(self.real_pages);
            WEB.rhythms(pages as usize, &mut random)
        })
    }
}

/// Requests to the server, whose rate it lowers rather than run out of memory.
#[derive(Clone, Debug)]
pub struct Requests {
    /// Requests a second, as a share of what it could do with memory enough.
    pub rate: f64,
    /// Requests so far, in seconds at full rate.
    done: f64,
    limit_bytes: f64,
}

impl Requests {
    /// At full rate.
    pub fn new(limit_bytes: u64) -> Requests {
        Requests { rate: 1.0, done: 0.0, limit_bytes: limit_bytes as f64 }
    }

    /// The share of the anonymous memory that is loaded after another [`LOOK_S`] seconds.
    pub fn load(&mut self) -> f64 {
        self.done += self.rate * LOOK_S;
        1.0 - (-self.done / LOADING_S).exp()
    }

    /// Sets the rate that leaves the reserve free, less what waiting for pages costs: a share of
    /// the time of all busy tasks.
    pub fn throttle(&mut self, host_bytes: u64, waiting: f64) {
        let free = self.limit_bytes * (1.0 - RESERVE) - host_bytes as f64;
        let fits = (free / (self.limit_bytes * IN_FLIGHT)).clamp(0.0, 1.0);
        self.rate = fits * (1.0 - waiting).max(0.0);
    }
}

/// A simulated Web server.
pub struct Server {
    /// Its memory.
    pub container: Container,
    /// Its requests.
    pub requests: Requests,
    unloaded: Vec<Rhythm>,
    loaded: usize,
    waited_us: f64,
    busy_tasks: u32,
}

impl Server {
    /// A server that has loaded its files and nothing else.
    pub fn new(setting: Setting, backend: Backend, seed: u64) -> Server {
        let [files, unloaded] = setting.pages(seed);
        let Setting { limit_bytes, real_pages, busy_tasks, disk, kernel } = setting;
        let made = ContainerParts {
            pages: files.into_iter().map(|rhythm| (rhythm, true)).collect(),
            real_pages,
            compression: WEB.compression,
            busy_tasks,
            backend,
            disk,
            swap_bytes: limit_bytes,
            kernel,
        };
        Server {
            container: Container::new(made, seed),
            requests: Requests::new(limit_bytes),
            unloaded,
            loaded: 0,
            waited_us: 0.0,
            busy_tasks,
        }
    }

    /// Lives on for [`LOOK_S`] seconds, with an agent.
    pub fn live(&mut self, driver: &mut Driver) {
        let until = self.container.now_s() + LOOK_S;
        driver.run(&mut self.container, until);
        let wanted = (self.unloaded.len() as f64 * self.requests.load()) as usize;
        let new = self.unloaded[self.loaded..wanted].iter().map(|rhythm| (*rhythm, false));
        self.container.grow(new.collect::<Vec<_>>());
        self.loaded = wanted;
        let waited_us = self.container.counters().waited_us;
        let all_us = LOOK_S * 1e6;
        let waiting = (waited_us - self.waited_us) / all_us / f64::from(self.busy_tasks);
        self.waited_us = waited_us;
        self.requests.throttle(self.container.host_bytes(), waiting);
    }
}

pub(super) fn run(seed: u64) -> Findings {
    let tiers = [
        ("no offloading", Backend::None, Agent::None),
        ("SSD", Backend::Device(Ssd::fast()), Agent::published(0.0005)),
        ("compressed memory", Backend::Zswap(Zswap::default()), Agent::published(0.0005)),
    ];
    let (mut rates, mut sizes, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (name, backend, agent) in tiers {
        let mut server = Server::new(Setting::default(), backend, seed);
        let mut driver = Driver::new(agent, &server.container);
        let (mut rate, mut size) = (Vec::new(), Vec::new());
        let mut most_saved = 0.0f64;
        while server.container.now_s() < 7_200.0 {
            server.live(&mut driver);
            let (now, current) = (server.container.now_s(), server.container.host_bytes());
            rate.push((now, server.requests.rate));
            size.push((now, current as f64));
            let filled = (server.container.filled_bytes() - current) as f64;
            most_saved = most_saved.max(filled / server.container.filled_bytes() as f64);
        }
        let least = rate.iter().map(|(_, rate)| *rate).fold(1.0, f64::min);
        rows.push(Row {
            name: name.to_owned(),
            values: vec![
                Value::Share(1.0 - least),
                Value::Share(1.0 - server.requests.rate),
                Value::Share(most_saved),
            ],
        });
        rates.push((name.to_owned(), rate));
        sizes.push((name.to_owned(), size));
    }
    Findings {
        title: "Figure 11: a memory-bound Web server".to_owned(),
        paper: "Without offloading requests per second fall by more than 20 % within two hours; \
                with it they do not. Compressed memory saves 13 % of Web's memory, an SSD 4 %."
            .to_owned(),
        rows_are: "tier",
        columns: ["largest drop in requests", "drop after 2 h", "most saved"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        curves: vec![
            Curves {
                title: "Requests a second, as a share of what memory enough allows".to_owned(),
                quantity: "requests",
                unit: Unit::Share,
                series: rates,
            },
            Curves {
                title: "Memory".to_owned(),
                quantity: "memory",
                unit: Unit::Bytes,
                series: sizes,
            },
        ],
        notes: vec![
            "How much the server loads and how much a request needs are chosen so that memory runs \
             short: the drop without offloading is an assumption, what becomes of it is the result."
                .to_owned(),
        ],
        ..Findings::default()
    }
}
