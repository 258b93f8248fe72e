//! Laws of the combinators.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::rules::eval::scoring_document::checks::{Contains, Nested};

fn leaf() -> impl Strategy<Value = Assertion> {
    ("[a-d]", any::<bool>(), 0_u8..4).prop_map(|(value, not, weight)| Assertion {
        not,
        weight: f64::from(weight),
        ..Assertion::from(Check::Contains(Contains {
            value,
            ignore_case: false,
        }))
    })
}

fn assertion() -> impl Strategy<Value = Assertion> {
    leaf().prop_recursive(3, 16, 4, |inner| {
        let list = prop::collection::vec(inner, 1..4);
        (list, 0_u8..3, any::<bool>()).prop_map(|(assertions, kind, not)| {
            let combined = Combined {
                assertions: assertions.clone(),
                threshold: None,
            };
            let check = match kind {
                0 => Check::All(combined),
                1 => Check::Any(combined),
                _ => Check::None(Nested { assertions }),
            };
            Assertion {
                not,
                ..Assertion::from(check)
            }
        })
    })
}

fn of(assertion: &Assertion, answer: &Value) -> AssertionResult {
    let scoring = EffectiveScoring {
        assertions: vec![assertion],
        threshold: None,
    };
    let observed = Observed {
        answer,
        calls: &[],
        latency_ms: None,
        cost: Some(NanoUsd(0)),
        tokens: 0,
        expected: None,
        external: External::default(),
    };
    evaluate(&scoring, &observed).assertions.remove(0)
}

fn all(assertions: Vec<Assertion>) -> Assertion {
    Check::All(Combined {
        assertions,
        threshold: None,
    })
    .into()
}

fn any_of(assertions: Vec<Assertion>) -> Assertion {
    Check::Any(Combined {
        assertions,
        threshold: None,
    })
    .into()
}

fn negated(assertion: &Assertion) -> Assertion {
    Assertion {
        not: !assertion.not,
        ..assertion.clone()
    }
}

fn answers() -> impl Strategy<Value = Value> {
    "[a-d]{0,4}".prop_map(Value::from)
}

proptest! {
    #[test]
    fn a_double_negation_changes_nothing(it in assertion(), answer in answers()) {
        let twice = negated(&all(vec![negated(&Assertion { weight: 1.0, ..it.clone() })]));
        let (once, twice) = (of(&it, &answer), of(&twice, &answer));
        prop_assert_eq!(once.holds, twice.holds);
        prop_assert!((once.score - twice.score).abs() < 1e-9);
    }

    #[test]
    fn any_and_all_are_dual(list in prop::collection::vec(assertion(), 1..5), answer in answers()) {
        let negations = list.iter().map(negated).collect();
        prop_assert_eq!(of(&any_of(list), &answer).holds, !of(&all(negations), &answer).holds);
    }

    #[test]
    fn none_is_the_negation_of_any(list in prop::collection::vec(assertion(), 1..5), answer in answers()) {
        let none = Assertion::from(Check::None(Nested { assertions: list.clone() }));
        let (none, not_any) = (of(&none, &answer), of(&negated(&any_of(list)), &answer));
        prop_assert_eq!((none.holds, none.score), (not_any.holds, not_any.score));
    }

    #[test]
    fn scores_stay_between_0_and_1(it in assertion(), answer in answers()) {
        let result = of(&it, &answer);
        prop_assert!((0.0..=1.0).contains(&result.score));
        prop_assert!((0.0..=1.0).contains(&result.value));
    }

    #[test]
    fn scaling_all_weights_changes_no_score(
        list in prop::collection::vec(leaf(), 1..6), factor in 0.001..1e300_f64, answer in answers()
    ) {
        let scaled = list.iter().map(|it| Assertion { weight: it.weight * factor, ..it.clone() });
        let (before, after) = (of(&all(list.clone()), &answer), of(&all(scaled.collect()), &answer));
        prop_assert_eq!(before.holds, after.holds);
        prop_assert!((before.score - after.score).abs() < 1e-9);
    }

    #[test]
    fn an_assertion_of_weight_0_does_not_count(
        mut list in prop::collection::vec(leaf(), 1..6), mut more in leaf(), answer in answers()
    ) {
        let before = of(&all(list.clone()), &answer);
        more.weight = 0.0;
        list.push(more);
        let after = of(&all(list), &answer);
        prop_assert_eq!((before.holds, before.score), (after.holds, after.score));
    }

    #[test]
    fn every_document_reads_back_as_it_was_written(it in assertion()) {
        let text = serde_json::to_string(&it).unwrap();
        prop_assert_eq!(serde_json::from_str::<Assertion>(&text).unwrap(), it);
        prop_assert!(json!(text).is_string());
    }
}
