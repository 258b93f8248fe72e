//! Agents as they are enrolled for assessment (AAAF S14): what they are called, and what they claim.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::organization::named;
use crate::domain::fields::{Fields, Nulls};
use crate::protocol::error::Problem;

const FIELDS: &[&str] = &["name", "description", "version", "domains", "tools"];
const MAX_NAME: usize = 200;
const MAX_DESCRIPTION: usize = 2000;
const MAX_VERSION: usize = 64;
const MAX_DOMAINS: usize = 50;
const MAX_TOOLS: usize = 200;
const MAX_LABEL: usize = 128;

/// What an agent says of itself. The first domain is its primary one; stress tests call the tools it registers (AAAF S7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which version of it is assessed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Domains it claims, the primary one first.
    pub domains: Vec<String>,
    /// Tools it works with.
    pub tools: Vec<String>,
}

/// An agent to be enrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// What it is called; of one name an organization has one agent.
    pub name: String,
    /// What it says of itself.
    pub profile: Profile,
}

impl Enrolment {
    /// Reads the body of `POST agents`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let change = Change::parse(body)?;
        let required = || Problem::validation("name", "`name` is required");
        let mut profile = Profile::default();
        change.apply(&mut profile);
        Ok(Self {
            name: change.name.ok_or_else(required)?,
            profile,
        })
    }
}

/// What is to become different; a member that is not there stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Another name.
    pub name: Option<String>,
    description: Option<String>,
    version: Option<String>,
    domains: Option<Vec<String>>,
    tools: Option<Vec<String>>,
}

impl Change {
    /// Reads the body of `PATCH agents/{id}`.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(body: &Value) -> Result<Self, Problem> {
        let fields = Fields::closed(body, "", FIELDS, Nulls::Wrong)?;
        let text = |name, most| -> Result<Option<String>, Problem> {
            Ok(fields.text_of(name, 0..=most)?.map(str::to_owned))
        };
        Ok(Self {
            name: named(&fields, MAX_NAME)?,
            description: text("description", MAX_DESCRIPTION)?,
            version: text("version", MAX_VERSION)?,
            domains: labels(&fields, "domains", MAX_DOMAINS)?,
            tools: labels(&fields, "tools", MAX_TOOLS)?,
        })
    }

    /// The profile as it is then.
    pub fn apply(&self, profile: &mut Profile) {
        // An empty text takes away what was said.
        let said = |text: &String| (!text.is_empty()).then(|| text.clone());
        if let Some(description) = &self.description {
            profile.description = said(description);
        }
        if let Some(version) = &self.version {
            profile.version = said(version);
        }
        if let Some(domains) = &self.domains {
            profile.domains.clone_from(domains);
        }
        if let Some(tools) = &self.tools {
            profile.tools.clone_from(tools);
        }
    }
}

/// Names, each once.
fn labels(fields: &Fields<'_>, name: &str, most: usize) -> Result<Option<Vec<String>>, Problem> {
    let labels = fields.texts(name, most, MAX_LABEL)?;
    let mut seen = std::collections::BTreeSet::new();
    match labels.iter().flatten().find(|label| !seen.insert(*label)) {
        Some(_) => Err(fields.invalid(name, "must not hold the same name twice")),
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
    #[case(json!({"name": "triage", "id": "x"}), Some("id"))]
    #[case(json!([]), Some(""))]
    fn what_is_unsound_about_an_agent_is_named(#[case] body: Value, #[case] field: Option<&str>) {
        let refused = Enrolment::parse(&body).err();
        let named = refused.map(|problem| problem.details["field"].as_str().unwrap().to_owned());
        assert_eq!(named.as_deref(), field);
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let enrolled = json!({"name": "a", "description": "d", "version": "1", "domains": ["code", "legal"], "tools": ["grep"]});
        let mut profile = Enrolment::parse(&enrolled).unwrap().profile;
        let change = Change::parse(&json!({"description": "", "tools": ["sed"]})).unwrap();
        change.apply(&mut profile);
        assert_eq!(change.name, None);
        assert_eq!(
            profile,
            Profile {
                description: None,
                version: Some("1".to_owned()),
                domains: vec!["code".to_owned(), "legal".to_owned()],
                tools: vec!["sed".to_owned()],
            }
        );
    }
}
