//! How far the people of a queue agree.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Review, ReviewItem};
use touchstone_kit::statistics::{Metric, cohen, equal_pairs, krippendorff};

/// Below this number of answers, coefficients vary too much to mean anything.
const MIN_ITEMS: usize = 10;
/// Krippendorff's bounds for conclusions, and for tentative ones.
const RELIABLE: f64 = 0.800;
const TENTATIVE: f64 = 0.667;

/// The meaning of the agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// There are no answers with two labels.
    NothingToCompare,
    /// There are too few answers.
    TooFew,
    /// Everybody gave all answers the same label, so chance alone explains the agreement.
    Constant,
    Reliable,
    Tentative,
    Unreliable,
}

/// The agreement on answers with all labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewAgreement {
    /// Number of answers with all labels.
    pub items: usize,
    /// The share of pairs of equal labels, 0.0..=1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equal: Option<f64>,
    /// Cohen's κ, if the same two people labelled all answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohen_kappa: Option<f64>,
    /// Krippendorff's α: nominal for fail and pass, ordinal for scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub krippendorff_alpha: Option<f64>,
    pub meaning: Meaning,
}

/// The answers with all labels.
pub fn complete<'a>(
    review: &Review,
    items: &'a [ReviewItem],
) -> impl Iterator<Item = &'a ReviewItem> {
    let labellers = review.labellers;
    items.iter().filter(move |it| it.is_complete(labellers))
}

pub fn agreement(review: &Review, items: &[ReviewItem]) -> ReviewAgreement {
    let complete: Vec<&ReviewItem> = complete(review, items).collect();
    let subjects: Vec<Vec<f64>> = complete
        .iter()
        .map(|it| {
            it.labels
                .iter()
                .map(|label| f64::from(label.choice))
                .collect()
        })
        .collect();
    let metric = match review.steps {
        0 | 1 => Metric::Nominal,
        _ => Metric::Ordinal,
    };
    let equal = equal_pairs(&subjects);
    let alpha = krippendorff(&subjects, metric);
    let meaning = match (equal, alpha) {
        (None, _) => Meaning::NothingToCompare,
        _ if complete.len() < MIN_ITEMS => Meaning::TooFew,
        (Some(_), None) => Meaning::Constant,
        (Some(_), Some(alpha)) if alpha >= RELIABLE => Meaning::Reliable,
        (Some(_), Some(alpha)) if alpha >= TENTATIVE => Meaning::Tentative,
        (Some(_), Some(_)) => Meaning::Unreliable,
    };
    ReviewAgreement {
        items: complete.len(),
        equal,
        cohen_kappa: kappa(&complete),
        krippendorff_alpha: alpha,
        meaning,
    }
}

fn kappa(complete: &[&ReviewItem]) -> Option<f64> {
    let people: BTreeSet<&str> = complete
        .iter()
        .flat_map(|it| it.labels.iter().map(|label| label.principal.as_str()))
        .collect();
    let mut people = people.into_iter();
    let (Some(one), Some(other), None) = (people.next(), people.next(), people.next()) else {
        return None;
    };
    let choice = |item: &ReviewItem, who: &str| Some(usize::from(item.label_of(who)?.choice));
    let pairs: Option<Vec<(usize, usize)>> = complete
        .iter()
        .map(|it| choice(it, one).zip(choice(it, other)))
        .collect();
    cohen(&pairs?)?.kappa
}

/// The complete answers that people labelled differently, those furthest apart first.
pub fn disputed<'a>(review: &Review, items: &'a [ReviewItem]) -> Vec<&'a ReviewItem> {
    let mut found: Vec<&ReviewItem> = complete(review, items)
        .filter(|it| spread(it) > 0)
        .collect();
    found.sort_by_key(|it| (std::cmp::Reverse(spread(it)), it.number));
    found
}

fn spread(item: &ReviewItem) -> u8 {
    let choices = || item.labels.iter().map(|it| it.choice);
    let highest = choices().max().unwrap_or_default();
    highest - choices().min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::Label;
    use super::*;

    fn review(labellers: u8, steps: u8, items: usize) -> Review {
        serde_json::from_value(json!({
            "reviewId": "review_1", "runId": "run_1", "suite": "a.evals.b@1.0.0", "seed": 0,
            "labellers": labellers, "steps": steps, "items": items, "createdBy": "key_1",
            "createdAt": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    fn item(number: u32, labels: &[(&str, u8)]) -> ReviewItem {
        let label = |(who, choice): &(&str, u8)| Label {
            principal: (*who).to_owned(),
            choice: *choice,
            note: None,
            at: Timestamp::UNIX_EPOCH,
        };
        ReviewItem {
            number,
            task: format!("task-{number}").as_str().into(),
            labels: labels.iter().map(label).collect(),
            claims: Vec::new(),
        }
    }

    /// Items that two people labelled with these choices.
    fn both(choices: &[(u8, u8)]) -> Vec<ReviewItem> {
        let pair = |(number, (one, other)): (u32, &(u8, u8))| {
            item(number, &[("ann", *one), ("bob", *other)])
        };
        (1..).zip(choices).map(pair).collect()
    }

    #[test]
    fn only_complete_items_count() {
        let mut items = both(&[(1, 1), (0, 0), (1, 0)]);
        items.push(item(4, &[("ann", 1)]));
        let found = agreement(&review(2, 1, 4), &items);
        assert_eq!((found.items, found.meaning), (3, Meaning::TooFew));
        assert!((found.equal.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        let disputed = disputed(&review(2, 1, 4), &items);
        let numbers: Vec<u32> = disputed.iter().map(|it| it.number).collect();
        assert_eq!(numbers, [3]);
        let single = agreement(&review(1, 1, 4), &[item(1, &[("ann", 1)])]);
        assert_eq!(single.meaning, Meaning::NothingToCompare);
    }

    #[test]
    fn the_meaning_follows_the_coefficient() {
        let of = |choices: &[(u8, u8)]| agreement(&review(2, 1, choices.len()), &both(choices));
        let same = [(1, 1), (0, 0)].repeat(10);
        let found = of(&same);
        assert_eq!(found.meaning, Meaning::Reliable);
        assert_eq!(
            (found.cohen_kappa, found.krippendorff_alpha),
            (Some(1.0), Some(1.0))
        );
        assert_eq!(of(&[(1, 1); 20]).meaning, Meaning::Constant);
        assert_eq!(
            of(&[(1, 0), (0, 1)].repeat(10)).meaning,
            Meaning::Unreliable
        );
    }

    #[test]
    fn kappa_needs_the_same_two_people() {
        let mut items = both(&[(1, 1), (0, 0)].repeat(6));
        assert!(agreement(&review(2, 1, 12), &items).cohen_kappa.is_some());
        items.push(item(13, &[("ann", 1), ("eve", 1)]));
        let found = agreement(&review(2, 1, 13), &items);
        assert_eq!(found.cohen_kappa, None);
        assert!(found.krippendorff_alpha.is_some());
    }

    #[test]
    fn the_widest_dispute_comes_first() {
        let items = both(&[(4, 3), (4, 0), (2, 2)]);
        let review = review(2, 4, 3);
        let found = disputed(&review, &items);
        let numbers: Vec<u32> = found.iter().map(|it| it.number).collect();
        assert_eq!(numbers, [2, 1]);
        assert_eq!(
            (review.score(0), review.score(3), review.score(9)),
            (0.0, 0.75, 1.0)
        );
    }
}
