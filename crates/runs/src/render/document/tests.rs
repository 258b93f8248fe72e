use super::json::ReportJson;
use super::list::JsonForm;
use super::*;
use crate::render::flips::flips;
use crate::render::junit::Junit;
use crate::render::markdown::Markdown;
use crate::render::sample;
use crate::render::sarif::Sarif;
use crate::render::scorecard::Scorecard;
use crate::rules::eval::report::{RunTotals, TaskOutcome};
use crate::rules::eval::statistics::{Evidence, EvidenceRun, statistics};
use serde_json::json;
use touchstone_host::render::table::Style;

/// A run whose listed tasks are too many for a table.
fn many() -> EvalReport {
    let one = sample::large();
    let rows: Vec<_> = rows(&one).collect();
    let rows = rows.into_iter().cycle().take(2_500).enumerate();
    let tasks = rows.map(|(n, (numbers, task))| {
        let (mut numbers, mut task) = (numbers.clone(), task.clone());
        task.task_id = format!("task-{n}").into();
        numbers.task_id = task.task_id.clone();
        if n % 2 == 0 {
            task.outcome = TaskOutcome::Failed;
        }
        (numbers, task)
    });
    one.totals().with_tasks(tasks)
}

/// The document with pages of 2 tasks is the same as in one piece.
fn assert_paged(report: &EvalReport, document: impl Fn() -> Box<dyn RunDocument>) -> String {
    let whole = paged(&mut *document(), report, usize::MAX).unwrap();
    assert_eq!(paged(&mut *document(), report, 2).unwrap(), whole);
    whole
}

fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

#[test]
fn documents_do_not_depend_on_the_size_of_pages() {
    let baseline = sample::baseline();
    let empty = sample::mixed().totals().with_tasks([]);
    for report in [
        sample::mixed(),
        baseline.clone(),
        sample::large(),
        many(),
        empty,
    ] {
        let totals: &RunTotals = leaked(report.totals());
        let before = EvidenceRun::of(&baseline);
        let found = leaked(statistics(&Evidence::of(&report), Some(&before), None));
        let flips = leaked(flips(&report, &baseline));
        for style in [Style::default(), sample::TERMINAL] {
            assert_paged(&report, || {
                Box::new(Scorecard::new(totals, found, Some(flips), style))
            });
        }
        assert_paged(&report, || Box::new(Junit::new(totals)));
        assert_paged(&report, || Box::new(Sarif::new(totals, &[], &[])));
        assert_paged(&report, || {
            Box::new(Markdown::new(totals, found, Some(flips)))
        });
        for form in [JsonForm::Compact, JsonForm::Indented] {
            let text = assert_paged(&report, || Box::new(ReportJson::new(totals, form).unwrap()));
            assert_eq!(text, form.text(&report).unwrap());
        }
    }
}

#[test]
fn many_listed_tasks_are_lines_also_in_a_terminal() {
    let report = many();
    let found = statistics(&Evidence::of(&report), None, None);
    let totals = report.totals();
    let mut scorecard = Scorecard::new(&totals, &found, None, sample::TERMINAL);
    let text = written(&mut scorecard, &report).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("failed "));
    let failed = totals.task_totals.unwrap().failed;
    assert!(failed > 1000);
    assert_eq!(lines.count(), failed);
}

#[test]
fn further_members_follow_those_of_the_report() {
    let report = sample::mixed();
    let other = json!({"comparison": {"tasks": [], "changes": [1]}});
    let document = ReportJson::extended(&report.totals(), &other, JsonForm::Indented);
    let text = written(&mut document.unwrap(), &report).unwrap();
    let mut expected = serde_json::to_value(&report).unwrap();
    expected["comparison"] = other["comparison"].clone();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found, expected);
    let end = "    \"tasks\": []\n  }\n}";
    assert!(text.ends_with(end), "{text}");
}
