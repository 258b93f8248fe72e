//! Which tenant and rights the claims of an OpenID provider give.
//!
//! A claim that is missing, of another type or not mapped gives nothing, and sign-in is refused.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::access::{Grants, Roles, Scope};
use touchstone_kit::hex::hex;
use touchstone_kit::ids::TenantId;

/// The claims of a person, from the ID token and the userinfo endpoint.
pub type Claims = Map<String, Value>;

/// In a mapping: every scope within a tenant, as in `touchstone key create --scope all`.
pub const ALL: &str = "all";
/// Before the name of a person, so that no API key can have the same principal.
pub const PREFIX: &str = "oidc:";
/// Longest name of a person, in bytes.
const MAX_NAME: usize = 200;

/// How claims are mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClaimRules {
    /// The claim that names the person.
    pub principal_claim: String,
    pub tenant: TenantRule,
    /// The claim that lists roles or groups.
    pub groups_claim: String,
    pub grants: Vec<GroupGrant>,
}

/// Where the tenant comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum TenantRule {
    Fixed(TenantId),
    /// From a claim; each listed value stands for a tenant.
    Claim {
        claim: String,
        tenants: Vec<(String, TenantId)>,
    },
}

/// What one value of the groups claim gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupGrant {
    pub value: String,
    /// Wire names.
    pub scopes: Vec<String>,
    pub roles: Vec<String>,
}

/// A person whom the claims describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub tenant: TenantId,
    pub principal: String,
    pub scopes: Vec<String>,
    pub roles: Vec<String>,
}

/// Why claims give no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimFault {
    #[error("the claim `{0}`, which names the person, is missing or not usable")]
    NoName(String),
    #[error("the provider has not verified the email address of the person")]
    UnverifiedEmail,
    #[error("the claim `{0}`, which names the tenant, is missing")]
    NoTenant(String),
    #[error("no value of the claim `{0}` stands for a tenant")]
    UnknownTenant(String),
    #[error("the values of the claim `{0}` stand for several tenants")]
    SeveralTenants(String),
    #[error("the claim `{0}`, which lists groups, is missing")]
    NoGroups(String),
    #[error("no value of the claim `{0}` gives rights")]
    NoRights(String),
}

impl ClaimRules {
    /// The person whom the claims describe.
    ///
    /// # Errors
    /// [`ClaimFault`].
    pub fn apply(&self, claims: &Claims) -> Result<Identity, ClaimFault> {
        let principal = self.principal(claims)?;
        let tenant = self.tenant(claims)?;
        let groups = texts(claims, &self.groups_claim);
        if groups.is_empty() {
            return Err(ClaimFault::NoGroups(self.groups_claim.clone()));
        }
        let (mut scopes, mut roles) = (BTreeSet::new(), BTreeSet::new());
        let held = |grant: &&GroupGrant| groups.contains(&grant.value.as_str());
        for grant in self.grants.iter().filter(held) {
            roles.extend(grant.roles.iter().cloned());
            for scope in &grant.scopes {
                match scope.as_str() {
                    ALL => scopes.extend(Scope::within_tenant().map(|it| it.to_string())),
                    named => {
                        scopes.insert(named.to_owned());
                    }
                }
            }
        }
        if scopes.is_empty() && roles.is_empty() {
            return Err(ClaimFault::NoRights(self.groups_claim.clone()));
        }
        Ok(Identity {
            tenant,
            principal,
            scopes: scopes.into_iter().collect(),
            roles: roles.into_iter().collect(),
        })
    }

    /// Whether a claim that the rules need is missing.
    pub fn lack(&self, claims: &Claims) -> bool {
        let tenant = match &self.tenant {
            TenantRule::Fixed(_) => None,
            TenantRule::Claim { claim, .. } => Some(claim),
        };
        let needed = [&self.principal_claim, &self.groups_claim];
        let mut needed = needed.into_iter().chain(tenant);
        needed.any(|name| texts(claims, name).is_empty())
    }

    /// The digest of these rules for a client of a provider. Sessions of other settings end.
    pub fn digest(&self, issuer: &str, client: &str) -> String {
        let settings = serde_json::json!([issuer, client, self]);
        hex(&Sha256::digest(settings.to_string()))
    }

    /// The principal of a person.
    ///
    /// # Errors
    /// [`ClaimFault::NoName`], [`ClaimFault::UnverifiedEmail`].
    pub fn principal(&self, claims: &Claims) -> Result<String, ClaimFault> {
        let claim = &self.principal_claim;
        let unusable = || ClaimFault::NoName(claim.clone());
        let [name] = texts(claims, claim)[..] else {
            return Err(unusable());
        };
        let is_plain = !name.chars().any(|it| it.is_control() || it.is_whitespace());
        if !is_plain || name.len() > MAX_NAME {
            return Err(unusable());
        }
        // People can enter any address at some providers.
        if claim == "email" && claims.get("email_verified") != Some(&Value::Bool(true)) {
            return Err(ClaimFault::UnverifiedEmail);
        }
        Ok(format!("{PREFIX}{name}"))
    }

    /// The tenant of a person.
    ///
    /// # Errors
    /// A [`ClaimFault`] about the tenant.
    pub fn tenant(&self, claims: &Claims) -> Result<TenantId, ClaimFault> {
        let (claim, tenants) = match &self.tenant {
            TenantRule::Fixed(tenant) => return Ok(tenant.clone()),
            TenantRule::Claim { claim, tenants } => (claim, tenants),
        };
        let values = texts(claims, claim);
        if values.is_empty() {
            return Err(ClaimFault::NoTenant(claim.clone()));
        }
        let known = tenants
            .iter()
            .filter(|(value, _)| values.contains(&value.as_str()));
        let known: BTreeSet<&TenantId> = known.map(|(_, tenant)| tenant).collect();
        let mut known = known.into_iter();
        match (known.next(), known.next()) {
            (Some(tenant), None) => Ok(tenant.clone()),
            (None, _) => Err(ClaimFault::UnknownTenant(claim.clone())),
            (Some(_), Some(_)) => Err(ClaimFault::SeveralTenants(claim.clone())),
        }
    }
}

/// The rights of a session that an OpenID provider began. A scope beyond the tenant counts only by
/// its own name: a role does not give it.
pub fn grants(known: &Roles, scopes: &[String], roles: &[String]) -> Grants {
    let mut grants = known.resolve(scopes, roles);
    let is_named = |scope: Scope| scopes.iter().any(|name| name == scope.as_str());
    grants
        .scopes
        .retain(|scope| !scope.is_operator() || is_named(*scope));
    grants
}

/// The texts of a claim: one, or a list. A name with dots is also a path into objects, such as
/// `realm_access.roles`.
fn texts<'c>(claims: &'c Claims, name: &str) -> Vec<&'c str> {
    let found = claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        let first = claims.get(first)?;
        rest.split('.').try_fold(first, |value, key| value.get(key))
    });
    match found {
        Some(Value::String(text)) if !text.is_empty() => vec![text],
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn grant(value: &str, scopes: &[&str], roles: &[&str]) -> GroupGrant {
        let own = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        GroupGrant {
            value: value.to_owned(),
            scopes: own(scopes),
            roles: own(roles),
        }
    }

    fn rules() -> ClaimRules {
        let tenant = |value: &str, tenant: &str| (value.to_owned(), TenantId::from(tenant));
        ClaimRules {
            principal_claim: "sub".to_owned(),
            tenant: TenantRule::Claim {
                claim: "org".to_owned(),
                tenants: vec![tenant("Acme Inc", "acme"), tenant("Globex", "globex")],
            },
            groups_claim: "groups".to_owned(),
            grants: vec![
                grant("readers", &["runs:read"], &[]),
                grant("releasers", &[], &["release-manager"]),
                grant("admins", &["all"], &[]),
                grant("nothing", &[], &[]),
            ],
        }
    }

    fn claims(value: Value) -> Claims {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn values_that_are_mapped_give_a_tenant_scopes_and_roles() {
        let claims = claims(json!({
            "sub": "dana", "org": "Acme Inc", "groups": ["readers", "releasers", "other"],
        }));
        let found = rules().apply(&claims).unwrap();
        assert_eq!(found.tenant.as_str(), "acme");
        assert_eq!(found.principal, "oidc:dana");
        assert_eq!(found.scopes, ["runs:read"]);
        assert_eq!(found.roles, ["release-manager"]);
        assert!(!rules().lack(&claims));
    }

    #[rstest]
    #[case(json!({"org": "Acme Inc", "groups": "readers"}), "`sub`, which names the person")]
    #[case(json!({"sub": "", "org": "Acme Inc", "groups": "readers"}), "`sub`, which names")]
    #[case(json!({"sub": 7, "org": "Acme Inc", "groups": "readers"}), "`sub`, which names")]
    #[case(json!({"sub": "a\nb", "org": "Acme Inc", "groups": "readers"}), "`sub`, which names")]
    #[case(json!({"sub": ["a", "b"], "org": "Acme Inc", "groups": "readers"}), "`sub`, which")]
    #[case(json!({"sub": "dana", "groups": "readers"}), "names the tenant, is missing")]
    #[case(json!({"sub": "dana", "org": "acme", "groups": "readers"}), "stands for a tenant")]
    #[case(json!({"sub": "dana", "org": ["Acme Inc", "Globex"], "groups": "readers"}), "several")]
    #[case(json!({"sub": "dana", "org": "Acme Inc"}), "lists groups, is missing")]
    #[case(json!({"sub": "dana", "org": "Acme Inc", "groups": {}}), "lists groups, is missing")]
    #[case(json!({"sub": "dana", "org": "Acme Inc", "groups": ["Readers"]}), "gives rights")]
    #[case(json!({"sub": "dana", "org": "Acme Inc", "groups": ["nothing"]}), "gives rights")]
    fn claims_that_are_missing_or_not_mapped_give_nothing(#[case] value: Value, #[case] why: &str) {
        let fault = rules().apply(&claims(value)).unwrap_err();
        assert!(fault.to_string().contains(why), "{fault}");
    }

    #[test]
    fn an_email_address_names_a_person_only_if_it_is_verified() {
        let mut rules = rules();
        rules.principal_claim = "email".to_owned();
        for (verified, named) in [
            (json!(true), true),
            (json!(false), false),
            (json!("true"), false),
        ] {
            let value = json!({"email": "dana@acme.example", "email_verified": verified});
            assert_eq!(rules.principal(&claims(value)).is_ok(), named);
        }
    }

    #[test]
    fn the_name_of_a_claim_may_be_a_path_or_a_url() {
        let claims = claims(json!({
            "realm_access": {"roles": ["admin"]}, "https://acme.example/roles": ["a.b"],
        }));
        assert_eq!(texts(&claims, "realm_access.roles"), ["admin"]);
        assert_eq!(texts(&claims, "https://acme.example/roles"), ["a.b"]);
        assert!(texts(&claims, "realm_access.none").is_empty());
        assert!(texts(&claims, "realm_access").is_empty());
    }

    #[test]
    fn every_setting_of_the_provider_changes_the_digest() {
        let digest = rules().digest("https://a.example", "client");
        assert_eq!(rules().digest("https://a.example", "client"), digest);
        let mut stricter = rules();
        stricter.grants.pop();
        let mut moved = rules();
        moved.tenant = TenantRule::Fixed("acme".into());
        let others = [
            rules().digest("https://b.example", "client"),
            rules().digest("https://a.example", "other"),
            stricter.digest("https://a.example", "client"),
            moved.digest("https://a.example", "client"),
        ];
        assert!(others.iter().all(|other| *other != digest));
    }

    #[test]
    fn neither_all_nor_a_role_gives_a_scope_of_the_operator() {
        let operates = ["metrics:read".to_owned(), "runs:read".to_owned()];
        let known = Roles::new([("operator", operates.as_slice())]).unwrap();
        let person = json!({"sub": "dana", "org": "Globex", "groups": "admins"});
        let all = rules().apply(&claims(person)).unwrap();
        assert!(
            all.scopes
                .iter()
                .all(|it| !Scope::parse(it).unwrap().is_operator())
        );
        assert!(!all.scopes.contains(&"keys:manage".to_owned()));
        let by_role = grants(&known, &[], &["operator".to_owned()]);
        assert_eq!(by_role.scopes, [Scope::RunsRead].into());
        let by_name = grants(&known, &["metrics:read".to_owned()], &[]);
        assert_eq!(by_name.scopes, [Scope::MetricsRead].into());
    }
}
