//! `/api/v1/assessments`.

pub mod appeals;
pub mod audits;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::http::page::Page;
use crate::ports::Position;
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord, Stage};
use crate::rules::assessment::improvement::areas;
use crate::rules::assessment::order::{Order, Review};
use crate::rules::scoring::interval::Intervals;
use crate::rules::stress_test::library::{Plan, Test};
use crate::rules::{Axis, Config};
use crate::service::assessments::{estimated_completion, needs_review, valid_until};
use crate::service::stress_tests::run_of;
use crate::service::{Member, Ratings};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{
    IdempotencyKey, JsonBody, OptionalJsonBody, PathParameters, Query, RequestKey,
};
use touchstone_host::http::idempotency::{Done, once, once_per_principal};
use touchstone_kit::error::Problem;

/// `POST /api/v1/assessments`.
pub async fn order(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let order = Order::parse(&body)?;
    let endpoint = "POST /api/v1/assessments".to_owned();
    ordered(state, member, endpoint, key, &body, order).await
}

/// `POST /api/v1/agents/{agentId}/stress-test`.
pub async fn stress_test(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let id = path.get("agentId").to_owned();
    // Check that the agent exists and belongs to the caller before validating the body.
    state.ratings.agent(&member, &id).await?;
    let order = Order::stress_test(&id, &body)?;
    let endpoint = format!("POST /api/v1/agents/{id}/stress-test");
    ordered(state, member, endpoint, key, &body, order).await
}

/// `POST /api/v1/assessments/{assessmentId}/stress-test`: orders a new assessment of the same agent
/// and window, with a stress test.
pub async fn add_stress_test(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let id = path.get("assessmentId").to_owned();
    let earlier = state.ratings.assessment(&member, &id).await?;
    let order = Order::repeated(&earlier.agent, &earlier.request.assessment, &body)?;
    let endpoint = format!("POST /api/v1/assessments/{id}/stress-test");
    ordered(state, member, endpoint, key, &body, order).await
}

async fn ordered(
    state: Arc<RatingsApi>,
    member: Member,
    endpoint: String,
    key: Option<RequestKey>,
    body: &Value,
    order: Order,
) -> Answer {
    let (host, caller) = (state.clone(), member.caller.clone());
    once(&state.host, &caller, endpoint, key, body, |_| async move {
        // A replay under the same idempotency key does not count against the limit.
        host.allowances.assessment(&member.caller.key_id)?;
        let assessment = host.ratings.order(&member, &order).await?;
        Ok(Done::new(
            StatusCode::ACCEPTED,
            accepted(assessment, &member, &host.ratings),
        ))
    })
    .await
}

/// `GET /api/v1/assessments/{assessmentId}/stress-test`.
pub async fn stress_results(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let results = state
        .ratings
        .stress_results(&member, path.get("assessmentId"))
        .await?;
    json(StatusCode::OK, &json!({"data": results}))
}

/// `GET /api/v1/assessments`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    query: Query,
) -> Answer {
    let page = Page::<Position>::of(&query)?;
    let stage = query.get("status").map(|name| {
        Stage::parse(name).ok_or_else(|| {
            let known: Vec<&str> = Stage::ALL.iter().map(|it| it.as_str()).collect();
            let message = format!("`status` must be one of {}", known.join(", "));
            Problem::validation("status", message)
        })
    });
    let (agent, stage) = (query.get("agent_id"), stage.transpose()?);
    let (after, fetch_limit) = (page.after.as_ref(), page.fetch_limit());
    let assessments = state
        .ratings
        .assessments(&member, agent, stage, after, fetch_limit)
        .await?;
    page.answer(assessments, AssessmentRecord::position, |it| {
        to_json(it, &member, &state.ratings)
    })
}

/// `GET /api/v1/assessments/{assessmentId}`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
) -> Answer {
    let assessment = state
        .ratings
        .assessment(&member, path.get("assessmentId"))
        .await?;
    json(
        StatusCode::OK,
        &to_json(&assessment, &member, &state.ratings),
    )
}

/// `POST /api/v1/assessments/{assessmentId}/review`.
pub async fn review(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("assessmentId").to_owned();
    // Check that the assessment exists and belongs to the caller before validating the body.
    state.ratings.assessment(&member, &id).await?;
    let review = Review::parse(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = format!("POST /api/v1/assessments/{id}/review");
    once_per_principal(&state.host, &caller, endpoint, key, &body, |_| async move {
        let reviewed = ratings.review(&member, &id, review).await?;
        Ok(Done::new(
            StatusCode::OK,
            to_json(&reviewed, &member, &ratings),
        ))
    })
    .await
}

/// The answer to an order. The assessment is shown as in progress, whichever replica claims it.
fn accepted(mut assessment: AssessmentRecord, member: &Member, ratings: &Ratings) -> Value {
    assessment.stage = Stage::InProgress;
    to_json(&assessment, member, ratings)
}

/// The document of an assessment.
pub fn to_json(it: &AssessmentRecord, member: &Member, ratings: &Ratings) -> Value {
    let request = &it.request;
    let kind = request.assessment.kind;
    let (badge_id, badge_state) = badge(it);
    let public = it.badge.as_ref().filter(|badge| badge.state.is_public());
    let axis = |result: Option<&Value>, axis: Axis| result?.get(axis.as_str()).cloned();
    let (mut result, mut calibration, mut review, mut error) = (None, None, None, None);
    let mut not_certified = None;
    let (mut intervals, mut improvement_areas) = (None, Vec::new());
    match &it.outcome {
        None => {}
        Some(AssessmentOutcome::Scored {
            result: scores,
            calibration: compared,
            uncertified,
            review: decided,
            intervals: limits,
            ..
        }) => {
            result = Some(scores);
            intervals = Some(limits);
            if let Ok(config) = Config::read(&request.config) {
                improvement_areas = areas(scores, &config);
            }
            calibration = compared.as_ref();
            review = decided.as_ref();
            not_certified = uncertified.as_ref();
        }
        Some(AssessmentOutcome::Failed {
            code,
            message,
            details,
        }) => error = Some(json!({"code": code, "message": message, "details": details})),
    }
    json!({
        "id": it.id,
        "organization_id": member.organization.id,
        "agent_id": it.agent,
        "type": kind.as_str(),
        "dimension": kind.dimension(),
        "include_stress_test": request.stress_test.is_some(),
        "stress_test": request.stress_test.as_ref().map(|stress| tests(&stress.plan, &it.id)),
        "stress_test_omitted": request.stress_test_omitted,
        "status": it.stage,
        "estimated_completion": estimated_completion(it),
        "window_start": request.assessment.window_start,
        "window_end": request.assessment.window_end,
        "triggered_by": request.triggered_by,
        "created_at": it.created_at,
        "started_at": it.started_at,
        "completed_at": it.ended_at,
        "config_snapshot": request.config,
        "performance": axis(result, Axis::Performance),
        "capability": axis(result, Axis::Capability),
        "result": result,
        "calibration": calibration,
        "review_required": needs_review(it),
        "review": review,
        "intervals": intervals.unwrap_or(&Intervals::new()),
        "improvement_areas": improvement_areas,
        "badge_id": badge_id,
        "badge_state": badge_state,
        "badge_urls": public.map(|_| badge_urls(&ratings.badge_address(&it.id))),
        "valid_until": valid_until(it),
        "not_certified": not_certified,
        "error": error,
    })
}

/// Id and state of the newest badge of an assessment. The state is `none` if there is nothing to
/// certify, or not yet.
fn badge(assessment: &AssessmentRecord) -> (Option<&str>, &'static str) {
    match &assessment.badge {
        Some(badge) => (Some(&badge.id), badge.state.as_str()),
        None => (None, "none"),
    }
}

/// The address of a badge in each format.
pub(super) fn badge_urls(address: &str) -> Value {
    json!({
        "svg": format!("{address}.svg"),
        "png": format!("{address}.png"),
        "json": format!("{address}.json"),
    })
}

/// The tests that run, and those left out with the reason.
fn tests(plan: &Plan, assessment: &str) -> Value {
    let run = |test: &Test| json!({"test": test, "dimension": test.dimension(), "run_id": run_of(assessment, *test)});
    let subject = &plan.subject;
    json!({
        "openwop_agent": subject.reached_by.is_none().then_some(&subject.agent),
        "reached_by": subject.reached_by,
        "tests": plan.tests.iter().map(run).collect::<Vec<_>>(),
        "left_out": plan.left_out,
    })
}
