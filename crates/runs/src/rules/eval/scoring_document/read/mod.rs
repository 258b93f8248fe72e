//! Reading a scoring document: strict JSON, no unknown members, every assertion usable.

mod faults;
mod judged;
mod parameters;
mod rules;
mod shape;

use std::collections::BTreeSet;

pub(super) use self::faults::Faults;
pub use self::faults::nearest;
use self::faults::{escaped, in_words};
use self::judged::missing_context;
use self::rules::check_rules;
use self::shape::check_shape;
use super::ScoringDocument;
use touchstone_kit::ids::TaskId;
use touchstone_kit::{integrity, json};
use touchstone_openwop::suite::{AgentEvalSuite, SuiteFault};

/// A document with the text that its digest is computed over.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadScoring {
    pub document: ScoringDocument,
    /// The document with sorted keys and no whitespace.
    pub canonical: String,
}

impl ReadScoring {
    /// `sha256-<base64>` of the canonical text.
    pub fn digest(&self) -> String {
        integrity::of(self.canonical.as_bytes())
    }
}

/// Parses a scoring document and checks it by itself.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(bytes: &[u8]) -> Result<ReadScoring, Vec<SuiteFault>> {
    let value = json::parse(bytes).map_err(|error| vec![SuiteFault::new("", error.to_string())])?;
    let mut faults = Faults::default();
    check_shape(&value, &mut faults);
    faults.end()?;
    let document: ScoringDocument = serde::Deserialize::deserialize(&value)
        .map_err(|error: serde_json::Error| vec![SuiteFault::new("", in_words(&error))])?;
    let mut faults = Faults::default();
    check_rules(&document, &mut faults);
    faults.end()?;
    Ok(ReadScoring {
        document,
        canonical: json::canonical_text(&value),
    })
}

/// Parses a scoring document of this suite.
///
/// # Errors
/// As [`read`], and tasks that the suite lacks.
pub fn read_for(bytes: &[u8], suite: &AgentEvalSuite) -> Result<ReadScoring, Vec<SuiteFault>> {
    let read = read(bytes)?;
    let faults = suite_faults(&read.document, suite);
    if faults.is_empty() {
        Ok(read)
    } else {
        Err(faults)
    }
}

/// Where the document does not fit the suite.
pub fn suite_faults(document: &ScoringDocument, suite: &AgentEvalSuite) -> Vec<SuiteFault> {
    let mut faults = Faults::default();
    if document.suite_id != suite.suite_id {
        faults.add(
            "/suiteId",
            format!("must be the id of the suite, `{}`", suite.suite_id),
        );
    }
    let known: BTreeSet<&TaskId> = suite.tasks.iter().map(|task| &task.task_id).collect();
    for id in document.tasks.keys().filter(|id| !known.contains(id)) {
        let near = nearest(id.as_str(), known.iter().map(|id| id.as_str()));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        faults.add(
            format!("/tasks/{}", escaped(id.as_str())),
            format!("the suite has no task with this id{hint}"),
        );
    }
    for task in &suite.tasks {
        if let Some(entry) = document.tasks.get(&task.task_id) {
            let at = format!("/tasks/{}", escaped(task.task_id.as_str()));
            missing_context(&entry.assertions, &at, &task.input, &mut faults);
        }
    }
    faults.all
}
