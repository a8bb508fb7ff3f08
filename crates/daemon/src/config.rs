//! Configuration in TOML: errors in one line with their place, durations and sizes with units, and
//! the nearest known name for an unknown one.
//!
//! A configuration is a type of serde; its fields take [`duration`], [`maybe_duration`], [`size`],
//! and [`maybe_size`] with `deserialize_with`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

/// An error in a configuration: one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The reason that the system gives.
        reason: String,
    },
    /// Something in it is not right.
    #[error("{}, line {line}: {reason}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What, and what would be right.
        reason: String,
    },
}

impl ConfigError {
    /// Something at byte `at` of `text` is not right.
    pub fn at(path: &Path, text: &str, at: usize, reason: String) -> ConfigError {
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        ConfigError::Wrong { path: path.to_owned(), line, reason }
    }
}

/// Reads a file.
///
/// # Errors
/// [`ConfigError::Read`].
pub fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::InvalidData => "not text in UTF-8, expected TOML".to_owned(),
            _ => error.to_string(),
        };
        ConfigError::Read { path: path.to_owned(), reason }
    })
}

/// Parses a text that was read from `path`.
///
/// # Errors
/// [`ConfigError::Wrong`].
pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        ConfigError::at(path, text, at, with_nearest(error.message()))
    })
}

/// serde names an unknown key and all known ones; of those the nearest helps most.
fn with_nearest(message: &str) -> String {
    let message = message.lines().next().unwrap_or_default();
    let mut quoted = message.split('`').skip(1).step_by(2);
    match (message.starts_with("unknown "), quoted.next()) {
        (true, Some(unknown)) => match nearest(unknown, quoted) {
            Some(nearest) => format!("{message}; did you mean `{nearest}`?"),
            None => message.to_owned(),
        },
        _ => message.to_owned(),
    }
}

/// The known name that is most like `word`.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|name| strsim::damerau_levenshtein(word, name))
}

/// Checks that a duration lies within bounds.
///
/// # Errors
/// What is wrong, with the key's name first.
pub fn within(name: &str, value: Duration, least: Duration, most: Duration) -> Result<(), String> {
    let show = humantime::format_duration;
    match value >= least && value <= most {
        true => Ok(()),
        false => {
            Err(format!("{name} = \"{}\": expected {} to {}", show(value), show(least), show(most)))
        }
    }
}

/// Checks that metrics are served on this host alone. `port` is for the example.
///
/// # Errors
/// What is wrong, with the key's name first.
pub fn loopback(metrics: Option<SocketAddr>, port: u16) -> Result<(), String> {
    match metrics.filter(|address| !address.ip().is_loopback()) {
        None => Ok(()),
        Some(address) => Err(format!(
            "metrics = \"{address}\": expected a loopback address such as 127.0.0.1:{port}"
        )),
    }
}

/// A duration such as `"6s"`.
///
/// # Errors
/// The deserializer's.
pub fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text)
        .map_err(|error| D::Error::custom(format!("{text:?}: {error}; such as \"6s\"")))
}

/// The same of a key that may be absent.
///
/// # Errors
/// The deserializer's.
pub fn maybe_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

/// A size in bytes, such as `"64M"`: binary units.
///
/// # Errors
/// The deserializer's.
pub fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    bytes(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// The same of a key that may be absent.
///
/// # Errors
/// The deserializer's.
pub fn maybe_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    size(from).map(Some)
}

/// Parses a size such as `64M`: binary units.
///
/// # Errors
/// What is wrong, with an example.
pub fn bytes(text: &str) -> Result<u64, String> {
    let size = parse_size::Config::new().with_binary().parse_size(text);
    size.map_err(|error| format!("{text:?}: {error}; such as \"100M\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Small {
        #[serde(deserialize_with = "duration")]
        poll: Duration,
        #[serde(default, deserialize_with = "maybe_size")]
        room: Option<u64>,
    }

    fn parsed(text: &str) -> Result<Small, String> {
        parse(Path::new("small.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn units_are_read() {
        let small = parsed("poll = \"500ms\"\nroom = \"64M\"\n").unwrap();
        assert_eq!(small, Small { poll: Duration::from_millis(500), room: Some(64 << 20) });
        assert_eq!(parsed("poll = \"1s\"").unwrap().room, None);
    }

    #[test]
    fn errors_are_one_line_with_their_place() {
        for (text, expected) in [
            ("poll = \"1s\"\nrom = 1\n", "small.toml, line 2: unknown field `rom`"),
            ("pol = \"1s\"\n", "did you mean `poll`?"),
            ("poll = \"soon\"\n", "such as \"6s\""),
            ("poll = \"1s\"\nroom = \"big\"\n", "line 2: \"big\": "),
            ("[", "small.toml, line 1: "),
            ("\u{0}", "line 1"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{text:?}: {error}");
        }
        let error = read(Path::new("/nowhere/small.toml")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nowhere/small.toml: "), "{error}");
        let program = std::env::current_exe().unwrap();
        let error = read(&program).unwrap_err().to_string();
        assert!(error.ends_with(": not text in UTF-8, expected TOML"), "{error}");
    }

    #[test]
    fn bounds_name_the_key() {
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(within("poll", most, least, most), Ok(()));
        let error = within("poll", Duration::ZERO, least, most).unwrap_err();
        assert_eq!(error, "poll = \"0s\": expected 1s to 1m");
        assert_eq!(loopback("127.0.0.1:1".parse().ok(), 9750), Ok(()));
        assert_eq!(loopback("[::1]:1".parse().ok(), 9750), Ok(()));
        let error = loopback("0.0.0.0:1".parse().ok(), 9750).unwrap_err();
        assert!(error.ends_with("expected a loopback address such as 127.0.0.1:9750"), "{error}");
        assert_eq!(nearest("agressive", ["default", "aggressive"]), Some("aggressive"));
        assert_eq!(nearest("x", []), None);
    }
}
