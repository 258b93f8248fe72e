//! Redaction of debug bundles (OpenWOP debug-bundle, SR-1).
//!
//! A bundle helps people find out what went wrong without showing them task content. Everything
//! that callers, models, tools and people supplied is masked completely, whatever it looks like;
//! ids, types, codes, counts and scores stay. Events of a type that this version does not know are
//! masked completely too. The remaining text is searched for credentials.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::record::RunRecord;
use touchstone_kit::redaction::mask;
use touchstone_openwop::annotation::Annotation;

/// Replaces content.
pub const REDACTED: &str = "[REDACTED]";

/// Replaces a hash of content; it has the form of a hash, because schemas require it.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Members of `configurable` that are settings; all other members are the caller's content.
const SETTINGS: &[&str] = &[
    "baselineRunId",
    "budget",
    "escalationThreshold",
    "evalConcurrency",
    "evalDistribution",
    "evalMatch",
    "evalModes",
    "evalTaskTimeoutMs",
    "evalTasks",
    "evalWorkerCommand",
    "evalWorkerLabels",
    "fixtureRuns",
    "maxLoopIterations",
    "maxTokens",
    "model",
    "reasoningVerbosity",
    "recursionLimit",
    "runTimeoutMs",
    "temperature",
];

/// Members of an event document other than its payload.
const ENVELOPE: &[&str] = &[
    "causationId",
    "engineVersion",
    "eventId",
    "nodeId",
    "runId",
    "schemaVersion",
    "sequence",
    "timestamp",
    "type",
];

/// Masks content, and records whether it masked any.
#[derive(Debug, Default)]
pub struct Redactor {
    applied: bool,
}

impl Redactor {
    /// Whether anything was masked so far.
    pub fn applied(&self) -> bool {
        self.applied
    }

    /// The run in a bundle: its snapshot, and its inputs.
    pub fn run(&mut self, record: &RunRecord, snapshot: Value) -> Map<String, Value> {
        let Value::Object(mut run) = snapshot else {
            return Map::new();
        };
        run.insert(
            "inputs".to_owned(),
            Value::Object(record.spec.inputs.clone()),
        );
        for (name, value) in &mut run {
            match name.as_str() {
                "inputs" | "metadata" | "variables" => self.content(value),
                "configurable" => self.configurable(value),
                "status" => *value = json!(value.as_str().map(status)),
                _ => self.mask_credentials(value),
            }
        }
        if let Some(ended) = run.get("completedAt").cloned() {
            run.insert("endedAt".to_owned(), ended);
        }
        run
    }

    /// An event of an eval run, or of another run.
    ///
    /// # Errors
    /// The body is not an event document.
    pub fn event(&mut self, is_eval: bool, body: &[u8]) -> serde_json::Result<Box<RawValue>> {
        let mut document: Map<String, Value> = serde_json::from_slice(body)?;
        let kind = document.get("type").and_then(Value::as_str);
        let content = kind.and_then(|kind| content(kind, is_eval));
        for (name, value) in &mut document {
            if name != "payload" {
                if ENVELOPE.contains(&name.as_str()) {
                    self.mask_credentials(value);
                } else {
                    self.content(value);
                }
                continue;
            }
            match (value.as_object_mut(), content) {
                (Some(payload), Some(content)) => {
                    for (name, value) in payload {
                        if content.contains(&name.as_str()) {
                            self.content(value);
                            if name == "argsHash" && !value.is_null() {
                                *value = json!(NO_HASH);
                            }
                        } else {
                            self.mask_credentials(value);
                        }
                    }
                }
                _ => self.content(value),
            }
        }
        serde_json::value::to_raw_value(&document)
    }

    /// An annotation in a bundle: the kind of signal, its target and its author, but no text.
    pub fn annotation(&mut self, mut annotation: Annotation) -> Annotation {
        for words in [&mut annotation.note, &mut annotation.signal.correction] {
            if words.is_some() {
                self.applied = true;
                *words = Some(REDACTED.to_owned());
            }
        }
        annotation
    }

    /// Masks a value completely. Objects stay objects, because schemas require them.
    fn content(&mut self, value: &mut Value) {
        let masked = match value {
            Value::Null => return,
            Value::Object(members) if members.is_empty() => return,
            Value::Array(elements) if elements.is_empty() => return,
            Value::Object(_) => json!({"redacted": REDACTED}),
            Value::Array(_) => json!([REDACTED]),
            _ => json!(REDACTED),
        };
        self.applied = true;
        *value = masked;
    }

    fn configurable(&mut self, value: &mut Value) {
        let Some(members) = value.as_object_mut() else {
            return self.content(value);
        };
        // The name of a member that is not a setting is the caller's content too.
        let before = members.len();
        members.retain(|name, _| SETTINGS.contains(&name.as_str()));
        self.applied |= members.len() < before;
        for value in members.values_mut() {
            self.mask_credentials(value);
        }
    }

    /// Masks credentials in all strings and member names.
    fn mask_credentials(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = mask(text) {
                    self.applied = true;
                    *text = masked;
                }
            }
            Value::Array(elements) => elements
                .iter_mut()
                .for_each(|value| self.mask_credentials(value)),
            Value::Object(members) => {
                if members
                    .keys()
                    .any(|name| matches!(mask(name), Cow::Owned(_)))
                {
                    return self.content(value);
                }
                members
                    .values_mut()
                    .for_each(|value| self.mask_credentials(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Whether events of this type of an eval run may hold task content: inputs, answers, transcripts
/// and judges' reasons.
pub fn has_task_content(kind: &str) -> bool {
    match content(kind, true) {
        // A type that this version does not know.
        None => true,
        Some(members) => {
            let of_task = [
                "agent.",
                "ai.",
                "touchstone.judge.",
                "touchstone.reply.",
                "touchstone.assertions.",
                "touchstone.turn.",
                "touchstone.user.",
            ];
            !members.is_empty() && of_task.iter().any(|family| kind.starts_with(family))
        }
    }
}

/// The event of an eval run without task content.
pub fn without_task_content(kind: &str, body: &Bytes) -> Bytes {
    if !has_task_content(kind) {
        return body.clone();
    }
    match Redactor::default().event(true, body) {
        Ok(masked) => Bytes::from(masked.get().to_owned()),
        // The content of an unreadable event is unknown.
        Err(_) => Bytes::from_static(b"{}"),
    }
}

/// The members of a payload that hold content; `None` for an unknown event type.
fn content(kind: &str, is_eval: bool) -> Option<&'static [&'static str]> {
    Some(match kind {
        "run.started" => &["inputs", "metadata"],
        // The summary of an eval run contains no task content (RFC 0081).
        "run.completed" if is_eval => &[],
        "run.completed" | "node.completed" => &["outputs"],
        "interrupt.requested" => &["data", "resumeSchema"],
        "interrupt.resolved" => &["resumeValue"],
        "approval.requested" => &["title"],
        "approval.received" => &["feedback"],
        // Reasons that people wrote. Reasons of other event types are labels of this host.
        "approval.rejected"
        | "approval.overridden"
        | "deployment.rolled-back"
        | "run.cancelled"
        | "run.paused" => &["reason"],
        "clarification.requested" => &["questions"],
        "clarification.resolved" => &["answers"],
        "ai.message.chunk" => &["chunk"],
        "agent.reasoned" => &["reasoning"],
        // If few arguments are possible, their hash reveals them, so the hash is masked too.
        "agent.toolCalled" => &["inputs", "argsHash"],
        "agent.toolReturned" => &["outcome"],
        "agent.decided" => &["decision"],
        "agent.handoff" => &["reason"],
        "touchstone.judge.reasoned" | "touchstone.assertions.reasoned" => &["reasons"],
        "touchstone.reply.rejected" => &["reply"],
        "touchstone.turn.answered" => &["answer"],
        "touchstone.user.said" => &["text"],
        "touchstone.user.stopped" => &["note"],
        "run.failed"
        | "run.resumed"
        | "node.started"
        | "node.failed"
        | "node.suspended"
        | "node.resumed"
        | "approval.granted"
        | "cap.breached"
        | "authorization.decided"
        | "agent.invocation.started"
        | "agent.invocation.completed"
        | "runOrchestrator.decided"
        | "provider.usage"
        | "replay.diverged" => &[],
        kind if ["budget.", "deployment.", "eval.", "touchstone."]
            .iter()
            .any(|family| kind.starts_with(family)) =>
        {
            &[]
        }
        _ => return None,
    })
}

/// The bundle's name for a status.
fn status(status: &str) -> &str {
    match status {
        "paused" | "cancelling" | "waiting-external" => "running",
        "waiting-input" => "waiting-clarification",
        status => status,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use touchstone_openwop::events::Event;

    fn shown(kind: &str, payload: &Value) -> (Value, bool) {
        let body = json!({"eventId": "evt_1", "runId": "run_a", "type": kind, "sequence": 1, "nodeId": "task-1",
            "timestamp": "2026-01-01T00:00:00Z", "schemaVersion": 1, "engineVersion": "1", "payload": payload});
        let mut redactor = Redactor::default();
        let text = redactor.event(false, body.to_string().as_bytes()).unwrap();
        let mut shown: Value = serde_json::from_str(text.get()).unwrap();
        let payload = shown["payload"].take();
        shown["payload"] = body["payload"].clone();
        assert_eq!(shown, body, "the envelope stays as it is");
        (payload, redactor.applied())
    }

    #[rstest]
    #[case("agent.decided", json!({"agentId": "a", "decision": {"text": "canary"}}),
        json!({"agentId": "a", "decision": {"redacted": REDACTED}}))]
    #[case("agent.handoff", json!({"fromAgentId": "a.b", "toAgentId": "tax-desk", "reason": "canary"}),
        json!({"fromAgentId": "a.b", "toAgentId": "tax-desk", "reason": REDACTED}))]
    #[case("agent.toolCalled", json!({"callId": "c", "inputs": {"pin": 1234}, "argsHash": "b3184313"}),
        json!({"callId": "c", "inputs": {"redacted": REDACTED}, "argsHash": NO_HASH}))]
    #[case("agent.toolReturned", json!({"callId": "c", "outcome": 7, "status": "ok"}),
        json!({"callId": "c", "outcome": REDACTED, "status": "ok"}))]
    #[case("agent.toolReturned", json!({"error": {"code": "forbidden", "message": "no"}, "outcome": [1], "status": "forbidden"}),
        json!({"error": {"code": "forbidden", "message": "no"}, "outcome": [REDACTED], "status": "forbidden"}))]
    #[case("run.completed", json!({"outputs": {"echo": "canary"}, "durationMs": 3}),
        json!({"outputs": {"redacted": REDACTED}, "durationMs": 3}))]
    #[case("clarification.requested", json!({"questions": [{"id": "q1"}]}), json!({"questions": [REDACTED]}))]
    #[case("approval.received", json!({"action": "reject", "feedback": "canary"}),
        json!({"action": "reject", "feedback": REDACTED}))]
    #[case("approval.rejected", json!({"gateId": "gate", "principal": "ann", "reason": "canary"}),
        json!({"gateId": "gate", "principal": "ann", "reason": REDACTED}))]
    #[case("approval.overridden", json!({"gateId": "gate", "principal": "ann", "reason": "canary"}),
        json!({"gateId": "gate", "principal": "ann", "reason": REDACTED}))]
    #[case("run.cancelled", json!({"reason": "canary", "cancelledBy": "ann"}),
        json!({"reason": REDACTED, "cancelledBy": "ann"}))]
    #[case("run.paused", json!({"reason": "canary", "drainPolicy": "immediate", "pausedBy": "ann"}),
        json!({"reason": REDACTED, "drainPolicy": "immediate", "pausedBy": "ann"}))]
    #[case("deployment.rolled-back", json!({"agentId": "a", "fromVersion": "2.0.0", "reason": "canary"}),
        json!({"agentId": "a", "fromVersion": "2.0.0", "reason": REDACTED}))]
    #[case("touchstone.reply.rejected", json!({"by": "judge", "reply": "canary"}),
        json!({"by": "judge", "reply": REDACTED}))]
    #[case("touchstone.judge.reasoned", json!({"taskId": "t1", "reasons": ["canary"]}),
        json!({"taskId": "t1", "reasons": [REDACTED]}))]
    #[case("touchstone.assertions.reasoned", json!({"taskId": "t1", "reasons": [{"assertion": "0", "by": "sha256-x", "reason": "canary"}]}),
        json!({"taskId": "t1", "reasons": [REDACTED]}))]
    #[case("touchstone.turn.answered", json!({"turn": 1, "answer": "canary"}),
        json!({"turn": 1, "answer": REDACTED}))]
    #[case("touchstone.user.said", json!({"turn": 2, "text": "canary"}), json!({"turn": 2, "text": REDACTED}))]
    #[case("touchstone.user.stopped", json!({"turn": 2, "reason": "done", "note": "canary"}),
        json!({"turn": 2, "reason": "done", "note": REDACTED}))]
    #[case("later.invented", json!({"nodeId": "n", "text": "canary"}), json!({"redacted": REDACTED}))]
    #[case("run.failed", json!({"error": {"code": "x", "message": "key sk-canary123456"}}),
        json!({"error": {"code": "x", "message": "key [REDACTED:api-key]"}}))]
    #[case("node.failed", json!({"error": {"sk-canary123456": 1}}), json!({"error": {"redacted": REDACTED}}))]
    fn bundle_content_is_redacted(
        #[case] kind: &str,
        #[case] payload: Value,
        #[case] expected: Value,
    ) {
        assert_eq!(shown(kind, &payload), (expected, true));
    }

    #[rstest]
    #[case("eval.scored", json!({"taskId": "task-1", "score": 0.5, "passed": false}))]
    #[case("agent.decided", json!({"agentId": "a", "decision": null}))]
    #[case("node.completed", json!({"nodeId": "n", "outputs": {}}))]
    #[case("run.cancelled", json!({"cancelledBy": "ann"}))]
    #[case("touchstone.task.failed", json!({"taskId": "task-1", "reason": "output_not_json"}))]
    fn bundle_facts_are_not_redacted(#[case] kind: &str, #[case] payload: Value) {
        assert_eq!(shown(kind, &payload), (payload, false));
    }

    #[test]
    fn every_event_type_has_redaction_rules() {
        for kind in Event::TYPES {
            assert!(content(kind, false).is_some(), "{kind}");
        }
    }

    #[rstest]
    #[case("paused", "running")]
    #[case("cancelling", "running")]
    #[case("waiting-external", "running")]
    #[case("waiting-input", "waiting-clarification")]
    #[case("waiting-approval", "waiting-approval")]
    #[case("completed", "completed")]
    fn run_statuses_map_to_bundle_statuses(#[case] of_run: &str, #[case] of_bundle: &str) {
        assert_eq!(status(of_run), of_bundle);
    }

    #[rstest]
    #[case(json!({"signal": {"kind": "correction", "correction": "canary"}, "note": "canary"}),
        json!({"signal": {"kind": "correction", "correction": REDACTED}, "note": REDACTED}), true)]
    #[case(json!({"signal": {"kind": "label", "label": "odd"}}), json!({"signal": {"kind": "label", "label": "odd"}}), false)]
    #[case(json!({"signal": {"kind": "rating", "rating": 4}}), json!({"signal": {"kind": "rating", "rating": 4}}), false)]
    fn only_free_text_of_annotations_is_redacted(
        #[case] content: Value,
        #[case] expected: Value,
        #[case] applied: bool,
    ) {
        let around = |content: Value| {
            let mut annotation = json!({"annotationId": "ann_1", "target": {"runId": "run_1"},
                "actor": {"principalRef": "ann"}, "createdAt": "2026-01-01T00:00:00Z"});
            let members = annotation.as_object_mut().unwrap();
            members.extend(content.as_object().unwrap().clone());
            annotation
        };
        let mut redactor = Redactor::default();
        let annotation = serde_json::from_value(around(content)).unwrap();
        let shown = serde_json::to_value(redactor.annotation(annotation)).unwrap();
        assert_eq!((shown, redactor.applied()), (around(expected), applied));
    }

    #[test]
    fn configurable_members_other_than_settings_are_redacted() {
        let mut redactor = Redactor::default();
        let mut configurable =
            json!({"temperature": 0.5, "promptOverrides": {"system": "canary"}, "canary": 1});
        redactor.configurable(&mut configurable);
        assert_eq!(
            (configurable, redactor.applied()),
            (json!({"temperature": 0.5}), true)
        );
    }
}
