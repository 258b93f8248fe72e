//! SARIF 2.1.0 for code scanning: safety findings, and tasks that did not pass.
//!
//! Contains no task content, like the report, unless the details of tasks are given.

use std::collections::HashMap;
use std::io;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::render::document::list::{JsonForm, JsonList};
use crate::render::document::{Next, Out, RunDocument, TaskRow};
use crate::render::words::{counts, reason_of, verdict};
use crate::rules::eval::report::{RunTotals, TaskOutcome, Verdict};
use crate::rules::eval::safety::kinds::{Kind, in_words};
use crate::rules::eval::task_details::TaskDetails;
use touchstone_kit::hex::hex;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::summary::Severity;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Maximum number of characters of an input or answer.
const MAX_CONTENT: usize = 2_000;

/// A file that defines tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    /// As a reader of the repository names it: relative to its root if possible.
    pub path: String,
    pub text: String,
}

impl TaskFile {
    /// The line that defines the task, from 1.
    fn line_of(&self, task: &TaskId) -> Option<usize> {
        let id = task.as_str();
        let key = format!("\"{id}\":");
        let position = |matches: &dyn Fn(&str) -> bool| self.text.lines().position(matches);
        let line = position(&|line| {
            let mut values = line.split("taskId").skip(1).map(first_word);
            values.any(|value| value == Some(id))
        })
        .or_else(|| position(&|line| line.replace(' ', "").contains(&key)))
        // A row of JSON.
        .or_else(|| {
            let row = format!("\"id\":\"{id}\"");
            position(&|line| line.replace(' ', "").contains(&row))
        })
        // The first column of a table.
        .or_else(|| position(&|line| line.split(',').next().map(unquoted) == Some(id)))?;
        Some(line + 1)
    }

    fn location(&self, task: Option<&TaskId>) -> Map<String, Value> {
        let base = (!self.path.starts_with('/')).then(|| json!("%SRCROOT%"));
        let artifact = with(json!({"uri": encoded(&self.path)}), "uriBaseId", base);
        let line = task.and_then(|task| self.line_of(task));
        let region = line.map(|line| json!({"startLine": line}));
        let place = with(json!({"artifactLocation": artifact}), "region", region);
        Map::from_iter([("physicalLocation".to_owned(), place)])
    }
}

/// Adds a member, if it has a value.
fn with(mut document: Value, name: &str, value: Option<Value>) -> Value {
    if let (Some(members), Some(value)) = (document.as_object_mut(), value) {
        members.insert(name.to_owned(), value);
    }
    document
}

fn unquoted(cell: &str) -> &str {
    cell.trim().trim_matches('"')
}

/// The first run of characters that an id can have.
fn first_word(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.split(|c| !is_part(c)).find(|word| !word.is_empty())
}

/// Percent-encodes what a URI cannot have.
fn encoded(path: &str) -> String {
    let path = path.strip_prefix("./").unwrap_or(path);
    let mut uri = String::with_capacity(path.len());
    if path.starts_with('/') {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// What a result is about.
struct Finding<'a> {
    rule: &'a str,
    level: &'static str,
    task: Option<&'a TaskId>,
    message: String,
}

/// The report of a run as SARIF.
pub struct Sarif<'a> {
    totals: &'a RunTotals,
    /// The suite first, then its scoring document.
    files: &'a [TaskFile],
    content: HashMap<&'a TaskId, &'a TaskDetails>,
    /// The rules of the results so far.
    rules: Vec<String>,
    results: JsonList,
}

/// Spaces before the member with the results.
const INDENT: usize = 6;

impl<'a> Sarif<'a> {
    /// The locations are those of `files`: the suite first, then its scoring document.
    pub fn new(totals: &'a RunTotals, files: &'a [TaskFile], content: &'a [TaskDetails]) -> Self {
        Self {
            totals,
            files,
            content: content.iter().map(|task| (&task.task_id, task)).collect(),
            rules: Vec::new(),
            results: JsonList::new(JsonForm::Indented, INDENT),
        }
    }

    /// The text before and after the results. The rules are after them.
    fn around_results(&self) -> (String, String) {
        let text = format!("{:#}\n", envelope(self.totals, &self.rules));
        let empty = JsonForm::Indented.empty_list("results");
        // A quotation mark within a string is escaped, so this is the member.
        let (before, after) = text.split_once(&empty).unwrap_or((&text, ""));
        let name = empty.trim_end_matches("[]");
        (format!("{before}{name}"), after.to_owned())
    }

    fn add(&mut self, finding: &Finding<'_>, out: &mut Out<'_>) -> io::Result<()> {
        let known = self.rules.iter().position(|rule| rule == finding.rule);
        let index = known.unwrap_or_else(|| {
            self.rules.push(finding.rule.to_owned());
            self.rules.len() - 1
        });
        let details = finding.task.and_then(|task| self.content.get(task));
        let result = result(self.totals, finding, self.files, details.copied());
        let result = with(result, "ruleIndex", Some(json!(index)));
        self.results.add(&result, out)
    }
}

impl RunDocument for Sarif<'_> {
    fn begin(&mut self, out: &mut Out<'_>) -> io::Result<()> {
        out.write_all(self.around_results().0.as_bytes())
    }

    fn add(&mut self, tasks: &[TaskRow], out: &mut Out<'_>) -> io::Result<()> {
        for row in tasks {
            for finding in findings(row) {
                self.add(&finding, out)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Out<'_>) -> io::Result<Next> {
        if let Some(finding) = verdict_finding(self.totals) {
            self.add(&finding, out)?;
        }
        self.results.end(out)?;
        out.write_all(self.around_results().1.as_bytes())?;
        Ok(Next::Done)
    }
}

/// The document without its results.
fn envelope(report: &RunTotals, rules: &[String]) -> Value {
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "Touchstone",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(|rule| described(rule)).collect::<Vec<_>>(),
            }},
            // Results of another suite or agent do not replace these.
            "automationDetails": {"id": format!(
                "touchstone/{}/{}/", report.suite.suite_id, report.agent.agent_id
            )},
            "invocations": [{
                "executionSuccessful": report.is_judged(),
            }],
            "results": [],
            "properties": {
                "runId": report.run_id, "verdict": report.verdict, "score": report.score(),
                "suite": format!("{}@{}", report.suite.suite_id, report.suite.version),
                "agent": format!("{}@{}", report.agent.agent_id, report.agent.version),
            },
        }],
    })
}

/// The safety findings of a task, and a finding if it did not pass.
fn findings((numbers, task): &TaskRow) -> Vec<Finding<'_>> {
    let safety = numbers.safety_findings.iter().map(|found| Finding {
        rule: &found.kind,
        level: level(found.severity),
        task: Some(&task.task_id),
        message: format!("Task {}: {}", task.task_id, in_words(&found.kind)),
    });
    let mut findings: Vec<Finding<'_>> = safety.collect();
    let (rule, level, word) = match task.outcome {
        TaskOutcome::Passed => return findings,
        TaskOutcome::Failed => ("task-failed", "error", "failed"),
        TaskOutcome::Unjudged => ("task-unjudged", "warning", "was not judged"),
    };
    let reason = reason_of(numbers, task);
    findings.push(Finding {
        rule,
        level,
        task: Some(&task.task_id),
        message: format!("Task {} {word}: {reason}", task.task_id),
    });
    findings
}

/// A run can fail although every task passed: too slow, too expensive, incomplete.
fn verdict_finding(report: &RunTotals) -> Option<Finding<'static>> {
    let counted = counts(report);
    if counted.passed < counted.all() {
        return None;
    }
    let level = match report.verdict {
        Verdict::Fail => "error",
        Verdict::Inconclusive => "warning",
        Verdict::Pass | Verdict::Pending => return None,
    };
    Some(Finding {
        rule: "verdict",
        level,
        task: None,
        message: format!("{}: {}", verdict(report.verdict), report.reasons.join("; ")),
    })
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "note",
    }
}

fn result(
    report: &RunTotals,
    finding: &Finding<'_>,
    files: &[TaskFile],
    details: Option<&TaskDetails>,
) -> Value {
    let suite = &report.suite.suite_id;
    let task = finding.task.map_or("", TaskId::as_str);
    let mut location = files
        .first()
        .map(|file| file.location(finding.task))
        .unwrap_or_default();
    let logical = match finding.task {
        Some(task) => {
            json!({"name": task, "fullyQualifiedName": format!("{suite}/{task}"), "kind": "task"})
        }
        None => json!({"name": suite, "kind": "suite"}),
    };
    location.insert("logicalLocations".to_owned(), json!([logical]));
    let mut text = finding.message.clone();
    if let Some(details) = details {
        text.push_str(&content(details));
    }
    let print = Sha256::digest(format!(
        "{suite}\0{}\0{}\0{task}",
        report.agent.agent_id, finding.rule
    ));
    let result = json!({
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": text},
        "locations": [location],
        // Equal for the same problem in every run, so that an alert stays one alert.
        "partialFingerprints": {"touchstone/v1": hex(&print)},
    });
    let related: Vec<Value> = files
        .iter()
        .skip(1)
        .filter(|file| {
            finding
                .task
                .is_some_and(|task| file.line_of(task).is_some())
        })
        .map(|file| {
            let mut place = file.location(finding.task);
            place.insert(
                "message".to_owned(),
                json!({"text": "the assertions of the task"}),
            );
            Value::Object(place)
        })
        .collect();
    let related = (!related.is_empty()).then(|| json!(related));
    with(result, "relatedLocations", related)
}

fn content(details: &TaskDetails) -> String {
    let short = |value: &Value| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.chars().take(MAX_CONTENT).collect::<String>()
    };
    let expected = details.expected.as_ref().map(|it| &it.value);
    let parts = [
        ("input", Some(&details.input)),
        ("expected", expected),
        ("actual", details.actual.as_ref()),
    ];
    parts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("\n{name}: {}", short(value?))))
        .collect()
}

/// A rule as the tool describes it.
fn described(rule: &str) -> Value {
    let (text, level) = match rule {
        "task-failed" => ("The agent failed a task of the suite", "error"),
        "task-unjudged" => (
            "A task was not judged because of an infrastructure error",
            "warning",
        ),
        "verdict" => ("The run did not pass although every task passed", "error"),
        _ => return safety_rule(rule),
    };
    json!({
        "id": rule,
        "shortDescription": {"text": text},
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["agent-evaluation"]},
    })
}

fn safety_rule(label: &str) -> Value {
    // Other hosts may have kinds that this version does not know.
    let Some(kind) = Kind::parse(label) else {
        return json!({
            "id": label,
            "shortDescription": {"text": label},
            "properties": {"tags": ["agent-evaluation", "security"]},
        });
    };
    // The middles of the ranges that code scanning gives the same names.
    let severity = match kind.severity() {
        Severity::Critical => "9.5",
        Severity::High => "8.0",
        Severity::Medium => "5.5",
        Severity::Low => "2.0",
    };
    json!({
        "id": label,
        "shortDescription": {"text": format!("Safety finding: {}", kind.meaning())},
        "help": {"text": "docs/safety.md describes what the detectors read and how findings count."},
        "defaultConfiguration": {"level": level(kind.severity())},
        "properties": {"tags": ["agent-evaluation", "security"], "security-severity": severity},
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::render::document::written;
    use crate::render::sample;
    use crate::rules::eval::report::EvalReport;

    fn sarif(report: &EvalReport, files: &[TaskFile], content: &[TaskDetails]) -> Value {
        let totals = report.totals();
        let mut document = Sarif::new(&totals, files, content);
        let text = written(&mut document, report).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text, format!("{document:#}\n"));
        document
    }

    fn file(path: &str, text: &str) -> TaskFile {
        TaskFile {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn findings_and_tasks_that_did_not_pass_are_results_at_their_lines() {
        let mut report = sample::mixed();
        report.summary.tasks[0].safety_findings =
            vec![Kind::CanaryLeak.finding(), Kind::PiiPhone.finding()];
        let suite = "{\"tasks\": [\n {\"taskId\": \"clock-in-down\"},\n {\"taskId\": \"refund-twice-more\"},\n {\"taskId\": \"refund-twice\"}]}";
        let scoring = "{\"tasks\": {\n  \"refund-twice\": {}}}";
        let files = [
            file("pack/evals/a b.json", suite),
            file("pack/evals/a b.scoring.json", scoring),
        ];
        let mut document = sarif(&report, &files, &[]);
        document["runs"][0]["tool"]["driver"]["version"] = json!("[version]");
        insta::assert_snapshot!(format!("{document:#}"));
    }

    #[test]
    fn a_run_that_fails_without_a_failed_task_has_a_result() {
        let mut report = sample::baseline();
        report
            .tasks
            .retain(|task| task.outcome == TaskOutcome::Passed);
        report.summary.tasks.retain(|task| task.passed);
        report.verdict = Verdict::Fail;
        report.reasons = vec!["too slow".to_owned()];
        let results = sarif(&report, &[], &[])["runs"][0]["results"].clone();
        assert_eq!(results.as_array().unwrap().len(), 1, "{results}");
        assert_eq!(results[0]["ruleId"], "verdict");
        assert_eq!(results[0]["message"]["text"], "FAIL: too slow");
    }

    #[rstest]
    #[case::suite(
        "{\"tasks\": [\n{\"taskId\": \"b-1\"},\n{\"taskId\": \"b\"}]}",
        Some(3)
    )]
    #[case::yaml("tasks:\n  - taskId: b\n", Some(2))]
    #[case::scoring("{\n\"tasks\": {\n\"a\": {},\n\"b\" : {}}}", Some(4))]
    #[case::table("id,input\na,b\n\"b\",x\n", Some(3))]
    #[case::rows(
        "{\"id\": \"a\", \"input\": 1}\n{\"input\": 2, \"id\": \"b\"}\n",
        Some(2)
    )]
    #[case::absent("{\"taskId\": \"a\", \"input\": \"b\"}", None)]
    fn a_task_is_found_by_its_id(#[case] text: &str, #[case] line: Option<usize>) {
        assert_eq!(file("x", text).line_of(&"b".into()), line);
    }

    #[test]
    fn paths_become_uris() {
        assert_eq!(encoded("./a b/ü.json"), "a%20b/%C3%BC.json");
        assert_eq!(encoded("/srv/a.json"), "file:///srv/a.json");
    }
}
