//! The conditions of the default gate policy, met and unmet.

use jiff::Timestamp;

use crate::rules::eval::gate::{Candidate, Condition, GatePolicy, Unmet, unmet_by_run};
use crate::rules::eval::report::RunTotals;
use crate::rules::eval::statistics::{Statistics, TaskFigures};
use touchstone_host::render::words::plain;
use touchstone_kit::statistics::GateVerdict;

pub struct ConditionRow {
    pub is_met: bool,
    pub name: &'static str,
    /// Why it is not met.
    pub message: String,
}

/// The conditions that concern a run itself, in reading order. Which channel the agent goes to and
/// whether its pack is installed is known only to the gate.
const SHOWN: [(Condition, &str); 14] = [
    (
        Condition::Conclusive,
        "The run has ended, and every task was judged",
    ),
    (Condition::Passed, "The thresholds of the suite are met"),
    (
        Condition::Confidence,
        "The score is statistically significant",
    ),
    (Condition::Safety, "There is no critical safety finding"),
    (Condition::MinTasks, "There are enough tasks"),
    (Condition::WholeSuite, "The whole suite was run"),
    (
        Condition::SignedSuite,
        "A trusted signature covers the suite",
    ),
    (
        Condition::Fixtures,
        "Every tool call had a response in the suite",
    ),
    (Condition::JudgeCalibrated, "The judge agrees with people"),
    (Condition::NoIgnore, "No part of the answers was ignored"),
    (Condition::WholeRun, "The tasks were executed together"),
    (Condition::NoReplay, "A model answered, not a recording"),
    (
        Condition::NoAgentCommand,
        "The agent answered, not a local command in its place",
    ),
    (Condition::NotVoided, "The run was not declared void"),
];

pub fn conditions(
    report: &RunTotals,
    figures: &TaskFigures,
    statistics: &Statistics,
    now: Timestamp,
) -> Vec<ConditionRow> {
    let candidate = Candidate {
        agent_id: report.agent.agent_id.as_str(),
        version: &report.agent.version,
        pack_integrity: &report.agent.pack_integrity,
    };
    let policy = GatePolicy::default();
    let mut found = unmet_by_run(&policy, candidate, report, figures, now);
    // The host counts every attempt of the same agent, and not only this run.
    if statistics.gate.verdict != GateVerdict::Pass {
        found.push(Unmet {
            condition: Condition::Confidence,
            message: match statistics.gate.reasons.as_slice() {
                [] => format!(
                    "the score is significantly below {:.2}",
                    statistics.gate.threshold
                ),
                reasons => reasons.join("; "),
            },
        });
    }
    if statistics.gate.attempts.voided.contains(&report.run_id) {
        found.push(Unmet {
            condition: Condition::NotVoided,
            message: "the run was declared void".to_owned(),
        });
    }
    let row = |(condition, name): (Condition, &'static str)| {
        let of_this = found.iter().filter(|it| it.condition == condition);
        let all: Vec<&str> = of_this.map(|it| it.message.as_str()).collect();
        ConditionRow {
            is_met: all.is_empty(),
            name,
            message: plain(&all.join("; ")),
        }
    };
    let concerns_run = |(condition, _): &(Condition, _)| {
        *condition != Condition::JudgeCalibrated || report.judge.is_some()
    };
    SHOWN.into_iter().filter(concerns_run).map(row).collect()
}
