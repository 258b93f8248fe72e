//! Workflows that conformance suites expect on a host under test (OpenWOP conformance fixtures). A
//! host has them only if its operator enables them.

use serde_json::{Value, json};

use touchstone_openwop::workflow::WorkflowDefinition;

/// Their ids, in the order they are advertised.
pub const IDS: &[&str] = &[
    "conformance-noop",
    "conformance-failure",
    "conformance-idempotent",
    "conformance-approval",
    "conformance-clarification",
    "conformance-delay",
    "conformance-cancellable",
    "conformance-identity",
    "conformance-multi-node",
    "conformance-cap-breach",
    "conformance-run-duration-breach",
    "conformance-stream-text",
    "conformance-agent-channel-dispatch",
    "conformance-agent-identity",
    "conformance-agent-reasoning",
    "conformance-agent-pack-handoff-schema-validation",
    "conformance-agent-pack-install",
    CONFIGURABLE_SCHEMA,
];

/// Declares the members of `configurable` that its runs accept.
const CONFIGURABLE_SCHEMA: &str = "conformance-configurable-schema";

/// Runs but is not advertised, because this host has no dispatching agents: suites compare its log
/// with the log of another fixture.
const DISPATCH_LOOP: &str = "conformance-dispatch-loop";

/// Runs but is not advertised: a seam uses it, no suite does. It waits at a governance gate.
pub const GOVERNANCE_GATE: &str = "conformance-governance-gate";
/// The role that approves or rejects its gate.
pub const GOVERNANCE_APPROVER: &str = "conformance-approver";
/// The role that overrides its gate.
pub const GOVERNANCE_OVERRIDER: &str = "conformance-owner";

/// The agent of the channel dispatch. The protocol reserves its name, so no pack contains it; a
/// host under test has it, deployed.
pub const CHANNEL_AGENT: &str = "core.conformance.channel-agent";

/// The fixture of this id.
#[expect(
    clippy::expect_used,
    reason = "the fixtures are constants, and a test reads every one of them"
)]
pub fn fixture(id: &str) -> Option<WorkflowDefinition> {
    let known = IDS
        .iter()
        .chain(&[DISPATCH_LOOP, GOVERNANCE_GATE])
        .find(|known| **known == id)?;
    let (name, nodes, variables) = content(known)?;
    let edges: Vec<Value> = nodes
        .iter()
        .zip(nodes.iter().skip(1))
        .enumerate()
        .map(|(n, (from, to))| {
            json!({"id": format!("e{}", n + 1), "sourceNodeId": from.get("id"), "targetNodeId": to.get("id")})
        })
        .collect();
    let mut definition = json!({
        "id": known,
        "name": format!("Conformance: {name}"),
        "description": "For conformance suites.",
        "version": "1.0",
        "nodes": nodes,
        "edges": edges,
        "triggers": [{"id": "manual", "type": "manual"}],
        "variables": variables,
        "metadata": {"tags": ["conformance"]},
        "settings": {},
    });
    if *known == CONFIGURABLE_SCHEMA
        && let Some(members) = definition.as_object_mut()
    {
        members.insert("configurableSchema".to_owned(), configurable_schema());
    }
    Some(serde_json::from_value(definition).expect("a fixture is a workflow definition"))
}

/// Name, nodes in sequence, variables.
fn content(id: &str) -> Option<(&'static str, Vec<Value>, Value)> {
    let none = json!([]);
    Some(match id {
        "conformance-noop" => ("noop", vec![noop("noop")], none),
        "conformance-failure" => (
            "failure",
            vec![node(
                "fail",
                "core.fail",
                json!({"code": "conformance_test_failure", "message": "this workflow fails, as it is meant to"}),
                json!({}),
            )],
            none,
        ),
        "conformance-idempotent" => (
            "idempotent",
            vec![noop("noop")],
            json!([{"name": "nonce", "type": "string", "required": true}]),
        ),
        "conformance-approval" => (
            "approval",
            vec![node(
                "gate",
                "core.approvalGate",
                json!({"title": "Conformance approval", "actions": ["accept", "reject"]}),
                json!({}),
            )],
            none,
        ),
        "conformance-clarification" => (
            "clarification",
            vec![node(
                "ask",
                "core.clarificationGate",
                json!({"questions": [{"id": "q1", "question": "What is your favorite color?"}]}),
                json!({}),
            )],
            none,
        ),
        "conformance-delay" | "conformance-cancellable" => (
            if id == "conformance-delay" {
                "delay"
            } else {
                "cancellable"
            },
            vec![delay(json!({}))],
            if id == "conformance-delay" {
                json!([{"name": "delayMs", "type": "number", "required": false, "defaultValue": 1_000}])
            } else {
                // Suites that pause this workflow send another input, so a default keeps it running
                // for a while.
                json!([{"name": "delayMs", "type": "number", "required": false, "defaultValue": 5_000}])
            },
        ),
        "conformance-run-duration-breach" => (
            "run duration breach",
            vec![delay(json!({"delayMs": 30_000}))],
            json!([{"name": "delayMs", "type": "number", "required": false, "defaultValue": 30_000}]),
        ),
        "conformance-identity" => (
            "identity",
            vec![node(
                "echo",
                "core.identity",
                json!({}),
                json!({"payload": {"type": "variable", "variableName": "payload"}}),
            )],
            json!([{"name": "payload", "type": "object", "required": true}]),
        ),
        "conformance-multi-node" => ("multi-node", vec![noop("a"), noop("b"), noop("c")], none),
        "conformance-cap-breach" => (
            "cap breach",
            ('a'..='j').map(|id| noop(&id.to_string())).collect(),
            none,
        ),
        "conformance-stream-text" => (
            "stream text",
            vec![node("prompt", "core.ai.callPrompt", json!({}), json!({}))],
            none,
        ),
        "conformance-agent-channel-dispatch" => {
            let mut echo = node("echo", "core.identity", json!({}), json!({}));
            if let Some(members) = echo.as_object_mut() {
                let agent = json!({"agentId": CHANNEL_AGENT, "channel": "stable"});
                members.insert("agent".to_owned(), agent);
            }
            ("agent channel dispatch", vec![echo], none)
        }
        "conformance-agent-identity" => {
            let mut echo = node("echo", "core.identity", json!({}), json!({}));
            bind(&mut echo, "core.conformance.identity-agent");
            ("agent identity", vec![echo], none)
        }
        "conformance-agent-reasoning" => {
            let config = json!({
                "mockReasoning": {"summary": "There is one thing to look up."},
                "mockToolCalls": [{"toolId": "openwop:core.conformance.look-up", "arguments": {"id": 1}, "result": {"found": true}}],
                "mockDecision": {"decision": {"found": true}},
            });
            let mut reasoner = node("reasoner", "core.conformance.mock-agent", config, json!({}));
            bind(&mut reasoner, "core.conformance.reasoning-agent");
            ("agent reasoning", vec![reasoner], none)
        }
        DISPATCH_LOOP => {
            let decided = json!({"mockDecision": {"decision": {"kind": "next-worker", "nextWorkerIds": ["worker-1"]}}});
            let mut supervisor = node(
                "supervisor",
                "core.conformance.mock-agent",
                decided,
                json!({}),
            );
            bind(&mut supervisor, "core.conformance.supervisor");
            let workers = ["worker-1", "worker-2"].map(noop);
            let nodes = [supervisor].into_iter().chain(workers).collect();
            ("dispatch loop", nodes, none)
        }
        "conformance-agent-pack-handoff-schema-validation" => {
            let ports = ["text", "extractionFields", "language", "scenario"].map(|name| {
                (
                    name.to_owned(),
                    json!({"type": "variable", "variableName": name}),
                )
            });
            let schemas = json!({"taskSchema": task_schema(), "returnSchema": return_schema()});
            let handoff = node(
                "handoff",
                "core.conformance.handoff",
                schemas,
                Value::Object(ports.into_iter().collect()),
            );
            ("agent pack handoff schema validation", vec![handoff], none)
        }
        // Suites only read the host's registry; the run does nothing.
        "conformance-agent-pack-install" => ("agent pack install", vec![noop("noop")], none),
        CONFIGURABLE_SCHEMA => ("configurable schema", vec![noop("noop")], none),
        GOVERNANCE_GATE => (
            "governance gate",
            vec![node(
                "gate",
                "core.openwop.governance.approvalGate",
                json!({
                    "title": "Conformance governance gate",
                    "requiredRole": GOVERNANCE_APPROVER,
                    "override": {"requiredRole": GOVERNANCE_OVERRIDER, "audited": true},
                }),
                json!({}),
            )],
            none,
        ),
        _ => return None,
    })
}

/// A time limit only.
fn configurable_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"runTimeoutMs": {"type": "integer", "minimum": 1_000}},
        "additionalProperties": false,
    })
}

/// The task schema of the handoff, as in `core.openwop.agent-examples.structured-fixture`.
fn task_schema() -> Value {
    json!({
        "type": "object",
        "required": ["text", "extractionFields"],
        "properties": {
            "text": {"type": "string"},
            "extractionFields": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "language": {"type": "string"},
        },
    })
}

/// The return schema of the handoff: findings, or an error.
fn return_schema() -> Value {
    json!({
        "type": "object",
        "oneOf": [
            {"required": ["extracted", "confidence"], "not": {"required": ["error"]}},
            {"required": ["error"], "not": {"required": ["extracted"]}},
        ],
    })
}

fn bind(node: &mut Value, agent_id: &str) {
    if let Some(members) = node.as_object_mut() {
        members.insert("agent".to_owned(), json!({"agentId": agent_id}));
    }
}

fn noop(id: &str) -> Value {
    node(id, "core.noop", json!({}), json!({}))
}

fn delay(config: Value) -> Value {
    node(
        "wait",
        "core.delay",
        config,
        json!({"delayMs": {"type": "variable", "variableName": "delayMs"}}),
    )
}

fn node(id: &str, type_id: &str, config: Value, inputs: Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0},
           "config": config, "inputs": inputs})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::workflow::graph::Graph;

    #[test]
    fn every_fixture_workflow_has_a_valid_graph_and_its_own_id() {
        for id in IDS {
            let definition = fixture(id).unwrap();
            assert_eq!(definition.id, *id);
            Graph::of(&definition).unwrap();
        }
        assert_eq!(fixture("conformance-cap-breach").unwrap().nodes.len(), 10);
        assert_eq!(fixture("conformance-unheard-of"), None);
    }
}
