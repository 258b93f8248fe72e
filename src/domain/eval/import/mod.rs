//! Suites out of what other tools keep their tasks in.
//!
//! Each converter takes from a document what a suite has a place for and reports all else: nothing is dropped without a word
//! ([`Loss`]). What comes out is a sound suite, which `suite_rules` accepts.

mod draft;
mod inspect;
mod openai_evals;
mod promptfoo;
mod samples;
mod table;

use serde_json::Value;

use self::draft::Draft;
pub use self::draft::{Identity, Imported, Loss};
use crate::protocol::json;
use crate::protocol::openwop::suite::MatchStrategy;

/// Where a document comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A promptfoo configuration, YAML or JSON.
    Promptfoo,
    /// Samples of an OpenAI eval, one JSON object a line.
    OpenaiEvals,
    /// A dataset of Inspect: JSON, JSON lines or CSV with a column `target`.
    Inspect,
    /// Comma-separated values with the columns `input` and `expected`.
    Csv,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Promptfoo, Self::OpenaiEvals, Self::Inspect, Self::Csv];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promptfoo => "promptfoo",
            Self::OpenaiEvals => "openai-evals",
            Self::Inspect => "inspect",
            Self::Csv => "csv",
        }
    }

    /// The format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// What a document looks like, by what only one of them has. `None` if it looks like none, or like a suite.
    pub fn of(octets: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(octets).ok()?;
        let has = |document: &Value, member: &str| document.get(member).is_some();
        if let Ok(samples) = samples(octets) {
            return match samples.first()? {
                sample if has(sample, "suiteId") => None,
                sample if has(sample, "ideal") => Some(Self::OpenaiEvals),
                sample if has(sample, "target") && has(sample, "input") => Some(Self::Inspect),
                config if has(config, "tests") => Some(Self::Promptfoo),
                _ => None,
            };
        }
        if let Ok(table) = table::read(octets)
            && table.has("input")
        {
            return match (table.has("expected"), table.has("target")) {
                (true, _) => Some(Self::Csv),
                (false, true) => Some(Self::Inspect),
                (false, false) => None,
            };
        }
        let config: Value = serde_saphyr::from_str(text).ok()?;
        has(&config, "tests").then_some(Self::Promptfoo)
    }
}

/// Why nothing came of a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not of the format.
    #[error("it is no {format}: {reason}")]
    Format {
        /// The format it was read as.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Nothing in it can be a task.
    #[error("no task of it can be carried over")]
    NoTasks(Vec<Loss>),
    /// What came out is no suite, by the names it was given.
    #[error("{0}")]
    NoSuite(String),
}

/// Converts a document. `strategy` says how answers are compared where the document does not.
///
/// # Errors
/// [`Fault`].
pub fn convert(
    octets: &[u8],
    format: Format,
    strategy: MatchStrategy,
    identity: &Identity,
) -> Result<Imported, Fault> {
    let fault = |reason: String| Fault::Format {
        format: format.as_str(),
        reason,
    };
    let mut draft = Draft::new(strategy);
    match format {
        Format::Promptfoo => promptfoo::convert(config(octets).map_err(fault)?, &mut draft),
        Format::OpenaiEvals => openai_evals::convert(samples(octets).map_err(fault)?, &mut draft),
        Format::Inspect => {
            let samples = samples(octets).or_else(|no_json| match table::read(octets) {
                Ok(table) if table.has("input") && table.has("target") => Ok(table.objects()),
                _ => Err(no_json),
            });
            inspect::convert(samples.map_err(fault)?, &mut draft);
        }
        Format::Csv => {
            let table = table::read(octets).map_err(fault)?;
            for column in ["input", "expected"] {
                if !table.has(column) {
                    return Err(fault(format!("it has no column `{column}`")));
                }
            }
            table::convert(table, &mut draft);
        }
    }
    draft.finish(identity)
}

/// A JSON document is one in YAML, too.
fn config(octets: &[u8]) -> Result<serde_json::Map<String, Value>, String> {
    let text = std::str::from_utf8(octets).map_err(|_| "it is not UTF-8".to_owned())?;
    match serde_saphyr::from_str(text) {
        Ok(Value::Object(config)) => Ok(config),
        Ok(_) => Err("it is no mapping".to_owned()),
        Err(fault) => Err(fault
            .to_string()
            .lines()
            .next()
            .unwrap_or("no YAML")
            .to_owned()),
    }
}

/// A JSON array, one document, or one document a line.
fn samples(octets: &[u8]) -> Result<Vec<Value>, String> {
    match json::parse(octets) {
        Ok(Value::Array(samples)) => return Ok(samples),
        Ok(sample @ Value::Object(_)) => return Ok(vec![sample]),
        Ok(_) => return Err("it holds no objects".to_owned()),
        Err(_) => {}
    }
    let lines = octets.split(|octet| *octet == b'\n').enumerate();
    let samples: Vec<Value> = lines
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .map(|(number, line)| {
            // The place a fault names is that in the line.
            json::parse(line).map_err(|fault| format!("line {}: {fault}", number + 1))
        })
        .collect::<Result<_, _>>()?;
    match samples.is_empty() {
        true => Err("it is empty".to_owned()),
        false => Ok(samples),
    }
}

#[cfg(test)]
mod tests;
