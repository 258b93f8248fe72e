//! Where in a transcript a safety finding is.

use serde::{Deserialize, Serialize};

use super::transcript::{Entry, Step};
use crate::rules::eval::safety::{Transcript, examine};
use touchstone_openwop::suite::Task;
use touchstone_openwop::summary::{SafetyFinding, Severity};

/// Longer transcripts are not searched: each step is examined with all steps before it.
const MAX_ENTRIES: usize = 200;

/// A safety finding and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingDetails {
    /// The category, a label.
    pub kind: String,
    pub severity: Severity,
    /// Index of the transcript's entry with which the detector first reports it; absent if it needs
    /// more than the transcript, such as a judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
}

/// The recorded findings with their places. `prompt` is that of the agent; without it, its leaks
/// have no place.
pub fn placed(
    findings: &[SafetyFinding],
    prompt: &str,
    task: &Task,
    entries: &[Entry],
) -> Vec<FindingDetails> {
    let mut details: Vec<FindingDetails> = findings
        .iter()
        .map(|finding| FindingDetails {
            kind: finding.kind.clone(),
            severity: finding.severity,
            entry: None,
        })
        .collect();
    if entries.len() > MAX_ENTRIES {
        return details;
    }
    let mut transcript = Transcript::default();
    for (n, entry) in entries.iter().enumerate() {
        match &entry.step {
            Step::ToolCalled {
                tool,
                call_id,
                arguments,
            } => transcript.called(tool, call_id, arguments.as_ref()),
            Step::ToolReturned {
                call_id,
                status,
                result,
                ..
            } => transcript.returned(call_id, *status, result.as_ref()),
            Step::Answered { answer } | Step::TurnAnswered { answer, .. } => {
                transcript.answered(answer);
            }
            _ => continue,
        }
        if details.iter().all(|finding| finding.entry.is_some()) {
            break;
        }
        let found = examine(prompt, task, &transcript, false);
        let missing = details.iter_mut().filter(|it| it.entry.is_none());
        for finding in missing.filter(|it| found.iter().any(|other| other.kind == it.kind)) {
            finding.entry = Some(n);
        }
    }
    details
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn task() -> Task {
        serde_json::from_value(json!({
            "taskId": "t1", "input": {"message": "Hello"},
            "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "x"}},
        }))
        .unwrap()
    }

    fn entries(steps: &[Value]) -> Vec<Entry> {
        let entry = |step: &Value| {
            let mut entry = step.clone();
            entry["at"] = json!("2026-01-01T00:00:00Z");
            serde_json::from_value(entry).unwrap()
        };
        steps.iter().map(entry).collect()
    }

    fn finding(kind: &str) -> SafetyFinding {
        serde_json::from_value(json!({"kind": kind, "severity": "critical"})).unwrap()
    }

    #[test]
    fn a_finding_is_at_the_step_that_first_shows_it() {
        let key = "ghp_Zk3pQ9vT1mB7nC2xR8sW4uY6";
        let steps = entries(&[
            json!({"step": "started"}),
            json!({"step": "toolCalled", "tool": "crm:find", "callId": "c1", "arguments": {"q": "a"}}),
            json!({"step": "toolReturned", "tool": "crm:find", "callId": "c1", "status": "ok",
                "result": {"name": "Ann"}}),
            json!({"step": "answered", "answer": key}),
        ]);
        let mut transcript = Transcript::default();
        transcript.answered(&json!(key));
        let found = examine("", &task(), &transcript, false);
        assert!(!found.is_empty());
        let places: Vec<_> = placed(&found, "", &task(), &steps)
            .iter()
            .map(|it| it.entry)
            .collect();
        assert_eq!(places, vec![Some(3); found.len()]);
    }

    #[test]
    fn a_refused_call_is_at_its_return_and_a_jailbreak_has_no_place() {
        let steps = entries(&[
            json!({"step": "toolCalled", "tool": "crm:drop", "callId": "c1"}),
            json!({"step": "toolReturned", "tool": "crm:drop", "callId": "c1", "status": "forbidden"}),
            json!({"step": "answered", "answer": "ok"}),
        ]);
        let kinds = [crate::rules::eval::safety::UNSAFE_TOOL_CALL, "jailbreak"].map(finding);
        let found = placed(&kinds, "", &task(), &steps);
        assert_eq!((found[0].entry, found[1].entry), (Some(1), None));
    }
}
