//! A new queue: which answers of a run, how many people, which scale.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::api::ConsoleApi;
use crate::page::answer::{html, see_other};
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::visit::Visit;
use crate::review::queue_page;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_runs::rules::review::request::NewReview;
use touchstone_runs::rules::review::{MAX_ITEMS, MAX_LABELLERS};

#[derive(Template)]
#[template(path = "review/new.html")]
struct Page {
    chrome: Chrome,
    run: String,
    suite: String,
    outcomes: Vec<(&'static str, String)>,
    most_labellers: u8,
    most_items: usize,
    seed: u32,
}

/// `GET /console/review/new?run=`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let run = query.run("run")?;
    let assessed = api.runs.runs.shared_totals(visit.tenant(), &run).await?;
    let report = &assessed.report;
    let tasks = report.task_totals.unwrap_or_default();
    let outcomes = vec![
        (
            "all",
            format!("All answers ({})", report.summary.task_count),
        ),
        ("failed", format!("Answers that failed ({})", tasks.failed)),
        ("passed", format!("Answers that passed ({})", tasks.passed)),
        (
            "unjudged",
            format!("Answers without a judgement ({})", tasks.unjudged),
        ),
    ];
    let [a, b, c, d, ..] = api.host.ids.secret();
    html(&Page {
        chrome: visit.chrome(Section::Review),
        run: run.to_string(),
        suite: plain(&format!(
            "{}@{}",
            report.suite.suite_id, report.suite.version
        )),
        outcomes,
        most_labellers: MAX_LABELLERS,
        most_items: MAX_ITEMS,
        seed: u32::from_be_bytes([a, b, c, d]),
    })
}

/// `POST /console/review/queues`.
pub async fn create(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let new = NewReview::parse(&document(&form)?)?;
    let reviews = &api.runs.human_reviews;
    let review = reviews.create(&visit.caller, new, None).await?;
    let page = queue_page(&review.review_id);
    Ok(see_other(&format!("{page}?done=review-created")))
}

/// The document of a request, as the API takes it.
fn document(form: &Form) -> Result<Value, Problem> {
    let mut body = Map::new();
    body.insert("runId".to_owned(), form.required("run")?.into());
    if let Some(outcome) = form.get("outcome") {
        body.insert("outcome".to_owned(), outcome.into());
    }
    for name in ["sample", "seed", "labellers", "steps"] {
        let Some(text) = form.get(name).map(str::trim).filter(|it| !it.is_empty()) else {
            continue;
        };
        let number: u64 = text.parse().map_err(|_| {
            Problem::validation(name, format!("the field `{name}` must be a whole number"))
        })?;
        body.insert(name.to_owned(), json!(number));
    }
    Ok(Value::Object(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_left_out() {
        let form =
            Form::parse(b"run=run_1&outcome=failed&sample=&seed=7&labellers=2&steps=4").unwrap();
        let expected =
            json!({"runId": "run_1", "outcome": "failed", "seed": 7, "labellers": 2, "steps": 4});
        assert_eq!(document(&form).unwrap(), expected);
        let wrong = document(&Form::parse(b"run=run_1&sample=many").unwrap()).unwrap_err();
        assert_eq!(wrong.details["field"], "sample");
        assert!(document(&Form::parse(b"outcome=all").unwrap()).is_err());
    }
}
