//! Whether a badge as plain JSON says what the credential within it says: only the credential is signed.

use jiff::Timestamp;
use serde_json::Value;

use super::credential::ceiling;
use super::{Axis, pictured};

/// The credential within a badge as plain JSON; `None` for any other document.
pub fn credential(document: &Value) -> Option<&Value> {
    let kind = document.get("type").and_then(Value::as_str);
    let credential = document.get("credential").filter(|it| it.is_object());
    credential.filter(|_| kind == Some("AgentAssessmentBadge"))
}

/// Whether names, dates, scores and tiers of the document are those of the credential. False for a credential of another kind.
pub fn agrees(document: &Value, credential: &Value) -> bool {
    let Some(badge) = pictured(credential) else {
        return false;
    };
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let at = |name: &str| document.get(name)?.as_str()?.parse::<Timestamp>().ok();
    let rating = |axis: Axis| {
        let rating = badge.rating(axis);
        let score = document.pointer(&format!("/{axis}/score"));
        let said = match score {
            Some(Value::String(text)) => text.parse().ok(),
            Some(score) => score.as_f64(),
            None => None,
        };
        let signed: Option<f64> = rating.score.to_string().parse().ok();
        let tier = text(&format!("/{axis}/tier"));
        let is_close = said.zip(signed).is_some_and(|(a, b)| (a - b).abs() < 1e-9);
        is_close && tier == Some(rating.tier.name())
    };
    text("/agent/name") == Some(badge.agent.name.as_str())
        && text("/agent/id") == Some(badge.agent.id.to_string().as_str())
        && at("valid_until").is_some_and(|it| ceiling(it) == badge.shown_until())
        && Axis::ALL.into_iter().all(rating)
}
