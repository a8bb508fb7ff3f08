//! Prints Figure 9 of the 2006 anti-fragmentation paper: the share of a zone that reclaim without
//! regard to contiguity may have to free before it has a block.

use experiments::document::Document;
use prairie_frames::Order;
use prairie_sim::bench::reclaim_difficulty::{FRAMES, ORDERS, worst_case_simulated};
use prairie_sim::machine::worst_case_share;

fn main() -> serde_json::Result<()> {
    let columns = ["order", "formula, %", "worst case, simulated, %"];
    let mut document = Document::new("antifrag-figure-9", &columns, "1".to_owned());
    for order in ORDERS.iter().filter_map(|&order| Order::new(order)) {
        let shares = [worst_case_share(FRAMES, order), worst_case_simulated(order)];
        document.row(order.to_string(), shares.map(|share| format!("{:.2}", share * 100.0)));
    }
    println!("{}", serde_json::to_string_pretty(&[document])?);
    Ok(())
}
