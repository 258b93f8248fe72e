//! The request for an OASIS evaluation: `configurable.oasis` of a create request (OASIS.md section
//! 14).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};

const PATH: &str = "configurable.oasis";
const MAX_NAME: usize = 256;
const MAX_SCENARIOS: usize = 10_000;
const MAX_OVERRIDES: usize = 1_000;
/// Maximum number of probes in a run: each needs an environment and an agent invocation.
pub const MAX_PROBES: u64 = 1_000;
/// Maximum number of characters in a red-team file.
const MAX_RED_TEAM: usize = 1_000_000;

/// The phases to execute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phases {
    /// Safety, then capability if safety is a PASS.
    #[default]
    Both,
    /// Safety alone: the evaluation is incomplete.
    Safety,
}

/// A well-formed request for an OASIS evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisRequest {
    /// The profile's identifier.
    pub profile: String,
    /// The profile's exact version.
    pub profile_version: String,
    /// The claimed complexity tier, 1 to 3.
    pub tier: u8,
    /// The name of a provider configured on this host.
    pub provider: String,
    /// The evaluating person or organization, for the verdict.
    pub evaluator: String,
    #[serde(default)]
    pub phases: Phases,
    /// Execute only these scenarios: the evaluation is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario_ids: Option<Vec<String>>,
    /// The evaluating organization's tolerances, in percent by scenario.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tolerance_overrides: BTreeMap<String, f64>,
    /// Whether the run may pass although the evaluation is incomplete.
    #[serde(default)]
    pub allow_incomplete: bool,
    /// The adversarial phase, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversarial: Option<AdversarialRequest>,
}

/// The probes of the adversarial phase, in addition to the pack's reserved scenarios.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdversarialRequest {
    /// The seed for drawing mutations: the same seed produces the same probes.
    pub seed: u64,
    /// Number of mutations.
    pub mutations: u32,
    /// A red team's probes, as YAML. They are stored outside the run record: see
    /// [`red_team_digest`](Self::red_team_digest).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red_team: Option<String>,
    /// `sha256-<base64>` of the red team's file; the key of its blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red_team_digest: Option<String>,
}

/// An evaluation with its profile pinned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OasisSpec {
    #[serde(flatten)]
    pub request: OasisRequest,
    /// `sha256-<base64>` of the pack archive that contains the profile; the key of its blob.
    pub profile_pack: String,
}

impl OasisRequest {
    /// Reads `configurable.oasis`.
    ///
    /// # Errors
    /// `validation_error` naming the field.
    pub fn read(members: &Value) -> Result<Self, Problem> {
        const KNOWN: &[&str] = &[
            "profile",
            "profileVersion",
            "tier",
            "provider",
            "evaluator",
            "phases",
            "scenarioIds",
            "toleranceOverrides",
            "allowIncomplete",
            "adversarial",
        ];
        let fields = Fields::closed(members, PATH, KNOWN, Nulls::Wrong)?;
        let required = |name: &str| {
            let text = fields.text_of(name, 1..=MAX_NAME)?;
            text.map(str::to_owned)
                .ok_or_else(|| fields.invalid(name, "is required"))
        };
        let provider = required("provider")?;
        if provider.contains("://") {
            return Err(fields.invalid(
                "provider",
                "must be the name of a provider configured on this host (`[[oasis.providers]]`), not an address",
            ));
        }
        Ok(Self {
            profile: required("profile")?,
            profile_version: required("profileVersion")?,
            tier: fields
                .whole("tier", 1)?
                .and_then(|tier| u8::try_from(tier).ok())
                .filter(|tier| (1..=3).contains(tier))
                .ok_or_else(|| fields.invalid("tier", "is required and must be 1, 2 or 3"))?,
            provider,
            // If the request names no evaluator, the host's default may apply.
            evaluator: fields
                .text_of("evaluator", 1..=MAX_NAME)?
                .unwrap_or_default()
                .to_owned(),
            phases: match fields.text("phases")? {
                None | Some("both") => Phases::Both,
                Some("safety") => Phases::Safety,
                Some(_) => return Err(fields.invalid("phases", "must be \"both\" or \"safety\"")),
            },
            scenario_ids: match fields.texts("scenarioIds", MAX_SCENARIOS, MAX_NAME)? {
                Some(ids) if ids.is_empty() => {
                    return Err(fields.invalid(
                        "scenarioIds",
                        "must not be empty; omit it to run all scenarios",
                    ));
                }
                ids => ids,
            },
            tolerance_overrides: overrides(&fields)?,
            allow_incomplete: fields.boolean("allowIncomplete")?.unwrap_or(false),
            adversarial: fields
                .get("adversarial")
                .map(AdversarialRequest::read)
                .transpose()?,
        })
    }
}

impl AdversarialRequest {
    fn read(members: &Value) -> Result<Self, Problem> {
        const KNOWN: &[&str] = &["seed", "mutations", "redTeam"];
        let fields = Fields::closed(
            members,
            "configurable.oasis.adversarial",
            KNOWN,
            Nulls::Wrong,
        )?;
        Ok(Self {
            seed: fields.whole("seed", 0)?.unwrap_or(0),
            mutations: fields
                .whole("mutations", 0)?
                .map_or(Some(0), |count| {
                    u32::try_from(count).ok().filter(|_| count <= MAX_PROBES)
                })
                .ok_or_else(|| {
                    fields.invalid("mutations", &format!("must be at most {MAX_PROBES}"))
                })?,
            red_team: fields
                .text_of("redTeam", 1..=MAX_RED_TEAM)?
                .map(str::to_owned),
            red_team_digest: None,
        })
    }
}

fn overrides(fields: &Fields<'_>) -> Result<BTreeMap<String, f64>, Problem> {
    let name = "toleranceOverrides";
    let shape = || {
        let shape = format!(
            "must be an object of at most {MAX_OVERRIDES} numbers from 0 to 100, by scenario id"
        );
        fields.invalid(name, &shape)
    };
    let members = fields.object(name)?.unwrap_or_default();
    if members.len() > MAX_OVERRIDES {
        return Err(shape());
    }
    members
        .into_iter()
        .map(|(id, value)| {
            let percent = value.as_f64().filter(|it| (0.0..=100.0).contains(it));
            percent.map(|percent| (id, percent)).ok_or_else(shape)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn request() -> Value {
        json!({"profile": "oasis-profile-x", "profileVersion": "0.1.0", "tier": 2, "provider": "lab", "evaluator": "QA"})
    }

    #[test]
    fn a_minimal_request_runs_both_phases_on_all_scenarios() {
        let read = OasisRequest::read(&request()).unwrap();
        assert_eq!(read.phases, Phases::Both);
        assert!(
            !read.allow_incomplete && read.scenario_ids.is_none() && read.adversarial.is_none()
        );
    }

    #[rstest]
    #[case("profile", json!(null), "configurable.oasis.profile")]
    #[case("tier", json!(4), "configurable.oasis.tier")]
    #[case("tier", json!("2"), "configurable.oasis.tier")]
    #[case("provider", json!("http://10.0.0.1/"), "configurable.oasis.provider")]
    #[case("phases", json!("capability"), "configurable.oasis.phases")]
    #[case("scenarioIds", json!([]), "configurable.oasis.scenarioIds")]
    #[case("toleranceOverrides", json!({"a": 101}), "configurable.oasis.toleranceOverrides")]
    #[case("toleranceOverrides", json!({"a": "5"}), "configurable.oasis.toleranceOverrides")]
    #[case("url", json!("x"), "configurable.oasis.url")]
    #[case("adversarial", json!({"mutations": 1001}), "configurable.oasis.adversarial.mutations")]
    #[case("adversarial", json!({"probes": 1}), "configurable.oasis.adversarial.probes")]
    fn invalid_request_values_are_rejected_by_field(
        #[case] member: &str,
        #[case] value: Value,
        #[case] field: &str,
    ) {
        let mut request = request();
        request[member] = value;
        let refused = OasisRequest::read(&request).unwrap_err();
        assert_eq!(refused.details["field"], field, "{refused}");
    }

    #[test]
    fn a_pinned_request_survives_serialization() {
        let mut body = request();
        body["toleranceOverrides"] = json!({"a": 5});
        body["adversarial"] = json!({"seed": 7, "mutations": 3});
        let spec = OasisSpec {
            request: OasisRequest::read(&body).unwrap(),
            profile_pack: "sha256-x".to_owned(),
        };
        let again = serde_json::from_value(serde_json::to_value(&spec).unwrap()).unwrap();
        assert_eq!(spec, again);
    }
}
