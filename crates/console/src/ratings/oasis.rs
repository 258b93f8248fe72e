//! OASIS evaluations: the list, the report of one, the evidence of a scenario.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::Value;

use crate::api::ConsoleApi;
use crate::page::answer::{html, segment};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, cut, text_or_json};
use crate::page::visit::Visit;
use crate::ratings::OASIS;
use crate::ratings::oasis_review::ToReview;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::RunId;
use touchstone_oasis::rules::report::Report;
use touchstone_runs::http::extract::RunPath;
use touchstone_runs::rules::run::listing::RunListing;

/// Evaluations of a page.
const RUNS: u32 = 25;
/// Longest shown JSON of a part of the evidence, in characters.
const LONGEST: usize = 20_000;

#[derive(Template)]
#[template(path = "ratings/oasis.html")]
struct Listing {
    chrome: Chrome,
    rows: Vec<Row>,
    next: Option<String>,
    is_first: bool,
}

struct Row {
    href: String,
    run: String,
    profile: String,
    agent: String,
    started: Option<Time>,
    state: Badge,
}

/// `GET /console/oasis`.
pub async fn list(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let query = query.filled();
    let before = query.whole("before", 0, u64::from(u32::MAX) * 1000)?;
    let before = before.and_then(|it| i64::try_from(it).ok());
    let runs = &api.runs.runs;
    let mut found = runs.profiled(visit.tenant(), before, RUNS + 1).await?;
    let more = found.len() > RUNS as usize;
    found.truncate(RUNS as usize);
    let last = found.last().filter(|_| more);
    let next = last.map(|(run, _)| format!("{OASIS}?before={}", run.number));
    let mut rows = Vec::with_capacity(found.len());
    for (profiled, listed) in &found {
        let agent = listed.as_ref().and_then(|it| it.subject.agent.as_ref());
        let verdict = match listed.as_ref().is_some_and(|it| it.result.is_some()) {
            true => verdict(&api, &visit, &profiled.run).await?,
            false => None,
        };
        rows.push(Row {
            href: format!("{OASIS}/{}", profiled.run),
            run: profiled.run.to_string(),
            profile: plain(&profiled.profile),
            agent: agent.map_or_else(String::new, |it| {
                plain(&format!("{}@{}", it.agent_id, it.version))
            }),
            started: listed.as_ref().map(|it| it.created_at.into()),
            state: verdict.unwrap_or_else(|| open(listed.as_ref())),
        });
    }
    html(&Listing {
        chrome: visit.chrome(Section::Oasis),
        rows,
        next,
        is_first: before.is_none(),
    })
}

/// The recorded verdict of an evaluation; `None` if it ended without one.
async fn verdict(api: &ConsoleApi, visit: &Visit, run: &RunId) -> Result<Option<Badge>, Problem> {
    match api.oasis.evaluations.verdict(visit.tenant(), run).await {
        Ok(document) => Ok(Some(result(document.pointer("/safety")))),
        Err(problem) if matches!(problem.code.status(), 404 | 409 | 422) => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// The state of a run without a verdict.
fn open(run: Option<&RunListing>) -> Badge {
    match run {
        Some(run) if run.result.is_none() => Badge::info("Running"),
        _ => Badge::warn("No verdict"),
    }
}

/// A status of the standard.
fn result(status: Option<&Value>) -> Badge {
    match status.and_then(Value::as_str) {
        Some("PASS") => Badge::good("Pass"),
        Some("FAIL") => Badge::bad("Fail"),
        Some("PROVIDER_FAILURE") => Badge::warn("Provider failure"),
        Some(other) => Badge::plain("?", plain(other)),
        None => Badge::plain("–", "Not judged"),
    }
}

#[derive(Template)]
#[template(path = "ratings/oasis-run.html")]
struct Page {
    chrome: Chrome,
    run: String,
    title: String,
    verdict: Badge,
    tone: &'static str,
    sign: &'static str,
    meaning: String,
    reasons: Vec<String>,
    facts: Vec<(&'static str, String)>,
    counts: Vec<(&'static str, usize)>,
    categories: Vec<Category>,
    scenarios: Vec<Scenario>,
    capability: Vec<(String, String)>,
    no_capability: String,
    statements: Vec<String>,
    claim: Vec<String>,
    reviews: Vec<ToReview>,
    may_review: bool,
}

struct Category {
    name: String,
    result: Badge,
    counts: String,
}

struct Scenario {
    href: String,
    id: String,
    name: String,
    class: String,
    result: Badge,
    tolerance: String,
    note: String,
}

/// `GET /console/oasis/{runId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
) -> Answer {
    let report = api.oasis.evaluations.report(visit.tenant(), &run).await?;
    let document = serde_json::to_value(&report).map_err(|cause| internal(&cause))?;
    let verdict = result(document.pointer("/header/verdict"));
    let header = &report.header;
    let safety = &report.safety;
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(plain);
    let facts = [
        ("Evaluator", text("/metadata/evaluator")),
        ("Date", text("/metadata/date")),
        ("Duration", text("/metadata/duration")),
        ("Core specification", text("/metadata/oasis_core_version")),
        ("Profile", text("/metadata/domain_profile_identifier")),
        ("Tier", Some(header.tier.to_string())),
    ];
    html(&Page {
        chrome: visit.chrome(Section::Oasis),
        run: run.to_string(),
        title: plain(&header.title),
        tone: verdict.class,
        sign: verdict.sign,
        verdict,
        meaning: plain(&header.meaning),
        reasons: header.reasons.iter().map(|it| plain(&it.text)).collect(),
        facts: facts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect(),
        counts: vec![
            ("Passed", safety.counts.passed),
            ("Failed", safety.counts.failed),
            ("Provider failures", safety.counts.provider_failure),
            ("Not executed", safety.counts.not_executed),
            ("Not applicable", safety.counts.not_applicable),
            ("To be reviewed by a person", header.human_review_required),
        ],
        categories: categories(&document),
        scenarios: scenarios(&report, &document, &run),
        capability: capability(&document),
        no_capability: text("/capability/not_evaluated_because").unwrap_or_default(),
        statements: report.statements.iter().map(|it| plain(&it.text)).collect(),
        claim: claim(&report),
        reviews: ToReview::all(&report, &run),
        may_review: visit.may(Scope::ReviewsWrite),
    })
}

fn items<'a>(document: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    document
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn categories(document: &Value) -> Vec<Category> {
    let category = |it: &Value| {
        let count = |name: &str| {
            it.pointer(&format!("/counts/{name}"))
                .and_then(Value::as_u64)
        };
        Category {
            name: plain(it["category"].as_str().unwrap_or_default()),
            result: result(it.get("status")),
            counts: format!(
                "{} of {} passed",
                count("passed").unwrap_or_default(),
                count("applicable").unwrap_or_default()
            ),
        }
    };
    items(document, "/safety/categories")
        .map(category)
        .collect()
}

fn scenarios(report: &Report, document: &Value, run: &RunId) -> Vec<Scenario> {
    let text = |it: &Value, pointer: &str| {
        let found = it.pointer(pointer).and_then(Value::as_str);
        plain(found.unwrap_or_default())
    };
    let scenario = |(detail, it): (&touchstone_oasis::rules::report::ScenarioDetail, &Value)| {
        let id = it
            .pointer("/descriptor/scenario_id")
            .or_else(|| it.pointer("/descriptor/id"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let execution = &detail.execution;
        let score = execution.score.map(|score| format!("score {score:.2}"));
        let band = execution.band.as_deref().map(plain);
        let deviation = execution.deviation.map(|it| format!("deviation {it} %"));
        let vacuous = execution
            .vacuous
            .then(|| "passed although the agent did nothing".to_owned());
        let notes = [score, band, deviation, vacuous];
        Scenario {
            href: format!("{OASIS}/{run}/evidence/{}", segment(id)),
            id: plain(id),
            name: plain(&detail.name),
            class: text(it, "/descriptor/classification"),
            result: match execution.status {
                Some(_) => result(it.pointer("/execution/status")),
                None if execution.score.is_some() => Badge::plain("○", "Scored"),
                None => result(None),
            },
            tolerance: match detail.tolerance > 0.0 {
                true => format!("{} %", detail.tolerance),
                false => String::new(),
            },
            note: notes.into_iter().flatten().collect::<Vec<_>>().join(", "),
        }
    };
    let pairs = report.scenarios.iter().zip(items(document, "/scenarios"));
    pairs.map(scenario).collect()
}

fn capability(document: &Value) -> Vec<(String, String)> {
    let dimension = |it: &Value| {
        let name = it["dimension"].as_str().unwrap_or_default();
        let score = it["score"].as_f64();
        let score = score.map_or_else(|| "not scored".to_owned(), |it| format!("{it:.3}"));
        (plain(&name.replace('_', " ")), score)
    };
    items(document, "/capability/dimensions")
        .map(dimension)
        .collect()
}

/// Whether the evaluation is a claim of conformance.
fn claim(report: &Report) -> Vec<String> {
    let claim = &report.conformance_claim;
    let reasons = claim.withheld_because.iter();
    match claim.claim {
        Some(_) => vec!["This evaluation is a claim of conformance.".to_owned()],
        None => reasons
            .map(|it| format!("No claim of conformance: {}", plain(&it.text)))
            .collect(),
    }
}

#[derive(Template)]
#[template(path = "ratings/oasis-evidence.html")]
struct Evidence {
    chrome: Chrome,
    run: String,
    scenario: String,
    /// `None` without the right to read content.
    parts: Option<Vec<Part>>,
}

struct Part {
    name: String,
    text: String,
}

/// `GET /console/oasis/{runId}/evidence/{scenarioId}`.
pub async fn evidence(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    RunPath(run): RunPath,
    path: PathParameters,
) -> Answer {
    let scenario = path.get("scenarioId");
    let evaluations = &api.oasis.evaluations;
    let found = evaluations.evidence(visit.tenant(), &run, scenario).await?;
    let document = serde_json::to_value(&found).map_err(|cause| internal(&cause))?;
    html(&Evidence {
        chrome: visit.chrome(Section::Oasis),
        run: run.to_string(),
        scenario: plain(scenario),
        parts: visit.may(Scope::RunsContent).then(|| parts(&document)),
    })
}

/// The members of the evidence, those of the execution one by one.
fn parts(document: &Value) -> Vec<Part> {
    let members = |pointer: &str| {
        let found = document.pointer(pointer).and_then(Value::as_object);
        found.into_iter().flatten()
    };
    let shown = |(name, value): (&String, &Value)| {
        let empty = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        (!empty).then(|| Part {
            name: name.replace('_', " "),
            text: pretty(value),
        })
    };
    let others =
        members("").filter(|(name, _)| !matches!(name.as_str(), "execution" | "scenario_id"));
    members("/execution")
        .chain(others)
        .filter_map(shown)
        .collect()
}

fn pretty(value: &Value) -> String {
    cut(&text_or_json(value), LONGEST, |_| {
        "\n… the rest is in `touchstone oasis evidence`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_without_content_are_left_out() {
        let document = json!({
            "scenario_id": "s",
            "execution": {"stimuli": [{"value": 1}], "checks": []},
            "data": [1],
            "snapshot": null,
        });
        let names: Vec<String> = parts(&document).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["stimuli", "data"]);
    }

    #[test]
    fn a_long_part_is_cut() {
        assert!(pretty(&json!("x".repeat(LONGEST * 2))).chars().count() < LONGEST + 100);
    }
}
