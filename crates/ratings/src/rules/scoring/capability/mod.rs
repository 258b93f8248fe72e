//! Capability (AAAF capability): seven dimensions over task records and events.

mod breadth;
mod delegation;
mod ladder;
mod learning;
mod orchestration;
mod plan;
mod tools;

use crate::rules::config::{Config, Rules};
use crate::rules::scoring::dimension::Dimension;
use crate::rules::scoring::mean;
use crate::rules::scoring::measure::Measure;
use crate::rules::scoring::selection::Selection;
use crate::rules::scoring::task::TaskRecord;

/// Measures that are based on events rather than on task records.
#[derive(Default)]
pub struct Traces {
    tools: tools::ToolCalls,
    delegations: delegation::Delegations,
    orchestrations: orchestration::Orchestrations,
}

impl Traces {
    /// Adds all events of some tasks.
    pub fn add(&mut self, selection: &Selection<'_>, rules: &Rules) {
        self.tools.add(&selection.events, &selection.activity);
        self.delegations.add(&selection.events, rules);
        self.orchestrations.add(&selection.events);
    }
}

/// All seven dimensions, in order.
pub fn measure(
    tasks: &[&TaskRecord],
    events: &Traces,
    config: &Config,
) -> Vec<(Dimension, Measure)> {
    let rules = &config.rules;
    vec![
        (Dimension::DomainBreadth, breadth::measure(tasks, config)),
        (
            Dimension::ComplexityCeiling,
            ladder::complexity(tasks, rules),
        ),
        (Dimension::ToolProficiency, events.tools.measure()),
        (Dimension::AutonomyLevel, ladder::autonomy(tasks, rules)),
        (Dimension::LearningRate, learning::measure(tasks, config)),
        (
            Dimension::DelegationCapability,
            events.delegations.measure(rules),
        ),
        (
            Dimension::OrchestrationSkills,
            events.orchestrations.measure(rules),
        ),
    ]
}

/// Whether there are enough tasks for a measure: one active task, or a few passive ones.
fn enough(tasks: &[&TaskRecord], rules: &Rules) -> bool {
    tasks.iter().any(|task| task.active) || tasks.len() >= rules.min_evidence_samples
}

/// The weighted mean of the available parts; `None` if their share of the whole is too small.
fn of_parts(parts: &[(f64, Option<f64>)], rules: &Rules) -> Option<f64> {
    let there = parts.iter().filter(|(_, part)| part.is_some());
    let share: f64 = there.map(|(share, _)| share).sum();
    let score = mean::weighted(
        parts
            .iter()
            .filter_map(|(share, part)| Some(((*part)?, *share))),
    );
    score.filter(|_| mean::meets(share, rules.min_subscore_weight))
}
