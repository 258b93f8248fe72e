//! Interrupts: requests to the outside, and the effects of answers (OpenWOP interrupt; RFC 0051).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::facts::InterruptFacts;
use super::gate::{GatePolicy, Responder};
use super::node::Interrupt;
use touchstone_kit::ids::{NodeId, RunId};
use touchstone_kit::redaction::mask;
use touchstone_openwop::events::{
    ApprovalGranted, ApprovalOverridden, ApprovalReceived, ApprovalRejected, ApprovalRequested,
    ClarificationRequested, ClarificationResolved, Event, InterruptKind, InterruptRequested,
    InterruptResolved, NewEvent, NodeResumed, NodeSuspended, QuorumProgress,
};
use touchstone_openwop::schema::compile_untrusted;

/// Why an answer is rejected. The interrupt is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The answer does not satisfy the request.
    #[error("`{field}` {reason}")]
    Invalid { field: String, reason: String },
    /// The principal may not answer.
    #[error("this approval gate requires {0}")]
    Forbidden(String),
    /// The principal has approved already.
    #[error(
        "this principal has already approved; the remaining approvals must come from other \
         principals"
    )]
    Voted,
}

/// The principal of an answer by timeout.
pub const HOST: &str = "host";
/// The action of an answer by timeout.
pub const TIMEOUT: &str = "timeout";

/// The events that suspend a node.
pub fn suspend(run: &RunId, node: &NodeId, attempt: u32, interrupt: &Interrupt) -> Vec<NewEvent> {
    let key = format!("{run}:{node}:{attempt}");
    let interrupt_id = format!("int-{node}-{attempt}");
    let of_node = |event| NewEvent::of_task(event, node, None);
    let mut events = vec![
        of_node(Event::InterruptRequested(InterruptRequested {
            kind: interrupt.kind,
            key: key.clone(),
            resume_schema: interrupt.resume_schema.clone(),
            timeout_ms: interrupt.timeout_ms,
            data: interrupt.data.clone(),
        })),
        of_node(Event::NodeSuspended(NodeSuspended {
            node_id: node.clone(),
            interrupt_id: interrupt_id.clone(),
            kind: interrupt.kind,
            key,
        })),
    ];
    let data_text = |name: &str| {
        let text = interrupt.data.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    match interrupt.kind {
        InterruptKind::Approval => {
            events.push(of_node(Event::ApprovalRequested(ApprovalRequested {
                node_id: node.clone(),
                interrupt_id,
                artifact_id: data_text("artifactId"),
                artifact_type: data_text("artifactType"),
                title: data_text("title"),
                actions: listed(&interrupt.data, "actions"),
                required_approvals: interrupt.gate.quorum,
            })));
        }
        InterruptKind::Clarification => {
            events.push(of_node(Event::ClarificationRequested(
                ClarificationRequested {
                    node_id: node.clone(),
                    interrupt_id,
                    questions: listed(&interrupt.data, "questions"),
                },
            )));
        }
        InterruptKind::ExternalEvent | InterruptKind::Custom => {}
    }
    events
}

fn listed<T: serde::de::DeserializeOwned>(data: &Value, name: &str) -> Vec<T> {
    data.get(name)
        .and_then(|items| serde_json::from_value(items.clone()).ok())
        .unwrap_or_default()
}

/// When the interrupt times out.
pub fn deadline(facts: &InterruptFacts) -> Option<Timestamp> {
    let timeout = i64::try_from(facts.requested.timeout_ms?).unwrap_or(i64::MAX);
    let at = facts
        .requested_at
        .checked_add(SignedDuration::from_millis(timeout));
    at.ok()
}

/// The events of a timeout.
pub fn time_out(node: &NodeId, facts: &InterruptFacts, now: Timestamp) -> Vec<NewEvent> {
    let mut events = Vec::new();
    if facts.requested.kind == InterruptKind::Approval {
        events.push(NewEvent::of_task(
            Event::ApprovalReceived(ApprovalReceived {
                node_id: node.clone(),
                action: TIMEOUT.to_owned(),
                decided_by: HOST.to_owned(),
                decided_at: now,
                feedback: None,
            }),
            node,
            None,
        ));
    }
    events.extend(resumed(node, facts, json!({"action": TIMEOUT}), HOST));
    events
}

/// The effect of an answer: a vote, or the end of the wait.
///
/// # Errors
/// [`Refusal`].
pub fn answer(
    node: &NodeId,
    gate: &GatePolicy,
    facts: &InterruptFacts,
    responder: &Responder,
    value: &Value,
    now: Timestamp,
) -> Result<Vec<NewEvent>, Refusal> {
    satisfies(facts, value)?;
    let value = &recorded(facts.requested.kind, value);
    let principal = responder.principal.as_str();
    let mut events = match facts.requested.kind {
        InterruptKind::Approval => match approval(node, gate, facts, responder, value)? {
            Vote::Counted(events) => return Ok(events),
            Vote::Decided(mut events) => {
                let action = member(value, "action").unwrap_or_default();
                events.push(Event::ApprovalReceived(ApprovalReceived {
                    node_id: node.clone(),
                    action: action.to_owned(),
                    decided_by: principal.to_owned(),
                    decided_at: now,
                    feedback: member(value, "feedback").map(str::to_owned),
                }));
                let of_node = |event| NewEvent::of_task(event, node, None);
                events.into_iter().map(of_node).collect()
            }
        },
        InterruptKind::Clarification => vec![NewEvent::of_task(
            Event::ClarificationResolved(ClarificationResolved {
                node_id: node.clone(),
                answers: answers(value),
                answered_by: principal.to_owned(),
            }),
            node,
            None,
        )],
        InterruptKind::ExternalEvent | InterruptKind::Custom => Vec::new(),
    };
    events.extend(resumed(node, facts, value.clone(), principal));
    Ok(events)
}

enum Vote {
    /// The vote counts; more approvals are needed.
    Counted(Vec<NewEvent>),
    /// The interrupt is resolved.
    Decided(Vec<Event>),
}

fn approval(
    node: &NodeId,
    gate: &GatePolicy,
    facts: &InterruptFacts,
    responder: &Responder,
    value: &Value,
) -> Result<Vote, Refusal> {
    let (gate_id, principal) = (node.to_string(), responder.principal.clone());
    if let Some(reason) = value
        .get("override")
        .and_then(|over| member(over, "reason"))
    {
        if !gate.admits_override(responder) {
            return Err(Refusal::Forbidden(format!(
                "the role `{}` for an override",
                gate.over.as_ref().map_or("", |over| &over.required_role)
            )));
        }
        return Ok(Vote::Decided(vec![Event::ApprovalOverridden(
            ApprovalOverridden {
                gate_id,
                principal,
                reason: reason.to_owned(),
            },
        )]));
    }
    if gate.excludes(responder) {
        return Err(Refusal::Forbidden(
            "a principal other than the one who asked".to_owned(),
        ));
    }
    if !gate.admits(responder) {
        let role = gate
            .required_role
            .iter()
            .map(|role| format!("the role `{role}`"));
        let scope = gate
            .required_scope
            .iter()
            .map(|scope| format!("the scope `{scope}`"));
        let needed: Vec<String> = role.chain(scope).collect();
        return Err(Refusal::Forbidden(needed.join(" and ")));
    }
    if member(value, "action") == Some("reject") {
        return Ok(Vote::Decided(vec![Event::ApprovalRejected(
            ApprovalRejected {
                gate_id,
                principal,
                reason: member(value, "feedback").map(str::to_owned),
            },
        )]));
    }
    if facts.granted_by.contains(&principal) {
        let granted = u32::try_from(facts.granted_by.len()).unwrap_or(u32::MAX);
        return if granted >= gate.quorum {
            // The history of a branch may end between the last vote and the resolution.
            Ok(Vote::Decided(Vec::new()))
        } else {
            Err(Refusal::Voted)
        };
    }
    let granted = u32::try_from(facts.granted_by.len() + 1).unwrap_or(u32::MAX);
    let event = Event::ApprovalGranted(ApprovalGranted {
        gate_id,
        principal,
        quorum_progress: Some(QuorumProgress {
            granted,
            required: gate.quorum,
        }),
    });
    Ok(if granted >= gate.quorum {
        Vote::Decided(vec![event])
    } else {
        Vote::Counted(vec![NewEvent::of_task(event, node, None)])
    })
}

/// The recorded form of an answer. Credentials in texts about a decision are masked. Answers to
/// questions and external events are inputs of later nodes, so they are recorded unchanged.
fn recorded(kind: InterruptKind, value: &Value) -> Value {
    let mut value = value.clone();
    if kind == InterruptKind::Approval {
        for words in ["/feedback", "/override/reason"] {
            if let Some(Value::String(words)) = value.pointer_mut(words) {
                *words = mask(words).into_owned();
            }
        }
    }
    value
}

fn satisfies(facts: &InterruptFacts, value: &Value) -> Result<(), Refusal> {
    let invalid = |field: String, reason: &str| Refusal::Invalid {
        field,
        reason: reason.to_owned(),
    };
    let Some(schema) = &facts.requested.resume_schema else {
        return Ok(());
    };
    let schema = compile_untrusted(schema).map_err(|_| {
        invalid(
            "resumeValue".to_owned(),
            "cannot be checked: the node's `resumeSchema` is invalid",
        )
    })?;
    match schema.first_violation(value) {
        None => Ok(()),
        Some(violation) => Err(invalid(
            format!("resumeValue{}", violation.pointer.replace('/', ".")),
            "does not satisfy the interrupt's `resumeSchema`",
        )),
    }
}

fn resumed(node: &NodeId, facts: &InterruptFacts, value: Value, by: &str) -> [NewEvent; 2] {
    let of_node = |event| NewEvent::of_task(event, node, None);
    [
        of_node(Event::InterruptResolved(InterruptResolved {
            node_id: node.clone(),
            interrupt_id: facts.id.clone(),
            kind: facts.requested.kind,
            resume_value: value,
            resolved_by: by.to_owned(),
        })),
        of_node(Event::NodeResumed(NodeResumed {
            node_id: node.clone(),
            interrupt_id: facts.id.clone(),
        })),
    ]
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn answers(value: &Value) -> Map<String, Value> {
    let answers = value.get("answers").and_then(Value::as_object);
    answers.cloned().unwrap_or_default()
}
