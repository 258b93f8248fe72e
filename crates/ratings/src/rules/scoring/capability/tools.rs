//! Tool proficiency: calls that succeed, errors that are recovered from, and calls that are useful.

use std::collections::{BTreeMap, HashSet};

use crate::rules::evidence::{CompletionStatus, Data};
use crate::rules::scoring::mean::{self, clamped};
use crate::rules::scoring::measure::{Details, Measure};
use crate::rules::scoring::selection::Selected;

/// Counts of calls with the same weight, so that they stay integers as long as possible.
#[derive(Default)]
struct Calls {
    invocations: u64,
    successes: u64,
    unnecessary: u64,
    recovered: u64,
}

/// Calls of one tool, by the bits of their weight.
type ByWeight = BTreeMap<u64, Calls>;

/// Calls of tools, collected task by task.
#[derive(Default)]
pub struct ToolCalls {
    tools: BTreeMap<String, ByWeight>,
    evidence: usize,
}

/// Pairs of a task and a tool that is reported in it.
type ReportedCalls<'a> = HashSet<(&'a str, &'a str)>;

impl ToolCalls {
    /// Adds all events of some tasks. `activity`, which the agent itself recorded, counts only for
    /// tools of a task that `events`, which others recorded, do not mention.
    pub fn add(&mut self, events: &[Selected<'_>], activity: &[Selected<'_>]) {
        let reported = self.count(events, &ReportedCalls::new());
        self.count(activity, &reported);
    }

    /// Counts calls from events, for tools without an earlier report in the same task, and returns
    /// the reported pairs. Single calls replace a total.
    fn count<'a>(
        &mut self,
        events: &[Selected<'a>],
        before: &ReportedCalls<'_>,
    ) -> ReportedCalls<'a> {
        let mut one_by_one = ReportedCalls::new();
        for it in events {
            let Data::ToolInvoked(call) = &it.event.data else {
                continue;
            };
            let place = (it.event.task_id.as_str(), call.tool.as_str());
            if before.contains(&place) {
                continue;
            }
            one_by_one.insert(place);
            let calls = self.calls(place.1, it.weight);
            calls.invocations += 1;
            calls.successes += u64::from(call.success);
            calls.unnecessary += u64::from(call.unnecessary);
            calls.recovered += u64::from(!call.success && call.error_recovered == Some(true));
        }
        let mut summed = ReportedCalls::new();
        for it in events {
            let Data::TaskCompleted(done) = &it.event.data else {
                continue;
            };
            if done.completion_status == CompletionStatus::Cancelled {
                continue;
            }
            for used in &done.tools_used {
                let place = (it.event.task_id.as_str(), used.tool.as_str());
                let known = before.contains(&place) || one_by_one.contains(&place);
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
        one_by_one.extend(summed);
        one_by_one
    }

    fn calls(&mut self, tool: &str, weight: f64) -> &mut Calls {
        self.evidence += 1;
        let by_weight = self.tools.entry(tool.to_owned()).or_default();
        by_weight.entry(weight.to_bits()).or_default()
    }

    pub fn measure(&self) -> Measure {
        let per_tool: BTreeMap<String, f64> = self
            .tools
            .iter()
            .filter_map(|(tool, by_weight)| Some((tool.clone(), proficiency(by_weight)?)))
            .collect();
        let Some(score) = mean::plain(per_tool.values().copied()) else {
            return Measure::unassessed("no tool was used");
        };
        Measure::assessed(score, per_tool.len(), self.evidence).with(Details::Tools {
            tools_assessed: per_tool.len(),
            per_tool,
        })
    }
}

/// `None` if the total weight is zero.
fn proficiency(by_weight: &ByWeight) -> Option<f64> {
    let sum = |part: fn(&Calls) -> u64| -> f64 {
        let parts = by_weight.iter();
        // Numbers of tool calls are far below 2^52.
        parts
            .map(|(weight, calls)| f64::from_bits(*weight) * part(calls) as f64)
            .sum()
    };
    let invocations = sum(|it| it.invocations);
    let errors = sum(|it| it.invocations.saturating_sub(it.successes));
    if invocations <= 0.0 {
        return None;
    }
    // Without errors, there was nothing to recover from.
    let recovery = if errors > 0.0 {
        clamped(sum(|it| it.recovered) / errors)
    } else {
        1.0
    };
    let success = sum(|it| it.successes) / invocations;
    let of_use = 1.0 - sum(|it| it.unnecessary) / invocations;
    Some(0.5 * success + 0.3 * recovery + 0.2 * of_use)
}
