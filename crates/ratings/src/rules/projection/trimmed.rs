//! Trims log events to what the projection reads, because logs contain all messages of their tasks.

use serde_json::{Map, Value};

use super::RunEvent;

/// The payload members that are read, by event type.
const READ: &[(&str, &[&str])] = &[
    ("eval.started", &["suiteId", "suiteVersion", "modes"]),
    ("agent.invocation.started", &["memoryBound"]),
    (
        "agent.invocation.completed",
        &["agentId", "outcome", "schemaValidated"],
    ),
    (
        "agent.toolCalled",
        &["agentId", "toolName", "callId", "argsHash"],
    ),
    ("agent.toolReturned", &["callId", "status", "error"]),
    ("agent.handoff", &["fromAgentId", "toAgentId", "reason"]),
    ("runOrchestrator.decided", &["decision"]),
    ("agent.verified", &["verdict"]),
    (
        "eval.scored",
        &[
            "taskId",
            "score",
            "passed",
            "costUsd",
            "latencyMs",
            "schemaValid",
            "safetyFindingCount",
        ],
    ),
];

impl RunEvent {
    /// The event without the members that are not read, so that a long log takes little memory.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        let read = READ.iter().find(|(kind, _)| *kind == self.kind);
        let read = read.map(|(_, members)| *members).unwrap_or_default();
        self.payload = match self.payload {
            Value::Object(payload) if !read.is_empty() => {
                let kept = payload
                    .into_iter()
                    .filter(|(name, _)| read.contains(&name.as_str()));
                Value::Object(kept.collect::<Map<_, _>>())
            }
            _ => Value::Null,
        };
        self
    }
}
