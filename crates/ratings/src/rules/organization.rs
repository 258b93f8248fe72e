//! Organizations (AAAF S14, S15): a tenant's public identity, in whose name agents are assessed and
//! badges are signed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::credential::is_ambiguous;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::TenantId;

/// Maximum length of a name in characters; a badge shows as much as fits.
pub const MAX_NAME: usize = 200;
const MAX_TENANT: usize = 128;
const MAX_PRINCIPAL: usize = 128;
/// Maximum number of auditors of an organization.
const MAX_AUDITORS: usize = 20;
/// Members of `POST organizations` that are configuration settings.
const SETTINGS: [&str; 7] = [
    "domain_taxonomy",
    "performance_weights",
    "capability_weights",
    "assessment_window_days",
    "validity_period_days",
    "minimum_tasks_performance",
    "minimum_tasks_capability",
];

/// Status of an organization, which decides what is still allowed in its name (AAAF S15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All operations are allowed.
    Active,
    /// Only reading is allowed.
    Suspended,
    /// Only verification of its badges is allowed.
    Archived,
}

impl Status {
    pub const ALL: &'static [Self] = &[Self::Active, Self::Suspended, Self::Archived];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Archived => "archived",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }

    /// Why the organization cannot be read, or written to if `writes`; `None` if it can.
    pub const fn hinders(self, writes: bool) -> Option<&'static str> {
        match self {
            Self::Suspended if writes => Some(
                "this organization is suspended and can only be read; ask the host's \
                operator",
            ),
            Self::Archived => Some(
                "this organization is archived and only its badges can still be verified; ask \
                the host's operator",
            ),
            Self::Active | Self::Suspended => None,
        }
    }
}

/// Who may see the badges of an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Everyone.
    Public,
    /// Only its members.
    Private,
}

/// A third-party auditor: a principal of another tenant that reads and reviews the organization's
/// assessments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Auditor {
    pub tenant: TenantId,
    pub principal: String,
}

impl Auditor {
    /// The auditor's name in the organization's audit log. Principals of the organization's tenant
    /// contain no `:`.
    pub fn external_name(&self) -> String {
        format!("external:{}/{}", self.tenant, self.principal)
    }
}

/// An organization to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOrganization {
    pub name: String,
    /// The tenant that the organization represents; without one, it gets a new tenant.
    pub tenant: Option<TenantId>,
    /// Settings that differ from the framework's defaults. Values are validated like any other
    /// change of the configuration.
    pub config: Map<String, Value>,
}

impl NewOrganization {
    /// Reads the body of `POST organizations`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let known = [["name", "tenant"].as_slice(), &SETTINGS].concat();
        let fields = Fields::closed(body, "", &known, Nulls::Wrong)?;
        let name = name(&fields)?.ok_or_else(|| fields.invalid("name", "is required"))?;
        let tenant = fields.text_of("tenant", 1..=MAX_TENANT)?;
        if tenant.is_some_and(|tenant| !is_tenant(tenant)) {
            return Err(fields.invalid("tenant", TENANT_SHAPE));
        }
        Ok(Self {
            name,
            tenant: tenant.map(TenantId::from),
            config: SETTINGS
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), fields.get(name)?.clone())))
                .collect(),
        })
    }
}

/// A partial update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub name: Option<String>,
    /// Only for the operator of the host.
    pub status: Option<Status>,
    /// Who may see its badges.
    pub badges: Option<Visibility>,
    /// The complete list of auditors, which replaces the stored one.
    pub auditors: Option<Vec<Auditor>>,
}

impl Change {
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let known = ["name", "status", "badges", "auditors"];
        let fields = Fields::closed(body, "", &known, Nulls::Wrong)?;
        let status = fields.text_of("status", 1..=MAX_NAME)?.map(|name| {
            let known: Vec<&str> = Status::ALL.iter().map(|it| it.as_str()).collect();
            let message = format!("must be one of {}", known.join(", "));
            Status::parse(name).ok_or_else(|| fields.invalid("status", &message))
        });
        let badges = match fields.text("badges")? {
            None => None,
            Some("public") => Some(Visibility::Public),
            Some("private") => Some(Visibility::Private),
            Some(_) => return Err(fields.invalid("badges", "must be public or private")),
        };
        Ok(Self {
            name: name(&fields)?,
            status: status.transpose()?,
            badges,
            auditors: auditors(&fields)?,
        })
    }
}

fn auditors(fields: &Fields<'_>) -> Result<Option<Vec<Auditor>>, Problem> {
    let Some(listed) = fields.get("auditors") else {
        return Ok(None);
    };
    let listed = listed.as_array().filter(|it| it.len() <= MAX_AUDITORS);
    let listed = listed.ok_or_else(|| {
        let shape = format!("must be a list of at most {MAX_AUDITORS} auditors");
        fields.invalid("auditors", &shape)
    })?;
    let mut auditors: Vec<Auditor> = Vec::with_capacity(listed.len());
    for one in listed {
        let members = Fields::closed(one, "auditors", &["tenant", "principal"], Nulls::Wrong)?;
        let text = |name: &str, longest: usize| {
            let text = members.text_of(name, 1..=longest)?;
            text.ok_or_else(|| members.invalid(name, "is required"))
        };
        let tenant = text("tenant", MAX_TENANT)?;
        if !is_tenant(tenant) {
            return Err(members.invalid("tenant", TENANT_SHAPE));
        }
        let principal = text("principal", MAX_PRINCIPAL)?;
        if principal.contains(is_ambiguous) {
            return Err(members.invalid("principal", "must not contain control characters"));
        }
        let auditor = Auditor {
            tenant: TenantId::from(tenant),
            principal: principal.to_owned(),
        };
        if auditors.contains(&auditor) {
            return Err(fields.invalid("auditors", "must not list an auditor twice"));
        }
        auditors.push(auditor);
    }
    Ok(Some(auditors))
}

fn name(fields: &Fields<'_>) -> Result<Option<String>, Problem> {
    named(fields, MAX_NAME)
}

/// A name that is not blank and has no control characters.
pub(super) fn named(fields: &Fields<'_>, longest: usize) -> Result<Option<String>, Problem> {
    match fields.text_of("name", 1..=longest)? {
        Some(name) if name.trim().is_empty() || name.contains(is_ambiguous) => {
            Err(fields.invalid("name", "must not be blank or contain control characters"))
        }
        name => Ok(name.map(str::to_owned)),
    }
}

const TENANT_SHAPE: &str = "must consist of letters, digits, `.`, `_` and `-`";

fn is_tenant(text: &str) -> bool {
    text.bytes()
        .all(|octet| octet.is_ascii_alphanumeric() || b"._-".contains(&octet))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"name": "Acme"}), None)]
    #[case(json!({"name": "Acme", "tenant": "acme.eu_1-x"}), None)]
    #[case(json!({}), Some("name"))]
    #[case(json!({"name": ""}), Some("name"))]
    #[case(json!({"name": " "}), Some("name"))]
    #[case(json!({"name": "a\u{7}b"}), Some("name"))]
    #[case(json!({"name": "x".repeat(201)}), Some("name"))]
    #[case(json!({"name": "Acme", "tenant": "a/b"}), Some("tenant"))]
    #[case(json!({"name": "Acme", "tenant": null}), Some("tenant"))]
    #[case(json!({"name": "Acme", "key": "k"}), Some("key"))]
    fn invalid_organizations_are_rejected_by_field(
        #[case] body: Value,
        #[case] field: Option<&str>,
    ) {
        let refused = NewOrganization::parse(&body).err();
        let named = refused.map(|problem| problem.details["field"].as_str().unwrap().to_owned());
        assert_eq!(named.as_deref(), field);
    }

    #[rstest]
    #[case(json!([]), None)]
    #[case(json!([{"tenant": "auditors", "principal": "kim"}, {"tenant": "auditors", "principal": "lee"}]), None)]
    #[case(json!({"tenant": "auditors", "principal": "kim"}), Some("auditors"))]
    #[case(json!(["kim"]), Some("auditors"))]
    #[case(json!([{"tenant": "auditors"}]), Some("auditors.principal"))]
    #[case(json!([{"principal": "kim"}]), Some("auditors.tenant"))]
    #[case(json!([{"tenant": "a/b", "principal": "kim"}]), Some("auditors.tenant"))]
    #[case(json!([{"tenant": "auditors", "principal": "k\u{7}m"}]), Some("auditors.principal"))]
    #[case(json!([{"tenant": "auditors", "principal": "kim", "scope": "all"}]), Some("auditors.scope"))]
    #[case(json!([{"tenant": "auditors", "principal": "kim"}, {"tenant": "auditors", "principal": "kim"}]), Some("auditors"))]
    #[case(json!(null), Some("auditors"))]
    fn invalid_auditors_are_rejected_by_field(
        #[case] auditors: Value,
        #[case] field: Option<&str>,
    ) {
        let refused = Change::parse(&json!({"auditors": auditors})).err();
        let named = refused.map(|problem| problem.details["field"].as_str().unwrap().to_owned());
        assert_eq!(named.as_deref(), field);
    }

    #[test]
    fn settings_are_read_beside_the_name() {
        let body = json!({"name": "Acme", "tenant": "acme", "assessment_window_days": 14, "domain_taxonomy": ["code"]});
        let read = NewOrganization::parse(&body).unwrap();
        assert_eq!(
            Value::Object(read.config),
            json!({"assessment_window_days": 14, "domain_taxonomy": ["code"]})
        );
    }

    #[test]
    fn a_suspended_organization_may_only_read_and_an_archived_one_nothing() {
        for (status, reads, writes) in [
            (Status::Active, true, true),
            (Status::Suspended, true, false),
            (Status::Archived, false, false),
        ] {
            assert_eq!(status.hinders(false).is_none(), reads);
            assert_eq!(status.hinders(true).is_none(), writes);
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
    }
}
