//! One queue: progress, agreement, disputed answers, calibration.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;

use crate::api::ConsoleApi;
use crate::page::answer::{html, see_other, segment};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::review::{list, queue_page, words};
use crate::runs::task_page;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_runs::rules::eval::rubric::attempt::{Attempt, Status};
use touchstone_runs::rules::review::agreement::disputed;
use touchstone_runs::rules::review::turn::{Turn, turn};
use touchstone_runs::rules::review::{Review, ReviewItem};
use touchstone_runs::service::reviews::{Readiness, ReviewState};

/// Disputed answers that are shown.
const DISPUTED: usize = 100;
/// The fewest samples that a preliminary calibration can use.
const PRELIMINARY: usize = 4;

#[derive(Template)]
#[template(path = "review/queue.html")]
struct Page {
    chrome: Chrome,
    id: String,
    href: String,
    run: String,
    suite: String,
    state: Badge,
    /// Empty for people who label: it shows an outcome.
    drawn: String,
    scale: String,
    labellers: u8,
    created: Time,
    created_by: String,
    answers: usize,
    labels: usize,
    needed: usize,
    people: Vec<(String, usize)>,
    mine: Mine,
    agreement: Option<Agreement>,
    has_ended: bool,
    disputed: Vec<Disputed>,
    more_disputed: usize,
    may_manage: bool,
    calibration: Calibration,
    attempt: Option<AttemptView>,
}

/// The actions that are open to the person in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mine {
    Label,
    Wait,
    Finished,
    Ended,
    NoScope,
    NoContent,
}

impl Mine {
    fn of(visit: &Visit, state: &ReviewState, now: Timestamp) -> Self {
        if state.has_ended() {
            return Self::Ended;
        }
        if !visit.may(Scope::ReviewsWrite) {
            return Self::NoScope;
        }
        if !visit.may(Scope::RunsContent) {
            return Self::NoContent;
        }
        let labellers = state.review.labellers;
        match turn(&state.items, &visit.caller.principal, labellers, now, 0) {
            Turn::Item(_) => Self::Label,
            Turn::Waiting => Self::Wait,
            Turn::Finished => Self::Finished,
        }
    }
}

struct Agreement {
    items: usize,
    equal: String,
    kappa: String,
    alpha: String,
    meaning: &'static str,
}

struct Disputed {
    href: String,
    task: String,
    labels: Vec<(String, String, String)>,
}

impl Disputed {
    fn of(review: &Review, item: &ReviewItem) -> Self {
        let labels = item.labels.iter().map(|it| {
            let note = it.note.as_deref().map(plain).unwrap_or_default();
            (
                plain(&it.principal),
                words::chosen(it.choice, review.steps),
                note,
            )
        });
        Self {
            href: task_page(&review.run_id, &item.task),
            task: plain(item.task.as_str()),
            labels: labels.collect(),
        }
    }
}

/// Whether the labels can calibrate the judge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calibration {
    /// People still label.
    Early,
    /// No judge decides the answers.
    NoJudge,
    /// Too few, also for a preliminary one.
    TooFew(Readiness),
    Preliminary(Readiness),
    Ready(Readiness),
}

impl Calibration {
    fn of(state: &ReviewState) -> Self {
        let found = state.calibration;
        match found.usable {
            _ if !state.has_ended() => Self::Early,
            0 => Self::NoJudge,
            usable if usable < PRELIMINARY => Self::TooFew(found),
            usable if usable < found.needed => Self::Preliminary(found),
            _ => Self::Ready(found),
        }
    }
}

struct AttemptView {
    state: Badge,
    text: String,
}

impl AttemptView {
    fn of(attempt: &Attempt) -> Self {
        let (judged, samples) = (attempt.judged, attempt.samples);
        match (attempt.status, &attempt.calibration) {
            (Status::Completed, Some(found)) => Self {
                state: Badge::good("Calibrated"),
                text: format!(
                    "The judge and people rank {} answers with a correlation of {:.2}.",
                    found.samples, found.spearman
                ),
            },
            (Status::Running, _) => Self {
                state: Badge::info("Running"),
                text: format!("{judged} of {samples} answers are judged. Load the page again."),
            },
            (Status::Completed | Status::Failed, _) => {
                let why = attempt.failure.as_ref();
                Self {
                    state: Badge::bad("Failed"),
                    text: why.map_or_else(String::new, |it| plain(&it.message)),
                }
            }
        }
    }
}

/// The attempt that the address names, if it is still stored.
async fn attempt(
    api: &ConsoleApi,
    visit: &Visit,
    query: &Query,
) -> Result<Option<AttemptView>, Problem> {
    let Some(id) = query.get("calibration").filter(|it| !it.is_empty()) else {
        return Ok(None);
    };
    let runs = &api.runs.runs;
    match runs.calibration_attempt(visit.tenant(), id).await {
        Ok(attempt) => Ok(Some(AttemptView::of(&attempt))),
        Err(problem) if problem.code == ErrorCode::NotFound => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn people(state: &ReviewState) -> Vec<(String, usize)> {
    let mut people = BTreeMap::new();
    for label in state.items.iter().flat_map(|it| &it.labels) {
        *people.entry(plain(&label.principal)).or_insert(0) += 1;
    }
    people.into_iter().collect()
}

fn agreement(state: &ReviewState) -> Option<Agreement> {
    let found = &state.agreement;
    (state.review.labellers > 1).then(|| Agreement {
        items: found.items,
        equal: words::percent(found.equal),
        kappa: words::coefficient(found.cohen_kappa),
        alpha: words::coefficient(found.krippendorff_alpha),
        meaning: words::meaning(found),
    })
}

/// `GET /console/review/queues/{reviewId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    query: Query,
) -> Answer {
    let reviews = &api.runs.human_reviews;
    let id = path.get("reviewId");
    let state = reviews.show(visit.tenant(), id).await?;
    let review = &state.review;
    let has_ended = state.has_ended();
    let may_manage = visit.may(Scope::GatesWrite);
    // Disputes name labels, which people who still label must not see.
    let disputed = match has_ended {
        true => disputed(review, &state.items),
        false => Vec::new(),
    };
    html(&Page {
        chrome: visit.chrome(Section::Review),
        id: review.review_id.clone(),
        href: queue_page(&review.review_id),
        run: review.run_id.to_string(),
        suite: plain(&review.suite),
        state: list::state(state.is_complete(), review.closed_at.is_some()),
        drawn: match may_manage || has_ended {
            true => words::drawn(review),
            false => String::new(),
        },
        scale: words::scale(review),
        labellers: review.labellers,
        created: review.created_at.into(),
        created_by: plain(&review.created_by),
        answers: review.items,
        labels: state.labels,
        needed: review.needed(),
        people: people(&state),
        mine: Mine::of(&visit, &state, api.host.clock.now()),
        agreement: agreement(&state),
        has_ended,
        more_disputed: disputed.len().saturating_sub(DISPUTED),
        disputed: disputed
            .iter()
            .take(DISPUTED)
            .map(|it| Disputed::of(review, it))
            .collect(),
        may_manage,
        calibration: Calibration::of(&state),
        attempt: attempt(&api, &visit, &query).await?,
    })
}

/// `POST /console/review/queues/{reviewId}/close`.
pub async fn close(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let id = path.get("reviewId");
    let reviews = &api.runs.human_reviews;
    reviews.close(&visit.caller, id, None).await?;
    Ok(see_other(&format!("{}?done=review-closed", queue_page(id))))
}

/// `POST /console/review/queues/{reviewId}/calibrate`.
pub async fn calibrate(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    form: Form,
) -> Answer {
    let id = path.get("reviewId");
    let allow_few = form.get("few").is_some();
    let reviews = &api.runs.human_reviews;
    let attempt = reviews.calibrate(&visit.caller, id, allow_few).await?;
    Ok(see_other(&format!(
        "{}?done=calibrating&calibration={}#calibration",
        queue_page(id),
        segment(&attempt.calibration_id)
    )))
}
