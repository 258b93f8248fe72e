//! The promotion gate (RFC 0082 §E): a policy that a tenant sets, and the conditions that a version
//! does not meet.
//!
//! Eval runs and approvals are conditions of every host. Features add further conditions: each is a
//! member of a policy whose value only its feature reads.

use std::fmt;

use jiff::Timestamp;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::described::Described;
use touchstone_host::access::Scope;
use touchstone_kit::ids::RunId;
use touchstone_runs::rules::eval::gate;
use touchstone_runs::rules::eval::gate::{Candidate, GatePolicy};
use touchstone_runs::rules::eval::statistics::Evidence;
pub use touchstone_runs::rules::workflow::gate::GatePolicy as ApprovalPolicy;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromotionPolicy {
    /// A passing eval run; `null` to require none.
    pub eval: Option<GatePolicy>,
    /// Human approval (RFC 0051 approvalGate); absent to require none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    /// The conditions of features.
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl Default for PromotionPolicy {
    /// Without a configured policy, a signed eval run of this exact version is required.
    fn default() -> Self {
        Self {
            eval: Some(GatePolicy::default()),
            approval: None,
            conditions: Conditions::default(),
        }
    }
}

/// Every member but `eval` and `approval` is kept as a condition, in the order of the document.
impl<'de> Deserialize<'de> for PromotionPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = PromotionPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a promotion policy")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PromotionPolicy, A::Error> {
                let mut policy = PromotionPolicy::default();
                let mut seen = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if seen.contains(&name) {
                        return Err(A::Error::custom(format!("duplicate field `{name}`")));
                    }
                    match name.as_str() {
                        "eval" => policy.eval = map.next_value()?,
                        "approval" => policy.approval = map.next_value()?,
                        _ => policy.conditions.push(name.clone(), map.next_value()?),
                    }
                    seen.push(name);
                }
                Ok(policy)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Members of a policy by name, with their values as JSON text. Keeps the order of both.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Vec<(String, Box<RawValue>)>);

impl Conditions {
    /// Adds a member, which must not be there yet.
    pub fn push(&mut self, member: String, value: Box<RawValue>) {
        self.0.push((member, value));
    }

    /// The value of a member.
    pub fn get(&self, member: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(name, _)| name == member);
        found.map(|(_, value)| &**value)
    }

    /// The names of the members.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl PartialEq for Conditions {
    fn eq(&self, other: &Self) -> bool {
        let text = |(name, value): &(String, Box<RawValue>)| (name.clone(), value.to_string());
        self.0.iter().map(text).eq(other.0.iter().map(text))
    }
}

impl Serialize for Conditions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// An invalid policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    #[error("`eval.requiredPassScore` must be a number from 0 to 1")]
    PassScore,
    #[error("`eval.minJudgeAgreement` must be a number from 0 to 1")]
    Agreement,
    #[error("`{0}` must not be empty")]
    Empty(&'static str),
    /// Without a role or scope, everyone could approve.
    #[error("`approval` needs `requiredRole` or `requiredScope`")]
    NoApprover,
    /// With an unknown scope, no one could ever approve.
    #[error("`approval.requiredScope` must be a scope of this host, such as `approvals:respond`")]
    Scope,
    /// A quorum of zero needs no approval; one above 100 is unreachable.
    #[error("`approval.quorum` must be at least 1 and at most 100")]
    Quorum,
}

impl PromotionPolicy {
    /// Refuses requirements on eval runs and approvals that are contradictory or can never be met.
    ///
    /// # Errors
    /// [`InvalidPolicy`].
    pub fn check(&self) -> Result<(), InvalidPolicy> {
        if let Some(eval) = &self.eval {
            if eval
                .required_pass_score
                .is_some_and(|score| !(0.0..=1.0).contains(&score))
            {
                return Err(InvalidPolicy::PassScore);
            }
            if eval
                .min_judge_agreement
                .is_some_and(|least| !(0.0..=1.0).contains(&least))
            {
                return Err(InvalidPolicy::Agreement);
            }
            if eval.suite_id.as_deref() == Some("") {
                return Err(InvalidPolicy::Empty("eval.suiteId"));
            }
        }
        if let Some(approval) = &self.approval {
            for (field, name) in [
                ("approval.requiredRole", &approval.required_role),
                ("approval.requiredScope", &approval.required_scope),
            ] {
                if name.as_deref() == Some("") {
                    return Err(InvalidPolicy::Empty(field));
                }
            }
            if approval
                .over
                .as_ref()
                .is_some_and(|over| over.required_role.is_empty())
            {
                return Err(InvalidPolicy::Empty("approval.override.requiredRole"));
            }
            let scope = approval.required_scope.as_deref();
            if scope.is_some_and(|name| Scope::parse(name).is_none()) {
                return Err(InvalidPolicy::Scope);
            }
            if approval.required_role.is_none() && approval.required_scope.is_none() {
                return Err(InvalidPolicy::NoApprover);
            }
            if !(1..=100).contains(&approval.quorum) {
                return Err(InvalidPolicy::Quorum);
            }
        }
        Ok(())
    }

    /// Every condition on eval runs that `evidence` does not meet. Approvals and the conditions of
    /// features are checked elsewhere.
    ///
    /// Offered evidence must meet the protocol's minimum even if the policy requires none, so that
    /// no failed run is recorded as the reason of a promotion.
    pub fn unmet(
        &self,
        candidate: Candidate<'_>,
        offered: bool,
        evidence: Option<&Evidence>,
        now: Timestamp,
    ) -> Vec<Requirement> {
        let unmet = match &self.eval {
            Some(eval) => gate::unmet(eval, candidate, evidence, now),
            None if offered => gate::unmet(&GatePolicy::FLOOR, candidate, evidence, now),
            None => Vec::new(),
        };
        let named = |it: gate::Unmet| Requirement::new(EVAL, it.condition.as_str(), it.message);
        unmet.into_iter().map(named).collect()
    }

    /// The conditions on eval runs that [`unmet`](Self::unmet) checks, in words.
    pub fn described(&self, offered: bool) -> Vec<Described> {
        let described = match &self.eval {
            Some(eval) => gate::described(eval),
            None if offered => gate::described(&GatePolicy::FLOOR),
            None => Vec::new(),
        };
        let named = |it: gate::Described| Described {
            condition: it.condition.as_str(),
            requirement: it.requirement,
            needs: it.needs.map(gate::Condition::as_str),
        };
        described.into_iter().map(named).collect()
    }
}

/// Kinds of the requirements that every host has.
pub const EVAL: &str = "eval";
pub const APPROVAL: &str = "approval";

/// An unmet requirement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The required thing, such as `eval`.
    pub kind: String,
    /// The condition's stable name.
    pub condition: String,
    pub message: String,
    /// The run that asks for an approval, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_gate_id: Option<RunId>,
}

impl Requirement {
    pub fn new(kind: &str, condition: &str, message: String) -> Self {
        Self {
            kind: kind.to_owned(),
            condition: condition.to_owned(),
            message,
            approval_gate_id: None,
        }
    }

    /// A missing approval, with the run that asks for it.
    pub fn approval(condition: ApprovalState, terms: &ApprovalPolicy, gate: Option<RunId>) -> Self {
        let who = approvers(terms);
        let run = gate.as_ref().map_or("", RunId::as_str);
        let message = match condition {
            ApprovalState::ApprovalNeeded => format!("needs the approval of {who}"),
            ApprovalState::ApprovalPending => {
                format!("is waiting for the approval of {who} in {run}")
            }
            ApprovalState::ApprovalRefused => format!("was not approved in {run}"),
        };
        Self {
            approval_gate_id: gate,
            ..Self::new(APPROVAL, condition.as_str(), message)
        }
    }

    /// Whether an approval is missing.
    pub fn is_approval(&self) -> bool {
        self.kind == APPROVAL
    }

    /// Whether an approval was requested and is pending.
    pub fn is_pending_approval(&self) -> bool {
        self.is_approval() && self.condition == ApprovalState::ApprovalPending.as_str()
    }

    /// Name and message, for the audit log.
    pub fn reason(&self) -> String {
        format!("{}: {}", self.condition, self.message)
    }
}

/// How many principals must approve, and which.
pub fn approvers(terms: &ApprovalPolicy) -> String {
    let role = terms.required_role.iter();
    let scope = terms.required_scope.iter();
    let role = role.map(|role| format!("role `{role}`"));
    let who: Vec<String> = role
        .chain(scope.map(|scope| format!("scope `{scope}`")))
        .collect();
    let others = match terms.exclude_requester {
        true => ", other than the requester",
        false => "",
    };
    format!("{} with {}{others}", terms.quorum, who.join(" and "))
}

/// The state of a missing approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalState {
    /// Not requested yet; a promotion request starts the approval.
    ApprovalNeeded,
    /// Requested and pending.
    ApprovalPending,
    /// Refused; a further promotion request asks again.
    ApprovalRefused,
}

impl ApprovalState {
    /// The name in messages and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApprovalNeeded => "approval-needed",
            Self::ApprovalPending => "approval-pending",
            Self::ApprovalRefused => "approval-refused",
        }
    }
}

/// The scope of a policy. The narrowest applicable policy wins, in this order: agent and channel,
/// agent, channel, default.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyScope {
    /// Limits the policy to this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Limits the policy to this channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScopedPolicy {
    #[serde(flatten)]
    pub scope: PolicyScope,
    pub policy: PromotionPolicy,
}

/// The effective policy for an agent on a channel (or on none), with the scope it was set for; the
/// default policy if none is set.
pub fn in_force<'a>(
    policies: &'a [ScopedPolicy],
    agent: &str,
    channel: Option<&str>,
) -> Option<&'a ScopedPolicy> {
    policies
        .iter()
        .filter(|set| {
            let scope = &set.scope;
            scope.agent_id.as_deref().is_none_or(|own| own == agent)
                && scope
                    .channel
                    .as_deref()
                    .is_none_or(|own| channel == Some(own))
        })
        .max_by_key(|set| (set.scope.agent_id.is_some(), set.scope.channel.is_some()))
}

/// The policies that are in force for an agent on their channel and require a run of this suite.
pub fn naming_suite<'a>(
    policies: &'a [ScopedPolicy],
    agent: &str,
    suite: &str,
) -> impl Iterator<Item = &'a ScopedPolicy> {
    policies.iter().filter(move |set| {
        let eval = set.policy.eval.as_ref();
        let names_suite = eval.is_some_and(|it| it.suite_id.as_deref() == Some(suite));
        names_suite && in_force(policies, agent, set.scope.channel.as_deref()) == Some(*set)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const CANDIDATE: Candidate<'_> = Candidate {
        agent_id: "vendor.acme.triage.default",
        version: "1.2.0",
        pack_integrity: "sha256-y",
    };

    #[test]
    fn a_policy_that_another_one_replaces_names_no_suite() {
        let set = |agent: Option<&str>, channel: Option<&str>, suite: Option<&str>| ScopedPolicy {
            scope: PolicyScope {
                agent_id: agent.map(str::to_owned),
                channel: channel.map(str::to_owned),
            },
            policy: PromotionPolicy {
                eval: Some(GatePolicy {
                    suite_id: suite.map(str::to_owned),
                    ..GatePolicy::default()
                }),
                ..PromotionPolicy::default()
            },
        };
        let policies = [
            set(None, None, Some("smoke")),
            set(None, Some("stable"), Some("smoke")),
            set(Some("a"), Some("stable"), None),
            set(Some("b"), Some("canary"), Some("smoke")),
        ];
        let named = |agent: &str, suite: &str| {
            let found = naming_suite(&policies, agent, suite);
            found.map(|it| it.scope.channel.clone()).collect::<Vec<_>>()
        };
        assert_eq!(named("a", "smoke"), [None]);
        let other = [None, Some("stable".to_owned())];
        assert_eq!(named("c", "smoke"), other);
        assert_eq!(named("b", "smoke").len(), 3);
        assert_eq!(named("a", "other"), []);
    }

    fn names(policy: &PromotionPolicy, offered: bool) -> Vec<String> {
        policy
            .unmet(CANDIDATE, offered, None, Timestamp::UNIX_EPOCH)
            .iter()
            .map(|unmet| unmet.reason().split(':').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_default_policy_requires_an_eval_run() {
        assert_eq!(names(&PromotionPolicy::default(), false), ["eval-run"]);
        assert_eq!(
            names(&serde_json::from_value(json!({})).unwrap(), false),
            ["eval-run"]
        );
    }

    #[test]
    fn a_policy_without_eval_conditions_still_rejects_invalid_evidence() {
        let policy: PromotionPolicy = serde_json::from_value(json!({"eval": null})).unwrap();
        assert_eq!(names(&policy, false), [] as [&str; 0]);
        assert_eq!(names(&policy, true), ["eval-run"]);
    }

    #[rstest]
    #[case(json!({"eval": {"requiredPassScore": 1.1}}), Err(InvalidPolicy::PassScore))]
    #[case(json!({"eval": {"requiredPassScore": -0.1}}), Err(InvalidPolicy::PassScore))]
    #[case(json!({"eval": {"suiteId": ""}}), Err(InvalidPolicy::Empty("eval.suiteId")))]
    #[case(json!({"approval": {}}), Err(InvalidPolicy::NoApprover))]
    #[case(json!({"approval": {"requiredRole": ""}}), Err(InvalidPolicy::Empty("approval.requiredRole")))]
    #[case(json!({"approval": {"requiredScope": "approvals:respond", "quorum": 0}}), Err(InvalidPolicy::Quorum))]
    #[case(json!({"approval": {"requiredScope": "approvals:respond", "quorum": 101}}), Err(InvalidPolicy::Quorum))]
    #[case(json!({"approval": {"requiredScope": "approve"}}), Err(InvalidPolicy::Scope))]
    #[case(json!({"approval": {"requiredRole": "x", "override": {"requiredRole": ""}}}),
        Err(InvalidPolicy::Empty("approval.override.requiredRole")))]
    #[case(json!({"approval": {"requiredScope": "approvals:respond", "quorum": 2}}), Ok(()))]
    #[case(json!({"eval": {"requiredPassScore": 1.0, "maxAgeSeconds": 60}}), Ok(()))]
    #[case(json!({}), Ok(()))]
    fn policies_with_values_out_of_range_are_rejected(
        #[case] policy: Value,
        #[case] expected: Result<(), InvalidPolicy>,
    ) {
        let policy: PromotionPolicy = serde_json::from_value(policy).unwrap();
        assert_eq!(policy.check(), expected);
    }

    #[rstest]
    #[case(json!([null, null]))]
    #[case(json!({"eval": {"signed": true}}))]
    #[case(json!({"approval": {"role": "x"}}))]
    fn a_policy_with_unknown_members_is_rejected(#[case] policy: Value) {
        assert!(serde_json::from_value::<PromotionPolicy>(policy).is_err());
    }

    #[test]
    fn other_members_are_conditions_and_keep_their_order() {
        let text = r#"{"eval":null,"weather":{"wind":1,"rain":[2.5]},"moon":null}"#;
        let policy: PromotionPolicy = serde_json::from_str(text).unwrap();
        assert_eq!(
            policy.conditions.members().collect::<Vec<_>>(),
            ["weather", "moon"]
        );
        assert_eq!(
            policy.conditions.get("weather").unwrap().get(),
            r#"{"wind":1,"rain":[2.5]}"#
        );
        assert_eq!(serde_json::to_string(&policy).unwrap(), text);
        assert_eq!(
            serde_json::to_value(&policy).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
        let twice = r#"{"moon":1,"moon":1}"#;
        assert!(serde_json::from_str::<PromotionPolicy>(twice).is_err());
    }

    #[test]
    fn requirements_name_their_kind_first() {
        let terms: ApprovalPolicy =
            serde_json::from_value(json!({"requiredRole": "owner"})).unwrap();
        let pending = ApprovalState::ApprovalPending;
        let unmet = Requirement::approval(pending, &terms, Some("run_1".into()));
        assert!(unmet.is_pending_approval());
        assert_eq!(
            serde_json::to_string(&unmet).unwrap(),
            r#"{"kind":"approval","condition":"approval-pending","message":"is waiting for the approval of 1 with role `owner` in run_1","approvalGateId":"run_1"}"#
        );
        let unmet = Requirement::new("moon", "moon-full", "it is not full".to_owned());
        assert!(!unmet.is_approval());
        assert_eq!(
            serde_json::to_string(&unmet).unwrap(),
            r#"{"kind":"moon","condition":"moon-full","message":"it is not full"}"#
        );
    }

    fn set(agent: Option<&str>, channel: Option<&str>) -> ScopedPolicy {
        ScopedPolicy {
            scope: PolicyScope {
                agent_id: agent.map(str::to_owned),
                channel: channel.map(str::to_owned),
            },
            policy: PromotionPolicy::default(),
        }
    }

    #[rstest]
    #[case("a", Some("stable"), Some((true, true)))]
    #[case("a", Some("canary"), Some((true, false)))]
    #[case("a", None, Some((true, false)))]
    #[case("b", Some("stable"), Some((false, true)))]
    #[case("b", Some("canary"), Some((false, false)))]
    #[case("b", None, Some((false, false)))]
    fn the_narrowest_policy_counts(
        #[case] agent: &str,
        #[case] channel: Option<&str>,
        #[case] expected: Option<(bool, bool)>,
    ) {
        let policies = [
            set(None, None),
            set(None, Some("stable")),
            set(Some("a"), None),
            set(Some("a"), Some("stable")),
            set(Some("other"), Some("stable")),
        ];
        for policies in [policies.to_vec(), policies.iter().rev().cloned().collect()] {
            let found = in_force(&policies, agent, channel);
            assert_eq!(
                found.map(|set| (set.scope.agent_id.is_some(), set.scope.channel.is_some())),
                expected
            );
        }
        assert_eq!(in_force(&policies[3..], "b", Some("stable")), None);
    }
}
