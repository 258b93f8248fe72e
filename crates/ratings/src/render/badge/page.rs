//! The page at the verification URL of a badge, without scripts or external resources.

use askama::Template;
use jiff::Timestamp;

use crate::rules::badge::{FRAMEWORK_VERSION, Inspection, axis_name, dimension_name};
use crate::rules::evidence::in_words;
use crate::rules::{Axis, Dimension};
use touchstone_host::render::words::plain;

#[derive(Template)]
#[template(path = "badge-verification.html")]
struct Page {
    version: &'static str,
    framework: &'static str,
    made_at: String,
    agent: String,
    organization: String,
    valid: bool,
    has_intervals: bool,
    verdict: &'static str,
    remarks: Vec<String>,
    axes: Vec<AxisSection>,
    facts: Vec<Field>,
    /// How others show the badge; empty for one that is not valid.
    embeds: Vec<Field>,
}

struct AxisSection {
    name: &'static str,
    score: String,
    tier: &'static str,
    rank: u8,
    coverage: String,
    dimensions: Vec<DimensionRow>,
}

struct DimensionRow {
    name: &'static str,
    score: String,
    /// Empty without one.
    interval: String,
}

struct Field {
    name: &'static str,
    value: String,
    /// The value as a timestamp, if it is a time.
    at: Option<String>,
}

impl Field {
    fn time(name: &'static str, at: Timestamp) -> Self {
        Self {
            name,
            value: minute(at),
            at: Some(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        }
    }
}

fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[derive(Template)]
#[template(path = "badge-missing.html")]
struct MissingPage {
    version: &'static str,
    framework: &'static str,
    made_at: String,
}

/// The page at the address of a badge that does not exist, or that the visitor may not see.
///
/// # Errors
/// The template cannot be rendered.
pub fn missing_page(now: Timestamp) -> Result<String, askama::Error> {
    MissingPage {
        version: env!("CARGO_PKG_VERSION"),
        framework: FRAMEWORK_VERSION,
        made_at: minute(now),
    }
    .render()
}

/// The page. Shows scores only if they are signed.
///
/// # Errors
/// The template cannot be rendered.
pub fn page(inspection: &Inspection) -> Result<String, askama::Error> {
    let (badge, verification) = (&inspection.badge, &inspection.verification);
    let reasons = verification.reasons.iter().map(|it| &it.message);
    let fact = |name, value| Field {
        name,
        value,
        at: None,
    };
    let mut facts = vec![
        fact("Agent id", badge.agent.id.to_string()),
        fact("Organization id", badge.organization.id.to_string()),
        fact("Assessment", badge.assessment_id.to_string()),
        Field::time("Certified", badge.certified_at),
        Field::time("Valid until", badge.valid_until),
        fact("Verify", badge.verification_url.clone()),
    ];
    if verification.sound && !badge.sources.is_empty() {
        facts.push(fact("Evidence by source", in_words(&badge.sources)));
    }
    let axis_section = |axis: Axis| axis_section(inspection, axis);
    Page {
        version: env!("CARGO_PKG_VERSION"),
        framework: FRAMEWORK_VERSION,
        made_at: minute(inspection.at),
        agent: plain(&badge.agent.name),
        organization: plain(&badge.organization.name),
        valid: verification.valid,
        has_intervals: !inspection.intervals.is_empty(),
        verdict: match verification.valid {
            true => "This badge is valid.",
            false => "This badge is not valid.",
        },
        remarks: reasons
            .chain(&inspection.notes)
            .map(|it| plain(it))
            .collect(),
        axes: match verification.sound {
            true => Axis::ALL.into_iter().map(axis_section).collect(),
            false => Vec::new(),
        },
        facts,
        embeds: match verification.valid {
            true => embeds(&badge.verification_url),
            false => Vec::new(),
        },
    }
    .render()
}

/// The picture with a link to its verification, for readme files and web pages.
fn embeds(verification_url: &str) -> Vec<Field> {
    let Some(badge) = verification_url.strip_suffix("/verify") else {
        return Vec::new();
    };
    let text = "AAAF rating badge";
    let html =
        format!("<a href=\"{verification_url}\"><img src=\"{badge}.svg\" alt=\"{text}\"></a>");
    vec![
        Field {
            name: "Markdown",
            value: format!("[![{text}]({badge}.svg)]({verification_url})"),
            at: None,
        },
        Field {
            name: "HTML",
            value: html,
            at: None,
        },
    ]
}

fn axis_section(inspection: &Inspection, axis: Axis) -> AxisSection {
    let badge = &inspection.badge;
    let rating = badge.rating(axis);
    let interval = |dimension: &Dimension| {
        let found = inspection.intervals.get(dimension);
        found.map_or_else(String::new, |it| {
            format!("{:.2} to {:.2}", it.low.as_f64(), it.high.as_f64())
        })
    };
    let scored = |dimension: &Dimension| DimensionRow {
        name: dimension_name(*dimension),
        interval: interval(dimension),
        score: match badge.scored(*dimension) {
            Some(score) => score.to_string(),
            None => "not assessed".to_owned(),
        },
    };
    let coverage = rating.partial_coverage();
    AxisSection {
        name: axis_name(axis),
        score: rating.score.to_string(),
        tier: rating.tier.name(),
        rank: rating.tier.rank(),
        coverage: coverage.map_or_else(String::new, |it| format!("{it} of the weights assessed")),
        dimensions: axis.dimensions().iter().map(scored).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::badge::sample::{badge, issued};
    use crate::rules::badge::{VerificationContext, verify};
    use crate::rules::scoring::interval::{Method, ScoreInterval};
    use crate::rules::scoring::tier::Score;

    fn inspected(now: &str, sound: bool) -> String {
        let mut badge = badge();
        badge.agent.name = "<b>invoice & reader</b>".to_owned();
        let at = now.parse().unwrap();
        let mut verification = verify(&issued(&badge), &VerificationContext::default(), at);
        verification.sound = sound;
        let notes = vec!["A newer rating is there.".to_owned()];
        let score = Score::of;
        let interval = ScoreInterval {
            score: score(0.93),
            low: score(0.81),
            high: score(0.97),
            method: Method::Wilson,
            previous: None,
            within_noise: None,
        };
        page(&Inspection {
            intervals: [(Dimension::Accuracy, interval)].into(),
            badge,
            verification,
            notes,
            at,
        })
        .unwrap()
    }

    #[test]
    fn the_badge_page_shows_both_axes_with_their_dimensions() {
        let page = inspected("2026-05-01T00:00:00Z", true);
        for text in [
            "This badge is valid.",
            "Elite",
            "0.93",
            "Tool Proficiency",
            "1.00",
            "not assessed",
            "0.81 to 0.97",
            "0.85 of the weights assessed",
            "A newer rating is there.",
            "[![AAAF rating badge](",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("<b>") && !page.contains("<script"), "{page}");
    }

    #[test]
    fn a_missing_badge_has_a_page() {
        let page = missing_page("2026-05-01T00:00:00Z".parse().unwrap()).unwrap();
        assert!(
            page.contains("No badge here") && !page.contains("<script"),
            "{page}"
        );
    }

    #[test]
    fn the_page_of_an_invalid_badge_shows_the_reason_and_no_unsigned_values() {
        let late = inspected("2026-08-01T00:00:00Z", true);
        assert!(late.contains("This badge is not valid.") && late.contains("it was valid until"));
        let altered = inspected("2026-05-01T00:00:00Z", false);
        assert!(
            !altered.contains("0.93") && !altered.contains("Elite"),
            "{altered}"
        );
    }
}
