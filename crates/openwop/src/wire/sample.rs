//! Events for the tests of both majors.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::events::Event;

/// The run of [`document`].
pub const RUN: &str = "run_0199c0de-0000-7000-8000-000000000001";
pub const OTHER_RUN: &str = "run_0199c0de-0000-7000-8000-000000000002";

/// A payload of every kind that runs write, with every member that it can have.
pub fn payloads() -> Vec<(&'static str, Value)> {
    let error = json!({"code": "node_failed", "message": "the node failed as configured"});
    let finding = json!([{"kind": "secret_disclosed", "severity": "high"}]);
    let samples = vec![
        (
            "run.started",
            json!({"workflowId": "eval:acme.triage@1.2.0", "inputs": {"a": 1}, "transport": "rest",
                "engineVersion": "1", "owner": {"tenant": "acme", "principal": "key_1"},
                "tags": ["t"], "metadata": {"m": 1}}),
        ),
        (
            "run.completed",
            json!({"outputs": {"suiteId": "acme.triage", "suiteVersion": "1.2.0",
                "evaluatedModelClass": "reasoning", "aggregateScore": 0.5, "passed": true,
                "taskCount": 1, "passedCount": 1, "totalCostUsd": 0.5,
                "tasks": [{"taskId": "t-1", "score": 0.5, "passed": true, "costUsd": 0.5,
                    "latencyMs": 3, "schemaValid": true, "safetyFindings": finding}],
                "regression": {"baselineRunId": OTHER_RUN, "scoreDelta": 0.5,
                    "diffRef": format!("/v1/runs/{RUN}:diff?against={OTHER_RUN}")}},
                "durationMs": 3}),
        ),
        (
            "run.failed",
            json!({"error": error, "failedNodeId": "gate"}),
        ),
        (
            "run.cancelled",
            json!({"reason": "no more need", "cancelledBy": "key_1"}),
        ),
        (
            "run.paused",
            json!({"reason": "later", "drainPolicy": "immediate", "pausedBy": "key_1"}),
        ),
        ("run.resumed", json!({"resumedBy": "key_1"})),
        (
            "node.started",
            json!({"nodeId": "gate", "typeId": "core.approvalGate", "attempt": 1}),
        ),
        (
            "node.completed",
            json!({"nodeId": "gate", "outputs": {"action": "accept"}}),
        ),
        ("node.failed", json!({"nodeId": "gate", "error": error})),
        (
            "node.suspended",
            json!({"nodeId": "gate", "interruptId": "int-gate-1", "kind": "approval",
                "key": format!("{RUN}:gate:1")}),
        ),
        (
            "node.resumed",
            json!({"nodeId": "gate", "interruptId": "int-gate-1"}),
        ),
        (
            "interrupt.requested",
            json!({"kind": "approval", "key": format!("{RUN}:gate:1"), "resumeSchema": {},
                "timeoutMs": 1000, "data": {"title": "Approval"}}),
        ),
        (
            "interrupt.resolved",
            json!({"nodeId": "gate", "interruptId": "int-gate-1", "kind": "approval",
                "resumeValue": {"action": "accept"}, "resolvedBy": "key_1"}),
        ),
        (
            "approval.requested",
            json!({"nodeId": "gate", "interruptId": "int-gate-1", "artifactId": "gate",
                "artifactType": "decision", "title": "Approval", "actions": ["accept", "reject"],
                "requiredApprovals": 2}),
        ),
        (
            "approval.received",
            json!({"nodeId": "gate", "action": "accept", "decidedBy": "key_1",
                "decidedAt": "2026-01-01T00:00:00Z", "feedback": "fine"}),
        ),
        (
            "approval.granted",
            json!({"gateId": "gate", "principal": "key_1",
                "quorumProgress": {"granted": 1, "required": 2}}),
        ),
        (
            "approval.rejected",
            json!({"gateId": "gate", "principal": "key_1", "reason": "not yet"}),
        ),
        (
            "approval.overridden",
            json!({"gateId": "gate", "principal": "key_1", "reason": "an emergency"}),
        ),
        (
            "clarification.requested",
            json!({"nodeId": "gate", "interruptId": "int-gate-1",
                "questions": [{"id": "q1", "question": "Which one?"}]}),
        ),
        (
            "clarification.resolved",
            json!({"nodeId": "gate", "answers": {"q1": "this"}, "answeredBy": "oidc:dana"}),
        ),
        (
            "ai.message.chunk",
            json!({"nodeId": "ask", "runId": RUN, "chunk": "Hi", "isLast": true,
                "meta": {"finishReason": "stop", "model": "m",
                    "usage": {"promptTokens": 1, "completionTokens": 1, "totalTokens": 2}}}),
        ),
        (
            "cap.breached",
            json!({"kind": "run-duration", "limit": 1.0, "observed": 2.0, "nodeId": "gate"}),
        ),
        (
            "budget.reserved",
            json!({"effectiveBudget": {"maxTokens": 1, "maxCostUsd": 0.5, "maxToolCalls": 1,
                "maxRetries": 1}, "scope": "run"}),
        ),
        (
            "budget.consumed",
            json!({"dimension": "tokens", "consumed": 1.0, "limit": 2.0, "remaining": 1.0}),
        ),
        (
            "budget.threshold.crossed",
            json!({"dimension": "tokens", "consumed": 1.0, "limit": 2.0, "percent": 50.0}),
        ),
        (
            "budget.exhausted",
            json!({"dimension": "tokens", "consumed": 2.0, "limit": 2.0}),
        ),
        (
            "authorization.decided",
            json!({"principal": "key_1", "action": "deploy:promote", "resource": "acme.triage",
                "allowed": false, "reason": "the scope is missing"}),
        ),
        (
            "deployment.promoted",
            json!({"agentId": "acme.triage", "toVersion": "1.1.0", "toState": "active",
                "fromVersion": "1.0.0", "channel": "stable", "canaryPercent": 10,
                "evalRunId": OTHER_RUN, "approvalGateId": "gate"}),
        ),
        (
            "deployment.rolled-back",
            json!({"agentId": "acme.triage", "fromVersion": "1.1.0", "toVersion": "1.0.0",
                "rollbackPointer": "1.0.0", "reason": "incident"}),
        ),
        (
            "deployment.canary.adjusted",
            json!({"agentId": "acme.triage", "version": "1.1.0", "fromPercent": 10,
                "toPercent": 20}),
        ),
        (
            "deployment.state.changed",
            json!({"agentId": "acme.triage", "version": "1.1.0", "fromState": "active",
                "toState": "paused"}),
        ),
        (
            "eval.started",
            json!({"suiteId": "acme.triage", "suiteVersion": "1.2.0", "taskCount": 1,
                "modes": ["golden", "regression"], "baselineRunId": OTHER_RUN,
                "fixtureRuns": {"t-1": OTHER_RUN}}),
        ),
        (
            "eval.scored",
            json!({"taskId": "t-1", "score": 0.5, "passed": true, "costUsd": 0.5, "latencyMs": 3,
                "schemaValid": true, "safetyFindingCount": 1}),
        ),
        (
            "eval.completed",
            json!({"aggregateScore": 0.5, "passed": true, "taskCount": 1, "passedCount": 1,
                "regressionVsBaseline": 0.5}),
        ),
        (
            "agent.invocation.started",
            json!({"invocationId": "inv_1", "agentId": "acme.triage", "source": "run-api",
                "modelClass": "reasoning", "resolvedModel": "m", "resolvedProvider": "p",
                "resolvedAgentVersion": "1.0.0", "resolvedChannel": "stable",
                "toolSurfaceCount": 1, "memoryBound": false}),
        ),
        (
            "agent.invocation.completed",
            json!({"invocationId": "inv_1", "agentId": "acme.triage", "outcome": "completed",
                "schemaValidated": true}),
        ),
        (
            "agent.reasoned",
            json!({"agentId": "acme.triage", "reasoning": "because"}),
        ),
        (
            "agent.toolCalled",
            json!({"agentId": "acme.triage", "toolName": "acme:mail.read", "callId": "c",
                "inputs": {"runId": "an input"}, "argsHash": "00", "transport": "mcp"}),
        ),
        (
            "agent.toolReturned",
            json!({"agentId": "acme.triage", "toolName": "acme:mail.read", "callId": "c",
                "outcome": {"text": "t"}, "error": {"code": "tool_unavailable", "message": "no answer"},
                "status": "error", "durationMs": 3}),
        ),
        (
            "agent.handoff",
            json!({"fromAgentId": "acme.triage", "toAgentId": "acme.mail", "reason": "mail"}),
        ),
        (
            "runOrchestrator.decided",
            json!({"agentId": "acme.triage",
                "decision": {"kind": "next-worker", "nextWorkerIds": ["w"]}}),
        ),
        (
            "agent.decided",
            json!({"agentId": "acme.triage", "decision": {"label": "refund"}}),
        ),
        (
            "provider.usage",
            json!({"provider": "p", "model": "m", "inputTokens": 1, "outputTokens": 1,
                "totalTokens": 2, "costEstimateUsd": 0.5, "currency": "USD",
                "cacheReadTokens": 1, "nodeId": "t-1"}),
        ),
        (
            "replay.diverged",
            json!({"sourceRunId": OTHER_RUN, "atSequence": 8, "divergenceKind": "output",
                "divergencePoint": "agent.toolCalled"}),
        ),
        (
            "touchstone.model.retried",
            json!({"attempt": 1, "reason": "timeout", "waitMs": 10}),
        ),
        (
            "touchstone.usage.estimated",
            json!({"inputTokens": 1, "outputTokens": 1, "reason": "invalid_usage"}),
        ),
        ("touchstone.answer.cached", json!({"costSavedUsd": 0.5})),
        (
            "touchstone.effect.intended",
            json!({"tool": "acme:mail.send", "callId": "c"}),
        ),
        (
            "touchstone.task.attached",
            json!({"files": [{"mediaType": "image/png", "sha256": "00", "sizeBytes": 1}]}),
        ),
        (
            "touchstone.turn.answered",
            json!({"turn": 1, "answer": {"text": "Hi"}}),
        ),
        ("touchstone.user.opens", json!({})),
        ("touchstone.user.said", json!({"turn": 2, "text": "Hi"})),
        (
            "touchstone.user.stopped",
            json!({"turn": 2, "reason": "done", "note": ""}),
        ),
        (
            "touchstone.fixture.missing",
            json!({"tool": "acme:mail.read", "callId": "c"}),
        ),
        (
            "touchstone.task.failed",
            json!({"taskId": "t-1", "reason": "output_not_json"}),
        ),
        (
            "touchstone.task.judged",
            json!({"taskId": "t-1", "judge": "sha256-x", "met": [true],
                "votes": [{"judge": "sha256-x", "met": [true]}]}),
        ),
        (
            "touchstone.task.measured",
            json!({"taskId": "t-1", "assertions": [true], "leftOut": 1, "metrics": {"m": 0.5}}),
        ),
        (
            "touchstone.judge.reasoned",
            json!({"taskId": "t-1", "reasons": ["r"]}),
        ),
        (
            "touchstone.reply.rejected",
            json!({"by": "judge", "reply": "r"}),
        ),
        (
            "touchstone.assertions.decided",
            json!({"taskId": "t-1", "decisions": [{"assertion": "1.0", "by": "sha256-x",
                "score": 0.5, "holds": true, "label": "l", "verdicts": [true]}]}),
        ),
        (
            "touchstone.assertions.reasoned",
            json!({"taskId": "t-1",
                "reasons": [{"assertion": "1.0", "by": "sha256-x", "reason": "r"}]}),
        ),
        (
            "touchstone.task.safety",
            json!({"taskId": "t-1", "findings": finding}),
        ),
        (
            "touchstone.task.unjudged",
            json!({"taskId": "t-1", "reason": "timeout"}),
        ),
        (
            "touchstone.task.reused",
            json!({"taskId": "t-1", "sourceRunId": OTHER_RUN}),
        ),
    ];
    let kinds: Vec<&str> = samples.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, Event::TYPES, "there is one sample of each kind");
    samples
}

/// The stored document of a payload.
pub fn document(kind: &str, place: u64, payload: &Value) -> Value {
    json!({
        "eventId": format!("evt_0199c0de_{place}"),
        "runId": RUN,
        "type": kind,
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "sequence": place,
        "schemaVersion": 1,
        "engineVersion": "1",
        "nodeId": "gate",
        "causationId": "evt_0199c0de_1",
        "payload": payload,
    })
}

/// Any JSON.
pub fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            members(inner).prop_map(Value::Object),
        ]
    })
}

/// Any object; its members often have the names of those of payloads.
pub fn object() -> impl Strategy<Value = Value> {
    members(json()).prop_map(Value::Object)
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let samples = payloads().into_iter();
    let names = samples.flat_map(|(_, payload)| payload.as_object().cloned().unwrap_or_default());
    let mut names: Vec<String> = names.map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let name = prop_oneof![prop::sample::select(names), ".{0,6}"];
    prop::collection::btree_map(name, value, 0..5).prop_map(|it| it.into_iter().collect())
}

/// A payload of a kind that runs write, in which one member may be replaced or added.
pub fn changed() -> impl Strategy<Value = (&'static str, Value)> {
    let change = (object(), any::<bool>());
    (prop::sample::select(payloads()), change).prop_map(|((kind, payload), (change, keeps))| {
        let mut payload = payload;
        if let (false, Value::Object(members), Value::Object(change)) =
            (keeps, &mut payload, change)
        {
            members.extend(change);
        }
        (kind, payload)
    })
}
