//! One task of an eval run with its content: what went in, what was expected, what came out, how
//! it came about, and what decided the score.
//!
//! A projection of the run's log and its suite. Everything here is task content: it is shown only
//! to those who may read content, and never becomes part of scorecards, summaries, logs or metrics.

pub mod difference;
pub mod places;
pub mod transcript;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::assertions::turns::TurnLog;
use super::assertions::{
    AssertionResult, External, Observed, ToolCall, evaluate_decided, evaluate_turns, mark_answered,
};
use super::matching::compared;
use super::report::{TaskOutcome, outcome_of};
use super::rubric::rubric;
use super::safety::{UNSAFE, findings};
use super::scoring::expectation;
use super::scoring_document::conversation::EarlierMessage;
use super::scoring_document::{Check, ScoringDocument};
use crate::rules::run::fold::TaskFacts;
use crate::rules::run::record::is_zero;
use difference::{Difference, differences};
use places::{FindingDetails, placed};
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::ToolStatus;
use touchstone_openwop::schema::CompiledSchema;
use touchstone_openwop::suite::{ExpectedKind, Match, Task, Thresholds};
use transcript::{Entry, Step, TaskLog};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskDetails {
    pub run_id: RunId,
    pub task_id: TaskId,
    pub outcome: TaskOutcome,
    /// Why it failed or was not judged, as a label; absent for a plain mismatch and for a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// 0.0..=1.0.
    pub score: f64,
    /// The run that executed it, if it was another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_from: Option<RunId>,
    /// The input of the agent.
    pub input: Value,
    /// The golden expectation; absent for a rubric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Match>,
    /// The agent's answer; absent if it gave no answer or the answer was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<Value>,
    /// Where the answer differs from the expectation; empty if it matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// The criteria of its rubric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionDetails>,
    /// The assertions of the suite's scoring document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<AssertionResult>,
    /// The first rule of the return schema that the answer violates, with its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_violation: Option<String>,
    /// The findings of the safety detectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub safety_findings: Vec<FindingDetails>,
    /// The messages that were sent before the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_messages: Vec<EarlierMessage>,
    /// What happened, in order, from the start of the counted attempt.
    pub transcript: Vec<Entry>,
    /// Whether its content was deleted, by itself or with the run that executed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub content_deleted: bool,
    /// Whether parts of the transcript are missing, because it is very long or an event cannot be
    /// read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transcript_incomplete: bool,
    /// Absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<NanoUsd>,
    /// The simulated user's part of the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_cost_usd: Option<NanoUsd>,
    /// Whether cost and tokens are estimated by size because the endpoint reported no usage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    pub tokens: u64,
    /// Wall-clock time of the invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Retried model calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u32,
}

/// One criterion of a rubric and the judge's decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CriterionDetails {
    pub criterion: String,
    /// Relative weight, 0.0..=1.0.
    pub weight: f64,
    /// Absent if the judge has not decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// The judge's reason, in its words; absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a run scores and examines its tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measure<'a> {
    /// JSON Pointers that the run excludes from matching.
    pub ignore: &'a [String],
    pub thresholds: Thresholds,
    pub scoring: Option<&'a ScoringDocument>,
    /// Whether answers are compared with those of a baseline.
    pub compares_answers: bool,
    /// The agent's prompt.
    pub prompt: &'a str,
    /// The agent's return schema, if it has one.
    pub return_schema: Option<&'a CompiledSchema>,
    /// The name of the embedding model, if the run has one.
    pub embeddings: Option<&'a str>,
}

/// The label of an answer that violates the return schema.
const SCHEMA_VIOLATION: &str = "output_schema_violation";

/// The first rule that the answer violates, with its place.
fn schema_violation(
    facts: &TaskFacts,
    answer: Option<&Value>,
    schema: Option<&CompiledSchema>,
) -> Option<String> {
    let (answer, schema) = (answer?, schema?);
    if facts.failed.as_deref() != Some(SCHEMA_VIOLATION) {
        return None;
    }
    // An answer that was not accepted is recorded as the text that it came as.
    let parsed = answer
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let violation = schema.first_violation(parsed.as_ref().unwrap_or(answer))?;
    Some(match violation.pointer.as_str() {
        "" => format!("the answer {}", violation.reason),
        pointer => format!("{pointer} {}", violation.reason),
    })
}

/// Builds the details of a scored task from its definition, its facts and its part of the log.
pub fn task_details(
    run: &RunId,
    task: &Task,
    facts: &TaskFacts,
    mut log: TaskLog,
    measure: Measure<'_>,
) -> TaskDetails {
    if let Some(embeddings) = measure.embeddings {
        log.mark_embeddings(embeddings);
    }
    let ignore = measure.ignore;
    let schema_violation = schema_violation(facts, log.answer.as_ref(), measure.return_schema);
    let assertions = assertions(task, facts, &log, measure);
    let scoring = measure.scoring.and_then(|it| it.of_task(&task.task_id));
    // An expectation that no assertion refers to decides nothing.
    let decides = scoring.is_none_or(|it| it.has(|check| *check == Check::Expected));
    let expected = match task.expected.kind {
        ExpectedKind::Golden if decides => task.expected.matching.clone(),
        ExpectedKind::Golden | ExpectedKind::Rubric => None,
    };
    let differences = match (&expected, &log.answer) {
        (Some(expected), Some(answer)) if !facts.passed => {
            let (expected_value, actual_value) = compared(expected, answer, ignore);
            differences(expected.strategy, &expected_value, &actual_value)
        }
        _ => Vec::new(),
    };
    let reasons = log.reasons;
    let criteria = rubric(task).filter(|_| decides).unwrap_or_default();
    let criteria = criteria.iter().enumerate();
    let criteria = criteria.map(|(n, it)| CriterionDetails {
        criterion: it.criterion.clone(),
        weight: it.weight,
        met: facts.criteria.get(n).copied(),
        reason: reasons.get(n).cloned(),
    });
    TaskDetails {
        run_id: run.clone(),
        task_id: task.task_id.clone(),
        outcome: outcome_of(facts),
        reason: facts.unjudged.clone().or_else(|| facts.failed.clone()),
        score: facts.score,
        reused_from: facts.reused_from.clone(),
        input: task.input.clone(),
        expected,
        actual: log
            .answer
            .filter(|answer| !answer.is_null() || facts.passed),
        differences,
        criteria: criteria.collect(),
        assertions,
        schema_violation,
        safety_findings: placed(&findings(facts), measure.prompt, task, &log.entries),
        earlier_messages: measure
            .scoring
            .and_then(|it| it.conversation(&task.task_id))
            .map(|it| it.messages.clone())
            .unwrap_or_default(),
        transcript: log.entries,
        content_deleted: log.content_deleted,
        transcript_incomplete: log.is_incomplete,
        cost_usd: facts.known_cost(),
        user_cost_usd: facts.user_cost.known().filter(|cost| *cost > NanoUsd::ZERO),
        cost_estimated: facts.usage_estimated,
        tokens: facts.tokens,
        latency_ms: facts.latency_ms,
        retries: facts.retries,
    }
}

/// The results of the task's assertions, computed again from the recorded facts; of an unjudged task,
/// those that are decided. None if there is no answer, or parts of the log are missing.
fn assertions(
    task: &Task,
    facts: &TaskFacts,
    log: &TaskLog,
    measure: Measure<'_>,
) -> Vec<AssertionResult> {
    let is_unjudged = facts.unjudged.is_some();
    let has_answer = log.answer.as_ref().is_some_and(|it| !it.is_null());
    let is_evaluated = (!is_unjudged || has_answer)
        && facts
            .failed
            .as_deref()
            .is_none_or(|label| [UNSAFE, SCHEMA_VIOLATION].contains(&label))
        && !log.is_incomplete;
    let scoring = measure.scoring.and_then(|it| it.of_task(&task.task_id));
    let (Some(scoring), Some(answer), true) = (scoring, &log.answer, is_evaluated) else {
        return Vec::new();
    };
    let (met, thresholds) = (&facts.criteria, &measure.thresholds);
    let turns = turns(log);
    // A rubric that no judge has decided says nothing.
    let is_decided = !is_unjudged || rubric(task).is_none_or(|it| it.len() == met.len());
    let expected = is_decided.then(|| expectation(task, answer, measure.ignore, met, thresholds));
    let evaluated = |calls: &[ToolCall]| {
        let observed = Observed {
            answer,
            calls,
            latency_ms: facts.latency_ms,
            cost: facts.attempt_cost.known(),
            tokens: facts.attempt_tokens,
            expected,
            external: External {
                decisions: &facts.decisions,
                reasons: &log.assertion_reasons,
                has_baseline: measure.compares_answers,
            },
        };
        match is_unjudged {
            true => evaluate_decided(&scoring, &observed, &task.input, &turns),
            false => evaluate_turns(&scoring, &observed, &task.input, &turns).assertions,
        }
    };
    let mut calls = tool_calls(log);
    let results = evaluated(&calls);
    if is_as_recorded(&results, facts) {
        return results;
    }
    // Earlier versions also counted calls that were not answered.
    for call in &mut calls {
        call.is_answered = true;
    }
    let earlier = evaluated(&calls);
    match is_as_recorded(&earlier, facts) {
        true => earlier,
        false => results,
    }
}

/// Whether the results are those that decided the score.
fn is_as_recorded(results: &[AssertionResult], facts: &TaskFacts) -> bool {
    facts.assertions.is_empty()
        || results
            .iter()
            .map(|it| it.holds)
            .eq(facts.assertions.clone())
}

fn tool_calls(log: &TaskLog) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    for entry in &log.entries {
        match &entry.step {
            Step::ToolCalled {
                tool,
                call_id,
                arguments,
            } => calls.push(ToolCall::new(call_id, tool, arguments.as_ref())),
            Step::ToolReturned {
                call_id,
                status,
                error: None,
                ..
            } if *status != ToolStatus::Forbidden => mark_answered(&mut calls, call_id),
            _ => {}
        }
    }
    calls
}

/// The turns of a conversation, as they were when the task was scored.
fn turns(log: &TaskLog) -> TurnLog {
    let mut turns = TurnLog::default();
    for entry in &log.entries {
        match &entry.step {
            Step::ToolCalled { .. } => turns.called(),
            Step::TurnAnswered { answer, .. } => turns.answered(answer),
            Step::UserSaid { text, .. } => turns.said(text),
            _ => {}
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::difference::Difference;
    use super::*;
    use crate::rules::eval::scoring_document::read::read;

    #[test]
    fn a_violation_of_the_return_schema_is_named_with_its_place() {
        let schema = json!({"properties": {"queue": {"enum": ["billing"]}}, "required": ["queue"]});
        let schema = touchstone_openwop::schema::compile_untrusted(&schema).unwrap();
        let facts = TaskFacts {
            failed: Some(SCHEMA_VIOLATION.to_owned()),
            ..TaskFacts::default()
        };
        let of = |answer: Value| schema_violation(&facts, Some(&answer), Some(&schema));
        assert!(
            of(json!({"queue": "sales"}))
                .unwrap()
                .starts_with("/queue ")
        );
        assert!(of(json!("{\"queue\": 5}")).unwrap().starts_with("/queue "));
        assert!(of(json!({})).unwrap().starts_with("the answer "));
        let fine = TaskFacts::default();
        assert_eq!(
            schema_violation(&fine, Some(&json!({})), Some(&schema)),
            None
        );
    }

    fn task(value: Value) -> Task {
        serde_json::from_value(json!({
            "taskId": "t1",
            "input": {"message": "I was charged twice."},
            "expected": {"kind": "golden", "match": {"strategy": "json-match", "value": value}},
        }))
        .unwrap()
    }

    fn facts(passed: bool) -> TaskFacts {
        TaskFacts {
            score: if passed { 1.0 } else { 0.0 },
            passed,
            scored: true,
            ..TaskFacts::default()
        }
    }

    fn answered(answer: Value) -> TaskLog {
        TaskLog {
            answer: Some(answer),
            ..TaskLog::default()
        }
    }

    #[test]
    fn a_failed_task_shows_where_the_answer_differs() {
        let task = task(json!({"queue": "billing", "urgent": true}));
        let log = answered(json!({"queue": "sales", "urgent": true}));
        let details = task_details(
            &RunId::from("run_1"),
            &task,
            &facts(false),
            log,
            Measure::default(),
        );
        assert_eq!(
            details.differences,
            [Difference::changed(
                "/queue",
                json!("billing"),
                json!("sales")
            )]
        );
    }

    #[test]
    fn a_passed_task_has_no_differences_even_if_its_text_is_formatted_differently() {
        let task = task(json!({"queue": "billing"}));
        let log = answered(json!("{ \"queue\": \"billing\" }"));
        let details = task_details(
            &RunId::from("run_1"),
            &task,
            &facts(true),
            log,
            Measure::default(),
        );
        assert_eq!(details.differences, []);
        assert_eq!(details.outcome, TaskOutcome::Passed);
    }

    /// Earlier versions counted every attempt.
    #[rstest::rstest]
    #[case::of_this_version(vec![false], false)]
    #[case::of_an_earlier_version(vec![true], true)]
    #[case::not_recorded(vec![], false)]
    fn a_refused_call_counts_as_it_did_when_the_task_was_scored(
        #[case] recorded: Vec<bool>,
        #[case] holds: bool,
    ) {
        let document = json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.x",
            "tasks": {"t1": {"assertions": [{"type": "tool-called", "name": "crm:drop"}]}}});
        let document = read(document.to_string().as_bytes()).unwrap().document;
        let measure = Measure {
            scoring: Some(&document),
            ..Measure::default()
        };
        let facts = TaskFacts {
            assertions: recorded,
            ..facts(holds)
        };
        let entry = |step: Value| Entry {
            at: jiff::Timestamp::UNIX_EPOCH,
            step: serde_json::from_value(step).unwrap(),
        };
        let log = TaskLog {
            entries: vec![
                entry(json!({"step": "toolCalled", "tool": "crm:drop", "callId": "c1"})),
                entry(
                    json!({"step": "toolReturned", "tool": "crm:drop", "callId": "c1",
                    "status": "forbidden", "error": "the tool is not on the agent's allowlist"}),
                ),
            ],
            ..answered(json!("ok"))
        };
        let task = task(json!("x"));
        let details = task_details(&RunId::from("run_1"), &task, &facts, log, measure);
        assert_eq!(details.assertions[0].holds, holds);
    }

    #[test]
    fn members_that_the_run_ignores_are_not_differences() {
        let task = task(json!({"queue": "billing", "note": "a"}));
        let log = answered(json!({"queue": "sales", "note": "b"}));
        let ignore = ["/note".to_owned()];
        let measure = Measure {
            ignore: &ignore,
            ..Measure::default()
        };
        let details = task_details(&RunId::from("run_1"), &task, &facts(false), log, measure);
        let paths: Vec<&str> = details.differences.iter().map(Difference::path).collect();
        assert_eq!(paths, ["/queue"]);
    }
}
