//! Who may decide at an approval gate, and when enough have (OpenWOP interrupt; RFC 0049, RFC 0051).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Whose decisions count at a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatePolicy {
    /// A role a decider must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_role: Option<String>,
    /// A scope a decider must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_scope: Option<String>,
    /// How many different principals must agree.
    #[serde(default = "one")]
    pub quorum: u32,
    /// Who may decide alone.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub over: Option<Override>,
}

/// Who may decide alone, against the quorum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Override {
    /// The role it takes.
    pub required_role: String,
    /// Whether it is audited; this host audits every override.
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
            over: None,
        }
    }
}

/// Somebody who answers an interrupt, with what they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Responder {
    /// Who, for the record.
    pub principal: String,
    /// Their roles.
    pub roles: BTreeSet<String>,
    /// Their scopes.
    pub scopes: BTreeSet<String>,
}

impl GatePolicy {
    /// Whether this principal's decision counts. What is required and not held denies.
    pub fn admits(&self, responder: &Responder) -> bool {
        let role = self.required_role.as_ref();
        let scope = self.required_scope.as_ref();
        role.is_none_or(|role| responder.roles.contains(role))
            && scope.is_none_or(|scope| responder.scopes.contains(scope))
    }

    /// Whether this principal may decide alone.
    pub fn admits_override(&self, responder: &Responder) -> bool {
        self.over
            .as_ref()
            .is_some_and(|over| responder.roles.contains(&over.required_role))
    }

    /// Whether somebody who is known by a token alone could ever decide.
    pub fn is_open(&self) -> bool {
        self.required_role.is_none() && self.required_scope.is_none() && self.quorum <= 1
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
    fn what_is_required_and_not_held_denies(
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
        };
        assert_eq!(policy.admits(&responder), admitted);
        assert!(!policy.admits_override(&responder), "nobody, unless said");
    }
}
