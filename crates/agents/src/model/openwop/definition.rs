//! The workflow definition of another host: the identity and configuration of the agent behind it
//! (OpenWOP workflow-definition).

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The members of a workflow definition that describe an agent.
#[derive(Deserialize)]
struct Definition {
    id: String,
    name: String,
    version: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    custom_properties: CustomProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CustomProperties {
    oasis_configuration: Option<Map<String, Value>>,
}

/// The report of the agent behind `workflow`: its name and version, if the version is a semantic
/// version, and the configuration that its author put into
/// `metadata.customProperties.oasisConfiguration`.
pub fn report(document: &[u8], workflow: &str) -> Option<Value> {
    let found: Definition = serde_json::from_slice(document).ok()?;
    let is_told = !found.name.is_empty() && semver::Version::parse(&found.version).is_ok();
    if found.id != workflow || !is_told {
        return None;
    }
    let mut report = json!({"identity": {"name": found.name, "version": found.version}});
    if let (Some(members), Some(configuration)) = (
        report.as_object_mut(),
        found.metadata.custom_properties.oasis_configuration,
    ) {
        members.insert("configuration".to_owned(), Value::Object(configuration));
    }
    Some(report)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({"id": "triage", "name": "clerk", "version": "1.2.0", "nodes": []}), true)]
    #[case(json!({"id": "other", "name": "clerk", "version": "1.2.0"}), false)]
    #[case(json!({"id": "triage", "name": "clerk", "version": "1.0"}), false)]
    #[case(json!({"id": "triage", "name": "", "version": "1.2.0"}), false)]
    #[case(json!({"id": "triage", "version": "1.2.0"}), false)]
    #[case(json!("none"), false)]
    fn an_agents_identity_is_read_from_its_workflow_definition(
        #[case] definition: Value,
        #[case] is_told: bool,
    ) {
        let told = report(definition.to_string().as_bytes(), "triage");
        let expected = json!({"identity": {"name": "clerk", "version": "1.2.0"}});
        assert_eq!(told, is_told.then_some(expected));
    }

    #[test]
    fn an_agents_configuration_is_read_from_its_workflow_definition() {
        let definition = json!({"id": "triage", "name": "clerk", "version": "1.2.0",
            "metadata": {"tags": [], "customProperties": {"team": "x", "oasisConfiguration": {"writing": "never"}}}});
        let told = report(definition.to_string().as_bytes(), "triage").unwrap();
        assert_eq!(told["configuration"], json!({"writing": "never"}));
    }
}
