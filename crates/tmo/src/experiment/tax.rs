//! Figure 10: the memory tax, offloaded with a relaxed objective.

use prairie_offload::Profile;

use crate::agent::{Agent, Driver};
use crate::app::{App, DATACENTER_TAX, MICROSERVICE_TAX};
use crate::backend::{Backend, Ssd};
use crate::findings::{Findings, Row, Value};
use crate::kernel::Kernel;

/// Memory of a server.
const SERVER_BYTES: u64 = 64 << 30;

const HOURS: f64 = 8.0;

pub fn run(seed: u64) -> Findings {
    // Shares of the server's memory: section 2.3, and what Figure 10 saves.
    let taxes = [(DATACENTER_TAX, 0.13, 0.09), (MICROSERVICE_TAX, 0.07, 0.04)];
    let mut totals = [0.0; 3];
    let mut rows: Vec<Row> = Vec::new();
    for (tax, share, paper) in taxes {
        let app = App { bytes: (SERVER_BYTES as f64 * share) as u64, ..tax };
        let mut container =
            super::container(&app, Backend::Device(Ssd::fast()), Kernel::LINUX_6_12, seed);
        let start = container.host_bytes() as f64;
        let mut driver = Driver::new(Agent::Published(Profile::sidecar().senpai), &container);
        driver.run(&mut container, HOURS * 3_600.0);
        let saved = share * (1.0 - container.host_bytes() as f64 / start);
        for (total, value) in totals.iter_mut().zip([share, saved, paper]) {
            *total += value;
        }
        let values = vec![Value::Share(share), Value::Share(saved), Value::Share(paper)];
        rows.push(Row { name: app.name.to_owned(), values });
    }
    rows.push(Row {
        name: "both".to_owned(),
        values: totals.into_iter().map(Value::Share).collect(),
    });
    Findings {
        title: "Figure 10: savings of the memory tax".to_owned(),
        paper: "9 % of a server's memory from the datacenter tax, 4 % from the microservice tax."
            .to_owned(),
        rows_are: "tax",
        columns: ["of memory", "saved", "saved in the paper"].map(str::to_owned).to_vec(),
        rows,
        notes: vec![format!(
            "{HOURS} hours of the formula with the parameters of the profile `sidecar`, on an SSD. How \
             cold the tax is, the paper does not say: 75 and 65 % are ours."
        )],
        ..Findings::default()
    }
}
