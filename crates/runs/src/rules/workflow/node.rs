//! Node types and their behavior.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::gate::GatePolicy;
use touchstone_openwop::events::{InterruptKind, Question};
use touchstone_openwop::schema::compile_untrusted;
use touchstone_openwop::workflow::WorkflowNode;

/// Why a node cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    #[error("this host does not run nodes of type `{0}`")]
    UnknownType(String),
    #[error("its config {0}")]
    Config(String),
    /// Its agent reference is invalid.
    #[error("its agent {0}")]
    Agent(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Does nothing.
    Noop,
    /// Copies its inputs to its outputs.
    Identity,
    Fail {
        code: String,
        message: String,
    },
    /// Waits for the milliseconds of its input `delayMs`, or of its config.
    Delay {
        /// From the config.
        delay_ms: Option<u64>,
    },
    /// Waits for an answer from outside.
    Interrupt(Interrupt),
    /// Calls a model. Workflows have no model of their own; only a mock provider answers (OpenWOP
    /// run-options `mockProvider`).
    Prompt,
    /// Plays an agent's events (RFC 0023); for conformance fixtures.
    MockAgent(MockAgent),
    /// Plays an agent that receives a task: its inputs must satisfy the task schema and its result
    /// the return schema (RFC 0003 §D).
    Handoff {
        task_schema: Value,
        return_schema: Value,
    },
}

/// The events of a mock agent (RFC 0023 §B), in this order.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct MockAgent {
    pub mock_reasoning: Option<MockReasoning>,
    /// Its tool calls, each with its result.
    pub mock_tool_calls: Vec<MockCall>,
    pub mock_decision: Option<MockDecision>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockReasoning {
    pub summary: String,
}

/// A tool call of a mock agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MockCall {
    pub tool_id: String,
    #[serde(default)]
    pub arguments: Option<Value>,
    pub result: Value,
}

/// The decision of a mock agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockDecision {
    pub decision: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HandoffConfig {
    task_schema: Value,
    return_schema: Value,
}

/// A request for an answer from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Interrupt {
    pub kind: InterruptKind,
    /// The request's content.
    pub data: Value,
    /// The schema that an answer must satisfy.
    pub resume_schema: Option<Value>,
    /// Timeout in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Who may decide.
    pub gate: GatePolicy,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ApprovalConfig {
    title: String,
    artifact_id: Option<String>,
    artifact_type: String,
    actions: Vec<String>,
    timeout_ms: Option<u64>,
}

impl Default for ApprovalConfig {
    fn default() -> Self {
        Self {
            title: "Approval".to_owned(),
            artifact_id: None,
            artifact_type: "decision".to_owned(),
            actions: vec!["accept".to_owned(), "reject".to_owned()],
            timeout_ms: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClarificationConfig {
    questions: Vec<Question>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterruptConfig {
    kind: InterruptKind,
    data: Value,
    #[serde(default)]
    resume_schema: Option<Value>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// A node type that only conformance suites use (RFC 0023).
const MOCK_AGENT: &str = "core.conformance.mock-agent";

/// The members of an approval gate's config that say who may decide.
const GATE_KEYS: &[&str] = &[
    "requiredRole",
    "requiredScope",
    "quorum",
    "excludeRequester",
    "override",
];

impl NodeKind {
    /// Parses the type and config of a node.
    ///
    /// # Errors
    /// [`NodeError`].
    pub fn of(node: &WorkflowNode) -> Result<Self, NodeError> {
        let config = &node.config;
        if let Some(agent) = &node.agent {
            if agent.version.is_some() && agent.channel.is_some() {
                return Err(NodeError::Agent(
                    "has both a version and a channel; use at most one",
                ));
            }
            if !["core.identity", MOCK_AGENT].contains(&node.type_id.as_str()) {
                return Err(NodeError::Agent("is not supported by its type"));
            }
        }
        Ok(match node.type_id.as_str() {
            "core.noop" => Self::Noop,
            "core.identity" => Self::Identity,
            "core.fail" => Self::Fail {
                code: text(config, "code", "node_failed"),
                message: text(config, "message", "the node failed as configured"),
            },
            "core.delay" => Self::Delay {
                delay_ms: config.get("delayMs").and_then(Value::as_u64),
            },
            "core.approvalGate" => Self::Interrupt(approval(node)?),
            "core.openwop.governance.approvalGate" => {
                let interrupt = approval(node)?;
                if interrupt.gate.required_role.is_none() && interrupt.gate.required_scope.is_none()
                {
                    return Err(NodeError::Config(
                        "must name `requiredRole` or `requiredScope`".to_owned(),
                    ));
                }
                Self::Interrupt(interrupt)
            }
            "core.clarificationGate" => Self::Interrupt(clarification(config)?),
            "core.interrupt" => {
                let config: InterruptConfig = read(config)?;
                Self::Interrupt(Interrupt {
                    kind: config.kind,
                    data: config.data,
                    resume_schema: config.resume_schema,
                    timeout_ms: config.timeout_ms,
                    gate: GatePolicy::default(),
                })
            }
            "core.ai.callPrompt" => Self::Prompt,
            MOCK_AGENT => Self::MockAgent(read(config)?),
            "core.conformance.handoff" => {
                let config: HandoffConfig = read(config)?;
                for schema in [&config.task_schema, &config.return_schema] {
                    compile_untrusted(schema)
                        .map_err(|fault| NodeError::Config(fault.to_string()))?;
                }
                Self::Handoff {
                    task_schema: config.task_schema,
                    return_schema: config.return_schema,
                }
            }
            other => return Err(NodeError::UnknownType(other.to_owned())),
        })
    }
}

fn text(config: &Map<String, Value>, key: &str, otherwise: &str) -> String {
    let text = config.get(key).and_then(Value::as_str);
    text.filter(|text| !text.is_empty())
        .unwrap_or(otherwise)
        .to_owned()
}

fn read<T: serde::de::DeserializeOwned>(config: &Map<String, Value>) -> Result<T, NodeError> {
    serde_json::from_value(Value::Object(config.clone()))
        .map_err(|fault| NodeError::Config(fault.to_string()))
}

fn approval(node: &WorkflowNode) -> Result<Interrupt, NodeError> {
    let config: ApprovalConfig = read(&node.config)?;
    let gate: Map<String, Value> = node
        .config
        .iter()
        .filter(|(key, _)| GATE_KEYS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let gate: GatePolicy = read(&gate)?;
    if gate.quorum == 0 {
        return Err(NodeError::Config("`quorum` must be at least 1".to_owned()));
    }
    const KNOWN: &[&str] = &["accept", "reject"];
    if config.actions.is_empty()
        || !config
            .actions
            .iter()
            .all(|action| KNOWN.contains(&action.as_str()))
    {
        return Err(NodeError::Config(
            "`actions` may only contain `accept` and `reject`".to_owned(),
        ));
    }
    Ok(Interrupt {
        kind: InterruptKind::Approval,
        resume_schema: Some(approval_schema(&config.actions, gate.over.is_some())),
        data: json!({
            "artifactId": config.artifact_id.unwrap_or_else(|| node.id.to_string()),
            "artifactType": config.artifact_type,
            "title": config.title,
            "actions": config.actions,
            "requiredApprovals": gate.quorum,
        }),
        timeout_ms: config.timeout_ms,
        gate,
    })
}

fn approval_schema(actions: &[String], overridable: bool) -> Value {
    let mut properties = json!({
        "action": {"enum": actions},
        "feedback": {"type": "string", "maxLength": 2000},
    });
    if overridable && let Some(members) = properties.as_object_mut() {
        members.insert(
            "override".to_owned(),
            json!({"type": "object", "required": ["reason"], "additionalProperties": false,
                   "properties": {"reason": {"type": "string", "minLength": 1, "maxLength": 2000}}}),
        );
    }
    json!({"type": "object", "required": ["action"], "properties": properties, "additionalProperties": false})
}

fn clarification(config: &Map<String, Value>) -> Result<Interrupt, NodeError> {
    let config: ClarificationConfig = read(config)?;
    if config.questions.is_empty() {
        return Err(NodeError::Config("must contain a question".to_owned()));
    }
    let ids: Vec<&str> = config.questions.iter().map(|q| q.id.as_str()).collect();
    let answers: Map<String, Value> = ids
        .iter()
        .map(|id| ((*id).to_owned(), json!({"type": "string"})))
        .collect();
    Ok(Interrupt {
        kind: InterruptKind::Clarification,
        resume_schema: Some(json!({
            "type": "object", "required": ["answers"], "additionalProperties": false,
            "properties": {"answers": {"type": "object", "required": ids, "properties": answers,
                                       "additionalProperties": false}},
        })),
        data: json!({"questions": config.questions}),
        timeout_ms: config.timeout_ms,
        gate: GatePolicy::default(),
    })
}
