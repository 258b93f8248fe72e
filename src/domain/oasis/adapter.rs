//! The agent adapter's report: who an agent is and how it is configured (OASIS Prof 2.16).
//!
//! What answers for the agent is asked first; where it cannot say, its pack does: `oasis/agents.json`, by agent id. That is fixed
//! with the version of the pack. Neither is ever part of a request.
//!
//! ```json
//! {"vendor.acme.clerk.default": {
//!   "identity": {"name": "careful-clerk", "version": "1.2.0"},
//!   "configuration": {"operational_mode": "read_write"}}}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::protocol::json;

/// Where the reports lie in a pack.
pub const FILE: &str = "oasis/agents.json";

/// What one agent reports.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterReport {
    /// Who it is.
    pub identity: Identity,
    /// How it is configured, by dimension. What of it is sound is for the profile to say.
    #[serde(default)]
    pub configuration: Map<String, Value>,
}

/// Who an agent is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its semantic version.
    pub version: String,
}

/// What answers for an agent says of it when it is asked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// Who it is.
    pub identity: Identity,
    /// How it is configured; absent if it cannot say, and then its pack does.
    #[serde(default)]
    pub configuration: Option<Map<String, Value>>,
}

impl Told {
    /// Reads `identity` and `configuration`.
    ///
    /// # Errors
    /// What is wrong, with its place.
    pub fn read(told: Value) -> Result<Self, String> {
        let told: Self = serde_json::from_value(told).map_err(|error| error.to_string())?;
        match told.identity.fault() {
            None => Ok(told),
            Some(fault) => Err(format!("/identity{fault}")),
        }
    }
}

impl Identity {
    /// What is wrong with it, with its place.
    fn fault(&self) -> Option<&'static str> {
        if self.name.is_empty() {
            return Some("/name: must not be empty");
        }
        let version = semver::Version::parse(&self.version);
        version
            .err()
            .map(|_| "/version: must be a semantic version such as 1.2.0")
    }
}

/// Reads the reports of a pack.
///
/// # Errors
/// What is wrong, with its place.
pub fn read(octets: &[u8]) -> Result<BTreeMap<String, AdapterReport>, String> {
    let mut reports = BTreeMap::new();
    for (agent, report) in read_each(octets)? {
        reports.insert(agent, report?);
    }
    Ok(reports)
}

/// Reads the reports of a pack one by one: each, or what is wrong with it, by agent.
///
/// # Errors
/// What keeps all of them from being read.
pub fn read_each(octets: &[u8]) -> Result<BTreeMap<String, Result<AdapterReport, String>>, String> {
    let reports: BTreeMap<String, Value> = match json::parse_foreign_as(octets) {
        Ok(Ok(reports)) => reports,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(error) => return Err(error.to_string()),
    };
    let read_one = |(agent, report): (String, Value)| {
        let read = match serde_json::from_value::<AdapterReport>(report) {
            Err(error) => Err(format!("/{agent}: {error}")),
            Ok(report) => match report.identity.fault() {
                Some(fault) => Err(format!("/{agent}/identity{fault}")),
                None => Ok(report),
            },
        };
        (agent, read)
    };
    Ok(reports.into_iter().map(read_one).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_report_is_read() {
        let read = read(br#"{"a.b.c": {"identity": {"name": "clerk", "version": "1.2.0"}, "configuration": {"m": true}}}"#).unwrap();
        assert_eq!(read["a.b.c"].configuration["m"], Value::Bool(true));
    }

    #[test]
    fn a_report_that_would_fill_the_memory_is_refused() {
        let values = r#"{"a":0},"#.repeat(100_000);
        let text = format!(
            r#"{{"a.b.c": {{"identity": {{"name": "clerk", "version": "1.2.0"}}, "configuration": {{"m": [{values}0]}}}}}}"#
        );
        let error = read(text.as_bytes()).unwrap_err();
        assert!(error.contains("too many values"), "{error}");
    }

    #[rstest]
    #[case(
        r#"{"a": {"identity": {"name": "", "version": "1.2.0"}}}"#,
        "/a/identity/name"
    )]
    #[case(
        r#"{"a": {"identity": {"name": "x", "version": "1.2"}}}"#,
        "/a/identity/version"
    )]
    #[case(
        r#"{"a": {"identity": {"name": "x", "version": "1.2.0"}, "config": {}}}"#,
        "config"
    )]
    #[case(r#"{"a": {}, "a": {}}"#, "same member twice")]
    fn what_is_wrong_is_named(#[case] text: &str, #[case] named: &str) {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(error.contains(named), "{error}");
    }
}
