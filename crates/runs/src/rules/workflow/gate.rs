//! Approval gates: who may decide, and how many approvals are needed (OpenWOP interrupt; RFC 0049,
//! RFC 0051).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Who may decide at a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatePolicy {
    /// The role that approvers need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_role: Option<String>,
    /// The scope that approvers need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_scope: Option<String>,
    /// Number of different principals who must approve.
    #[serde(default = "one")]
    pub quorum: u32,
    /// Whether the principal who asked may not decide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_requester: bool,
    /// Who may decide alone.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub over: Option<Override>,
}

/// Who may decide alone, regardless of the quorum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Override {
    /// The role that an override needs.
    pub required_role: String,
    /// Whether an override is audited; this host audits every override.
    #[serde(default)]
    pub audited: bool,
}

const fn one() -> u32 {
    1
}

impl Default for GatePolicy {
    fn default() -> Self {
        Self {
            required_role: None,
            required_scope: None,
            quorum: 1,
            exclude_requester: false,
            over: None,
        }
    }
}

/// A principal who answers an interrupt, with roles and scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Responder {
    /// The name that is recorded.
    pub principal: String,
    pub roles: BTreeSet<String>,
    pub scopes: BTreeSet<String>,
    /// Whether the principal created the run that asks.
    pub is_requester: bool,
}

impl GatePolicy {
    /// Whether the principal's decision counts. A required role or scope that is missing denies,
    /// and so does having asked, if the gate excludes the requester.
    pub fn admits(&self, responder: &Responder) -> bool {
        let role = self.required_role.as_ref();
        let scope = self.required_scope.as_ref();
        !self.excludes(responder)
            && role.is_none_or(|role| responder.roles.contains(role))
            && scope.is_none_or(|scope| responder.scopes.contains(scope))
    }

    /// Whether the principal may not decide because the principal asked.
    pub const fn excludes(&self, responder: &Responder) -> bool {
        self.exclude_requester && responder.is_requester
    }

    /// Whether the principal may decide alone.
    pub fn admits_override(&self, responder: &Responder) -> bool {
        self.over
            .as_ref()
            .is_some_and(|over| responder.roles.contains(&over.required_role))
    }

    /// Whether a caller with only an interrupt token can decide.
    pub fn is_open(&self) -> bool {
        self.required_role.is_none()
            && self.required_scope.is_none()
            && self.quorum <= 1
            && !self.exclude_requester
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::nothing_needed(None, None, &[], &[], true)]
    #[case::role_held(Some("manager"), None, &["manager"], &[], true)]
    #[case::role_missing(Some("manager"), None, &["clerk"], &["manager"], false)]
    #[case::scope_held(None, Some("deploy:promote"), &[], &["deploy:promote"], true)]
    #[case::scope_missing(None, Some("deploy:promote"), &["deploy:promote"], &[], false)]
    #[case::one_of_two(Some("manager"), Some("deploy:promote"), &["manager"], &[], false)]
    #[case::both(Some("manager"), Some("deploy:promote"), &["manager"], &["deploy:promote"], true)]
    fn a_gate_denies_without_the_required_role_and_scope(
        #[case] role: Option<&str>,
        #[case] scope: Option<&str>,
        #[case] roles: &[&str],
        #[case] scopes: &[&str],
        #[case] admitted: bool,
    ) {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let policy = GatePolicy {
            required_role: role.map(str::to_owned),
            required_scope: scope.map(str::to_owned),
            ..GatePolicy::default()
        };
        let responder = Responder {
            principal: "key".to_owned(),
            roles: own(roles),
            scopes: own(scopes),
            is_requester: false,
        };
        assert_eq!(policy.admits(&responder), admitted);
        assert!(
            !policy.admits_override(&responder),
            "without an override policy, no one may override"
        );
    }

    #[rstest]
    #[case::somebody_else(true, false, true)]
    #[case::the_requester(true, true, false)]
    #[case::the_policy_does_not_say_so(false, true, true)]
    fn a_gate_may_exclude_the_principal_who_asked(
        #[case] exclude_requester: bool,
        #[case] is_requester: bool,
        #[case] admitted: bool,
    ) {
        let policy = GatePolicy {
            exclude_requester,
            ..GatePolicy::default()
        };
        let responder = Responder {
            is_requester,
            ..Responder::default()
        };
        assert_eq!(policy.admits(&responder), admitted);
        assert_eq!(policy.is_open(), !exclude_requester);
    }
}
