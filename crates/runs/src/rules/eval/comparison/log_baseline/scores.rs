//! The scores of a log of Inspect, by task.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::LogFacts;
use crate::rules::eval::import::{
    Columns, Format, Identity, InspectLog, Options, Source, convert, inspect_log, slug,
};
use touchstone_kit::ids::TaskId;
use touchstone_openwop::suite::MatchStrategy;

/// Maximum number of scorers in a message.
const MAX_NAMED: usize = 12;
/// Maximum number of characters of a name or answer from a log.
const MAX_CHARS: usize = 20_000;

/// A log with the scores of one scorer.
#[derive(Clone, Debug)]
pub struct ScoredLog {
    pub facts: LogFacts,
    /// In the order of the log.
    pub samples: Vec<LogSample>,
    /// Number of samples without an id that a task can have.
    pub without_id: usize,
}

impl ScoredLog {
    /// The answer of the first epoch.
    pub fn answer(&self, task: &TaskId) -> Option<&str> {
        let sample = self.samples.iter().find(|it| it.task_id == *task)?;
        sample.answer.as_deref()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogSample {
    pub task_id: TaskId,
    /// The scores of its judged epochs, 0.0..=1.0.
    pub scores: Vec<f64>,
    /// The model's answer in the first epoch.
    pub answer: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFault {
    #[error("not a log of Inspect: {0}")]
    NotALog(String),
    #[error("the log has no scores; score it with `inspect score`")]
    NoScores,
    #[error("the log has several scores: {}", named(.0))]
    SeveralScorers(Vec<String>),
    #[error("the log has no score `{name}`; it has {}", named(.known))]
    UnknownScorer { name: String, known: Vec<String> },
    #[error(
        "the scores of `{scorer}` are not between 0 and 1: {place} has {found}; choose another \
         score"
    )]
    NotAScore {
        scorer: String,
        place: String,
        found: String,
    },
}

fn named(names: &[String]) -> String {
    let mut shown: Vec<String> = names
        .iter()
        .take(MAX_NAMED)
        .map(|name| format!("`{}`", short(name)))
        .collect();
    if let more @ 1.. = names.len().saturating_sub(MAX_NAMED) {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

/// Reads the scores of a log. A score with several values has one name per value: `SCORER.VALUE`.
///
/// # Errors
/// [`LogFault`].
pub fn read(bytes: &[u8], scorer: Option<&str>) -> Result<ScoredLog, LogFault> {
    // First, so that the documents of the samples and of the tasks are not in memory together.
    let ids = task_ids(bytes);
    let log = inspect_log::read(bytes).map_err(LogFault::NotALog)?;
    let scorer = chosen(&log.samples, scorer)?;
    let mut found: Vec<LogSample> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut without_id = 0;
    let mut epochs: HashMap<usize, usize> = HashMap::new();
    for (index, sample) in log.samples.iter().enumerate() {
        let place = inspect_log::place(index);
        let id = sample.get("id").filter(|id| !id.is_null());
        let key = id.map_or_else(|| place.clone(), ToString::to_string);
        let at = match known.get(&key) {
            Some(at) => *at,
            None => {
                let Some(task_id) = ids.get(&place).cloned().or_else(|| of_name(id)) else {
                    without_id += 1;
                    continue;
                };
                found.push(LogSample {
                    task_id,
                    scores: Vec::new(),
                    answer: answer(sample),
                });
                known.insert(key, found.len() - 1);
                found.len() - 1
            }
        };
        *epochs.entry(at).or_default() += 1;
        let Some(value) = values(sample).remove(&scorer) else {
            continue;
        };
        let score = number(&value).filter(|score| (0.0..=1.0).contains(score));
        match (score, found.get_mut(at)) {
            (Some(score), Some(sample)) => sample.scores.push(score),
            (None, _) if !is_unscored(&value) => {
                return Err(LogFault::NotAScore {
                    scorer,
                    place,
                    found: short(&value.to_string()),
                });
            }
            _ => {}
        }
    }
    Ok(ScoredLog {
        facts: facts(&log, scorer, epochs.into_values().max(), found.len()),
        samples: found,
        without_id,
    })
}

fn facts(log: &InspectLog, scorer: String, epochs: Option<usize>, samples: usize) -> LogFacts {
    let text = |name: &str| {
        let value = log.header.get("eval")?.get(name)?.as_str()?;
        Some(short(value))
    };
    LogFacts {
        task: text("task").unwrap_or_else(|| "unnamed task".to_owned()),
        model: text("model").unwrap_or_else(|| "unknown model".to_owned()),
        created: text("created"),
        scorer,
        epochs: epochs.unwrap_or_default(),
        samples,
    }
}

/// The named scorer, or the only one.
fn chosen(samples: &[Value], name: Option<&str>) -> Result<String, LogFault> {
    let known: BTreeSet<String> = samples
        .iter()
        .flat_map(|it| values(it).into_keys())
        .collect();
    let known: Vec<String> = known.into_iter().collect();
    match (name, known.as_slice()) {
        (_, []) => Err(LogFault::NoScores),
        (Some(name), known) if known.iter().any(|it| it == name) => Ok(name.to_owned()),
        (Some(name), _) => Err(LogFault::UnknownScorer {
            name: short(name),
            known,
        }),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(LogFault::SeveralScorers(known)),
    }
}

/// The values of a sample by the name of their scorer.
fn values(sample: &Value) -> HashMap<String, Value> {
    let none = Map::new();
    let scores = sample.get("scores").and_then(Value::as_object);
    let mut values = HashMap::new();
    for (name, score) in scores.unwrap_or(&none) {
        match score.get("value") {
            Some(Value::Object(parts)) => {
                for (part, value) in parts {
                    values.insert(format!("{name}.{part}"), value.clone());
                }
            }
            Some(value) => {
                values.insert(name.clone(), value.clone());
            }
            None => {}
        }
    }
    values
}

/// A value as Inspect's `value_to_float` reads it.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(is_true) => Some(f64::from(u8::from(*is_true))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "C" => Some(1.0),
            "P" => Some(0.5),
            "I" | "N" => Some(0.0),
            text => match text.to_ascii_lowercase().as_str() {
                "yes" | "true" => Some(1.0),
                "no" | "false" => Some(0.0),
                text => text.parse().ok(),
            },
        },
        _ => None,
    }
}

/// Whether the scorer gave no value: null, or a number that JSON cannot hold.
fn is_unscored(value: &Value) -> bool {
    value.is_null() || matches!(value.as_str(), Some("NaN" | "nan"))
}

/// The task of every sample that an import of the log makes a task of, by its place.
fn task_ids(bytes: &[u8]) -> HashMap<String, TaskId> {
    let identity = Identity {
        suite_id: "private.imported.evals.log".to_owned(),
        version: "1.0.0".to_owned(),
        target_agent_id: None,
        pass_score: None,
    };
    let options = Options {
        format: Format::InspectLog,
        strategy: MatchStrategy::Exact,
        columns: &Columns::default(),
        identity: &identity,
    };
    let Ok(imported) = convert(&Source::alone(bytes), &options) else {
        return HashMap::new();
    };
    let tasks = imported.suite.get("tasks").and_then(Value::as_array);
    let ids = tasks.into_iter().flatten().filter_map(|task| {
        let id = task.get("taskId")?.as_str()?;
        Some(TaskId::from(id))
    });
    imported.places.iter().cloned().zip(ids).collect()
}

/// The id of a sample that an import leaves out, such as one without a target.
fn of_name(id: Option<&Value>) -> Option<TaskId> {
    let name = match id? {
        Value::String(text) => slug(text),
        Value::Number(number) => slug(&number.to_string()),
        _ => return None,
    };
    (!name.is_empty()).then(|| TaskId::from(name.as_str()))
}

/// The text of the model's answer.
fn answer(sample: &Value) -> Option<String> {
    let completion = sample
        .pointer("/output/completion")
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty());
    let text = match completion {
        Some(text) => text.to_owned(),
        None => match sample.pointer("/output/choices/0/message/content")? {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => return None,
        },
    };
    let text = attached(sample, &text).unwrap_or(&text);
    Some(text.chars().take(MAX_CHARS).collect())
}

/// The attachment that a long text is replaced with, if it is one.
fn attached<'a>(sample: &'a Value, text: &str) -> Option<&'a str> {
    let name = text.strip_prefix("attachment://")?;
    sample.get("attachments")?.get(name)?.as_str()
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}
