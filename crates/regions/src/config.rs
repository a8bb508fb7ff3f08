//! The daemon's configuration: TOML, with unknown keys refused and the nearest known one named.
//!
//! ```toml
//! [daemon]
//! metrics = "127.0.0.1:9752"
//!
//! [kernel]
//! initial_percent = 20
//!
//! [limits]
//! operations_per_hour = 60
//! ```

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prairie_daemon::config::{self, ConfigError, bytes, duration, loopback, size, within};
use serde::{Deserialize, Deserializer};

/// What the daemon is to do.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How it runs.
    pub daemon: DaemonConfig,
    /// How large the kernel region is.
    pub kernel: KernelConfig,
    /// What it may cost.
    pub limits: LimitsConfig,
    /// Which settings of the kernel it leases.
    pub settings: SettingsConfig,
}

/// How the daemon runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DaemonConfig {
    /// Where `status` asks.
    pub socket: PathBuf,
    /// What was changed, for `undo` and for the guardian.
    pub record: PathBuf,
    /// Where Prometheus asks; only a loopback address is taken.
    pub metrics: Option<SocketAddr>,
    /// Folder of the time series (Parquet), one file an hour.
    pub series: Option<PathBuf>,
    /// How often the zones are sampled.
    #[serde(deserialize_with = "duration")]
    pub poll: Duration,
    /// Interval of full samples while free memory does not change; each poll then reads free memory
    /// alone.
    #[serde(deserialize_with = "duration")]
    pub rest_poll: Duration,
    /// NUMA nodes to manage; all if empty.
    pub nodes: Vec<u32>,
    /// What a stop by signal does with converted blocks.
    pub on_stop: OnStop,
    /// How long an undo at the end may take.
    #[serde(deserialize_with = "duration")]
    pub stop_limit: Duration,
    /// How long the guardian waits for another daemon before it undoes everything.
    #[serde(deserialize_with = "duration")]
    pub guardian_grace: Duration,
}

/// What a stop does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStop {
    /// Returns converted blocks to their zones: without the daemon, the kernel region could not
    /// grow.
    #[default]
    Undo,
    /// Leaves them, for a daemon that is started again at once.
    Keep,
}

/// How large the kernel region is. Shares are of a node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KernelConfig {
    /// Share of the kernel region after the start.
    pub initial_percent: f64,
    /// It never shrinks below this. The default of 20 is 4:1 movable to kernel, which the kernel's
    /// documentation calls usually fine (*chosen*).
    pub floor_percent: f64,
    /// It never grows beyond this. One block stays movable in any case.
    pub ceiling_percent: f64,
    /// Blocks that the kernel region has in reserve beyond what the observed rate asks for.
    pub ready_blocks: u64,
    /// The least reserve, in bytes.
    #[serde(deserialize_with = "size")]
    pub min_reserve: u64,
}

/// What the daemon may cost.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Conversions in an hour after the setup. Growth of a kernel region that runs short is never refused.
    pub operations_per_hour: u32,
    /// How long one conversion may take for each 128 MiB that it moves before it is interrupted; a minute at most.
    #[serde(deserialize_with = "duration")]
    pub operation_time: Duration,
    /// How long a block is left alone after it could not be converted; twice as long each time
    /// again, up to eight times.
    #[serde(deserialize_with = "duration")]
    pub retry_after: Duration,
    /// How long there must be too much kernel memory before a block is returned.
    #[serde(deserialize_with = "duration")]
    pub shrink_after: Duration,
    /// Blocks between the reserve and too much.
    pub excess_blocks: f64,
    /// Above this memory pressure (PSI, some) nothing but a shortage moves a block.
    pub pressure_percent: f64,
}

/// Which settings of the kernel the daemon leases. They are restored when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SettingsConfig {
    /// `vm.lowmem_reserve_ratio`: how much of the kernel region user memory leaves alone.
    pub lowmem_reserve_ratio: Ratio,
    /// `vm.min_free_kbytes`.
    pub min_free: MinFree,
    /// How page cache makes room for what a growth moves.
    pub make_room: MakeRoom,
    /// The nice value of kswapd, if it is higher; 0 leaves it.
    pub kswapd_nice: i32,
}

/// How page cache makes room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MakeRoom {
    /// By kswapd: `vm.watermark_scale_factor` is raised while the kernel region is about to grow.
    Kswapd,
    /// By the root cgroup's `memory.reclaim` before a block moves; by kswapd on hosts where that is
    /// missing or that have several nodes.
    #[default]
    Reclaim,
    /// Not at all, and no watermark is raised.
    Off,
}

/// `lowmem_reserve_ratio` of the uppermost kernel zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ratio {
    /// As the reserve needs it, between 12 and the kernel's default of 32.
    #[default]
    Auto,
    /// As it is.
    Leave,
    /// This.
    Fixed(u64),
}

/// `min_free_kbytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinFree {
    /// Raised where the kernel gives the kernel zones hardly any watermark (before 6.12).
    #[default]
    Auto,
    /// As it is.
    Leave,
    /// This, in KiB.
    Fixed(u64),
}

impl Default for DaemonConfig {
    fn default() -> DaemonConfig {
        DaemonConfig {
            socket: "/run/prairie/regions.sock".into(),
            record: "/run/prairie/regions.record".into(),
            metrics: None,
            series: None,
            poll: Duration::from_secs(1),
            rest_poll: Duration::from_secs(10),
            nodes: Vec::new(),
            on_stop: OnStop::default(),
            stop_limit: Duration::from_secs(60),
            guardian_grace: Duration::from_secs(60),
        }
    }
}

impl Default for KernelConfig {
    fn default() -> KernelConfig {
        KernelConfig {
            initial_percent: 20.0,
            floor_percent: 20.0,
            ceiling_percent: 100.0,
            ready_blocks: 1,
            min_reserve: 0,
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            operations_per_hour: 60,
            operation_time: Duration::from_secs(4),
            retry_after: Duration::from_secs(3600),
            shrink_after: Duration::from_secs(60),
            excess_blocks: 1.5,
            pressure_percent: 10.0,
        }
    }
}

impl Default for SettingsConfig {
    fn default() -> SettingsConfig {
        SettingsConfig {
            lowmem_reserve_ratio: Ratio::Auto,
            min_free: MinFree::Auto,
            make_room: MakeRoom::default(),
            kswapd_nice: -10,
        }
    }
}

impl Config {
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
        let config: Config = config::parse(path, text)?;
        config.check().map_err(|reason| {
            let key = reason.split(' ').next().unwrap_or_default();
            ConfigError::at(path, text, text.find(key).unwrap_or(0), reason)
        })?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let Config { daemon, kernel, limits, settings } = self;
        loopback(daemon.metrics, 9752)?;
        let (ms, second) = (Duration::from_millis(1), Duration::from_secs(1));
        within("poll", daemon.poll, 100 * ms, 60 * second)?;
        within("rest_poll", daemon.rest_poll, Duration::ZERO, 60 * second)?;
        within("stop_limit", daemon.stop_limit, Duration::ZERO, 3600 * second)?;
        within("guardian_grace", daemon.guardian_grace, Duration::ZERO, 3600 * second)?;
        within("operation_time", limits.operation_time, 100 * ms, 60 * second)?;
        within("retry_after", limits.retry_after, second, 86_400 * second)?;
        within("shrink_after", limits.shrink_after, second, 86_400 * second)?;
        percent("floor_percent", kernel.floor_percent, 1.0)?;
        percent("initial_percent", kernel.initial_percent, kernel.floor_percent)?;
        percent("ceiling_percent", kernel.ceiling_percent, kernel.initial_percent)?;
        percent("pressure_percent", limits.pressure_percent, 0.1)?;
        if !(1..=64).contains(&kernel.ready_blocks) {
            return Err(format!("ready_blocks = {}: expected 1 to 64", kernel.ready_blocks));
        }
        if !(1.5..=64.0).contains(&limits.excess_blocks) {
            return Err(format!("excess_blocks = {}: expected 1.5 to 64", limits.excess_blocks));
        }
        if !(1..=3600).contains(&limits.operations_per_hour) {
            let found = limits.operations_per_hour;
            return Err(format!("operations_per_hour = {found}: expected 1 to 3600"));
        }
        if !(-20..=0).contains(&settings.kswapd_nice) {
            return Err(format!("kswapd_nice = {}: expected -20 to 0", settings.kswapd_nice));
        }
        match settings.lowmem_reserve_ratio {
            Ratio::Fixed(ratio) if !(4..=256).contains(&ratio) => Err(format!(
                "lowmem_reserve_ratio = {ratio}: expected \"auto\", \"leave\", or 4 to 256; \
                 below 4 user memory cannot borrow from the kernel region"
            )),
            _ => Ok(()),
        }
    }
}

fn percent(name: &str, value: f64, least: f64) -> Result<(), String> {
    match value >= least && value <= 100.0 {
        true => Ok(()),
        false => Err(format!("{name} = {value}: expected {least} to 100")),
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ratio, D::Error> {
        match Word::deserialize(from)? {
            Word::Number(ratio) => Ok(Ratio::Fixed(ratio)),
            Word::Text(word) if word == "auto" => Ok(Ratio::Auto),
            Word::Text(word) if word == "leave" => Ok(Ratio::Leave),
            Word::Text(word) => Err(serde::de::Error::custom(format!(
                "{word:?}: expected \"auto\", \"leave\", or a number"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for MinFree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<MinFree, D::Error> {
        match Word::deserialize(from)? {
            Word::Text(word) if word == "auto" => Ok(MinFree::Auto),
            Word::Text(word) if word == "leave" => Ok(MinFree::Leave),
            Word::Text(word) => bytes(&word)
                .map(|bytes| MinFree::Fixed(bytes / 1024))
                .map_err(serde::de::Error::custom),
            Word::Number(_) => Err(serde::de::Error::custom(
                "expected \"auto\", \"leave\", or a size such as \"64M\"",
            )),
        }
    }
}

/// A value that is a word or a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Number(u64),
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("regions.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        assert_eq!(parse("").unwrap(), Config::default());
        Config::default().check().unwrap();
    }

    #[test]
    fn values_are_read() {
        let config = parse(
            "[daemon]\npoll = \"500ms\"\nnodes = [0, 1]\non_stop = \"keep\"\n\
             [kernel]\ninitial_percent = 25\nmin_reserve = \"256M\"\n\
             [limits]\noperation_time = \"3s\"\n\
             [settings]\nlowmem_reserve_ratio = 16\nmin_free = \"64M\"\n",
        )
        .unwrap();
        assert_eq!(config.daemon.poll, Duration::from_millis(500));
        assert_eq!((config.daemon.nodes, config.daemon.on_stop), (vec![0, 1], OnStop::Keep));
        assert_eq!((config.kernel.initial_percent, config.kernel.min_reserve), (25.0, 256 << 20));
        assert_eq!(config.settings.lowmem_reserve_ratio, Ratio::Fixed(16));
        assert_eq!(config.settings.min_free, MinFree::Fixed(65_536));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("[daemon]\npol = \"1s\"", "line 2: unknown field `pol`"),
            ("[daemon]\npol = \"1s\"", "did you mean `poll`?"),
            ("[limit]\n", "did you mean `limits`?"),
            ("\n[daemon]\nmetrics = \"0.0.0.0:1\"", "line 3: metrics = \"0.0.0.0:1\": expected a"),
            ("[daemon]\npoll = \"1ms\"", "line 2: poll = \"1ms\": expected 100ms to 1m"),
            ("[daemon]\npoll = 5", "line 2: invalid type"),
            ("[daemon]\nrest_poll = \"2m\"", "line 2: rest_poll = \"2m\": expected 0s to 1m"),
            ("[kernel]\nfloor_percent = 30", "initial_percent = 20: expected 30 to 100"),
            ("[kernel]\nceiling_percent = 10", "line 2: ceiling_percent = 10: expected 20 to 100"),
            ("[kernel]\nready_blocks = 0", "line 2: ready_blocks = 0: expected 1 to 64"),
            ("[limits]\nexcess_blocks = 1.0", "line 2: excess_blocks = 1: expected 1.5 to 64"),
            ("[limits]\npressure_percent = nan", "pressure_percent = NaN: expected 0.1 to 100"),
            ("[settings]\nlowmem_reserve_ratio = 1", "line 2: lowmem_reserve_ratio = 1: expected"),
            ("[settings]\nlowmem_reserve_ratio = \"x\"", "expected \"auto\", \"leave\", or a"),
            ("[settings]\nkswapd_nice = 5", "line 2: kswapd_nice = 5: expected -20 to 0"),
            ("[settings]\nmin_free = \"lots\"", "line 2: \"lots\": "),
            ("[daemon]\non_stop = \"undone\"", "did you mean `undo`?"),
            ("[", "regions.toml, line 1: "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains('\n'), "{error:?}");
        }
        let error = Config::load(Path::new("/nowhere/regions.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/regions.toml: "), "{error}");
    }
}
