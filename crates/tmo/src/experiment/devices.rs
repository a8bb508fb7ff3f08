//! Figure 12: PSI compared with a promotion rate, on a fast and on a slow SSD.

use prairie_offload::g_swap::GSwap;

use super::web::{Server, Setting};
use crate::agent::{Agent, Driver};
use crate::backend::{Backend, Ssd};
use crate::findings::{Curves, Findings, Row, Unit, Value};

/// How long the servers run, and the last part over which rates are taken.
const HOURS: f64 = 6.0;
const LAST_S: f64 = 3_600.0;

/// A judge by its name; each run makes its own.
type Judge = (&'static str, fn() -> Agent);

const JUDGES: [Judge; 2] =
    [("PSI", || Agent::published(0.0005)), ("promotion rate", || Agent::GSwap(GSwap::default()))];

pub fn run(seed: u64) -> Findings {
    let (mut rows, mut sizes) = (Vec::new(), Vec::new());
    for (judge, agent) in JUDGES {
        for ssd in [Ssd::fast(), Ssd::slow()] {
            let name = format!("{judge}, {}", ssd.name);
            let agent = agent();
            let mut server = Server::new(Setting::default(), Backend::Device(ssd), seed);
            let mut driver = Driver::new(agent, &server.container);
            let mut swapped = Vec::new();
            let mut before = *server.container.counters();
            let (mut rates, mut looks) = (0.0, 0.0);
            while server.container.now_s() < HOURS * 3_600.0 {
                let last = server.container.now_s() >= HOURS * 3_600.0 - LAST_S;
                if !last {
                    before = *server.container.counters();
                }
                server.live(&mut driver);
                swapped.push((server.container.now_s(), server.container.swap_bytes() as f64));
                if last {
                    rates += server.requests.rate;
                    looks += 1.0;
                }
            }
            let now = server.container.counters();
            let per_second = |pages: u64| pages as f64 / LAST_S;
            let share = |at: usize| (now.some_us[at] - before.some_us[at]) / LAST_S / 1e6;
            rows.push(Row {
                name: name.clone(),
                values: vec![
                    Value::Bytes(server.container.swap_bytes() as i64),
                    Value::Share(
                        1.0 - server.container.host_bytes() as f64
                            / server.container.filled_bytes() as f64,
                    ),
                    Value::Rate(per_second(now.device[0] - before.device[0])),
                    Value::Share(share(0)),
                    Value::Share(share(1)),
                    Value::Share(rates / looks),
                ],
            });
            sizes.push((name, swapped));
        }
    }
    Findings {
        title: "Figure 12: fast against slow SSD".to_owned(),
        paper: "PSI offloads more on the faster device, reads more back from it, serves more \
                requests with it, and holds the pressure on both; a fixed promotion rate cannot."
            .to_owned(),
        rows_are: "judge, device",
        columns: [
            "swapped out",
            "saved",
            "swap-ins / s",
            "memory pressure",
            "IO pressure",
            "requests",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows,
        curves: vec![Curves {
            title: "Swapped out".to_owned(),
            quantity: "swap",
            unit: Unit::Bytes,
            series: sizes,
        }],
        notes: vec![format!("The Web server for {HOURS} hours; rates over the last hour.")],
        ..Findings::default()
    }
}
