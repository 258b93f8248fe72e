//! Who calls, and whether they may.
//!
//! The tenant comes from the credential and from nothing else (OpenWOP auth, RFC 0048). Routes ask for a scope with
//! [`authorise`]; whatever decides by role, or has to put its decision on record (RFC 0049: deployments, approval gates),
//! asks [`decide`] and keeps the [`Decision`].

use crate::domain::access::{Demand, Grants};
use crate::domain::ids::{KeyId, TenantId};
use crate::protocol::error::{ErrorCode, Problem};

pub use crate::domain::access::Scope;

/// An authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Whose data it sees.
    pub tenant: TenantId,
    /// Who acts, for the record: opaque, the key's id unless the key names somebody.
    pub principal: String,
    /// The key.
    pub key_id: KeyId,
    /// What it may do.
    pub grants: Grants,
    /// Whether the key is one for tests, which alone may use mock providers and conformance seams.
    pub test: bool,
}

impl Caller {
    /// Whether it has a scope.
    pub fn has(&self, scope: Scope) -> bool {
        self.grants.scopes.contains(&scope)
    }
}

/// A decision, for `authorization.decided` and the audit log. Holds no credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Who.
    pub principal: String,
    /// Wants to do what, such as `deploy:promote`.
    pub action: String,
    /// To what: an id.
    pub resource: String,
    /// Whether they may.
    pub allowed: bool,
    /// Why not.
    pub reason: Option<String>,
    demand: Demand,
}

/// Whether `caller` meets `demand`. Only what is positively allowed is: an unknown role, an unheld scope and an empty demand
/// all deny.
pub fn decide(caller: &Caller, demand: &Demand, action: &str, resource: &str) -> Decision {
    let reason = demand.unmet(&caller.grants);
    Decision {
        principal: caller.principal.clone(),
        action: action.to_owned(),
        resource: resource.to_owned(),
        allowed: reason.is_none(),
        reason,
        demand: demand.clone(),
    }
}

impl Decision {
    /// Nothing if it allows.
    ///
    /// # Errors
    /// `forbidden` with `details.scopeRequired` or `details.roleRequired`.
    pub fn enforce(&self) -> Result<(), Problem> {
        if self.allowed {
            return Ok(());
        }
        let reason = self.reason.as_deref().unwrap_or("it is not allowed");
        let mut problem = Problem::new(
            ErrorCode::Forbidden,
            format!("this key may not do that: {reason}; ask for a key that may"),
        );
        if let Some(scope) = self.demand.scope {
            problem = problem.with("scopeRequired", scope.as_str());
        }
        if let Some(role) = &self.demand.role {
            problem = problem.with("roleRequired", role.as_str());
        }
        Err(problem)
    }
}

/// Lets `caller` pass if it has `scope`.
///
/// # Errors
/// `forbidden` with `details.scopeRequired`.
pub fn authorise(caller: &Caller, scope: Scope) -> Result<(), Problem> {
    if caller.has(scope) {
        return Ok(());
    }
    Err(Problem::new(
        ErrorCode::Forbidden,
        format!("this key lacks the scope `{scope}`; ask for a key that has it"),
    )
    .with("scopeRequired", scope.as_str()))
}

#[cfg(test)]
mod tests {
    use crate::domain::access::Roles;

    use super::*;

    fn caller(scopes: &[Scope], roles: &[&str]) -> Caller {
        let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
        let known = ["deploy:promote".to_owned()];
        let catalogue = Roles::new([("release-manager", known.as_slice())]).unwrap();
        Caller {
            tenant: "t".into(),
            principal: "dana".to_owned(),
            key_id: "k".into(),
            grants: catalogue.resolve(&scopes, &roles),
            test: false,
        }
    }

    #[test]
    fn a_route_lets_pass_by_scope_alone() {
        for held in Scope::ALL {
            for asked in Scope::ALL {
                let passed = authorise(&caller(&[*held], &[]), *asked);
                assert_eq!(passed.is_ok(), held == asked);
            }
        }
    }

    #[test]
    fn a_decision_says_who_what_and_why_not() {
        let demand = Demand {
            scope: Some(Scope::DeployPromote),
            role: Some("release-manager".to_owned()),
        };
        let allowed = decide(
            &caller(&[], &["release-manager"]),
            &demand,
            "deploy:promote",
            "a@1.0.0",
        );
        assert!(allowed.allowed && allowed.reason.is_none() && allowed.enforce().is_ok());
        let denied = decide(
            &caller(&[Scope::DeployPromote], &["owner"]),
            &demand,
            "deploy:promote",
            "a@1.0.0",
        );
        assert_eq!(
            (denied.principal.as_str(), denied.resource.as_str()),
            ("dana", "a@1.0.0")
        );
        assert!(
            denied
                .reason
                .as_deref()
                .unwrap()
                .contains("release-manager")
        );
        let refusal = denied.enforce().unwrap_err();
        assert_eq!(refusal.code, ErrorCode::Forbidden);
        assert_eq!(refusal.details["roleRequired"], "release-manager");
    }
}
