//! Settings of sign-in with OpenID Connect.

use openidconnect::IssuerUrl;
use serde::Deserialize;
use url::{Host, Url};

use touchstone_host::access::{Roles, Scope};
use touchstone_host::rules::claims::{ALL, ClaimRules, GroupGrant, TenantRule};

/// Longest text on the button of the sign-in page, in characters.
const MAX_BUTTON: usize = 60;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// The provider, exactly as it names itself.
    pub issuer: String,
    pub client_id: String,
    /// The environment variable that holds the client secret; without it, the client is public.
    #[serde(default)]
    pub client_secret_env: Option<String>,
    /// Requested besides `openid`.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<String>,
    /// The text on the button of the sign-in page.
    #[serde(default = "default_button")]
    pub button: String,
    /// The claim that names the person.
    #[serde(default = "default_principal_claim")]
    pub principal_claim: String,
    /// The tenant of everybody.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The claim that names the tenant, instead of `tenant`.
    #[serde(default)]
    pub tenant_claim: Option<String>,
    /// The tenants that values of `tenant_claim` stand for.
    #[serde(default)]
    pub tenants: Vec<OidcTenant>,
    /// The claim that lists roles or groups.
    #[serde(default = "default_groups_claim")]
    pub groups_claim: String,
    /// What values of `groups_claim` give.
    #[serde(default)]
    pub grants: Vec<OidcGroup>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcTenant {
    /// A value of `tenant_claim`.
    pub value: String,
    pub tenant: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcGroup {
    /// A value of `groups_claim`.
    pub value: String,
    /// Scopes of this host, or `all` for those within the tenant.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Roles of this host.
    #[serde(default)]
    pub roles: Vec<String>,
}

fn default_scopes() -> Vec<String> {
    vec!["profile".to_owned()]
}
fn default_button() -> String {
    "Sign in with single sign-on".to_owned()
}
fn default_principal_claim() -> String {
    "sub".to_owned()
}
fn default_groups_claim() -> String {
    "groups".to_owned()
}

impl OidcConfig {
    /// The provider's address and the mapping of claims.
    ///
    /// # Errors
    /// A text that names the setting and its rule.
    pub fn checked(&self, roles: &Roles) -> Result<(IssuerUrl, ClaimRules), String> {
        for (name, text) in [
            ("client_id", &self.client_id),
            ("principal_claim", &self.principal_claim),
            ("groups_claim", &self.groups_claim),
        ] {
            if text.trim().is_empty() {
                return Err(format!("`console.oidc.{name}` must not be empty"));
            }
        }
        let length = self.button.trim().chars().count();
        if !(1..=MAX_BUTTON).contains(&length) {
            return Err(format!(
                "`console.oidc.button` must have 1 to {MAX_BUTTON} characters"
            ));
        }
        let rules = ClaimRules {
            principal_claim: self.principal_claim.clone(),
            tenant: self.tenant_rule()?,
            groups_claim: self.groups_claim.clone(),
            grants: self.group_grants(roles)?,
        };
        Ok((issuer(&self.issuer)?, rules))
    }

    fn tenant_rule(&self) -> Result<TenantRule, String> {
        match (&self.tenant, &self.tenant_claim) {
            (Some(tenant), None) if !tenant.trim().is_empty() => {
                Ok(TenantRule::Fixed(tenant.as_str().into()))
            }
            (None, Some(claim)) if !claim.trim().is_empty() => {
                let names = self.tenants.iter();
                if self.tenants.is_empty() || names.clone().any(|it| it.tenant.trim().is_empty()) {
                    return Err(
                        "`console.oidc.tenants` must name the tenant of each value of \
                                `tenant_claim`"
                            .to_owned(),
                    );
                }
                let tenants = names.map(|it| (it.value.clone(), it.tenant.as_str().into()));
                Ok(TenantRule::Claim {
                    claim: claim.clone(),
                    tenants: tenants.collect(),
                })
            }
            _ => Err("`console.oidc` needs either `tenant` or `tenant_claim`".to_owned()),
        }
    }

    fn group_grants(&self, roles: &Roles) -> Result<Vec<GroupGrant>, String> {
        if self.grants.is_empty() {
            return Err(
                "`console.oidc.grants` must map at least one value of `groups_claim`; without it \
                 nobody can sign in"
                    .to_owned(),
            );
        }
        for group in &self.grants {
            let place = format!("`console.oidc.grants` for `{}`", group.value);
            let unknown = |name: &&String| *name != ALL && Scope::named(name).is_empty();
            if let Some(scope) = group.scopes.iter().find(unknown) {
                return Err(format!(
                    "{place} has the scope `{scope}`, which this host does not know"
                ));
            }
            if let Some(role) = group.roles.iter().find(|role| !roles.knows(role)) {
                return Err(format!(
                    "{place} has the role `{role}`, which `[[roles]]` does not define"
                ));
            }
            if group.scopes.is_empty() && group.roles.is_empty() {
                return Err(format!("{place} needs `scopes` or `roles`"));
            }
        }
        let grants = self.grants.iter().map(|group| GroupGrant {
            value: group.value.clone(),
            scopes: group.scopes.clone(),
            roles: group.roles.clone(),
        });
        Ok(grants.collect())
    }
}

/// Codes and tokens travel between this host and the provider, so plain http is for tests on the
/// same machine.
fn issuer(text: &str) -> Result<IssuerUrl, String> {
    let invalid = || {
        format!(
            "`console.oidc.issuer` must be an https address without credentials, query and \
             fragment (http only on a loopback address), got `{text}`"
        )
    };
    let url: Url = text.parse().map_err(|_| invalid())?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !is_safe(&url) || has_user || url.query().is_some() || url.fragment().is_some() {
        return Err(invalid());
    }
    IssuerUrl::new(text.to_owned()).map_err(|_| invalid())
}

/// Whether others cannot read what is sent there: over TLS, or on this machine.
pub fn is_safe(url: &Url) -> bool {
    let is_near = match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn config(change: impl FnOnce(&mut Value)) -> OidcConfig {
        let mut text = json!({
            "issuer": "https://login.acme.example", "client_id": "touchstone", "tenant": "acme",
            "grants": [{"value": "staff", "scopes": ["runs:read", "all"], "roles": ["release"]}],
        });
        change(&mut text);
        serde_json::from_value(text).unwrap()
    }

    fn roles() -> Roles {
        let scopes = ["deploy:promote".to_owned()];
        Roles::new([("release", scopes.as_slice())]).unwrap()
    }

    #[test]
    fn a_complete_configuration_is_accepted() {
        let (issuer, rules) = config(|_| ()).checked(&roles()).unwrap();
        assert_eq!(issuer.as_str(), "https://login.acme.example");
        assert_eq!(rules.tenant, TenantRule::Fixed("acme".into()));
    }

    #[rstest]
    #[case("issuer", json!("http://login.acme.example"), "must be an https address")]
    #[case("issuer", json!("http://127.0.0.1.acme.example"), "must be an https address")]
    #[case("issuer", json!("https://a:b@login.acme.example"), "must be an https address")]
    #[case("issuer", json!("https://login.acme.example?a=b"), "must be an https address")]
    #[case("client_id", json!(" "), "`console.oidc.client_id` must not be empty")]
    #[case("button", json!(""), "`console.oidc.button` must have 1 to 60")]
    #[case("tenant_claim", json!("org"), "either `tenant` or `tenant_claim`")]
    #[case("tenant", json!(null), "either `tenant` or `tenant_claim`")]
    #[case("grants", json!([]), "must map at least one value")]
    #[case("grants", json!([{"value": "a"}]), "needs `scopes` or `roles`")]
    #[case("grants", json!([{"value": "a", "scopes": ["runs:*"]}]), "does not know")]
    #[case("grants", json!([{"value": "a", "roles": ["owner"]}]), "does not define")]
    fn an_invalid_setting_is_named(#[case] name: &str, #[case] value: Value, #[case] why: &str) {
        let config = config(|text| text[name] = value);
        let fault = config.checked(&roles()).unwrap_err();
        assert!(fault.contains(why), "{fault}");
    }

    #[rstest]
    #[case("http://127.0.0.1:4000")]
    #[case("http://[::1]:4000/tenant")]
    #[case("http://localhost:4000")]
    fn a_provider_on_the_same_machine_needs_no_tls(#[case] text: &str) {
        assert_eq!(issuer(text).unwrap().as_str(), text);
    }
}
