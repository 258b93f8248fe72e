//! The comparison of a run with a log of Inspect, for people.

use std::fmt::Write as _;

use super::markdown::{results as results_markdown, title};
use super::results;
use crate::render::markdown::escaped;
use crate::render::words::fitted;
use crate::rules::eval::comparison::log_baseline::{LogComparison, LogFacts};
use crate::rules::eval::scoring::tasks;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::plain;

pub fn log_comparison(found: &LogComparison, style: Style) -> String {
    let colors = style.colors;
    let log = &found.baseline;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<8}{}  {}",
        "before",
        colors.strong(&plain(&format!("{} with {}", log.task, log.model))),
        colors.faint(&plain(&origin(log)))
    );
    let is = &found.candidate;
    let _ = writeln!(
        text,
        "{:<8}{}  {}",
        "after",
        colors.strong(&format!("{}@{}", is.agent_id, is.agent_version)),
        colors.faint(is.run_id.as_str())
    );
    let _ = writeln!(
        text,
        "suite   {}@{}, {}, paired",
        is.suite_id,
        is.suite_version,
        tasks(found.n_tasks)
    );
    results(&mut text, &found.results(), style);
    fitted(&text, style)
}

pub fn log_markdown(found: &LogComparison) -> String {
    let (log, is) = (&found.baseline, &found.candidate);
    let runs = found.results();
    let mut text = title(&runs);
    let _ = writeln!(
        text,
        "`{}@{}` (run `{}`) against {} with {} ({}), over {} of `{}@{}`, paired.\n",
        is.agent_id,
        is.agent_version,
        is.run_id,
        escaped(&log.task),
        escaped(&log.model),
        escaped(&origin(log)),
        tasks(found.n_tasks),
        is.suite_id,
        is.suite_version
    );
    results_markdown(&mut text, &runs);
    text
}

/// The origin of the log, and the score that is compared.
fn origin(log: &LogFacts) -> String {
    let created = log.created.as_deref();
    let created = created.map_or_else(String::new, |at| format!(" of {at}"));
    let epochs = match log.epochs {
        0 | 1 => String::new(),
        n => format!(", mean of {n} epochs"),
    };
    format!("log of Inspect{created}, score {}{epochs}", log.scorer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::eval::comparison::log_baseline::{compare_with_log, read};
    use crate::rules::eval::sample::report;
    use crate::rules::eval::statistics::ListedRun;

    #[test]
    fn a_comparison_with_a_log_names_the_log_and_its_score() {
        let sample = |n: usize, value: &str| json!({"id": format!("task-{n}"), "input": "q", "target": "a", "scores": {"match": {"value": value}}});
        let log = json!({"status": "success", "eval": {"task": "capitals", "model": "openai/gpt-4o", "created": "2026-01-02T00:00:00Z"},
            "samples": [sample(0, "C"), sample(1, "C"), sample(2, "I"), sample(9, "C")]});
        let log = read(log.to_string().as_bytes(), None).unwrap();
        let run = report("run_a", &["golden"], &[Some(1.0), Some(0.0), Some(1.0)]);
        let found = compare_with_log(&log, &ListedRun::of(&run)).unwrap();
        insta::assert_snapshot!("log", log_comparison(&found, Style::default()));
        insta::assert_snapshot!("log_markdown", log_markdown(&found));
    }
}
