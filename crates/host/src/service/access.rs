//! Authenticated callers and authorization.
//!
//! The tenant comes only from the credential (OpenWOP auth, RFC 0048). Routes check a scope with
//! [`authorise`]; use cases that decide by role, or that record their decision (RFC 0049:
//! deployments, approval gates), call [`decide`] and keep the [`Decision`].

use crate::access::{Demand, Grants};
use crate::service::keys::LOCAL;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{KeyId, TenantId};

pub use crate::access::Scope;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The tenant whose data the caller sees.
    pub tenant: TenantId,
    /// The acting principal, for records: opaque, the key's id unless the key names a principal.
    pub principal: String,
    pub key_id: KeyId,
    pub grants: Grants,
    /// Whether the key is a test key; only test keys may use mock providers and test seams.
    pub test: bool,
}

impl Caller {
    pub fn has(&self, scope: Scope) -> bool {
        self.grants.has(scope)
    }

    /// Whether the caller sees what reaches beyond its tenant. On a host without keys, the person
    /// at the machine operates it.
    pub fn is_operator(&self) -> bool {
        self.has(Scope::MetricsRead) || self.key_id.as_str() == LOCAL
    }
}

/// An authorization decision, for `authorization.decided` and the audit log. Holds no credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub principal: String,
    /// The requested action, such as `deploy:promote`.
    pub action: String,
    /// The id of the target.
    pub resource: String,
    pub allowed: bool,
    /// Why the action was denied.
    pub reason: Option<String>,
    demand: Demand,
}

/// Whether `caller` meets `demand`. Denies by default: an unknown role, a missing scope and an
/// empty demand all deny.
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
    /// Succeeds if the decision allows the action.
    ///
    /// # Errors
    /// `forbidden` with `details.scopeRequired` or `details.roleRequired`.
    pub fn enforce(&self) -> Result<(), Problem> {
        if self.allowed {
            return Ok(());
        }
        let reason = self.reason.as_deref().unwrap_or("not allowed");
        let mut problem = Problem::new(
            ErrorCode::Forbidden,
            format!(
                "this key does not permit the operation: {reason}; use a key with the required \
                 scope or role"
            ),
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

/// Checks that `caller` has `scope`.
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
    use crate::access::Roles;

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
    fn operators_have_the_scope_or_sit_at_the_machine() {
        assert!(caller(&[Scope::MetricsRead], &[]).is_operator());
        let within: Vec<Scope> = Scope::within_tenant().collect();
        let mut person = caller(&within, &[]);
        assert!(!person.is_operator());
        person.key_id = LOCAL.into();
        assert!(person.is_operator());
    }

    #[test]
    fn a_route_requires_its_scope_or_one_that_includes_it() {
        for held in Scope::ALL {
            for asked in Scope::ALL {
                let passed = authorise(&caller(&[*held], &[]), *asked);
                let includes = (*held, *asked) == (Scope::RunsCreate, Scope::RunsAnnotate);
                assert_eq!(passed.is_ok(), held == asked || includes);
            }
        }
    }

    #[test]
    fn a_decision_records_principal_action_and_reason_for_denial() {
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
