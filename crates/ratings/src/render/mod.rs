//! A rating for people: both axes, then their dimensions.

pub mod badge;
pub mod dimensions;
pub mod progress;
pub mod report;
pub mod view;

use std::fmt::Write as _;

use comfy_table::{Attribute, Cell, CellAlignment};
use jiff::Timestamp;

use crate::render::view::{AssessmentView, AxisView, MeasureView, ResultView};
use crate::rules::assessment::EvidenceBasis;
use crate::rules::assessment::calibration::Calibration;
use crate::rules::evidence::in_words;
use crate::rules::{Axis, Config, Dimension};
use touchstone_host::render::colors::Colors;
use touchstone_host::render::table;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::plain;

/// Width of a bar in characters.
const BAR: usize = 20;
/// Characters of a dimension's name.
const NAME: usize = 22;

pub struct RatingDisplay<'a> {
    pub agent: &'a str,
    /// The type of the assessment.
    pub kind: &'a str,
    /// Start and end of the evidence window.
    pub window: [Timestamp; 2],
    pub config: &'a Config,
    pub found: &'a ResultView,
    /// Comparison with the previous assessment.
    pub calibration: Option<&'a Calibration>,
}

pub fn rating(display: &RatingDisplay<'_>, style: Style) -> String {
    let mut text = String::new();
    let colors = style.colors;
    let [from, until] = display.window;
    let _ = writeln!(
        text,
        "agent        {}",
        colors.strong(&plain(display.agent))
    );
    let _ = writeln!(
        text,
        "window       {from} until {until}, {}",
        plain(display.kind)
    );
    match display.found {
        ResultView::Dimension(found) => {
            evidence(&mut text, &found.evidence, colors);
            let _ = writeln!(
                text,
                "{}  {}",
                name_of(found.dimension),
                numbers(&found.result)
            );
        }
        ResultView::Rating(rating) => {
            evidence(&mut text, &rating.evidence, colors);
            for axis in Axis::ALL {
                headline(&mut text, axis, rating.axis(axis), style);
            }
            for axis in Axis::ALL {
                text.push('\n');
                dimensions(&mut text, axis, rating.axis(axis), display.config, style);
            }
        }
    }
    if let Some(calibration) = display.calibration {
        calibration_changes(&mut text, calibration, colors);
    }
    text
}

/// Confidence intervals and improvement areas.
pub fn intervals_and_improvements(assessed: &AssessmentView, colors: Colors) -> String {
    let mut text = String::new();
    if !assessed.intervals.is_empty() {
        let _ = writeln!(text, "\n95 % intervals");
    }
    for (dimension, it) in &assessed.intervals {
        let before = match (it.previous, it.within_noise) {
            (Some(before), Some(noise)) => {
                let noise = if noise {
                    "not significant"
                } else {
                    "significant"
                };
                format!("  {:.4} before, {noise}", before.as_f64())
            }
            _ => String::new(),
        };
        let name = format!("{:<NAME$}", name_of(*dimension));
        let (low, high) = (it.low.as_f64(), it.high.as_f64());
        let _ = writeln!(text, "  {name}  {low:.4} to {high:.4}{before}");
    }
    if !assessed.improvement_areas.is_empty() {
        let _ = writeln!(text, "\nimprovement areas");
    }
    for area in &assessed.improvement_areas {
        let name = colors.strong(&name_of(area.dimension));
        let _ = writeln!(text, "  {name}: {}", plain(&area.advice));
    }
    text
}

/// The result in one line.
pub fn one_line(found: &ResultView) -> String {
    match found {
        ResultView::Dimension(found) => {
            format!("{}  {}", name_of(found.dimension), numbers(&found.result))
        }
        ResultView::Rating(rated) => {
            let axis = |axis: Axis| {
                let found = rated.axis(axis);
                match (&found.display, found.tier) {
                    (Some(score), Some(tier)) => format!("{axis} {} {tier}", plain(score)),
                    _ => format!("{axis} not rated"),
                }
            };
            Axis::ALL.map(axis).join(", ")
        }
    }
}

fn evidence(text: &mut String, basis: &EvidenceBasis, colors: Colors) {
    let digest = colors.faint(&plain(&basis.digest));
    let _ = writeln!(text, "evidence     {} events  {digest}", basis.events);
    if !basis.sources.is_empty() {
        let _ = writeln!(text, "recorded by  {}", in_words(&basis.sources));
    }
}

fn headline(text: &mut String, axis: Axis, rating: &AxisView, style: Style) {
    let colors = style.colors;
    let (Some(score), Some(tier)) = (&rating.display, rating.tier) else {
        return;
    };
    let bar = match rating.composite_score {
        Some(score) if style.table => format!("  {}", bar(score.as_f64(), BAR)),
        _ => String::new(),
    };
    let tier = colors.strong(&format!("{score} {tier}"));
    let notes = match rating.coverage_notes().as_slice() {
        [] => String::new(),
        notes => format!("  {}", colors.doubtful(&notes.join("; "))),
    };
    let _ = writeln!(text, "{:<11}{bar}  {tier}{notes}", axis.as_str());
}

/// A bar filled in proportion to the score, 0 to 1.
fn bar(score: f64, cells: usize) -> String {
    // 0..=cells, because the score is clamped to 0..=1.
    let filled = (score.clamp(0.0, 1.0) * cells as f64).round() as usize;
    let left = cells.saturating_sub(filled);
    format!("{}{}", "█".repeat(filled), "░".repeat(left))
}

fn dimensions(text: &mut String, axis: Axis, rating: &AxisView, config: &Config, style: Style) {
    let table = || dimensions_table(axis, rating, config, style);
    if let Some(drawn) = style.table.then(table).flatten() {
        text.push_str(&drawn);
        return;
    }
    let weights = config.weights(axis);
    let _ = writeln!(text, "{axis}");
    for (dimension, measure) in &rating.dimensions {
        let weight = weights.share(*dimension);
        let name = format!("{:<NAME$}", name_of(*dimension));
        let _ = writeln!(text, "  {name}  weight {weight:.2}  {}", numbers(measure));
    }
}

/// `None` if the terminal is too narrow.
fn dimensions_table(
    axis: Axis,
    rating: &AxisView,
    config: &Config,
    style: Style,
) -> Option<String> {
    let weights = config.weights(axis);
    let mut drawn = table::begin(style);
    let bold = |name: &str| Cell::new(name).add_attribute(Attribute::Bold);
    drawn.set_header([axis.as_str(), "score", "", "weight", "sample", "records"].map(bold));
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    for (dimension, measure) in &rating.dimensions {
        let weight = right(format!("{:.2}", weights.share(*dimension)));
        let name = Cell::new(name_of(*dimension));
        drawn.add_row(match measure.score {
            Some(score) => [
                name,
                right(format!("{:.2}", score.as_f64())),
                Cell::new(bar(score.as_f64(), BAR)),
                weight,
                right(measure.sample_size.to_string()),
                right(measure.evidence_count.to_string()),
            ],
            None => [
                name,
                right("–".to_owned()),
                Cell::new(plain(measure.unassessed_reason())),
                weight,
                right(String::new()),
                right(String::new()),
            ],
        });
    }
    Some(format!("{}\n", table::drawn(drawn, style)?))
}

fn name_of(dimension: Dimension) -> String {
    dimension.as_str().replace('_', " ")
}

fn numbers(measure: &MeasureView) -> String {
    match measure.score {
        Some(score) => format!(
            "{:.4}  sample {}, {} records",
            score.as_f64(),
            measure.sample_size,
            measure.evidence_count
        ),
        None => format!("not assessed: {}", plain(measure.unassessed_reason())),
    }
}

fn calibration_changes(text: &mut String, calibration: &Calibration, colors: Colors) {
    if calibration.flags.is_empty() && !calibration.human_review_required {
        let _ = writeln!(
            text,
            "\nmoved        no significant changes since the previous rating"
        );
        return;
    }
    let review = colors.doubtful("a badge needs a review first");
    let _ = writeln!(text, "\nmoved        {review}");
    for flag in &calibration.flags {
        let _ = writeln!(
            text,
            "  {}  {:.4} from {:.4}, {:+.4}",
            plain(&flag.subject).replace('_', " "),
            flag.current.as_f64(),
            flag.previous.as_f64(),
            flag.delta
        );
    }
}
