//! `callgate.yaml`: what the operator sets. Rules are not here: they live in the database, each change an entry.
//!
//! An unknown key is refused and the nearest known one named; sizes and durations carry units. docs/reference/config.md.

pub(crate) mod edit;
mod plugins;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use callgate_core::digest::Digest;
use callgate_core::entry::Record;
use callgate_core::evaluate::ChainDefault;
use callgate_core::plugin::PluginEntry;

use crate::failure::Failure;

/// The version of the file's format.
const VERSION: u32 = 1;
/// More than this would not fit into a message to the daemon.
const FRAME_BYTES_LIMIT: u64 = 64 * 1024 * 1024;
/// A frame cannot be shorter than the handshake's.
const FRAME_BYTES_LEAST: u64 = 1024;
/// The file is written by hand: more than this is not one.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The configuration in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Config {
    /// What counts when every plugin abstains.
    pub(crate) default: ChainDefault,
    /// What is kept of arguments.
    pub(crate) record: Record,
    /// Plugins besides the shipped ones, in their order.
    pub(crate) plugins: Vec<PluginEntry>,
    /// The relay's settings.
    pub(crate) relay: Relay,
    /// The digest of the file's bytes; of none when there is no file.
    pub(crate) digest: Digest,
}

/// What a relay is set to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Relay {
    /// The longest frame, bytes.
    pub(crate) frame_bytes_max: usize,
    /// How long a decision may take.
    pub(crate) decision_deadline: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u32,
    #[serde(default)]
    default: ChainDefault,
    #[serde(default)]
    record: Record,
    #[serde(default)]
    plugins: Vec<PluginEntry>,
    #[serde(default)]
    relay: WrittenRelay,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenRelay {
    #[serde(deserialize_with = "size")]
    frame_bytes_max: u64,
    #[serde(deserialize_with = "duration")]
    decision_deadline: Duration,
}

impl Default for WrittenRelay {
    fn default() -> Self {
        Self { frame_bytes_max: FRAME_BYTES_LIMIT, decision_deadline: Duration::from_secs(2) }
    }
}

impl Config {
    /// Reads the file; a file that is not there is the shipped configuration.
    pub(crate) fn load(file: &Path) -> Result<Self, Failure> {
        Self::of(file, Self::read(file)?.as_deref())
    }

    /// The text of the file; `None` when there is no file.
    pub(crate) fn read(file: &Path) -> Result<Option<String>, Failure> {
        let text = match std::fs::metadata(file) {
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                return Err(Failure::usage(format!("{} is larger than 1 MiB", file.display())));
            }
            Ok(_) => std::fs::read_to_string(file),
            Err(error) => Err(error),
        };
        match text {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::environment(format!("cannot read {}: {error}", file.display()))),
        }
    }

    /// What the text of `file` says; without a text, the shipped configuration.
    pub(crate) fn of(file: &Path, text: Option<&str>) -> Result<Self, Failure> {
        let shipped = format!("version: {VERSION}");
        Self::parse(text.unwrap_or(&shipped)).map_err(|failure| in_file(file, failure))
    }

    /// Reads the text of a file.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let written: Written = serde_saphyr::from_str(text).map_err(|error| unreadable(&error))?;
        if written.version != VERSION {
            return Err(Failure::usage(format!("version is {}, this build reads {VERSION}", written.version))
                .hint("install the Callgate that the file was written for, or see docs/reference/config.md"));
        }
        let bytes = written.relay.frame_bytes_max;
        let frame_bytes_max = usize::try_from(bytes)
            .ok()
            .filter(|_| (FRAME_BYTES_LEAST..=FRAME_BYTES_LIMIT).contains(&bytes))
            .ok_or_else(|| {
                Failure::usage(format!("relay.frame_bytes_max is {bytes} bytes; it can be 1KiB to 64MiB"))
            })?;
        if !(Duration::from_millis(10)..=Duration::from_secs(60)).contains(&written.relay.decision_deadline) {
            return Err(Failure::usage("relay.decision_deadline can be 10ms to 60s"));
        }
        plugins::check(&written.plugins)?;
        Ok(Self {
            default: written.default,
            record: written.record,
            plugins: written.plugins,
            relay: Relay { frame_bytes_max, decision_deadline: written.relay.decision_deadline },
            digest: Digest::of(text.as_bytes()),
        })
    }
}

fn in_file(file: &Path, mut failure: Failure) -> Failure {
    failure.message = format!("{}: {}", file.display(), failure.message);
    failure
}

fn unreadable(error: &serde_saphyr::Error) -> Failure {
    let place = error.location().map(|place| format!("line {}, column {}: ", place.line(), place.column()));
    let place = place.unwrap_or_default();
    match error.without_snippet() {
        serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => {
            let failure = Failure::usage(format!("{place}unknown key {field:?}"));
            let near = |known: &&&str| strsim::damerau_levenshtein(field, known);
            match expected.iter().min_by_key(near) {
                Some(nearest) if near(&nearest) <= 1 + nearest.len() / 3 => {
                    failure.hint(format!("did you mean {nearest}?"))
                }
                Some(_) | None => failure.hint(format!("the keys there are: {}", expected.join(", "))),
            }
        }
        other => Failure::usage(format!("{place}{other}")),
    }
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    if !text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return Err(serde::de::Error::custom(format!("{text:?} has no unit; write for example 64MiB")));
    }
    text.parse::<bytesize::ByteSize>()
        .map(|size| size.as_u64())
        .map_err(|error| serde::de::Error::custom(format!("{text:?} is not a size ({error}); write for example 64MiB")))
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|error| {
        serde::de::Error::custom(format!("{text:?} is not a duration ({error}); write for example 2s"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_the_shipped_configuration() {
        let config = Config::load(Path::new("/nowhere/callgate.yaml")).unwrap();
        assert_eq!(config.default, ChainDefault::Deny);
        assert_eq!(config.record, Record::Full);
        assert_eq!(config.relay, Relay { frame_bytes_max: 64 << 20, decision_deadline: Duration::from_secs(2) });
    }

    #[test]
    fn every_key_is_read() {
        let text =
            "version: 1\ndefault: allow\nrecord: digest\nrelay: { frame_bytes_max: 1MiB, decision_deadline: 500ms }\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.default, ChainDefault::Allow);
        assert_eq!(config.record, Record::Digest);
        assert_eq!(config.relay, Relay { frame_bytes_max: 1 << 20, decision_deadline: Duration::from_millis(500) });
        assert_eq!(config.digest, Digest::of(text.as_bytes()));
    }

    #[test]
    fn every_mistake_is_named_with_its_way_out() {
        let cases = [
            ("version: 2", "version is 2, this build reads 1"),
            ("default: deny", "missing field"),
            ("version: 1\nrecrod: full", "did you mean record?"),
            ("version: 1\nzzzzzz: full", "the keys there are: version, default"),
            ("version: 1\nrelay: {frame_bytes_mx: 1MiB}", "did you mean frame_bytes_max?"),
            ("version: 1\nrelay: {frame_bytes_max: 1048576}", "has no unit"),
            ("version: 1\nrelay: {frame_bytes_max: 1TiB}", "1KiB to 64MiB"),
            ("version: 1\nrelay: {decision_deadline: 2}", "is not a duration"),
            ("version: 1\nrelay: {decision_deadline: 1h}", "10ms to 60s"),
            ("version: 1\nchain: [rules]", "unknown key \"chain\""),
            ("version: 1\ndefault: maybe", "maybe"),
            ("version: 1\nversion: 1", "version"),
            ("[", "line 1"),
            ("version: 1\nplugins: {guard: {}}", "line 2, column 10: expected sequence"),
            ("version: 1\nplugins: [{name: guard}]", "missing field `digest`"),
            ("version: 1\nplugins: [{name: guard, digest: abc}]", "64 lower-case hex digits"),
            ("version: 1\nplugins: [{name: g, digest: DIGEST, setings: {}}]", "did you mean settings?"),
            ("version: 1\nplugins: [{name: g, digest: DIGEST, settings: [1]}]", "line 2"),
            ("version: 1\nplugins: [{name: g, digest: DIGEST, instance: fresher}]", "fresher"),
            ("version: 1\nplugins: [{name: g g, digest: DIGEST}]", "is not a plugin name"),
            ("version: 1\nplugins: [{name: rules, digest: DIGEST}]", "a plugin of Callgate's own"),
            ("version: 1\nplugins: [{name: g, digest: DIGEST}, {name: g, digest: DIGEST}]", "a plugin named g already"),
            ("version: 1\nplugins: [{name: g, digest: DIGEST, servers: []}]", "`servers` names nobody"),
        ];
        for (text, expected) in cases {
            let text = text.replace("DIGEST", &Digest::of(b"").to_string());
            let failure = Config::parse(&text).unwrap_err().to_string();
            assert!(failure.contains(expected), "{text:?} gave {failure:?}");
        }
    }
}
