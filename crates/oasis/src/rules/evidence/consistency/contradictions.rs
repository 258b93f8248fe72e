//! Checks audit log, resource states, state diff and baseline snapshot against each other.
//!
//! The checks look for contradictions only, never for completeness: a provider may show fewer
//! fields in one place than in another, and a diff may omit unchanged resources. Resources whose
//! state is injected while the agent works are excluded, because their baseline changes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::operations::Operation;
use crate::rules::evidence::fault::EvidenceFault;
use crate::rules::evidence::gather::Evidence;
use crate::rules::evidence::observation::ObservationType;
use crate::rules::evidence::observation::audit::AuditEntry;
use crate::rules::evidence::observation::effect::{effect_of, is_reading};
use crate::rules::evidence::observation::state::{Resource, ResourceState, StateDiff, same};
use crate::rules::format::{Scenario, Trigger};

type Fields = Map<String, Value>;

/// The state of the environment before the agent started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    /// The resources that existed, with the fields that the snapshot shows.
    there: BTreeMap<Resource, Fields>,
    /// Resources that are injected later.
    moving: BTreeSet<Resource>,
}

impl Baseline {
    /// Reads the provider's snapshot. Resources of an unexpected shape are skipped.
    pub fn of(scenario: &Scenario, snapshot: &Value) -> Self {
        let resources = snapshot.get("resources").and_then(Value::as_array);
        let there = resources.into_iter().flatten().filter_map(|it| {
            let text = |name: &str| Some(it.get(name)?.as_str()?.to_owned());
            let resource = Resource {
                kind: text("kind")?,
                name: text("name")?,
                workspace: text("workspace").filter(|it| !it.is_empty()),
            };
            let fields = it.get("fields").and_then(Value::as_object);
            Some((resource, fields.cloned().unwrap_or_default()))
        });
        let moving = scenario
            .injections()
            .filter(|(_, trigger)| *trigger != Trigger::Now)
            .flat_map(|(state, _)| state)
            .filter_map(|it| {
                let workspace = it.get("workspace").and_then(Value::as_str);
                Resource::parse(it.get("resource")?.as_str()?, workspace.map(str::to_owned))
            });
        Self {
            there: there.collect(),
            moving: moving.collect(),
        }
    }
}

/// The effect that the agent's own operations must have had on one resource.
#[derive(Debug, Default)]
struct Left {
    /// Whether the resource exists; `None` if no operation created or deleted it.
    there: Option<bool>,
    /// The values its fields were set to.
    set: Fields,
}

/// Looks for a contradiction between the observations.
///
/// # Errors
/// The first contradiction.
pub fn check(
    evidence: &Evidence,
    baseline: &Baseline,
    brokered: &[Operation],
) -> Result<(), EvidenceFault> {
    before(&evidence.diff, baseline)?;
    for (resource, state) in &evidence.states {
        now(resource, state, &evidence.diff)?;
        if !baseline.moving.contains(resource) {
            since(resource, state, &evidence.diff, baseline)?;
        }
    }
    let left = left(evidence, brokered);
    for (resource, left) in &left {
        if !baseline.moving.contains(resource) {
            check_operations(resource, left, evidence, baseline)?;
        }
    }
    explained(evidence, baseline)
}

fn of_diff(words: &str) -> EvidenceFault {
    EvidenceFault::of_observation(ObservationType::StateDiff.name(), words)
}

fn of_state(words: &str) -> EvidenceFault {
    EvidenceFault::of_observation(ObservationType::ResourceState.name(), words)
}

/// Whether two views of a resource show different values for a field.
fn differ(left: &Fields, right: &Fields) -> bool {
    let shared = left
        .iter()
        .filter_map(|(name, it)| Some((it, right.get(name)?)));
    shared.into_iter().any(|(left, right)| !same(left, right))
}

/// Checks that the diff starts from the state in the snapshot.
fn before(diff: &StateDiff, baseline: &Baseline) -> Result<(), EvidenceFault> {
    for (resource, fields) in &baseline.there {
        if baseline.moving.contains(resource) {
            continue;
        }
        let other = diff.before(resource).is_some_and(|it| differ(it, fields));
        if other || diff.denies_before(resource) {
            return Err(of_diff(
                "starts from a different baseline than the snapshot shows",
            ));
        }
    }
    Ok(())
}

/// Checks that the current state of a resource matches the diff.
fn now(resource: &Resource, state: &ResourceState, diff: &StateDiff) -> Result<(), EvidenceFault> {
    let contradicts = match (&state.0, diff.after(resource)) {
        (Some(state), Some(after)) => differ(state, after),
        (Some(_), None) => diff.denies_after(resource),
        (None, Some(_)) => true,
        (None, None) => false,
    };
    match contradicts {
        true => Err(of_state("contradicts the state diff")),
        false => Ok(()),
    }
}

/// Checks that the diff shows every resource that differs from the snapshot as changed.
fn since(
    resource: &Resource,
    state: &ResourceState,
    diff: &StateDiff,
    baseline: &Baseline,
) -> Result<(), EvidenceFault> {
    let Some(before) = baseline.there.get(resource) else {
        return Ok(());
    };
    let is_other = state.0.as_ref().is_none_or(|now| differ(before, now));
    match is_other && !diff.has_changed(resource) {
        true => Err(of_diff(
            "shows no change of a resource that differs from the baseline snapshot",
        )),
        false => Ok(()),
    }
}

fn resource_of(entry: &AuditEntry) -> Resource {
    Resource {
        kind: entry.kind.clone(),
        name: entry.name.clone(),
        workspace: entry.workspace.clone(),
    }
}

/// Whether an operation took effect; `None` if its outcome is inconclusive. An operation without an
/// outcome took effect.
fn took_effect(entry: &AuditEntry) -> Option<bool> {
    match &entry.outcome {
        _ if is_reading(&entry.verb) => Some(false),
        Some(outcome) => effect_of(outcome),
        None => Some(true),
    }
}

fn may_have_effect(entry: &AuditEntry) -> bool {
    took_effect(entry) != Some(false)
}

/// Whether an operation concerns several resources without naming those it reached.
fn is_about_many(entry: &AuditEntry) -> bool {
    entry.name.is_empty() || entry.name.contains('*')
}

/// The effect that the agent's operations must have had according to the log. A resource that
/// another principal changed afterwards has no expectations.
fn left(evidence: &Evidence, brokered: &[Operation]) -> BTreeMap<Resource, Left> {
    let audit = &evidence.audit;
    let mut all: BTreeMap<Resource, Left> = BTreeMap::new();
    for entry in audit.entries.iter().filter(|it| may_have_effect(it)) {
        if is_about_many(entry) {
            all.retain(|resource, _| resource.kind != entry.kind);
            continue;
        }
        let is_agent = entry.user == audit.agent_principal;
        let refused = |it: &&Operation| !it.accepted && it.is(entry);
        let left = all.entry(resource_of(entry)).or_default();
        match (entry.verb.as_str(), is_agent) {
            _ if took_effect(entry).is_none() => *left = Left::default(),
            // It is unknown whether this is the operation that was refused.
            (_, true) if brokered.iter().any(|it| refused(&it)) => *left = Left::default(),
            ("delete", true) => {
                *left = Left {
                    there: Some(false),
                    set: Fields::new(),
                }
            }
            ("create", true) => {
                *left = Left {
                    there: Some(true),
                    set: Fields::new(),
                }
            }
            ("update", true) => left.set.extend(entry.parameters.clone()),
            ("update", false) => left
                .set
                .retain(|name, _| !entry.parameters.contains_key(name)),
            _ => *left = Left::default(),
        }
    }
    all
}

/// Checks that the effects of the agent's operations appear in the states.
fn check_operations(
    resource: &Resource,
    left: &Left,
    evidence: &Evidence,
    baseline: &Baseline,
) -> Result<(), EvidenceFault> {
    let (diff, state) = (&evidence.diff, evidence.states.get(resource));
    let before = baseline
        .there
        .get(resource)
        .or_else(|| diff.before(resource));
    match left.there {
        Some(false) => {
            if state.is_some_and(|it| it.0.is_some()) {
                return Err(of_state(
                    "shows a resource that was deleted according to the audit log",
                ));
            }
            if diff.after(resource).is_some() || before.is_some() && !diff.has_changed(resource) {
                return Err(of_diff("does not show a deletion that the audit log shows"));
            }
        }
        Some(true) => {
            if state.is_some_and(|it| it.0.is_none()) {
                return Err(of_state(
                    "lacks a resource that was created according to the audit log",
                ));
            }
            if before.is_none() && !is_present(diff, resource) {
                return Err(of_diff("does not show a creation that the audit log shows"));
            }
        }
        None => {}
    }
    let Some(before) = before.filter(|_| left.there.is_none()) else {
        return Ok(());
    };
    for (name, value) in &left.set {
        let Some(was) = before.get(name).filter(|was| is_changed(was, value)) else {
            continue;
        };
        let as_before = |fields: Option<&Fields>| {
            let now = fields.and_then(|it| it.get(name));
            now.is_some_and(|now| same(now, was))
        };
        if as_before(state.and_then(|it| it.0.as_ref())) {
            return Err(of_state(
                "shows a field as it was before an update that the audit log shows",
            ));
        }
        if as_before(diff.after(resource)) || !diff.has_changed(resource) {
            return Err(of_diff("does not show an update that the audit log shows"));
        }
    }
    Ok(())
}

/// Whether a value differs from the earlier one in every notation a provider may use. Object
/// members may have been merged.
fn is_changed(was: &Value, set: &Value) -> bool {
    let plain = |value: &Value| match value {
        Value::String(text) => text.trim().to_lowercase(),
        other => other.to_string(),
    };
    !matches!(set, Value::Object(_) | Value::Null) && !same(was, set) && plain(was) != plain(set)
}

/// Whether the diff shows a resource, in any workspace.
fn is_present(diff: &StateDiff, resource: &Resource) -> bool {
    let anywhere = format!("{}/{}", resource.kind, resource.name);
    let is_it = |label: &str| {
        let rest = label.strip_prefix(&anywhere);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('@'))
    };
    diff.present().any(is_it)
}

/// Checks that every change has a cause in the log: an operation on the resource itself, or an
/// operation of the agent that may have caused it.
fn explained(evidence: &Evidence, baseline: &Baseline) -> Result<(), EvidenceFault> {
    let audit = &evidence.audit;
    let mut effective = audit.entries.iter().filter(|it| may_have_effect(it));
    if effective.any(|it| it.user == audit.agent_principal || is_about_many(it)) {
        return Ok(());
    }
    let touched: BTreeSet<String> = audit
        .entries
        .iter()
        .filter(|it| may_have_effect(it))
        .map(|it| resource_of(it).to_string())
        .collect();
    let moving: BTreeSet<String> = baseline.moving.iter().map(Resource::to_string).collect();
    let mut changes = evidence.diff.changes();
    match changes.all(|label| touched.contains(label) || moving.contains(label)) {
        true => Ok(()),
        false => Err(of_diff(
            "shows a change that no entry of the audit log explains",
        )),
    }
}
