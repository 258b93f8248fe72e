//! JUnit XML for CI: every task is a test case.
//!
//! A task failed by the agent is a failure; an unjudged task is an error. Contains no task content,
//! like the report.

use std::time::Duration;

use quick_junit::{
    NonSuccessKind, Property, Report, SerializeError, TestCase, TestCaseStatus, TestSuite,
};

use crate::render::words::{UNSIGNED, cost, estimated, known_cost, reason_of, rows, verdict};
use crate::rules::eval::report::{EvalReport, RunTotals, TaskOutcome, Verdict};
use touchstone_host::render::words::UNKNOWN_COST;

/// Renders the report as JUnit XML.
///
/// # Errors
/// Writing XML to memory failed, which does not happen.
pub fn junit(report: &EvalReport) -> Result<String, SerializeError> {
    let mut suite_name = format!("{}@{}", report.suite.suite_id, report.suite.version);
    let class = format!("{}@{}", report.agent.agent_id, report.agent.version);
    if !report.suite.signed {
        // CI tools show names, but rarely properties.
        suite_name.push_str(" (UNSIGNED)");
    }
    let mut suite = TestSuite::new(suite_name);
    let totals = report.totals();
    let remarks = remarks(&totals);
    if !remarks.is_empty() {
        suite.set_system_out(remarks.join("\n"));
    }
    for (name, value) in properties(&totals) {
        suite.add_property(Property::new(name, value));
    }
    let mut all_passed = true;
    for (numbers, task) in rows(report) {
        let kind = match task.outcome {
            TaskOutcome::Passed => None,
            TaskOutcome::Failed => Some((NonSuccessKind::Failure, "failed")),
            TaskOutcome::Unjudged => Some((NonSuccessKind::Error, "unjudged")),
        };
        all_passed &= kind.is_none();
        let mut case = TestCase::new(
            task.task_id.as_str(),
            status(kind, &reason_of(numbers, task)),
        );
        case.set_classname(class.as_str());
        if let Some(ms) = numbers.latency_ms {
            case.set_time(Duration::from_millis(ms));
        }
        suite.add_test_case(case);
    }
    // A run can fail although every task passed: too slow, too expensive, incomplete. CI must show
    // that.
    if all_passed && matches!(report.verdict, Verdict::Fail | Verdict::Inconclusive) {
        let kind = match report.verdict {
            Verdict::Fail => (NonSuccessKind::Failure, "failed"),
            _ => (NonSuccessKind::Error, "inconclusive"),
        };
        let mut case = TestCase::new("verdict", status(Some(kind), &report.reasons.join("; ")));
        case.set_classname(class.as_str());
        suite.add_test_case(case);
    }
    let mut document = Report::new("touchstone");
    if let Some(ms) = report.duration_ms {
        suite.set_time(Duration::from_millis(ms));
        document.set_time(Duration::from_millis(ms));
    }
    document.add_test_suite(suite);
    document.to_string()
}

fn status(kind: Option<(NonSuccessKind, &str)>, message: &str) -> TestCaseStatus {
    let Some((kind, name)) = kind else {
        return TestCaseStatus::success();
    };
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(name).set_message(message);
    status
}

/// Facts that a reader must know besides the outcomes.
fn remarks(report: &RunTotals) -> Vec<String> {
    let mut remarks = Vec::new();
    if !report.suite.signed {
        remarks.push(UNSIGNED.to_owned());
    }
    remarks.extend(report.notes.iter().map(|note| format!("note: {note}")));
    if estimated(report) > 0 {
        remarks.push(format!("cost: {}", cost(report)));
    }
    remarks
}

fn properties(report: &RunTotals) -> Vec<(&'static str, String)> {
    let mut properties = vec![
        ("runId", report.run_id.to_string()),
        ("verdict", verdict(report.verdict).to_owned()),
        ("suiteDigest", report.suite.digest.clone()),
        ("suiteSigned", report.suite.signed.to_string()),
        ("packIntegrity", report.agent.pack_integrity.clone()),
    ];
    if let Some(score) = report.score() {
        properties.insert(2, ("aggregateScore", score.to_string()));
    }
    if let Some(scoring) = &report.suite.scoring_digest {
        properties.push(("scoringDigest", scoring.clone()));
    }
    if let Some(model) = &report.agent.model {
        properties.push(("model", model.clone()));
    }
    properties.push(match known_cost(report) {
        Some(cost) => ("costUsd", cost.usd().to_string()),
        None => ("cost", UNKNOWN_COST.to_owned()),
    });
    if estimated(report) > 0 {
        properties.push(("costEstimatedTasks", estimated(report).to_string()));
    }
    if !report.ignore.is_empty() {
        properties.push(("ignore", report.ignore.join(" ")));
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn failed_and_unjudged_are_told_apart() {
        insta::assert_snapshot!(junit(&sample::mixed()).unwrap());
    }

    #[test]
    fn an_unsigned_suite_shows_in_its_name() {
        let mut report = sample::baseline();
        assert!(!junit(&report).unwrap().contains("UNSIGNED"));
        report.suite.signed = false;
        let xml = junit(&report).unwrap();
        assert!(
            xml.contains(r#"<testsuite name="vendor.acme.evals.triage@2.0.0 (UNSIGNED)""#),
            "{xml}"
        );
        assert!(xml.contains("<system-out>UNSIGNED: "), "{xml}");
    }

    #[test]
    fn a_missed_threshold_fails_the_junit_report_even_if_all_tasks_passed() {
        let mut report = sample::large();
        report
            .tasks
            .retain(|task| task.outcome == TaskOutcome::Passed);
        report.summary.tasks.retain(|task| task.passed);
        report.reasons = vec!["p95 latency 900 ms is above maxP95LatencyMs 800".to_owned()];
        report.verdict = Verdict::Fail;
        let xml = junit(&report).unwrap();
        assert!(xml.contains(r#"failures="1""#), "{xml}");
        assert!(xml.contains("p95 latency 900 ms"), "{xml}");
    }
}
