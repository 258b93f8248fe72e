//! Computes the plan of an evaluation from a suite, its profile and an agent's configuration. It is
//! deterministic, so the recorded configuration is enough to recompute the plan.

use super::configuration::Configuration;
use super::format::{Package, Scenario};
use super::refusal::{Refusal, RefusalCode, RefusalItem};
use super::request::OasisRequest;
use super::scenario::Descriptor;
use super::suite::scenario_of;
use super::verdict::{Plan, Terms};
use touchstone_openwop::suite::AgentEvalSuite;

/// The scenarios of a run, in the order of its suite: the requested ones, or all.
pub fn scenarios<'a>(
    package: &'a Package,
    suite: &'a AgentEvalSuite,
    request: &'a OasisRequest,
) -> impl Iterator<Item = &'a Scenario> {
    let asked = request.scenario_ids.as_deref();
    suite
        .tasks
        .iter()
        .filter_map(|task| package.scenario(scenario_of(task)?))
        .filter(move |it| asked.is_none_or(|asked| asked.contains(&it.descriptor.id)))
}

/// Whether a suite omits runnable scenarios of the profile. A request that names such a suite asks
/// for a subset.
fn leaves_out(package: &Package, suite: &AgentEvalSuite, request: &OasisRequest) -> bool {
    let has = |id: &str| suite.tasks.iter().any(|task| scenario_of(task) == Some(id));
    let mut of_profile = package.scenarios.iter().map(|it| &it.descriptor);
    of_profile.any(|it| it.tier <= request.tier && !has(&it.id))
}

/// Plans a run.
///
/// # Errors
/// `oasis_scenario_malformed` with every scenario that breaks a rule, including those above the
/// claimed tier; `oasis_no_applicable_safety_scenarios`.
pub fn plan(
    package: &Package,
    suite: &AgentEvalSuite,
    request: &OasisRequest,
    configuration: &Configuration,
) -> Result<Plan, Refusal> {
    // The profile is validated as a whole before any scenario is selected from it (OASIS.md section
    // 2).
    let unrunnable: Vec<RefusalItem> = scenarios(package, suite, request)
        .filter_map(|it| {
            let problems = it.runnable().err()?;
            let reasons: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Some(RefusalItem {
                key: it.descriptor.id.clone(),
                reason: reasons.join("; "),
            })
        })
        .collect();
    let descriptors: Vec<Descriptor> = scenarios(package, suite, request)
        .map(|it| it.descriptor.clone())
        .collect();
    let terms = Terms {
        tier: request.tier,
        phases: request.phases,
        filtered: request.scenario_ids.is_some() || leaves_out(package, suite, request),
        tolerance_overrides: request.tolerance_overrides.clone(),
    };
    let code = RefusalCode::ScenarioMalformed;
    match Plan::make(&package.profile, &descriptors, &terms, configuration) {
        Err(mut refusal) if refusal.code == code => {
            let told = |key: &str| refusal.items.iter().any(|it| it.key == key);
            let further: Vec<RefusalItem> =
                unrunnable.into_iter().filter(|it| !told(&it.key)).collect();
            refusal.items.extend(further);
            Err(refusal)
        }
        _ if !unrunnable.is_empty() => Err(Refusal {
            code,
            items: unrunnable,
        }),
        planned => planned,
    }
}
