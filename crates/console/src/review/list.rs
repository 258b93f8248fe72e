//! Everything that waits for people: questions of runs, and queues of answers.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::deployments::approvals::{self, Card};
use crate::page::answer::html;
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::review::{queue_page, words};
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_runs::ports::reviews::ListedReview;

/// Queues of a page.
const QUEUES: u32 = 25;

#[derive(Template)]
#[template(path = "review/list.html")]
struct Page {
    chrome: Chrome,
    back: &'static str,
    /// Whether the person may see questions.
    may_answer: bool,
    may_explain: bool,
    questions: Vec<Card>,
    is_partial: bool,
    may_create: bool,
    queues: Vec<Row>,
    is_first: bool,
    next: Option<String>,
}

struct Row {
    href: String,
    suite: String,
    run: String,
    state: Badge,
    labels: usize,
    needed: usize,
    scale: String,
    labellers: u8,
    created: Time,
}

impl Row {
    fn of(it: &ListedReview) -> Self {
        let review = &it.review;
        let needed = review.needed();
        Self {
            href: queue_page(&review.review_id),
            suite: plain(&review.suite),
            run: review.run_id.to_string(),
            state: state(it.labels >= needed, review.closed_at.is_some()),
            labels: it.labels,
            needed,
            scale: words::scale(review),
            labellers: review.labellers,
            created: review.created_at.into(),
        }
    }
}

/// The state of a queue.
pub fn state(is_complete: bool, is_closed: bool) -> Badge {
    match (is_complete, is_closed) {
        (true, _) => Badge::good("Complete"),
        (false, true) => Badge::plain("⊘", "Closed"),
        (false, false) => Badge::info("Open"),
    }
}

/// `GET /console/review`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let query = query.filled();
    let before = query.whole("before", 1, i64::MAX.unsigned_abs())?;
    let before = before.and_then(|it| i64::try_from(it).ok());
    let may_answer = visit.may(Scope::ApprovalsRespond);
    let (questions, is_partial) = match may_answer {
        true => approvals::cards(&api, &visit).await?,
        false => (Vec::new(), false),
    };
    let reviews = &api.runs.human_reviews;
    let mut found = reviews.list(visit.tenant(), before, QUEUES + 1).await?;
    let more = found.len() > QUEUES as usize;
    found.truncate(QUEUES as usize);
    let last = found.last().filter(|_| more);
    html(&Page {
        chrome: visit.chrome(Section::Review),
        back: "review",
        may_answer,
        may_explain: visit.may(Scope::RunsCreate),
        questions,
        is_partial,
        may_create: visit.may(Scope::GatesWrite),
        is_first: before.is_none(),
        next: last.map(|it| format!("/console/review?before={}", it.number)),
        queues: found.iter().map(Row::of).collect(),
    })
}
