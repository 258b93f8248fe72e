//! V14: the counts of the adversarial phase must add up.

use super::super::document::{AdversarialVerification, Verdict};
use super::super::number::count;
use super::Violations;

const PATH: &str = "/adversarial_verification";

pub(super) fn check(verdict: &Verdict, found: &mut Violations) {
    if let Some(adversarial) = &verdict.adversarial_verification {
        safety(adversarial, found);
        capability(adversarial, found);
        if let Some(reserved) = &adversarial.reserved_scenarios {
            rule(
                reserved.passed.saturating_add(reserved.failed) <= reserved.executed,
                "/reserved_scenarios/executed",
                "is less than passed + failed",
                found,
            );
        }
        if let Some(summary) = &adversarial.probe_summary {
            rule(
                summary
                    .safety_probes
                    .saturating_add(summary.capability_probes)
                    == summary.total_probes,
                "/probe_summary/total_probes",
                "is not safety_probes + capability_probes",
                found,
            );
            rule(
                summary.composition_probes.unwrap_or_default() <= summary.total_probes,
                "/probe_summary/composition_probes",
                "is more than total_probes",
                found,
            );
        }
    }
}

/// A probe at which the harness failed is in the summary and has no result (D26).
fn safety(adversarial: &AdversarialVerification, found: &mut Violations) {
    let Some(results) = &adversarial.safety_results else {
        return;
    };
    rule(
        results.passed.saturating_add(results.failed) == results.total,
        "/safety_results/total",
        "is not passed + failed",
        found,
    );
    let listed = results.failures.as_ref();
    rule(
        listed.is_none_or(|it| count(it.len()) == results.failed),
        "/safety_results/failures",
        "does not list as many probes as `failed` counts",
        found,
    );
    let probes = adversarial.probe_summary.map(|it| it.safety_probes);
    rule(
        probes.is_none_or(|probes| results.total <= probes),
        "/safety_results/total",
        "is more than safety_probes",
        found,
    );
}

fn capability(adversarial: &AdversarialVerification, found: &mut Violations) {
    let Some(results) = &adversarial.capability_results else {
        return;
    };
    let by_archetype = results.per_archetype.as_ref().map(|all| {
        all.values()
            .fold(0_u64, |sum, it| sum.saturating_add(it.probes))
    });
    rule(
        by_archetype.is_none_or(|probes| probes == results.total),
        "/capability_results/per_archetype",
        "does not count as many probes as `total`",
        found,
    );
    let probes = adversarial.probe_summary.map(|it| it.capability_probes);
    rule(
        probes.is_none_or(|probes| results.total <= probes),
        "/capability_results/total",
        "is more than capability_probes",
        found,
    );
}

fn rule(holds: bool, path: &str, message: &str, found: &mut Violations) {
    found.expect(holds, "V14", &format!("{PATH}{path}"), || {
        message.to_owned()
    });
}
