//! Orchestration: plans of several agents, how clear they are, and how they survive failures.

use std::collections::BTreeMap;

use super::of_parts;
use super::plan::{Shape, shape};
use crate::domain::aaaf::config::Rules;
use crate::domain::aaaf::evidence::{Data, OrchestrationPlan, OrchestrationResult, Outcome};
use crate::domain::aaaf::mean::{self, clamped};
use crate::domain::aaaf::measure::{Details, Measure};
use crate::domain::aaaf::selection::Selected;

pub fn measure(events: &[Selected<'_>], rules: &Rules) -> Measure {
    // The last of each task.
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
    if results.is_empty() {
        return Measure::unassessed("no orchestration has a result");
    }
    let mut evidence = 0;
    let mut parts: [Vec<(f64, f64)>; 4] = Default::default();
    for (task, (result, weight)) in &results {
        let plan = plans.get(task).copied();
        evidence += 1 + usize::from(plan.is_some());
        let found = [
            design(result, plan),
            clarity(result, plan),
            recovery(result),
            synthesis(result),
        ];
        for (part, found) in parts.iter_mut().zip(found) {
            part.extend(found.map(|score| (score, *weight)));
        }
    }
    let [design, clarity, recovery, synthesis] = parts.map(mean::weighted);
    let quarters = [design, clarity, recovery, synthesis].map(|part| (0.25, part));
    let none = "too few of design, clarity, recovery and synthesis are known";
    Measure::found(of_parts(&quarters, rules), results.len(), evidence, none).with(
        Details::Orchestration {
            scenarios_assessed: results.len(),
            workflow_design: design,
            communication_clarity: clarity,
            failure_handling: recovery,
            synthesis_quality: synthesis,
        },
    )
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

/// `None` where no failure was injected.
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
