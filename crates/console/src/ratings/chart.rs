//! Values over time as lines.

use jiff::Timestamp;

use crate::page::text::ends;

const LEFT: f64 = 40.0;
const RIGHT: f64 = 630.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 192.0;
/// Size of a small line without axes.
const SMALL: (f64, f64) = (120.0, 28.0);

/// One value of a line.
#[derive(Clone, Debug)]
pub struct Value {
    pub at: Timestamp,
    pub value: f64,
    /// The interval around it.
    pub range: Option<(f64, f64)>,
    /// The text for screen readers and pointers.
    pub title: String,
}

/// A line with its name.
pub struct Line {
    pub name: String,
    pub values: Vec<Value>,
}

pub struct Tick {
    pub y: String,
    pub text_y: String,
    pub label: String,
}

pub struct Dot {
    pub x: String,
    pub y: String,
    pub title: String,
    /// The ends of the interval.
    pub whisker: Option<(String, String)>,
}

pub struct Series {
    pub name: String,
    /// From 1.
    pub number: usize,
    pub points: String,
    pub dots: Vec<Dot>,
}

pub struct Chart {
    pub title: String,
    pub description: String,
    pub ticks: Vec<Tick>,
    pub series: Vec<Series>,
    pub first: String,
    pub last: String,
}

impl Chart {
    /// A chart from 0 to `top`; `None` without a value.
    pub fn of(title: &str, top: f64, lines: Vec<Line>) -> Option<Self> {
        let times = || {
            lines
                .iter()
                .flat_map(|line| line.values.iter().map(|it| it.at))
        };
        let (first, last) = (times().min()?, times().max()?);
        let (from, to) = ends(first, last);
        let x = |at: Timestamp| place(at, first, last, LEFT + 8.0, RIGHT - 8.0);
        let y = |value: f64| BOTTOM - (value / top).clamp(0.0, 1.0) * (BOTTOM - TOP);
        let tick = |quarter: u8| {
            let value = top * f64::from(quarter) / 4.0;
            Tick {
                y: number(y(value)),
                text_y: number(y(value) + 4.0),
                label: match top > 1.0 {
                    true => format!("{value:.0}"),
                    false => format!("{value:.2}"),
                },
            }
        };
        let count: usize = lines.iter().map(|line| line.values.len()).sum();
        let series = (1..).zip(lines).map(|(number_of, line)| {
            let dots: Vec<Dot> = line
                .values
                .iter()
                .map(|it| Dot {
                    x: number(x(it.at)),
                    y: number(y(it.value)),
                    title: it.title.clone(),
                    whisker: it
                        .range
                        .map(|(low, high)| (number(y(high)), number(y(low)))),
                })
                .collect();
            let points: Vec<String> = dots.iter().map(|it| format!("{},{}", it.x, it.y)).collect();
            Series {
                name: line.name,
                number: number_of,
                points: points.join(" "),
                dots,
            }
        });
        Some(Self {
            series: series.collect(),
            ticks: (0..=4).map(tick).collect(),
            title: title.to_owned(),
            description: format!("{count} values from {from} to {to}"),
            first: from,
            last: match first == last {
                true => String::new(),
                false => to,
            },
        })
    }
}

/// The points of a small line; empty for fewer than two values.
pub fn small(values: &[(Timestamp, f64)], top: f64) -> String {
    let (Some((first, _)), Some((last, _))) = (values.first(), values.last()) else {
        return String::new();
    };
    if values.len() < 2 {
        return String::new();
    }
    let (width, height) = SMALL;
    let points = values.iter().map(|(at, value)| {
        let x = place(*at, *first, *last, 2.0, width - 2.0);
        let y = height - 3.0 - (value / top).clamp(0.0, 1.0) * (height - 6.0);
        format!("{},{}", number(x), number(y))
    });
    points.collect::<Vec<_>>().join(" ")
}

fn place(at: Timestamp, first: Timestamp, last: Timestamp, from: f64, to: f64) -> f64 {
    let span = last.duration_since(first).as_secs_f64();
    match span > 0.0 {
        true => from + at.duration_since(first).as_secs_f64() / span * (to - from),
        false => from.midpoint(to),
    }
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(second: i64, value: f64) -> Value {
        Value {
            at: Timestamp::from_second(second).unwrap(),
            value,
            range: None,
            title: String::new(),
        }
    }

    #[test]
    fn a_chart_without_a_value_is_not_drawn() {
        assert!(Chart::of("t", 1.0, Vec::new()).is_none());
        let empty = Line {
            name: "a".to_owned(),
            values: Vec::new(),
        };
        assert!(Chart::of("t", 1.0, vec![empty]).is_none());
        assert_eq!(small(&[], 1.0), "");
    }

    #[test]
    fn points_stay_within_the_drawing() {
        let line = Line {
            name: "a".to_owned(),
            values: vec![value(0, -1.0), value(50, 0.5), value(100, 9.0)],
        };
        let chart = Chart::of("t", 1.0, vec![line]).unwrap();
        let [series] = chart.series.as_slice() else {
            panic!("one line")
        };
        assert_eq!(series.points, "48.0,192.0 335.0,101.0 622.0,10.0");
        assert_eq!(chart.ticks.len(), 5);
    }

    #[test]
    fn a_single_moment_is_in_the_middle() {
        let line = Line {
            name: "a".to_owned(),
            values: vec![value(7, 1.0)],
        };
        let chart = Chart::of("t", 1.0, vec![line]).unwrap();
        assert_eq!(chart.series.first().unwrap().points, "335.0,10.0");
        assert_eq!(chart.last, "");
    }
}
