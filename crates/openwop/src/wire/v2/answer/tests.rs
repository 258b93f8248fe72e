use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::wire::Major;
use crate::wire::log::LogMark;
use crate::wire::sample;
use crate::wire::v2::event::{LogContext, Projector};
use crate::wire::v2::subject;

const TENANT: &str = "acme";

fn context() -> Context<'static> {
    Context { tenant: TENANT }
}

const BARE: &str = "run_018f3c0000000000";
const OWN: &str = "acme/run_018f3c0000000000";
const URL: &str = "acme~2Frun_018f3c0000000000";
const OTHER: &str = "run_018f3c0000000001";
const OTHER_OWN: &str = "acme/run_018f3c0000000001";

/// Answers of this host today, by operation.
fn snapshot() -> Value {
    json!({
        "runId": BARE, "workflowId": "eval:vendor.acme.evals.triage@1.0.0", "status": "failed",
        "owner": {"tenant": "acme", "principal": "key_1"}, "agent": {"agentId": "vendor.acme.triage", "version": "1.0.0"},
        "replayedFrom": "run_2", "fork": {"sourceRunId": OTHER, "fromSeq": 3, "mode": "branch"}, "oasis": {"safety": "PASS"},
        "currentNodeId": "gate", "nodeStates": {"a": {"status": "failed", "attempt": 1, "error": {"code": "node_failed", "message": "m"}}},
        "variables": {"runId": "as the caller wrote it"}, "startedAt": "2026-11-01T00:00:00Z", "completedAt": "2026-11-01T00:00:01Z",
        "error": {"code": "mock_provider_error", "message": "m"}, "engineVersion": "1", "eventLogSchemaVersion": 3,
        "tags": ["a"], "metadata": {"runId": BARE}, "configurable": {"evalModes": ["golden"], "temperature": 0.5, "evalConcurrency": 2},
        "metrics": {"openwopCost": {"tokens": {"input": 1, "output": 2, "cached": 3}, "model": "m", "provider": "p", "usd": 0.1, "duration_ms": 5}},
        "interrupt": {"kind": "approval", "key": "k", "data": {"title": "t"}, "requestedAt": "2026-11-01T00:00:00Z", "timeoutMs": 5,
            "nodeId": "gate", "interruptId": "int-gate-1", "resolveUrl": "/v1/x", "interruptToken": "secret", "grantedBy": []},
    })
}

fn outer_snapshot() -> Value {
    json!({
        "runId": OWN, "workflowId": "eval:vendor.acme.evals.triage:1.0.0", "status": "failed",
        "owner": {"tenant": "acme", "subject": {"issuer": "urn:touchstone:api-key", "subjectId": subject::id("acme", "key_1"), "tenant": "acme", "lane": "api-key", "kind": "user"}},
        "agent": {"agentId": "vendor.acme.triage", "version": "1.0.0"}, "currentNodeId": "gate",
        "nodeStates": {"a": {"status": "failed", "attempt": 1, "error": {"code": "node_config_invalid", "message": "m", "details": {"reason": "node_failed"}}}},
        "variables": {"runId": "as the caller wrote it"}, "startedAt": "2026-11-01T00:00:00Z", "completedAt": "2026-11-01T00:00:01Z",
        "error": {"code": "upstream_unavailable", "message": "m", "details": {"reason": "mock_provider_error"}}, "engineVersion": 1,
        "eventLogSchemaVersion": 3, "tags": ["a"], "metadata": {"runId": BARE},
        "configurable": {"version": 1, "ai": {"temperature": 0.5}, "extensions": {"touchstone": {"evalConcurrency": 2}}},
        "metrics": {"openwopCost": {"tokens": {"input": 1, "output": 2}, "model": "m", "provider": "p", "usd": 0.1, "duration_ms": 5}},
        "interrupt": {"kind": "approval", "key": "k", "data": {"title": "t"}, "timeoutMs": 5},
    })
}

fn annotation() -> Value {
    json!({"annotationId": "ann_1", "target": {"runId": BARE, "nodeId": "t"}, "signal": {"kind": "rating", "rating": 4},
        "actor": {"principalRef": "key_1"}, "note": "n", "createdAt": "2026-11-01T00:00:00Z"})
}

fn outer_annotation() -> Value {
    json!({"annotationId": "ann_1", "target": {"runId": OWN, "nodeId": "t"}, "signal": {"kind": "rating", "rating": 4},
        "actor": {"issuer": "urn:touchstone:api-key", "subjectId": subject::id("acme", "key_1"), "tenant": "acme", "lane": "api-key", "kind": "user"},
        "note": "n", "createdAt": "2026-11-01T00:00:00Z"})
}

fn entry() -> Value {
    json!({"agentId": "vendor.acme.triage", "persona": "P", "label": "L", "modelClass": "general", "packName": "vendor.acme.triage",
        "packVersion": "1.0.0", "toolAllowlist": [], "hasHandoffSchemas": true, "description": "d", "memoryShape": {"scratchpad": true},
        "confidenceThreshold": 0.5, "degraded": ["x"], "memoryDegraded": true, "degradedMemoryDimensions": ["longTerm"]})
}

fn outer_entry() -> Value {
    let mut entry = entry();
    let members = entry.as_object_mut().unwrap();
    members.remove("memoryDegraded");
    members.remove("degradedMemoryDimensions");
    entry
}

fn record() -> Value {
    json!({"agentId": "vendor.acme.triage", "version": "1.0.0", "state": "active", "canaryPercent": 10, "channels": ["stable"],
        "evalRunId": BARE, "approvalGateId": "run_3", "rollbackPointer": "0.9.0"})
}

fn outer_record() -> Value {
    let mut record = record();
    record["evalRunId"] = json!(OWN);
    record
}

fn summary() -> Value {
    json!({"suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "evaluatedModelClass": "general", "aggregateScore": 0.5,
        "passed": false, "taskCount": 1, "passedCount": 0, "totalCostUsd": 0.2,
        "tasks": [{"taskId": "t", "score": 0.5, "passed": false, "costUsd": 0.1, "latencyMs": 3, "schemaValid": true,
            "safetyFindings": [{"kind": "pii", "severity": "low"}]}],
        "regression": {"baselineRunId": OTHER, "scoreDelta": -0.5, "diffRef": format!("/v1/runs/{BARE}:diff?against={OTHER}")}})
}

fn outer_summary() -> Value {
    let mut summary = summary();
    summary["regression"] = json!({"baselineRunId": OTHER_OWN, "scoreDelta": -0.5,
        "diffRef": "/runs/acme~2Frun_018f3c0000000000:diff?against=acme~2Frun_018f3c0000000001"});
    summary
}

fn answers() -> Vec<(&'static str, Value, Value)> {
    vec![
        (
            "createRun",
            json!({"runId": BARE, "status": "pending", "eventsUrl": format!("/v1/runs/{BARE}/events"), "statusUrl": format!("/v1/runs/{BARE}"), "callbackSecret": "s"}),
            json!({"runId": OWN, "status": "pending", "eventsUrl": format!("/runs/{URL}/events"), "statusUrl": format!("/runs/{URL}")}),
        ),
        ("getRun", snapshot(), outer_snapshot()),
        (
            "listRuns",
            json!({"runs": [snapshot()], "nextCursor": "c"}),
            json!({"runs": [outer_snapshot()], "nextCursor": "c"}),
        ),
        (
            "pollRunEvents",
            json!({"runId": OWN, "events": [], "lastSequence": -1, "status": "pending", "isTerminal": false}),
            json!({"runId": OWN, "events": [], "lastSequence": -1, "status": "pending", "isTerminal": false}),
        ),
        (
            "cancelRun",
            json!({"runId": BARE, "status": "cancelling"}),
            json!({"runId": OWN, "status": "cancelling"}),
        ),
        (
            "cancelRun",
            json!({"runId": BARE, "status": "running"}),
            json!({"runId": OWN, "status": "cancelling"}),
        ),
        (
            "bulkCancelRuns",
            json!({"results": [
                {"runId": BARE, "ok": true, "status": "cancelled"},
                {"runId": OTHER, "ok": false, "error": {"code": "run_terminal", "error": "run_terminal", "message": "the run has ended"}},
                {"runId": OTHER, "ok": false, "error": {"code": "not_found", "error": "not_found", "message": "no such run"}},
                {"runId": OTHER, "ok": false, "error": {"code": "conflict", "error": "conflict", "message": "m"}},
                {"runId": "/other/run_1", "ok": false, "error": {"code": "not_found", "error": "not_found", "message": "no such run"}},
                {"runId": "/run_1", "ok": false, "error": {"code": "not_found", "error": "not_found", "message": "no such run"}},
            ]}),
            json!({"results": [
                {"runId": OWN, "ok": true, "status": "cancelled"},
                {"runId": OTHER_OWN, "ok": false, "error": {"error": "run_terminal", "message": "the run has ended"}},
                {"runId": OTHER_OWN, "ok": false, "error": {"error": "not_found", "message": "no such run"}},
                {"runId": OTHER_OWN, "ok": false, "error": {"error": "version_conflict", "message": "m"}},
                {"runId": "other/run_1", "ok": false, "error": {"error": "id_tenant_mismatch", "message": "the id names another tenant"}},
                {"runId": "run_1", "ok": false, "error": {"error": "validation_error", "message": "the id must have its tenant: `TENANT/ID`"}},
            ]}),
        ),
        (
            "pauseRun",
            json!({"runId": BARE, "status": "paused", "pausedAt": "2026-11-01T00:00:00Z"}),
            json!({"runId": OWN, "status": "paused", "pausedAt": "2026-11-01T00:00:00Z"}),
        ),
        (
            "resumeRun",
            json!({"runId": BARE, "status": "running", "resumedAt": "2026-11-01T00:00:00Z"}),
            json!({"runId": OWN, "status": "running", "resumedAt": "2026-11-01T00:00:00Z"}),
        ),
        (
            "forkRun",
            json!({"runId": BARE, "sourceRunId": OTHER, "fromSeq": 4, "mode": "branch", "status": "pending", "eventsUrl": "/v1/x", "statusUrl": "/v1/y"}),
            json!({"runId": OWN, "sourceRunId": OTHER_OWN, "fromSeq": 4, "mode": "branch", "status": "pending", "eventsUrl": format!("/runs/{URL}/events")}),
        ),
        (
            "diffRun",
            json!({"a": BARE, "b": BARE, "divergedAtSeq": null, "eventDiffs": [], "stateDiff": {}}),
            json!({"a": OWN, "b": OWN, "divergedAtSeq": null, "eventDiffs": [], "stateDiff": {}}),
        ),
        (
            "diffRun",
            json!({"a": BARE, "b": OTHER, "divergedAtSeq": 5, "truncated": true, "stateDiff": {"status": {"a": "failed", "b": "completed"}},
                "eventDiffs": [{"seq": 5, "op": "changed", "aEvent": {"eventId": "e1", "runId": OWN}, "bEvent": {"eventId": "e2", "runId": OTHER_OWN}}, {"seq": 6, "op": "removed", "aEvent": {"eventId": "e3", "runId": OWN}}]}),
            json!({"a": OWN, "b": OTHER_OWN, "divergedAtSeq": 5, "truncated": true, "stateDiff": {"status": {"a": "failed", "b": "completed"}},
                "eventDiffs": [{"seq": 5, "op": "changed", "aEvent": {"eventId": "e1", "runId": OWN}, "bEvent": {"eventId": "e2", "runId": OTHER_OWN}},
                    {"seq": 6, "op": "removed", "aEvent": {"eventId": "e3", "runId": OWN}}]}),
        ),
        ("getEvalSummary", summary(), outer_summary()),
        (
            "getRunEffects",
            json!({"runId": BARE, "effects": [{"effectId": "eff_00000000000000000001", "nodeId": "t", "attempt": 1, "keying": "activity-recipe", "state": "completed", "at": "2026-11-01T00:00:00Z", "tool": "x"}]}),
            json!({"runId": OWN, "effects": [{"effectId": "acme/eff_00000000000000000001", "nodeId": "t", "attempt": 1, "keying": "activity-recipe", "state": "completed", "at": "2026-11-01T00:00:00Z"}]}),
        ),
        (
            "getEffectSeamManifest",
            json!({"manifestVersion": "1", "host": {"name": "touchstone", "build": {"kind": "commit", "id": "0"}},
                "seams": [{"seam": "model", "kind": "provider-sdk", "guarded": true, "guardedBy": "replay", "place": "x"}]}),
            json!({"manifestVersion": "1", "host": {"name": "touchstone", "build": {"kind": "commit", "id": "0"}},
                "seams": [{"seam": "model", "kind": "provider-sdk", "guarded": true, "guardedBy": "replay"}]}),
        ),
        ("createAnnotation", annotation(), outer_annotation()),
        (
            "listAnnotations",
            json!({"annotations": [annotation()]}),
            json!({"annotations": [outer_annotation()]}),
        ),
        (
            "resolveInterruptByRun",
            json!({"runId": BARE, "nodeId": "gate", "status": "running"}),
            json!({"runId": OWN, "nodeId": "gate", "status": "running"}),
        ),
        (
            "inspectInterruptByToken",
            json!({"kind": "clarification", "key": "k", "data": {"questions": []}, "requestedAt": "x", "resumeSchema": {}}),
            json!({"kind": "clarification", "key": "k", "data": {"questions": []}, "resumeSchema": {}}),
        ),
        (
            "listAgents",
            json!({"agents": [entry()], "total": 1}),
            json!({"agents": [outer_entry()], "total": 1}),
        ),
        ("getAgent", entry(), outer_entry()),
        (
            "listAgentDeployments",
            json!([record()]),
            json!([outer_record()]),
        ),
        ("transitionAgentDeployment", record(), outer_record()),
        (
            "registerWebhook",
            json!({"webhookId": "wh_1", "subscriptionId": "wh_1", "tenantId": "acme", "url": "https://h.example/a", "events": ["run.completed", "agent.toolCalled"],
                "eventTypes": ["run.completed", "agent.toolCalled"], "tags": [], "secretFingerprint": "f", "createdAt": "x", "secret": "s"}),
            json!({"webhookId": "acme/wh_1", "subscriptionId": "acme/wh_1", "url": "https://h.example/a", "eventTypes": ["run.completed", "agent.tool-called"], "createdAt": "x", "secret": "s"}),
        ),
        (
            "registerWebhook",
            json!({"webhookId": "wh_1", "url": "u", "events": [], "createdAt": "x", "signatureAlgorithms": ["v1", "standard-webhooks-1"]}),
            json!({"webhookId": "acme/wh_1", "subscriptionId": "acme/wh_1", "url": "u", "eventTypes": [], "createdAt": "x", "secret": "", "signatureAlgorithms": ["v1", "standard-webhooks-1"]}),
        ),
        (
            "rotateWebhookSecret",
            json!({"rotatedAt": "x", "previousSecretExpiresAt": "y", "secret": "s"}),
            json!({"rotatedAt": "x", "previousSecretExpiresAt": "y"}),
        ),
        (
            "listWebhookDeadLetters",
            json!({"deliveries": [{"deliveryId": "dlv_1", "webhookId": "wh_1", "runId": BARE, "eventId": "e", "eventType": "agent.toolCalled", "attempts": 5,
                "deadLetteredAt": "x", "expiresAt": "y", "reason": "retries_exhausted", "lastStatus": 500, "body": "content"}], "nextCursor": "c"}),
            json!({"deliveries": [{"deliveryId": "acme/dlv_1", "webhookId": "acme/wh_1", "runId": OWN, "eventId": "e", "eventType": "agent.tool-called", "attempts": 5,
                "deadLetteredAt": "x", "expiresAt": "y", "reason": "retries_exhausted", "lastStatus": 500}], "nextCursor": "c"}),
        ),
        (
            "getWorkflow",
            json!({"id": "conformance-noop", "name": "n", "version": "1", "nodes": [], "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {}, "source": "x"}),
            json!({"id": "conformance-noop", "name": "n", "version": "1", "nodes": [], "edges": [], "triggers": [], "variables": [], "metadata": {}, "settings": {}}),
        ),
        (
            "verifyAuditLog",
            json!({"fromSeq": 1, "toSeq": 2, "chainValid": false, "checkpointsValid": true, "checkpoints": [{"checkpoint": "c", "atSequence": 2, "merkleRoot": "m", "signature": "s", "at": "x"}],
                "anomalies": [{"atSeq": 2, "expectedPrevHash": "e", "actualPrevHash": "a"}]}),
            json!({"fromSeq": 1, "toSeq": 2, "chainValid": false, "checkpointsValid": true, "checkpoints": [{"checkpoint": "c", "atSequence": 2, "merkleRoot": "m", "signature": "s"}],
                "anomalies": [{"atSeq": 2, "expectedPrevHash": "e", "actualPrevHash": "a"}]}),
        ),
        ("unregisterWebhook", Value::Null, Value::Null),
    ]
}

#[test]
fn answers_have_the_closed_form_of_major_2() {
    for (operation, inner, expected) in answers() {
        assert_eq!(
            answer(operation, &context(), 200, inner),
            Ok(expected),
            "{operation}"
        );
    }
}

/// The same for members and whole lists: an answer never has a member that the sample lacks.
#[test]
fn a_member_that_major_2_does_not_have_is_left_out_at_every_level() {
    for (operation, inner, expected) in answers() {
        let mut more = inner;
        add_members(&mut more);
        let found = answer(operation, &context(), 200, more);
        assert_eq!(found, Ok(expected), "{operation}");
    }
}

/// Adds a member to every closed object.
fn add_members(value: &mut Value) {
    // These are open, and shown as they are.
    const OPEN: &[&str] = &[
        "variables",
        "metadata",
        "configurable",
        "nodeStates",
        "data",
        "resumeSchema",
        "stateDiff",
        "aEvent",
        "bEvent",
        "settings",
        "memoryShape",
        "events",
    ];
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                if !OPEN.contains(&name.as_str()) {
                    add_members(value);
                }
            }
            members.insert("touchstoneOnly".to_owned(), json!({"runId": BARE}));
        }
        Value::Array(items) => items.iter_mut().for_each(add_members),
        _ => {}
    }
}

#[test]
fn a_missing_required_member_is_an_error_that_names_it() {
    for (operation, inner, expected) in answers() {
        let (Value::Object(members), Value::Object(outer)) = (&inner, &expected) else {
            continue;
        };
        for name in members.keys().filter(|name| outer.contains_key(*name)) {
            let mut less = inner.clone();
            less.as_object_mut().unwrap().remove(name);
            if let Err(cause) = answer(operation, &context(), 200, less) {
                assert_eq!(cause.keys, std::slice::from_ref(name), "{operation}");
            }
        }
    }
    let run = json!({"runId": BARE, "workflowId": "w", "status": "running", "owner": {}, "eventLogSchemaVersion": 3});
    let cause = answer("getRun", &context(), 200, run).unwrap_err();
    assert_eq!(
        (cause.of.as_str(), cause.keys),
        ("Owner", vec!["tenant".to_owned()])
    );
}

#[test]
fn a_run_of_era_2_has_the_legacy_subject() {
    let mut run = snapshot();
    run["eventLogSchemaVersion"] = json!(2);
    let outer = answer("getRun", &context(), 200, run).unwrap();
    assert_eq!(outer["owner"]["subject"]["issuer"], "urn:openwop:legacy");
}

#[test]
fn the_body_of_an_error_is_not_changed() {
    let body = json!({"error": "not_found", "message": "no such run"});
    assert_eq!(answer("getRun", &context(), 404, body.clone()), Ok(body));
}

#[test]
fn an_event_type_without_a_name_is_an_error() {
    let made =
        json!({"webhookId": "wh_1", "url": "u", "events": ["acme.unknown"], "createdAt": "x"});
    let cause = answer("registerWebhook", &context(), 201, made).unwrap_err();
    assert_eq!(cause.keys, ["acme.unknown"]);
}

#[rstest]
#[case(None, r#"],"lastSequence":-1,"status":"pending","isTerminal":false}"#)]
#[case(
    Some(2),
    r#"],"lastSequence":2,"status":"pending","isTerminal":false}"#
)]
fn the_envelope_of_a_poll_is_written_around_its_events(
    #[case] last_sequence: Option<u64>,
    #[case] tail: &str,
) {
    let poll = run::Poll {
        tenant: TENANT,
        run: BARE,
        last_sequence,
        status: "pending",
        is_terminal: false,
    };
    assert_eq!(poll.tail(), tail);
    let whole: Value = serde_json::from_str(&format!("{}{}", poll.head(), poll.tail())).unwrap();
    assert_eq!(whole["runId"], OWN);
}

/// The payload of an event under major 2.
fn projected_payload(kind: &str, payload: &Value) -> Value {
    let log = LogContext {
        tenant: TENANT,
        mark: LogMark::of_new(Major::V1),
    };
    let document = sample::document(kind, 1, payload).to_string();
    let mut out = Vec::new();
    Projector::new(log)
        .project(document.as_bytes(), &mut out)
        .unwrap();
    serde_json::from_slice::<Value>(&out).unwrap()["payload"].take()
}

#[test]
fn answers_agree_with_the_log() {
    let outer = |operation, body| answer(operation, &context(), 200, body).unwrap();
    let completed = projected_payload("run.completed", &json!({"outputs": summary()}));
    assert_eq!(completed["outputs"], outer("getEvalSummary", summary()));
    let run = outer("getRun", snapshot());
    let started = json!({"workflowId": snapshot()["workflowId"], "owner": snapshot()["owner"]});
    let started = projected_payload("run.started", &started);
    assert_eq!(started["owner"], run["owner"]);
    assert_eq!(started["workflowId"], run["workflowId"]);
    let failed = projected_payload("run.failed", &json!({"error": snapshot()["error"]}));
    assert_eq!(failed["error"], run["error"]);
    let key = "k".repeat(300);
    let asked = json!({"kind": "clarification", "key": key, "data": {"questions": []}});
    assert_eq!(
        projected_payload("interrupt.requested", &asked),
        outer("inspectInterruptByToken", asked)
    );
}

/// Any JSON value, with names that answers have.
fn any_answer() -> impl Strategy<Value = Value> {
    let names = [
        "runId",
        "status",
        "owner",
        "tenant",
        "principal",
        "events",
        "results",
        "ok",
        "error",
        "runs",
        "tasks",
        "regression",
        "baselineRunId",
        "target",
        "signal",
        "actor",
        "kind",
        "key",
        "data",
        "a",
        "b",
        "eventDiffs",
        "seq",
        "op",
        "fromSeq",
        "workflowId",
        "eventLogSchemaVersion",
        "configurable",
        "metrics",
        "nodeStates",
        "interrupt",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[a-z/~:@]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(names.to_vec()), inner, 0..6)
                .prop_map(|it| Value::Object(
                    it.into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect()
                )),
        ]
    })
}

/// The ids of the sample in a text: without a tenant, with it, and with it twice.
fn ids(text: &str) -> (usize, usize, usize) {
    let all = text.matches("run_018f3c").count();
    let bound = text.matches("acme/run_018f3c").count() + text.matches("acme~2Frun_018f3c").count();
    let twice = text.matches("acme/acme").count() + text.matches("acme~2Facme").count();
    (all - bound, bound, twice)
}

#[test]
fn ids_have_their_tenant_once_except_in_what_the_caller_wrote() {
    for (operation, inner, _) in answers() {
        let mut outer = answer(operation, &context(), 200, inner).unwrap();
        let runs = match operation {
            "getRun" => vec![&mut outer],
            "listRuns" => outer["runs"].as_array_mut().unwrap().iter_mut().collect(),
            _ => Vec::new(),
        };
        for run in runs {
            run.as_object_mut().unwrap().remove("metadata");
        }
        let (bare, _, twice) = ids(&outer.to_string());
        assert_eq!((bare, twice), (0, 0), "{operation}: {outer}");
    }
}

/// The same answer about another run.
fn about(answer: &Value, run: &str) -> Value {
    serde_json::from_str(&answer.to_string().replace(BARE, run)).unwrap()
}

proptest! {
    #[test]
    fn every_id_gets_its_tenant_once(run in "[A-Za-z0-9._-]{16,60}") {
        for (operation, inner, expected) in answers() {
            let outer = answer(operation, &context(), 200, about(&inner, &run));
            prop_assert_eq!(outer, Ok(about(&expected, &run)), "{}", operation);
        }
    }

    #[test]
    fn any_answer_is_translated_or_refused(body in any_answer()) {
        for (operation, ..) in answers() {
            let _ = answer(operation, &context(), 200, body.clone());
        }
    }
}
