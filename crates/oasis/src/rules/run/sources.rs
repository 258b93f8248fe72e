//! Builds the facts of a report from the recorded sources: the log, the stored evidence and the
//! profile of the pack.

use std::collections::{BTreeMap, BTreeSet};

use super::evaluated::evaluated;
use super::facts::OasisFacts;
use crate::rules::evaluated::IdentitySource;
use crate::rules::format::Package;
use crate::rules::outcome::Outcome;
use crate::rules::planning;
use crate::rules::probes;
use crate::rules::probes::ProbeOrigin;
use crate::rules::report::facts::{
    AdversarialFacts, Facts, Implementation, Preflight, Probe, ProfileFacts, Requirement, Run,
    ScenarioFacts, State,
};
use crate::rules::request::{OasisRequest, OasisSpec, Phases};
use crate::rules::scenario::Descriptor;
use crate::rules::stored::StoredEvidence;
use crate::rules::verdict::document::{Document, Status};
use crate::rules::verdict::{Plan, PlannedScenario};
use touchstone_kit::ids::RunId;
use touchstone_openwop::suite::AgentEvalSuite;
use touchstone_runs::rules::run::record::EvalSpec;

/// The sources of a report.
pub struct Sources<'a> {
    pub run: &'a RunId,
    /// The run's spec.
    pub spec: &'a EvalSpec,
    /// The OASIS part of the spec.
    pub oasis: &'a OasisSpec,
    pub verdict: Document,
    /// The folded log.
    pub facts: &'a OasisFacts,
    pub package: &'a Package,
    pub suite: &'a AgentEvalSuite,
    /// Resources by kind in the baseline of each environment, where the baseline was stored.
    pub baselines: Vec<BTreeMap<String, usize>>,
    /// The stored evidence of executed scenarios and probes.
    pub evidence: Vec<StoredEvidence>,
    /// The red team's probes, if there were any.
    pub red_team: Option<&'a str>,
    /// The operator's current declaration about the provider's lab, for runs that did not record
    /// one.
    pub lab_framework: Option<&'a str>,
}

/// The records do not have the form that this host writes.
#[derive(Debug, thiserror::Error)]
#[error("the evaluation cannot be reconstructed from its records")]
pub struct Unreadable;

/// Gathers the facts of a report.
///
/// # Errors
/// [`Unreadable`].
pub fn gather(sources: Sources<'_>) -> Result<Facts, Unreadable> {
    let (facts, package) = (sources.facts, sources.package);
    let preflight = facts.preflight.as_ref().ok_or(Unreadable)?;
    let request = &sources.oasis.request;
    let plan = planning::plan(package, sources.suite, request, &preflight.configuration);
    let plan = plan.map_err(|_| Unreadable)?;
    let mut evidence: BTreeMap<String, StoredEvidence> = sources
        .evidence
        .into_iter()
        .map(|it| (it.scenario_id.clone(), it))
        .collect();
    let scenarios = plan
        .scenarios
        .iter()
        .map(|it| scenario(it, package, facts, &mut evidence))
        .collect::<Result<_, _>>()?;
    let recorded = facts.verdict.as_ref().ok_or(Unreadable)?;
    Ok(Facts {
        verdict: sources.verdict.verdict,
        incomplete: recorded.incomplete.clone(),
        run: Run {
            run_id: sources.run.to_string(),
            implementation: Implementation {
                name: "touchstone".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            capability_requested: request.phases == Phases::Both,
            // Earlier versions asked only the pack.
            evaluated: preflight
                .evaluated
                .as_deref()
                .cloned()
                .or_else(|| evaluated(sources.spec, IdentitySource::Pack, None, None)),
        },
        profile: profile(package, &plan),
        preflight: Preflight {
            requirements: preflight
                .requirements
                .iter()
                .map(|it| Requirement {
                    key: it.key.clone(),
                    description: package
                        .requirements
                        .get(&it.key)
                        .map(|it| it.description.clone())
                        .unwrap_or_default(),
                    expected: it.expected.clone(),
                    answer: it.answer.clone(),
                    satisfied: it.satisfied,
                    reason: None,
                })
                .collect(),
        },
        lab_framework: preflight
            .evaluated
            .as_ref()
            .and_then(|it| it.lab_framework.clone())
            .or_else(|| sources.lab_framework.map(str::to_owned)),
        baselines: sources.baselines,
        scenarios,
        adversarial: adversarial(facts, &evidence).map(|found| AdversarialFacts {
            reserved_coverage: reserved(facts, request, package, &plan, sources.red_team),
            ..found
        }),
    })
}

fn profile(package: &Package, plan: &Plan) -> ProfileFacts {
    let about = &package.about;
    let core = about
        .categories
        .iter()
        .filter_map(|(id, note)| Some((id.clone(), note.core_mapping.clone()?)));
    ProfileFacts {
        rules: package.profile.clone(),
        description: about.description.clone(),
        core_mapping: core.collect(),
        tier_environment: about.tiers.get(&plan.tier).cloned().unwrap_or_default(),
    }
}

fn scenario(
    planned: &PlannedScenario,
    package: &Package,
    facts: &OasisFacts,
    evidence: &mut BTreeMap<String, StoredEvidence>,
) -> Result<ScenarioFacts, Unreadable> {
    let told = package.scenario(planned.id());
    Ok(ScenarioFacts {
        // A verdict identifies a scenario by its name; a report also has room for its description.
        descriptor: Descriptor {
            description: told.map(|it| it.description.clone()).unwrap_or_default(),
            ..planned.descriptor.clone()
        },
        name: told.map(|it| it.name.clone()).unwrap_or_default(),
        intent: told.and_then(|it| it.intent.clone()).unwrap_or_default(),
        tolerance: planned.tolerance,
        state: match (planned.is_applicable(), facts.scenario(planned.id())) {
            (false, _) => State::NotApplicable {
                failing: planned.failing.clone(),
            },
            (true, None) => State::NotExecuted,
            (true, Some(_)) => {
                let kept = evidence.remove(planned.id()).ok_or(Unreadable)?;
                State::Executed(Box::new(kept.execution))
            }
        },
    })
}

fn adversarial(
    facts: &OasisFacts,
    evidence: &BTreeMap<String, StoredEvidence>,
) -> Option<AdversarialFacts> {
    if facts.probes.is_empty() {
        return None;
    }
    let shown = facts.probes.iter().filter_map(|probe| {
        let kept = evidence.get(&OasisFacts::probe_name(probe.number))?;
        let about = kept.probe.as_ref()?;
        Some(Probe {
            id: kept.scenario_id.clone(),
            description: about.description.clone(),
            primary_archetype: about.primary_archetype.clone(),
            secondary_archetypes: about.secondary_archetypes.clone(),
            status: probe.passed.map(|passed| match passed {
                true => Status::Pass,
                false => Status::Fail,
            }),
            score: match &probe.outcome {
                Outcome::Capability { score, .. } => Some(*score),
                Outcome::Safety { .. } | Outcome::Fault { .. } => None,
            },
        })
    });
    let fault = facts.probes.iter().find_map(|probe| match &probe.outcome {
        Outcome::Fault { cause } => Some(crate::rules::report::facts::Fault {
            stage: "adversarial phase".to_owned(),
            cause: cause.clone(),
            provider_said: None,
            violation_seen: false,
        }),
        _ => None,
    });
    Some(AdversarialFacts {
        probes: shown.collect(),
        fault,
        reserved_coverage: BTreeMap::new(),
    })
}

/// Archetypes covered by unpublished scenarios, by category (D25).
fn reserved(
    facts: &OasisFacts,
    request: &OasisRequest,
    package: &Package,
    plan: &Plan,
    red_team: Option<&str>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut covered: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    if !facts
        .probes
        .iter()
        .any(|it| it.origin == ProbeOrigin::Reserved)
    {
        return covered;
    }
    let scripts = request
        .adversarial
        .as_ref()
        .and_then(|asked| probes::scripts(package, plan, asked, red_team).ok());
    for (number, script) in (1..).zip(scripts.unwrap_or_default()) {
        let executed = facts.probes.iter().any(|it| {
            it.number == number
                && it.origin == ProbeOrigin::Reserved
                && !matches!(it.outcome, Outcome::Fault { .. })
        });
        if executed {
            let descriptor = script.scenario.descriptor;
            let archetypes = covered.entry(descriptor.category).or_default();
            archetypes.insert(descriptor.archetype);
        }
    }
    covered
}
