//! Assertions that are decided outside of this host. Their decisions are recorded facts; what they
//! mean for the score is computed here.

use super::{Evaluator, Finding, NoResult, quoted};
use crate::rules::eval::scoring::EPSILON;
use crate::rules::eval::scoring_document::Place;
use crate::rules::eval::scoring_document::checks::{CommandCheck, Similar};
use crate::rules::eval::scoring_document::judged::ClosedQuestion;
use touchstone_openwop::events::{AssertionDecision, AssertionReason};

/// What was decided outside of this host about the assertions of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct External<'a> {
    /// Several for one assertion if several judges decided it.
    pub decisions: &'a [AssertionDecision],
    /// Empty where the content was deleted.
    pub reasons: &'a [AssertionReason],
}

impl External<'_> {
    /// The reason for a decision; empty if there is none.
    fn reason(&self, decision: &AssertionDecision) -> &str {
        let mut reasons = self.reasons.iter();
        let of_decision = |it: &&AssertionReason| {
            it.assertion == decision.assertion && it.by == decision.by && !it.reason.is_empty()
        };
        reasons.find(of_decision).map_or("", |it| &it.reason)
    }
}

/// The decisions about one assertion, taken together.
pub(super) struct Together<'a> {
    decisions: Vec<&'a AssertionDecision>,
    /// The mean of the scores, 0.0..=1.0.
    pub mean: f64,
    /// Whether more than half of them say that it holds.
    pub majority: bool,
}

impl Evaluator<'_> {
    pub(super) fn closed_question(
        &self,
        it: &ClosedQuestion,
        place: Place<'_>,
    ) -> Result<Finding, NoResult> {
        let together = self.decided(place)?;
        let found = self.found(&together, |it| match it.holds {
            true => "yes".to_owned(),
            false => "no".to_owned(),
        });
        let expected = format!("yes to: {}", it.question);
        Ok(Finding {
            value: Some(together.mean),
            ..Finding::new(together.majority, expected, Some(found))
        })
    }

    /// The recorded similarity decides, so a graded one has the same score again.
    pub(super) fn similar(&self, it: &Similar, place: Place<'_>) -> Result<Finding, NoResult> {
        let similarity = self.decided(place)?.mean;
        let min = it.min.unwrap_or(Similar::MIN);
        let expected = match it.references().next() {
            Some(text) if it.any_of.is_none() => {
                format!("similarity at least {min} to {}", quoted(text))
            }
            _ => format!("similarity at least {min} to one of the texts"),
        };
        let found = format!("{similarity:.3}: {}", quoted(&self.text()?));
        Ok(Finding {
            score: it.graded.then_some(similarity),
            value: Some(similarity),
            ..Finding::new(similarity + EPSILON >= min, expected, Some(found))
        })
    }

    pub(super) fn command(&self, it: &CommandCheck, place: Place<'_>) -> Result<Finding, NoResult> {
        let together = self.decided(place)?;
        let found = self.found(&together, |it| match it.holds {
            true => format!("passed, score {}", it.score),
            false => format!("failed, score {}", it.score),
        });
        let expected = format!("the command's check {} passes", quoted(&it.name));
        Ok(Finding {
            score: it.graded.then_some(together.mean),
            value: Some(together.mean),
            ..Finding::new(together.majority, expected, Some(found))
        })
    }

    /// The decisions about the assertion at this place.
    #[expect(clippy::cast_precision_loss, reason = "judges are far below 2^53")]
    pub(super) fn decided(&self, place: Place<'_>) -> Result<Together<'_>, NoResult> {
        let place = place.to_string();
        let all = self.observed.external.decisions.iter();
        let decisions: Vec<_> = all.filter(|it| it.assertion == place).collect();
        if decisions.is_empty() {
            return Err(NoResult::Undecided);
        }
        let sum: f64 = decisions.iter().map(|it| it.score).sum();
        let holding = decisions.iter().filter(|it| it.holds).count();
        Ok(Together {
            mean: (sum / decisions.len() as f64).clamp(0.0, 1.0),
            majority: holding * 2 > decisions.len(),
            decisions,
        })
    }

    /// What each of them said, and why.
    pub(super) fn found(
        &self,
        together: &Together<'_>,
        said: impl Fn(&AssertionDecision) -> String,
    ) -> String {
        let lines = together.decisions.iter().map(|decision| {
            let said = said(decision);
            match self.observed.external.reason(decision) {
                "" => said,
                reason => format!("{said}: {reason}"),
            }
        });
        match together.decisions.len() {
            1 => lines.collect(),
            _ => {
                let numbered = lines.enumerate();
                let lines: Vec<String> = numbered
                    .map(|(n, line)| format!("judge {}: {line}", n + 1))
                    .collect();
                lines.join("; ")
            }
        }
    }
}
