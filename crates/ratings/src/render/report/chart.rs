//! The chart of both axes: performance to the right, capability upwards, tiers as bands.

use crate::render::report::{AxisSnapshot, RatingSnapshot};
use crate::rules::{Axis, Score, Tier};
use touchstone_host::render::words::plain;

/// Width of the chart. Letters are 11 units high, so that the text is readable on a phone.
pub const WIDTH: f64 = 372.0;
pub const HEIGHT: f64 = 376.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 26.0;
/// Length of each axis.
const SIDE: f64 = 280.0;
/// Distance of a label from its point.
const BESIDE: f64 = 9.0;
/// Approximate width of a letter of a label.
const LETTER: f64 = 7.0;
/// Maximum number of labelled points; above, labels would overlap.
const LABELLED: usize = 30;

/// A tier as a band across the chart.
pub struct Band {
    pub name: &'static str,
    /// Position of its start and its width, along its axis.
    pub from: String,
    pub size: String,
    /// Position of its name.
    pub middle: String,
    /// Row of its name: names along the lower axis alternate between two rows.
    pub row: String,
    pub bound: String,
    /// Opacity; higher for higher tiers.
    pub strength: String,
}

pub struct Dot {
    pub x: String,
    pub y: String,
    /// Text for screen readers.
    pub title: String,
    pub label: String,
    pub label_x: String,
    pub label_y: String,
    pub anchor: &'static str,
}

/// The intersection of two tiers.
pub struct Cell {
    pub x: String,
    pub y: String,
    pub width: String,
    pub height: String,
}

pub struct Plane {
    pub width: String,
    pub height: String,
    pub left: String,
    pub right: String,
    pub top: String,
    pub bottom: String,
    pub side: String,
    pub ticks_y: String,
    pub title_y: String,
    pub performance: Vec<Band>,
    pub capability: Vec<Band>,
    /// The highlighted intersection, if any.
    pub cell: Option<Cell>,
    pub path: String,
    pub before: Vec<Dot>,
    pub now: Vec<Dot>,
    /// Text for screen readers.
    pub description: String,
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

fn x_of(share: f64) -> f64 {
    LEFT + share * SIDE
}

fn y_of(share: f64) -> f64 {
    TOP + (1.0 - share) * SIDE
}

fn bounds(tier: Tier) -> (f64, f64) {
    let bound = |tier: Tier| tier.lower_bound().as_f64();
    let above = Tier::all(tier.axis()).find(|it| it.rank() == tier.rank() + 1);
    (bound(tier), above.map_or(1.0, bound))
}

fn band(tier: Tier) -> Band {
    let (low, high) = bounds(tier);
    let (from, middle) = match tier.axis() {
        Axis::Performance => (x_of(low), x_of(low.midpoint(high))),
        Axis::Capability => (y_of(high), y_of(low.midpoint(high)) + 4.0),
    };
    let bottom = TOP + SIDE;
    Band {
        name: tier.name(),
        from: number(from),
        size: number((high - low) * SIDE),
        middle: number(middle),
        row: number(
            bottom
                + if tier.rank().is_multiple_of(2) {
                    32.0
                } else {
                    47.0
                },
        ),
        bound: number_of(tier.lower_bound()),
        strength: format!("{:.3}", 0.03 + 0.05 * f64::from(tier.rank())),
    }
}

/// A tier's bound as an axis label.
fn number_of(score: Score) -> String {
    format!("{:.2}", score.as_f64())
}

/// A rating as a point. `name` identifies the agent if there are several.
fn dot(moment: &RatingSnapshot, name: &str, label: String) -> Dot {
    let (x, y) = (
        x_of(moment.performance.score.as_f64()),
        y_of(moment.capability.score.as_f64()),
    );
    // Place the label on the side with more room.
    let to_the_left = x > LEFT + SIDE * 0.62;
    let describe =
        |snapshot: &AxisSnapshot| format!("{} {}", plain(&snapshot.display), snapshot.tier);
    Dot {
        x: number(x),
        y: number(y),
        title: format!(
            "{name}: performance {}, capability {}",
            describe(&moment.performance),
            describe(&moment.capability)
        ),
        label,
        label_x: number(if to_the_left { x - BESIDE } else { x + BESIDE }),
        label_y: number((y - 8.0).max(TOP + 10.0)),
        anchor: if to_the_left { "end" } else { "start" },
    }
}

fn plane(before: Vec<Dot>, now: Vec<Dot>, cell: Option<[Tier; 2]>, description: String) -> Plane {
    let points = before.iter().chain(&now);
    let path: Vec<String> = points.map(|dot| format!("{},{}", dot.x, dot.y)).collect();
    let cell = cell.map(|[performance, capability]| {
        let (left, right) = bounds(performance);
        let (low, high) = bounds(capability);
        Cell {
            x: number(x_of(left)),
            y: number(y_of(high)),
            width: number((right - left) * SIDE),
            height: number((high - low) * SIDE),
        }
    });
    Plane {
        width: number(WIDTH),
        height: number(HEIGHT),
        left: number(LEFT),
        right: number(LEFT + SIDE),
        top: number(TOP),
        bottom: number(TOP + SIDE),
        side: number(SIDE),
        ticks_y: number(TOP + SIDE + 14.0),
        title_y: number(TOP + SIDE + 64.0),
        performance: Tier::all(Axis::Performance).map(band).collect(),
        capability: Tier::all(Axis::Capability).map(band).collect(),
        cell,
        path: if before.is_empty() {
            String::new()
        } else {
            path.join(" ")
        },
        before,
        now,
        description,
    }
}

/// The chart of one agent: the current rating and earlier ones.
pub fn agent_plane(history: &[RatingSnapshot], now: &RatingSnapshot) -> Plane {
    let before = history.iter().map(|moment| {
        dot(
            moment,
            &crate::render::report::rows::day(moment.at),
            String::new(),
        )
    });
    let label = format!(
        "{} / {}",
        plain(&now.performance.display),
        plain(&now.capability.display)
    );
    let mut current = dot(now, "now", label);
    move_label_off_history(&mut current, history);
    let description = match history.len() {
        0 => current.title.clone(),
        many => format!("{}; {many} earlier ratings", current.title),
    };
    let cell = [now.performance.tier, now.capability.tier];
    plane(before.collect(), vec![current], Some(cell), description)
}

/// Moves a label below its point if it would cover earlier ratings.
fn move_label_off_history(current: &mut Dot, history: &[RatingSnapshot]) {
    let here = |text: &str| text.parse::<f64>().unwrap_or_default();
    let (x, y) = (here(&current.label_x), here(&current.label_y));
    let letters = current.label.chars().count() as f64 * LETTER;
    let (left, right) = match current.anchor {
        "end" => (x - letters, x),
        _ => (x, x + letters),
    };
    let beneath = |moment: &RatingSnapshot| {
        let (at, up) = (
            x_of(moment.performance.score.as_f64()),
            y_of(moment.capability.score.as_f64()),
        );
        (left - BESIDE..right + BESIDE).contains(&at) && (y - 16.0..y + 6.0).contains(&up)
    };
    let below = y + 26.0;
    if below < TOP + SIDE && history.iter().any(beneath) {
        current.label_y = number(below);
    }
}

/// The chart of several agents, labelled with their numbers in the table.
pub fn summary_plane<'a>(
    agents: impl Iterator<Item = (usize, &'a str, &'a RatingSnapshot)>,
) -> Plane {
    let mut dots: Vec<Dot> = agents
        .map(|(number, name, moment)| dot(moment, &plain(name), number.to_string()))
        .collect();
    if dots.len() > LABELLED {
        dots.iter_mut().for_each(|dot| dot.label.clear());
    }
    let description = format!("{} agents; the table names them", dots.len());
    plane(Vec::new(), dots, None, description)
}

/// The chart as text: a column per performance tier, a row per capability tier; `mark` returns the
/// content of a cell.
pub fn text_grid(mark: impl Fn(Tier, Tier) -> String) -> String {
    let columns: Vec<Tier> = Tier::all(Axis::Performance).collect();
    let mut rows: Vec<Tier> = Tier::all(Axis::Capability).collect();
    rows.reverse();
    let width = rows.iter().map(|tier| tier.name().len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for row in rows {
        let mut line = format!("{:>width$} │", row.name());
        for column in &columns {
            let room = column.name().len() + 2;
            line.push_str(&format!("{:^room$}", mark(*column, row)));
        }
        lines.push(line.trim_end().to_owned());
    }
    let names: String = columns
        .iter()
        .map(|tier| format!(" {} ", tier.name()))
        .collect();
    lines.push(format!("{:>width$} └{}", "", "─".repeat(names.len())));
    lines.push(format!("{:>width$}  {}", "", names.trim_end()));
    lines.join("\n")
}
