//! Properties of all evaluations: random profiles, scenarios, configurations and outcomes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use touchstone_oasis::rules::configuration::Configuration;
use touchstone_oasis::rules::outcome::Outcome;
use touchstone_oasis::rules::profile::Profile;
use touchstone_oasis::rules::request::Phases;
use touchstone_oasis::rules::scenario::{Classification, Descriptor};
use touchstone_oasis::rules::verdict::{
    AdversarialResults, Computed, Facts, Next, PassConditions, Plan, ProbeResult, ReservedOutcome,
    ReservedResult, Status, Terms, compute, eval_summary, next, ready, rules,
};

const DIMENSIONS: [&str; 4] = [
    "task_completion",
    "reliability",
    "reasoning",
    "auditability",
];

fn profile(safety: &[u8], capability: &[(u8, bool, [Option<u8>; 4])], minimum: u8) -> Profile {
    let archetypes = |prefix: &str, place: usize, n: u8| -> Vec<String> {
        (0..n).map(|it| format!("{prefix}-{place}-{it}")).collect()
    };
    let mut of_capability = json!({ "*": minimum });
    if minimum == 2 {
        of_capability["c0"] = json!("all");
    }
    let minimum = json!({ "safety": { "*": minimum }, "capability": of_capability });
    let safety: Vec<Value> = safety
        .iter()
        .enumerate()
        .map(|(place, n)| json!({"id": format!("s{place}"), "archetypes": archetypes("S", place, *n)}))
        .collect();
    let capability: Vec<Value> = capability
        .iter()
        .enumerate()
        .map(|(place, (n, lowest, weights))| {
            let weights: BTreeMap<&str, f64> = DIMENSIONS
                .iter()
                .zip(weights)
                .filter_map(|(name, weight)| Some((*name, f64::from((*weight)?) / 4.0)))
                .collect();
            let method = if *lowest {
                "minimum"
            } else {
                "weighted_average"
            };
            json!({
                "id": format!("c{place}"), "archetypes": archetypes("C", place, *n),
                "maps_to_dimensions": ["reasoning"], "dimension_weights": weights,
                "aggregation": {"method": method}
            })
        })
        .collect();
    serde_json::from_value(json!({
        "identifier": "oasis-profile-any", "name": "Any", "version": "1.0.0",
        "agent_configuration_schema": {"dimensions": [
            {"identifier": "a", "type": "boolean"}, {"identifier": "b", "type": "enum", "values": ["x", "y", "z"]}
        ]},
        "safety_categories": safety,
        "subcategories": [{"identifier": "sub", "parents": ["s0", "s1"]}],
        "capability_scoring": {"categories": capability},
        "minimum_coverage": {"1": minimum, "2": minimum, "3": minimum}
    }))
    .unwrap()
}

/// One scenario: its phase, position, tier, applicability and tolerance, and whether it is custom.
fn descriptor(profile: &Profile) -> impl Strategy<Value = Value> + use<> {
    let places = |classification: &str, category: &str, archetypes: &[String]| -> Vec<Value> {
        archetypes
            .iter()
            .map(|archetype| json!({"classification": classification, "category": category, "archetype": archetype}))
            .collect()
    };
    let safety = profile.safety_categories.iter();
    let mut all: Vec<Value> = safety
        .flat_map(|it| places("safety", &it.id, &it.archetypes))
        .collect();
    let capability = profile.capability_scoring.categories.iter();
    all.extend(capability.flat_map(|it| places("capability", &it.id, &it.archetypes)));
    let conditions = prop_oneof![
        4 => Just(json!({})),
        1 => Just(json!({"a": true})),
        1 => Just(json!({"b": ["x", "y"]})),
        1 => Just(json!({"a": false, "b": "z"})),
    ];
    let tolerance = prop_oneof![3 => Just(0.0), 1 => 0.0..=100.0_f64, 1 => Just(1e-9)];
    (
        prop::sample::select(all),
        1..=3_u8,
        conditions,
        tolerance,
        prop::bool::weighted(0.1),
        any::<bool>(),
    )
        .prop_map(
            |(mut scenario, tier, conditions, tolerance, custom, grouped)| {
                scenario["tier"] = json!(tier);
                scenario["applicability"] = conditions;
                scenario["custom"] = json!(custom);
                if scenario["classification"] == "safety" {
                    scenario["safety_tolerance"] = json!(tolerance);
                    scenario["deviation_measure"] = json!("share");
                    if grouped && (scenario["category"] == "s0" || scenario["category"] == "s1") {
                        scenario["subcategory"] = json!("sub");
                    }
                }
                scenario
            },
        )
}

/// The result of a scenario in either phase, usually a good one.
#[derive(Clone, Debug)]
struct Seen {
    violated: bool,
    soft: f64,
    score: f64,
    fault: bool,
}

impl Seen {
    fn outcome(&self, phase: Classification) -> Outcome {
        let (violated, soft_deviation, score) = (self.violated, self.soft, self.score);
        match phase {
            _ if self.fault => Outcome::Fault {
                cause: "gone".to_owned(),
            },
            Classification::Safety => Outcome::Safety {
                violated,
                soft_deviation,
            },
            Classification::Capability => Outcome::Capability { score, band: None },
        }
    }
}

fn seen() -> impl Strategy<Value = Seen> {
    let soft = prop_oneof![9 => Just(0.0), 1 => 0.0..=100.0_f64];
    (
        prop::bool::weighted(0.03),
        soft,
        0.0..=1.0_f64,
        prop::bool::weighted(0.03),
    )
        .prop_map(|(violated, soft, score, fault)| Seen {
            violated,
            soft,
            score,
            fault,
        })
}

/// An evaluation that preflight accepts.
#[derive(Clone, Debug)]
struct Case {
    plan: Plan,
    seen: Vec<Seen>,
    reserved: Vec<ReservedResult>,
    adversarial: Option<AdversarialResults>,
}

impl Case {
    fn outcome(&self, id: &str) -> Outcome {
        let place = self
            .plan
            .scenarios
            .iter()
            .position(|it| it.id() == id)
            .unwrap();
        self.seen[place].outcome(self.plan.scenarios[place].descriptor.classification)
    }

    /// The results of sequential execution.
    fn results(&self) -> Vec<(String, Outcome)> {
        let mut results = Vec::new();
        while let Next::Run(scenario) = next(&self.plan, &results) {
            results.push((scenario.id().to_owned(), self.outcome(scenario.id())));
        }
        results
    }

    fn computed(&self, results: &[(String, Outcome)]) -> Computed {
        compute(
            &self.plan,
            &facts(),
            results,
            &self.reserved,
            self.adversarial.as_ref(),
        )
        .unwrap()
    }
}

fn facts() -> Facts {
    Facts {
        agent: "any".to_owned(),
        agent_version: "1.0.0".to_owned(),
        provider: "any".to_owned(),
        provider_version: "1.0.0".to_owned(),
        tier_evidence: "declared".to_owned(),
        conformance_check: "done".to_owned(),
        oasis_core_version: "1.0.0-rc1.5".to_owned(),
        evaluator: "any".to_owned(),
        timestamp: "2026-01-01T00:00:00Z".to_owned(),
        duration: "PT1S".to_owned(),
    }
}

fn probes() -> impl Strategy<Value = Option<AdversarialResults>> {
    let probe = (seen(), any::<bool>(), any::<bool>()).prop_map(|(seen, safety, composed)| {
        let classification = if safety {
            Classification::Safety
        } else {
            Classification::Capability
        };
        ProbeResult {
            classification,
            primary_archetype: "A".to_owned(),
            secondary_archetypes: composed.then(|| "B".to_owned()).into_iter().collect(),
            description: String::new(),
            serialized: "x".to_owned(),
            outcome: seen.outcome(classification),
        }
    });
    let generator = json!({"type": "mutation", "reproducibility": "deterministic"});
    prop::option::of(prop::collection::vec(probe, 0..8)).prop_map(move |probes| {
        Some(AdversarialResults {
            generator: serde_json::from_value(generator.clone()).unwrap(),
            probes: probes?,
            interpretation_note: None,
        })
    })
}

fn reserved() -> impl Strategy<Value = Vec<ReservedResult>> {
    let outcomes = [
        ReservedOutcome::Passed,
        ReservedOutcome::Failed,
        ReservedOutcome::Scored,
        ReservedOutcome::Fault,
    ];
    let one = (
        0..3_u8,
        0..3_u8,
        any::<bool>(),
        prop::sample::select(outcomes.to_vec()),
    )
        .prop_map(|(category, archetype, safety, outcome)| {
            let (small, large) = if safety { ("s", "S") } else { ("c", "C") };
            ReservedResult {
                classification: if safety {
                    Classification::Safety
                } else {
                    Classification::Capability
                },
                category: format!("{small}{category}"),
                archetype: format!("{large}-{category}-{archetype}"),
                outcome,
            }
        });
    prop::collection::vec(one, 0..4)
}

fn case() -> impl Strategy<Value = Case> {
    let weight = prop::option::weighted(0.8, 0..4_u8);
    let category = (
        1..4_u8,
        any::<bool>(),
        [weight.clone(), weight.clone(), weight.clone(), weight],
    );
    let profile = (
        prop::collection::vec(1..4_u8, 2..4),
        prop::collection::vec(category, 1..4),
        0..3_u8,
    )
        .prop_map(|(safety, capability, minimum)| profile(&safety, &capability, minimum));
    profile
        .prop_flat_map(|profile| {
            let scenarios = prop::collection::vec(descriptor(&profile), 1..24);
            let configuration = prop_oneof![
                Just(json!({})),
                Just(json!({"a": true, "b": "x"})),
                Just(json!({"a": false, "b": "z"})),
            ];
            let terms = (1..=3_u8, any::<bool>(), prop::bool::weighted(0.1));
            let seen = prop::collection::vec(seen(), 24);
            (
                Just(profile),
                scenarios,
                configuration,
                terms,
                seen,
                reserved(),
                probes(),
            )
        })
        .prop_filter_map(
            "refused",
            |(profile, scenarios, configuration, terms, seen, reserved, adversarial)| {
                let (tier, both, filtered) = terms;
                let scenarios: Vec<Descriptor> = scenarios
                    .into_iter()
                    .enumerate()
                    .map(|(place, mut scenario)| {
                        scenario["id"] = json!(format!("any.{place}"));
                        serde_json::from_value(scenario).unwrap()
                    })
                    .collect();
                let configuration: Configuration = serde_json::from_value(configuration).unwrap();
                let terms = Terms {
                    tier,
                    phases: if both { Phases::Both } else { Phases::Safety },
                    filtered,
                    tolerance_overrides: BTreeMap::new(),
                };
                let plan = Plan::make(&profile, &scenarios, &terms, &configuration).ok()?;
                Some(Case {
                    plan,
                    seen,
                    reserved,
                    adversarial,
                })
            },
        )
}

/// The results of several workers that finish in any order.
fn in_parallel(case: &Case, workers: usize, picks: &[Index]) -> Vec<(String, Outcome)> {
    let (mut results, mut running): (Vec<(String, Outcome)>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut picks = picks.iter().cycle();
    loop {
        for scenario in ready(&case.plan, &results, &running) {
            if running.len() < workers {
                running.push(scenario.id());
            }
        }
        if running.is_empty() {
            return results;
        }
        let id = running.remove(picks.next().unwrap().index(running.len()));
        results.push((id.to_owned(), case.outcome(id)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_verdict_keeps_the_schema_and_the_rules(case in case()) {
        let computed = case.computed(&case.results());
        let document = json!({ "verdict": computed.verdict });
        prop_assert_eq!(rules::check(&document), Vec::new());
        let read: touchstone_oasis::rules::verdict::document::Document = serde_json::from_value(document.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(read).unwrap(), document);
    }

    #[test]
    fn a_failure_beats_a_fault_at_every_level(case in case()) {
        let computed = case.computed(&case.results());
        let results = computed.category_results.values();
        let expected = |failed: u64, unknown: u64, applicable: u64| match (failed, unknown, applicable) {
            (_, _, 0) => None,
            (0, 0, _) => Some(Status::Pass),
            (0, _, _) => Some(Status::ProviderFailure),
            _ => Some(Status::Fail),
        };
        let (mut failed, mut unknown) = (0, 0);
        for result in results {
            let lost = result.provider_failure + result.not_executed;
            prop_assert_eq!(result.status, expected(result.failed, lost, result.applicable));
            prop_assert_eq!(result.passed + result.failed + lost, result.applicable);
            failed += result.failed;
            unknown += lost;
        }
        let in_phase_2 = computed.verdict.safety_details.provider_failures.iter().any(|it| it.in_phase_2());
        let top = expected(failed, unknown + u64::from(in_phase_2), 1);
        prop_assert_eq!(Some(computed.verdict.safety), top);
    }

    #[test]
    fn counts_add_up(case in case()) {
        let computed = case.computed(&case.results());
        let details = &computed.verdict.safety_details;
        let categories = computed.category_results.values();
        let sums = categories.fold((0, 0, 0), |sum, it| (sum.0 + it.applicable, sum.1 + it.passed, sum.2 + it.not_applicable));
        prop_assert_eq!(sums, (details.applicable, details.passed, details.not_applicable));
        prop_assert_eq!(computed.scenario_results.len(), case.plan.scenarios.len());
        let summary = eval_summary(&computed, PassConditions::default());
        let counted = computed.verdict.metadata.scenario_count;
        prop_assert_eq!(summary.task_count, counted.safety + counted.capability - details.provider_failure);
        prop_assert!(summary.passed_count <= summary.task_count);
        prop_assert!((0.0..=1.0).contains(&summary.aggregate_score));
    }

    #[test]
    fn capability_scores_need_a_pass(case in case()) {
        let computed = case.computed(&case.results());
        let both = case.plan.phases == Phases::Both && computed.verdict.safety == Status::Pass;
        prop_assert_eq!(computed.verdict.capability.is_some(), both);
        prop_assert_eq!(computed.scores.is_some(), both);
        if !both {
            prop_assert!(computed.verdict.adversarial_verification.is_none());
        }
        if computed.verdict.safety != Status::Pass {
            let lenient = PassConditions { allow_incomplete: true, pass_score: None };
            let passed = eval_summary(&computed, lenient).passed;
            prop_assert!(!passed);
        }
    }

    #[test]
    fn the_adversarial_phase_changes_neither_gate_nor_scores(case in case()) {
        let results = case.results();
        let with = case.computed(&results);
        let without = compute(&case.plan, &facts(), &results, &[], None).unwrap();
        prop_assert_eq!(with.verdict.safety, without.verdict.safety);
        prop_assert_eq!(&with.verdict.safety_details, &without.verdict.safety_details);
        prop_assert_eq!(&with.scores, &without.scores);
        prop_assert_eq!(&with.verdict.metadata, &without.verdict.metadata);
    }

    #[test]
    fn the_order_of_results_is_of_no_meaning(case in case(), seed in prop::collection::vec(any::<Index>(), 32)) {
        let results = case.results();
        let mut shuffled = results.clone();
        for (place, index) in seed.iter().enumerate() {
            if !shuffled.is_empty() {
                let (a, b) = (place % shuffled.len(), index.index(shuffled.len()));
                shuffled.swap(a, b);
            }
        }
        prop_assert_eq!(case.computed(&shuffled), case.computed(&results));
    }

    #[test]
    fn parallel_and_sequential_execution_give_the_same_verdict(case in case(), workers in 1..5_usize, picks in prop::collection::vec(any::<Index>(), 32)) {
        let results = in_parallel(&case, workers, &picks);
        let parallel = case.computed(&results);
        prop_assert_eq!(rules::check(&json!({ "verdict": parallel.verdict })), Vec::new());
        let one = case.computed(&case.results());
        prop_assert_eq!(parallel.verdict.metadata.aborted, one.verdict.metadata.aborted);
        if workers == 1 || !one.verdict.metadata.aborted {
            prop_assert_eq!(parallel, one);
        }
    }

    #[test]
    fn the_next_scenario_is_the_first_ready_one(case in case(), cut in any::<Index>()) {
        let results = case.results();
        let some = &results[..cut.index(results.len() + 1)];
        let first = ready(&case.plan, some, &[]).first().map(|it| it.id().to_owned());
        let one = match next(&case.plan, some) {
            Next::Run(scenario) => Some(scenario.id().to_owned()),
            Next::Stop => None,
        };
        prop_assert_eq!(&one, &first);
        // A running scenario is not started again, and an unfinished run has no verdict.
        if let Some(first) = &first {
            prop_assert!(ready(&case.plan, some, &[first.as_str()]).iter().all(|it| it.id() != first));
            prop_assert!(compute(&case.plan, &facts(), some, &[], None).is_err());
        }
        prop_assert_eq!(results.get(some.len()).map(|it| it.0.clone()), one);
    }

    #[test]
    fn a_plan_survives_serialization(case in case()) {
        let text = serde_json::to_string(&case.plan).unwrap();
        let again: Plan = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(again, case.plan);
    }
}
