//! One answer to label. The page shows nothing that the judge or other people decided.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::api::ConsoleApi;
use crate::page::answer::{html, see_other};
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::visit::Visit;
use crate::review::queue_page;
use crate::review::words::{Choice, choices, lines, shown};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_openwop::suite::MatchStrategy;
use touchstone_runs::http::reviews::item_number;
use touchstone_runs::rules::review::blind::{BlindItem, ToolUse};
use touchstone_runs::rules::review::request::NewLabel;
use touchstone_runs::rules::review::turn::Turn;

#[derive(Template)]
#[template(path = "review/label.html")]
struct Page {
    chrome: Chrome,
    queue: String,
    href: String,
    number: u32,
    task: String,
    messages: Vec<(String, String)>,
    input: String,
    expected_title: &'static str,
    /// Empty if there is no single expected value.
    expected: String,
    criteria: Vec<String>,
    /// `None` without an answer.
    answer: Option<String>,
    tools: Vec<Tool>,
    content_deleted: bool,
    choices: Vec<Choice>,
    is_scored: bool,
    note: String,
    has_label: bool,
    /// The answer that the person labelled before.
    previous: Option<String>,
}

struct Tool {
    name: String,
    arguments: String,
    result: String,
    error: String,
}

impl Tool {
    fn of(it: &ToolUse) -> Self {
        let text = |value: &Option<Value>| value.as_ref().map(shown).unwrap_or_default();
        Self {
            name: plain(&it.tool),
            arguments: text(&it.arguments),
            result: text(&it.result),
            error: it.error.as_deref().map(plain).unwrap_or_default(),
        }
    }
}

impl Page {
    fn of(visit: &Visit, item: &BlindItem, previous: Option<u32>) -> Self {
        let queue = queue_page(&item.review_id);
        let expected = item.expected.as_ref();
        let label = item.label.as_ref();
        let note = label.and_then(|it| it.note.clone());
        let messages = item.earlier_messages.iter();
        Self {
            chrome: visit.chrome(Section::Review),
            href: format!("{queue}/items/{}", item.number),
            previous: previous.map(|it| format!("{queue}/items/{it}")),
            queue,
            number: item.number,
            task: plain(item.task_id.as_str()),
            messages: messages
                .map(|it| (plain(it.role.as_str()), lines(&it.content)))
                .collect(),
            input: shown(&item.input),
            expected_title: match expected.map(|it| it.strategy) {
                Some(MatchStrategy::Exact) => "Expected exactly",
                Some(MatchStrategy::Contains) => "Expected to contain",
                Some(MatchStrategy::JsonMatch) | None => "Expected",
            },
            expected: expected.map(|it| shown(&it.value)).unwrap_or_default(),
            criteria: item.criteria.iter().map(|it| plain(it)).collect(),
            answer: item.answer.as_ref().map(shown),
            tools: item.tools.iter().map(Tool::of).collect(),
            content_deleted: item.content_deleted,
            choices: choices(item.steps, label.map(|it| it.choice)),
            is_scored: item.steps > 1,
            note: note.unwrap_or_default(),
            has_label: label.is_some(),
        }
    }
}

/// Sends the person to the next answer after `after`, or back to the queue.
async fn go_on(
    api: &ConsoleApi,
    visit: &Visit,
    id: &str,
    after: u32,
    more: &[(&str, String)],
) -> Result<Response, Problem> {
    let reviews = &api.runs.human_reviews;
    let queue = queue_page(id);
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(more)
        .finish();
    let place = match reviews.next(&visit.caller, id, after).await? {
        Turn::Item(number) => format!("{queue}/items/{number}?{query}"),
        Turn::Waiting | Turn::Finished => format!("{queue}?{query}"),
    };
    Ok(see_other(&place))
}

/// `GET /console/review/queues/{reviewId}/next`.
pub async fn next(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    query: Query,
) -> Answer {
    let after = query.filled().whole("after", 0, u64::from(u32::MAX))?;
    let after = after.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
    Ok(go_on(&api, &visit, path.get("reviewId"), after, &[]).await?)
}

/// `GET /console/review/queues/{reviewId}/items/{item}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    query: Query,
) -> Answer {
    let number = item_number(&path)?;
    let previous = query.filled().whole("previous", 1, u64::from(u32::MAX))?;
    let previous = previous.and_then(|it| u32::try_from(it).ok());
    let reviews = &api.runs.human_reviews;
    let id = path.get("reviewId");
    let item = reviews.item(&visit.caller, id, number).await?;
    let previous = match previous {
        Some(it) if reviews.is_open(visit.tenant(), id, it).await? => Some(it),
        _ => None,
    };
    html(&Page::of(&visit, &item, previous))
}

/// `POST /console/review/queues/{reviewId}/items/{item}`.
pub async fn send(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    form: Form,
) -> Answer {
    let number = item_number(&path)?;
    let id = path.get("reviewId");
    let reviews = &api.runs.human_reviews;
    if form.get("action") == Some("skip") {
        reviews.skip(&visit.caller, id, number).await?;
        let done = [("done", "skipped".to_owned())];
        return Ok(go_on(&api, &visit, id, number, &done).await?);
    }
    let new = NewLabel::parse(&document(&form)?)?;
    reviews.label(&visit.caller, id, number, new, None).await?;
    let done = [
        ("done", "labelled".to_owned()),
        ("previous", number.to_string()),
    ];
    Ok(go_on(&api, &visit, id, number, &done).await?)
}

/// The document of a label, as the API takes it.
fn document(form: &Form) -> Result<Value, Problem> {
    let choice: u64 = form.required("choice")?.parse().map_err(|_| {
        Problem::validation(
            "choice",
            "choose one of the labels, then send the form again",
        )
    })?;
    let mut body = Map::new();
    body.insert("choice".to_owned(), json!(choice));
    if let Some(note) = form.get("note") {
        body.insert("note".to_owned(), note.into());
    }
    Ok(Value::Object(body))
}
