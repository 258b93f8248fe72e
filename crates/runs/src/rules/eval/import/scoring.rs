//! Expectations of a task: the part that a suite can hold, and the part for a scoring document
//! next to the suite.

use serde_json::{Map, Value, json};

use crate::rules::eval::scoring_document::{ScoringDocument, VERSION, read};
use crate::rules::eval::suite_rules::check_suite;
use crate::rules::kind::Kinds;
use touchstone_openwop::suite::{AgentEvalSuite, MatchStrategy, SuiteFault};

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

    /// The expectation of a task with these tags.
    pub fn tagged(mut self, tags: &[String]) -> Self {
        if !tags.is_empty() {
            let entry = self.scoring.get_or_insert_with(|| json!({}));
            if let Some(members) = entry.as_object_mut() {
                members.insert("tags".to_owned(), json!(tags));
            }
        }
        self
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
    let are_texts = answers
        .iter()
        .all(|it| it.as_str().is_some_and(|text| !text.is_empty()));
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

/// Checks that a scoring document accepts an assertion.
///
/// # Errors
/// The member and the reason.
pub fn check(assertion: &Value) -> Result<(), String> {
    let alone = json!({
        "scoringVersion": VERSION, "suiteId": "a.b.evals.c", "tasks": {"t": {"assertions": [assertion]}},
    });
    read::read(alone.to_string().as_bytes())
        .map(|_| ())
        .map_err(|faults| {
            let first = faults.into_iter().next();
            first.map_or_else(String::new, |fault| {
                let member = fault.pointer.rsplit('/').next().unwrap_or_default();
                format!("`{member}` {}", fault.reason)
            })
        })
}

/// Checks a task by itself, with its entry in the scoring document.
///
/// # Errors
/// The member and the reason.
pub fn check_task(task: &Value, entry: Option<&Value>) -> Result<(), String> {
    const SUITE: &str = "a.b.evals.c";
    let first = |of: &str, faults: Vec<SuiteFault>| {
        let fault = faults.into_iter().next();
        fault.map_or_else(String::new, |fault| {
            let at = fault.pointer.strip_prefix(of).unwrap_or(&fault.pointer);
            format!("`{}` {}", at.trim_start_matches('/'), fault.reason)
        })
    };
    let kind = task.pointer("/expected/kind");
    let suite = json!({"suiteId": SUITE, "version": "1.0.0", "modes": [kind], "tasks": [task]});
    let suite = check_suite(Kinds::NONE, &suite).map_err(|faults| first("/tasks/0", faults))?;
    let (Some(entry), Some(task)) = (entry, suite.tasks.first()) else {
        return Ok(());
    };
    let id = task.task_id.as_str();
    let document = json!({"scoringVersion": VERSION, "suiteId": SUITE, "tasks": {id: entry}});
    read::read_for(document.to_string().as_bytes(), &suite)
        .map(|_| ())
        .map_err(|faults| first(&format!("/tasks/{id}"), faults))
}

/// The scoring document of a suite; `None` if the suite says everything.
///
/// # Errors
/// It is not valid.
pub fn document(
    suite: &AgentEvalSuite,
    tasks: Map<String, Value>,
) -> Result<Option<Value>, String> {
    if tasks.is_empty() {
        return Ok(None);
    }
    let document = json!({"scoringVersion": VERSION, "suiteId": suite.suite_id, "tasks": tasks});
    let faults = match serde_json::from_value::<ScoringDocument>(document.clone()) {
        Ok(document) => read::suite_faults(&document, suite),
        Err(fault) => return Err(fault.to_string()),
    };
    match faults.first() {
        Some(fault) => Err(fault.to_string()),
        None => Ok(Some(document)),
    }
}
