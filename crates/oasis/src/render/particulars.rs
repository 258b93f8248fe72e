//! Name-value lists, shared by the Markdown and HTML reports.

use crate::render::words::{generator, number, percent, reproducibility, setting};
use crate::rules::configuration::Configuration;
use crate::rules::evaluated::{Evaluated, IdentitySource};
use crate::rules::report::environment::MeasuredEnvironment;
use crate::rules::report::{Report, ScenarioDetail};

/// A name and its value.
pub struct Fact {
    pub name: String,
    pub value: String,
}

fn fact(name: &str, value: String) -> Fact {
    Fact {
        name: name.to_owned(),
        value,
    }
}

fn effective(configuration: &Configuration) -> String {
    let each: Vec<String> = configuration
        .iter()
        .map(|(name, value)| format!("{name}: {}", setting(value)))
        .collect();
    if each.is_empty() {
        return "no dimensions reported".to_owned();
    }
    each.join(", ")
}

/// Rep 2.1, without the preflight check.
pub fn metadata(report: &Report) -> Vec<Fact> {
    let it = &report.metadata;
    let named = |name: &str, version: &str| format!("{name} {version}");
    let source = match it.evaluated.as_ref().map(|it| it.identity_source) {
        Some(IdentitySource::Adapter) => ", as reported by the agent",
        Some(IdentitySource::Pack) => ", as its pack declares",
        None => "",
    };
    let mut facts = vec![
        fact("Agent", named(&it.agent.name, &it.agent.version) + source),
        fact(
            "Effective configuration",
            effective(&it.agent_configuration),
        ),
        fact(
            "Domain profile",
            named(&it.domain_profile.name, &it.domain_profile.version),
        ),
        fact("Profile identifier", it.domain_profile_identifier.clone()),
        fact("OASIS core version", it.oasis_core_version.clone()),
        fact("Evaluator", it.evaluator.clone()),
        fact("Date", it.date.clone()),
        fact("Duration", it.duration.clone()),
        fact(
            "Evaluation implementation",
            named(
                &it.evaluation_implementation.name,
                &it.evaluation_implementation.version,
            ),
        ),
        fact(
            "Environment provider",
            named(
                &it.environment_provider.name,
                &it.environment_provider.version,
            ),
        ),
        fact("Run", it.run_id.clone()),
    ];
    facts.extend(it.evaluated.iter().flat_map(evaluated));
    facts
}

/// The evaluated agent, its model and the suite.
fn evaluated(it: &Evaluated) -> Vec<Fact> {
    let pinned = |name: &str, version: &str, digest: &str| format!("{name} {version}, {digest}");
    let mut facts = vec![
        fact("Answered by", it.answered_by.in_words().to_owned()),
        fact(
            "Model",
            format!("{} at provider {}", it.model, it.model_provider),
        ),
    ];
    if let Some(endpoint) = &it.endpoint {
        let place = endpoint.url.as_deref().unwrap_or("no URL");
        facts.push(fact("Endpoint", format!("{place}, {}", endpoint.digest)));
    }
    if let Some(cassette) = &it.replayed_from {
        facts.push(fact("Replayed from cassette", cassette.clone()));
    }
    if let Some(declared) = &it.declared {
        let name = format!("{} {}", declared.name, declared.version);
        facts.push(fact("Identity declared by its pack", name));
    }
    if let Some(declared) = &it.declared_configuration {
        let text = serde_json::Value::Object(declared.clone()).to_string();
        facts.push(fact("Configuration declared by its pack", text));
    }
    facts.extend([
        fact(
            "Agent's pack",
            pinned(&it.agent_id, &it.agent_version, &it.agent_pack),
        ),
        fact(
            "Suite",
            pinned(&it.suite, &it.suite_version, &it.suite_digest),
        ),
        fact(
            "Pack of the profile",
            pinned(&it.profile, &it.profile_version, &it.profile_pack),
        ),
    ]);
    if let Some(seconds) = it.clock_tolerance_s {
        facts.push(fact(
            "Clock tolerance of the provider",
            format!("{seconds} s"),
        ));
    }
    facts
}

/// Rep 2.2.
pub fn environment(report: &Report) -> Vec<Fact> {
    let it = &report.environment;
    let mut facts = vec![
        fact(
            "Complexity tier claimed",
            format!("{} ({})", it.tier, it.tier_name),
        ),
        fact("Characteristics", it.characteristics.clone()),
    ];
    facts.extend(it.measured.as_ref().map(measured));
    facts.push(fact(
        "Evidence that the tier is met",
        it.tier_evidence.clone(),
    ));
    facts.push(fact("Lab framework", it.lab_framework.clone()));
    facts
}

/// Maximum number of resource kinds listed.
const MOST_KINDS: usize = 12;

/// Measurements of the run's environments.
fn measured(it: &MeasuredEnvironment) -> Fact {
    let counted = |(name, count): (&String, &usize)| format!("{name} {count}");
    let mut kinds: Vec<String> = it
        .resource_kinds
        .iter()
        .take(MOST_KINDS)
        .map(counted)
        .collect();
    if it.resource_kinds.len() > kinds.len() {
        kinds.push(format!(
            "{} more kinds",
            it.resource_kinds.len() - kinds.len()
        ));
    }
    let observations: Vec<String> = it.observations.iter().map(counted).collect();
    fact(
        "Measured in this run",
        format!(
            "{} environments with {} different ids; {} to {} resources in a baseline ({} in all); observations: {}; {} operations of \
             the agent; {} environments not torn down",
            it.environments,
            it.distinct_environments,
            it.fewest_resources,
            it.most_resources,
            kinds.join(", "),
            observations.join(", "),
            it.operations,
            it.not_torn_down
        ),
    )
}

/// Generator, counts and results of the adversarial phase.
pub fn adversarial(report: &Report) -> Vec<Fact> {
    let Some(results) = &report.adversarial.results else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    if let Some(it) = &results.generator {
        facts.push(fact("Generator", generator(it.kind).to_owned()));
        facts.push(fact(
            "Reproducibility",
            reproducibility(it.reproducibility).to_owned(),
        ));
        let optional = [
            ("Model", &it.model),
            ("Base scenarios", &it.base_scenario_set),
            ("Mutation strategy", &it.mutation_strategy),
            ("Team", &it.team),
            ("Description", &it.description),
            ("Configuration hash", &it.config_hash),
        ];
        for (name, value) in optional {
            facts.extend(value.clone().map(|value| fact(name, value)));
        }
    }
    if let Some(it) = &results.probe_summary {
        let composed = it.composition_probes.unwrap_or_default();
        facts.push(fact(
            "Probes",
            format!(
                "{}: {} safety, {} capability; {composed} of them compositions",
                it.total_probes, it.safety_probes, it.capability_probes
            ),
        ));
    }
    if let Some(it) = &results.safety_results {
        let any = if it.any_safety_violation { "yes" } else { "no" };
        facts.push(fact("Any safety violation", any.to_owned()));
        let counts = format!(
            "{} passed, {} failed, of {}",
            it.passed, it.failed, it.total
        );
        facts.push(fact("Safety probes", counts));
    }
    if let Some(it) = &results.capability_results {
        let mean = it.mean_score.map_or_else(
            || "no mean score".to_owned(),
            |mean| format!("mean score {}", number(mean)),
        );
        facts.push(fact("Capability probes", format!("{}, {mean}", it.total)));
        for (archetype, scored) in it.per_archetype.iter().flatten() {
            facts.push(fact(
                &format!("Archetype {archetype}"),
                format!(
                    "mean score {} of {} probes",
                    number(scored.mean),
                    scored.probes
                ),
            ));
        }
    }
    if let Some(it) = &results.reserved_scenarios {
        facts.push(fact(
            "Reserved scenarios",
            format!(
                "{} executed, {} passed, {} failed; their content is not disclosed",
                it.executed, it.passed, it.failed
            ),
        ));
    }
    if let Some(note) = &results.interpretation_note {
        facts.push(fact("Interpretation", note.clone()));
    }
    facts
}

/// The content of a conformance claim.
pub fn claim(report: &Report) -> Vec<Fact> {
    let Some(claim) = &report.conformance_claim.claim else {
        return Vec::new();
    };
    vec![
        fact(
            "Domain profile",
            format!("{} {}", claim.domain_profile, claim.domain_profile_version),
        ),
        fact("Complexity tier", claim.tier.to_string()),
        fact("Agent", format!("{} {}", claim.agent, claim.agent_version)),
        fact("Agent configuration", effective(&claim.agent_configuration)),
        fact("Date of evaluation", claim.date.clone()),
        fact("Verdict", claim.verdict.as_str().to_owned()),
    ]
}

/// The host's cross-check of the evidence; empty if there was none.
pub fn cross_check(detail: &ScenarioDetail) -> String {
    let Some(it) = &detail.execution.cross_check else {
        return String::new();
    };
    format!(
        "Cross-checked by the host: {} operations of the agent, as the host carried them to the environment, against the audit \
         log; states, state diff and baseline against the log and each other; timestamps from {} to {}, clock tolerance {} s.",
        it.operations, it.from, it.to, it.clock_tolerance_s
    )
}

/// The measured deviation of a scenario and the affected resources; empty if nothing was measured.
pub fn deviation(detail: &ScenarioDetail) -> String {
    let Some(it) = &detail.execution.measured else {
        return String::new();
    };
    let mut text = format!(
        "Deviation by {}: {} of {} resources affected ({}), tolerance {}.",
        it.measure,
        it.numerator,
        it.denominator,
        percent(it.percent()),
        percent(detail.tolerance)
    );
    if !it.resources.is_empty() {
        text.push_str(" Affected: ");
        text.push_str(&it.resources.join(", "));
        match it.numerator.saturating_sub(it.resources.len()) {
            0 => text.push('.'),
            more => text.push_str(&format!(", and {more} more.")),
        }
    }
    text
}

/// The scenario's environment before the first stimulus.
pub fn preconditions(detail: &ScenarioDetail) -> Vec<Fact> {
    let Some(it) = &detail.execution.preconditions else {
        return vec![fact("Environment", "not provisioned".to_owned())];
    };
    let mut facts = vec![fact(
        "Environment",
        match &it.environment_id {
            Some(id) => format!(
                "{}, provisioned as {id}, {} resources put there",
                it.environment_type, it.resources
            ),
            None => format!("{}, not provisioned", it.environment_type),
        },
    )];
    if let Some(mode) = &it.agent_mode {
        facts.push(fact("Agent's mode", mode.clone()));
    }
    if !it.agent_tools.is_empty() {
        facts.push(fact("Agent's tools", it.agent_tools.join(", ")));
    }
    match (&it.snapshot_digest, &it.snapshot_at) {
        (Some(digest), Some(at)) => {
            facts.push(fact("Baseline snapshot", format!("{digest}, taken {at}")))
        }
        (Some(digest), None) => facts.push(fact("Baseline snapshot", digest.clone())),
        (None, _) => {}
    }
    facts
}
