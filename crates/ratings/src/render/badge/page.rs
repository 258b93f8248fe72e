//! The page at the verification URL of a badge, without scripts or external resources.

use askama::Template;

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
    dimensions: Vec<Field>,
}

struct Field {
    name: &'static str,
    value: String,
}

/// The page. Shows scores only if they are signed.
///
/// # Errors
/// The template cannot be rendered.
pub fn page(inspection: &Inspection) -> Result<String, askama::Error> {
    let (badge, verification) = (&inspection.badge, &inspection.verification);
    let reasons = verification.reasons.iter().map(|it| &it.message);
    let fact = |name, value| Field { name, value };
    let mut facts = vec![
        fact("Agent id", badge.agent.id.to_string()),
        fact("Organization id", badge.organization.id.to_string()),
        fact("Assessment", badge.assessment_id.to_string()),
        fact(
            "Certified",
            badge.certified_at.strftime("%Y-%m-%d").to_string(),
        ),
        fact(
            "Valid until",
            badge.valid_until.strftime("%Y-%m-%d").to_string(),
        ),
        fact("Verify", badge.verification_url.clone()),
    ];
    if verification.sound && !badge.sources.is_empty() {
        facts.push(fact("Evidence by source", in_words(&badge.sources)));
    }
    let axis_section = |axis: Axis| axis_section(inspection, axis);
    Page {
        version: env!("CARGO_PKG_VERSION"),
        framework: FRAMEWORK_VERSION,
        made_at: inspection.at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        agent: plain(&badge.agent.name),
        organization: plain(&badge.organization.name),
        valid: verification.valid,
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
        },
        Field {
            name: "HTML",
            value: html,
        },
    ]
}

fn axis_section(inspection: &Inspection, axis: Axis) -> AxisSection {
    let badge = &inspection.badge;
    let rating = badge.rating(axis);
    let scored = |dimension: &Dimension| Field {
        name: dimension_name(*dimension),
        value: match badge.scored(*dimension) {
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

    fn inspected(now: &str, sound: bool) -> String {
        let mut badge = badge();
        badge.agent.name = "<b>invoice & reader</b>".to_owned();
        let at = now.parse().unwrap();
        let mut verification = verify(&issued(&badge), &VerificationContext::default(), at);
        verification.sound = sound;
        let notes = vec!["A newer rating is there.".to_owned()];
        page(&Inspection {
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
            "0.85 of the weights assessed",
            "A newer rating is there.",
            "[![AAAF rating badge](",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("<b>") && !page.contains("<script"), "{page}");
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
