use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::events::{Event, EventDocument};
use crate::wire::sample::{self, OTHER_RUN, RUN, document, payloads};
use crate::wire::v2::payload::shapes;
use crate::wire::v2::subject;

const NEW: LogContext<'_> = LogContext {
    tenant: "acme",
    mark: LogMark::of_new(Major::V1),
};

fn suspended() -> Value {
    let samples = payloads();
    let sample = samples.iter().find(|(kind, _)| *kind == "node.suspended");
    document("node.suspended", 3, &sample.unwrap().1)
}

/// A projector that knows that the node `gate` is suspended.
fn projector() -> Projector<'static> {
    let mut projector = Projector::new(NEW);
    projector.learn(suspended().to_string().as_bytes()).unwrap();
    projector
}

fn projected(projector: &mut Projector<'_>, document: &Value) -> Result<Value, Unprojectable> {
    let mut out = b"before".to_vec();
    let result = projector.project(document.to_string().as_bytes(), &mut out);
    let appended = out.strip_prefix(b"before").unwrap();
    match result {
        Ok(()) => Ok(serde_json::from_slice(appended).unwrap()),
        Err(fault) => {
            assert!(appended.is_empty(), "{fault}: {appended:?}");
            Err(fault)
        }
    }
}

/// The payload of an event of a run that the projector of [`projector`] projects.
fn payload(kind: &str, payload: &Value) -> Result<Value, Unprojectable> {
    let shown = projected(&mut projector(), &document(kind, 7, payload))?;
    Ok(shown["payload"].clone())
}

fn bound(id: &str) -> String {
    format!("acme/{id}")
}

fn interrupt() -> String {
    bound(&crate::wire::v2::payload::interrupt_id(RUN, "int-gate-1"))
}

fn subject_of(principal: &str) -> Value {
    json!(subject::Subject::of("acme", principal))
}

#[test]
fn the_envelope_is_closed_and_its_ids_are_bound() {
    let scored = json!({"taskId": "t-1", "score": 1.0, "passed": true});
    let stored = document("eval.scored", 15, &scored);
    let expected = json!({
        "eventId": "evt_0199c0de_15",
        "runId": bound(RUN),
        "type": "eval.scored",
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "sequence": 14,
        "schemaVersion": 1,
        "engineVersion": 1,
        "nodeId": "gate",
        "causationId": "evt_0199c0de_1",
        "payload": scored,
    });
    assert_eq!(projected(&mut projector(), &stored), Ok(expected.clone()));

    let mut old = Projector::new(LogContext {
        mark: LogMark::default(),
        ..NEW
    });
    let mut of_old = expected;
    of_old["sequence"] = json!(15);
    assert_eq!(projected(&mut old, &stored), Ok(of_old));
}

#[test]
fn optional_members_of_the_envelope_stay_out() {
    let stored = json!({"eventId": "evt_1", "runId": RUN, "type": "run.resumed", "sequence": 1,
        "timestamp": "2026-01-01T00:00:00Z", "nodeId": null, "payload": {}});
    let expected = json!({"eventId": "evt_1", "runId": bound(RUN), "type": "run.resumed",
        "timestamp": "2026-01-01T00:00:00Z", "sequence": 0, "schemaVersion": 1, "payload": {}});
    assert_eq!(projected(&mut projector(), &stored), Ok(expected));
}

/// Every member under major 2 has a seat, and none is missing.
#[test]
fn every_kind_that_runs_write_has_a_closed_form() {
    for (kind, sample) in payloads() {
        let text = sample.to_string();
        let event = Event::parse(kind, &text).unwrap_or_else(|it| panic!("{kind}: {it}"));
        assert_eq!(
            serde_json::to_value(event).unwrap(),
            sample,
            "{kind} has other members"
        );

        let shown = projected(&mut projector(), &document(kind, 7, &sample)).unwrap();
        let name = shown["type"].as_str().unwrap();
        let payload = shown["payload"].as_object().unwrap();
        let Some(shape) = shapes::of(name) else {
            assert!(name.starts_with("touchstone."), "{name} is not described");
            continue;
        };
        for required in shape.required() {
            assert!(payload.contains_key(required), "{name} lacks {required}");
        }
        for key in payload.keys() {
            assert!(shape.has(key), "{name} has {key}");
        }
    }
}

/// Members that change, by kind. All other samples keep their payload.
#[test]
fn payloads_change_only_where_major_2_has_another_form() {
    let error = |code: &str, reason: &str, message: &str| json!({"code": code, "message": message, "details": {"reason": reason}});
    let failed = error(
        "node_config_invalid",
        "node_failed",
        "the node failed as configured",
    );
    let key_1 = subject::id("acme", "key_1");
    let resolved = |kind: &str| json!({"nodeId": "gate", "interruptId": interrupt(), "kind": kind});
    let with = |mut object: Value, more: Value| {
        let more = more.as_object().unwrap().clone();
        object.as_object_mut().unwrap().extend(more);
        object
    };
    let by = json!({"resolvedBy": subject_of("key_1")});
    let approval = with(resolved("approval"), by);
    let key = format!("{RUN}:gate:1");
    for (kind, sample) in payloads() {
        let more = sample.clone();
        let expected = match kind {
            "run.started" => with(
                more,
                json!({"workflowId": "eval:acme.triage:1.2.0",
                "engineVersion": 1, "owner": {"tenant": "acme", "subject": subject_of("key_1")}}),
            ),
            "run.completed" => {
                let mut completed = more;
                completed["outputs"]["regression"] = json!({
                    "baselineRunId": bound(OTHER_RUN),
                    "scoreDelta": 0.5,
                    "diffRef": format!("/runs/acme~2F{RUN}:diff?against=acme~2F{OTHER_RUN}"),
                });
                completed
            }
            "run.failed" | "node.failed" => with(more, json!({"error": failed})),
            "run.cancelled" => with(more, json!({"cancelledBy": key_1})),
            "run.paused" => json!({"reason": "later", "drainPolicy": "immediate",
                "x-touchstone-paused-by": key_1}),
            "run.resumed" => json!({"resumedBy": key_1}),
            "node.started" => with(more, json!({"attempt": 0})),
            "node.suspended" | "node.resumed" => with(more, json!({"interruptId": interrupt()})),
            "interrupt.resolved" => with(
                approval.clone(),
                json!({"action": "accept",
                "decision": "granted", "resumeValue": {"action": "accept"}}),
            ),
            "approval.requested" => json!({"kind": "approval", "key": key,
                "data": {"artifactId": "gate", "artifactType": "decision", "title": "Approval",
                    "actions": ["accept", "reject"], "requiredApprovals": 2}}),
            "clarification.requested" => json!({"kind": "clarification", "key": key,
                "data": {"questions": [{"id": "q1", "question": "Which one?"}]}}),
            "approval.received" => with(
                approval.clone(),
                json!({"action": "accept",
                "resumeValue": {"action": "accept", "feedback": "fine"},
                "x-touchstone-decided-at": "2026-01-01T00:00:00Z"}),
            ),
            "approval.granted" => with(
                approval.clone(),
                json!({"decision": "granted",
                "x-touchstone-quorum": {"granted": 1, "required": 2}}),
            ),
            "approval.rejected" => with(
                approval.clone(),
                json!({"decision": "rejected",
                "x-touchstone-reason": "not yet"}),
            ),
            "approval.overridden" => with(
                approval.clone(),
                json!({"decision": "overridden",
                "x-touchstone-reason": "an emergency"}),
            ),
            "clarification.resolved" => with(
                resolved("clarification"),
                json!({
                "resumeValue": {"answers": {"q1": "this"}},
                "resolvedBy": subject_of("oidc:dana")}),
            ),
            "ai.message.chunk" => with(more, json!({"runId": bound(RUN)})),
            "authorization.decided" => with(more, json!({"principal": key_1})),
            "deployment.promoted" => with(more, json!({"evalRunId": bound(OTHER_RUN)})),
            "eval.started" => with(
                more,
                json!({"baselineRunId": bound(OTHER_RUN),
                "fixtureRuns": {"t-1": bound(OTHER_RUN)}}),
            ),
            "agent.toolReturned" => with(
                more,
                json!({"error":
                error("upstream_unavailable", "tool_unavailable", "no answer")}),
            ),
            "replay.diverged" => with(
                more,
                json!({"sourceRunId": bound(OTHER_RUN),
                "atSequence": 7, "divergencePoint": "agent.tool-called"}),
            ),
            "touchstone.task.reused" => with(more, json!({"sourceRunId": bound(OTHER_RUN)})),
            _ => more,
        };
        assert_eq!(payload(kind, &sample), Ok(expected), "{kind}");
    }
}

#[test]
fn unchanged_payloads_stay_byte_for_byte() {
    let stored = r#"{"taskId":"t-1","score":1.50e-1,"passed":true,"costUsd":0.10}"#;
    let document = document("eval.scored", 7, &Value::Null).to_string();
    let document = document.replace("null", stored);
    let mut out = Vec::new();
    projector().project(document.as_bytes(), &mut out).unwrap();
    let shown = String::from_utf8(out).unwrap();
    assert!(
        shown.ends_with(&format!(r#""payload":{stored}}}"#)),
        "{shown}"
    );
}

#[rstest]
#[case("later.invented")]
#[case("node.reanimated")]
#[case("touchstone.a_b")]
#[case("negotiation.decided")]
#[case("agent.tool-called")]
fn a_kind_without_a_name_is_an_error(#[case] kind: &str) {
    let expected = Err(Unprojectable::Kind(kind.to_owned()));
    assert_eq!(payload(kind, &json!({})), expected);
}

#[rstest]
#[case("provider.usage", json!({"provider": "p", "spare": 1, "more": 1}), &["more", "spare"])]
#[case("interrupt.requested", json!({"kind": "custom", "key": "k", "data": {}, "nodeId": "n"}), &["nodeId"])]
#[case("approval.requested", json!({"nodeId": "gate", "interruptId": "int-gate-1", "x-y": 1}), &["x-y"])]
#[case("approval.granted", json!({"principal": "key_1"}), &["gateId"])]
#[case("run.completed", json!({"outputs": []}), &["outputs"])]
#[case("run.completed", json!({"outputs": {"suiteId": "s", "suiteVersion": "1", "aggregateScore": 1,
    "tasks": [], "regression": {"diffRef": "elsewhere"}}}), &["outputs"])]
#[case("run.failed", json!({"error": "boom"}), &["error"])]
#[case("run.failed", json!({"error": {"code": "internal_error"}}), &["error"])]
#[case("run.started", json!({"workflowId": 1, "owner": {"tenant": "acme", "role": "x"}}), &["owner", "workflowId"])]
#[case("eval.started", json!({"baselineRunId": null}), &["baselineRunId"])]
#[case("replay.diverged", json!({"divergencePoint": "later.invented"}), &["divergencePoint"])]
#[case("interrupt.resolved", json!({"resolvedBy": 1}), &["resolvedBy"])]
#[case("eval.scored", json!(1), &["payload"])]
fn a_member_without_a_seat_is_an_error(
    #[case] kind: &str,
    #[case] stored: Value,
    #[case] keys: &[&str],
) {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    let kind_2 = names::projected(kind).unwrap().to_owned();
    let expected = Unprojectable::Members { kind: kind_2, keys };
    assert_eq!(payload(kind, &stored), Err(expected));
}

#[rstest]
#[case("node.completed", json!({"nodeId": "n", "costUsd": 1, "x-acme": 2}),
    json!({"nodeId": "n", "x-touchstone-cost-usd": 1, "x-acme": 2}))]
#[case("run.failed", json!({"error": {"code": "internal_error", "message": "m", "hint": 1, "retryable": false}}),
    json!({"error": {"code": "internal_error", "message": "m", "x-touchstone-hint": 1, "retryable": false}}))]
#[case("run.failed", json!({"error": {"code": "boom", "message": "m", "details": {"a": 1}}}),
    json!({"error": {"code": "internal_error", "message": "m", "details": {"a": 1}, "x-touchstone-code": "boom"}}))]
#[case("run.failed", json!({"error": {"code": "no_active_deployment", "message": "m"}}),
    json!({"error": {"code": "not_found", "message": "m",
        "details": {"reason": "no_active_deployment", "service": "agents"}}}))]
#[case("run.completed", json!({"durationMs": 1}), json!({"durationMs": 1, "outputs": {}}))]
#[case("run.completed", json!({"outputs": {"regression": {"baselineRunId": 1}}}),
    json!({"outputs": {"regression": {"baselineRunId": 1}}}))]
#[case("eval.started", json!({"fixtureRuns": {"t-1": "run_2"}}), json!({"fixtureRuns": {"t-1": "acme/run_2"}}))]
#[case("touchstone.drill.ended", json!({"runId": 1, "interruptId": null, "evalRunId": "run_2"}),
    json!({"runId": 1, "interruptId": null, "evalRunId": "acme/run_2"}))]
#[case("goal.evaluated", json!({"goalId": "g", "runId": "run_2"}), json!({"goalId": "g", "runId": "acme/run_2"}))]
fn members_that_this_host_does_not_write_are_kept(
    #[case] kind: &str,
    #[case] stored: Value,
    #[case] expected: Value,
) {
    assert_eq!(payload(kind, &stored), Ok(expected));
}

#[rstest]
#[case("approval", "key_1", json!({"action": "reject"}), json!({"action": "reject", "decision": "rejected"}))]
#[case("approval", "key_1", json!({"action": "accept", "override": {"reason": "r"}}),
    json!({"action": "accept", "decision": "overridden"}))]
#[case("approval", "key_1", json!({"action": "refine", "refineFeedback": {"scope": "whole"}}),
    json!({"action": "refine", "refineFeedback": {"scope": "whole"}}))]
#[case("approval", "key_1", json!({"action": "edit-accept", "editedArtifactData": [1]}),
    json!({"action": "edit-accept", "decision": "granted", "editedArtifactData": [1]}))]
#[case("approval", "key_1", json!({"action": "ask"}), json!({}))]
#[case("approval", "host", json!({"action": "accept"}), json!({"action": "accept", "decision": "granted"}))]
#[case("clarification", "key_1", json!({"answers": {"action": "accept"}}), json!({}))]
#[case("custom", "key_1", json!({"action": "accept"}), json!({}))]
#[case("custom", "key_1", json!("accept"), json!({}))]
fn a_resolution_says_what_the_answer_means(
    #[case] kind: &str,
    #[case] by: &str,
    #[case] answer: Value,
    #[case] more: Value,
) {
    let stored = json!({"nodeId": "gate", "interruptId": "int-gate-1", "kind": kind,
        "resumeValue": answer, "resolvedBy": by});
    let mut expected = stored.clone();
    expected["interruptId"] = json!(interrupt());
    expected["resolvedBy"] = subject_of(by);
    expected
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    assert_eq!(payload("interrupt.resolved", &stored), Ok(expected));
}

#[test]
fn a_timeout_has_a_reason_and_no_subject() {
    let stored = json!({"nodeId": "gate", "interruptId": "int-gate-1", "kind": "approval",
        "resumeValue": {"action": "timeout"}, "resolvedBy": "host"});
    let expected = json!({"nodeId": "gate", "interruptId": interrupt(), "kind": "approval",
        "resumeValue": {"action": "timeout"}, "action": "timeout", "decision": "rejected",
        "reason": "timeout"});
    assert_eq!(payload("interrupt.resolved", &stored), Ok(expected.clone()));

    let received = json!({"nodeId": "gate", "action": "timeout", "decidedBy": "host",
        "decidedAt": "2026-01-01T00:00:00Z"});
    let mut of_received = expected;
    of_received["x-touchstone-decided-at"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(payload("approval.received", &received), Ok(of_received));

    let asked = json!({"nodeId": "gate", "interruptId": "int-gate-1", "kind": "clarification",
        "resumeValue": {"action": "timeout"}, "resolvedBy": "host"});
    let shown = payload("interrupt.resolved", &asked).unwrap();
    assert_eq!(
        (&shown["reason"], shown.get("action")),
        (&json!("timeout"), None)
    );
}

#[test]
fn everyone_in_an_old_log_is_of_the_old_issuer() {
    let mut old = Projector::new(LogContext {
        mark: LogMark::default(),
        ..NEW
    });
    let started = document(
        "run.started",
        1,
        &json!({"workflowId": "w",
        "owner": {"tenant": "acme", "principal": "oidc:dana"}}),
    );
    let shown = projected(&mut old, &started).unwrap();
    let expected = json!(subject::Subject::of_old_log("acme", "oidc:dana"));
    assert_eq!(shown["payload"]["owner"]["subject"], expected);
    assert_eq!(expected["issuer"], "urn:openwop:legacy");
    // A fork of this run is new.
    let mut fork = Projector::new(LogContext {
        mark: LogMark::default().of_fork(),
        ..NEW
    });
    let shown = projected(&mut fork, &started).unwrap();
    assert_eq!(
        shown["payload"]["owner"]["subject"],
        subject_of("oidc:dana")
    );
    assert_eq!(shown["sequence"], 1);
}

#[test]
fn ids_of_interrupts_are_the_same_at_each_read_and_unique() {
    use crate::wire::v2::payload::interrupt_id;

    assert_eq!(
        interrupt_id(RUN, "int-gate-1"),
        "int_b91553de15041ed4676977dafb61cd69"
    );
    assert_ne!(
        interrupt_id(RUN, "int-gate-1"),
        interrupt_id(RUN, "int-gate-2")
    );
    assert_ne!(
        interrupt_id(RUN, "int-gate-1"),
        interrupt_id(OTHER_RUN, "int-gate-1")
    );
    let hashed = interrupt_id(RUN, "int-gate-1").into_owned();
    assert_eq!(interrupt_id(RUN, &hashed), hashed);
    assert_ne!(
        interrupt_id(RUN, &hashed.to_uppercase()),
        hashed.to_uppercase()
    );
}

#[test]
fn long_keys_of_interrupts_are_hashed_alike() {
    let key = "k".repeat(257);
    let requested = json!({"kind": "custom", "key": key, "data": {}});
    let suspended = json!({"nodeId": "n", "interruptId": "int-n-1", "kind": "custom", "key": key});
    let requested = payload("interrupt.requested", &requested).unwrap();
    let suspended = payload("node.suspended", &suspended).unwrap();
    assert_eq!(requested["key"], suspended["key"]);
    let shown = requested["key"].as_str().unwrap();
    assert!(shown.starts_with("sha256-") && shown.len() == 71, "{shown}");
    let key = "k".repeat(256);
    let requested = json!({"kind": "custom", "key": key, "data": {}});
    assert_eq!(
        payload("interrupt.requested", &requested).unwrap()["key"],
        key
    );
}

#[test]
fn a_decision_belongs_to_the_last_suspension_of_its_node() {
    let mut projector = projector();
    let granted = json!({"gateId": "gate", "principal": "key_1"});
    let granted = document("approval.granted", 8, &granted);
    let first = projected(&mut projector, &granted).unwrap();
    let again = json!({"nodeId": "gate", "interruptId": "int-gate-2", "kind": "approval",
        "key": "k2"});
    // Projecting it is enough.
    projected(&mut projector, &document("node.suspended", 9, &again)).unwrap();
    let second = projected(&mut projector, &granted).unwrap();
    assert_eq!(first["payload"]["interruptId"], interrupt());
    let expected = bound(&crate::wire::v2::payload::interrupt_id(RUN, "int-gate-2"));
    assert_eq!(second["payload"]["interruptId"], expected);

    // Some documents name the interrupt themselves.
    let named = json!({"gateId": "gate", "principal": "key_1", "interruptId": "int-gate-1"});
    let named = projected(&mut projector, &document("approval.granted", 10, &named)).unwrap();
    assert_eq!(named["payload"], first["payload"]);
}

#[test]
fn the_middle_of_a_log_needs_earlier_suspensions_only_for_decisions() {
    for (kind, sample) in payloads() {
        let stored = document(kind, 7, &sample);
        let expected = projected(&mut projector(), &stored);
        let mut middle = Projector::new(NEW);
        let shown = projected(&mut middle, &stored);
        if shown != expected {
            let node = "gate".to_owned();
            assert_eq!(shown, Err(Unprojectable::Interrupt { node }), "{kind}");
            assert!(needs_interrupt(kind), "{kind}");
            middle.learn(suspended().to_string().as_bytes()).unwrap();
            assert_eq!(projected(&mut middle, &stored), expected, "{kind}");
        }
    }
    // A request that is not of the last known suspension.
    let other = json!({"nodeId": "gate", "interruptId": "int-gate-2", "questions": []});
    let node = "gate".to_owned();
    let expected = Err(Unprojectable::Interrupt { node });
    assert_eq!(payload("clarification.requested", &other), expected);
}

#[rstest]
#[case("")]
#[case("[]")]
#[case(r#"{"eventId":"evt_1","runId":"run_1","type":"run.resumed","timestamp":"t","sequence":1}"#)]
#[case(r#"{"eventId":1,"runId":"run_1","type":"run.resumed","timestamp":"t","sequence":1,"payload":{}}"#)]
#[case(r#"{"eventId":"evt_1","runId":"run_1","type":"run.resumed","timestamp":"t","sequence":-1,"payload":{}}"#)]
#[case(r#"{"eventId":"evt_1","runId":"run_1","type":"run.resumed","timestamp":"t","sequence":1,"payload":{},"spare":1}"#)]
#[case(r#"{"eventId":"evt_1","runId":"run_1","type":"run.resumed","timestamp":"t","sequence":1,"payload":{},"engineVersion":"one"}"#)]
fn other_texts_are_no_documents(#[case] text: &str) {
    let mut out = Vec::new();
    let result = projector().project(text.as_bytes(), &mut out);
    assert_eq!((result, out), (Err(Unprojectable::Document), Vec::new()));
}

#[rstest]
#[case(LogMark::of_new(Major::V1), None, Ok(0))]
#[case(LogMark::of_new(Major::V1), Some(-1), Ok(0))]
#[case(LogMark::of_new(Major::V1), Some(0), Ok(1))]
#[case(LogMark::of_new(Major::V1), Some(7), Ok(8))]
#[case(LogMark::of_new(Major::V1), Some(-2), Err(NegativeSequence))]
#[case(LogMark::default(), Some(0), Ok(0))]
#[case(LogMark::default(), Some(7), Ok(7))]
fn after_sequence_is_a_place(
    #[case] mark: LogMark,
    #[case] after: Option<i64>,
    #[case] expected: Result<u64, NegativeSequence>,
) {
    assert_eq!(read_up_to(mark, after), expected);
}

#[test]
fn faults_name_the_event_type_and_the_members() {
    let keys = vec!["a".to_owned(), "b".to_owned()];
    let kind = "provider.usage".to_owned();
    let fault = Unprojectable::Members { kind, keys };
    let expected = "the payload of `provider.usage` has no OpenWOP 2 form because of `a`, `b`";
    assert_eq!(fault.to_string(), expected);
}

/// Top-level members of a payload that name runs or interrupts are bound.
fn assert_bound(payload: &Value) {
    let ids = [
        "runId",
        "parentRunId",
        "sourceRunId",
        "baselineRunId",
        "evalRunId",
        "interruptId",
    ];
    for id in ids {
        if let Some(Value::String(id)) = payload.get(id) {
            assert!(id.starts_with("acme/"), "{id} in {payload}");
        }
    }
}

proptest! {
    #[test]
    fn any_payload_is_projected_or_refused(
        (kind, stored) in sample::changed(),
        place in 1..u64::MAX / 2,
    ) {
        let stored = document(kind, place, &stored);
        let first = projected(&mut projector(), &stored);
        prop_assert_eq!(&first, &projected(&mut projector(), &stored));
        if let Ok(shown) = first {
            assert_bound(&shown["payload"]);
            assert_bound(&shown);
            prop_assert_eq!(&shown["sequence"], &json!(place - 1));
            prop_assert_eq!(&shown["eventId"], &stored["eventId"]);
            let text = shown.to_string();
            prop_assert!(EventDocument::read(text.as_bytes()).is_ok());
            let name = shown["type"].as_str().unwrap();
            if let Some(shape) = shapes::of(name) {
                for key in shown["payload"].as_object().unwrap().keys() {
                    prop_assert!(shape.has(key), "{} has {}", name, key);
                }
            }
        }
    }

    #[test]
    fn members_of_other_kinds_are_kept(members in sample::object()) {
        let stored = document("touchstone.drill.ended", 7, &members);
        let shown = projected(&mut projector(), &stored).unwrap();
        let (members, shown) = (members.as_object().unwrap(), shown["payload"].as_object().unwrap());
        prop_assert!(members.keys().eq(shown.keys()));
    }

    #[test]
    fn any_document_is_projected_or_refused(
        document in prop_oneof![sample::json(), sample::object()],
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut projector = Projector::new(NEW);
        let _ = projected(&mut projector, &document);
        let mut out = Vec::new();
        let result = projector.project(&bytes, &mut out);
        prop_assert_eq!(result.is_ok(), !out.is_empty());
    }
}
