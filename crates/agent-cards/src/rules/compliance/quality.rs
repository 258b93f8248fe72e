//! Data quality: unique skill ids, texts of limited length, and no URLs into internal networks.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;
use url::Url;

use crate::rules::document::{Card, text};
use crate::rules::finding::{Code, Finding, Findings};
use touchstone_kit::network;

/// Maximum text lengths of the card, in code points.
const CARD_LIMITS: [(&str, usize); 3] = [("name", 100), ("description", 1_000), ("url", 500)];
/// Maximum text lengths of a skill, in code points.
const SKILL_LIMITS: [(&str, usize); 3] = [("id", 200), ("name", 200), ("description", 2_000)];

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DataQuality {
    pub score: u64,
    pub max_score: u64,
    /// Whether no two skills share an id.
    pub no_duplicate_skill_ids: bool,
    /// Whether no text is too long.
    pub field_lengths_valid: bool,
    /// Whether no URL has an internal host.
    pub no_ssrf_risks: bool,
}

pub(super) fn score(card: &Card, findings: &mut Findings) -> DataQuality {
    let no_duplicate_skill_ids = ids_differ(card, findings);
    let field_lengths_valid = lengths_fit(card, findings);
    let no_ssrf_risks = hosts_are_public(card, findings);
    DataQuality {
        score: 2 * u64::from(no_duplicate_skill_ids)
            + 2 * u64::from(field_lengths_valid)
            + u64::from(no_ssrf_risks),
        max_score: 5,
        no_duplicate_skill_ids,
        field_lengths_valid,
        no_ssrf_risks,
    }
}

fn ids_differ(card: &Card, findings: &mut Findings) -> bool {
    let before = findings.count();
    let mut seen = HashSet::new();
    for (index, skill) in card.items("skills").iter().enumerate() {
        if text(skill.get("id")).is_some_and(|id| !seen.insert(id)) {
            findings.push(Finding::new(
                Code::SkillIdDuplicate,
                format!("/skills/{index}/id"),
                "An earlier skill has the same `id`; give each skill its own.",
            ));
        }
    }
    findings.count() == before
}

fn lengths_fit(card: &Card, findings: &mut Findings) -> bool {
    let before = findings.count();
    let mut measure = |value: Option<&Value>, path: &dyn Fn() -> String, limit: usize| {
        let text = value.and_then(Value::as_str).unwrap_or_default();
        if text.len() > limit && text.chars().count() > limit {
            findings.push(Finding::new(
                Code::FieldTooLong,
                path(),
                format!("The text has more than {limit} characters; shorten it."),
            ));
        }
    };
    for (name, limit) in CARD_LIMITS {
        measure(card.members().get(name), &|| format!("/{name}"), limit);
    }
    for (index, skill) in card.items("skills").iter().enumerate() {
        for (name, limit) in SKILL_LIMITS {
            let path = || format!("/skills/{index}/{name}");
            measure(skill.get(name), &path, limit);
        }
    }
    findings.count() == before
}

fn hosts_are_public(card: &Card, findings: &mut Findings) -> bool {
    let before = findings.count();
    for (place, text) in card.urls() {
        // Parsed leniently, as a library that follows the URL would, and not by the strict URL
        // rules of cards.
        if Url::parse(text).is_ok_and(|url| network::is_internal(&url)) {
            findings.push(Finding::new(
                Code::SsrfRisk,
                place.to_string(),
                "The URL has an internal host, which others cannot reach and which is dangerous \
                for clients that follow it; give a public URL.",
            ));
        }
    }
    findings.count() == before
}
