//! The layout of a badge.

use jiff::Timestamp;

use crate::render::badge::font::{Cut, Glyphs, Weight, fitted, is_all_boxes, presentable, width};
use crate::render::badge::picture::{Picture, Style};
use crate::render::badge::{HEIGHT, WIDTH, colours};
use crate::rules::Axis;
use crate::rules::badge::Mark;
use crate::rules::badge::{Badge, axis_name};
use crate::rules::evidence::in_words;

pub(super) const INK: &str = "#111111";
pub(super) const FAINT: &str = "#454B54";
pub(super) const BAND: &str = "#17212F";
pub(super) const ALARM: &str = "#B42318";
pub(super) const WHITE: &str = "#FFFFFF";

/// Left edge of text.
const LEFT: f32 = 12.0;
const RIGHT: f32 = 288.0;
const ROOM: f32 = RIGHT - LEFT;

/// Font sizes for the verification URL: the size of the lines above it, or smaller until it fits.
const URL_SIZES: [f32; 7] = [8.0, 7.5, 7.0, 6.5, 6.0, 5.5, 5.0];

/// How to draw a verification URL that is too long for its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongUrl {
    /// In a smaller size, so that it can be typed from the picture.
    Smaller,
    /// Shortened in the middle, as in older badges.
    Cut,
}

impl LongUrl {
    /// All variants, the current one first.
    pub const ALL: [Self; 2] = [Self::Smaller, Self::Cut];
}

pub fn draw(badge: &Badge, mark: Mark, glyphs: Glyphs, long_url: LongUrl) -> String {
    let shown = |text: &str| presentable(text, glyphs);
    let mut picture = Picture::new(WIDTH, HEIGHT, &title(badge, mark));
    picture.rectangle(
        [0.5, 0.5, 299.0, 149.0],
        8.0,
        "fill=\"#FFFFFF\" stroke=\"#C4CAD3\"",
    );
    head(&mut picture, &shown(&badge.organization.name), mark);

    let name = Style::new(14.0, Weight::Bold, INK);
    picture.begin_clip("n", [LEFT, 25.0, ROOM, 19.0]);
    line(&mut picture, 40.0, name, &agent(badge, glyphs), Cut::End);
    picture.end_clip();
    let small = Style::new(8.0, Weight::Medium, FAINT);
    line(
        &mut picture,
        52.0,
        small,
        &badge.agent.id.to_string(),
        Cut::End,
    );

    panel(&mut picture, badge, Axis::Performance, 12.0);
    panel(&mut picture, badge, Axis::Capability, 153.0);

    let dated = Style::new(9.0, Weight::Medium, INK);
    let certified = format!("Certified {}", day(badge.certified_at));
    let until = format!("Valid until {}", day(badge.shown_until()));
    line(&mut picture, 117.0, dated, &certified, Cut::End);
    picture.text(RIGHT, 117.0, dated.to_the_right(), &until);
    let assessment = format!("Assessment {}", badge.assessment_id);
    line(&mut picture, 129.5, small, &assessment, Cut::End);
    source(&mut picture, badge, &assessment, small);
    let url = badge.verification_url.trim_start_matches("https://");
    let url = shown(url);
    let fits = |size: &f32| width(&url, Weight::Medium, *size) <= ROOM;
    let size = match long_url {
        LongUrl::Smaller => URL_SIZES.into_iter().find(fits).unwrap_or(5.0),
        LongUrl::Cut => 8.0,
    };
    let style = Style::new(size, Weight::Medium, FAINT);
    line(&mut picture, 141.0, style, &url, Cut::Middle);
    picture.finish()
}

/// The largest source of evidence, if the assessment's line has room for it.
fn source(picture: &mut Picture, badge: &Badge, assessment: &str, style: Style) {
    const GAP: f32 = 6.0;
    let words = in_words(&badge.sources);
    let largest = words.split(", ").next().unwrap_or_default();
    let room = ROOM - GAP - width(assessment, style.weight, style.size);
    if !largest.is_empty() && width(largest, style.weight, style.size) <= room {
        picture.text(RIGHT, 129.5, style.to_the_right(), largest);
    }
}

/// The agent's name, or the beginning of its id if no character of the name can be displayed, to
/// tell such agents apart.
fn agent(badge: &Badge, glyphs: Glyphs) -> String {
    let name = presentable(&badge.agent.name, glyphs);
    if !is_all_boxes(&name) {
        return name;
    }
    let (begin, ..) = badge.agent.id.as_fields();
    format!("Agent {begin:08x}")
}

fn line(picture: &mut Picture, y: f32, style: Style, text: &str, cut: Cut) {
    let text = fitted(text, style.weight, style.size, ROOM, cut);
    picture.text(LEFT, y, style, &text);
}

fn head(picture: &mut Picture, organization: &str, mark: Mark) {
    picture.path("M0 24V8a8 8 0 0 1 8-8h284a8 8 0 0 1 8 8v16z", BAND);
    let letters = Style::new(11.0, Weight::Bold, WHITE).spaced(0.8);
    picture.text(LEFT, 16.0, letters, "AAAF");
    let mut left = 62.0;
    if let Some(word) = mark.text() {
        let style = Style::new(8.0, Weight::Bold, WHITE);
        let wide = width(word, style.weight, style.size);
        picture.rectangle(
            [54.0, 6.0, wide + 12.0, 13.0],
            3.0,
            &format!("fill=\"{ALARM}\""),
        );
        picture.text(60.0, 15.4, style, word);
        left = 54.0 + wide + 24.0;
    }
    let style = Style::new(10.0, Weight::Medium, WHITE).to_the_right();
    let room = RIGHT - left;
    let organization = fitted(organization, style.weight, style.size, room, Cut::End);
    picture.begin_clip("o", [left, 2.0, room, 21.0]);
    picture.text(RIGHT, 15.8, style, &organization);
    picture.end_clip();
}

fn panel(picture: &mut Picture, badge: &Badge, axis: Axis, x: f32) {
    const TOP: f32 = 59.0;
    const WIDE: f32 = 135.0;
    let rating = badge.rating(axis);
    let (ground, ink) = colours(rating.tier);
    picture.rectangle([x, TOP, WIDE, 44.0], 5.0, &format!("fill=\"{ground}\""));
    let label = Style::new(7.5, Weight::Bold, ink).spaced(0.4);
    picture.text(x + 8.0, TOP + 13.0, label, &axis_name(axis).to_uppercase());
    let covered = rating.partial_coverage();
    let base = TOP + if covered.is_some() { 27.5 } else { 30.5 };
    let score = Style::new(20.0, Weight::Bold, ink).to_the_right();
    picture.text(x + WIDE - 8.0, base, score, &rating.score.to_string());
    let tier = Style::new(12.5, Weight::Bold, ink);
    let name = rating.tier.name();
    picture.text(x + 8.0, base, tier, name);
    if let Some(covered) = covered {
        let note = Style::new(7.5, Weight::Medium, ink);
        picture.text(
            x + 8.0,
            TOP + 39.0,
            note,
            &format!("{covered} of weights assessed"),
        );
    }
}

fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

fn title(badge: &Badge, mark: Mark) -> String {
    let rating = |axis: Axis| {
        let rating = badge.rating(axis);
        let covered = rating.partial_coverage();
        let covered = covered.map_or_else(String::new, |it| format!(", {it} of weights assessed"));
        let (tier, title) = (rating.tier.name(), axis_name(axis));
        format!("{title} {} {tier}{covered}", rating.score)
    };
    let mark = mark
        .text()
        .map_or_else(String::new, |word| format!("{word}. "));
    let [performance, capability] = Axis::ALL.map(rating);
    let sources = match in_words(&badge.sources) {
        words if words.is_empty() => words,
        words => format!("; evidence from {words}"),
    };
    let text = format!(
        "{mark}AAAF badge of {} ({}), assessed by {}: {performance}; {capability}{sources}; valid until {}",
        badge.agent.name,
        badge.agent.id,
        badge.organization.name,
        day(badge.shown_until()),
    );
    presentable(&text, Glyphs::Any)
}
