//! How containers are treated, as written in a rule or a class: a profile and values of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use prairie_daemon::config::{maybe_duration, maybe_size, nearest, within};
use serde::Deserialize;

use super::Backend;
use crate::emergency::Policy;
use crate::kubernetes::PodSelector;
use crate::objective::{Objective, Source};
use crate::profile::Profile;

/// A `[[rule]]` or a `[class.NAME]` as written; each may have only some of the keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Treatment {
    pub cgroups: Option<Vec<String>>,
    pub kubernetes: Option<PodSelector>,
    pub class: Option<String>,
    pub priority: Option<u64>,
    pub objective: Option<ObjectiveText>,
    profile: Option<String>,
    pub backend: Option<Backend>,
    reclaim_ratio: Option<f64>,
    threshold_percent: Option<f64>,
    max_step_percent: Option<f64>,
    #[serde(default, deserialize_with = "maybe_duration")]
    period: Option<Duration>,
    #[serde(default, deserialize_with = "maybe_duration")]
    min_age: Option<Duration>,
    #[serde(default, deserialize_with = "maybe_duration")]
    warm_up: Option<Duration>,
    #[serde(default, deserialize_with = "maybe_duration")]
    hold: Option<Duration>,
    #[serde(default, deserialize_with = "maybe_size")]
    min_size: Option<u64>,
    swap_reserve_percent: Option<f64>,
    return_limit_percent: Option<f64>,
    return_maximum_percent: Option<f64>,
}

/// An objective as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectiveText {
    file: Option<PathBuf>,
    query: Option<String>,
    server: Option<String>,
    at_most: f64,
    #[serde(default, deserialize_with = "maybe_duration")]
    every: Option<Duration>,
}

/// Where Prometheus answers unless a server is given.
const SERVER: &str = "http://127.0.0.1:9090";

/// Time between two readings unless given: Prometheus' usual interval between two scrapes.
const EVERY: Duration = Duration::from_secs(15);

impl ObjectiveText {
    /// # Errors
    /// What is wrong, in one line.
    pub fn check(self) -> Result<Objective, String> {
        let ObjectiveText { file, query, server, at_most, every } = self;
        if !at_most.is_finite() {
            return Err(format!("at_most = {at_most}: expected a finite number"));
        }
        let every = every.unwrap_or(EVERY);
        within("every", every, Duration::from_secs(1), Duration::from_secs(600))?;
        let source = match (file, query) {
            (Some(file), None) if server.is_none() => {
                if !file.is_absolute() {
                    return Err(format!("file = {file:?}: expected an absolute path"));
                }
                Source::File(file)
            }
            (Some(_), None) => return Err("server: expected only beside a query".to_owned()),
            (None, Some(query)) => {
                let server = server.unwrap_or_else(|| SERVER.to_owned());
                let host = server.strip_prefix("http://").filter(|host| !host.is_empty());
                if host.is_none() || server.contains(char::is_whitespace) {
                    return Err(format!("server = {server:?}: expected an URL such as {SERVER}"));
                }
                if query.trim().is_empty() {
                    return Err("query = \"\": expected a query in PromQL".to_owned());
                }
                Source::Query { server, query }
            }
            _ => return Err("objective: expected either file or query".to_owned()),
        };
        Ok(Objective { source, at_most, every })
    }
}

/// A policy for emergencies as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmergencyText {
    full_percent: Option<f64>,
    #[serde(default, deserialize_with = "maybe_duration")]
    after: Option<Duration>,
    #[serde(default, deserialize_with = "maybe_duration")]
    hold: Option<Duration>,
    #[serde(default)]
    kill: bool,
}

impl EmergencyText {
    /// # Errors
    /// What is wrong, in one line.
    pub fn check(self) -> Result<Policy, String> {
        let mut policy = Policy { kill: self.kill, ..Policy::default() };
        percent("full_percent", self.full_percent, &mut policy.full_share)?;
        policy.after = self.after.unwrap_or(policy.after);
        policy.hold = self.hold.unwrap_or(policy.hold);
        let least = Duration::from_secs(2);
        within("after", policy.after, least, Duration::from_secs(600))?;
        within("hold", policy.hold, least, Duration::from_secs(3600))?;
        Ok(policy)
    }
}

impl Treatment {
    /// The name of the profile and its values, with those given here. `base` is what a class says.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn profile(&self, base: Option<(&str, Profile)>) -> Result<(String, Profile), String> {
        let (name, mut profile) = match (&self.profile, base) {
            (Some(name), _) => (name.as_str(), named(name)?),
            (None, Some(base)) => base,
            (None, None) => ("default", Profile::default()),
        };
        let senpai = &mut profile.senpai;
        if let Some(ratio) = self.reclaim_ratio {
            if !(ratio > 0.0 && ratio <= 1.0) {
                return Err(format!("reclaim_ratio = {ratio}: expected a value in (0, 1]"));
            }
            senpai.reclaim_ratio = ratio;
        }
        percent("threshold_percent", self.threshold_percent, &mut senpai.threshold)?;
        percent("max_step_percent", self.max_step_percent, &mut senpai.max_step)?;
        percent("swap_reserve_percent", self.swap_reserve_percent, &mut profile.swap_reserve)?;
        percent("return_limit_percent", self.return_limit_percent, &mut profile.return_limit)?;
        percent(
            "return_maximum_percent",
            self.return_maximum_percent,
            &mut profile.return_maximum,
        )?;
        let second = Duration::from_secs(1);
        for (name, value, field) in [
            ("period", self.period, &mut profile.period),
            ("min_age", self.min_age, &mut profile.min_age),
            ("warm_up", self.warm_up, &mut profile.warm_up),
            ("hold", self.hold, &mut profile.hold),
        ] {
            if let Some(value) = value {
                let least = if name == "warm_up" { Duration::ZERO } else { second };
                within(name, value, least, second * 86_400)?;
                *field = value;
            }
        }
        profile.min_size_bytes = self.min_size.unwrap_or(profile.min_size_bytes);
        Ok((name.to_owned(), profile))
    }
}

fn named(name: &str) -> Result<Profile, String> {
    Profile::named(name).ok_or_else(|| {
        let nearest = nearest(name, Profile::NAMES).unwrap_or_default();
        let names = Profile::NAMES.join(", ");
        format!("profile = \"{name}\": expected one of {names}; did you mean \"{nearest}\"?")
    })
}

/// A share in percent, in (0, 100].
pub(super) fn percent(name: &str, value: Option<f64>, share: &mut f64) -> Result<(), String> {
    match value {
        Some(value) if value > 0.0 && value <= 100.0 => *share = value / 100.0,
        Some(value) => return Err(format!("{name} = {value}: expected a value in (0, 100]")),
        None => {}
    }
    Ok(())
}

/// A class: how containers are treated that several rules may name.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Classes of lower priority are offloaded first where room is scarce, and are the first to
    /// be named in an emergency.
    pub priority: u8,
    /// A figure of the service above which nothing is reclaimed.
    pub objective: Option<Objective>,
    /// The profile's name.
    pub(super) profile_name: String,
    /// The profile with the class's own values.
    pub(super) profile: Profile,
    /// Where memory goes.
    pub(super) backend: Backend,
}

/// The priority of rules without a class, and of classes that say nothing.
pub const DEFAULT_PRIORITY: u8 = 50;

impl Class {
    /// # Errors
    /// What is wrong, in one line.
    pub(super) fn of(name: &str, text: Treatment) -> Result<Class, String> {
        let selects = [("cgroups", text.cgroups.is_some()), ("class", text.class.is_some())];
        if let Some((key, _)) = selects.into_iter().find(|(_, given)| *given) {
            return Err(format!(
                "{key} in a class: expected in a [[rule]] with class = \"{name}\""
            ));
        }
        let priority = text.priority.unwrap_or(u64::from(DEFAULT_PRIORITY));
        let priority = u8::try_from(priority).ok().filter(|priority| *priority <= 100);
        let priority = priority.ok_or("priority: expected 0 to 100")?;
        let (profile_name, profile) = text.profile(None)?;
        Ok(Class {
            name: name.to_owned(),
            priority,
            backend: text.backend.unwrap_or_default(),
            objective: text.objective.map(ObjectiveText::check).transpose()?,
            profile_name,
            profile,
        })
    }
}

/// Classes as written, with their places.
pub(super) type ClassTexts = BTreeMap<String, toml::Spanned<Treatment>>;
