//! Compares a badge in plain JSON with the credential inside it; only the credential is signed.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::credential::{ceiling, window};
use super::document::{DocumentShape, document};
use super::read_back::{badge_from_credential, result};
use super::{Axis, Badge, Dimension, DimensionResult};
use crate::credential::proof::moment;

/// Members that no credential covers.
const UNSIGNED: [&str; 2] = ["agent.organization_id", "organization.id"];
/// Members that every JSON badge has.
const REQUIRED: [&str; 9] = [
    "agent.id",
    "agent.name",
    "performance.score",
    "performance.tier",
    "performance.coverage",
    "capability.score",
    "capability.tier",
    "capability.coverage",
    "valid_until",
];
/// Maximum number of characters shown of a member's name.
const SHOWN: usize = 80;

/// The credential inside a badge in plain JSON; `None` for any other document.
pub fn credential(document: &Value) -> Option<&Value> {
    let kind = document.get("type").and_then(Value::as_str);
    let credential = document.get("credential").filter(|it| it.is_object());
    credential.filter(|_| kind == Some("AgentAssessmentBadge"))
}

/// How the members of a JSON badge compare with its signed credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Members that are missing or differ from the credential, such as `performance.score`.
    pub altered: Vec<String>,
    /// Members that the credential does not cover.
    pub unsigned: Vec<String>,
}

/// Compares every member of the document with the credential. A credential of another kind covers
/// no member.
pub fn compared(document: &Value, credential: &Value) -> Agreement {
    let mut found = Agreement::default();
    let Some(signed) = signed(credential) else {
        found.altered.push("credential".to_owned());
        return found;
    };
    compare(document, &signed, "", &mut found);
    let at = |name: &str| document.pointer(&format!("/{}", name.replace('.', "/")));
    let missing = REQUIRED.into_iter().filter(|it| at(it).is_none());
    found.altered.extend(missing.map(str::to_owned));
    // Not signed, but stated twice, so both statements must agree.
    let [one, other] = UNSIGNED;
    if at(one)
        .zip(at(other))
        .is_some_and(|(one, other)| one != other)
    {
        found.altered.push(one.to_owned());
    }
    found
}

/// The badge document that a credential certifies.
fn signed(credential: &Value) -> Option<Value> {
    let badge = badge_from_credential(credential)?;
    let dimensions = Axis::ALL.into_iter().flat_map(Axis::dimensions);
    let scored = |dimension: Dimension| DimensionResult {
        dimension,
        score: result(credential, dimension.as_str()).and_then(|it| it.parse().ok()),
    };
    let badge = Badge {
        dimensions: dimensions.copied().map(scored).collect(),
        window: window(credential),
        ..badge
    };
    let mut signed = document(&badge, credential, DocumentShape::Host);
    let alignment = credential.pointer("/credentialSubject/achievement/alignment");
    let standards = alignment.and_then(Value::as_array).into_iter().flatten();
    let names: Vec<&Value> = standards.filter_map(|it| it.get("targetName")).collect();
    let names = json!(names);
    if let Some(stated) = signed.get_mut("standards_alignment") {
        *stated = names;
    }
    Some(signed)
}

fn compare(stated: &Value, signed: &Value, place: &str, found: &mut Agreement) {
    if stated == signed {
        return;
    }
    let (Value::Object(members), Value::Object(covered)) = (stated, signed) else {
        if !is_same(stated, signed, place) {
            found.altered.push(place.to_owned());
        }
        return;
    };
    for (name, stated) in members {
        let name: String = name.chars().take(SHOWN).collect();
        let inner = match place {
            "" => name.clone(),
            _ => format!("{place}.{name}"),
        };
        match covered.get(&name) {
            _ if UNSIGNED.contains(&inner.as_str()) => found.unsigned.push(inner),
            Some(signed) => compare(stated, signed, &inner, found),
            // The host adds members about the state of the badge.
            None if place.is_empty() => found.unsigned.push(inner),
            None => found.altered.push(inner),
        }
    }
    // Without its weakest dimension, a badge would look better than it is.
    if place.ends_with(".dimensions") || place == "evidence_sources" {
        let given = covered.iter().filter(|(_, signed)| !signed.is_null());
        let missing = given.filter(|(name, _)| !members.contains_key(*name));
        let named = missing.map(|(name, _)| format!("{place}.{name}"));
        found.altered.extend(named);
    }
}

fn is_same(stated: &Value, signed: &Value, place: &str) -> bool {
    let (area, name) = place.rsplit_once('.').unwrap_or(("", place));
    match name {
        // Scores are strings or numbers, depending on the document's shape.
        "composite_score" | "score" | "coverage" => is_close(stated, signed),
        _ if area.ends_with(".dimensions") || area == "evidence_sources" => {
            is_close(stated, signed)
        }
        // A credential states times in whole seconds, and rounds the end of its validity up.
        "valid_until" => instant(stated)
            .zip(instant(signed))
            .is_some_and(|(stated, signed)| ceiling(stated) == signed),
        "timestamp" | "certified_date" | "window_start" | "window_end" => instant(stated)
            .zip(instant(signed))
            .is_some_and(|(stated, signed)| moment(stated) == moment(signed)),
        _ => false,
    }
}

fn is_close(stated: &Value, signed: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_f64(),
    };
    let both = number(stated).zip(number(signed));
    both.is_some_and(|(stated, signed): (f64, f64)| (stated - signed).abs() < 1e-9)
}

fn instant(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::Window;
    use super::super::sample::{badge, issued};
    use super::*;

    fn presented(shape: DocumentShape) -> (Value, Value) {
        let mut badge = badge();
        badge.window = Some(Window {
            start: "2026-03-17T00:00:00.25Z".parse().unwrap(),
            end: "2026-04-16T00:00:00Z".parse().unwrap(),
        });
        badge.certified_at = "2026-04-16T13:45:00.125Z".parse().unwrap();
        badge.valid_until = "2026-07-15T12:00:00.125Z".parse().unwrap();
        let credential = issued(&badge);
        (document(&badge, &credential, shape), credential)
    }

    /// Every leaf member, except those of the credential.
    fn leaves(value: &Value, place: &str) -> Vec<String> {
        match value {
            Value::Object(members) => members
                .iter()
                .filter(|(name, _)| *name != "credential")
                .flat_map(|(name, value)| leaves(value, &format!("{place}/{name}")))
                .collect(),
            _ => vec![place.to_owned()],
        }
    }

    #[rstest]
    fn every_changed_member_is_named(
        #[values(DocumentShape::Host, DocumentShape::Specification)] shape: DocumentShape,
    ) {
        let (document, credential) = presented(shape);
        let places = leaves(&document, "");
        assert!(places.len() > 35, "{places:?}");
        for place in places {
            let name = place.trim_start_matches('/').replace('/', ".");
            let mut altered = document.clone();
            let member = altered.pointer_mut(&place).unwrap();
            *member = match &*member {
                Value::String(text) => json!(format!("{text}1")),
                Value::Number(number) => json!(number.as_f64().unwrap() + 0.01),
                Value::Null => json!("0.50"),
                _ => json!([]),
            };
            let expected = match UNSIGNED.contains(&name.as_str()) {
                // The two statements of the organization contradict each other.
                true => "agent.organization_id".to_owned(),
                false => name,
            };
            assert_eq!(compared(&altered, &credential).altered, [expected]);
        }
    }

    #[rstest]
    #[case::composite("/performance/composite_score", json!("0.99"))]
    #[case::dimension("/performance/dimensions/accuracy", json!(null))]
    #[case::dimensions("/capability/dimensions", json!(null))]
    #[case::not_assessed("/capability/dimensions/learning_rate", json!("0.10"))]
    #[case::issued("/certified_date", json!("2026-04-16T13:45:01Z"))]
    #[case::until("/assessment/valid_until", json!("2027-07-15T12:00:00Z"))]
    #[case::window("/assessment/window_start", json!("2025-03-17T00:00:00Z"))]
    #[case::organization("/organization/name", json!("Acme Assessments"))]
    #[case::address("/verification_url", json!("https://elsewhere.example/verify"))]
    #[case::sources("/evidence_sources/host", json!(1.0))]
    fn a_plausible_change_is_named(#[case] place: &str, #[case] value: Value) {
        let (mut document, credential) = presented(DocumentShape::Specification);
        *document.pointer_mut(place).unwrap() = value;
        let name = place.trim_start_matches('/').replace('/', ".");
        assert_eq!(compared(&document, &credential).altered, [name]);
    }

    #[test]
    fn both_document_shapes_agree_with_the_credential() {
        for shape in [DocumentShape::Host, DocumentShape::Specification] {
            let (document, credential) = presented(shape);
            let found = compared(&document, &credential);
            assert_eq!(found.altered, [""; 0]);
            assert_eq!(found.unsigned, UNSIGNED);
        }
    }

    #[test]
    fn documents_of_the_first_badges_still_agree_with_the_credential() {
        let (mut document, credential) = presented(DocumentShape::Host);
        let members = document.as_object_mut().unwrap();
        for name in ["assessment", "standards_alignment", "evidence_sources"] {
            members.remove(name);
        }
        assert_eq!(compared(&document, &credential).altered, [""; 0]);
    }

    #[test]
    fn members_that_are_missing_or_added_are_named() {
        let (mut document, credential) = presented(DocumentShape::Host);
        document["capability"]
            .as_object_mut()
            .unwrap()
            .remove("coverage");
        document["agent"]["rank"] = json!("best");
        document["state"] = json!("issued");
        let found = compared(&document, &credential);
        assert_eq!(found.altered, ["agent.rank", "capability.coverage"]);
        assert!(found.unsigned.contains(&"state".to_owned()), "{found:?}");
        let other = json!({"type": ["VerifiableCredential"]});
        assert_eq!(compared(&document, &other).altered, ["credential"]);
    }

    #[rstest]
    #[case::dimension("performance.dimensions", "accuracy")]
    #[case::other_axis("capability.dimensions", "tool_proficiency")]
    #[case::source("evidence_sources", "person")]
    fn a_part_that_is_left_out_is_named(#[case] of: &str, #[case] part: &str) {
        let (mut document, credential) = presented(DocumentShape::Specification);
        let place = format!("/{}", of.replace('.', "/"));
        let parts = document.pointer_mut(&place).unwrap();
        assert!(parts.as_object_mut().unwrap().remove(part).is_some());
        let named = format!("{of}.{part}");
        assert_eq!(compared(&document, &credential).altered, [named]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_score_is_that_of_the_credential_or_named(hundredths in 0_u8..=100, written in any::<bool>()) {
            let (mut document, credential) = presented(DocumentShape::Host);
            let score = f64::from(hundredths) / 100.0;
            document["performance"]["score"] = match written {
                true => json!(format!("{score:.2}")),
                false => json!(score),
            };
            let expected: &[&str] = if hundredths == 93 { &[] } else { &["performance.score"] };
            prop_assert_eq!(compared(&document, &credential).altered, expected);
        }
    }
}
