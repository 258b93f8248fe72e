//! One suite and its tasks.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::Value;

use crate::api::ConsoleApi;
use crate::operations::PACKS;
use crate::operations::packs::{SuiteRow, suite_address};
use crate::page::answer::{html, see_other, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{count, cut, text_or_json};
use crate::page::visit::Visit;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_packs::service::packs::Actor;

/// Tasks of a page.
const TASKS: usize = 50;
/// Longest shown text of an input or an expectation, in characters.
const LONGEST: usize = 600;

#[derive(Template)]
#[template(path = "operations/suite.html")]
struct Page {
    chrome: Chrome,
    row: SuiteRow,
    scoring: String,
    /// `None` without the right to read content.
    document: Option<Document>,
    runs: String,
    may_remove: bool,
}

struct Document {
    modes: String,
    target: String,
    thresholds: Vec<(&'static str, String)>,
    has_scoring: bool,
    tasks: Vec<Task>,
    found: String,
    previous: Option<String>,
    next: Option<String>,
}

struct Task {
    id: String,
    kind: &'static str,
    input: String,
    expected: String,
    fixtures: String,
}

/// `GET /console/suites/{suiteId}/{version}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    query: Query,
) -> Answer {
    let (id, version) = (path.get("suiteId"), path.get("version"));
    let query = query.filled();
    let packs = &api.packs.packs;
    let suites = packs.suites(visit.tenant()).await?;
    let found = suites
        .iter()
        .find(|suite| suite.suite_id == id && suite.version == version);
    let Some(suite) = found else {
        return Err(Problem::new(ErrorCode::NotFound, "no such suite").into());
    };
    let from = query.whole("from", 0, 10_000_000)?.unwrap_or_default();
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let document = match visit.may(Scope::RunsContent) {
        true => {
            let documents = packs.suite_documents(&visit.caller, id, version).await?;
            let has_scoring = documents.scoring.is_some();
            let href = suite_address(id, version);
            Some(Document::of(&documents.suite, has_scoring, from, &href))
        }
        false => None,
    };
    html(&Page {
        chrome: visit.chrome(Section::Packs),
        row: SuiteRow::of(suite),
        scoring: plain(suite.scoring.as_deref().unwrap_or_default()),
        document,
        runs: format!("/console/runs?suiteId={}", segment(id)),
        may_remove: suite.pack.is_none() && visit.may(Scope::SuitesWrite),
    })
}

impl Document {
    fn of(suite: &Value, has_scoring: bool, from: usize, href: &str) -> Self {
        let text = |value: &Value| value.as_str().map(plain).unwrap_or_default();
        let list = |value: &Value| {
            let items = value.as_array().into_iter().flatten();
            items.map(text).collect::<Vec<_>>().join(", ")
        };
        let none: &Vec<Value> = &Vec::new();
        let tasks = suite["tasks"].as_array().unwrap_or(none);
        let shown: Vec<Task> = tasks.iter().skip(from).take(TASKS).map(Task::of).collect();
        let address = |from: usize| format!("{href}?from={from}#tasks");
        let limits = &suite["thresholds"];
        let limit =
            |name: &str, unit: &str| limits[name].as_f64().map(|value| format!("{value}{unit}"));
        let thresholds = [
            ("Pass score", limit("passScore", "")),
            ("Maximum cost", limit("maxCostUsd", " USD")),
            ("Maximum latency (p95)", limit("maxP95LatencyMs", " ms")),
        ];
        Self {
            modes: list(&suite["modes"]),
            target: text(&suite["targetAgentId"]),
            thresholds: thresholds
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
            has_scoring,
            found: match shown.len() {
                0 => String::new(),
                many => format!(
                    "{} to {} of {}",
                    count(from + 1),
                    count(from + many),
                    count(tasks.len())
                ),
            },
            previous: (from > 0).then(|| address(from.saturating_sub(TASKS))),
            next: (from.saturating_add(TASKS) < tasks.len()).then(|| address(from + TASKS)),
            tasks: shown,
        }
    }
}

impl Task {
    fn of(task: &Value) -> Self {
        let expected = &task["expected"];
        let fixtures = &task["fixtures"];
        let size = |name: &str| fixtures[name].as_array().map_or(0, Vec::len);
        let parts = [
            (size("toolResponses"), "tool responses"),
            (size("memorySeed"), "memory entries"),
        ];
        let fixtures: Vec<String> = parts
            .into_iter()
            .filter(|(many, _)| *many > 0)
            .map(|(many, what)| format!("{many} {what}"))
            .collect();
        let kind = expected["kind"].as_str();
        Self {
            id: plain(task["taskId"].as_str().unwrap_or_default()),
            kind: match kind {
                Some("golden") => "Golden answer",
                Some("rubric") => "Rubric",
                _ => "Scoring document",
            },
            input: shortened(&task["input"]),
            expected: match kind {
                Some("rubric") => rubric(&expected["rubric"]),
                _ => golden(&expected["match"]),
            },
            fixtures: fixtures.join(", "),
        }
    }
}

fn golden(matching: &Value) -> String {
    let strategy = match matching["strategy"].as_str() {
        Some("exact") => "is exactly: ",
        Some("contains") => "contains: ",
        Some("json-match") => "equals as JSON: ",
        _ => "",
    };
    format!("{strategy}{}", shortened(&matching["value"]))
}

fn rubric(criteria: &Value) -> String {
    let criteria = criteria.as_array().into_iter().flatten();
    let lines = criteria.map(|it| {
        let weight = it["weight"].as_f64().unwrap_or_default();
        format!("{weight:.2} × {}", shortened(&it["criterion"]))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A text as it is, another value as JSON, at most [`LONGEST`] characters.
fn shortened(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    cut(&text_or_json(value), LONGEST, |_| "…".to_owned())
}

/// `POST /console/suites/{suiteId}/{version}/remove`.
pub async fn remove(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let (id, version) = (path.get("suiteId"), path.get("version"));
    let packs = &api.packs.packs;
    packs
        .remove_suite(&Actor::of(&visit.caller), id, version)
        .await?;
    Ok(see_other(&format!("{PACKS}?done=suite-removed")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_input_is_shortened_and_keeps_its_lines() {
        assert_eq!(shortened(&json!("a\nb")), "a\nb");
        let long = shortened(&json!("é".repeat(LONGEST + 1)));
        assert_eq!(long.chars().count(), LONGEST + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn pages_of_tasks_lead_to_each_other() {
        let task = |n: usize| json!({"taskId": format!("t{n}"), "input": n});
        let tasks: Vec<Value> = (0..120).map(task).collect();
        let suite = json!({"tasks": tasks});
        let middle = Document::of(&suite, false, 50, "/s");
        assert_eq!(middle.found, "51 to 100 of 120");
        assert_eq!(middle.previous.as_deref(), Some("/s?from=0#tasks"));
        assert_eq!(middle.next.as_deref(), Some("/s?from=100#tasks"));
        let beyond = Document::of(&suite, false, usize::MAX, "/s");
        assert!(beyond.tasks.is_empty() && beyond.next.is_none());
    }
}
