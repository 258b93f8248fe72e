//! A badge as Markdown, for terminals, issues and readme files.

use std::fmt::Write as _;

use crate::rules::Axis;
use crate::rules::badge::Mark;
use crate::rules::badge::{Badge, axis_name};
use crate::rules::evidence::in_words;
use touchstone_runs::render::markdown::escaped;

pub fn markdown(badge: &Badge, mark: Mark) -> String {
    let mut text = String::from("| AAAF badge | |\n| --- | --- |\n");
    let mut row = |name: &str, value: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {name} | {value} |");
    };
    if let Some(word) = mark.text() {
        row("**Standing**", &format!("**{word}**"));
    }
    row("Agent", &escaped(&badge.agent.name));
    row("Agent id", &format!("`{}`", badge.agent.id));
    row("Organization", &escaped(&badge.organization.name));
    for axis in Axis::ALL {
        let rating = badge.rating(axis);
        let covered = rating.partial_coverage();
        let covered = covered.map_or_else(String::new, |it| format!(" ({it} of weights assessed)"));
        let tier = rating.tier.name();
        row(
            axis_name(axis),
            &format!("**{tier}** {}{covered}", rating.score),
        );
    }
    if !badge.sources.is_empty() {
        row("Evidence by source", &in_words(&badge.sources));
    }
    row(
        "Certified",
        &badge.certified_at.strftime("%Y-%m-%d").to_string(),
    );
    row(
        "Valid until",
        &badge.valid_until.strftime("%Y-%m-%d").to_string(),
    );
    row("Assessment", &format!("`{}`", badge.assessment_id));
    row("Verify", &escaped(&badge.verification_url));
    text
}
