//! Tool proficiency: calls that work, errors that are recovered from, calls that were of use.

use std::collections::{BTreeMap, HashSet};

use crate::domain::aaaf::evidence::{CompletionStatus, Data};
use crate::domain::aaaf::mean::{self, clamped};
use crate::domain::aaaf::measure::{Details, Measure};
use crate::domain::aaaf::selection::Selected;

/// Counts of calls that weigh the same, so that they stay whole numbers as long as possible.
#[derive(Default)]
struct Calls {
    invocations: u64,
    successes: u64,
    unnecessary: u64,
    recovered: u64,
}

/// Of one tool, by the bits of their weight.
type ByWeight = BTreeMap<u64, Calls>;

/// Counts of all tools, and what they are of.
#[derive(Default)]
struct Counted<'a> {
    tools: BTreeMap<&'a str, ByWeight>,
    /// Tools that are told of in a task.
    told: HashSet<(&'a str, &'a str)>,
    evidence: usize,
}

/// What the agent itself tells, `activity`, counts where `events`, which others recorded, say nothing of a tool in a task.
pub fn measure(events: &[Selected<'_>], activity: &[Selected<'_>]) -> Measure {
    let mut counted = Counted::default();
    counted.add(events);
    counted.add(activity);
    let Counted {
        tools, evidence, ..
    } = counted;
    let per_tool: BTreeMap<String, f64> = tools
        .iter()
        .filter_map(|(tool, by_weight)| Some(((*tool).to_owned(), proficiency(by_weight)?)))
        .collect();
    let Some(score) = mean::plain(per_tool.values().copied()) else {
        return Measure::unassessed("no tool was used");
    };
    Measure::assessed(score, per_tool.len(), evidence).with(Details::Tools {
        tools_assessed: per_tool.len(),
        per_tool,
    })
}

impl<'a> Counted<'a> {
    /// Adds what events say of tools that nothing was told of in their tasks before. Calls that are told one by one replace
    /// their sum.
    fn add(&mut self, events: &[Selected<'a>]) {
        let mut one_by_one = HashSet::new();
        for it in events {
            let Data::ToolInvoked(call) = &it.event.data else {
                continue;
            };
            let place = (it.event.task_id.as_str(), call.tool.as_str());
            if self.told.contains(&place) {
                continue;
            }
            one_by_one.insert(place);
            let calls = self.calls(place.1, it.weight);
            calls.invocations += 1;
            calls.successes += u64::from(call.success);
            calls.unnecessary += u64::from(call.unnecessary);
            calls.recovered += u64::from(!call.success && call.error_recovered == Some(true));
        }
        let mut summed = HashSet::new();
        for it in events {
            let Data::TaskCompleted(done) = &it.event.data else {
                continue;
            };
            if done.completion_status == CompletionStatus::Cancelled {
                continue;
            }
            for used in &done.tools_used {
                let place = (it.event.task_id.as_str(), used.tool.as_str());
                let known = self.told.contains(&place) || one_by_one.contains(&place);
                if known || used.invocations.get() == 0 {
                    continue;
                }
                summed.insert(place);
                let calls = self.calls(place.1, it.weight);
                calls.invocations += u64::from(used.invocations.get());
                calls.successes += u64::from(used.successes.get());
                calls.unnecessary += u64::from(used.unnecessary.get());
                calls.recovered += u64::from(used.errors_recovered.get());
            }
        }
        self.told.extend(one_by_one);
        self.told.extend(summed);
    }

    fn calls(&mut self, tool: &'a str, weight: f64) -> &mut Calls {
        self.evidence += 1;
        let by_weight = self.tools.entry(tool).or_default();
        by_weight.entry(weight.to_bits()).or_default()
    }
}

/// `None` where nothing weighs anything.
fn proficiency(by_weight: &ByWeight) -> Option<f64> {
    let sum = |part: fn(&Calls) -> u64| -> f64 {
        let parts = by_weight.iter();
        // Calls of tools are far below 2^52.
        parts
            .map(|(weight, calls)| f64::from_bits(*weight) * part(calls) as f64)
            .sum()
    };
    let invocations = sum(|it| it.invocations);
    let errors = sum(|it| it.invocations.saturating_sub(it.successes));
    if invocations <= 0.0 {
        return None;
    }
    // Without an error there was nothing to recover from.
    let recovery = if errors > 0.0 {
        clamped(sum(|it| it.recovered) / errors)
    } else {
        1.0
    };
    let success = sum(|it| it.successes) / invocations;
    let of_use = 1.0 - sum(|it| it.unnecessary) / invocations;
    Some(0.5 * success + 0.3 * recovery + 0.2 * of_use)
}
