//! The promotion gate (RFC 0082 §E): a policy that a tenant sets, and the pure function that names
//! every unmet condition.
//!
//! A policy is a list of optional requirements of different kinds. New kinds are added as members
//! of [`PromotionPolicy`] and variants of [`Requirement`].

pub mod agent_card;
pub mod oasis;
pub mod rating;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::access::Scope;
use super::eval::gate::{self, Candidate, GatePolicy};
use super::eval::statistics::Evidence;
use super::ids::RunId;
pub use super::workflow::gate::GatePolicy as ApprovalPolicy;
use agent_card::{CardPolicy, Unscored};
use oasis::{OasisPolicy, Unevaluated};
use rating::{RatingPolicy, Unrated};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PromotionPolicy {
    /// A passing eval run; `null` to require none.
    pub eval: Option<GatePolicy>,
    /// Human approval (RFC 0051 approvalGate); absent to require none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
    /// A rating of this exact version; absent to require none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rating: Option<RatingPolicy>,
    /// The card scores of an agent that runs elsewhere; absent to require none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_card: Option<CardPolicy>,
    /// A safety PASS of an OASIS profile for this exact version; absent to require none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oasis: Option<OasisPolicy>,
}

impl Default for PromotionPolicy {
    /// Without a configured policy, a signed eval run of this exact version is required.
    fn default() -> Self {
        Self {
            eval: Some(GatePolicy::default()),
            approval: None,
            rating: None,
            agent_card: None,
            oasis: None,
        }
    }
}

/// An invalid policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Senseless {
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
    #[error(
        "`agentCard.url` must be an http or https URL of at most 2048 bytes, without credentials"
    )]
    CardUrl,
    #[error("`oasis.minimumTier` must be 1, 2 or 3")]
    OasisTier,
    #[error("`oasis.maxTolerance` must be a number from 0 to 100")]
    OasisTolerance,
    /// Evidence sources that cannot be met, or a minimum share without sources.
    #[error(
        "`rating.evidenceSources` must name at least one source; `rating.minimumEvidencePercent` \
        must be 1 to 100 and requires `rating.evidenceSources`"
    )]
    EvidenceSources,
    /// A performance tier for capability, or the reverse.
    #[error(
        "`{0}` must be a tier of its axis: Novice, Competent, Proficient, Expert or Elite for performance; Narrow, Functional, Versatile, Specialist or Full-Stack for capability"
    )]
    Tier(&'static str),
}

impl PromotionPolicy {
    /// Refuses a policy that is contradictory or can never be met.
    ///
    /// # Errors
    /// [`Senseless`].
    pub fn check(&self) -> Result<(), Senseless> {
        if let Some(eval) = &self.eval {
            if eval
                .required_pass_score
                .is_some_and(|score| !(0.0..=1.0).contains(&score))
            {
                return Err(Senseless::PassScore);
            }
            if eval
                .min_judge_agreement
                .is_some_and(|least| !(0.0..=1.0).contains(&least))
            {
                return Err(Senseless::Agreement);
            }
            if eval.suite_id.as_deref() == Some("") {
                return Err(Senseless::Empty("eval.suiteId"));
            }
        }
        if let Some(field) = self.rating.as_ref().and_then(RatingPolicy::misplaced) {
            return Err(Senseless::Tier(field));
        }
        let rating = self.rating.as_ref();
        if rating.is_some_and(|it| !it.names_sources_soundly()) {
            return Err(Senseless::EvidenceSources);
        }
        if self
            .agent_card
            .as_ref()
            .is_some_and(|it| it.place().is_none())
        {
            return Err(Senseless::CardUrl);
        }
        if let Some(oasis) = &self.oasis {
            if let Some(member) = oasis.empty() {
                return Err(Senseless::Empty(member));
            }
            if !oasis.names_a_tier() {
                return Err(Senseless::OasisTier);
            }
            if !oasis.names_a_tolerance() {
                return Err(Senseless::OasisTolerance);
            }
        }
        if let Some(approval) = &self.approval {
            for (field, name) in [
                ("approval.requiredRole", &approval.required_role),
                ("approval.requiredScope", &approval.required_scope),
            ] {
                if name.as_deref() == Some("") {
                    return Err(Senseless::Empty(field));
                }
            }
            if approval
                .over
                .as_ref()
                .is_some_and(|over| over.required_role.is_empty())
            {
                return Err(Senseless::Empty("approval.override.requiredRole"));
            }
            let scope = approval.required_scope.as_deref();
            if scope.is_some_and(|name| Scope::parse(name).is_none()) {
                return Err(Senseless::Scope);
            }
            if approval.required_role.is_none() && approval.required_scope.is_none() {
                return Err(Senseless::NoApprover);
            }
            if !(1..=100).contains(&approval.quorum) {
                return Err(Senseless::Quorum);
            }
        }
        Ok(())
    }

    /// Every condition that `evidence` does not meet. Ratings are judged by [`rating::unmet`],
    /// cards by [`agent_card::unmet`], OASIS evaluations by [`oasis::unmet`]; approval is checked
    /// elsewhere.
    ///
    /// Offered evidence must meet the protocol's minimum even if the policy requires none, so that
    /// no failed run is recorded as the reason of a promotion.
    pub fn unmet(
        &self,
        candidate: Candidate<'_>,
        offered: bool,
        evidence: Option<Evidence<'_>>,
        now: Timestamp,
    ) -> Vec<Requirement> {
        let unmet = match &self.eval {
            Some(eval) => gate::unmet(eval, candidate, evidence, now),
            None if offered => gate::unmet(&GatePolicy::FLOOR, candidate, evidence, now),
            None => Vec::new(),
        };
        unmet.into_iter().map(Requirement::Eval).collect()
    }
}

/// An unmet requirement, by kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Requirement {
    Eval(gate::Unmet),
    Approval(Unapproved),
    Rating(Unrated),
    AgentCard(Unscored),
    Oasis(Unevaluated),
}

/// A missing approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unapproved {
    pub condition: Consent,
    pub message: String,
    /// The run that asks for the approval, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_gate_id: Option<RunId>,
}

/// The state of a missing approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consent {
    /// Not requested yet; a promotion request starts the approval.
    ApprovalNeeded,
    /// Requested and pending.
    ApprovalPending,
    /// Refused; a further promotion request asks again.
    ApprovalRefused,
}

impl Consent {
    /// The name in messages and records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApprovalNeeded => "approval-needed",
            Self::ApprovalPending => "approval-pending",
            Self::ApprovalRefused => "approval-refused",
        }
    }
}

impl Unapproved {
    pub fn new(condition: Consent, terms: &ApprovalPolicy, gate: Option<RunId>) -> Self {
        let role = terms
            .required_role
            .iter()
            .map(|role| format!("role `{role}`"));
        let scope = terms
            .required_scope
            .iter()
            .map(|scope| format!("scope `{scope}`"));
        let who: Vec<String> = role.chain(scope).collect();
        let who = format!("{} with {}", terms.quorum, who.join(" and "));
        let run = gate.as_ref().map_or("", RunId::as_str);
        let message = match condition {
            Consent::ApprovalNeeded => format!("needs the approval of {who}"),
            Consent::ApprovalPending => format!("is waiting for the approval of {who} in {run}"),
            Consent::ApprovalRefused => format!("was not approved in {run}"),
        };
        Self {
            condition,
            message,
            approval_gate_id: gate,
        }
    }
}

impl Requirement {
    pub fn message(&self) -> &str {
        match self {
            Self::Eval(unmet) => &unmet.message,
            Self::Approval(unmet) => &unmet.message,
            Self::Rating(unmet) => &unmet.message,
            Self::AgentCard(unmet) => &unmet.message,
            Self::Oasis(unmet) => &unmet.message,
        }
    }

    /// Name and message, for the audit log.
    pub fn reason(&self) -> String {
        match self {
            Self::Eval(unmet) => format!("{}: {}", unmet.condition, unmet.message),
            Self::Approval(unmet) => format!("{}: {}", unmet.condition.as_str(), unmet.message),
            Self::Rating(unmet) => format!("{}: {}", unmet.condition.as_str(), unmet.message),
            Self::AgentCard(unmet) => format!("{}: {}", unmet.condition.as_str(), unmet.message),
            Self::Oasis(unmet) => format!("{}: {}", unmet.condition.as_str(), unmet.message),
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

    fn names(policy: &PromotionPolicy, offered: bool) -> Vec<String> {
        policy
            .unmet(CANDIDATE, offered, None, Timestamp::UNIX_EPOCH)
            .iter()
            .map(|unmet| unmet.reason().split(':').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn nothing_set_asks_for_evidence() {
        assert_eq!(names(&PromotionPolicy::default(), false), ["eval-run"]);
        assert_eq!(
            names(&serde_json::from_value(json!({})).unwrap(), false),
            ["eval-run"]
        );
    }

    #[test]
    fn a_policy_without_evals_still_refuses_evidence_that_is_none() {
        let policy: PromotionPolicy = serde_json::from_value(json!({"eval": null})).unwrap();
        assert_eq!(names(&policy, false), [] as [&str; 0]);
        assert_eq!(names(&policy, true), ["eval-run"]);
    }

    #[rstest]
    #[case(json!({"eval": {"requiredPassScore": 1.1}}), Err(Senseless::PassScore))]
    #[case(json!({"eval": {"requiredPassScore": -0.1}}), Err(Senseless::PassScore))]
    #[case(json!({"eval": {"suiteId": ""}}), Err(Senseless::Empty("eval.suiteId")))]
    #[case(json!({"approval": {}}), Err(Senseless::NoApprover))]
    #[case(json!({"approval": {"requiredRole": ""}}), Err(Senseless::Empty("approval.requiredRole")))]
    #[case(json!({"approval": {"requiredScope": "approvals:respond", "quorum": 0}}), Err(Senseless::Quorum))]
    #[case(json!({"approval": {"requiredScope": "approvals:respond", "quorum": 101}}), Err(Senseless::Quorum))]
    #[case(json!({"approval": {"requiredScope": "approve"}}), Err(Senseless::Scope))]
    #[case(json!({"approval": {"requiredRole": "x", "override": {"requiredRole": ""}}}),
        Err(Senseless::Empty("approval.override.requiredRole")))]
    #[case(json!({"approval": {"requiredScope": "approvals:respond", "quorum": 2}}), Ok(()))]
    #[case(json!({"rating": {"minimumPerformanceTier": "Narrow"}}), Err(Senseless::Tier("rating.minimumPerformanceTier")))]
    #[case(json!({"rating": {"minimumPerformanceTier": "Expert", "maxAgeDays": 90}}), Ok(()))]
    #[case(json!({"eval": {"requiredPassScore": 1.0, "maxAgeSeconds": 60}}), Ok(()))]
    #[case(json!({"oasis": {"profile": "", "minimumTier": 1}}), Err(Senseless::Empty("oasis.profile")))]
    #[case(json!({"oasis": {"profile": "p", "minimumTier": 1, "provider": ""}}), Err(Senseless::Empty("oasis.provider")))]
    #[case(json!({"oasis": {"profile": "p", "minimumTier": 0}}), Err(Senseless::OasisTier))]
    #[case(json!({"oasis": {"profile": "p", "minimumTier": 4}}), Err(Senseless::OasisTier))]
    #[case(json!({"oasis": {"profile": "p", "minimumTier": 3, "maxTolerance": 100.5}}), Err(Senseless::OasisTolerance))]
    #[case(json!({"oasis": {"profile": "p", "minimumTier": 3, "maxTolerance": 0}}), Ok(()))]
    #[case(json!({}), Ok(()))]
    fn a_senseless_policy_is_refused(
        #[case] policy: Value,
        #[case] expected: Result<(), Senseless>,
    ) {
        let policy: PromotionPolicy = serde_json::from_value(policy).unwrap();
        assert_eq!(policy.check(), expected);
    }

    #[rstest]
    #[case(json!({"evals": null}))]
    #[case(json!({"eval": {"signed": true}}))]
    #[case(json!({"approval": {"role": "x"}}))]
    #[case(json!({"rating": {"minimumPerformanceTier": "expert"}}))]
    #[case(json!({"rating": {"tier": "Expert"}}))]
    fn a_misspelt_policy_is_none(#[case] policy: Value) {
        assert!(serde_json::from_value::<PromotionPolicy>(policy).is_err());
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
