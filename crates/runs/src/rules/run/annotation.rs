//! Parses annotations (RFC 0056). Their texts are written by people: they are limited in length,
//! and credentials in them are masked.

use serde_json::{Map, Value};

use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::ids::{EventId, TaskId};
use touchstone_kit::redaction::mask;
use touchstone_openwop::annotation::{AnnotationSignal, SignalKind};

/// Maximum number of annotations per run.
pub const MAX_ANNOTATIONS: u32 = 1_000;
/// Maximum total size of a run's annotations in bytes: they are listed in one response and included
/// in every bundle.
pub const MAX_ANNOTATION_OCTETS: u32 = 1_000_000;
const MAX_CORRECTION_CHARS: usize = 8_192;
const MAX_NOTE_CHARS: usize = 4_096;
const MAX_LABEL_CHARS: usize = 256;
const MAX_ID_CHARS: usize = 128;

/// An annotation to create, with every text masked.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAnnotation {
    pub event_id: Option<EventId>,
    pub node_id: Option<TaskId>,
    pub signal: AnnotationSignal,
    pub note: Option<String>,
}

impl NewAnnotation {
    /// Whether it has one of these labels.
    pub fn has_label(&self, labels: &[&str]) -> bool {
        let label = self.signal.label.as_deref();
        label.is_some_and(|it| labels.contains(&it))
    }
}

/// Parses the body of `POST /v1/runs/{runId}/annotations`. Unknown members are rejected at every
/// level.
///
/// # Errors
/// `validation_error` naming the field.
pub fn parse(body: &Value) -> Result<NewAnnotation, Problem> {
    let body = Fields::closed(body, "", &["target", "signal", "note"], Nulls::Wrong)?;
    let empty = Value::Object(Map::new());
    let target = body.get("target").unwrap_or(&empty);
    let target = Fields::closed(target, "target", &["eventId", "nodeId"], Nulls::Wrong)?;
    let signal = body
        .get("signal")
        .ok_or_else(|| body.invalid("signal", "is required"))?;
    let signal = Fields::closed(
        signal,
        "signal",
        &["kind", "rating", "correction", "label"],
        Nulls::Wrong,
    )?;
    let kind = match signal.get("kind").and_then(Value::as_str) {
        Some("rating") => SignalKind::Rating,
        Some("correction") => SignalKind::Correction,
        Some("label") => SignalKind::Label,
        Some("flag") => SignalKind::Flag,
        _ => {
            return Err(signal.invalid(
                "kind",
                "must be \"rating\", \"correction\", \"label\" or \"flag\"",
            ));
        }
    };
    let rating = match signal.get("rating") {
        None => None,
        Some(rating) => {
            let rating = rating.as_u64().and_then(|rating| u8::try_from(rating).ok());
            let rating = rating.filter(|rating| (1..=5).contains(rating));
            Some(rating.ok_or_else(|| signal.invalid("rating", "must be an integer from 1 to 5"))?)
        }
    };
    let read = AnnotationSignal {
        kind,
        rating,
        correction: words(&signal, "correction", MAX_CORRECTION_CHARS)?,
        label: words(&signal, "label", MAX_LABEL_CHARS)?,
    };
    let missing = match kind {
        SignalKind::Rating if read.rating.is_none() => Some("rating"),
        SignalKind::Correction if read.correction.is_none() => Some("correction"),
        SignalKind::Label if read.label.is_none() => Some("label"),
        _ => None,
    };
    if let Some(member) = missing {
        return Err(signal.invalid(member, "is required by `signal.kind`"));
    }
    Ok(NewAnnotation {
        event_id: target
            .text_of("eventId", 0..=MAX_ID_CHARS)?
            .map(EventId::from),
        node_id: target
            .text_of("nodeId", 0..=MAX_ID_CHARS)?
            .map(TaskId::from),
        signal: read,
        note: words(&body, "note", MAX_NOTE_CHARS)?,
    })
}

/// A text of at most `most` characters, masked. The masked text is limited too, because masks may
/// be longer than the credentials they replace.
fn words(fields: &Fields<'_>, name: &str, most: usize) -> Result<Option<String>, Problem> {
    let Some(text) = fields.text_of(name, 0..=most)? else {
        return Ok(None);
    };
    let masked = mask(text).into_owned();
    if masked.chars().count() > most {
        let what =
            format!("must be a string of at most {most} characters after credentials are masked");
        return Err(fields.invalid(name, &what));
    }
    Ok(Some(masked))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"kind": "rating", "rating": 5}))]
    #[case(json!({"kind": "label", "label": "good-answer"}))]
    #[case(json!({"kind": "flag"}))]
    #[case(json!({"kind": "correction", "correction": "the window is 30 days"}))]
    fn every_signal_kind_round_trips(#[case] signal: Value) {
        let read = parse(&json!({"signal": signal, "note": "checked"})).unwrap();
        assert_eq!(serde_json::to_value(&read.signal).unwrap(), signal);
        assert_eq!(read.note.as_deref(), Some("checked"));
    }

    #[rstest]
    #[case(json!([]), "")]
    #[case(json!({}), "signal")]
    #[case(json!({"signal": {}}), "signal.kind")]
    #[case(json!({"signal": {"kind": "applause"}}), "signal.kind")]
    #[case(json!({"signal": {"kind": "rating"}}), "signal.rating")]
    #[case(json!({"signal": {"kind": "rating", "rating": 6}}), "signal.rating")]
    #[case(json!({"signal": {"kind": "rating", "rating": 0}}), "signal.rating")]
    #[case(json!({"signal": {"kind": "rating", "rating": 4.5}}), "signal.rating")]
    #[case(json!({"signal": {"kind": "rating", "rating": "5"}}), "signal.rating")]
    #[case(json!({"signal": {"kind": "label"}}), "signal.label")]
    #[case(json!({"signal": {"kind": "correction"}}), "signal.correction")]
    #[case(json!({"signal": {"kind": "flag", "weight": 1}}), "signal.weight")]
    #[case(json!({"signal": {"kind": "flag"}, "actor": {"principalRef": "me"}}), "actor")]
    #[case(json!({"signal": {"kind": "flag"}, "target": {"runId": "other"}}), "target.runId")]
    #[case(json!({"signal": {"kind": "flag"}, "target": {"eventId": 1}}), "target.eventId")]
    #[case(json!({"signal": {"kind": "flag"}, "note": 7}), "note")]
    #[case(json!({"signal": {"kind": "flag"}, "note": null}), "note")]
    #[case(json!({"signal": {"kind": "flag"}, "target": null}), "target")]
    #[case(json!({"signal": {"kind": "flag"}, "note": "x".repeat(5000)}), "note")]
    #[case(json!({"signal": {"kind": "flag"}, "note": "sk-abcdef,".repeat(409)}), "note")]
    fn invalid_annotations_are_rejected_by_field(#[case] body: Value, #[case] field: &str) {
        let problem = parse(&body).unwrap_err();
        assert_eq!(problem.details["field"], field, "{problem}");
    }

    #[test]
    fn credentials_in_annotations_are_masked_before_storage() {
        let body = json!({"signal": {"kind": "correction", "correction": "use sk-canary123456789"},
                          "note": "key AKIAIOSFODNN7EXAMPLE"});
        let read = parse(&body).unwrap();
        assert!(!format!("{read:?}").contains("canary") && !format!("{read:?}").contains("AKIA"));
    }
}
