//! Selects the events that count for an assessment (AAAF selection), in order and with their
//! weights.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use crate::rules::assessment::{Assessment, Kind};
use crate::rules::config::Rules;
use crate::rules::evidence::{Data, Event, TaskAssigned};

#[derive(Clone, Copy)]
pub struct Selected<'a> {
    pub event: &'a Event,
    /// Whether the assessment's own stress test produced the event.
    pub active: bool,
    /// Its weight by age.
    pub weight: f64,
}

/// The evidence of an assessment.
pub struct Selection<'a> {
    /// Events that count, by time, then arrival.
    pub events: Vec<Selected<'a>>,
    /// Events recorded by the agent itself about tasks that others confirm, by time. Only their
    /// tool calls count.
    pub activity: Vec<Selected<'a>>,
    /// The earliest assignment of each task, including those before the window. The assigner's
    /// statements take precedence over the agent's.
    pub assignments: BTreeMap<&'a str, (&'a Event, &'a TaskAssigned)>,
    pub window_end: Timestamp,
}

impl<'a> Selection<'a> {
    pub fn of(
        events: impl Iterator<Item = &'a Event>,
        assessment: &Assessment,
        rules: &Rules,
    ) -> Self {
        let window_end = assessment.window_end;
        let mut seen = HashSet::new();
        let (mut selected, mut activity, mut background) = (Vec::new(), Vec::new(), Vec::new());
        for event in events {
            if event.id.as_deref().is_some_and(|id| !seen.insert(id)) {
                continue;
            }
            let active = match &event.assessment_id {
                None => false,
                owner if *owner == assessment.id => true,
                // The event belongs to another assessment's stress test.
                Some(_) => continue,
            };
            let own = event.is_activity_only();
            if !own && !active && event.timestamp < window_end {
                background.push(event);
            }
            let counts = match assessment.kind {
                Kind::PassiveOnly if active => false,
                Kind::StressTestOnly => active,
                _ => active || (assessment.window_start..window_end).contains(&event.timestamp),
            };
            if counts {
                let weight = if active {
                    1.0
                } else {
                    rules.recency_weights.weight(event.timestamp, window_end)
                };
                let counted = if own { &mut activity } else { &mut selected };
                counted.push(Selected {
                    event,
                    active,
                    weight,
                });
            }
        }
        // The sort is stable: events with the same time stay in order of arrival.
        selected.sort_by_key(|it| it.event.timestamp);
        background.sort_by_key(|it| it.timestamp);
        let active = selected.iter().filter(|it| it.active).map(|it| it.event);
        let mut assignments = BTreeMap::new();
        for event in background.into_iter().chain(active) {
            if let Data::TaskAssigned(assigned) = &event.data {
                let task = event.task_id.as_str();
                assignments
                    .entry(task)
                    .or_insert((event, assigned.as_ref()));
            }
        }
        let vouched: BTreeSet<&str> = selected
            .iter()
            .map(|it| it.event.task_id.as_str())
            .collect();
        activity.retain(|it| vouched.contains(it.event.task_id.as_str()));
        activity.sort_by_key(|it| it.event.timestamp);
        Self {
            events: selected,
            activity,
            assignments,
            window_end,
        }
    }
}
