//! The thresholds of verdicts on their page are those of the code.

use prairie_host::verdict::SCALES;

/// The page shows each threshold and each source word for word.
#[test]
fn the_documented_table_is_this_one() {
    let page = std::fs::read_to_string(experiments::root().join("docs/src/concepts/verdicts.md"))
        .expect("the page");
    let percent = |share: f64| format!("{} %", (share * 100.0).round());
    for scale in SCALES {
        let row = page.lines().find(|line| line.starts_with(&format!("| {} |", scale.label)));
        let row = row.unwrap_or_else(|| panic!("no row {:?}", scale.label));
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(
            cells[1..],
            [
                scale.better.word(),
                &percent(scale.good),
                scale.good_source,
                &percent(scale.poor),
                scale.poor_source
            ]
        );
    }
}
