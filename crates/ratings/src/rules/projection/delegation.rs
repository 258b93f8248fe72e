//! Projects hand-offs: decisions on the parts that the profile names, and their outcomes.

use std::collections::BTreeMap;

use serde_json::json;

use super::log::{Entry, EntryKind, Handoff, InvocationCompleted};
use super::profile::Delegation;
use super::{Evidence, Task, set};
use crate::rules::evidence::EventType;

type Given<'a> = (&'a Entry<'a>, &'a Handoff);

pub fn project(task: &Task<'_>, evidence: &mut Evidence<'_>) {
    let parts = task.profile.delegation.as_deref().unwrap_or_default();
    let mut by_part: BTreeMap<&str, Vec<Given<'_>>> = BTreeMap::new();
    let mut loose = Vec::new();
    for entry in &task.entries {
        let EntryKind::Handoff(handoff) = &entry.kind else {
            continue;
        };
        if handoff.from_agent_id != task.agent {
            continue;
        }
        match part_of(handoff, parts) {
            Some(part) => by_part.entry(part).or_default().push((entry, handoff)),
            None => loose.push((*entry, handoff)),
        }
    }
    for (n, part) in parts.iter().enumerate() {
        let first = by_part
            .get(part.fragment.as_str())
            .and_then(|it| it.first());
        let mut data = json!({
            "task_fragment": part.fragment, "ground_truth": part.ground_truth,
            "decision": if first.is_some() { "delegate" } else { "self" },
            "delegate_to": first.map(|(_, handoff)| &handoff.to_agent_id),
        });
        set(
            &mut data,
            "optimal_delegates",
            part.optimal_delegates.as_ref(),
        );
        let about = first.map_or(task.judged, |(entry, _)| entry);
        evidence.add(task, EventType::DelegationDecision, (about, n), about, data);
    }
    for given in by_part.values() {
        for (place, it) in given.iter().enumerate() {
            // Another request was needed.
            outcome(task, evidence, *it, place + 1 < given.len());
        }
    }
    for it in loose {
        outcome(task, evidence, it, false);
    }
}

fn part_of<'a>(handoff: &Handoff, parts: &'a [Delegation]) -> Option<&'a str> {
    let named = parts
        .iter()
        .find(|it| handoff.reason.as_ref() == Some(&it.fragment));
    let only = match parts {
        [only] => Some(only),
        _ => None,
    };
    named.or(only).map(|it| it.fragment.as_str())
}

fn outcome(task: &Task<'_>, evidence: &mut Evidence<'_>, (entry, handoff): Given<'_>, again: bool) {
    let end = task.entries.iter().find_map(|it| match &it.kind {
        EntryKind::InvocationCompleted(end)
            if it.sequence > entry.sequence && end.agent_id == handoff.to_agent_id =>
        {
            Some((*it, end))
        }
        _ => None,
    });
    let data = json!({
        "delegate_agent_id": handoff.to_agent_id, "revision_needed": again,
        "outcome": end.map_or("failure", |(_, end)| outcome_of(end)),
    });
    let when = end.map_or(task.judged, |(end, _)| end);
    evidence.add(task, EventType::DelegationOutcome, (entry, 0), when, data);
}

fn outcome_of(end: &InvocationCompleted) -> &'static str {
    match end.outcome.as_str() {
        "completed" if end.schema_validated == Some(false) => "partial",
        "completed" => "success",
        "handed-off" | "escalated" => "partial",
        _ => "failure",
    }
}
