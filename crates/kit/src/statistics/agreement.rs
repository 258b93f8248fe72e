//! Agreement of several raters beyond chance (Fleiss, *Measuring nominal scale agreement among many
//! raters*, Psychological Bulletin 76, 1971).

use super::count;

/// How far raters agree about subjects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// The share of pairs of raters that agree, averaged over subjects, 0.0..=1.0.
    pub observed: f64,
    /// Fleiss' κ; `None` if every rater always chose the same category, because then agreement by
    /// chance is complete too.
    pub kappa: Option<f64>,
}

/// Each subject has the number of raters that chose each category. `None` without subjects, with
/// fewer than two raters, or if the numbers of raters or categories differ.
pub fn fleiss(subjects: &[Vec<usize>]) -> Option<Agreement> {
    let first = subjects.first()?;
    let (raters, categories) = (first.iter().sum::<usize>(), first.len());
    let alike = |subject: &Vec<usize>| {
        subject.len() == categories && subject.iter().sum::<usize>() == raters
    };
    if raters < 2 || !subjects.iter().all(alike) {
        return None;
    }
    let pairs = count(raters) * (count(raters) - 1.0);
    let agreeing = |subject: &Vec<usize>| {
        let pairs_of = subject
            .iter()
            .map(|n| count(*n) * (count(*n) - 1.0).max(0.0));
        pairs_of.sum::<f64>() / pairs
    };
    let observed = subjects.iter().map(agreeing).sum::<f64>() / count(subjects.len());
    let all = count(raters) * count(subjects.len());
    let by_chance: f64 = (0..categories)
        .map(|category| {
            let chosen = subjects.iter().filter_map(|subject| subject.get(category));
            let share = count(chosen.sum()) / all;
            share * share
        })
        .sum();
    let kappa = (1.0 - by_chance > 1e-12).then(|| (observed - by_chance) / (1.0 - by_chance));
    Some(Agreement { observed, kappa })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The worked example of the method: 10 subjects, 14 raters, 5 categories, κ = 0.210.
    #[test]
    fn the_published_example_gives_the_published_kappa() {
        let subjects = [
            [0, 0, 0, 0, 14],
            [0, 2, 6, 4, 2],
            [0, 0, 3, 5, 6],
            [0, 3, 9, 2, 0],
            [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0],
            [3, 2, 6, 3, 0],
            [2, 5, 3, 2, 2],
            [6, 5, 2, 1, 0],
            [0, 2, 2, 3, 7],
        ];
        let found = fleiss(&subjects.map(Vec::from)).unwrap();
        assert!((found.observed - 0.378).abs() < 5e-4, "{found:?}");
        assert!((found.kappa.unwrap() - 0.210).abs() < 5e-4, "{found:?}");
    }

    #[test]
    fn agreement_needs_two_raters_and_the_same_number_for_every_subject() {
        assert_eq!(fleiss(&[]), None);
        assert_eq!(fleiss(&[vec![1, 0]]), None);
        assert_eq!(fleiss(&[vec![2, 0], vec![1, 0]]), None);
        let constant = fleiss(&[vec![2, 0], vec![2, 0]]).unwrap();
        assert_eq!((constant.observed, constant.kappa), (1.0, None));
    }

    proptest! {
        #[test]
        fn kappa_is_at_most_one_and_agreement_is_a_share(
            yes in prop::collection::vec(0_usize..=3, 1..40),
        ) {
            let subjects: Vec<Vec<usize>> = yes.iter().map(|yes| vec![*yes, 3 - yes]).collect();
            let found = fleiss(&subjects).unwrap();
            prop_assert!((0.0..=1.0).contains(&found.observed));
            prop_assert!(found.kappa.is_none_or(|kappa| kappa <= 1.0 + 1e-12));
        }
    }
}
