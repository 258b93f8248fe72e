//! A table of answers with their gaps.

use rstest::rstest;
use serde_json::json;

use super::*;

fn profile() -> Profile {
    serde_json::from_value(json!({
        "identifier": "oasis-profile-till", "name": "Till", "version": "1.0.0",
        "oasis_core_dependency": ">=1.0.0-rc1.5",
        "agent_configuration_schema": {"dimensions": []},
        "safety_categories": [], "capability_scoring": {"categories": []}, "minimum_coverage": {}
    }))
    .unwrap()
}

fn requirements() -> Requirements {
    serde_json::from_value(json!({
        "kind": {"type": "string", "required": true, "expected": "till"},
        "tier": {"type": "integer", "required": true, "expected": {"comparison_operator": "gte", "value": "requested"}},
        "core": {"type": "semver_list", "required": true, "expected": ">=1.0.0-rc1.5"},
        "sources": {"type": "array", "required": true, "expected": ["audit_log", "resource_state"]},
        "injection": {"type": "boolean", "required": true, "expected": true},
        "replay": {"type": "boolean", "required": false, "expected": true}
    }))
    .unwrap()
}

fn answer() -> Value {
    json!({
        "provider": "p", "provider_version": "1.0.0", "oasis_core_spec_versions": ["1.0.0-rc1.5"],
        "profile": "oasis-profile-till", "profile_version": "1.0.0", "supported": true,
        "requirements": {
            "kind": "till", "tier": 2, "core": ["0.9.0", "1.0.0-rc1.10"],
            "sources": ["state_diff", "resource_state", "audit_log"], "injection": true
        },
        "unmet_requirements": []
    })
}

fn gaps(answer: &Value) -> Vec<String> {
    let preflight = Preflight::of(&profile(), &requirements(), 2, answer);
    assert_eq!(preflight.refusal().is_some(), !preflight.gaps.is_empty());
    preflight.gaps.into_iter().map(|it| it.key).collect()
}

#[rstest]
#[case("/supported", json!(true), &[])]
#[case("/requirements/tier", json!(3), &[])]
#[case("/requirements/tier", json!(2.0), &[])]
#[case("/requirements/replay", json!(true), &[])]
#[case("/unmet_requirements", json!(null), &[])]
#[case("/oasis_core_spec_versions", json!(["0.1.0", "1.0.0-rc1.6"]), &[])]
#[case("/oasis_core_spec_versions", json!(["1.0.0-rc1.4", "2.0.0"]), &["oasis_core_spec_versions"])]
#[case("/oasis_core_spec_versions", json!([]), &["oasis_core_spec_versions"])]
#[case("/oasis_core_spec_versions", json!("1.0.0-rc1.5"), &["oasis_core_spec_versions"])]
#[case("/profile", json!("oasis-profile-Till"), &["profile"])]
#[case("/profile", json!(null), &["profile"])]
#[case("/profile_version", json!("1.0.0+1"), &["profile_version"])]
#[case("/requirements/kind", json!("desk"), &["kind"])]
#[case("/requirements/kind", json!(["till"]), &["kind"])]
#[case("/requirements/kind", json!(null), &["kind"])]
#[case("/requirements/tier", json!(1), &["tier"])]
#[case("/requirements/tier", json!("2"), &["tier"])]
#[case("/requirements/tier", json!(2.5), &["tier"])]
#[case("/requirements/core", json!(["1.0.0-rc1.4"]), &["core"])]
#[case("/requirements/core", json!("1.0.0-rc1.5"), &["core"])]
#[case("/requirements/sources", json!(["audit_log"]), &["sources"])]
#[case("/requirements/sources", json!("audit_log"), &["sources"])]
#[case("/requirements/injection", json!("true"), &["injection"])]
#[case("/requirements/injection", json!(false), &["injection"])]
#[case("/requirements/replay", json!(false), &["replay"])]
#[case("/requirements/replay", json!("yes"), &["replay"])]
#[case("/requirements", json!(null), &["core", "injection", "kind", "sources", "tier"])]
#[case("/unmet_requirements", json!([{"requirement": "injection", "reason": "broken"}]), &["injection"])]
#[case("/unmet_requirements", json!([{"requirement": "other"}]), &["other"])]
#[case("/unmet_requirements", json!("all"), &["unmet_requirements"])]
#[case("/supported", json!(false), &["supported"])]
#[case("/supported", json!("true"), &["supported"])]
#[case("/supported", json!(null), &["supported"])]
fn gaps_in_a_provider_response_are_found(
    #[case] place: &str,
    #[case] value: Value,
    #[case] expected: &[&str],
) {
    let mut answer = answer();
    match answer.pointer_mut(place) {
        Some(member) => *member = value,
        None => answer["requirements"]["replay"] = value,
    }
    assert_eq!(gaps(&answer), expected);
}

#[test]
fn all_gaps_are_named_together() {
    let mut answer = answer();
    answer["profile"] = json!("x");
    answer["requirements"]["tier"] = json!(1);
    answer["unmet_requirements"] = json!([{"requirement": "sources", "reason": "no reader"}]);
    answer["supported"] = json!(false);
    assert_eq!(gaps(&answer), ["profile", "tier", "sources"]);
}

#[test]
fn an_unsupported_response_with_a_gap_adds_no_further_item() {
    let mut answer = answer();
    answer["supported"] = json!(false);
    answer["requirements"]["tier"] = json!(1);
    assert_eq!(gaps(&answer), ["tier"]);
}

#[test]
fn a_gap_includes_the_reason_given_by_the_provider() {
    let mut answer = answer();
    answer["requirements"]["tier"] = json!(1);
    answer["unmet_requirements"] = json!([{"requirement": "tier", "reason": "one machine only"}]);
    let preflight = Preflight::of(&profile(), &requirements(), 2, &answer);
    assert_eq!(preflight.gaps.len(), 1);
    let reason = &preflight.gaps[0].reason;
    assert!(
        reason.contains("at least 2") && reason.contains("one machine only"),
        "{reason}"
    );
}

#[test]
fn a_requirement_the_provider_calls_unmet_is_not_satisfied() {
    let mut answer = answer();
    answer["unmet_requirements"] = json!([{"requirement": "injection", "reason": "broken"}]);
    let preflight = Preflight::of(&profile(), &requirements(), 2, &answer);
    let unsatisfied: Vec<&str> = preflight
        .requirements
        .iter()
        .filter(|it| !it.satisfied)
        .map(|it| it.key.as_str())
        .collect();
    assert_eq!(unsatisfied, ["injection"]);
}

#[test]
fn an_invalid_conformance_response_is_a_gap_of_the_endpoint() {
    assert_eq!(gaps(&json!([])), [ENDPOINT]);
    let preflight = Preflight::unanswered(&requirements(), "HTTP 503");
    assert_eq!(preflight.gaps[0].key, ENDPOINT);
    assert!(preflight.requirements.iter().all(|it| !it.satisfied));
}

#[rstest]
#[case(json!({"type": "string", "required": true, "expected": "till"}), Some("till"))]
#[case(json!({"type": "string", "required": true}), None)]
#[case(json!({"type": "string", "expected": "till"}), None)]
#[case(json!({"type": "array", "required": true, "expected": ["till"]}), None)]
fn a_required_environment_type_is_binding(
    #[case] requirement: Value,
    #[case] expected: Option<&str>,
) {
    let requirements: Requirements =
        serde_json::from_value(json!({"environment_type": requirement})).unwrap();
    assert_eq!(environment_type(&requirements), expected);
}

#[test]
fn a_contract_without_an_environment_type_accepts_any() {
    assert_eq!(environment_type(&requirements()), None);
}
