//! Expectations of a task: the part that a suite can hold, and the part for a scoring document
//! beside the suite.

use serde_json::{Map, Value, json};

use touchstone_openwop::suite::MatchStrategy;

/// The expectation of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The `expected` of the suite. With a `scoring`, it is what hosts use that do not read scoring
    /// documents.
    pub expected: Value,
    /// The task's entry in the scoring document, if the suite cannot hold everything.
    pub scoring: Option<Value>,
}

impl Expectation {
    /// An expectation that the suite can hold.
    pub fn plain(expected: Value) -> Self {
        Self {
            expected,
            scoring: None,
        }
    }

    /// An expectation with assertions, all of which must pass.
    pub fn scored(expected: Value, assertions: Vec<Value>) -> Self {
        Self {
            expected,
            scoring: Some(json!({"assertions": assertions})),
        }
    }
}

/// A golden expectation.
pub fn golden(strategy: MatchStrategy, value: Value) -> Value {
    json!({"kind": "golden", "match": {"strategy": strategy, "value": value}})
}

/// The expectation for hosts without scoring documents if no answer is known: any answer passes.
pub fn any_answer() -> Value {
    golden(MatchStrategy::Contains, json!(""))
}

/// An expectation of one of these answers. `None` without an answer.
pub fn one_of(strategy: MatchStrategy, answers: Vec<Value>) -> Option<Expectation> {
    let first = answer(strategy, answers.first()?.clone());
    if answers.len() == 1 {
        return Some(Expectation::plain(first));
    }
    let are_texts = answers.iter().all(|it| it.as_str().is_some_and(|text| !text.is_empty()));
    let assertion = match strategy {
        MatchStrategy::Contains if are_texts => json!({"type": "contains-any", "values": answers}),
        _ => json!({"type": "equals", "anyOf": answers}),
    };
    Some(Expectation::scored(first, vec![assertion]))
}

/// The `expected` for one answer, compared as a string unless it has members.
pub fn answer(strategy: MatchStrategy, answer: Value) -> Value {
    let strategy = match answer {
        Value::Object(_) | Value::Array(_) => MatchStrategy::JsonMatch,
        // Every answer contains the empty string.
        Value::String(ref text) if text.is_empty() => MatchStrategy::Exact,
        _ => strategy,
    };
    golden(strategy, answer)
}

/// The scoring document of a suite; `None` if the suite says everything.
pub fn document(suite_id: &str, tasks: Map<String, Value>) -> Option<Value> {
    (!tasks.is_empty())
        .then(|| json!({"scoringVersion": 1, "suiteId": suite_id, "tasks": tasks}))
}
