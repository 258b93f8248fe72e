//! Delegation: whether to delegate, to whom, and with which outcome.

use std::collections::HashSet;

use super::of_parts;
use crate::rules::config::Rules;
use crate::rules::evidence::{CompletionStatus, Data, Decision, DelegationDecision, Outcome};
use crate::rules::scoring::mean::{self, clamped};
use crate::rules::scoring::measure::{Details, Measure};
use crate::rules::scoring::selection::Selected;

/// Value and weight of decisions and their outcomes, collected task by task.
#[derive(Default)]
pub struct Delegations {
    judged: Vec<(f64, f64)>,
    selected: Vec<(f64, f64)>,
    managed: Vec<(f64, f64)>,
}

impl Delegations {
    /// Adds all events of some tasks.
    pub fn add(&mut self, events: &[Selected<'_>], rules: &Rules) {
        for (decision, weight) in decisions(events) {
            let right = match decision.ground_truth {
                Some(truth) => truth == decision.decision,
                None => match decision.correct {
                    Some(correct) => correct,
                    // The right decision is unknown.
                    None => continue,
                },
            };
            self.judged.push((f64::from(u8::from(right)), weight));
            if right
                && decision.decision == Decision::Delegate
                && let Some(score) = selection(decision, rules)
            {
                self.selected.push((score, weight));
            }
        }
        self.managed
            .extend(events.iter().filter_map(|it| match &it.event.data {
                Data::DelegationOutcome(found) => {
                    let share = if found.revision_needed { 0.5 } else { 1.0 };
                    Some((share * outcome_score(found.outcome), it.weight))
                }
                _ => None,
            }));
    }

    pub fn measure(&self, rules: &Rules) -> Measure {
        let (decided, outcomes) = (self.judged.len(), self.managed.len());
        let mean = |of: &[(f64, f64)]| mean::weighted(of.iter().copied());
        let judgment = mean(&self.judged);
        let selection = mean(&self.selected);
        let management = mean(&self.managed);
        // Without judgment, selection and outcomes have nothing to refer to.
        let score = judgment.and_then(|_| {
            of_parts(
                &[(0.4, judgment), (0.3, selection), (0.3, management)],
                rules,
            )
        });
        let none = "too few decisions with ground truth, selections and outcomes";
        Measure::found(score, decided, decided + outcomes, none).with(Details::Delegation {
            decisions_assessed: decided,
            judgment_score: judgment,
            selection_score: selection,
            management_score: management,
        })
    }
}

/// One decision for each part of a task: from events first, then from completions.
fn decisions<'a>(events: &[Selected<'a>]) -> Vec<(&'a DelegationDecision, f64)> {
    let mut known: HashSet<(&str, &str)> = HashSet::new();
    let mut found = Vec::new();
    let mut add = |task: &'a str, decision: &'a DelegationDecision, weight: f64| {
        let part = (task, decision.task_fragment.as_str());
        if known.insert(part) {
            found.push((decision, weight));
        }
    };
    for it in events {
        if let Data::DelegationDecision(decision) = &it.event.data {
            add(&it.event.task_id, decision, it.weight);
        }
    }
    for it in events {
        if let Data::TaskCompleted(done) = &it.event.data
            && done.completion_status != CompletionStatus::Cancelled
        {
            for decision in &done.delegation_decisions {
                add(&it.event.task_id, decision, it.weight);
            }
        }
    }
    found
}

/// How good the choice was; `None` if the best choice is unknown.
fn selection(decision: &DelegationDecision, rules: &Rules) -> Option<f64> {
    if let Some(score) = decision.selection_score {
        return Some(clamped(score));
    }
    let by_domain = || rules.capability_matrix.get(decision.domain.as_ref()?);
    let good = decision.optimal_delegates.as_ref().or_else(by_domain)?;
    let chosen = decision.delegate_to.as_ref();
    Some(f64::from(u8::from(
        chosen.is_some_and(|it| good.contains(it)),
    )))
}

const fn outcome_score(outcome: Outcome) -> f64 {
    match outcome {
        Outcome::Success => 1.0,
        Outcome::Partial => 0.5,
        Outcome::Failure => 0.0,
    }
}
