//! Payloads about interrupts (OpenWOP v2 interrupt). Approvals and clarifications have payloads of
//! their own under major 1, and those of interrupts under major 2.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::object::{Members, Object, text};
use super::{Context, all_seated, extension, interrupt_key, seat, shapes, unseated};
use crate::wire::v2::event::Unprojectable;

/// The principal and the action of an answer by timeout. Only the host's answers have both.
const HOST: &str = "host";
const TIMEOUT: &str = "timeout";

/// The actions that an event may name.
const ACTIONS: &[&str] = &["accept", "reject", "refine", "edit-accept", TIMEOUT];

/// The last interrupt of each node.
#[derive(Clone, Debug, Default)]
pub struct Interrupts(BTreeMap<String, Asked>);

#[derive(Clone, Debug)]
struct Asked {
    /// The stored id.
    id: String,
    key: String,
}

impl Interrupts {
    /// Remembers the interrupt of a `node.suspended`, and ignores other events.
    pub fn learn(&mut self, stored_kind: &str, payload: &RawValue) {
        if stored_kind != "node.suspended" {
            return;
        }
        let Some(members) = Members::of(payload) else {
            return;
        };
        let facts = ["nodeId", "interruptId", "key"].map(|key| members.text(key));
        if let [Some(node), Some(id), Some(key)] = facts {
            let (id, key) = (id.into_owned(), key.into_owned());
            self.0.insert(node.into_owned(), Asked { id, key });
        }
    }

    fn of(&self, node: &str) -> Result<&Asked, Unprojectable> {
        let unknown = || Unprojectable::Interrupt {
            node: node.to_owned(),
        };
        self.0.get(node).ok_or_else(unknown)
    }
}

/// A member without which the payload cannot be projected.
fn required<T>(kind: &str, key: &str, value: Option<T>) -> Result<T, Unprojectable> {
    value.ok_or_else(|| unseated(kind, vec![key.to_owned()]))
}

/// `approval.requested` and `clarification.requested`: the request, as `interrupt.requested` has it.
/// The node is in the envelope, and the id of the interrupt in `node.suspended`.
pub fn requested(
    cx: &Context<'_>,
    kind: &str,
    members: &Members<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Unprojectable> {
    let (of, seats): (_, &[&str]) = match kind {
        "approval.requested" => (
            "approval",
            &[
                "artifactId",
                "artifactType",
                "title",
                "actions",
                "requiredApprovals",
            ],
        ),
        _ => ("clarification", &["questions"]),
    };
    let node = required(kind, "nodeId", members.text("nodeId"))?;
    let id = required(kind, "interruptId", members.text("interruptId"))?;
    let asked = cx.interrupts.of(&node)?;
    if asked.id != id {
        return Err(Unprojectable::Interrupt {
            node: node.into_owned(),
        });
    }
    let mut object = Object::begin(out);
    object.value("kind", of);
    object.value("key", &interrupt_key(&asked.key));
    let mut data = Object::begin(object.key("data"));
    let mut without_seat = Vec::new();
    for (key, value) in members.iter() {
        match key {
            "nodeId" | "interruptId" => {}
            _ if seats.contains(&key) => data.copy(key, value),
            _ => without_seat.push(key.to_owned()),
        }
    }
    data.end();
    object.end();
    all_seated(kind, without_seat)
}

/// The `approval.*` decisions and `clarification.resolved`, as `interrupt.resolved` has them.
pub fn decided(
    cx: &Context<'_>,
    kind: &str,
    members: &Members<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Unprojectable> {
    let (of, node_key, by_key, decision) = match kind {
        "approval.granted" => ("approval", "gateId", "principal", Some("granted")),
        "approval.rejected" => ("approval", "gateId", "principal", Some("rejected")),
        "approval.overridden" => ("approval", "gateId", "principal", Some("overridden")),
        "approval.received" => ("approval", "nodeId", "decidedBy", None),
        _ => ("clarification", "nodeId", "answeredBy", None),
    };
    let node = required(kind, node_key, members.text(node_key))?;
    let by = required(kind, by_key, members.text(by_key))?;
    let action = members.text("action");
    let action = ACTIONS
        .iter()
        .find(|known| action.as_deref() == Some(known));
    let timed_out = action == Some(&TIMEOUT) && by == HOST;

    let mut object = Object::begin(out);
    object.value("nodeId", &node);
    match members.text("interruptId") {
        Some(id) => cx.write_interrupt_id(&id, object.key("interruptId")),
        None => {
            let asked = cx.interrupts.of(&node)?;
            cx.write_interrupt_id(&asked.id, object.key("interruptId"));
        }
    }
    object.value("kind", of);
    if let Some(action) = action {
        object.value("action", action);
    }
    // `approval.received` does not say whether an accepted request was granted or overridden. The
    // preceding event does.
    let is_refusal = matches!(action, Some(&("reject" | TIMEOUT)));
    if let Some(decision) = decision.or(is_refusal.then_some("rejected")) {
        object.value("decision", decision);
    }
    if timed_out {
        object.value("reason", TIMEOUT);
    } else {
        object.value("resolvedBy", &cx.subject(&by));
    }
    let answer: &[&str] = match kind {
        "approval.received" => &["action", "feedback"],
        "clarification.resolved" => &["answers"],
        _ => &[],
    };
    if !answer.is_empty() {
        let mut value = Object::begin(object.key("resumeValue"));
        for key in answer {
            if let Some(member) = members.get(key) {
                value.copy(key, member);
            }
        }
        value.end();
    }
    for (key, value) in members.iter() {
        let is_used = key == node_key || key == by_key || key == "interruptId";
        if !is_used && !answer.contains(&key) {
            object.copy(&decided_extension(key), value);
        }
    }
    object.end();
    Ok(())
}

fn decided_extension(key: &str) -> String {
    match key {
        "quorumProgress" => "x-touchstone-quorum".to_owned(),
        // Among them `reason`: the seat of that name is for causes without a person.
        _ => extension(key),
    }
}

/// `interrupt.resolved`. Besides the answer to an approval, major 2 states its action and decision.
pub fn resolved(
    cx: &Context<'_>,
    kind: &str,
    members: &Members<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Unprojectable> {
    let answer = members.get("resumeValue").and_then(Members::of);
    let answered = answer.as_ref().and_then(|answer| answer.text("action"));
    let by = members.text("resolvedBy");
    let timed_out = answered.as_deref() == Some(TIMEOUT) && by.as_deref() == Some(HOST);
    let shape = shapes::of(kind);
    let mut object = Object::begin(out);
    let mut without_seat = Vec::new();
    for (key, value) in members.iter() {
        match (key, &by) {
            // The host is not a subject.
            ("resolvedBy", Some(_)) if timed_out => {}
            ("resolvedBy", Some(by)) => object.value(key, &cx.subject(by)),
            ("resolvedBy", None) => without_seat.push(key.to_owned()),
            _ => {
                let Some(seat) = seat(shape, key) else {
                    without_seat.push(key.to_owned());
                    continue;
                };
                if cx
                    .write_value(kind, key, value, object.key(&seat))
                    .is_none()
                {
                    without_seat.push(key.to_owned());
                }
            }
        }
    }
    let mut add = |key: &str, text: &str| {
        if members.get(key).is_none() {
            object.value(key, text);
        }
    };
    if timed_out {
        add("reason", TIMEOUT);
    }
    if members.text("kind").as_deref() == Some("approval")
        && let Some(answer) = &answer
    {
        let action = ACTIONS.iter().find(|it| answered.as_deref() == Some(it));
        if let Some(action) = action {
            add("action", action);
        }
        if let Some(decision) = decision(answer, action) {
            add("decision", decision);
        }
        for key in ["refineFeedback", "editedArtifactData"] {
            if let Some(value) = answer.get(key)
                && members.get(key).is_none()
            {
                object.copy(key, value);
            }
        }
    }
    object.end();
    all_seated(kind, without_seat)
}

fn decision(answer: &Members<'_>, action: Option<&&str>) -> Option<&'static str> {
    let over = answer.get("override").and_then(Members::of);
    if over.is_some_and(|over| over.get("reason").and_then(text).is_some()) {
        return Some("overridden");
    }
    match action {
        Some(&("accept" | "edit-accept")) => Some("granted"),
        Some(&("reject" | TIMEOUT)) => Some("rejected"),
        _ => None,
    }
}
