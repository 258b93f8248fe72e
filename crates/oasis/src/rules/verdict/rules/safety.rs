//! V1 to V7 and V12: the members of `safety_details` must be consistent.

use std::collections::BTreeSet;

use super::super::document::Verdict;
use super::super::number::count;
use super::{Violations, aborted_in_phase_1, escaped};

pub(super) fn check(verdict: &Verdict, found: &mut Violations) {
    counts(verdict, found);
    lists(verdict, found);
    human_review(verdict, found);
    subcategories(verdict, found);
}

fn counts(verdict: &Verdict, found: &mut Violations) {
    let details = &verdict.safety_details;
    found.expect(
        sum(&[details.applicable, details.not_applicable]) == details.total_scenarios,
        "V1",
        "/safety_details/total_scenarios",
        || "is not applicable + not_applicable".to_owned(),
    );
    let executed = sum(&[details.passed, details.failed, details.provider_failure]);
    let may_fall_short = aborted_in_phase_1(verdict);
    found.expect(
        executed <= details.applicable,
        "V2",
        "/safety_details/applicable",
        || format!("is less than passed + failed + provider_failure, {executed}"),
    );
    found.expect(
        executed >= details.applicable || may_fall_short,
        "V2",
        "/safety_details/applicable",
        || {
            format!(
                "is more than passed + failed + provider_failure, {executed}, although no fault ended phase 1"
            )
        },
    );
    found.expect(
        verdict.metadata.scenario_count.safety == executed,
        "V12",
        "/metadata/scenario_count/safety",
        || format!("is not passed + failed + provider_failure, {executed}"),
    );
}

fn lists(verdict: &Verdict, found: &mut Violations) {
    let details = &verdict.safety_details;
    let failures = details.failures.iter().map(|it| it.scenario_id.as_str());
    found.expect(
        lists_exactly(failures, details.failed),
        "V3",
        "/safety_details/failures",
        || {
            format!(
                "does not list {} different scenarios, as `failed` counts",
                details.failed
            )
        },
    );
    let in_phase_1 = details
        .provider_failures
        .iter()
        .filter(|it| !it.in_phase_2());
    found.expect(
        count(in_phase_1.count()) == details.provider_failure,
        "V4",
        "/safety_details/provider_failures",
        || {
            format!(
                "does not list {} safety scenarios, as `provider_failure` counts",
                details.provider_failure
            )
        },
    );
}

fn human_review(verdict: &Verdict, found: &mut Violations) {
    const PATH: &str = "/safety_details/human_review";
    let details = &verdict.safety_details;
    let review = details.human_review.as_deref().unwrap_or_default();
    let ids = review.iter().map(|it| it.scenario_id.as_str());
    found.expect(
        lists_exactly(ids, details.tolerance_adjusted),
        "V5",
        PATH,
        || {
            format!(
                "does not list {} different scenarios, as `tolerance_adjusted` counts",
                details.tolerance_adjusted
            )
        },
    );
    found.expect(
        details.tolerance_adjusted <= details.passed,
        "V5",
        "/safety_details/tolerance_adjusted",
        || "is more than `passed`".to_owned(),
    );
    for (place, entry) in review.iter().enumerate() {
        let path = format!("{PATH}/{place}");
        let failed = details
            .failures
            .iter()
            .any(|it| it.scenario_id == entry.scenario_id);
        found.expect(!failed, "V5", &path, || {
            "is also listed as a failure".to_owned()
        });
        found.expect(
            entry.measured_deviation <= entry.tolerance,
            "V6",
            &format!("{path}/measured_deviation"),
            || format!("is above the tolerance, {}", entry.tolerance),
        );
    }
}

fn subcategories(verdict: &Verdict, found: &mut Violations) {
    const PATH: &str = "/safety_details/subcategory_results";
    let details = &verdict.safety_details;
    let may_fall_short = aborted_in_phase_1(verdict);
    let mut sums = [0_u64; 4];
    for (category, subcategories) in details.subcategory_results.iter().flatten() {
        for (name, result) in subcategories {
            let executed = sum(&[result.passed, result.failed, result.provider_failure]);
            let fits = executed == result.total || (executed < result.total && may_fall_short);
            let path = format!("{PATH}/{}/{}", escaped(category), escaped(name));
            found.expect(fits, "V7", &path, || {
                format!(
                    "has {executed} executed scenarios, which does not match its total of {}",
                    result.total
                )
            });
            let counts = [
                result.total,
                result.passed,
                result.failed,
                result.provider_failure,
            ];
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(count);
            }
        }
    }
    let tops = [
        ("applicable", details.applicable),
        ("passed", details.passed),
        ("failed", details.failed),
        ("provider_failure", details.provider_failure),
    ];
    for (sum, (name, top)) in sums.into_iter().zip(tops) {
        found.expect(sum <= top, "V7", PATH, || {
            format!("counts {sum} scenarios, but `{name}` counts {top}")
        });
    }
}

/// Whether there are as many entries as counted, without duplicates.
fn lists_exactly<'a>(ids: impl Iterator<Item = &'a str>, counted: u64) -> bool {
    let ids: Vec<&str> = ids.collect();
    let different: BTreeSet<&str> = ids.iter().copied().collect();
    count(ids.len()) == counted && different.len() == ids.len()
}

/// A saturating sum, because the counts come from documents of any origin.
fn sum(counts: &[u64]) -> u64 {
    counts
        .iter()
        .fold(0, |sum, count| sum.saturating_add(*count))
}
