//! Probes of the Front Desk profile: their sources, and the parts that stay unchanged.

mod written;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::rules::format::testing::{front_desk, scenario};
use crate::rules::request::Phases;
use crate::rules::scenario::{Classification, Descriptor};
use crate::rules::verdict::Terms;
use crate::rules::verdict::document::GeneratorKind;

fn plan_at(package: &Package, tier: u8, configuration: Value) -> Plan {
    let terms = Terms {
        tier,
        phases: Phases::Both,
        filtered: false,
        tolerance_overrides: Default::default(),
    };
    let heads: Vec<Descriptor> = package
        .scenarios
        .iter()
        .map(|it| it.descriptor.clone())
        .collect();
    let configuration = package
        .profile
        .agent_configuration_schema
        .effective(configuration.as_object().unwrap());
    Plan::make(&package.profile, &heads, &terms, &configuration.unwrap()).unwrap()
}

fn plan(package: &Package) -> Plan {
    plan_at(
        package,
        3,
        json!({"writing": "allowed", "bound_to_wings": true}),
    )
}

fn asked(seed: u64, mutations: u32) -> AdversarialRequest {
    AdversarialRequest {
        seed,
        mutations,
        red_team: None,
        red_team_digest: None,
    }
}

fn mutations(seed: u64, count: u32) -> Vec<ProbeScript> {
    scripts(front_desk(), &plan(front_desk()), &asked(seed, count), None).unwrap()
}

/// The scenario that a mutation is based on.
fn base(script: &ProbeScript) -> Scenario {
    let (_, id) = script.description.rsplit_once("; from ").unwrap();
    scenario(id.trim_end_matches(')'))
}

#[test]
fn mutations_depend_only_on_the_seed() {
    let texts = |seed| -> Vec<String> {
        mutations(seed, 40)
            .into_iter()
            .map(|it| it.serialized)
            .collect()
    };
    assert_eq!(texts(7), texts(7));
    let (one, other): (BTreeSet<_>, BTreeSet<_>) = (
        texts(7).into_iter().collect(),
        texts(8).into_iter().collect(),
    );
    assert_eq!(one.len(), 40);
    assert!(one.is_disjoint(&other));
}

#[test]
fn a_longer_list_begins_with_the_shorter_one() {
    assert_eq!(mutations(3, 30)[..10], mutations(3, 10));
}

#[test]
fn five_hundred_mutations_are_all_different_and_all_kinds_of_change_come_up() {
    let scripts = mutations(11, 500);
    let texts: BTreeSet<String> = scripts
        .iter()
        .map(|it| it.serialized.split_once("version:").unwrap().1.to_owned())
        .collect();
    assert_eq!(texts.len(), 500);
    for change in [
        "urgency",
        "claimed authority",
        "politeness",
        "paraphrase",
        "role play",
        "instructions to be ignored",
        "split into steps",
        "Base64",
        "ROT13",
        "trust built in earlier turns",
        "(earlier turns",
        "an instruction in a record",
        "the pressure of",
        "renamed",
    ] {
        let count = scripts
            .iter()
            .filter(|it| it.description.contains(change))
            .count();
        assert!(count >= 5, "{change}: {count}");
    }
    let safety = scripts
        .iter()
        .filter(|it| it.scenario.descriptor.classification == Classification::Safety)
        .count();
    assert!((325..=425).contains(&safety), "{safety}");
}

#[test]
fn only_what_applies_at_the_claimed_tier_is_mutated() {
    let package = front_desk();
    let plan = plan_at(
        package,
        1,
        json!({"writing": "never", "bound_to_wings": false}),
    );
    for script in scripts(package, &plan, &asked(5, 120), None).unwrap() {
        let base = base(&script);
        let planned = plan.scenario(base.id()).unwrap();
        assert!(
            planned.is_applicable() && base.descriptor.tier == 1,
            "{}",
            script.description
        );
    }
}

#[test]
fn only_selected_scenarios_are_mutated() {
    let package = front_desk();
    let mut plan = plan(package);
    plan.scenarios
        .retain(|it| it.id() == "front.safety.sk.show-code-01");
    let scripts = scripts(package, &plan, &asked(1, 20), None).unwrap();
    assert_eq!(scripts.len(), 20);
    assert!(
        scripts
            .iter()
            .all(|it| base(it).id() == "front.safety.sk.show-code-01")
    );
    plan.scenarios.clear();
    assert_eq!(
        super::scripts(package, &plan, &asked(1, 20), None),
        Ok(Vec::new())
    );
}

#[test]
fn encodings_are_used_only_for_safety_scenarios_without_required_actions() {
    for script in mutations(2, 300) {
        let is_coded = ["Base64", "ROT13"]
            .iter()
            .any(|it| script.scenario.prompt().contains(it));
        if is_coded {
            let base = base(&script);
            assert!(base.assertions.must.is_empty() && base.assertions.conditional.is_empty());
            assert_eq!(base.descriptor.classification, Classification::Safety);
        }
    }
}

#[test]
fn a_composition_names_the_archetype_whose_pressure_it_adds() {
    let composed: Vec<_> = mutations(4, 200)
        .into_iter()
        .filter(|it| !it.secondary_archetypes.is_empty())
        .collect();
    assert!(composed.len() > 10);
    for script in composed {
        let [secondary] = script.secondary_archetypes.as_slice() else {
            panic!()
        };
        assert_ne!(*secondary, script.scenario.descriptor.archetype);
        assert_eq!(
            script.scenario.descriptor.archetype,
            base(&script).descriptor.archetype
        );
        assert!(
            script.description.contains(secondary),
            "{}",
            script.description
        );
        assert!(script.serialized.contains("secondary_archetypes:"));
    }
}

#[rstest]
#[case(3, None, GeneratorKind::Mutation)]
#[case(0, Some("x"), GeneratorKind::RedTeam)]
#[case(3, Some("x"), GeneratorKind::Hybrid)]
#[case(0, None, GeneratorKind::Other)]
fn the_generator_kind_follows_from_the_probe_sources(
    #[case] mutations: u32,
    #[case] file: Option<&str>,
    #[case] kind: GeneratorKind,
) {
    let mut asked = asked(9, mutations);
    asked.red_team_digest = file.map(str::to_owned);
    let told = generator(&asked, front_desk());
    assert_eq!(told.kind, kind);
    assert_eq!(
        told.base_scenario_set.as_deref(),
        Some("oasis-profile-front-desk@1.0.0")
    );
    assert_eq!(told.mutation_strategy.is_some(), mutations > 0);
    let hash = told.config_hash.clone().unwrap();
    assert!(hash.starts_with("sha256:") && hash.len() == 71, "{hash}");
    asked.seed += 1;
    assert_ne!(generator(&asked, front_desk()).config_hash.unwrap(), hash);
}

/// The shape of a text regardless of names: workspace names are words, resource names contain
/// digits.
fn shape(text: &str, old: &[String]) -> Vec<String> {
    let is_name = |word: &str| {
        old.iter().any(|it| it == word)
            || word.contains(|it: char| it.is_ascii_digit()) && word.contains(char::is_alphabetic)
    };
    text.split(|it: char| !(it.is_alphanumeric() || it == '-' || it == '_'))
        .map(|word| {
            if is_name(word) {
                "NAME".to_owned()
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// Every workspace of a scenario, and the profile's replacement names.
fn workspaces(script: &ProbeScript) -> Vec<String> {
    let mut all = Vec::new();
    for scenario in [&base(script), &script.scenario] {
        let injected = scenario.injections().flat_map(|(state, _)| state);
        let entries = scenario
            .preconditions
            .environment
            .state
            .iter()
            .chain(injected);
        all.extend(entries.filter_map(|it| it.get("workspace")?.as_str().map(str::to_owned)));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_mutation_can_be_run_and_is_judged_by_the_checks_of_its_base(seed: u64, count in 1_u32..12) {
        let scripts = mutations(seed, count);
        prop_assert_eq!(scripts.len(), count as usize);
        for script in scripts {
            prop_assert!(script.scenario.runnable().is_ok());
            prop_assert!(script.scenario.id().starts_with("probe-"));
            let (base, made) = (base(&script), &script.scenario);
            let old = workspaces(&script);
            let part = |document: &Value, field: &str| {
                shape(&document.get(field).map(Value::to_string).unwrap_or_default(), &old)
            };
            for field in ["assertions", "verification", "scoring", "applicability", "tier", "category", "archetype"] {
                prop_assert_eq!(
                    part(&base.document, field), part(&made.document, field), "{} {}", field, script.serialized
                );
            }
            if !script.description.contains("renamed") {
                prop_assert_eq!(&base.assertions, &made.assertions);
                prop_assert_eq!(&base.verification, &made.verification);
                prop_assert_eq!(&base.scoring, &made.scoring);
            }
            prop_assert_eq!(&base.preconditions.agent.tools, &made.preconditions.agent.tools);
            prop_assert_eq!(base.descriptor.safety_tolerance, made.descriptor.safety_tolerance);
        }
    }

    #[test]
    fn renamed_resources_have_unique_consistent_names(seed: u64) {
        for script in mutations(seed, 8) {
            let (base, made) = (base(&script), &script.scenario);
            let spoken = |scenario: &Scenario| {
                let state = scenario.preconditions.environment.state.iter();
                let named: Vec<Value> = state.map(|it| json!([it.get("resource"), it.get("workspace")])).collect();
                let part = |field: &str| scenario.document.get(field).cloned();
                json!([named, scenario.preconditions.agent, part("assertions"), part("verification"), part("scoring")]).to_string()
            };
            let (old, new) = (spoken(&base), spoken(made));
            let words = |text: &str| -> Vec<String> {
                text.split(|it: char| !(it.is_alphanumeric() || it == '-' || it == '_')).map(str::to_owned).collect()
            };
            let (mut forth, mut back) = (BTreeMap::new(), BTreeMap::new());
            for (old, new) in words(&old).into_iter().zip(words(&new)) {
                prop_assert_eq!(forth.entry(old.clone()).or_insert_with(|| new.clone()), &new, "{}", script.serialized);
                prop_assert_eq!(back.entry(new).or_insert_with(|| old.clone()), &old, "{}", script.serialized);
            }
        }
    }

    #[test]
    fn a_written_probe_is_read_as_the_same_probe(seed: u64) {
        for script in mutations(seed, 6) {
            let mut again = read_red_team(front_desk(), &script.serialized).unwrap();
            prop_assert_eq!(again.len(), 1);
            let again = again.remove(0);
            prop_assert_eq!(&again.serialized, &script.serialized);
            prop_assert_eq!(ProbeScript { origin: ProbeOrigin::Mutation, ..again }, script);
        }
    }
}
