//! The history of an agent's deployments, read from the audit log.

use std::collections::BTreeMap;

use jiff::Timestamp;

use touchstone_host::audit::{Entry, Outcome};
use touchstone_kit::ids::{AgentId, RunId};

const TRANSITION: &str = "deployment:";
const APPROVAL: &str = "approval:";
const OVERRIDE: &str = "approval:override";
/// The prefix of the reason that a person gave.
const SAID: &str = "said: ";

/// A requested transition, made or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionRecord {
    /// Position in the audit log.
    pub sequence: u64,
    pub at: Timestamp,
    pub principal: String,
    /// The name of the transition, such as `promote`.
    pub transition: String,
    pub version: String,
    pub outcome: Outcome,
    /// The channels and shares that were concerned, in words.
    pub placements: Vec<String>,
    /// The reason that the person gave.
    pub reason: Option<String>,
    /// Why the host did not make it.
    pub refusals: Vec<String>,
    /// The answers to the approvals that it used.
    pub approvals: Vec<ApprovalAnswer>,
    /// The eval run that was the evidence.
    pub eval_run_id: Option<RunId>,
    /// The run that holds the events.
    pub run_id: Option<RunId>,
}

/// An answer of a person to an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAnswer {
    pub principal: String,
    /// `accept`, `reject` or `override`.
    pub answer: String,
    /// The reason of an override.
    pub reason: Option<String>,
}

impl ApprovalAnswer {
    pub fn is_override(&self) -> bool {
        OVERRIDE.strip_prefix(APPROVAL) == Some(self.answer.as_str())
    }
}

/// Whether an entry of the audit log belongs to the history of an agent. Answers to approvals of
/// any agent do, because an entry does not say which agent they concern.
pub fn concerns(agent: &AgentId, entry: &Entry) -> bool {
    entry.action.starts_with(APPROVAL) || version_of(agent, entry).is_some()
}

/// The transitions of an agent, in the order of the entries.
pub fn transitions(agent: &AgentId, entries: &[Entry]) -> Vec<TransitionRecord> {
    let mut answers: BTreeMap<&RunId, Vec<ApprovalAnswer>> = BTreeMap::new();
    for entry in entries {
        if let (Some(answer), Some(gate)) = (entry.action.strip_prefix(APPROVAL), &entry.run_id) {
            answers.entry(gate).or_default().push(ApprovalAnswer {
                principal: entry.principal.clone(),
                answer: answer.to_owned(),
                reason: entry.reasons.first().cloned(),
            });
        }
    }
    let record = |entry: &Entry| {
        let version = version_of(agent, entry)?;
        let transition = entry.action.strip_prefix(TRANSITION)?;
        let gates = texts(entry, "approvalGateIds");
        let gates = gates.iter().map(|gate| RunId::from(gate.as_str()));
        let said = |reason: &&String| reason.starts_with(SAID);
        let reason = entry.reasons.iter().find(said);
        Some(TransitionRecord {
            sequence: entry.sequence,
            at: entry.at,
            principal: entry.principal.clone(),
            transition: transition.to_owned(),
            version: version.to_owned(),
            outcome: entry.outcome,
            placements: placements(entry),
            reason: reason
                .and_then(|it| it.strip_prefix(SAID))
                .map(str::to_owned),
            refusals: entry
                .reasons
                .iter()
                .filter(|it| !said(it))
                .cloned()
                .collect(),
            approvals: gates
                .filter_map(|gate| answers.get(&gate).cloned())
                .flatten()
                .collect(),
            eval_run_id: text(entry, "evalRunId").map(RunId::from),
            run_id: entry.run_id.clone(),
        })
    };
    entries.iter().filter_map(record).collect()
}

fn version_of<'a>(agent: &AgentId, entry: &'a Entry) -> Option<&'a str> {
    let (of, version) = entry.resource.rsplit_once('@')?;
    let is_own = entry.action.starts_with(TRANSITION) && of == agent.as_str();
    is_own.then_some(version)
}

fn text<'a>(entry: &'a Entry, member: &str) -> Option<&'a str> {
    entry.decided_on.as_ref()?.get(member)?.as_str()
}

fn texts(entry: &Entry, member: &str) -> Vec<String> {
    let found = entry.decided_on.as_ref().and_then(|on| on.get(member));
    let found = found.and_then(serde_json::Value::as_array).into_iter();
    let texts = found.flatten().filter_map(serde_json::Value::as_str);
    texts.map(str::to_owned).collect()
}

fn placements(entry: &Entry) -> Vec<String> {
    let found = entry
        .decided_on
        .as_ref()
        .and_then(|on| on.get("placements"));
    let found = found.and_then(serde_json::Value::as_array).into_iter();
    let place = |it: &serde_json::Value| {
        let percent = it.get("canaryPercent")?.as_u64()?;
        let channel = it.get("channel").and_then(serde_json::Value::as_str);
        Some(match channel {
            Some(channel) => format!("{channel}: {percent} %"),
            None => format!("no channel: {percent} %"),
        })
    };
    found.flatten().filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(sequence: u64, change: Value) -> Entry {
        let mut entry = json!({"sequence": sequence, "tenant": "acme", "at": "2026-11-28T08:00:00Z",
            "principal": "ann", "action": "deployment:promote", "resource": "a.b@1.0.0", "outcome": "done",
            "prevHash": null});
        for (name, value) in change.as_object().unwrap() {
            entry[name] = value.clone();
        }
        serde_json::from_value(entry).unwrap()
    }

    #[test]
    fn the_history_names_who_when_why_and_overrides() {
        let agent = AgentId::from("a.b");
        let entries = [
            entry(
                1,
                json!({"action": "approval:override", "principal": "eve", "resource": "run_g/gate",
                "runId": "run_g", "reasons": ["outage"]}),
            ),
            entry(
                2,
                json!({"reasons": ["passed: no", "said: weekly"], "outcome": "refused"}),
            ),
            entry(
                3,
                json!({"decidedOn": {"evalRunId": "run_e", "approvalGateIds": ["run_g"],
                "placements": [{"channel": "stable", "canaryPercent": 10}]}}),
            ),
            entry(4, json!({"resource": "a.bc@1.0.0"})),
            entry(5, json!({"action": "gates:set", "resource": "a.b#stable"})),
        ];
        let concerned: Vec<u64> = entries
            .iter()
            .filter(|it| concerns(&agent, it))
            .map(|it| it.sequence)
            .collect();
        assert_eq!(concerned, [1, 2, 3]);
        let found = transitions(&agent, &entries);
        let [refused, made] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(refused.reason.as_deref(), Some("weekly"));
        assert_eq!(refused.refusals, ["passed: no"]);
        assert_eq!(refused.outcome, Outcome::Refused);
        assert_eq!(
            (made.transition.as_str(), made.version.as_str()),
            ("promote", "1.0.0")
        );
        assert_eq!(made.placements, ["stable: 10 %"]);
        assert_eq!(made.eval_run_id.as_ref().unwrap().as_str(), "run_e");
        assert!(made.approvals[0].is_override());
        assert_eq!(made.approvals[0].reason.as_deref(), Some("outage"));
        assert!(refused.approvals.is_empty());
    }
}
