//! Reads the badge back from a credential, limited to the content of its picture, so that the
//! picture can be rendered again and compared.

use serde_json::Value;
use uuid::Uuid;

use super::credential::{ASSESSMENT, RECORDED_BY, achievement_id, coverage_key};
use super::{Axis, AxisResult, Badge, DisplayScore, Party};
use crate::rules::evidence::{Recorder, Sources};

const VERIFY: &str = "/verify";
const BADGES: &str = "/api/v1/badges/";
const ACHIEVEMENT: &str = "/credentialSubject/achievement/id";

/// Reads the badge; `None` for a credential of another kind, whose picture this program does not
/// render.
pub fn badge_from_credential(credential: &Value) -> Option<Badge> {
    let text = |pointer: &str| credential.pointer(pointer).and_then(Value::as_str);
    let url = text("/evidence/0/id")?;
    let (base_url, id) = url.strip_suffix(VERIFY)?.rsplit_once(BADGES)?;
    if text(ACHIEVEMENT)? != achievement_id(base_url) {
        return None;
    }
    let result = |key: &str| result(credential, key);
    let rating = |axis: Axis| {
        Some(AxisResult {
            score: result(axis.as_str())?.parse().ok()?,
            tier: result(&format!("{}_tier", axis.as_str()))?.parse().ok()?,
            coverage: match result(&coverage_key(axis)) {
                Some(coverage) => coverage.parse().ok()?,
                None => DisplayScore::hundredths(100)?,
            },
        })
    };
    Some(Badge {
        id: id.parse().ok()?,
        agent: Party {
            id: text("/credentialSubject/id")?
                .strip_prefix("urn:uuid:")?
                .parse()
                .ok()?,
            name: text("/credentialSubject/identifier/0/identityHash")?.to_owned(),
        },
        // The picture does not show the id.
        organization: Party {
            id: Uuid::nil(),
            name: text("/issuer/name")?.to_owned(),
        },
        performance: rating(Axis::Performance)?,
        capability: rating(Axis::Capability)?,
        dimensions: Vec::new(),
        sources: match text("/evidence/0/description") {
            Some(description) => sources(description)?,
            None => Sources::new(),
        },
        assessment_id: text("/evidence/0/name")?
            .strip_prefix(ASSESSMENT)?
            .parse()
            .ok()?,
        // The picture does not show the window.
        window: None,
        certified_at: text("/validFrom")?.parse().ok()?,
        valid_until: text("/validUntil")?.parse().ok()?,
        verification_url: url.to_owned(),
    })
}

/// The value of a result of a credential.
pub(super) fn result<'a>(credential: &'a Value, key: &str) -> Option<&'a str> {
    let achievement = credential.pointer(ACHIEVEMENT)?.as_str()?;
    let of = format!("{achievement}#{key}");
    let results = credential.pointer("/credentialSubject/result")?;
    let named = results
        .as_array()?
        .iter()
        .find(|it| it.get("resultDescription").and_then(Value::as_str) == Some(&of));
    named?.get("value")?.as_str()
}

fn sources(description: &str) -> Option<Sources> {
    let named = description.strip_prefix(RECORDED_BY)?.split(", ");
    let named = named.map(|it| {
        let (name, events) = it.split_once(' ')?;
        Some((Recorder::parse(name)?, events.parse().ok()?))
    });
    named.collect()
}
