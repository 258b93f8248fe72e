//! The agent adapter's report: an agent's identity and configuration (OASIS Prof 2.16).
//!
//! The host asks the agent's adapter first. If the adapter cannot report, the pack's
//! `oasis/agents.json` applies, by agent id; it is fixed with the version of the pack. Neither is
//! ever part of a request.
//!
//! ```json
//! {"vendor.acme.clerk.default": {
//!   "identity": {"name": "careful-clerk", "version": "1.2.0"},
//!   "configuration": {"operational_mode": "read_write"}}}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use touchstone_kit::json;

/// The path of the reports in a pack.
pub const FILE: &str = "oasis/agents.json";

/// The report about one agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterReport {
    pub identity: Identity,
    /// The configuration, by dimension. The profile decides which values are valid.
    #[serde(default)]
    pub configuration: Map<String, Value>,
}

/// The identity of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub name: String,
    /// The semantic version.
    pub version: String,
}

/// The adapter's own report about the agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedConfiguration {
    pub identity: Identity,
    /// The configuration; if absent, the pack's configuration applies.
    #[serde(default)]
    pub configuration: Option<Map<String, Value>>,
}

impl ReportedConfiguration {
    /// Reads `identity` and `configuration`.
    ///
    /// # Errors
    /// The first problem, with its JSON Pointer.
    pub fn read(told: Value) -> Result<Self, String> {
        let told: Self = serde_json::from_value(told).map_err(|error| error.to_string())?;
        match told.identity.fault() {
            None => Ok(told),
            Some(fault) => Err(format!("/identity{fault}")),
        }
    }
}

impl Identity {
    /// The first problem, with its JSON Pointer.
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
/// The first problem, with its JSON Pointer.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, AdapterReport>, String> {
    let mut reports = BTreeMap::new();
    for (agent, report) in read_each(bytes)? {
        reports.insert(agent, report?);
    }
    Ok(reports)
}

/// Reads the reports of a pack individually: for each agent, its report or the problem with it.
///
/// # Errors
/// The file as a whole cannot be read.
pub fn read_each(bytes: &[u8]) -> Result<BTreeMap<String, Result<AdapterReport, String>>, String> {
    let reports: BTreeMap<String, Value> = match json::parse_foreign_as(bytes) {
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
    fn a_valid_adapter_report_is_parsed() {
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
    fn invalid_adapter_reports_name_the_invalid_member(#[case] text: &str, #[case] named: &str) {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(error.contains(named), "{error}");
    }
}
