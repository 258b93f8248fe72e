//! An answer as labellers see it: without anything that shows what the judge decided.

use serde::Serialize;
use serde_json::Value;

use super::{Label, Review, ReviewItem};
use crate::rules::eval::rubric::calibration::Sample;
use crate::rules::eval::scoring_document::conversation::EarlierMessage;
use crate::rules::eval::task_details::TaskDetails;
use crate::rules::eval::task_details::transcript::Step;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::suite::Match;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUse {
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why the call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An answer to label. It has no score, outcome, reason, criteria result or label of others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlindItem {
    pub review_id: String,
    pub number: u32,
    pub task_id: TaskId,
    pub steps: u8,
    /// The messages before the input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier_messages: Vec<EarlierMessage>,
    pub input: Value,
    /// Absent for a rubric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Match>,
    /// The criteria of the rubric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<String>,
    /// Absent if the agent gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolUse>,
    /// Whether the content was deleted.
    pub content_deleted: bool,
    /// The caller's own label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
}

impl BlindItem {
    pub fn of(review: &Review, item: &ReviewItem, principal: &str, details: TaskDetails) -> Self {
        let tools = tools(&details);
        Self {
            review_id: review.review_id.clone(),
            number: item.number,
            task_id: details.task_id,
            steps: review.steps,
            earlier_messages: details.earlier_messages,
            input: details.input,
            expected: details.expected,
            criteria: details
                .criteria
                .into_iter()
                .map(|it| it.criterion)
                .collect(),
            answer: details.actual,
            tools,
            content_deleted: details.content_deleted,
            label: item.label_of(principal).cloned(),
        }
    }
}

/// The calls of a transcript with their results.
fn tools(details: &TaskDetails) -> Vec<ToolUse> {
    let mut found: Vec<(String, ToolUse)> = Vec::new();
    for entry in &details.transcript {
        match &entry.step {
            Step::ToolCalled {
                tool,
                call_id,
                arguments,
            } => found.push((
                call_id.clone(),
                ToolUse {
                    tool: tool.clone(),
                    arguments: arguments.clone(),
                    result: None,
                    error: None,
                },
            )),
            Step::ToolReturned {
                call_id,
                result,
                error,
                ..
            } => {
                let called = found.iter_mut().rev().find(|(id, _)| id == call_id);
                if let Some((_, call)) = called {
                    call.result.clone_from(result);
                    call.error.clone_from(error);
                }
            }
            _ => {}
        }
    }
    found.into_iter().map(|(_, call)| call).collect()
}

/// A labelled answer as a sample of a calibration; `None` without an answer or a label.
pub fn sample(review: &Review, item: &ReviewItem, details: TaskDetails) -> Option<Sample> {
    let human: Vec<f64> = item
        .labels
        .iter()
        .map(|it| review.score(it.choice))
        .collect();
    let results = tools(&details).into_iter().filter_map(|it| it.result);
    Some(Sample {
        item: item.task.to_string(),
        task: Some(item.task.clone()),
        human: Some(human).filter(|it| !it.is_empty())?,
        tool_results: Some(results.collect()),
        output: details.actual?,
        baseline: None,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn details() -> TaskDetails {
        serde_json::from_value(json!({
            "runId": "run_1", "taskId": "t", "outcome": "failed", "reason": "judge-says-no", "score": 0.25,
            "input": "Where is it?", "actual": "There.", "tokens": 3,
            "criteria": [{"criterion": "is polite", "weight": 1.0, "met": false, "reason": "rude-answer"}],
            "transcript": [
                {"at": "2026-01-01T00:00:00Z", "step": "toolCalled", "tool": "map", "callId": "c1", "arguments": {"q": 1}},
                {"at": "2026-01-01T00:00:00Z", "step": "toolReturned", "tool": "map", "callId": "c1", "status": "ok", "result": "north"},
            ],
        }))
        .unwrap()
    }

    fn review() -> Review {
        serde_json::from_value(json!({
            "reviewId": "review_1", "runId": "run_1", "suite": "a.evals.b@1.0.0", "seed": 0, "labellers": 2,
            "steps": 4, "items": 1, "createdBy": "key_1", "createdAt": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    fn item() -> ReviewItem {
        let label = |who: &str, choice, note: &str| Label {
            principal: who.to_owned(),
            choice,
            note: Some(note.to_owned()),
            at: Timestamp::UNIX_EPOCH,
        };
        ReviewItem {
            number: 1,
            task: "t".into(),
            labels: vec![
                label("ann", 4, "fine-answer"),
                label("bob", 1, "secret-note"),
            ],
            claims: Vec::new(),
        }
    }

    #[test]
    fn a_labeller_sees_neither_the_judge_nor_others() {
        let found = BlindItem::of(&review(), &item(), "ann", details());
        let text = serde_json::to_string(&found).unwrap();
        for hidden in [
            "0.25",
            "failed",
            "judge-says-no",
            "rude-answer",
            "met",
            "secret-note",
            "bob",
        ] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
        for shown in [
            "Where is it?",
            "There.",
            "is polite",
            "north",
            "fine-answer",
        ] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }

    #[test]
    fn labels_are_the_human_scores_of_a_sample() {
        let found = sample(&review(), &item(), details()).unwrap();
        assert_eq!(found.human, [1.0, 0.25]);
        assert_eq!(found.tool_results, Some(vec![json!("north")]));
        assert_eq!((found.item.as_str(), found.output), ("t", json!("There.")));
        let mut silent = details();
        silent.actual = None;
        assert_eq!(sample(&review(), &item(), silent), None);
    }
}
