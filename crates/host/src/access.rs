//! Authorization as data: scopes, and roles as named sets of scopes (OpenWOP auth, RFC 0049).
//!
//! Scopes do not imply one another, except that `runs:create` includes `runs:annotate`. A role that
//! this host does not know grants nothing and satisfies no requirement. Authorization fails closed:
//! when a question cannot be answered, access is denied.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

macro_rules! scopes {
    ($( $(#[$doc:meta])* $variant:ident = $wire:literal; )*) => {
        /// The permissions of a key. OpenWOP's scopes come first, then the scopes of this host.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Scope { $( $(#[$doc])* $variant, )* }

        impl Scope {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }

            pub fn parse(name: &str) -> Option<Self> {
                match name { $($wire => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

scopes! {
    /// Read workflows, agents, packs and suites.
    ManifestRead = "manifest:read";
    /// Create and retry runs.
    RunsCreate = "runs:create";
    /// Read runs, their events, summaries and reports.
    RunsRead = "runs:read";
    /// Read the content of tasks: inputs, answers, transcripts and judges' reasons.
    RunsContent = "runs:content";
    /// Cancel runs.
    RunsCancel = "runs:cancel";
    /// Annotate runs under OpenWOP v2.
    RunsAnnotate = "runs:annotate";
    /// Read artifacts.
    ArtifactsRead = "artifacts:read";
    /// Manage webhook subscriptions.
    WebhooksManage = "webhooks:manage";
    /// Answer interrupts.
    ApprovalsRespond = "approvals:respond";
    /// Publish packs to a registry.
    PacksPublish = "packs:publish";
    /// Yank packs from a registry.
    PacksYank = "packs:yank";
    /// Revert a yank.
    PacksYankRevert = "packs:yank-revert";
    /// Read the audit log.
    AuditRead = "audit:read";
    /// Promote deployments (RFC 0082).
    DeployPromote = "deploy:promote";
    /// Roll deployments back (RFC 0082).
    DeployRollback = "deploy:rollback";
    /// Pause deployments (RFC 0082).
    DeployPause = "deploy:pause";

    /// Install and remove packs.
    PacksInstall = "packs:install";
    /// Delete runs that have ended.
    RunsDelete = "runs:delete";
    /// Place and release legal holds on runs.
    RunsHold = "runs:hold";
    /// Void eval runs, so that no gate counts their scores.
    RunsVoid = "runs:void";
    /// Label answers in human reviews.
    ReviewsWrite = "reviews:write";
    /// Set and remove gate policies.
    GatesWrite = "gates:write";
    /// Import and remove suites.
    SuitesWrite = "suites:write";
    /// Read the host's metrics, which cover all tenants and contain no task content.
    MetricsRead = "metrics:read";
    /// Drain workers, which serve all tenants; for the operator of the host.
    ClusterManage = "cluster:manage";
    /// Create and change organizations of any tenant; for the operator of the host.
    OrganizationsWrite = "organizations:write";
    /// Read the agents of the organization.
    AgentsRead = "agents:read";
    /// Enroll, change and archive agents.
    AgentsWrite = "agents:write";
    /// Read evidence.
    EventsRead = "events:read";
    /// Record evidence.
    EventsWrite = "events:write";
    /// Read assessments.
    AssessmentsRead = "assessments:read";
    /// Ask for assessments.
    AssessmentsWrite = "assessments:write";
    /// Review assessments that are pending review.
    AssessmentsReview = "assessments:review";
    /// Read badges of the organization that are not public.
    BadgesRead = "badges:read";
    /// Revoke badges.
    BadgesRevoke = "badges:revoke";
    /// Appeal assessments.
    AppealsFile = "appeals:file";
    /// Decide appeals.
    AppealsReview = "appeals:review";
    /// Read the rating configuration.
    ConfigRead = "config:read";
    /// Change the rating configuration.
    ConfigWrite = "config:write";
    /// Create, rotate and revoke API keys of the tenant, with at most one's own rights.
    KeysManage = "keys:manage";
}

/// Wildcards that grant both reading and writing of one kind of resource (AAAF S14).
const WILDCARDS: &[(&str, &[Scope])] = &[
    ("agents:*", &[Scope::AgentsRead, Scope::AgentsWrite]),
    ("events:*", &[Scope::EventsRead, Scope::EventsWrite]),
    (
        "assessments:*",
        &[Scope::AssessmentsRead, Scope::AssessmentsWrite],
    ),
    ("config:*", &[Scope::ConfigRead, Scope::ConfigWrite]),
    ("webhooks:*", &[Scope::WebhooksManage]),
];

impl Scope {
    /// The scopes that a name grants: several for a wildcard (`…:*`), none for an unknown name.
    pub fn named(name: &str) -> Vec<Self> {
        let wild = WILDCARDS.iter().find(|(wild, _)| *wild == name);
        match wild {
            Some((_, scopes)) => scopes.to_vec(),
            None => Self::parse(name).into_iter().collect(),
        }
    }

    /// Scopes that reach beyond one tenant. Only the operator of the host grants them, and only by
    /// name: neither `all` nor a wildcard contains one.
    pub const OPERATOR: &'static [Self] = &[
        Self::MetricsRead,
        Self::ClusterManage,
        Self::OrganizationsWrite,
    ];

    /// Whether the scope reaches beyond one tenant.
    pub fn is_operator(self) -> bool {
        Self::OPERATOR.contains(&self)
    }

    /// Scopes within one tenant that only their name grants, because who holds one can give rights
    /// to others.
    pub const BY_NAME: &'static [Self] = &[Self::KeysManage];

    /// Every scope that stays within one tenant, except [`Self::BY_NAME`]; `all` grants these.
    pub fn within_tenant() -> impl Iterator<Item = Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|scope| !scope.is_operator() && !Self::BY_NAME.contains(scope))
    }

    pub fn wildcards() -> impl Iterator<Item = &'static str> {
        WILDCARDS.iter().map(|(name, _)| *name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An invalid role definition in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    #[error("`{0}` is not a valid role name; use 1 to 64 of a-z, 0-9, `.`, `_` and `-`")]
    Name(String),
    #[error("role `{0}` is defined twice")]
    Twice(String),
    #[error("role `{role}` has the scope `{scope}`, which this host does not know")]
    Scope { role: String, scope: String },
}

/// The roles of this host, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles(BTreeMap<String, BTreeSet<Scope>>);

impl Roles {
    /// Builds the roles from their names and the wire names of their scopes.
    ///
    /// # Errors
    /// [`RoleError`]: one invalid role rejects all of them.
    pub fn new<'a>(
        roles: impl IntoIterator<Item = (&'a str, &'a [String])>,
    ) -> Result<Self, RoleError> {
        let mut known = BTreeMap::new();
        for (name, scopes) in roles {
            if !is_role_name(name) {
                return Err(RoleError::Name(name.to_owned()));
            }
            let mut held = BTreeSet::new();
            for scope in scopes {
                let named = Scope::named(scope);
                if named.is_empty() {
                    return Err(RoleError::Scope {
                        role: name.to_owned(),
                        scope: scope.clone(),
                    });
                }
                held.extend(named);
            }
            if known.insert(name.to_owned(), held).is_some() {
                return Err(RoleError::Twice(name.to_owned()));
            }
        }
        Ok(Self(known))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<Scope>)> {
        self.0.iter().map(|(name, scopes)| (name.as_str(), scopes))
    }

    pub fn knows(&self, role: &str) -> bool {
        self.0.contains_key(role)
    }

    /// The scopes and roles of a credential. Names this host does not know grant nothing.
    pub fn resolve(&self, scopes: &[String], roles: &[String]) -> Grants {
        let mut grants = Grants {
            scopes: scopes.iter().flat_map(|name| Scope::named(name)).collect(),
            roles: BTreeSet::new(),
        };
        for role in roles {
            if let Some(scopes) = self.0.get(role) {
                grants.scopes.extend(scopes);
                grants.roles.insert(role.clone());
            }
        }
        grants
    }
}

/// Whether `name` is a valid role name.
pub fn is_role_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|octet| {
            octet.is_ascii_lowercase() || octet.is_ascii_digit() || b"._-".contains(&octet)
        })
}

/// The resolved permissions of a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Its own scopes and the scopes of its roles.
    pub scopes: BTreeSet<Scope>,
    /// Its roles that this host knows.
    pub roles: BTreeSet<String>,
}

/// Scopes that another one includes. Keys from before a scope was added keep their rights.
const INCLUDED: &[(Scope, Scope)] = &[(Scope::RunsCreate, Scope::RunsAnnotate)];

impl Grants {
    pub fn has(&self, scope: Scope) -> bool {
        let holders = INCLUDED.iter().filter(|(_, included)| *included == scope);
        let mut holders = holders.map(|(holder, _)| holder);
        self.scopes.contains(&scope) || holders.any(|holder| self.scopes.contains(holder))
    }
}

/// Requirements of an action: the scope and the role that are set. An empty demand is never met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub scope: Option<Scope>,
    /// A role, such as the `requiredRole` of an approval gate.
    pub role: Option<String>,
}

impl Demand {
    pub const fn scope(scope: Scope) -> Self {
        Self {
            scope: Some(scope),
            role: None,
        }
    }

    /// Why the grants do not meet the demand, free of secrets so that it may be logged; `None` if
    /// they do.
    pub fn unmet(&self, grants: &Grants) -> Option<String> {
        if let Some(scope) = self.scope
            && !grants.has(scope)
        {
            return Some(format!("scope `{scope}` is missing"));
        }
        if let Some(role) = &self.role
            && !grants.roles.contains(role)
        {
            return Some(format!(
                "role `{role}` is missing, or this host does not know it"
            ));
        }
        (self.scope.is_none() && self.role.is_none())
            .then(|| "no scope or role permits this operation".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn catalogue() -> Roles {
        let scopes = texts(&["deploy:promote", "runs:read"]);
        Roles::new([
            ("release-manager", scopes.as_slice()),
            ("nobody", [].as_slice()),
        ])
        .unwrap()
    }

    #[test]
    fn every_scope_has_a_wire_name_of_its_own_that_reads_back() {
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.as_str()), Some(*scope));
        }
        let names: BTreeSet<_> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        assert_eq!(names.len(), Scope::ALL.len());
        assert_eq!(Scope::parse("runs:*"), None);
    }

    #[test]
    fn whoever_may_create_runs_may_annotate_them() {
        let grants = |scope: &str| catalogue().resolve(&texts(&[scope]), &[]);
        assert!(grants("runs:create").has(Scope::RunsAnnotate));
        assert!(grants("runs:annotate").has(Scope::RunsAnnotate));
        assert!(!grants("runs:annotate").has(Scope::RunsCreate));
        assert!(!grants("runs:read").has(Scope::RunsAnnotate));
        let demand = Demand::scope(Scope::RunsAnnotate);
        assert_eq!(demand.unmet(&grants("runs:create")), None);
    }

    #[test]
    fn a_wildcard_scope_grants_reading_and_writing() {
        for name in Scope::wildcards() {
            let kind = name.strip_suffix('*').unwrap();
            let named: Vec<_> = Scope::named(name).iter().map(|s| s.as_str()).collect();
            let expected = match kind {
                // `webhooks:manage` covers both reading and writing.
                "webhooks:" => vec!["webhooks:manage".to_owned()],
                kind => vec![format!("{kind}read"), format!("{kind}write")],
            };
            assert_eq!(named, expected);
            assert_eq!(Scope::parse(name), None, "no scope by itself");
        }
        assert!(Scope::named("runs:*").is_empty());
    }

    #[test]
    fn neither_all_nor_a_wildcard_contains_an_operator_scope() {
        assert!(Scope::within_tenant().all(|scope| !Scope::OPERATOR.contains(&scope)));
        assert_eq!(
            Scope::within_tenant().count() + Scope::OPERATOR.len() + Scope::BY_NAME.len(),
            Scope::ALL.len()
        );
        assert!(Scope::within_tenant().all(|scope| !Scope::BY_NAME.contains(&scope)));
        for name in Scope::wildcards() {
            let named = Scope::named(name);
            assert!(named.iter().all(|scope| !scope.is_operator()), "{name}");
        }
    }

    #[test]
    fn a_scope_implies_only_those_that_it_includes() {
        for held in Scope::ALL {
            let grants = Roles::default().resolve(&texts(&[held.as_str()]), &[]);
            for asked in Scope::ALL {
                let allowed = Demand::scope(*asked).unmet(&grants).is_none();
                let is_included = INCLUDED.contains(&(*held, *asked));
                assert_eq!(allowed, held == asked || is_included);
            }
        }
    }

    #[rstest]
    #[case(&[], &[], Some(Scope::RunsRead), None, false)]
    #[case(&["runs:read"], &[], Some(Scope::RunsRead), None, true)]
    #[case(&[], &["release-manager"], Some(Scope::RunsRead), None, true)]
    #[case(&[], &["release-manager"], Some(Scope::RunsCreate), None, false)]
    #[case(&[], &["release-manager"], None, Some("release-manager"), true)]
    #[case(&["deploy:promote", "runs:read"], &[], None, Some("release-manager"), false)]
    #[case(&[], &["release-manager"], Some(Scope::RunsCreate), Some("release-manager"), false)]
    #[case(&[], &["release-manager"], Some(Scope::DeployPromote), Some("release-manager"), true)]
    #[case(&[], &["nobody"], Some(Scope::RunsRead), None, false)]
    #[case(&[], &["nobody"], None, Some("nobody"), true)]
    // The credential has the role, but the host does not know it, so the role grants nothing.
    #[case(&[], &["owner"], None, Some("owner"), false)]
    #[case(&["everything"], &["*"], Some(Scope::RunsRead), None, false)]
    #[case(&["runs:read"], &["release-manager"], None, None, false)]
    fn access_is_denied_unless_a_scope_or_role_grants_it(
        #[case] scopes: &[&str],
        #[case] roles: &[&str],
        #[case] scope: Option<Scope>,
        #[case] role: Option<&str>,
        #[case] allowed: bool,
    ) {
        let grants = catalogue().resolve(&texts(scopes), &texts(roles));
        let role = role.map(str::to_owned);
        let demand = Demand { scope, role };
        assert_eq!(demand.unmet(&grants).is_none(), allowed);
    }

    #[rstest]
    #[case(&[("Release Manager", "runs:read")], "not a valid role name")]
    #[case(&[("", "runs:read")], "not a valid role name")]
    #[case(&[("a", "runs:read"), ("a", "runs:read")], "twice")]
    #[case(&[("a", "runs:*")], "does not know")]
    fn an_invalid_role_catalogue_is_rejected(#[case] roles: &[(&str, &str)], #[case] names: &str) {
        let roles: Vec<(&str, Vec<String>)> = roles
            .iter()
            .map(|(name, scope)| (*name, texts(&[scope])))
            .collect();
        let fault = Roles::new(roles.iter().map(|(n, s)| (*n, s.as_slice()))).unwrap_err();
        assert!(fault.to_string().contains(names), "{fault}");
    }
}
