//! The daemon's configuration: TOML, with unknown keys refused and the nearest known one named.
//!
//! ```toml
//! [daemon]
//! metrics = "127.0.0.1:9750"
//!
//! [[rule]]
//! cgroups = ["workload.slice/*.service"]
//! profile = "default"
//!
//! [[rule]]
//! cgroups = ["sidecar.slice/**"]
//! profile = "sidecar"
//! threshold_percent = 0.5
//! ```

mod treatment;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prairie_daemon::config::{
    self, ConfigError, duration, loopback, maybe_duration, maybe_size, nearest, within,
};
use serde::Deserialize;
pub use treatment::{Class, DEFAULT_PRIORITY};
use treatment::{ClassTexts, EmergencyText, Treatment};

use crate::budget::rated_per_day_bytes;
use crate::emergency::Policy;
use crate::profile::Profile;
use crate::world::discover::{CgroupPattern, Selector};
use crate::world::pods::PodFiles;

/// The daemon's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How it runs.
    pub daemon: DaemonConfig,
    /// Where pods are described.
    pub kubernetes: PodFiles,
    /// What is done about memory emergencies, if anything.
    pub emergency: Option<Policy>,
    /// Classes that rules name, by name.
    pub classes: Vec<Class>,
    /// For whom, first match first.
    pub rules: Vec<Rule>,
}

/// How the daemon runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DaemonConfig {
    /// Where `status` asks.
    pub socket: PathBuf,
    /// The record of leased limits, for the cleanup if daemon and guardian are both killed.
    pub leases: PathBuf,
    /// Where Prometheus asks; only a loopback address is taken.
    pub metrics: Option<SocketAddr>,
    /// Threads that wait for the kernel.
    pub workers: usize,
    /// How long one request may take before it is interrupted.
    #[serde(deserialize_with = "duration")]
    pub deadline: Duration,
    /// CPU time that one call of reclaim may use: a request is split into calls.
    #[serde(deserialize_with = "duration")]
    pub call_time: Duration,
    /// How often cgroups are looked for.
    #[serde(deserialize_with = "duration")]
    pub discover: Duration,
    /// Bytes that may be written to swap devices in a day.
    #[serde(deserialize_with = "maybe_size")]
    pub swap_writes_per_day: Option<u64>,
    /// The same by the rating of the swap device: terabytes written (TBW, of 10^12 bytes).
    pub swap_tbw: Option<f64>,
    /// The life over which these writes are spread.
    #[serde(deserialize_with = "duration")]
    pub swap_lifetime: Duration,
    /// The cost of one refault, if it is not to be measured.
    #[serde(deserialize_with = "maybe_duration")]
    pub return_cost: Option<Duration>,
    /// Whether to arm PSI triggers.
    pub triggers: bool,
    /// Where to write time series of each cgroup, as Parquet.
    pub series: Option<PathBuf>,
}

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl DaemonConfig {
    /// The keys whose values in `other` a running daemon does not take.
    pub fn fixed_keys(&self, other: &DaemonConfig) -> Vec<&'static str> {
        let keys = [
            ("socket", self.socket != other.socket),
            ("leases", self.leases != other.leases),
            ("metrics", self.metrics != other.metrics),
            ("workers", self.workers != other.workers),
            ("return_cost", self.return_cost != other.return_cost),
            ("triggers", self.triggers != other.triggers),
            ("series", self.series != other.series),
        ];
        keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// Bytes that may be written to swap devices in a day; `None` without a limit.
    pub fn writes_per_day(&self) -> Option<u64> {
        let rated = self.swap_tbw.map(|tbw| rated_per_day_bytes(tbw, self.swap_lifetime));
        self.swap_writes_per_day.or(rated)
    }
}

impl Default for DaemonConfig {
    fn default() -> DaemonConfig {
        DaemonConfig {
            socket: "/run/prairie/offload.sock".into(),
            leases: "/run/prairie/offload.leases".into(),
            metrics: None,
            workers: 4,
            deadline: Duration::from_secs(2),
            call_time: Duration::from_millis(1),
            discover: Duration::from_secs(10),
            swap_writes_per_day: None,
            swap_tbw: None,
            swap_lifetime: 5 * YEAR,
            return_cost: None,
            triggers: true,
            series: None,
        }
    }
}

/// Some cgroups, and how they are treated.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What names them.
    pub selectors: Vec<Selector>,
    /// The profile's name, for `status`.
    pub profile_name: String,
    /// The profile with the rule's own values.
    pub profile: Profile,
    /// Where their memory goes.
    pub backend: Backend,
    /// The class, by its place in [`Config::classes`].
    pub class: Option<usize>,
    /// The class's priority.
    pub priority: u8,
}

/// Where offloaded memory goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Backend {
    /// As the host is set up; a container whose pages compress badly is sent past zswap to a
    /// device, where there is one.
    #[default]
    Auto,
    /// zswap, and never on to a device (`memory.zswap.writeback` 0, kernels from 6.8 on).
    Zswap,
    /// Past zswap to a device (`memory.zswap.max` 0).
    Device,
    /// zswap, and from it to a device (what the host does on its own).
    Hierarchy,
    /// zswap for pages that are young, the device for those that are old or compress badly
    /// (kernels from 6.8 on).
    Tiers,
    /// Page cache alone: no anonymous memory is taken.
    FileOnly,
}

/// The file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigText {
    #[serde(default)]
    daemon: DaemonConfig,
    #[serde(default)]
    kubernetes: PodFiles,
    emergency: Option<toml::Spanned<EmergencyText>>,
    #[serde(default)]
    class: ClassTexts,
    #[serde(default)]
    rule: Vec<toml::Spanned<Treatment>>,
}

impl Config {
    /// What names the cgroups of each rule.
    pub fn selectors(&self) -> Vec<&[Selector]> {
        self.rules.iter().map(|rule| rule.selectors.as_slice()).collect()
    }

    /// Whether a rule needs more of pods than the names of their cgroups.
    pub fn needs_pods(&self) -> bool {
        let mut selectors = self.rules.iter().flat_map(|rule| &rule.selectors);
        selectors.any(|each| matches!(each, Selector::Pods(pods) if pods.needs_pods()))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = config::read(path)?;
        Config::parse(path, &text)
    }

    /// Parses a text that was read from `path`.
    ///
    /// # Errors
    /// [`ConfigError::Wrong`].
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
        let wrong = |at, reason| ConfigError::at(path, text, at, reason);
        let read: ConfigText = config::parse(path, text)?;
        if let Err(reason) = check_daemon(&read.daemon) {
            return Err(wrong(text.find("[daemon]").unwrap_or(0), reason));
        }
        if read.rule.is_empty() {
            return Err(wrong(0, "no [[rule]]: nothing would be offloaded".to_owned()));
        }
        let class = |(name, text): (String, toml::Spanned<Treatment>)| {
            let at = text.span().start;
            Class::of(&name, text.into_inner()).map_err(|reason| wrong(at, reason))
        };
        let classes: Vec<Class> =
            read.class.into_iter().map(class).collect::<Result<_, ConfigError>>()?;
        let rule = |rule: toml::Spanned<Treatment>| {
            let at = rule.span().start;
            Rule::of(rule.into_inner(), &classes).map_err(|reason| wrong(at, reason))
        };
        let rules = read.rule.into_iter().map(rule).collect::<Result<_, ConfigError>>()?;
        let emergency = read.emergency.map(|text| {
            let at = text.span().start;
            text.into_inner().check().map_err(|reason| wrong(at, reason))
        });
        let emergency = emergency.transpose()?;
        let (daemon, kubernetes) = (read.daemon, read.kubernetes);
        Ok(Config { daemon, kubernetes, emergency, classes, rules })
    }
}

fn check_daemon(daemon: &DaemonConfig) -> Result<(), String> {
    loopback(daemon.metrics, 9750)?;
    if !(1..=64).contains(&daemon.workers) {
        return Err(format!("workers = {}: expected 1 to 64", daemon.workers));
    }
    if daemon.swap_tbw.is_some() && daemon.swap_writes_per_day.is_some() {
        return Err("swap_tbw and swap_writes_per_day: expected one of them".to_owned());
    }
    if let Some(tbw) = daemon.swap_tbw.filter(|tbw| !(*tbw > 0.0 && *tbw <= 1e6)) {
        return Err(format!("swap_tbw = {tbw}: expected terabytes in (0, 1000000]"));
    }
    within("swap_lifetime", daemon.swap_lifetime, YEAR / 12, 50 * YEAR)?;
    within("discover", daemon.discover, Duration::from_secs(1), Duration::from_secs(3600))?;
    let (least, most) = (Duration::from_micros(100), Duration::from_secs(10));
    within("call_time", daemon.call_time, least, most)?;
    within("deadline", daemon.deadline, Duration::from_millis(10), Duration::from_secs(60))
}

impl Rule {
    fn of(text: Treatment, classes: &[Class]) -> Result<Rule, String> {
        for (key, given) in
            [("priority", text.priority.is_some()), ("objective", text.objective.is_some())]
        {
            if given {
                return Err(format!("{key} in a rule: expected in a [class.NAME] that it names"));
            }
        }
        let class = text.class.as_deref().map(|name| {
            let unknown = || {
                let known = classes.iter().map(|class| class.name.as_str());
                match nearest(name, known) {
                    Some(nearest) => format!("class = \"{name}\": did you mean \"{nearest}\"?"),
                    None => format!("class = \"{name}\": expected a table [class.{name}]"),
                }
            };
            classes.iter().position(|class| class.name == name).ok_or_else(unknown)
        });
        let class = class.transpose()?;
        let named = class.map(|at| &classes[at]);
        let base = named.map(|class| (class.profile_name.as_str(), class.profile));
        let (profile_name, profile) = text.profile(base)?;
        let selectors = match (text.cgroups, text.kubernetes) {
            (None, None) => return Err("missing field `cgroups` or `kubernetes`".to_owned()),
            (Some(_), Some(_)) => {
                return Err("cgroups and kubernetes: expected one of them in a rule".to_owned());
            }
            (None, Some(selector)) => vec![Selector::Pods(selector)],
            (Some(texts), None) if texts.is_empty() => {
                return Err("cgroups = []: expected at least one pattern".to_owned());
            }
            (Some(texts), None) => {
                let pattern = |text: &String| CgroupPattern::new(text).map(Selector::Pattern);
                texts.iter().map(pattern).collect::<Result<_, _>>()?
            }
        };
        let backend = text.backend.or(named.map(|class| class.backend)).unwrap_or_default();
        let priority = named.map_or(DEFAULT_PRIORITY, |class| class.priority);
        Ok(Rule { selectors, profile_name, profile, backend, class, priority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("offload.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_begins_with_its_profile() {
        let config = parse(
            "[daemon]\nmetrics = \"127.0.0.1:9750\"\nswap_writes_per_day = \"50G\"\n\
             [[rule]]\ncgroups = [\"workload/*\"]\nthreshold_percent = 0.2\nmin_size = \"64M\"\n\
             [[rule]]\ncgroups = [\"batch/**\"]\nprofile = \"aggressive\"\nbackend = \"device\"\nperiod = \"3s\"\n",
        )
        .unwrap();
        assert_eq!(config.daemon.swap_writes_per_day, Some(50 << 30));
        let [web, batch] = &config.rules[..] else { panic!("two rules") };
        assert_eq!(web.profile.senpai.threshold, 0.002);
        assert_eq!(web.profile.senpai.reclaim_ratio, 0.0005);
        assert_eq!(web.profile.min_size_bytes, 64 << 20);
        assert_eq!(
            (batch.backend, batch.profile.period),
            (Backend::Device, Duration::from_secs(3))
        );
        assert_eq!(batch.profile.senpai, Profile::aggressive().senpai);
    }

    #[test]
    fn the_endurance_of_a_device_limits_the_writes_of_a_day() {
        let per_day = |daemon: &str| {
            let text = format!("[daemon]\n{daemon}\n[[rule]]\ncgroups = [\"a\"]\n");
            parse(&text).unwrap().daemon.writes_per_day()
        };
        assert_eq!(per_day(""), None);
        assert_eq!(per_day("swap_writes_per_day = \"50G\""), Some(50 << 30));
        assert_eq!(per_day("swap_tbw = 365"), Some(200_000_000_000));
        assert_eq!(per_day("swap_tbw = 365\nswap_lifetime = \"365days\""), Some(1_000_000_000_000));
    }

    #[test]
    fn emergencies_are_watched_if_there_is_a_table() {
        let rule = "[[rule]]\ncgroups = [\"a\"]\n";
        assert_eq!(parse(rule).unwrap().emergency, None);
        assert_eq!(
            parse(&format!("[emergency]\n{rule}")).unwrap().emergency,
            Some(Policy::default())
        );
        let all = "[emergency]\nfull_percent = 40\nafter = \"10s\"\nhold = \"2m\"\nkill = true\n";
        let (after, hold) = (Duration::from_secs(10), Duration::from_secs(120));
        let policy = Policy { full_share: 0.4, after, hold, kill: true };
        assert_eq!(parse(&format!("{all}{rule}")).unwrap().emergency, Some(policy));
    }

    #[test]
    fn a_class_is_the_base_of_the_rules_that_name_it() {
        let config = parse(
            "[class.batch]\npriority = 10\nprofile = \"aggressive\"\nhold = \"90s\"\n\
             [class.web]\nthreshold_percent = 0.05\nbackend = \"zswap\"\n\
             objective = { file = \"/run/web/p99\", at_most = 5.0, every = \"5s\" }\n\
             [[rule]]\ncgroups = [\"web/*\"]\nclass = \"web\"\nthreshold_percent = 0.02\n\
             [[rule]]\ncgroups = [\"web-*\"]\nclass = \"web\"\nprofile = \"sidecar\"\n\
             [[rule]]\ncgroups = [\"batch/*\"]\nclass = \"batch\"\n\
             [[rule]]\ncgroups = [\"**\"]\n",
        )
        .unwrap();
        let [web, sidecar, batch, rest] = &config.rules[..] else { panic!("four rules") };
        assert_eq!((web.profile.senpai.threshold, web.backend), (0.0002, Backend::Zswap));
        // A profile of its own begins with that profile's values.
        assert_eq!((&*sidecar.profile_name, sidecar.profile.senpai.threshold), ("sidecar", 0.01));
        assert_eq!(
            (&*batch.profile_name, batch.profile.hold),
            ("aggressive", Duration::from_secs(90))
        );
        let priorities = [web, sidecar, batch, rest].map(|rule| (rule.class, rule.priority));
        assert_eq!(priorities, [(Some(1), 50), (Some(1), 50), (Some(0), 10), (None, 50)]);
        let objective = config.classes[1].objective.as_ref().unwrap();
        assert_eq!((objective.at_most, objective.every), (5.0, Duration::from_secs(5)));
        let query = parse(
            "[class.a]\nobjective = { query = \"p99\", at_most = 1 }\n[[rule]]\ncgroups = [\"a\"]\n",
        );
        let objective = query.unwrap().classes[0].objective.clone().unwrap();
        let server = "http://127.0.0.1:9090".to_owned();
        assert_eq!(
            objective.source,
            crate::objective::Source::Query { server, query: "p99".into() }
        );
        assert_eq!(objective.every, Duration::from_secs(15));
    }

    #[test]
    fn errors_are_one_line_with_their_place() {
        let rule = "[[rule]]\ncgroups = [\"a\"]\n";
        let table = [
            ("", "line 1: no [[rule]]"),
            ("[[rule]]\n", "line 1: missing field `cgroups` or `kubernetes`"),
            (
                "[[rule]]\ncgroups = [\"a\"]\nkubernetes = {}\n",
                "cgroups and kubernetes: expected one of them",
            ),
            (
                "[[rule]]\nkubernetes = { qos = \"burst\" }\n",
                "unknown variant `burst`, expected one of",
            ),
            ("[[rule]]\nkubernetes = { lables = {} }\n", "did you mean `labels`?"),
            ("[kubernetes]\npod = \"/x\"\n", "did you mean `pods`?"),
            ("[[rule]]\ncgroups = []\n", "line 1: cgroups = []"),
            ("[[rule]]\ncgroups = [\"a\"]\nreclaim_ration = 1\n", "did you mean `reclaim_ratio`?"),
            ("[deamon]\n", "did you mean `daemon`?"),
            (
                "[[rule]]\ncgroups = [\"a\"]\nprofile = \"agressive\"\n",
                "did you mean \"aggressive\"?",
            ),
            ("[[rule]]\ncgroups = [\"a\"]\nbackend = \"devise\"\n", "did you mean `device`?"),
            (
                "[[rule]]\ncgroups = [\"a\"]\nthreshold_percent = 0\n",
                "expected a value in (0, 100]",
            ),
            (
                "[[rule]]\ncgroups = [\"a\"]\nthreshold_percent = 101\n",
                "expected a value in (0, 100]",
            ),
            (
                "[[rule]]\ncgroups = [\"a\"]\nthreshold_percent = nan\n",
                "expected a value in (0, 100]",
            ),
            ("[[rule]]\ncgroups = [\"a\"]\nreclaim_ratio = -0.1\n", "expected a value in (0, 1]"),
            (
                "[[rule]]\ncgroups = [\"a\"]\nperiod = \"0s\"\n",
                "period = \"0s\": expected 1s to 1day",
            ),
            ("[[rule]]\ncgroups = [\"a\"]\nmin_age = \"soon\"\n", "such as \"6s\""),
            ("[[rule]]\ncgroups = [\"a\"]\nmin_size = \"big\"\n", "such as \"100M\""),
            ("[[rule]]\ncgroups = [\"/\"]\n", "not the root itself"),
            ("[[rule]]\ncgroups = [\"../etc\"]\n", "\"..\""),
            ("[daemon]\nmetrics = \"0.0.0.0:9750\"\n", "expected a loopback address"),
            ("[daemon]\nworkers = 0\n", "1 to 64"),
            ("[daemon]\ncall_time = \"1us\"\n", "call_time = \"1us\": expected 100us to 10s"),
            ("[daemon]\nswap_tbw = 0\n", "swap_tbw = 0: expected terabytes in (0, 1000000]"),
            ("[daemon]\nswap_tbw = 1\nswap_writes_per_day = \"1G\"\n", "expected one of them"),
            ("[daemon]\nswap_lifetime = \"1s\"\n", "swap_lifetime = \"1s\": expected "),
            ("[class.a]\npriority = 101\n[[rule]]\ncgroups = [\"a\"]\n", "expected 0 to 100"),
            (
                "[class.a]\ncgroups = [\"a\"]\n[[rule]]\ncgroups = [\"a\"]\n",
                "in a [[rule]] with class",
            ),
            ("[[rule]]\ncgroups = [\"a\"]\npriority = 1\n", "expected in a [class.NAME]"),
            ("[[rule]]\ncgroups = [\"a\"]\nclass = \"b\"\n", "expected a table [class.b]"),
            (
                "[class.web]\n[[rule]]\ncgroups = [\"a\"]\nclass = \"wbe\"\n",
                "line 2: class = \"wbe\": did you mean \"web\"?",
            ),
            (
                "[class.a]\nobjective = { at_most = 1 }\n[[rule]]\ncgroups = [\"a\"]\n",
                "either file or query",
            ),
            (
                "[class.a]\nobjective = { file = \"p99\", at_most = 1 }\n[[rule]]\ncgroups = [\"a\"]\n",
                "expected an absolute path",
            ),
            (
                "[class.a]\nobjective = { file = \"/p99\", at_most = nan }\n[[rule]]\ncgroups = [\"a\"]\n",
                "expected a finite number",
            ),
            (
                "[class.a]\nobjective = { file = \"/p99\", at_most = 1, every = \"1ms\" }\n\
                 [[rule]]\ncgroups = [\"a\"]\n",
                "every = \"1ms\": expected 1s to 10m",
            ),
            (
                "[class.a]\nobjective = { query = \"x\", server = \"https://p\", at_most = 1 }\n\
                 [[rule]]\ncgroups = [\"a\"]\n",
                "expected an URL such as http://127.0.0.1:9090",
            ),
            (
                "[class.a]\nobjective = { fil = \"/p99\", at_most = 1 }\n[[rule]]\ncgroups = [\"a\"]\n",
                "did you mean `file`?",
            ),
            ("[emergency]\nfull_percent = 0\n[[rule]]\ncgroups = [\"a\"]\n", "in (0, 100]"),
            ("[emergency]\nafter = \"1s\"\n[[rule]]\ncgroups = [\"a\"]\n", "expected 2s to 10m"),
            ("[emergency]\nkil = true\n[[rule]]\ncgroups = [\"a\"]\n", "did you mean `kill`?"),
            ("[[rule]\n", "line 1"),
            ("\u{0}", "line 1"),
        ];
        for (text, expected) in table {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(error.starts_with("offload.toml, line ") && !error.contains('\n'), "{error}");
        }
        let second = format!("{rule}\n[[rule]]\ncgroups = [\"b\"]\nmax_step_percent = 200\n");
        assert!(parse(&second).unwrap_err().contains("line 4"), "{:?}", parse(&second));
    }
}
