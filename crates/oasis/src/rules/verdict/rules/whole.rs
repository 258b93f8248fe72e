//! V8 to V11, V13, V15 and V16: the blocks of a verdict must be consistent with each other.

use serde_json::Value;

use super::super::super::profile::CoreDimension;
use super::super::document::Verdict;
use super::{Violation, Violations, aborted_in_phase_2, escaped, violation};

pub(super) fn check(verdict: &Verdict, found: &mut Violations) {
    capability(verdict, found);
    configuration_coverage(verdict, found);
    abort(verdict, found);
}

fn capability(verdict: &Verdict, found: &mut Violations) {
    let counted = verdict.metadata.scenario_count.capability;
    let Some(capability) = &verdict.capability else {
        found.expect(
            counted == 0 || aborted_in_phase_2(verdict),
            "V13",
            "/metadata/scenario_count/capability",
            || "counts scored scenarios, but the verdict has no capability block and no fault ended phase 2".to_owned(),
        );
        return;
    };
    found.expect(
        capability.tier == verdict.metadata.environment.tier,
        "V8",
        "/capability/tier",
        || "is not the tier of the environment".to_owned(),
    );
    let coverage = &capability.coverage;
    found.expect(
        !coverage.complete || coverage.evaluated_archetypes >= coverage.required_archetypes,
        "V11",
        "/capability/coverage/complete",
        || "is true, but fewer archetypes were evaluated than are required".to_owned(),
    );
}

fn configuration_coverage(verdict: &Verdict, found: &mut Violations) {
    const PATH: &str = "/metadata/configuration_coverage";
    let coverage = &verdict.metadata.configuration_coverage;
    let details = &verdict.safety_details;
    found.expect(
        coverage.applicable.saturating_add(coverage.not_applicable) == coverage.total_scenarios,
        "V9",
        &format!("{PATH}/total_scenarios"),
        || "is not applicable + not_applicable".to_owned(),
    );
    let by_category = coverage
        .not_applicable_by_category
        .values()
        .fold(0_u64, |sum, count| sum.saturating_add(*count));
    found.expect(
        by_category == coverage.not_applicable,
        "V9",
        &format!("{PATH}/not_applicable_by_category"),
        || {
            format!(
                "counts {by_category} scenarios, but not_applicable counts {}",
                coverage.not_applicable
            )
        },
    );
    for (name, whole, part) in [
        (
            "total_scenarios",
            coverage.total_scenarios,
            details.total_scenarios,
        ),
        ("applicable", coverage.applicable, details.applicable),
        (
            "not_applicable",
            coverage.not_applicable,
            details.not_applicable,
        ),
    ] {
        found.expect(whole >= part, "V10", &format!("{PATH}/{name}"), || {
            format!("is less than the count of the safety scenarios alone, {part}")
        });
    }
}

fn abort(verdict: &Verdict, found: &mut Violations) {
    let Some(reason) = &verdict.metadata.abort_reason else {
        return;
    };
    let listed = &verdict.safety_details.provider_failures;
    found.expect(
        listed.iter().any(|it| reason.contains(&it.scenario_id)),
        "V15",
        "/metadata/abort_reason",
        || "names none of the scenarios in provider_failures".to_owned(),
    );
}

/// V16, for a document that violates the schema; the schema allows no other dimensions.
pub(super) fn unknown_dimensions(document: &Value) -> Vec<Violation> {
    let Some(capability) = document.pointer("/verdict/capability") else {
        return Vec::new();
    };
    let scored = capability["core_dimensions"]
        .as_object()
        .into_iter()
        .flatten();
    let scored = scored.map(|(name, _)| (name.as_str(), "core_dimensions".to_owned()));
    let categories = capability["domain_categories"]
        .as_object()
        .into_iter()
        .flatten();
    let mapped = categories.flat_map(|(category, found)| {
        let path = format!("domain_categories/{}/maps_to_dimensions", escaped(category));
        let all = found["maps_to_dimensions"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str)
            .map(move |name| (name, path.clone()))
    });
    scored
        .chain(mapped)
        .filter(|(name, _)| !is_dimension(name))
        .map(|(name, path)| {
            let message = format!("`{name}` is not a core dimension");
            violation("V16", format!("/verdict/capability/{path}"), message)
        })
        .collect()
}

fn is_dimension(name: &str) -> bool {
    let name = Value::String(name.to_owned());
    serde_json::from_value::<CoreDimension>(name).is_ok()
}
