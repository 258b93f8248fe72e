//! Differences between an expected and an actual value: by member for JSON, by word for text.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff, capture_diff_slices};

use crate::rules::eval::matching::equal;
use touchstone_kit::json::canonical_text;
use touchstone_openwop::suite::MatchStrategy;

/// Maximum number of differences of one answer.
pub const MAX_DIFFERENCES: usize = 200;
/// Longer arrays are compared position by position.
const MAX_ALIGNED: usize = 2_000;
/// Longer texts are shown whole, without marked words, in bytes.
const MAX_TEXT: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DifferenceKind {
    /// Both values exist and differ.
    Changed,
    /// The answer lacks an expected value.
    Missing,
    /// The answer has a value that is not expected.
    Unexpected,
}

/// One place where an answer differs from the expectation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// JSON Pointer to the place; empty for the whole value. An index into an array is that of the
    /// expected value, or of the answer for an unexpected element.
    path: String,
    kind: DifferenceKind,
    /// Absent for an unexpected value.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    expected: Option<Value>,
    /// Absent for a missing value.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    actual: Option<Value>,
}

/// A member that is present, also with the value null.
fn present<'de, D: Deserializer<'de>>(member: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(member).map(Some)
}

impl Difference {
    pub fn changed(path: impl Into<String>, expected: Value, actual: Value) -> Self {
        Self {
            path: path.into(),
            kind: DifferenceKind::Changed,
            expected: Some(expected),
            actual: Some(actual),
        }
    }

    pub fn missing(path: impl Into<String>, expected: Value) -> Self {
        Self {
            path: path.into(),
            kind: DifferenceKind::Missing,
            expected: Some(expected),
            actual: None,
        }
    }

    pub fn unexpected(path: impl Into<String>, actual: Value) -> Self {
        Self {
            path: path.into(),
            kind: DifferenceKind::Unexpected,
            expected: None,
            actual: Some(actual),
        }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub const fn kind(&self) -> DifferenceKind {
        self.kind
    }

    pub const fn expected(&self) -> Option<&Value> {
        self.expected.as_ref()
    }

    pub const fn actual(&self) -> Option<&Value> {
        self.actual.as_ref()
    }
}

/// The differences of an answer, at most [`MAX_DIFFERENCES`], in the order of the expected value.
/// An answer that should contain a value and does not has one: the missing value.
pub fn differences(strategy: MatchStrategy, expected: &Value, actual: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    match strategy {
        MatchStrategy::Contains => found.push(Difference::missing("", expected.clone())),
        MatchStrategy::Exact | MatchStrategy::JsonMatch => {
            compare("", expected, actual, &mut found);
        }
    }
    found
}

fn compare(path: &str, expected: &Value, actual: &Value, found: &mut Vec<Difference>) {
    if found.len() >= MAX_DIFFERENCES || equal(expected, actual) {
        return;
    }
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => members(path, expected, actual, found),
        (Value::Array(expected), Value::Array(actual)) => elements(path, expected, actual, found),
        _ => found.push(Difference::changed(path, expected.clone(), actual.clone())),
    }
}

fn members(
    path: &str,
    expected: &Map<String, Value>,
    actual: &Map<String, Value>,
    found: &mut Vec<Difference>,
) {
    for (name, value) in expected {
        let path = member_path(path, name);
        match actual.get(name) {
            Some(other) => compare(&path, value, other, found),
            None => push(found, Difference::missing(path, value.clone())),
        }
    }
    for (name, value) in actual {
        if !expected.contains_key(name) {
            let path = member_path(path, name);
            push(found, Difference::unexpected(path, value.clone()));
        }
    }
}

fn member_path(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn push(found: &mut Vec<Difference>, difference: Difference) {
    if found.len() < MAX_DIFFERENCES {
        found.push(difference);
    }
}

/// Elements are aligned first, so that one element too many does not make all later ones differ.
fn elements(path: &str, expected: &[Value], actual: &[Value], found: &mut Vec<Difference>) {
    if expected.len().max(actual.len()) > MAX_ALIGNED {
        return pairs(path, 0, expected, 0, actual, found);
    }
    let texts = |values: &[Value]| -> Vec<String> { values.iter().map(canonical_text).collect() };
    let aligned = capture_diff_slices(Algorithm::Myers, &texts(expected), &texts(actual));
    for op in aligned {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (olds, news) = (op.old_range(), op.new_range());
        pairs(
            path,
            olds.start,
            expected.get(olds).unwrap_or_default(),
            news.start,
            actual.get(news).unwrap_or_default(),
            found,
        );
    }
}

/// Compares elements position by position. The slices start at the given indexes.
fn pairs(
    path: &str,
    expected_from: usize,
    expected: &[Value],
    actual_from: usize,
    actual: &[Value],
    found: &mut Vec<Difference>,
) {
    for (n, value) in expected.iter().enumerate() {
        let path = format!("{path}/{}", expected_from + n);
        match actual.get(n) {
            Some(other) => compare(&path, value, other, found),
            None => push(found, Difference::missing(path, value.clone())),
        }
    }
    for (n, value) in actual.iter().enumerate().skip(expected.len()) {
        let path = format!("{path}/{}", actual_from + n);
        push(found, Difference::unexpected(path, value.clone()));
    }
}

/// A part of two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPart {
    Both(String),
    OnlyExpected(String),
    OnlyActual(String),
}

/// The parts of two texts in order, word by word; `None` if they are too long to compare or have no
/// word in common.
pub fn text_parts(expected: &str, actual: &str) -> Option<Vec<TextPart>> {
    if expected.len().max(actual.len()) > MAX_TEXT {
        return None;
    }
    let mut parts: Vec<TextPart> = Vec::new();
    for change in TextDiff::from_words(expected, actual).iter_all_changes() {
        let text = change.value();
        match (change.tag(), parts.last_mut()) {
            (ChangeTag::Equal, Some(TextPart::Both(part)))
            | (ChangeTag::Delete, Some(TextPart::OnlyExpected(part)))
            | (ChangeTag::Insert, Some(TextPart::OnlyActual(part))) => part.push_str(text),
            (ChangeTag::Equal, _) => parts.push(TextPart::Both(text.to_owned())),
            (ChangeTag::Delete, _) => parts.push(TextPart::OnlyExpected(text.to_owned())),
            (ChangeTag::Insert, _) => parts.push(TextPart::OnlyActual(text.to_owned())),
        }
    }
    let has_common_word = parts
        .iter()
        .any(|part| matches!(part, TextPart::Both(text) if !text.trim().is_empty()));
    has_common_word.then_some(parts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn json_differences(expected: &Value, actual: &Value) -> Vec<Difference> {
        differences(MatchStrategy::JsonMatch, expected, actual)
    }

    #[rstest]
    #[case::equal(json!({"a": 1}), json!({"a": 1.0}), vec![])]
    #[case::changed(json!({"a": 1}), json!({"a": 2}), vec![Difference::changed("/a", json!(1), json!(2))])]
    #[case::missing(json!({"a": 1}), json!({}), vec![Difference::missing("/a", json!(1))])]
    #[case::unexpected(json!({}), json!({"b": null}), vec![Difference::unexpected("/b", Value::Null)])]
    #[case::nested(
        json!({"a": {"b/c": [1, 2]}}),
        json!({"a": {"b/c": [1, 3]}}),
        vec![Difference::changed("/a/b~1c/1", json!(2), json!(3))]
    )]
    #[case::other_type(json!({"a": []}), json!({"a": {}}), vec![Difference::changed("/a", json!([]), json!({}))])]
    #[case::whole(json!("billing"), json!("sales"), vec![Difference::changed("", json!("billing"), json!("sales"))])]
    #[case::inserted_first(json!([1, 2, 3]), json!([0, 1, 2, 3]), vec![Difference::unexpected("/0", json!(0))])]
    #[case::removed_first(json!([1, 2, 3]), json!([2, 3]), vec![Difference::missing("/0", json!(1))])]
    fn json_is_compared_by_member(
        #[case] expected: Value,
        #[case] actual: Value,
        #[case] found: Vec<Difference>,
    ) {
        assert_eq!(json_differences(&expected, &actual), found);
    }

    #[test]
    fn an_answer_that_lacks_a_text_has_one_difference() {
        let found = differences(MatchStrategy::Contains, &json!("refund"), &json!("hello"));
        assert_eq!(found, [Difference::missing("", json!("refund"))]);
    }

    #[test]
    fn the_number_of_differences_is_limited() {
        let values = |from: usize| -> Value { (from..from + 3_000).collect::<Vec<_>>().into() };
        let found = json_differences(&values(0), &values(5_000));
        assert_eq!(found.len(), MAX_DIFFERENCES);
    }

    #[test]
    fn texts_are_compared_by_word() {
        let parts = text_parts("the refund goes to billing", "the refund goes to sales").unwrap();
        assert_eq!(
            parts,
            [
                TextPart::Both("the refund goes to ".to_owned()),
                TextPart::OnlyExpected("billing".to_owned()),
                TextPart::OnlyActual("sales".to_owned()),
            ]
        );
        assert_eq!(text_parts("billing", "sales"), None, "nothing in common");
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ab/~]{1,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn there_are_differences_exactly_if_the_values_differ(a in value(), b in value()) {
            prop_assert_eq!(json_differences(&a, &b).is_empty(), equal(&a, &b));
        }

        #[test]
        fn differences_survive_as_json(a in value(), b in value()) {
            let found = json_differences(&a, &b);
            let text = serde_json::to_string(&found).unwrap();
            prop_assert_eq!(serde_json::from_str::<Vec<Difference>>(&text).unwrap(), found);
        }

        #[test]
        fn an_expected_value_is_where_its_path_says(a in value(), b in value()) {
            for found in json_differences(&a, &b) {
                if let Some(expected) = found.expected() {
                    prop_assert_eq!(a.pointer(found.path()), Some(expected));
                }
            }
        }

        #[test]
        fn the_parts_of_texts_give_the_texts(a in "[a-c ]{0,30}", b in "[a-c ]{0,30}") {
            let parts = text_parts(&a, &b).unwrap_or_default();
            if !parts.is_empty() {
                let side = |expected: bool| -> String {
                    let parts = parts.iter().filter_map(|part| match part {
                        TextPart::Both(text) => Some(text.as_str()),
                        TextPart::OnlyExpected(text) => expected.then_some(text.as_str()),
                        TextPart::OnlyActual(text) => (!expected).then_some(text.as_str()),
                    });
                    parts.collect()
                };
                prop_assert_eq!((side(true), side(false)), (a, b));
            }
        }
    }
}
