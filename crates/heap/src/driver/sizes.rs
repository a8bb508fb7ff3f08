//! Which sizes a program has live and which it allocates.

use serde::Deserialize;

/// Sizes, each with its share of live and of allocated bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    name: String,
    of_spans: bool,
    entries: Vec<Entry>,
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The size.
    pub bytes: u64,
    /// Its share of live bytes.
    pub live: f64,
    /// Its share of allocated bytes. Where it is less than that of live bytes, objects of this size
    /// live longer than others.
    pub allocated: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: String,
    /// Says where the figures come from; for readers of the file.
    #[serde(rename = "about")]
    _about: Option<String>,
    #[serde(default)]
    spans: bool,
    sizes: Vec<Entry>,
}

/// The shipped distributions.
pub const NAMES: [&str; 5] = ["figure-4", "figure-5", "figure-10", "figure-11", "many-sizes"];

impl Sizes {
    /// A shipped distribution by its name. `None` for a name that is not in [`NAMES`].
    pub fn named(name: &str) -> Option<Sizes> {
        let text = match name {
            "figure-4" => include_str!("figure-4.toml"),
            "figure-5" => include_str!("figure-5.toml"),
            "figure-10" => include_str!("figure-10.toml"),
            "figure-11" => include_str!("figure-11.toml"),
            "many-sizes" => include_str!("many-sizes.toml"),
            _ => return None,
        };
        Some(Sizes::parse(text).expect("what is shipped is sound"))
    }

    /// A distribution in TOML. Shares are scaled so that they add up to one.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn parse(text: &str) -> Result<Sizes, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        let Document { name, spans, sizes: mut entries, .. } = document;
        if entries.is_empty() || entries.len() > 10_000 {
            return Err("a distribution has from one to 10,000 sizes".to_owned());
        }
        if let Some(entry) = entries.iter().find(|entry| !(8..1 << 40).contains(&entry.bytes)) {
            return Err(format!("a size is from 8 bytes to 1 TiB, not {}", entry.bytes));
        }
        let shares = |entry: &Entry| [entry.live, entry.allocated];
        let sound = |share: f64| share.is_finite() && share > 0.0;
        if let Some(entry) = entries.iter().find(|entry| !shares(entry).into_iter().all(sound)) {
            return Err(format!("the shares of {} bytes are not both above 0", entry.bytes));
        }
        let [live, allocated] =
            [0, 1].map(|i| entries.iter().map(|entry| shares(entry)[i]).sum::<f64>());
        for entry in &mut entries {
            entry.live /= live;
            entry.allocated /= allocated;
        }
        Ok(Sizes { name, of_spans: spans, entries })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the sizes are of spans that the page heap is requested, not of objects.
    pub fn is_of_spans(&self) -> bool {
        self.of_spans
    }

    /// The sizes; the shares of each kind add up to one.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share_up_to(sizes: &Sizes, bytes: u64, of: fn(&Entry) -> f64) -> f64 {
        sizes.entries().iter().filter(|entry| entry.bytes <= bytes).map(of).sum()
    }

    /// What sections 3 and 4.4 say of Figures 4 and 5.
    #[test]
    fn the_shipped_distributions_are_the_papers() {
        let objects = Sizes::named("figure-4").unwrap();
        assert!((share_up_to(&objects, 8192, |entry| entry.live) - 0.5).abs() < 0.01);
        let spans = Sizes::named("figure-5").unwrap();
        assert!(spans.is_of_spans());
        let below_huge = share_up_to(&spans, (2 << 20) - 1, |entry| entry.live);
        assert!((below_huge - 0.8).abs() < 0.01);
        let most = spans.entries().iter().max_by(|a, b| a.live.total_cmp(&b.live)).unwrap();
        assert!(most.bytes <= 2 * 8192, "1- or 2-page spans come first");
    }

    #[test]
    fn nonsense_is_refused_in_one_line() {
        let sizes = |entry: &str| format!("name = 'x'\nsizes = [{entry}]");
        for (text, wanted) in [
            (sizes(""), "from one to"),
            (sizes("{ bytes = 4, live = 1, allocated = 1 }"), "not 4"),
            (sizes("{ bytes = 16, live = 0, allocated = 1 }"), "above 0"),
            (sizes("{ bytes = 16, live = nan, allocated = 1 }"), "above 0"),
            (sizes("{ bytes = 16, live = 1 }"), "allocated"),
            (sizes("{ bytes = 16, live = 1, allocated = 1, age = 2 }"), "age"),
        ] {
            let error = Sizes::parse(&text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
