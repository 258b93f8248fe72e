//! Rubrics (RFC 0081 §D): weighted criteria that a judge, which is a model too, checks one by one.
//!
//! This module contains the score of the answers and the identity of a judge. The judge's prompt
//! and the parser of its verdict are in [`touchstone_agents::rules::judging`].

pub mod attempt;
pub mod calibration;
pub mod votes;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::judged;
use super::safety::compliance::CRITERION;
use super::scoring::{DEFAULT_PASS_SCORE, EPSILON};
use super::scoring_document::{Assertion, ScoringDocument};
use crate::rules::run::record::ModelPin;
use touchstone_agents::rules::judging::{ASKED_AT_MOST, MAX_TOKENS, TEMPERATURE, prompt, verdict};
use touchstone_kit::json;
use touchstone_openwop::suite::{Criterion, ExpectedKind, Task, Thresholds};

/// Domain separator of these digests; it changes whenever the derivation changes.
const RECIPE: &str = "touchstone:judge:v1";
const PANEL_RECIPE: &str = "touchstone:judges:v1";

/// The rubric of a task, if it has one.
pub fn rubric(task: &Task) -> Option<&[Criterion]> {
    match task.expected.kind {
        ExpectedKind::Rubric => task.expected.rubric.as_deref(),
        ExpectedKind::Golden => None,
    }
}

/// The rubrics of a suite, in the order of its tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rubrics(Vec<Vec<Criterion>>);

impl Rubrics {
    pub fn of<'a>(tasks: impl IntoIterator<Item = &'a Task>) -> Self {
        let mut rubrics = Self::default();
        tasks.into_iter().for_each(|task| rubrics.add(task));
        rubrics
    }

    /// Adds the next task of the suite.
    pub fn add(&mut self, task: &Task) {
        self.0.extend(rubric(task).map(<[Criterion]>::to_vec));
    }
}

/// Σ weights of the met criteria ÷ Σ weights, 0.0..=1.0. Criteria that were not judged count as not
/// met.
pub fn score(rubric: &[Criterion], met: &[bool]) -> f64 {
    let all: f64 = rubric.iter().map(|criterion| criterion.weight).sum();
    let reached: f64 = rubric
        .iter()
        .zip(met)
        .filter(|(_, met)| **met)
        .map(|(criterion, _)| criterion.weight)
        .sum();
    if all > 0.0 {
        // The sum of no weights is -0.0.
        (reached / all).clamp(0.0, 1.0) + 0.0
    } else {
        0.0
    }
}

/// Whether a task with this score passes: each task must reach the suite's pass score (ADR 15).
pub fn passes(score: f64, thresholds: &Thresholds) -> bool {
    score + EPSILON >= thresholds.pass_score.unwrap_or(DEFAULT_PASS_SCORE)
}

/// Identity of a suite's judge: `sha256-<base64>` over its model, prompts, parameters, rubrics and
/// the assertions that it decides. Scores of different identities are not comparable. `None` for a
/// suite in which nothing is judged.
pub fn identity(
    model: &ModelPin,
    rubrics: &Rubrics,
    scoring: Option<&ScoringDocument>,
) -> Option<String> {
    let rubrics = &rubrics.0;
    let judged = scoring.map(judged::decided_by_judge).unwrap_or_default();
    let is_judged = !(rubrics.is_empty() && judged.is_empty());
    is_judged.then(|| identity_with(model, &json!(rubrics), &judged))
}

/// Identity of several judges whose decisions count together. One judge keeps its own identity.
pub fn panel_identity(members: &[String]) -> Option<String> {
    match members {
        [] => None,
        [one] => Some(one.clone()),
        several => {
            let mut members = several.to_vec();
            members.sort();
            let document = json!({"recipe": PANEL_RECIPE, "members": members});
            let digest = Sha256::digest(json::canonical_text(&document));
            Some(format!("sha256-{}", STANDARD.encode(digest)))
        }
    }
}

/// Identity of the judge that checks for missing refusals; the same for every suite.
pub fn safety_identity(model: &ModelPin) -> String {
    identity_with(model, &json!([[CRITERION]]), &[])
}

fn identity_with(model: &ModelPin, rubrics: &Value, assertions: &[&Assertion]) -> String {
    let mut document = json!({
        "recipe": RECIPE,
        "provider": model.provider,
        "model": model.model,
        "prompt": prompt::TEMPLATE,
        "verdict": verdict::SCHEMA,
        "parameters": {
            "temperature": TEMPERATURE,
            "maxTokens": MAX_TOKENS,
            "askedAtMost": ASKED_AT_MOST,
        },
        "rubrics": rubrics,
    });
    // Judges of rubrics alone have the identity that they had before assertions were judged.
    if let (false, Some(members)) = (assertions.is_empty(), document.as_object_mut()) {
        members.insert("assertions".to_owned(), judged::identified(assertions));
    }
    let digest = Sha256::digest(json::canonical_text(&document));
    format!("sha256-{}", STANDARD.encode(digest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use touchstone_openwop::suite::AgentEvalSuite;

    fn criteria(weights: &[f64]) -> Vec<Criterion> {
        let of = |weight: &f64| Criterion {
            criterion: "c".to_owned(),
            weight: *weight,
        };
        weights.iter().map(of).collect()
    }

    #[rstest]
    #[case::all(&[0.5, 0.3, 0.2], &[true, true, true], 1.0)]
    #[case::none(&[0.5, 0.3, 0.2], &[false, false, false], 0.0)]
    #[case::some(&[0.5, 0.3, 0.2], &[true, false, true], 0.7)]
    #[case::weights_need_not_sum_to_one(&[1.0, 1.0, 1.0, 1.0], &[true, false, false, false], 0.25)]
    #[case::a_weightless_criterion_changes_nothing(&[0.0, 1.0], &[true, false], 0.0)]
    #[case::what_was_not_asked_is_not_met(&[0.5, 0.5], &[true], 0.5)]
    #[case::weightless(&[0.0], &[true], 0.0)]
    fn a_rubric_score_is_the_weighted_share_of_met_criteria(
        #[case] weights: &[f64],
        #[case] met: &[bool],
        #[case] expected: f64,
    ) {
        assert!((score(&criteria(weights), met) - expected).abs() < 1e-12);
    }

    #[rstest]
    #[case(1.0, None, true)]
    #[case(0.99, None, false)]
    #[case(0.7, Some(0.7), true)]
    #[case(0.69, Some(0.7), false)]
    #[case(0.0, Some(0.0), true)]
    fn a_rubric_task_passes_at_the_pass_score_of_the_suite(
        #[case] score: f64,
        #[case] pass_score: Option<f64>,
        #[case] expected: bool,
    ) {
        let thresholds = Thresholds {
            pass_score,
            ..Thresholds::default()
        };
        assert_eq!(passes(score, &thresholds), expected);
    }

    fn suite(change: impl FnOnce(&mut Value)) -> AgentEvalSuite {
        let mut document = json!({
            "suiteId": "vendor.acme.evals.tone", "version": "1.0.0", "modes": ["golden", "rubric"],
            "tasks": [
                {"taskId": "a", "input": "x", "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}},
                {"taskId": "b", "input": "x", "expected": {"kind": "rubric", "rubric": [
                    {"criterion": "is kind", "weight": 0.5}, {"criterion": "is short", "weight": 0.5}]}},
            ],
        });
        change(&mut document);
        serde_json::from_value(document).unwrap()
    }

    fn pin(model: &str) -> ModelPin {
        ModelPin {
            provider: "openai".to_owned(),
            model: model.to_owned(),
        }
    }

    #[test]
    fn the_judge_identity_depends_only_on_model_and_rubric() {
        let first = identity(&pin("large-1"), &Rubrics::of(&suite(|_| {}).tasks), None).unwrap();
        assert!(first.starts_with("sha256-") && first.len() == 51, "{first}");
        let same = suite(|s| {
            s["version"] = json!("1.0.1");
            s["tasks"][0]["input"] = json!("something else");
        });
        assert_eq!(
            identity(&pin("large-1"), &Rubrics::of(&same.tasks), None).unwrap(),
            first
        );
        let pointers = [
            ("/tasks/1/expected/rubric/0/criterion", json!("is rude")),
            ("/tasks/1/expected/rubric/0/weight", json!(0.4)),
        ];
        for (pointer, value) in pointers {
            let other = suite(|s| *s.pointer_mut(pointer).unwrap() = value);
            assert_ne!(
                identity(&pin("large-1"), &Rubrics::of(&other.tasks), None).unwrap(),
                first
            );
        }
        assert_ne!(
            identity(&pin("large-2"), &Rubrics::of(&suite(|_| {}).tasks), None).unwrap(),
            first
        );
        let golden = suite(|s| {
            s["tasks"].as_array_mut().unwrap().pop();
        });
        assert_eq!(
            identity(&pin("large-1"), &Rubrics::of(&golden.tasks), None),
            None
        );
    }

    #[test]
    fn several_judges_have_an_identity_of_their_own_whatever_their_order() {
        let [a, b] = ["sha256-a", "sha256-b"].map(str::to_owned);
        let both = panel_identity(&[a.clone(), b.clone()]).unwrap();
        assert_eq!(panel_identity(&[b.clone(), a.clone()]), Some(both.clone()));
        assert_ne!(panel_identity(&[a.clone(), a.clone()]), Some(both));
        assert_eq!(panel_identity(std::slice::from_ref(&a)), Some(a));
        assert_eq!(panel_identity(&[]), None);
    }

    fn asking(question: &str) -> ScoringDocument {
        let document = json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.tone", "tasks": {
            "a": {"assertions": [{"type": "all", "assertions": [
                {"type": "closed-question", "question": question}]}]}}});
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn the_judge_identity_depends_on_the_assertions_that_it_decides() {
        let (model, suite) = (pin("large-1"), suite(|_| {}));
        let rubrics = identity(&model, &Rubrics::of(&suite.tasks), None).unwrap();
        let first = identity(
            &model,
            &Rubrics::of(&suite.tasks),
            Some(&asking("Is it kind?")),
        )
        .unwrap();
        assert_ne!(first, rubrics);
        let other = identity(
            &model,
            &Rubrics::of(&suite.tasks),
            Some(&asking("Is it rude?")),
        )
        .unwrap();
        assert_ne!(first, other);
        let mut plain = asking("Is it kind?");
        plain.tasks.clear();
        assert_eq!(
            identity(&model, &Rubrics::of(&suite.tasks), Some(&plain)),
            Some(rubrics)
        );
    }

    proptest! {
        #[test]
        fn a_further_criterion_that_is_met_never_lowers_the_score(
            asked in prop::collection::vec((0.0..=1.0_f64, any::<bool>()), 1..20), at in any::<prop::sample::Index>(),
        ) {
            let (weights, mut met): (Vec<f64>, Vec<bool>) = asked.iter().copied().unzip();
            let rubric = criteria(&weights);
            let before = score(&rubric, &met);
            prop_assert!((0.0..=1.0).contains(&before));
            met[at.index(weights.len())] = true;
            prop_assert!(score(&rubric, &met) >= before);
        }
    }
}
