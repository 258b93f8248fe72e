//! Orchestration: plans for several agents, how clear they are, and how they cope with failures.

use std::collections::BTreeMap;

use super::of_parts;
use super::plan::{Shape, shape};
use crate::rules::config::Rules;
use crate::rules::evidence::{Data, OrchestrationPlan, OrchestrationResult, Outcome};
use crate::rules::scoring::mean::{self, clamped};
use crate::rules::scoring::measure::{Details, Measure};
use crate::rules::scoring::selection::Selected;

/// Value and weight of the four parts of orchestrations with a result, collected task by task.
#[derive(Default)]
pub struct Orchestrations {
    parts: [Vec<(f64, f64)>; 4],
    results: usize,
    evidence: usize,
}

impl Orchestrations {
    /// Adds all events of some tasks.
    pub fn add(&mut self, events: &[Selected<'_>]) {
        // The last plan of each task.
        let mut plans: BTreeMap<&str, &OrchestrationPlan> = BTreeMap::new();
        let mut results: BTreeMap<&str, (&OrchestrationResult, f64)> = BTreeMap::new();
        for it in events {
            let task = it.event.task_id.as_str();
            match &it.event.data {
                Data::OrchestrationPlan(plan) => {
                    plans.insert(task, plan);
                }
                Data::OrchestrationResult(result) => {
                    results.insert(task, (result, it.weight));
                }
                _ => {}
            }
        }
        self.results += results.len();
        for (task, (result, weight)) in &results {
            let plan = plans.get(task).copied();
            self.evidence += 1 + usize::from(plan.is_some());
            let found = [
                design(result, plan),
                clarity(result, plan),
                recovery(result),
                synthesis(result),
            ];
            for (part, found) in self.parts.iter_mut().zip(found) {
                part.extend(found.map(|score| (score, *weight)));
            }
        }
    }

    pub fn measure(&self, rules: &Rules) -> Measure {
        if self.results == 0 {
            return Measure::unassessed("no orchestration has a result");
        }
        let means = self.parts.each_ref();
        let [design, clarity, recovery, synthesis] =
            means.map(|part| mean::weighted(part.iter().copied()));
        let quarters = [design, clarity, recovery, synthesis].map(|part| (0.25, part));
        let none = "too few of design, clarity, recovery and synthesis were measured";
        let score = of_parts(&quarters, rules);
        Measure::found(score, self.results, self.evidence, none).with(Details::Orchestration {
            scenarios_assessed: self.results,
            workflow_design: design,
            communication_clarity: clarity,
            failure_handling: recovery,
            synthesis_quality: synthesis,
        })
    }
}

fn design(result: &OrchestrationResult, plan: Option<&OrchestrationPlan>) -> Option<f64> {
    let shape = plan.map_or(Shape::Empty, shape);
    let graded = result
        .workflow_design_score
        .or(plan.and_then(|it| it.workflow_design_score));
    match (shape, graded) {
        (Shape::Impossible, _) => Some(0.0),
        (_, Some(score)) => Some(clamped(score)),
        (Shape::Sound(score), None) => Some(score),
        (Shape::Empty, None) => None,
    }
}

fn clarity(result: &OrchestrationResult, plan: Option<&OrchestrationPlan>) -> Option<f64> {
    let graded = result.communication_clarity_score;
    graded
        .or(plan.and_then(|it| it.communication_clarity_score))
        .map(clamped)
}

/// `None` if no failure was injected.
fn recovery(result: &OrchestrationResult) -> Option<f64> {
    let injected = f64::from(result.failures_injected.get());
    let recovered = f64::from(result.failures_recovered.get());
    (injected > 0.0).then(|| clamped(recovered / injected))
}

fn synthesis(result: &OrchestrationResult) -> Option<f64> {
    match result.synthesis_quality_score {
        Some(score) => Some(clamped(score)),
        None => (result.outcome == Outcome::Failure).then_some(0.0),
    }
}
