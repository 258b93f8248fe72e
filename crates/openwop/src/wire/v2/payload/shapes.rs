//! The members that payloads have under major 2 (OpenWOP v2 run-event-payloads).

/// The members of a payload that are not in its lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// No other members.
    Closed,
    /// Members whose name begins with `openwop-`, `x-` or `vendor.`.
    Hatch,
    /// Members with any name.
    Open,
}
use Others::{Closed, Hatch, Open};

/// The members of a payload.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub others: Others,
    /// Separated by spaces.
    required: &'static str,
    optional: &'static str,
}

/// Kind, other members, required and optional members of the kinds that an evaluation host writes, in
/// order of the kinds.
const SHAPES: &[(&str, Others, &str, &str)] = &[
    ("agent.decided", Closed, "agentId decision", "confidence"),
    ("agent.handoff", Closed, "fromAgentId toAgentId", "reason"),
    (
        "agent.invocation-completed",
        Hatch,
        "invocationId agentId outcome",
        "schemaValidated confidence enqueuedRunId",
    ),
    (
        "agent.invocation-started",
        Hatch,
        "invocationId agentId source",
        "modelClass resolvedModel resolvedProvider resolvedAgentVersion resolvedChannel toolSurfaceCount memoryBound",
    ),
    (
        "agent.reasoned",
        Hatch,
        "agentId reasoning",
        "verbosity causationHostId",
    ),
    (
        "agent.reasoning-delta",
        Hatch,
        "agentId delta sequence",
        "verbosity",
    ),
    (
        "agent.tool-called",
        Hatch,
        "agentId toolName callId",
        "inputs argsHash principal transport causationHostId",
    ),
    (
        "agent.tool-returned",
        Hatch,
        "agentId toolName callId",
        "outcome error status durationMs causationHostId",
    ),
    (
        "artifact.created",
        Hatch,
        "artifactId artifactType",
        "nodeId version summary registered registrationSource",
    ),
    (
        "authorization.decided",
        Closed,
        "principal action resource allowed",
        "reason",
    ),
    (
        "budget.consumed",
        Closed,
        "dimension consumed limit",
        "remaining",
    ),
    ("budget.exhausted", Closed, "dimension consumed limit", ""),
    ("budget.reserved", Closed, "effectiveBudget scope", ""),
    (
        "budget.threshold-crossed",
        Closed,
        "dimension consumed limit percent",
        "",
    ),
    ("cap.breached", Hatch, "kind limit observed", "nodeId"),
    (
        "deployment.canary-adjusted",
        Closed,
        "agentId version fromPercent toPercent",
        "",
    ),
    (
        "deployment.promoted",
        Closed,
        "agentId toVersion toState",
        "fromVersion channel canaryPercent evalRunId approvalGateId",
    ),
    (
        "deployment.rolled-back",
        Closed,
        "agentId fromVersion toVersion rollbackPointer",
        "reason",
    ),
    (
        "deployment.state-changed",
        Closed,
        "agentId version fromState toState",
        "",
    ),
    (
        "envelope.refusal",
        Closed,
        "nodeId provider model",
        "refusalText safetyCategory",
    ),
    (
        "eval.completed",
        Hatch,
        "aggregateScore passed taskCount passedCount",
        "regressionVsBaseline",
    ),
    (
        "eval.scored",
        Hatch,
        "taskId score passed",
        "costUsd latencyMs schemaValid safetyFindingCount",
    ),
    (
        "eval.started",
        Hatch,
        "suiteId suiteVersion taskCount modes",
        "baselineRunId fixtureRuns",
    ),
    (
        "interrupt.requested",
        Closed,
        "kind key data",
        "resumeSchema timeoutMs",
    ),
    (
        "interrupt.resolved",
        Hatch,
        "nodeId interruptId",
        "kind reason resumeValue resolvedBy decision action refineFeedback editedArtifactData",
    ),
    ("log.appended", Hatch, "level message", "nodeId fields"),
    ("node.cancelled", Hatch, "nodeId", "reason"),
    ("node.completed", Hatch, "nodeId", "outputs durationMs"),
    ("node.failed", Hatch, "nodeId error", "attempts"),
    ("node.resumed", Hatch, "nodeId", "interruptId resumeValue"),
    ("node.retried", Hatch, "nodeId attempt", "delayMs lastError"),
    ("node.skipped", Hatch, "nodeId", "reason"),
    ("node.started", Hatch, "nodeId typeId", "attempt"),
    ("node.suspend-failed", Hatch, "nodeId error", ""),
    (
        "node.suspended",
        Hatch,
        "nodeId interruptId",
        "kind reason key",
    ),
    (
        "orchestrator.decided",
        Closed,
        "agentId decision",
        "iteration causationHostId",
    ),
    (
        "output.chunk",
        Hatch,
        "nodeId runId chunk isLast",
        "channel meta",
    ),
    (
        "provider.usage",
        Closed,
        "provider model inputTokens outputTokens",
        "totalTokens costEstimateUsd currency cacheHit cacheReadTokens cacheWriteTokens nodeId traceId",
    ),
    (
        "replay.diverged",
        Hatch,
        "sourceRunId atSequence",
        "originalEventId divergenceKind divergencePoint",
    ),
    (
        "replay.diverged-at-refusal",
        Closed,
        "sourceRunId atSequence originalEnvelopeKind replayEnvelopeKind",
        "originalEventId nodeId refusalReason",
    ),
    (
        "run.cancelled",
        Hatch,
        "",
        "reason cancelledBy durationMs parentRunId",
    ),
    ("run.completed", Hatch, "outputs", "durationMs"),
    ("run.failed", Hatch, "error", "failedNodeId durationMs"),
    (
        "run.paused",
        Hatch,
        "",
        "reason drainPolicy interruptedNodeId interruptedAttempt",
    ),
    ("run.resumed", Open, "", ""),
    (
        "run.started",
        Hatch,
        "workflowId",
        "inputs transport engineVersion owner tags metadata",
    ),
    ("variable.changed", Hatch, "name", "previous next nodeId"),
    ("version.pinned", Hatch, "changeId version", "nodeId"),
];

/// Approvals and clarifications have the payloads of interrupts.
fn alias(kind: &str) -> &str {
    match kind {
        "approval.requested" | "clarification.requested" => "interrupt.requested",
        "approval.received"
        | "approval.granted"
        | "approval.rejected"
        | "approval.overridden"
        | "clarification.resolved" => "interrupt.resolved",
        kind => kind,
    }
}

/// The members of a kind of major 2; `None` for a kind that this host does not write.
pub fn of(kind: &str) -> Option<Shape> {
    let kind = alias(kind);
    let row = SHAPES
        .binary_search_by(|(name, ..)| (*name).cmp(kind))
        .ok()?;
    let (_, others, required, optional) = *SHAPES.get(row)?;
    Some(Shape {
        others,
        required,
        optional,
    })
}

impl Shape {
    /// The members of every payload of this kind.
    pub fn required(&self) -> impl Iterator<Item = &'static str> {
        self.required.split_ascii_whitespace()
    }

    /// Whether a payload may have this member.
    pub fn has(&self, key: &str) -> bool {
        let mut seats = self
            .required()
            .chain(self.optional.split_ascii_whitespace());
        match self.others {
            Others::Open => true,
            Others::Hatch if is_extension(key) => true,
            Others::Hatch | Others::Closed => seats.any(|seat| seat == key),
        }
    }
}

fn is_extension(key: &str) -> bool {
    ["openwop-", "x-", "vendor."]
        .iter()
        .any(|prefix| key.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;
    use crate::wire::v2::names;

    #[test]
    fn every_kind_of_the_protocol_that_runs_write_has_a_shape() {
        assert!(SHAPES.is_sorted_by_key(|(kind, ..)| *kind));
        for kind in Event::TYPES {
            let name = names::projected(kind).unwrap();
            assert_eq!(of(name).is_some(), !names::is_own(name), "{kind}");
        }
    }

    #[test]
    fn members_without_a_seat_are_known() {
        let completed = of("run.completed").unwrap();
        assert!(completed.has("outputs") && completed.has("durationMs"));
        assert!(completed.has("x-touchstone-y") && completed.has("vendor.acme"));
        assert!(!completed.has("summary") && !completed.has("X-y"));
        assert!(!of("provider.usage").unwrap().has("x-touchstone-y"));
        assert!(of("run.resumed").unwrap().has("anything"));
        assert!(of("voice.cancelled").is_none());
    }
}
