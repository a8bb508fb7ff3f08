//! Figure 11: a memory-bound Web server. And the server itself, for Figure 12.

use crate::access::Rhythm;
use crate::agent::{Agent, Driver};
use crate::app::{App, WEB};
use crate::backend::{Backend, Ssd, Zswap};
use crate::container::{Container, ContainerParts};
use crate::findings::{Curves, Findings, Row, Unit, Value};
use crate::kernel::Kernel;
use prairie_model::random::Random;

/// Memory that the server may have: most of a host of 64 GiB (§4.2).
const LIMIT_BYTES: u64 = 52 << 30;

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
const LOOK_S: f64 = 30.0;

/// A Web server that lowers its rate of requests rather than run out of memory.
pub(super) struct Server {
    pub container: Container,
    /// Requests a second, as a share of what it could do with memory enough.
    pub rate: f64,
    /// Requests so far, in seconds at full rate.
    requests: f64,
    unloaded: Vec<Rhythm>,
    loaded: usize,
    waited_us: f64,
}

impl Server {
    pub fn new(backend: Backend, seed: u64) -> Server {
        let mut random = Random::new(seed);
        let pages = |share: f64| {
            (LIMIT_BYTES as f64 * share / 4096.0 / f64::from(super::REAL_PAGES)) as usize
        };
        let App { compression, busy_tasks, .. } = WEB;
        let files = WEB.rhythms(pages(CACHE), &mut random);
        let made = ContainerParts {
            pages: files.into_iter().map(|rhythm| (rhythm, true)).collect(),
            real_pages: super::REAL_PAGES,
            compression,
            busy_tasks,
            backend,
            disk: Ssd::fast(),
            swap_bytes: LIMIT_BYTES,
            kernel: Kernel::LINUX_6_12,
        };
        Server {
            container: Container::new(made, seed),
            rate: 1.0,
            requests: 0.0,
            unloaded: WEB.rhythms(pages(LOADED), &mut random),
            loaded: 0,
            waited_us: 0.0,
        }
    }

    /// Lives on for a while, with an agent.
    pub fn live(&mut self, driver: &mut Driver) {
        let until = self.container.now_s() + LOOK_S;
        driver.run(&mut self.container, until);
        self.requests += self.rate * LOOK_S;
        let wanted = 1.0 - (-self.requests / LOADING_S).exp();
        let wanted = (self.unloaded.len() as f64 * wanted) as usize;
        let new = self.unloaded[self.loaded..wanted].iter().map(|rhythm| (*rhythm, false));
        self.container.grow(new.collect::<Vec<_>>());
        self.loaded = wanted;
        self.throttle();
    }

    /// The rate that leaves the reserve free, less what waiting for pages costs.
    fn throttle(&mut self) {
        let limit = LIMIT_BYTES as f64;
        let free = limit * (1.0 - RESERVE) - self.container.host_bytes() as f64;
        let waited_us = self.container.counters().waited_us;
        let tasks = f64::from(WEB.busy_tasks);
        let waiting = (waited_us - self.waited_us) / (LOOK_S * 1e6) / tasks;
        self.waited_us = waited_us;
        self.rate = (free / (limit * IN_FLIGHT)).clamp(0.0, 1.0) * (1.0 - waiting).max(0.0);
    }
}

pub fn run(seed: u64) -> Findings {
    let tiers = [
        ("no offloading", Backend::None, Agent::None),
        ("SSD", Backend::Device(Ssd::fast()), Agent::published(0.0005)),
        ("compressed memory", Backend::Zswap(Zswap::default()), Agent::published(0.0005)),
    ];
    let (mut rates, mut sizes, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (name, backend, agent) in tiers {
        let mut server = Server::new(backend, seed);
        let mut driver = Driver::new(agent, &server.container);
        let (mut rate, mut size) = (Vec::new(), Vec::new());
        let mut most_saved = 0.0f64;
        while server.container.now_s() < 7_200.0 {
            server.live(&mut driver);
            let (now, current) = (server.container.now_s(), server.container.host_bytes());
            rate.push((now, server.rate));
            size.push((now, current as f64));
            let filled = (server.container.filled_bytes() - current) as f64;
            most_saved = most_saved.max(filled / server.container.filled_bytes() as f64);
        }
        let least = rate.iter().map(|(_, rate)| *rate).fold(1.0, f64::min);
        rows.push(Row {
            name: name.to_owned(),
            values: vec![
                Value::Share(1.0 - least),
                Value::Share(1.0 - server.rate),
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
