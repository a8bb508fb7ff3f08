//! Results of a protocol check.

use prairie_migrate::check::{Counterexample, Finding, Line, Liveness, Result, Shape, Walk};
use prairie_migrate::protocol::property::Property;
use prairie_migrate::protocol::variant::Variant;
use prairie_report::{Cell, Column, SequenceChart, SequenceStep, Table, number};
use serde::Serialize;

/// One check.
#[derive(Serialize)]
pub struct Check {
    /// The model.
    pub model: &'static str,
    /// Its size; `None` for `german`.
    pub shape: Option<Shape>,
    /// Whether requests were delayed.
    pub coarse: bool,
    /// The injected bug, if any.
    pub variant: Option<Variant>,
    /// The one property that was checked; `None` for all.
    pub only: Option<u8>,
    /// The result of the search.
    pub finding: Finding,
    /// Properties 4 and 5; `None` if they were not checked.
    pub liveness: Option<Liveness>,
}

impl Check {
    /// The counterexample, if any.
    pub fn counterexample(&self) -> Option<&Counterexample> {
        let live = self.liveness.as_ref();
        match &self.finding.result {
            Result::Broken(found) => Some(found),
            _ => live.and_then(|live| live.waits_in_vain.as_ref().or(live.never_ends.as_ref())),
        }
    }

    /// Whether the result is as expected: an injected bug found, or no violation.
    pub fn is_right(&self) -> bool {
        let decided = !matches!(self.finding.result, Result::TooMany | Result::Stopped);
        decided && self.variant.is_some() == self.counterexample().is_some()
    }
}

/// Every bug that can be injected.
pub fn variants() -> Table {
    let row = |variant: &Variant| vec![cell(variant.name()), cell(variant.words())];
    Table {
        title: "Bugs that can be injected".to_owned(),
        columns: vec![Column::text("name"), Column::text("what is wrong")],
        rows: Variant::ALL.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), ..Cell::default() }
}

/// Several checks, a row each.
pub fn table(checks: &[Check]) -> Table {
    let row = |check: &Check| {
        let Finding { states, elapsed, bytes, .. } = check.finding;
        let found = check.counterexample();
        let property = found.and_then(|found| found.number);
        vec![
            cell(check.variant.map_or("none", Variant::name)),
            cell(property.map_or("not found".to_owned(), |number| number.to_string())),
            cell(found.map_or(String::new(), |found| found.steps.len().to_string())),
            cell(number::count(states)),
            cell(number::duration(elapsed.as_nanos() as u64)),
            cell(number::bytes(bytes)),
        ]
    };
    Table {
        title: "Injected bugs and the violated property".to_owned(),
        columns: vec![
            Column::text("injected bug"),
            Column::number("violates"),
            Column::number("steps"),
            Column::number("states"),
            Column::number("time"),
            Column::number("memory"),
        ],
        rows: checks.iter().map(row).collect(),
        notes: vec!["`violates` is the number of the property; `--variant NAME` shows how.".into()],
    }
}

/// One check in full.
pub fn single(check: &Check) -> String {
    let mut out = format!("{}\n\n", subject(check));
    let Finding { states, transitions, depth, widest, bytes, elapsed, collision_chance, .. } =
        check.finding;
    let seconds = elapsed.as_secs_f64();
    let mut line = |what: &str, text: String| out.push_str(&format!("{what:>22}  {text}\n"));
    line("states", number::count(states));
    line("transitions", number::count(transitions));
    line("depth", depth.to_string());
    line("widest level", number::count(widest));
    let rate = number::short(states as f64 / seconds.max(1e-9));
    line("time", format!("{} ({rate} states/s)", number::duration(elapsed.as_nanos() as u64)));
    let each = bytes as f64 / states.max(1) as f64;
    line("memory", format!("{} ({each:.0} bytes a state)", number::bytes(bytes)));
    line("collision probability", format!("{collision_chance:.1e}"));
    if let Some(live) = &check.liveness {
        let (states, steps) = (number::count(live.states), number::count(live.transitions));
        line("graph for 4 and 5", format!("{states} states, {steps} steps, no symmetry"));
    }
    out.push('\n');
    match (&check.finding.result, check.counterexample()) {
        (Result::TooMany, _) => out.push_str("Not decided: too many states.\n"),
        (Result::Stopped, _) => out.push_str("Not decided: interrupted.\n"),
        (_, Some(found)) => out.push_str(&chart(check, found).text()),
        (_, None) => out.push_str(&held(check)),
    }
    out
}

fn held(check: &Check) -> String {
    if check.shape.is_none() {
        return "Every state was visited, and both properties hold.\n".to_owned();
    }
    let lives = check.liveness.is_some();
    let looked_at = |property: &Property| {
        let decided = match property {
            Property::NobodyWaits | Property::MigrationsEnd => lives,
            Property::Refines => check.model == "message",
            _ => true,
        };
        check.only.is_none_or(|only| only == property.number()) && decided
    };
    let mut out = "Every state was visited. These properties hold:\n".to_owned();
    for property in Property::ALL.iter().filter(|property| looked_at(property)) {
        out += &format!("  {}. {property}\n", property.number());
    }
    if !lives && check.only.is_none_or(|only| matches!(only, 4 | 5)) {
        out += match check.coarse {
            true => "Properties 4 and 5 were not checked: --coarse omits who waits.\n",
            false => {
                "Properties 4 and 5 were not checked: --max-graph sets up to what size they are.\n"
            }
        };
    }
    out
}

fn subject(check: &Check) -> String {
    let size = check.shape.map(|shape| {
        let many = |n: u8, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (cores, devices) = (many(shape.cores, "core"), many(shape.devices, "device"));
        format!("{cores}, {devices}, {} a page", many(shape.lines, "line"))
    });
    let mut subject = match size {
        Some(size) => format!("Contiguitas-HW, {} layer: {size}", check.model),
        None => "German's cache protocol with data".to_owned(),
    };
    if check.coarse {
        subject += "\nrequests delayed as long as possible";
    }
    if let Some(variant) = check.variant {
        subject += &format!("\nwith the injected bug: {}", variant.words());
    }
    subject
}

/// Result of a random walk.
pub fn walk(walk: &Walk) -> String {
    let seconds = walk.elapsed.as_secs_f64();
    let rate = number::short(walk.steps as f64 / seconds.max(1e-9));
    let mut out = format!(
        "8 cores, 2 devices, four pages of 64 lines, at random from seed {}\n\n{} steps in {} \
         ({rate} steps/s)\n\n",
        walk.seed,
        number::count(walk.steps),
        number::duration(walk.elapsed.as_nanos() as u64),
    );
    for (name, times) in walk.done.named() {
        out += &format!("{:>15}  {name}\n", number::count(times));
    }
    out.push('\n');
    match &walk.broken {
        None => out += "No visited state violates property 1, 2 or 3.\n",
        Some(found) => {
            out += &format!("The last {} steps:\n", found.steps.len());
            for Line { from, to, words } in &found.steps {
                let who = if from == to { from.clone() } else { format!("{from} → {to}") };
                out += &format!("  {who}: {words}\n");
            }
            let number = found.number.map_or(String::new(), |n| format!("property {n}: "));
            out += &format!("Violates {number}{}.\n", found.ending);
        }
    }
    out
}

/// A counterexample as a sequence chart.
pub fn chart(check: &Check, found: &Counterexample) -> SequenceChart {
    let agents = found.agents();
    let place = |name: &String| agents.iter().position(|agent| agent == name).unwrap_or_default();
    let steps = found.steps.iter().map(|step| SequenceStep {
        from: place(&step.from),
        to: place(&step.to),
        text: step.words.clone(),
    });
    let number = found.number.map_or(String::new(), |number| format!("property {number}: "));
    SequenceChart {
        title: check.variant.map_or(found.property.clone(), |variant| variant.words().to_owned()),
        steps: steps.collect(),
        repeats_from: found.repeats_from,
        ending: format!("Violates {number}{}.", found.ending),
        agents,
    }
}
