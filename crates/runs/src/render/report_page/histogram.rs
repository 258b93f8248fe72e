//! Distributions as bars: how many tasks have a score or latency in each range.

use crate::rules::eval::statistics::TaskFigures;
use crate::rules::eval::statistics::distribution::Distribution;
use touchstone_host::render::words::duration;

/// Size of the picture in its own units.
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 96.0;
/// Space between bars.
const GAP: f64 = 2.0;

pub struct Histogram {
    pub bars: Vec<Bar>,
    /// Labels below the left and right end.
    pub low: String,
    pub high: String,
    /// The number of tasks in the highest bar.
    pub most: usize,
    pub description: String,
}

pub struct Bar {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
    pub title: String,
}

/// Scores of the judged tasks; `None` if no task was judged.
pub fn scores(figures: &TaskFigures) -> Option<Histogram> {
    histogram(&figures.scores, |score| format!("{score:.1}"))
}

/// Latencies of the tasks that have one; `None` if none has.
pub fn latencies(figures: &TaskFigures) -> Option<Histogram> {
    histogram(&figures.latencies, |ms| duration(ms.round() as u64))
}

fn histogram(of: &Distribution, label: impl Fn(f64) -> String) -> Option<Histogram> {
    let Distribution { end, counts } = of;
    let (end, bins) = (*end, counts.len());
    let most = counts.iter().copied().max().filter(|most| *most > 0)?;
    let step = WIDTH / bins as f64;
    let limit = |n: usize| label(end * n as f64 / bins as f64);
    let range = |n: usize| format!("{} to {}", limit(n), limit(n + 1));
    let tasks = |count: usize| match count {
        1 => "1 task".to_owned(),
        count => format!("{count} tasks"),
    };
    let described: Vec<String> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(n, count)| format!("{}: {}", range(n), tasks(*count)))
        .collect();
    let bars = counts.iter().enumerate().map(|(n, count)| {
        // The smallest count must still be seen.
        let height = match count {
            0 => 0.0,
            count => (*count as f64 / most as f64 * HEIGHT).max(1.5),
        };
        Bar {
            x: rounded(n as f64 * step + GAP / 2.0),
            y: rounded(HEIGHT - height),
            width: rounded(step - GAP),
            height: rounded(height),
            title: format!("{}: {}", range(n), tasks(*count)),
        }
    });
    Some(Histogram {
        bars: bars.collect(),
        low: limit(0),
        high: limit(bins),
        most,
        description: described.join("; "),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bars_have_titles_and_a_description() {
        let scores = Distribution::of_scores([1.0, 1.0, 0.0].into_iter());
        let found = histogram(&scores, |it| format!("{it:.1}")).unwrap();
        assert_eq!(found.bars[9].height, HEIGHT);
        assert_eq!(found.bars[9].title, "0.9 to 1.0: 2 tasks");
        assert_eq!(found.bars[0].height, HEIGHT / 2.0);
        assert_eq!(found.description, "0.0 to 0.1: 1 task; 0.9 to 1.0: 2 tasks");
    }

    #[test]
    fn nothing_has_no_histogram() {
        let none = Distribution::of_scores(std::iter::empty());
        assert!(histogram(&none, |it| it.to_string()).is_none());
        assert!(histogram(&Distribution::default(), |it| it.to_string()).is_none());
    }

    proptest! {
        #[test]
        fn every_bar_is_inside_the_picture(values in prop::collection::vec(0..90_000_u64, 1..200)) {
            let latencies = Distribution::of_latencies(values.iter().copied());
            let found = histogram(&latencies, |it| it.to_string()).unwrap();
            for bar in &found.bars {
                prop_assert!(bar.x >= 0.0 && bar.x + bar.width <= WIDTH);
                prop_assert!(bar.y >= 0.0 && bar.y + bar.height <= HEIGHT + 0.01);
            }
        }
    }
}
