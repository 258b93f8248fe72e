//! Converts task files of other tools to suites.
//!
//! Each converter takes what a suite can hold and reports everything else as a [`Loss`]; nothing is
//! dropped silently. The result is a valid suite, which `suite_rules` accepts.

mod draft;
mod inspect;
mod openai_evals;
mod promptfoo;
mod samples;
mod table;

use serde_json::Value;

use self::draft::Draft;
pub use self::draft::{Identity, Imported, Loss};
use touchstone_kit::json;
use touchstone_openwop::suite::MatchStrategy;

/// The format of a source document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A promptfoo configuration, YAML or JSON.
    Promptfoo,
    /// Samples of an OpenAI eval, one JSON object per line.
    OpenaiEvals,
    /// A dataset of Inspect: JSON, JSON lines or CSV with a column `target`.
    Inspect,
    /// Comma-separated values with the columns `input` and `expected`.
    Csv,
}

impl Format {
    pub const ALL: [Self; 4] = [Self::Promptfoo, Self::OpenaiEvals, Self::Inspect, Self::Csv];

    /// The name on the command line.
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

    /// Detects the format by members that only one format has. `None` for an unknown format, or for
    /// a suite.
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

/// Why a document could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The document does not have the format.
    #[error("not a valid {format} file: {reason}")]
    Format {
        format: &'static str,
        reason: String,
    },
    /// Nothing in the document can become a task.
    #[error("no task of the document can be imported")]
    NoTasks(Vec<Loss>),
    /// The result is not a valid suite with the given names.
    #[error("{0}")]
    NoSuite(String),
}

/// Converts a document. `strategy` is the match strategy where the document does not define one.
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

/// Parses YAML; JSON is YAML too.
fn config(octets: &[u8]) -> Result<serde_json::Map<String, Value>, String> {
    let text = std::str::from_utf8(octets).map_err(|_| "it is not UTF-8".to_owned())?;
    match serde_saphyr::from_str(text) {
        Ok(Value::Object(config)) => Ok(config),
        Ok(_) => Err("it is not a mapping".to_owned()),
        Err(fault) => Err(fault
            .to_string()
            .lines()
            .next()
            .unwrap_or("invalid YAML")
            .to_owned()),
    }
}

/// Parses a JSON array, one document, or one document per line.
fn samples(octets: &[u8]) -> Result<Vec<Value>, String> {
    match json::parse(octets) {
        Ok(Value::Array(samples)) => return Ok(samples),
        Ok(sample @ Value::Object(_)) => return Ok(vec![sample]),
        Ok(_) => return Err("it contains no objects".to_owned()),
        Err(_) => {}
    }
    let lines = octets.split(|octet| *octet == b'\n').enumerate();
    let samples: Vec<Value> = lines
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .map(|(number, line)| {
            // The position in the error is relative to the line.
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
