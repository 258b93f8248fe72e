//! Assertions that are decided outside of this host. Their decisions are recorded facts; what they
//! mean for the score is computed here.

use super::{AssertionResult, EPSILON, Evaluator, Finding, NoResult, clipped, quoted};
use crate::rules::eval::scoring_document::checks::{CommandCheck, MIN_SIMILAR, Similarity};
use crate::rules::eval::scoring_document::judged::{
    ClosedQuestion, Factuality, MIN, PreferredToBaseline, Rubric,
};
use crate::rules::eval::scoring_document::{Assertion, Place};
use touchstone_openwop::events::{AssertionDecision, AssertionReason};

/// What the text of several decisions begins with: their result, before a line for each judge.
pub const JUDGES: &str = "judges: ";

/// Decisions from outside of this host about the assertions of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct External<'a> {
    /// Several for one assertion if several judges decided it.
    pub decisions: &'a [AssertionDecision],
    /// Empty where the content was deleted.
    pub reasons: &'a [AssertionReason],
    /// Whether the answer is compared with that of a baseline run. Otherwise, assertions about the
    /// comparison are left out.
    pub has_baseline: bool,
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

    pub(super) fn rubric(&self, it: &Rubric, place: Place<'_>) -> Result<Finding, NoResult> {
        let together = self.decided(place)?;
        let holds = match it.min {
            Some(min) => together.mean + EPSILON >= min,
            None => together.majority,
        };
        let expected = match (it.min, it.criteria.as_slice()) {
            (None, [only]) => only.criterion.clone(),
            (None, _) => "every criterion is met".to_owned(),
            (Some(min), _) => format!("a share of met criteria of at least {min}"),
        };
        let found = self.found(&together, |it| share(it, "criteria are met"));
        Ok(Finding {
            score: it.graded.then_some(together.mean),
            value: Some(together.mean),
            ..Finding::new(holds, expected, Some(found))
        })
    }

    pub(super) fn factuality(
        &self,
        it: &Factuality,
        place: Place<'_>,
    ) -> Result<Finding, NoResult> {
        let together = self.decided(place)?;
        let found = self.found(&together, |it| it.label.clone().unwrap_or_default());
        let expected = format!("the facts of: {}", clipped(&it.reference));
        Ok(Finding {
            value: Some(together.mean),
            ..Finding::new(together.majority, expected, Some(found))
        })
    }

    /// The recorded similarity decides, so a graded one has the same score again.
    pub(super) fn similar(&self, it: &Similarity, place: Place<'_>) -> Result<Finding, NoResult> {
        let similarity = self.decided(place)?.mean;
        let min = it.min.unwrap_or(MIN_SIMILAR);
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

    /// A share of decisions, as `what` says, that must reach a minimum.
    pub(super) fn measure(
        &self,
        what: &str,
        min: Option<f64>,
        graded: bool,
        place: Place<'_>,
    ) -> Result<Finding, NoResult> {
        let together = self.decided(place)?;
        let min = min.unwrap_or(MIN);
        let found = self.found(&together, |it| {
            format!("{:.3}, {}", it.score, share(it, what))
        });
        Ok(Finding {
            score: graded.then_some(together.mean),
            value: Some(together.mean),
            ..Finding::new(
                together.mean + EPSILON >= min,
                format!("at least {min}: {what}"),
                Some(found),
            )
        })
    }

    pub(super) fn preferred(
        &self,
        it: &PreferredToBaseline,
        place: Place<'_>,
    ) -> Result<Finding, NoResult> {
        let together = self.decided(place)?;
        let min = it.min.unwrap_or(MIN);
        let expected = match min > MIN {
            true => "better than the answer of the baseline",
            false => "not worse than the answer of the baseline",
        };
        let found = self.found(&together, |it| it.label.clone().unwrap_or_default());
        Ok(Finding {
            score: Some(together.mean),
            ..Finding::new(together.mean + EPSILON >= min, expected, Some(found))
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
                // A list has a line for each item.
                reason if reason.contains('\n') => format!("{said}:\n{reason}"),
                reason => format!("{said}: {reason}"),
            }
        });
        match together.decisions.len() {
            1 => lines.collect(),
            all => {
                let holding = together.decisions.iter().filter(|it| it.holds).count();
                let vote = format!("{JUDGES}{holding} of {all} say that it holds");
                let numbered = lines.enumerate();
                let numbered = numbered.map(|(n, line)| format!("judge {}: {line}", n + 1));
                let lines: Vec<String> = std::iter::once(vote).chain(numbered).collect();
                lines.join("\n")
            }
        }
    }
}

/// The result of an assertion that needs a baseline, in a run without one. It does not count.
pub(super) fn left_out(assertion: &Assertion) -> AssertionResult {
    AssertionResult {
        kind: assertion.check.name().to_owned(),
        holds: false,
        is_left_out: true,
        is_undecided: false,
        score: 0.0,
        value: 0.0,
        weight: 0.0,
        metric: None,
        expected: "a comparison with the answer of the baseline".to_owned(),
        found: Some("left out, because the run has no baseline".to_owned()),
        assertions: Vec::new(),
    }
}

/// The result of an assertion whose decision is missing.
pub(super) fn undecided(assertion: &Assertion) -> AssertionResult {
    AssertionResult {
        is_left_out: false,
        is_undecided: true,
        expected: "a decision".to_owned(),
        found: Some("not decided".to_owned()),
        ..left_out(assertion)
    }
}

/// How many of the single decisions say yes.
fn share(decision: &AssertionDecision, what: &str) -> String {
    let yes = decision.verdicts.iter().filter(|yes| **yes).count();
    format!("{yes} of {} {what}", decision.verdicts.len())
}
