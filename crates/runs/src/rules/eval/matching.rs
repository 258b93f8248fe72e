//! Golden matching (RFC 0081 §A `match.strategy`): `exact`, `contains`, `json-match` on the whole
//! output.
//!
//! A string output is compared as it is; anything else as compact JSON with sorted keys. JSON
//! numbers are compared by value, so `1` equals `1.0`. Subset matches are never silent: members are
//! excluded from the comparison only by the run's recorded list of JSON Pointers.

use std::borrow::Cow;

use serde_json::{Number, Value};

use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::{Match, MatchStrategy};

/// Whether `output` satisfies `expected`, after dropping the members at `ignore` on both sides.
///
/// The ignore list applies to structured values only; if the output is a JSON text, it applies to
/// the parsed value.
pub fn matches(expected: &Match, output: &Value, ignore: &[String]) -> bool {
    match expected.strategy {
        MatchStrategy::Exact => {
            text(&pruned(output, ignore)) == text(&pruned(&expected.value, ignore))
        }
        MatchStrategy::Contains => {
            text(&pruned(output, ignore)).contains(text(&pruned(&expected.value, ignore)).as_ref())
        }
        MatchStrategy::JsonMatch => {
            let parsed = parsed_text(output);
            equal(
                &pruned(parsed.as_ref(), ignore),
                &pruned(&expected.value, ignore),
            )
        }
    }
}

/// The values that [`matches`] compares, expected and actual, in the form that shows best where
/// they differ: JSON where both are structured, else the compared texts.
pub fn compared(expected: &Match, output: &Value, ignore: &[String]) -> (Value, Value) {
    let wanted = pruned(&expected.value, ignore);
    if expected.strategy == MatchStrategy::JsonMatch {
        let parsed = parsed_text(output);
        return (
            wanted.into_owned(),
            pruned(parsed.as_ref(), ignore).into_owned(),
        );
    }
    let output = pruned(output, ignore);
    let (a, b) = (parsed_structure(&wanted), parsed_structure(&output));
    let are_structured = !a.is_string() && !b.is_string();
    if are_structured && !equal(&a, &b) {
        return (a.into_owned(), b.into_owned());
    }
    (
        text(&wanted).into_owned().into(),
        text(&output).into_owned().into(),
    )
}

/// Parses an output that is a JSON text; any other output is unchanged.
fn parsed_text(output: &Value) -> Cow<'_, Value> {
    match output {
        Value::String(text) => match serde_json::from_str(text) {
            Ok(value) => Cow::Owned(value),
            Err(_) => Cow::Borrowed(output),
        },
        _ => Cow::Borrowed(output),
    }
}

fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        _ => Cow::Owned(canonical_text(value)),
    }
}

fn pruned<'a>(value: &'a Value, ignore: &[String]) -> Cow<'a, Value> {
    if ignore.is_empty() {
        return Cow::Borrowed(value);
    }
    // Ignored members are also dropped from an answer that came as JSON text.
    let mut value = parsed_structure(value);
    for pointer in ignore {
        remove(value.to_mut(), pointer);
    }
    value
}

/// Parses a JSON text only if it contains an object or an array: a plain string must stay a string.
fn parsed_structure(value: &Value) -> Cow<'_, Value> {
    match parsed_text(value) {
        Cow::Owned(parsed @ (Value::Object(_) | Value::Array(_))) => Cow::Owned(parsed),
        _ => Cow::Borrowed(value),
    }
}

/// Removes the value at a JSON Pointer (RFC 6901), if it exists.
fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        return;
    };
    let last = last.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.remove(&last);
        }
        Some(Value::Array(items)) => {
            if let Ok(index) = last.parse::<usize>()
                && index < items.len()
            {
                items.remove(index);
            }
        }
        _ => {}
    }
}

/// Whether a text is a JSON Pointer to a member. The empty pointer is invalid, because it would
/// drop everything.
pub fn is_member_pointer(pointer: &str) -> bool {
    let escapes_are_sound = pointer
        .split('~')
        .skip(1)
        .all(|rest| rest.starts_with('0') || rest.starts_with('1'));
    pointer.starts_with('/') && escapes_are_sound
}

/// Deep equality as JSON: key order is ignored, and numbers are compared by value.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => numbers_equal(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => a == b,
    }
}

fn numbers_equal(a: &Number, b: &Number) -> bool {
    if let (Some(a), Some(b)) = (a.as_i128(), b.as_i128()) {
        return a == b;
    }
    match (integral(a), integral(b)) {
        (Some(a), Some(b)) => a == b,
        // Equal only if both are integers or both have a fraction.
        _ => a.as_f64() == b.as_f64() && integral(a).is_some() == integral(b).is_some(),
    }
}

/// The integer value of a JSON number, if it has one; exact also beyond 2^53.
fn integral(number: &Number) -> Option<i128> {
    if let Some(whole) = number.as_i128() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn golden(strategy: MatchStrategy, value: Value) -> Match {
        Match { strategy, value }
    }

    #[rstest]
    #[case::same_text(json!("yes"), json!("yes"), true)]
    #[case::trailing_blank(json!("yes"), json!("yes "), false)]
    #[case::object_as_compact_sorted_text(json!({"b": 1, "a": [true]}), json!(r#"{"a":[true],"b":1}"#), true)]
    #[case::text_with_blanks_is_another_text(json!({"a": 1}), json!(r#"{"a": 1}"#), false)]
    #[case::number_as_text(json!(42), json!("42"), true)]
    fn exact_compares_the_stringified_output(
        #[case] value: Value,
        #[case] output: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(
            matches(&golden(MatchStrategy::Exact, value), &output, &[]),
            expected
        );
    }

    #[rstest]
    #[case(json!("SKU-4471"), json!("part SKU-4471 ships"), true)]
    #[case(json!("sku-4471"), json!("part SKU-4471 ships"), false)]
    #[case(json!("\"a\":1"), json!({"a": 1, "b": 2}), true)]
    #[case(json!(""), json!("anything"), true)]
    fn contains_searches_the_stringified_output(
        #[case] value: Value,
        #[case] output: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(
            matches(&golden(MatchStrategy::Contains, value), &output, &[]),
            expected
        );
    }

    #[rstest]
    #[case::key_order(json!({"a": 1, "b": {"c": null}}), json!(r#"{ "b": {"c": null}, "a": 1 }"#), true)]
    #[case::number_by_value(json!({"a": 1}), json!({"a": 1.0}), true)]
    #[case::big_integers_stay_apart(json!(9007199254740993_u64), json!(9007199254740992_u64), false)]
    #[case::big_integer_is_not_its_rounding(json!(9007199254740993_u64), json!(9007199254740992.0), false)]
    #[case::no_subset(json!({"a": 1}), json!({"a": 1, "b": 2}), false)]
    #[case::no_superset(json!({"a": 1, "b": 2}), json!({"a": 1}), false)]
    #[case::array_order_counts(json!([1, 2]), json!([2, 1]), false)]
    #[case::null_is_not_absent(json!({"a": null}), json!({}), false)]
    #[case::text_that_is_no_json(json!("plain"), json!("plain"), true)]
    fn json_match_is_deep_equality_of_the_whole(
        #[case] value: Value,
        #[case] output: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(
            matches(&golden(MatchStrategy::JsonMatch, value), &output, &[]),
            expected
        );
    }

    #[test]
    fn listed_members_are_dropped_on_both_sides() {
        let expected = golden(
            MatchStrategy::JsonMatch,
            json!({"label": "billing", "rationale": "x"}),
        );
        let ignore = vec!["/rationale".to_owned(), "/confidence".to_owned()];
        assert!(matches(
            &expected,
            &json!({"label": "billing", "rationale": "y", "confidence": 0.3}),
            &ignore
        ));
        assert!(matches(
            &expected,
            &json!(r#"{"label":"billing","confidence":1}"#),
            &ignore
        ));
        assert!(!matches(
            &expected,
            &json!({"label": "other", "rationale": "x"}),
            &ignore
        ));
        assert!(!matches(
            &expected,
            &json!({"label": "billing", "why": "y"}),
            &ignore
        ));
    }

    #[rstest]
    #[case("/a", true)]
    #[case("/a/0/b~1c~0", true)]
    #[case("", false)]
    #[case("a", false)]
    #[case("/a~2", false)]
    fn ignore_pointers_must_name_a_member(#[case] pointer: &str, #[case] sound: bool) {
        assert_eq!(is_member_pointer(pointer), sound);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z ]{0,8}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{1,3}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_matches_its_serialized_text(value in any_json()) {
            prop_assume!(!value.is_string());
            let text = Value::String(canonical_text(&value));
            for strategy in [MatchStrategy::Exact, MatchStrategy::Contains, MatchStrategy::JsonMatch] {
                prop_assert!(matches(&golden(strategy, value.clone()), &text, &[]));
            }
        }

        #[test]
        fn equality_is_symmetric(a in any_json(), b in any_json()) {
            prop_assert_eq!(equal(&a, &b), equal(&b, &a));
            prop_assert!(equal(&a, &a));
        }
    }
}
