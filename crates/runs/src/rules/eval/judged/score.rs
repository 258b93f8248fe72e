//! Scores from a judge's decisions.

use super::Decided;
use crate::rules::eval::scoring::EPSILON;
use crate::rules::eval::scoring_document::judged::{Criterion, MIN, Rubric};
use touchstone_agents::ports::judge::CriterionVerdict;
use touchstone_agents::rules::judging::form::Better;
use touchstone_agents::rules::judging::lists::ItemVerdict;

/// Bytes of a recorded reason.
const MAX_REASON: usize = 8_000;

/// The weighted share of met criteria.
pub fn rubric(rubric: &Rubric, verdicts: &[CriterionVerdict]) -> Decided {
    let total: f64 = rubric.criteria.iter().map(|it| it.weight).sum();
    let judged: Vec<(&Criterion, &CriterionVerdict)> =
        rubric.criteria.iter().zip(verdicts).collect();
    let met = judged.iter().filter(|(_, verdict)| verdict.met);
    let reached: f64 = met.map(|(criterion, _)| criterion.weight).sum();
    let score = if total > 0.0 {
        (reached / total).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let holds = match rubric.min {
        Some(min) => score + EPSILON >= min,
        None => judged
            .iter()
            .all(|(it, verdict)| verdict.met || it.weight <= 0.0),
    };
    let lines = judged
        .iter()
        .map(|(it, verdict)| line(verdict.met, &it.criterion, &verdict.reason));
    let reason = match verdicts {
        [only] => only.reason.clone(),
        _ => bounded(lines),
    };
    Decided {
        score,
        holds,
        label: None,
        verdicts: verdicts.iter().map(|it| it.met).collect(),
        reason,
    }
}

/// Items with the decisions about them, in their order.
#[derive(Clone, Debug, Default)]
pub struct Items {
    pub texts: Vec<String>,
    pub verdicts: Vec<ItemVerdict>,
}

impl Items {
    /// Items that are all decided with no, for this reason.
    pub fn none_of(texts: Vec<String>, reason: &str) -> Self {
        let verdict = |_: &String| ItemVerdict {
            yes: false,
            reason: reason.to_owned(),
        };
        Self {
            verdicts: texts.iter().map(verdict).collect(),
            texts,
        }
    }

    /// The share of items with yes; `empty` without items.
    #[expect(clippy::cast_precision_loss, reason = "items are far below 2^53")]
    pub fn share(&self, empty: f64, min: Option<f64>) -> Decided {
        let yes = self.verdicts.iter().filter(|it| it.yes).count();
        let score = match self.verdicts.len() {
            0 => empty,
            count => yes as f64 / count as f64,
        };
        self.decided(score, min)
    }

    /// The mean of the precision at each item with yes: Σ (precision@k · yes at k) ÷ Σ (yes at k);
    /// 0 without any.
    #[expect(clippy::cast_precision_loss, reason = "items are far below 2^53")]
    pub fn average_precision(&self, min: Option<f64>) -> Decided {
        let (mut yes, mut sum) = (0_usize, 0.0);
        for (index, verdict) in self.verdicts.iter().enumerate() {
            if verdict.yes {
                yes += 1;
                sum += yes as f64 / (index + 1) as f64;
            }
        }
        let score = if yes == 0 { 0.0 } else { sum / yes as f64 };
        self.decided(score, min)
    }

    fn decided(&self, score: f64, min: Option<f64>) -> Decided {
        let score = score.clamp(0.0, 1.0);
        let judged = self.texts.iter().zip(&self.verdicts);
        let lines = judged.map(|(text, verdict)| line(verdict.yes, text, &verdict.reason));
        Decided {
            score,
            holds: score + EPSILON >= min.unwrap_or(MIN),
            label: None,
            verdicts: self.verdicts.iter().map(|it| it.yes).collect(),
            reason: bounded(lines),
        }
    }
}

fn line(yes: bool, text: &str, reason: &str) -> String {
    let mark = if yes { "yes" } else { "no" };
    let text = text.replace('\n', " ");
    match reason {
        "" => format!("{mark}: {text}\n"),
        reason => format!("{mark}: {text} ({})\n", reason.replace('\n', " ")),
    }
}

fn bounded(lines: impl Iterator<Item = String>) -> String {
    let mut all: String = lines.collect();
    all.truncate(all.floor_char_boundary(MAX_REASON));
    all
}

/// The answer against the baseline's, in both orders: it was shown first, and it was shown second.
pub fn preference(
    shown_first: (Better, String),
    shown_second: (Better, String),
    min: Option<f64>,
) -> Decided {
    let outcomes = [
        match shown_first.0 {
            Better::First => Outcome::Win,
            Better::Second => Outcome::Loss,
            Better::Tie => Outcome::Tie,
        },
        match shown_second.0 {
            Better::First => Outcome::Loss,
            Better::Second => Outcome::Win,
            Better::Tie => Outcome::Tie,
        },
    ];
    let (score, label) = match outcomes {
        [Outcome::Win, Outcome::Win] => (1.0, "win"),
        [Outcome::Loss, Outcome::Loss] => (0.0, "loss"),
        [Outcome::Tie, Outcome::Tie] => (0.5, "tie"),
        _ => (0.5, "disagreement"),
    };
    let lines = [
        ("shown first", shown_first.1),
        ("shown second", shown_second.1),
    ];
    let lines = lines.iter().zip(outcomes);
    let lines = lines.map(|((order, reason), outcome)| {
        let reason = reason.replace('\n', " ");
        format!("{order}: {}: {reason}\n", outcome.as_str())
    });
    Decided {
        score,
        holds: score + EPSILON >= min.unwrap_or(MIN),
        label: Some(label.to_owned()),
        verdicts: outcomes.iter().map(|it| *it == Outcome::Win).collect(),
        reason: bounded(lines),
    }
}

/// An answer is better than none.
pub fn preferred_to_none() -> Decided {
    Decided {
        label: Some("win".to_owned()),
        ..Decided::yes_or_no(true, "the agent of the baseline gave no answer".to_owned())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Win,
    Tie,
    Loss,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Win => "better",
            Self::Tie => "as good",
            Self::Loss => "worse",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn items(verdicts: &[bool]) -> Items {
        let verdict = |yes: &bool| ItemVerdict {
            yes: *yes,
            reason: String::new(),
        };
        Items {
            texts: verdicts.iter().map(|_| "x".to_owned()).collect(),
            verdicts: verdicts.iter().map(verdict).collect(),
        }
    }

    #[rstest]
    #[case::all(&[true, true], 1.0, true)]
    #[case::some(&[true, false, false, true], 0.5, true)]
    #[case::few(&[true, false, false], 1.0 / 3.0, false)]
    #[case::none(&[false], 0.0, false)]
    #[case::empty(&[], 1.0, true)]
    fn a_share_counts_the_items_with_yes(
        #[case] verdicts: &[bool],
        #[case] score: f64,
        #[case] holds: bool,
    ) {
        let decided = items(verdicts).share(1.0, None);
        assert!((decided.score - score).abs() < 1e-12);
        assert_eq!(
            (decided.holds, decided.verdicts.as_slice()),
            (holds, verdicts)
        );
    }

    /// The example of the Ragas documentation: a useful part after a useless one has a precision of
    /// 1/2.
    #[rstest]
    #[case(&[false, true], 0.5)]
    #[case(&[true, false], 1.0)]
    #[case(&[true, false, true], (1.0 + 2.0 / 3.0) / 2.0)]
    #[case(&[false, false], 0.0)]
    #[case(&[], 0.0)]
    fn average_precision_rewards_useful_parts_that_come_first(
        #[case] verdicts: &[bool],
        #[case] score: f64,
    ) {
        assert!((items(verdicts).average_precision(None).score - score).abs() < 1e-12);
    }

    #[rstest]
    #[case(Better::First, Better::Second, 1.0, "win", true)]
    #[case(Better::Second, Better::First, 0.0, "loss", false)]
    #[case(Better::Tie, Better::Tie, 0.5, "tie", true)]
    #[case::position_bias(Better::First, Better::First, 0.5, "disagreement", true)]
    #[case(Better::First, Better::Tie, 0.5, "disagreement", true)]
    #[case(Better::Tie, Better::First, 0.5, "disagreement", true)]
    fn only_a_win_in_both_orders_counts_as_one(
        #[case] first: Better,
        #[case] second: Better,
        #[case] score: f64,
        #[case] label: &str,
        #[case] holds: bool,
    ) {
        let said = |better| (better, "r".to_owned());
        let decided = preference(said(first), said(second), None);
        assert!((decided.score - score).abs() < 1e-12);
        assert_eq!(decided.label.as_deref(), Some(label));
        assert_eq!(decided.holds, holds);
        let better = preference(said(first), said(second), Some(1.0));
        assert_eq!(better.holds, score > 0.9);
    }

    #[rstest]
    #[case::all(None, &[true, true], 1.0, true)]
    #[case::the_weightless_one_need_not_be_met(None, &[true, false], 1.0, true)]
    #[case::unmet(None, &[false, true], 0.0, false)]
    #[case::enough(Some(0.0), &[false, false], 0.0, true)]
    fn a_rubric_is_the_weighted_share_of_met_criteria(
        #[case] min: Option<f64>,
        #[case] met: &[bool],
        #[case] score: f64,
        #[case] holds: bool,
    ) {
        let criterion = |weight: f64| Criterion {
            criterion: "c".to_owned(),
            weight,
        };
        let criteria = vec![criterion(2.0), criterion(0.0)];
        let verdict = |met: &bool| CriterionVerdict {
            met: *met,
            reason: String::new(),
        };
        let verdicts: Vec<_> = met.iter().map(verdict).collect();
        let asked = Rubric {
            criteria,
            min,
            graded: false,
        };
        let decided = rubric(&asked, &verdicts);
        assert!((decided.score - score).abs() < 1e-12);
        assert_eq!(decided.holds, holds);
    }

    proptest! {
        #[test]
        fn scores_are_from_0_to_1_and_a_further_yes_never_lowers_the_share(
            verdicts in prop::collection::vec(any::<bool>(), 1..30), at in any::<prop::sample::Index>(),
        ) {
            let mut more = verdicts.clone();
            more[at.index(verdicts.len())] = true;
            let (before, after) = (items(&verdicts), items(&more));
            prop_assert!(after.share(0.0, None).score >= before.share(0.0, None).score);
            for decided in [before.share(0.0, None), before.average_precision(None)] {
                prop_assert!((0.0..=1.0).contains(&decided.score));
            }
        }
    }
}
