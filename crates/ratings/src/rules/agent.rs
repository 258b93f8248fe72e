//! Agents as enrolled for assessment (AAAF S14), with their profiles.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rules::organization::named;
use touchstone_agents::rules::reached_by::ReachedBy;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};

const FIELDS: &[&str] = &[
    "name",
    "description",
    "version",
    "claimed_domains",
    "domains",
    "tools",
    "metadata",
    "openwop_agent",
    "reached_by",
    "keys",
];
const MAX_NAME: usize = 200;
const MAX_DESCRIPTION: usize = 2000;
const MAX_VERSION: usize = 64;
const MAX_DOMAINS: usize = 50;
const MAX_TOOLS: usize = 200;
const MAX_KEYS: usize = 20;
const MAX_LABEL: usize = 128;
const MAX_OPENWOP: usize = 320;
const MAX_ID: usize = 64;
/// Maximum size of the metadata, in bytes of JSON.
const MAX_METADATA: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The agent has no evidence yet.
    Enrolled,
    /// There is evidence about the agent, or it was assessed.
    Active,
    /// Temporarily accepts no evidence and no assessments.
    Suspended,
    /// Permanently accepts no evidence and no assessments.
    Archived,
}

impl Status {
    pub const ALL: &'static [Self] = &[
        Self::Enrolled,
        Self::Active,
        Self::Suspended,
        Self::Archived,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enrolled => "enrolled",
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Archived => "archived",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }

    /// Why the agent accepts no evidence and no assessments; `None` if it does.
    pub const fn hinders(self) -> Option<&'static str> {
        match self {
            Self::Suspended => Some(
                "this agent is suspended; set its `status` to active before recording evidence \
                about it or assessing it",
            ),
            Self::Archived => {
                Some("this agent is archived and accepts no further evidence or assessments")
            }
            Self::Enrolled | Self::Active => None,
        }
    }
}

/// The OpenWOP agent that an enrolled agent represents: its eval runs are evidence. Without a
/// version, the runs of every version are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OpenwopAgent {
    /// The id of its pack plus one more segment.
    pub id: String,
    /// Limits the reference to this version.
    pub version: Option<String>,
}

/// Not a reference to an OpenWOP agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an agent id, or `agentId@version` with a version of three numbers")]
pub struct NotAnAgent;

impl FromStr for OpenwopAgent {
    type Err = NotAnAgent;

    fn from_str(text: &str) -> Result<Self, NotAnAgent> {
        let (id, version) = match text.split_once('@') {
            Some((id, version)) => (id, Some(version)),
            None => (text, None),
        };
        let letter = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
        let segments = id.split('.').collect::<Vec<_>>();
        let named = segments.len() > 1
            && segments
                .iter()
                .all(|it| !it.is_empty() && it.bytes().all(letter));
        let versioned = version.is_none_or(|it| semver::Version::parse(it).is_ok());
        if !named || !versioned || text.len() > MAX_OPENWOP {
            return Err(NotAnAgent);
        }
        Ok(Self {
            id: id.to_owned(),
            version: version.map(str::to_owned),
        })
    }
}

impl TryFrom<String> for OpenwopAgent {
    type Error = NotAnAgent;

    fn try_from(text: String) -> Result<Self, NotAnAgent> {
        text.parse()
    }
}

impl From<OpenwopAgent> for String {
    fn from(agent: OpenwopAgent) -> Self {
        agent.to_string()
    }
}

impl fmt::Display for OpenwopAgent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(out, "{}@{version}", self.id),
            None => out.write_str(&self.id),
        }
    }
}

impl OpenwopAgent {
    /// Whether one run could be evidence for both: they name the same agent, and not different
    /// versions of it.
    pub fn overlaps(&self, other: &Self) -> bool {
        let apart = matches!((&self.version, &other.version), (Some(one), Some(two)) if one != two);
        self.id == other.id && !apart
    }
}

/// Self-declared facts about an agent. The first domain is the primary one; stress tests call the
/// listed tools (AAAF S7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version of the agent that is assessed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The agent's domains, the primary one first.
    pub domains: Vec<String>,
    /// The tools that the agent uses.
    pub tools: Vec<String>,
    /// Free-form notes of the organization, such as the agent's model. They have no effect.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The OpenWOP agent whose eval runs are evidence about this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openwop_agent: Option<OpenwopAgent>,
    /// How stress tests reach the agent, if it runs outside this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_by: Option<ReachedBy>,
    /// Ids of the API keys that the agent holds: events recorded with one of them count as recorded
    /// by the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
}

impl Profile {
    /// The version that a rating applies to. Where eval runs are evidence, it is the version they
    /// are limited to; without a limit they cover all versions, so the result is `None`. Otherwise
    /// it is the declared version.
    pub fn rated_version(&self) -> Option<&str> {
        match &self.openwop_agent {
            Some(agent) => agent.version.as_deref(),
            None => self.version.as_deref(),
        }
    }

    /// Rejects an agent that runs both on this host and outside it, because it would be unclear
    /// which one is rated.
    ///
    /// # Errors
    /// `validation_error` for `reached_by`.
    pub fn check(&self) -> Result<(), Problem> {
        match (&self.openwop_agent, &self.reached_by) {
            (Some(_), Some(_)) => Err(Problem::validation(
                "reached_by",
                "`reached_by` cannot be combined with `openwop_agent`; remove one of them (`\"openwop_agent\": \"\"` or `\"reached_by\": null`)",
            )),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrollment {
    /// Must be the caller's organization.
    pub organization: Option<String>,
    /// Unique among the agents of the organization.
    pub name: String,
    pub profile: Profile,
}

impl Enrollment {
    /// Reads the body of `POST agents`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let known = [FIELDS, &["organization_id"]].concat();
        let fields = Fields::closed(body, "", &known, Nulls::Wrong)?;
        let change = Change::of(&fields)?;
        let required = || Problem::validation("name", "`name` is required");
        let mut profile = Profile::default();
        change.apply(&mut profile);
        profile.check()?;
        let organization = fields.text_of("organization_id", 1..=MAX_ID)?;
        Ok(Self {
            organization: organization.map(str::to_owned),
            name: change.name.ok_or_else(required)?,
            profile,
        })
    }
}

/// A partial update; members that are absent stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub name: Option<String>,
    /// Never [`Status::Enrolled`], which cannot be set.
    pub status: Option<Status>,
    description: Option<String>,
    version: Option<String>,
    domains: Option<Vec<String>>,
    tools: Option<Vec<String>>,
    metadata: Option<Map<String, Value>>,
    /// The inner `None` removes the value.
    openwop_agent: Option<Option<OpenwopAgent>>,
    /// The inner `None` removes the value.
    reached_by: Option<Option<ReachedBy>>,
    keys: Option<Vec<String>>,
}

impl Change {
    /// Reads the body of `PATCH agents/{id}`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let known = [FIELDS, &["status"]].concat();
        let fields = Fields::closed(body, "", &known, Nulls::Wrong)?;
        Ok(Self {
            status: status(&fields)?,
            ..Self::of(&fields)?
        })
    }

    fn of(fields: &Fields<'_>) -> Result<Self, Problem> {
        let text = |name, most| -> Result<Option<String>, Problem> {
            Ok(fields.text_of(name, 0..=most)?.map(str::to_owned))
        };
        Ok(Self {
            name: named(fields, MAX_NAME)?,
            status: None,
            description: text("description", MAX_DESCRIPTION)?,
            version: text("version", MAX_VERSION)?,
            domains: labels(
                fields,
                fields.either("domains", "claimed_domains")?,
                MAX_DOMAINS,
            )?,
            tools: labels(fields, "tools", MAX_TOOLS)?,
            metadata: metadata(fields)?,
            openwop_agent: openwop_agent(fields)?,
            reached_by: reached_by(fields)?,
            keys: labels(fields, "keys", MAX_KEYS)?,
        })
    }

    /// Applies the update to a profile.
    pub fn apply(&self, profile: &mut Profile) {
        // An empty string removes the value.
        let non_empty = |text: &String| (!text.is_empty()).then(|| text.clone());
        if let Some(description) = &self.description {
            profile.description = non_empty(description);
        }
        if let Some(version) = &self.version {
            profile.version = non_empty(version);
        }
        if let Some(domains) = &self.domains {
            profile.domains.clone_from(domains);
        }
        if let Some(tools) = &self.tools {
            profile.tools.clone_from(tools);
        }
        if let Some(metadata) = &self.metadata {
            profile.metadata.clone_from(metadata);
        }
        if let Some(agent) = &self.openwop_agent {
            profile.openwop_agent.clone_from(agent);
        }
        if let Some(reached_by) = &self.reached_by {
            profile.reached_by.clone_from(reached_by);
        }
        if let Some(keys) = &self.keys {
            profile.keys.clone_from(keys);
        }
    }
}

fn openwop_agent(fields: &Fields<'_>) -> Result<Option<Option<OpenwopAgent>>, Problem> {
    const NAME: &str = "openwop_agent";
    match fields.text_of(NAME, 0..=MAX_OPENWOP)? {
        None => Ok(None),
        Some("") => Ok(Some(None)),
        Some(text) => match text.parse() {
            Ok(agent) => Ok(Some(Some(agent))),
            Err(fault) => Err(fields.invalid(NAME, &fault.to_string())),
        },
    }
}

fn reached_by(fields: &Fields<'_>) -> Result<Option<Option<ReachedBy>>, Problem> {
    match fields.get("reached_by") {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(reached_by) => ReachedBy::parse(reached_by).map(|reached_by| Some(Some(reached_by))),
    }
}

fn status(fields: &Fields<'_>) -> Result<Option<Status>, Problem> {
    match fields.text("status")?.map(Status::parse) {
        None => Ok(None),
        Some(Some(status)) if status != Status::Enrolled => Ok(Some(status)),
        Some(_) => Err(fields.invalid("status", "must be active, suspended or archived")),
    }
}

fn metadata(fields: &Fields<'_>) -> Result<Option<Map<String, Value>>, Problem> {
    let metadata = fields.object("metadata")?;
    match metadata {
        Some(long) if Value::Object(long.clone()).to_string().len() > MAX_METADATA => {
            let message = format!("must be at most {MAX_METADATA} bytes of JSON");
            Err(fields.invalid("metadata", &message))
        }
        metadata => Ok(metadata),
    }
}

/// A list of distinct names.
fn labels(fields: &Fields<'_>, name: &str, most: usize) -> Result<Option<Vec<String>>, Problem> {
    let labels = fields.texts(name, most, MAX_LABEL)?;
    let mut seen = std::collections::BTreeSet::new();
    match labels.iter().flatten().find(|label| !seen.insert(*label)) {
        Some(_) => Err(fields.invalid(name, "must not list the same name twice")),
        None => Ok(labels),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"name": "triage"}), None)]
    #[case(json!({"name": "triage", "domains": ["code"], "tools": [], "version": "1"}), None)]
    #[case(json!({"domains": ["code"]}), Some("name"))]
    #[case(json!({"name": "triage", "domains": ["code", "code"]}), Some("domains"))]
    #[case(json!({"name": "triage", "domains": [""]}), Some("domains"))]
    #[case(json!({"name": "triage", "tools": "grep"}), Some("tools"))]
    #[case(json!({"name": "triage", "openwop_agent": "acme.agents.triage"}), None)]
    #[case(json!({"name": "triage", "openwop_agent": "acme.agents.triage@1.0.0"}), None)]
    #[case(json!({"name": "triage", "openwop_agent": "triage"}), Some("openwop_agent"))]
    #[case(json!({"name": "triage", "openwop_agent": "acme..triage"}), Some("openwop_agent"))]
    #[case(json!({"name": "triage", "openwop_agent": "acme.triage@stable"}), Some("openwop_agent"))]
    #[case(json!({"name": "triage", "reached_by": {"transport": "command", "command": "clerk"}}), None)]
    #[case(json!({"name": "triage", "reached_by": null}), None)]
    #[case(json!({"name": "triage", "reached_by": {"transport": "a2a"}}), Some("reached_by.url"))]
    #[case(json!({"name": "triage", "openwop_agent": "acme.agents.triage", "reached_by": {"transport": "command", "command": "clerk"}}), Some("reached_by"))]
    #[case(json!({"name": "triage", "keys": ["a", "a"]}), Some("keys"))]
    #[case(json!({"name": "triage", "id": "x"}), Some("id"))]
    #[case(json!({"name": "triage", "organization_id": "o", "claimed_domains": ["code"], "metadata": {"model": "m"}}), None)]
    #[case(json!({"name": "triage", "claimed_domains": ["code", "code"]}), Some("claimed_domains"))]
    #[case(json!({"name": "triage", "claimed_domains": ["code"], "domains": ["code"]}), Some("claimed_domains"))]
    #[case(json!({"name": "triage", "metadata": ["m"]}), Some("metadata"))]
    #[case(json!({"name": "triage", "metadata": {"model": "m".repeat(16 * 1024)}}), Some("metadata"))]
    #[case(json!({"name": "triage", "status": "active"}), Some("status"))]
    #[case(json!([]), Some(""))]
    fn invalid_enrollments_are_rejected_by_field(#[case] body: Value, #[case] field: Option<&str>) {
        let refused = Enrollment::parse(&body).err();
        let named = refused.map(|problem| problem.details["field"].as_str().unwrap().to_owned());
        assert_eq!(named.as_deref(), field);
    }

    #[test]
    fn a_change_keeps_members_that_it_does_not_name() {
        let enrolled = json!({"name": "a", "description": "d", "version": "1", "domains": ["code", "legal"], "tools": ["grep"],
            "openwop_agent": "acme.agents.a@1.0.0", "keys": ["3f9c2ab81d4e5f60a7b8"]});
        let mut profile = Enrollment::parse(&enrolled).unwrap().profile;
        let change = Change::parse(
            &json!({"description": "", "tools": ["sed"], "openwop_agent": "acme.agents.a"}),
        )
        .unwrap();
        change.apply(&mut profile);
        assert_eq!(change.name, None);
        assert_eq!(
            profile,
            Profile {
                description: None,
                version: Some("1".to_owned()),
                domains: vec!["code".to_owned(), "legal".to_owned()],
                tools: vec!["sed".to_owned()],
                metadata: Map::new(),
                openwop_agent: Some("acme.agents.a".parse().unwrap()),
                reached_by: None,
                keys: vec!["3f9c2ab81d4e5f60a7b8".to_owned()],
            }
        );
        let change = json!({"openwop_agent": "", "reached_by": {"transport": "command", "command": "clerk"}});
        Change::parse(&change).unwrap().apply(&mut profile);
        let reached_by = profile.reached_by.as_ref();
        assert_eq!(profile.openwop_agent, None);
        assert_eq!(reached_by.map(ReachedBy::provider), Some("command"));
        profile.check().unwrap();
        let change = Change::parse(&json!({"reached_by": null})).unwrap();
        change.apply(&mut profile);
        assert_eq!(profile.reached_by, None);
    }

    #[rstest]
    #[case("suspended", Ok(Some(Status::Suspended)))]
    #[case("archived", Ok(Some(Status::Archived)))]
    #[case("active", Ok(Some(Status::Active)))]
    #[case("enrolled", Err(()))]
    #[case("retired", Err(()))]
    fn a_status_is_set_by_name(#[case] status: &str, #[case] expected: Result<Option<Status>, ()>) {
        let read = Change::parse(&json!({"status": status}));
        assert_eq!(read.map(|it| it.status).map_err(drop), expected);
    }

    #[rstest]
    #[case("a.b", "a.b", true)]
    #[case("a.b", "a.b@1.0.0", true)]
    #[case("a.b@1.0.0", "a.b@1.0.0", true)]
    #[case("a.b@1.0.0", "a.b@2.0.0", false)]
    #[case("a.b", "a.c", false)]
    fn agent_references_overlap_if_a_run_could_match_both(
        #[case] one: &str,
        #[case] two: &str,
        #[case] both: bool,
    ) {
        let [one, two] = [one, two].map(|it| it.parse::<OpenwopAgent>().unwrap());
        assert_eq!((one.overlaps(&two), two.overlaps(&one)), (both, both));
    }
}
