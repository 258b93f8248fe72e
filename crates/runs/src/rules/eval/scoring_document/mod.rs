//! The scoring document of a suite: assertions that RFC 0081 has no place for.
//!
//! The suite stays a valid RFC 0081 document that any host can run. A host that knows the scoring
//! document scores its tasks by their assertions instead. [`read`](read::read) reads one from
//! bytes;
//! [`assertions`](super::assertions) evaluates it.

pub mod attachments;
pub mod checks;
pub mod conversation;
pub mod judged;
pub mod limits;
pub mod path;
pub mod place;
pub mod read;
pub mod scope;
pub mod tags;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use attachments::AttachmentReference;
pub use checks::Check;
pub use conversation::Conversation;
pub use place::Place;
use scope::Part;
use touchstone_kit::ids::TaskId;

/// The only version of the format.
pub const VERSION: u64 = 1;

/// The end of a scoring document's file name: `evals/triage.scoring.json` belongs to
/// `evals/triage.json`.
pub const SUFFIX: &str = ".scoring.json";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoringDocument {
    /// [`VERSION`].
    pub scoring_version: u64,
    /// The suite whose tasks it scores.
    pub suite_id: String,
    /// Assertions of every task, before its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<TaskScoring>,
    #[serde(default)]
    pub tasks: BTreeMap<TaskId, TaskScoring>,
}

/// The assertions of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskScoring {
    #[serde(default)]
    pub assertions: Vec<Assertion>,
    /// The score that the task must reach, 0.0..=1.0. If absent, every assertion with a weight
    /// above 0 must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The user's messages in addition to the input; not in `defaults`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    /// Files that are sent with the input; not in `defaults`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentReference>,
    /// Names that select the task; not in `defaults`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assertion {
    #[serde(flatten)]
    pub check: Check,
    /// Whether the check must fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not: bool,
    /// Share of the score, relative to the other assertions. An assertion of weight 0 is shown and
    /// measured, but does not count.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: f64,
    /// The name under which its values are aggregated over the suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The part of the conversation that it looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Part>,
    /// The turn that it looks at: from 1, or from -1 at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<i32>,
}

const fn one() -> f64 {
    1.0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::float_cmp,
    reason = "the signature serde asks for; only the default itself is left out"
)]
fn is_one(weight: &f64) -> bool {
    *weight == 1.0
}

impl From<Check> for Assertion {
    /// The check with the default weight.
    fn from(check: Check) -> Self {
        Self {
            check,
            not: false,
            weight: 1.0,
            metric: None,
            on: None,
            turn: None,
        }
    }
}

impl Assertion {
    /// This assertion and all nested ones.
    pub fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        for nested in self.check.nested() {
            nested.visit(visit);
        }
    }
}

/// How a task is scored: what the document says about it, with the defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveScoring<'a> {
    pub assertions: Vec<&'a Assertion>,
    pub threshold: Option<f64>,
}

impl<'a> EffectiveScoring<'a> {
    /// Whether any assertion, also a nested one, satisfies `wanted`.
    pub fn has(&self, wanted: impl Fn(&Check) -> bool) -> bool {
        let mut found = false;
        for assertion in &self.assertions {
            assertion.visit(&mut |it| found |= wanted(&it.check));
        }
        found
    }

    /// Whether an assertion that counts compares the answer with that of a baseline.
    pub fn compares_answers(&self) -> bool {
        let mut found = false;
        for assertion in &self.assertions {
            assertion.visit(&mut |it| found |= it.check.needs_baseline() && it.weight > 0.0);
        }
        found
    }

    /// The assertions that are decided outside of this host, with their positions.
    pub fn external(&self) -> Vec<(String, &'a Assertion)> {
        let mut found = Vec::new();
        for (index, assertion) in self.assertions.iter().enumerate() {
            place::collect_external(assertion, Place::top(index), &mut found);
        }
        found
    }
}

/// The suite's own expectation, for tasks that only have the document's defaults.
static EXPECTED: Assertion = Assertion {
    check: Check::Expected,
    not: false,
    weight: 1.0,
    metric: None,
    on: None,
    turn: None,
};

impl ScoringDocument {
    pub fn new(suite_id: impl Into<String>) -> Self {
        Self {
            scoring_version: VERSION,
            suite_id: suite_id.into(),
            defaults: None,
            tasks: BTreeMap::new(),
        }
    }

    /// The conversation of a task; `None` if its input is all that the user says.
    pub fn conversation(&self, task: &TaskId) -> Option<&Conversation> {
        self.tasks.get(task)?.conversation.as_ref()
    }

    /// The files that are sent with the input of a task.
    pub fn attachments(&self, task: &TaskId) -> &[AttachmentReference] {
        self.tasks.get(task).map_or(&[], |entry| &entry.attachments)
    }

    pub fn tags(&self, task: &TaskId) -> &[String] {
        self.tasks.get(task).map_or(&[], |entry| &entry.tags)
    }

    /// How the document scores a task; `None` if the suite alone does. A task without assertions of
    /// its own keeps its own expectation beside the defaults.
    pub fn of_task(&self, task: &TaskId) -> Option<EffectiveScoring<'_>> {
        let defaults = self.defaults.as_ref();
        let shared = defaults.map_or(&[][..], |defaults| &defaults.assertions);
        let entry = self.tasks.get(task);
        let entry = entry.filter(|entry| !entry.assertions.is_empty());
        if entry.is_none() && shared.is_empty() {
            return None;
        }
        let own = entry.map_or(std::slice::from_ref(&EXPECTED), |entry| &entry.assertions);
        Some(EffectiveScoring {
            assertions: shared.iter().chain(own).collect(),
            threshold: entry
                .and_then(|entry| entry.threshold)
                .or_else(|| defaults.and_then(|defaults| defaults.threshold)),
        })
    }

    /// Whether any assertion, also a nested one, satisfies `wanted`.
    pub fn has(&self, wanted: impl Fn(&Check) -> bool) -> bool {
        let mut found = false;
        let all = self.defaults.iter().chain(self.tasks.values());
        for assertion in all.flat_map(|entry| &entry.assertions) {
            assertion.visit(&mut |it| found |= wanted(&it.check));
        }
        found
    }

    /// Whether a model plays the user of a task.
    pub fn has_simulated_user(&self) -> bool {
        let mut conversations = self
            .tasks
            .values()
            .filter_map(|it| it.conversation.as_ref());
        conversations.any(|it| it.user.is_some())
    }

    /// The names of all metrics.
    pub fn metrics(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        let all = self.defaults.iter().chain(self.tasks.values());
        for assertion in all.flat_map(|entry| &entry.assertions) {
            assertion.visit(&mut |it| names.extend(it.metric.as_deref()));
        }
        names
    }
}

#[cfg(test)]
mod tests;
