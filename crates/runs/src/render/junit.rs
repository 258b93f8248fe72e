//! JUnit XML for CI: every task is a test case.
//!
//! A task failed by the agent is a failure; an unjudged task is an error. Contains no task content,
//! like the report.

use std::io;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use crate::render::document::{Next, Out, RunDocument, TaskRow};
use crate::render::words::{UNSIGNED, cost, counts, estimated, known_cost, reason_of, verdict};
use crate::rules::eval::report::{RunTotals, TaskOutcome, Verdict};
use touchstone_host::render::words::UNKNOWN_COST;

/// The report of a run as JUnit XML.
#[derive(Debug)]
pub struct Junit {
    totals: RunTotals,
    class: String,
    /// What follows the test cases.
    end: String,
}

impl Junit {
    pub fn new(totals: &RunTotals) -> Self {
        let class = format!("{}@{}", totals.agent.agent_id, totals.agent.version);
        Self {
            totals: totals.clone(),
            class,
            end: String::new(),
        }
    }

    fn case(&self, name: &str, status: TestCaseStatus) -> TestCase {
        let mut case = TestCase::new(name, status);
        case.set_classname(self.class.as_str());
        case
    }

    fn case_of(&self, (numbers, task): &TaskRow) -> TestCase {
        let kind = match task.outcome {
            TaskOutcome::Passed => None,
            TaskOutcome::Failed => Some((NonSuccessKind::Failure, "failed")),
            TaskOutcome::Unjudged => Some((NonSuccessKind::Error, "unjudged")),
        };
        let status = status(kind, &reason_of(numbers, task));
        let mut case = self.case(task.task_id.as_str(), status);
        if let Some(ms) = numbers.latency_ms {
            case.set_time(Duration::from_millis(ms));
        }
        case
    }

    /// The test case for the verdict. A run can fail although every task passed: too slow, too
    /// expensive, incomplete. CI must show that.
    fn verdict_case(&self) -> Option<TestCase> {
        let counted = counts(&self.totals);
        if counted.passed < counted.all() {
            return None;
        }
        let kind = match self.totals.verdict {
            Verdict::Fail => (NonSuccessKind::Failure, "failed"),
            Verdict::Inconclusive => (NonSuccessKind::Error, "inconclusive"),
            Verdict::Pass | Verdict::Pending => return None,
        };
        let status = status(Some(kind), &self.totals.reasons.join("; "));
        Some(self.case("verdict", status))
    }

    /// The suite without its test cases.
    fn suite(&self) -> TestSuite {
        let totals = &self.totals;
        let mut suite_name = format!("{}@{}", totals.suite.suite_id, totals.suite.version);
        if !totals.suite.signed {
            // CI tools show names, but rarely properties.
            suite_name.push_str(" (UNSIGNED)");
        }
        let mut suite = TestSuite::new(suite_name);
        let remarks = remarks(totals);
        if !remarks.is_empty() {
            suite.set_system_out(remarks.join("\n"));
        }
        for (name, value) in properties(totals) {
            suite.add_property(Property::new(name, value));
        }
        suite
    }

    /// The text before, of and after these test cases, at least one.
    fn parts(&self, mut suite: TestSuite, cases: Vec<TestCase>) -> io::Result<[String; 3]> {
        suite.test_cases = cases;
        let mut document = Report::new("touchstone");
        if let Some(ms) = self.totals.duration_ms {
            suite.set_time(Duration::from_millis(ms));
            document.set_time(Duration::from_millis(ms));
        }
        document.add_test_suite(suite);
        let text = document.to_string().map_err(io::Error::other)?;
        // Text and attributes have no `<`, so these are tags. The indentation of the first one
        // belongs to it.
        let tag = text.find("<testcase").unwrap_or_default();
        let from = text.get(..tag).unwrap_or_default().trim_end().len();
        let end = text.rfind(CASE_END).map_or(tag, |at| at + CASE_END.len());
        let part = |from, to| text.get(from..to).unwrap_or_default().to_owned();
        Ok([part(0, from), part(from, end), part(end, text.len())])
    }
}

const CASE_END: &str = "</testcase>";

impl RunDocument for Junit {
    fn begin(&mut self, out: &mut Out<'_>) -> io::Result<()> {
        let mut suite = self.suite();
        let counted = counts(&self.totals);
        suite.tests = counted.all();
        suite.failures = counted.failed;
        suite.errors = counted.unjudged;
        if let Some(case) = self.verdict_case() {
            // Counts the case.
            suite.add_test_case(case);
        }
        let placeholder = self.case("", TestCaseStatus::success());
        let [before, _, after] = self.parts(suite, vec![placeholder])?;
        self.end = after;
        out.write_all(before.as_bytes())
    }

    fn add(&mut self, tasks: &[TaskRow], out: &mut Out<'_>) -> io::Result<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        let cases = tasks.iter().map(|row| self.case_of(row)).collect();
        let [_, cases, _] = self.parts(TestSuite::new(""), cases)?;
        out.write_all(cases.as_bytes())
    }

    fn end(&mut self, out: &mut Out<'_>) -> io::Result<Next> {
        if let Some(case) = self.verdict_case() {
            let [_, case, _] = self.parts(TestSuite::new(""), vec![case])?;
            out.write_all(case.as_bytes())?;
        }
        out.write_all(self.end.as_bytes())?;
        Ok(Next::Done)
    }
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
    use crate::render::document::written;
    use crate::render::sample;
    use crate::rules::eval::report::EvalReport;

    fn junit(report: &EvalReport) -> io::Result<String> {
        written(&mut Junit::new(&report.totals()), report)
    }

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
