//! A measure of runs over time as a picture: lines with points and intervals, and
//! the deployments of the agents.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::page::text::ends;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 24.0;
/// Most lines; further ones are in the table alone.
pub const LINES: usize = 6;

/// A run on the chart.
pub struct Measured {
    /// The line it belongs to.
    pub line: String,
    pub at: Timestamp,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    pub href: String,
    pub title: String,
}

/// The measure of a chart.
pub struct Measure {
    /// Its heading, such as `Score`.
    pub name: &'static str,
    /// Its explanation.
    pub caption: &'static str,
    /// The value at the top; `None` for one above the highest value.
    pub most: Option<f64>,
    pub label: fn(f64) -> String,
}

/// A deployment of an agent.
pub struct Mark {
    pub at: Timestamp,
    pub number: usize,
    pub title: String,
}

pub struct MarkLine {
    pub x: f64,
    pub number: usize,
    pub title: String,
}

pub struct Chart {
    pub name: &'static str,
    pub caption: &'static str,
    pub marks: Vec<MarkLine>,
    pub top: f64,
    pub view_box: String,
    pub grid: Vec<Grid>,
    pub lines: Vec<Line>,
    /// Number of lines beyond [`LINES`], which are in the table alone.
    pub left_out: usize,
    pub from: String,
    pub to: String,
    pub description: String,
    pub left: f64,
    pub right: f64,
    pub bottom: f64,
}

/// A line of the scale, and the label at its start.
pub struct Grid {
    pub y: f64,
    pub label: String,
}

/// The points of one line; its shape tells it from the others.
pub struct Line {
    pub number: usize,
    pub name: String,
    pub path: String,
    pub points: Vec<Point>,
    /// The shape in the legend.
    pub mark: String,
}

pub struct Point {
    pub x: f64,
    pub mark: String,
    pub interval: Option<(f64, f64)>,
    pub href: String,
    pub title: String,
}

impl Chart {
    /// The runs in order of time; `None` for less than two, because a point is no history.
    pub fn of(measure: &Measure, runs: Vec<Measured>, marks: &[Mark]) -> Option<Self> {
        let first = runs.iter().map(|run| run.at).min()?;
        let last = runs.iter().map(|run| run.at).max()?;
        (runs.len() > 1).then_some(())?;
        let (from, to) = ends(first, last);
        let description = format!("{} of {} runs over time", measure.name, runs.len());
        let highest = runs.iter().map(|run| run.value).fold(0.0, f64::max);
        let most = measure.most.unwrap_or_else(|| round_above(highest));
        let span = last.duration_since(first).as_secs_f64();
        let x = |at: Timestamp| {
            let share = match span > 0.0 {
                true => at.duration_since(first).as_secs_f64() / span,
                false => 0.5,
            };
            tenth(LEFT + 8.0 + share * (WIDTH - LEFT - RIGHT - 16.0))
        };
        let mut lines: Vec<Line> = Vec::new();
        let mut left_out = BTreeSet::new();
        for run in runs {
            let number = lines.iter().position(|line| line.name == run.line);
            let number = match number {
                Some(number) => number,
                None if lines.len() < LINES => {
                    lines.push(Line::new(lines.len(), &run.line));
                    lines.len() - 1
                }
                None => {
                    left_out.insert(run.line);
                    continue;
                }
            };
            if let Some(line) = lines.get_mut(number) {
                line.add(x(run.at), most, run);
            }
        }
        Some(Self {
            view_box: format!("0 0 {WIDTH} {HEIGHT}"),
            name: measure.name,
            caption: measure.caption,
            marks: marks
                .iter()
                .filter(|mark| (first..=last).contains(&mark.at))
                .map(|mark| MarkLine {
                    x: x(mark.at),
                    number: mark.number,
                    title: mark.title.clone(),
                })
                .collect(),
            top: TOP,
            grid: [0.0, 0.25, 0.5, 0.75, 1.0]
                .map(|share| Grid {
                    y: y(share),
                    label: (measure.label)(share * most),
                })
                .into(),
            lines,
            left_out: left_out.len(),
            from,
            to,
            description,
            left: LEFT,
            right: WIDTH - RIGHT,
            bottom: HEIGHT - 6.0,
        })
    }
}

impl Line {
    fn new(number: usize, name: &str) -> Self {
        Self {
            number: number + 1,
            name: name.to_owned(),
            path: String::new(),
            points: Vec::new(),
            mark: shape(number, 8.0, 8.0),
        }
    }

    fn add(&mut self, x: f64, most: f64, run: Measured) {
        let at = y(run.value / most);
        let command = if self.path.is_empty() { "M" } else { "L" };
        self.path.push_str(&format!("{command}{x} {at}"));
        self.points.push(Point {
            x,
            mark: shape(self.number - 1, x, at),
            interval: run
                .interval
                .map(|(low, high)| (y(low / most), y(high / most))),
            href: run.href,
            title: run.title,
        });
    }
}

/// The next of 1, 2, 4, 6, 8 and 10 times a power of ten, so that a scale has even steps.
fn round_above(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
    let found = steps.iter().find(|step| **step * power >= value);
    found.map_or(power * 10.0, |step| step * power)
}

fn y(share: f64) -> f64 {
    tenth(TOP + (1.0 - share.clamp(0.0, 1.0)) * (HEIGHT - TOP - BOTTOM))
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A circle, square, triangle, diamond, cross or triangle upside down around a place.
fn shape(number: usize, x: f64, y: f64) -> String {
    match number % LINES {
        0 => format!(
            "M{} {y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
            tenth(x - 4.5)
        ),
        1 => format!("M{} {}h8v8h-8z", tenth(x - 4.0), tenth(y - 4.0)),
        2 => format!("M{x} {}l5 9h-10z", tenth(y - 5.0)),
        3 => format!("M{x} {}l5.5 5.5l-5.5 5.5l-5.5 -5.5z", tenth(y - 5.5)),
        4 => format!(
            "M{} {}h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z",
            tenth(x - 1.5),
            tenth(y - 5.0)
        ),
        _ => format!("M{x} {}l5 -9h-10z", tenth(y + 5.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str, second: i64, score: f64) -> Measured {
        Measured {
            line: line.to_owned(),
            at: Timestamp::from_second(second).unwrap(),
            value: score,
            interval: Some((score - 0.5, score + 0.5)),
            href: String::new(),
            title: String::new(),
        }
    }

    const SCORE: Measure = Measure {
        name: "Score",
        caption: "",
        most: Some(1.0),
        label: |value| value.to_string(),
    };

    #[test]
    fn a_scale_without_a_limit_ends_above_the_highest_value() {
        for (value, most) in [
            (0.0, 1.0),
            (0.003, 0.004),
            (1.0, 1.0),
            (840.0, 1000.0),
            (1300.0, 2000.0),
        ] {
            assert!((round_above(value) - most).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn deployments_between_the_runs_are_marked() {
        let mark = |second: i64, number| Mark {
            at: Timestamp::from_second(second).unwrap(),
            number,
            title: String::new(),
        };
        let runs = vec![run("a", 10, 0.5), run("a", 20, 0.5)];
        let chart = Chart::of(&SCORE, runs, &[mark(5, 1), mark(15, 2), mark(25, 3)]).unwrap();
        let [found] = chart.marks.as_slice() else {
            panic!("{}", chart.marks.len());
        };
        assert_eq!(found.number, 2);
        assert!(chart.left < found.x && found.x < chart.right);
    }

    #[test]
    fn points_lie_within_the_picture_and_intervals_within_the_scale() {
        let runs = vec![run("a", 0, 0.0), run("b", 5, 0.5), run("a", 10, 1.0)];
        let chart = Chart::of(&SCORE, runs, &[]).unwrap();
        let names: Vec<&str> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        for point in chart.lines.iter().flat_map(|line| &line.points) {
            assert!((LEFT..=WIDTH - RIGHT).contains(&point.x));
            let (low, high) = point.interval.unwrap();
            assert!(low <= HEIGHT - BOTTOM && high >= TOP && low > high);
        }
        assert_eq!(chart.lines[0].path, "M72 216L700 18");
    }

    #[test]
    fn runs_of_one_moment_and_many_agents_have_a_picture() {
        let runs = (0..9).map(|n| run(&format!("agent {n}"), 7, 0.5)).collect();
        let chart = Chart::of(&SCORE, runs, &[]).unwrap();
        assert_eq!((chart.lines.len(), chart.left_out), (LINES, 3));
        assert!(Chart::of(&SCORE, vec![run("a", 0, 0.5)], &[]).is_none());
    }
}
