//! Agreement of raters who need not rate every subject: Cohen's κ (*A coefficient of agreement for
//! nominal scales*, 1960) and Krippendorff's α (*Computing Krippendorff's Alpha-Reliability*,
//! 2011).

use super::agreement::Agreement;
use super::count;

/// Below this, agreement by chance is complete, so that a coefficient is undefined.
const EPSILON: f64 = 1e-12;

/// Cohen's κ of two raters. Each pair has the categories that the raters chose for one subject.
/// `None` without pairs; the coefficient is `None` if both raters always chose one category.
pub fn cohen(pairs: &[(usize, usize)]) -> Option<Agreement> {
    if pairs.is_empty() {
        return None;
    }
    let all = count(pairs.len());
    let equal = pairs.iter().filter(|(one, other)| one == other).count();
    let observed = count(equal) / all;
    let categories = pairs.iter().map(|(one, other)| one.max(other) + 1).max()?;
    let share = |chosen: usize| count(chosen) / all;
    let by_chance: f64 = (0..categories)
        .map(|category| {
            let one = pairs.iter().filter(|it| it.0 == category).count();
            let other = pairs.iter().filter(|it| it.1 == category).count();
            share(one) * share(other)
        })
        .sum();
    let kappa = (1.0 - by_chance > EPSILON).then(|| (observed - by_chance) / (1.0 - by_chance));
    Some(Agreement { observed, kappa })
}

/// How far two values are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Values are names: equal or not.
    Nominal,
    /// Only the order of values counts.
    Ordinal,
    /// The difference of values counts.
    Interval,
}

/// Krippendorff's α: each subject has the values that its raters gave, so raters may be missing.
/// Subjects with fewer than two values say nothing. `None` without pairs of values, and if all
/// values are the same.
pub fn krippendorff(subjects: &[Vec<f64>], metric: Metric) -> Option<f64> {
    let pairable: Vec<&Vec<f64>> = subjects.iter().filter(|it| it.len() > 1).collect();
    let mut all: Vec<f64> = pairable.iter().flat_map(|it| it.iter().copied()).collect();
    all.sort_by(f64::total_cmp);
    let mut values: Vec<(f64, f64)> = Vec::new();
    for value in all {
        match values.last_mut() {
            Some((last, times)) if last.total_cmp(&value).is_eq() => *times += 1.0,
            _ => values.push((value, 1.0)),
        }
    }
    let total: f64 = values.iter().map(|(_, times)| times).sum();
    let place = |value: f64| values.iter().position(|it| it.0.total_cmp(&value).is_eq());
    let distance = |one: usize, other: usize| distance(&values, metric, one, other);
    let mut observed = 0.0;
    for subject in pairable {
        let places: Vec<usize> = subject.iter().filter_map(|it| place(*it)).collect();
        let pairs = places
            .iter()
            .flat_map(|one| places.iter().map(|other| distance(*one, *other)));
        observed += pairs.sum::<f64>() / (count(subject.len()) - 1.0);
    }
    let mut expected = 0.0;
    for (one, (_, times)) in values.iter().enumerate() {
        for (other, (_, others)) in values.iter().enumerate() {
            expected += times * others * distance(one, other);
        }
    }
    (expected > EPSILON).then(|| 1.0 - (total - 1.0) * observed / expected)
}

/// The squared distance of two values, by their places among the sorted values with their numbers.
fn distance(values: &[(f64, f64)], metric: Metric, one: usize, other: usize) -> f64 {
    let (low, high) = (one.min(other), one.max(other));
    let ends = values.get(low).zip(values.get(high));
    let Some(((low_value, low_times), (high_value, high_times))) = ends.filter(|_| low != high)
    else {
        return 0.0;
    };
    match metric {
        Metric::Nominal => 1.0,
        Metric::Interval => (high_value - low_value).powi(2),
        Metric::Ordinal => {
            let between = values.get(low..=high).unwrap_or_default();
            let between: f64 = between.iter().map(|(_, times)| times).sum();
            (between - f64::midpoint(*low_times, *high_times)).powi(2)
        }
    }
}

/// The share of pairs of raters that gave a subject the same value, over all pairs; `None` without
/// pairs.
pub fn equal_pairs(subjects: &[Vec<f64>]) -> Option<f64> {
    let (mut equal, mut pairs) = (0_usize, 0_usize);
    for subject in subjects {
        for (n, one) in subject.iter().enumerate() {
            for other in subject.iter().skip(n + 1) {
                pairs += 1;
                equal += usize::from(one.total_cmp(other).is_eq());
            }
        }
    }
    (pairs > 0).then(|| count(equal) / count(pairs))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn pairs_of(table: &[(usize, usize, usize)]) -> Vec<(usize, usize)> {
        let repeat = |(one, other, times): &(usize, usize, usize)| vec![(*one, *other); *times];
        table.iter().flat_map(repeat).collect()
    }

    /// The first worked example of Cohen (1960), in percent.
    #[test]
    fn the_published_example_gives_the_published_kappa() {
        let table = [
            (0, 0, 44),
            (0, 1, 5),
            (0, 2, 1),
            (1, 0, 7),
            (1, 1, 20),
            (1, 2, 3),
            (2, 0, 9),
            (2, 1, 5),
            (2, 2, 6),
        ];
        let found = cohen(&pairs_of(&table)).unwrap();
        assert!((found.observed - 0.70).abs() < 1e-12, "{found:?}");
        assert!((found.kappa.unwrap() - 0.492).abs() < 5e-4, "{found:?}");
        let grants = cohen(&pairs_of(&[(0, 0, 20), (0, 1, 5), (1, 0, 10), (1, 1, 15)])).unwrap();
        assert!((grants.kappa.unwrap() - 0.4).abs() < 1e-12);
    }

    #[test]
    fn a_constant_choice_has_no_kappa() {
        assert_eq!(cohen(&[]), None);
        let constant = cohen(&[(1, 1), (1, 1)]).unwrap();
        assert_eq!((constant.observed, constant.kappa), (1.0, None));
    }

    /// Four observers, twelve units, missing values: example D of the paper.
    fn missing() -> Vec<Vec<f64>> {
        let observers = [
            "1 2 3 3 2 1 4 1 2 . . .",
            "1 2 3 3 2 2 4 1 2 5 . 3",
            ". 3 3 3 2 3 4 2 2 5 1 .",
            "1 2 3 3 2 4 4 1 2 5 1 .",
        ];
        let observers = observers.map(|it| it.split(' ').collect::<Vec<_>>());
        let unit = |n: usize| {
            let values = observers.iter().filter_map(|it| it[n].parse().ok());
            values.collect()
        };
        (0..12).map(unit).collect()
    }

    #[rstest]
    #[case(Metric::Nominal, 0.743)]
    #[case(Metric::Ordinal, 0.815)]
    #[case(Metric::Interval, 0.849)]
    fn the_published_example_gives_the_published_alpha(
        #[case] metric: Metric,
        #[case] expected: f64,
    ) {
        let found = krippendorff(&missing(), metric).unwrap();
        assert!((found - expected).abs() < 5e-4, "{found}");
    }

    /// Two observers: examples A and B of the paper.
    #[rstest]
    #[case("0100000010", "1110010000", 0.095)]
    #[case("aabbdcccedda", "babbbccceddd", 0.692)]
    fn two_observers_give_the_published_alpha(
        #[case] one: &str,
        #[case] other: &str,
        #[case] expected: f64,
    ) {
        let unit = |(one, other): (u8, u8)| vec![f64::from(one), f64::from(other)];
        let units: Vec<_> = one.bytes().zip(other.bytes()).map(unit).collect();
        let found = krippendorff(&units, Metric::Nominal).unwrap();
        assert!((found - expected).abs() < 5e-4, "{found}");
    }

    #[test]
    fn alpha_needs_pairs_of_values_that_differ() {
        assert_eq!(krippendorff(&[], Metric::Nominal), None);
        assert_eq!(krippendorff(&[vec![1.0], vec![0.0]], Metric::Nominal), None);
        assert_eq!(krippendorff(&[vec![1.0, 1.0]], Metric::Ordinal), None);
    }

    #[test]
    fn equal_pairs_are_counted_within_subjects() {
        assert_eq!(equal_pairs(&[vec![1.0], vec![]]), None);
        let found = equal_pairs(&[vec![1.0, 1.0, 0.0], vec![0.5, 0.5]]);
        assert_eq!(found, Some(0.5));
    }

    proptest! {
        #[test]
        fn alpha_is_at_most_one(
            subjects in prop::collection::vec(prop::collection::vec(0_u8..5, 0..4), 1..30),
        ) {
            let subjects: Vec<Vec<f64>> = subjects
                .iter()
                .map(|it| it.iter().map(|value| f64::from(*value)).collect())
                .collect();
            for metric in [Metric::Nominal, Metric::Ordinal, Metric::Interval] {
                let found = krippendorff(&subjects, metric);
                prop_assert!(found.is_none_or(|alpha| alpha <= 1.0 + 1e-9));
            }
        }
    }
}
