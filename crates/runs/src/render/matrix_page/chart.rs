//! Score and cost of the variants as a picture, with the Pareto front.

use super::{letter, rounded};
use crate::rules::eval::matrix::MatrixRow;
use touchstone_host::render::words::{plain, usd};
use touchstone_kit::money::NanoUsd;

/// The picture in its own units. On a narrow screen, one unit is about one pixel.
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 260.0;
/// The plotted area.
const LEFT: f64 = 40.0;
const RIGHT: f64 = 344.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 212.0;
/// Costs that differ by a larger factor are on a logarithmic scale.
const LINEAR_RANGE: f64 = 20.0;
/// Size of a label's box.
const LABEL: (f64, f64) = (11.0, 12.0);
/// Radius of a point.
const RADIUS: f64 = 5.0;

pub struct Chart {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
    pub x_ticks: Vec<Tick>,
    pub y_ticks: Vec<Tick>,
    pub points: Vec<Point>,
    /// The front from the cheapest to the best variant, as the points of a line.
    pub front: String,
    pub is_log: bool,
    pub description: String,
}

pub struct Tick {
    pub at: f64,
    pub label: String,
}

pub struct Point {
    pub x: f64,
    pub y: f64,
    /// Ends of the interval.
    pub interval: Option<(f64, f64)>,
    pub letter: String,
    pub label_x: f64,
    pub label_y: f64,
    pub title: String,
    pub on_front: bool,
}

/// `None` unless at least two variants have a score and a cost, and their costs differ.
pub fn chart(rows: &[MatrixRow]) -> Option<Chart> {
    let measured: Vec<(usize, &MatrixRow, f64, f64)> = rows
        .iter()
        .enumerate()
        .filter_map(|(index, row)| Some((index, row, row.score?, row.cost_usd?)))
        .collect();
    let x = XScale::of(&measured.iter().map(|it| it.3).collect::<Vec<_>>())?;
    let lowest = measured
        .iter()
        .map(|(_, row, score, _)| row.low.unwrap_or(*score));
    let y = YScale::of(lowest.fold(1.0, f64::min));
    let mut points: Vec<Point> = measured
        .iter()
        .map(|(index, row, score, cost)| Point {
            x: rounded(x.at(*cost)),
            y: rounded(y.at(*score)),
            interval: row
                .low
                .zip(row.high)
                .map(|(low, high)| (rounded(y.at(low)), rounded(y.at(high)))),
            letter: letter(*index),
            label_x: 0.0,
            label_y: 0.0,
            title: format!(
                "{} {}: score {score:.3}, {}",
                letter(*index),
                plain(&row.name),
                dollars(*cost)
            ),
            on_front: row.on_front,
        })
        .collect();
    place_labels(&mut points);
    let described: Vec<&str> = points.iter().map(|point| point.title.as_str()).collect();
    Some(Chart {
        width: WIDTH,
        height: HEIGHT,
        left: LEFT,
        right: RIGHT,
        top: TOP,
        bottom: BOTTOM,
        x_ticks: x.ticks(),
        y_ticks: y.ticks(),
        front: front(&points),
        is_log: x.is_log,
        description: described.join("; "),
        points,
    })
}

/// A line that rises at each variant of the front.
fn front(points: &[Point]) -> String {
    let mut front: Vec<(f64, f64)> = points
        .iter()
        .filter(|point| point.on_front)
        .map(|point| (point.x, point.y))
        .collect();
    front.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let Some((first, _)) = front.first().copied() else {
        return String::new();
    };
    let mut line = vec![format!("{first},{BOTTOM}")];
    let mut before: Option<f64> = None;
    for (x, y) in front {
        if let Some(before) = before {
            line.push(format!("{x},{before}"));
        }
        line.push(format!("{x},{y}"));
        before = Some(y);
    }
    line.extend(before.map(|y| format!("{RIGHT},{y}")));
    line.join(" ")
}

/// Places each letter beside its point, where no other letter or point is.
fn place_labels(points: &mut [Point]) {
    let centers: Vec<(f64, f64)> = points.iter().map(|point| (point.x, point.y)).collect();
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for point in points {
        let around = [
            (13.0, -8.0),
            (-13.0, -8.0),
            (13.0, 11.0),
            (-13.0, 11.0),
            (24.0, -8.0),
            (-24.0, -8.0),
            (24.0, 11.0),
            (-24.0, 11.0),
        ];
        let spots = around.map(|(dx, dy)| (point.x + dx, point.y + dy));
        let is_free = |(x, y): &(f64, f64)| {
            let near = |(other_x, other_y): &(f64, f64), (width, height): (f64, f64)| {
                (x - other_x).abs() < width && (y - other_y).abs() < height
            };
            let on_point = (LABEL.0 / 2.0 + RADIUS, LABEL.1 / 2.0 + RADIUS);
            (LEFT..=RIGHT + 10.0).contains(x)
                && (TOP - 8.0..=BOTTOM).contains(y)
                && !taken.iter().any(|other| near(other, LABEL))
                && !centers.iter().any(|center| near(center, on_point))
        };
        let (x, y) = spots
            .iter()
            .copied()
            .find(is_free)
            .unwrap_or((point.x + 13.0, point.y - 8.0));
        taken.push((x, y));
        point.label_x = rounded(x);
        // The baseline of a letter is below its middle.
        point.label_y = rounded(y + 4.0);
    }
}

/// Costs from left to right.
struct XScale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl XScale {
    fn of(costs: &[f64]) -> Option<Self> {
        let low = costs.iter().copied().reduce(f64::min)?;
        let high = costs.iter().copied().reduce(f64::max)?;
        if low < 0.0 || low >= high {
            return None;
        }
        let is_log = low > 0.0 && high / low > LINEAR_RANGE;
        Some(match is_log {
            // A margin, so that no point is on an edge.
            true => Self {
                low: low / 1.6,
                high: high * 1.6,
                is_log,
            },
            false => Self {
                low: 0.0,
                high: high * 1.08,
                is_log,
            },
        })
    }

    fn at(&self, cost: f64) -> f64 {
        let part = match self.is_log {
            true => (cost / self.low).ln() / (self.high / self.low).ln(),
            false => (cost - self.low) / (self.high - self.low),
        };
        LEFT + part.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn ticks(&self) -> Vec<Tick> {
        let values: Vec<f64> = match self.is_log {
            true => {
                let first = self.low.log10().ceil() as i32;
                let last = self.high.log10().floor() as i32;
                let step = usize::try_from((last - first) / 4 + 1).unwrap_or(1);
                (first..=last)
                    .step_by(step)
                    .map(|power| 10_f64.powi(power))
                    .collect()
            }
            false => {
                let step = step(self.high / 4.0);
                (0..=8)
                    .map(|n| f64::from(n) * step)
                    .take_while(|value| *value <= self.high)
                    .collect()
            }
        };
        let tick = |value: f64| Tick {
            at: rounded(self.at(value)),
            label: dollars(value),
        };
        values.into_iter().map(tick).collect()
    }
}

/// The next number of the form 1, 2 or 5 times a power of ten.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|it| *it >= least)
        .unwrap_or(10.0 * power)
}

/// Scores from bottom to top.
struct YScale {
    low: f64,
}

impl YScale {
    /// `lowest` is the lowest score to show.
    fn of(lowest: f64) -> Self {
        let low = (lowest * 10.0).floor() / 10.0;
        Self {
            low: low.clamp(0.0, 0.8),
        }
    }

    fn at(&self, score: f64) -> f64 {
        let part = (score - self.low) / (1.0 - self.low);
        BOTTOM - part.clamp(0.0, 1.0) * (BOTTOM - TOP)
    }

    fn ticks(&self) -> Vec<Tick> {
        let step = match 1.0 - self.low {
            range if range > 0.65 => 2_u32,
            _ => 1,
        };
        // In tenths, from the top.
        (0..=10_u32)
            .step_by(step as usize)
            .map(|tenths| 1.0 - f64::from(tenths) / 10.0)
            .take_while(|score| *score >= self.low - 1e-9)
            .map(|score| Tick {
                at: rounded(self.at(score)),
                label: format!("{score:.1}"),
            })
            .collect()
    }
}

fn dollars(value: f64) -> String {
    NanoUsd::from_usd(value).map_or_else(|| "–".to_owned(), usd)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rules::eval::matrix::{Variant, matrix};
    use crate::rules::eval::sample;
    use crate::rules::eval::statistics::ListedRun;

    fn rows(variants: &[(usize, f64)]) -> Vec<MatrixRow> {
        let runs: Vec<_> = variants
            .iter()
            .map(|(passed, usd)| {
                let scores: Vec<Option<f64>> = (0..20)
                    .map(|n| Some(f64::from(u8::from(n < *passed))))
                    .collect();
                let mut report = sample::report("run_x", &["golden"], &scores);
                report.summary.total_cost_usd = NanoUsd::from_usd(*usd);
                ListedRun::of(&report)
            })
            .collect();
        let variants: Vec<Variant<'_>> = runs
            .iter()
            .map(|first| Variant {
                name: "v",
                first,
                further: &[],
            })
            .collect();
        matrix(&variants).variants
    }

    #[test]
    fn equal_or_unknown_costs_have_no_chart() {
        assert!(chart(&rows(&[(10, 0.0), (12, 0.0)])).is_none());
        let mut unknown = rows(&[(10, 0.1), (12, 0.2)]);
        unknown[0].cost_usd = None;
        assert!(chart(&unknown).is_none());
        assert!(chart(&[]).is_none());
    }

    #[test]
    fn costs_of_different_magnitude_are_on_a_logarithmic_scale() {
        let far = chart(&rows(&[(10, 0.001), (12, 1.0)])).unwrap();
        let labels: Vec<&str> = far.x_ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert!(far.is_log);
        assert_eq!(labels.len(), 4, "{labels:?}");
        assert!(!chart(&rows(&[(10, 0.1), (12, 1.0)])).unwrap().is_log);
    }

    #[test]
    fn the_front_rises_from_the_cheapest_to_the_best_variant() {
        let found = chart(&rows(&[(19, 1.0), (10, 0.2), (9, 0.5)])).unwrap();
        let on_front: Vec<&str> = found
            .points
            .iter()
            .filter(|point| point.on_front)
            .map(|point| point.letter.as_str())
            .collect();
        assert_eq!(on_front, ["A", "B"]);
        assert_eq!(found.front.split(' ').count(), 5, "{}", found.front);
    }

    proptest! {
        #[test]
        fn everything_is_inside_the_picture(
            variants in prop::collection::vec((0_usize..=20, 0.0..50.0_f64), 2..24),
        ) {
            let Some(found) = chart(&rows(&variants)) else {
                return Ok(());
            };
            for point in &found.points {
                prop_assert!((LEFT..=RIGHT).contains(&point.x), "{}", point.x);
                prop_assert!((TOP..=BOTTOM).contains(&point.y), "{}", point.y);
            }
            for tick in &found.x_ticks {
                prop_assert!((LEFT..=RIGHT).contains(&tick.at), "{}", tick.at);
            }
            prop_assert!((2..=9).contains(&found.x_ticks.len()) || found.is_log);
        }
    }
}
