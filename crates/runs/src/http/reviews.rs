//! Human reviews: queues of answers that people label.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::ports::reviews::ListedReview;
use crate::rules::review::request::{NewLabel, NewReview};
use crate::rules::review::turn::Turn;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{
    IdempotencyKey, JsonBody, OptionalJsonBody, PathParameters, Query, closed,
};
use touchstone_host::http::idempotency::{Done, once, once_per_principal};
use touchstone_host::http::routes::Table;
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};

const REVIEWS: &str = "/v1/host/touchstone/reviews";
const MAX_LISTED: u32 = 100;

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let (get, post) = (&Method::GET, &Method::POST);
    table
        .keyed(get, REVIEWS, Scope::RunsRead, list)
        .keyed(post, REVIEWS, Scope::GatesWrite, create)
        .keyed(
            get,
            "/v1/host/touchstone/reviews/{reviewId}",
            Scope::RunsRead,
            show,
        )
        .keyed(
            get,
            "/v1/host/touchstone/reviews/{reviewId}/next",
            Scope::ReviewsWrite,
            next,
        )
        .keyed(
            get,
            "/v1/host/touchstone/reviews/{reviewId}/samples",
            Scope::RunsContent,
            samples,
        )
        .keyed(
            post,
            "/v1/host/touchstone/reviews/{reviewId}/items/{item}/label",
            Scope::ReviewsWrite,
            label,
        )
        .keyed(
            post,
            "/v1/host/touchstone/reviews/{reviewId}/close",
            Scope::GatesWrite,
            close,
        )
}

/// The number of an answer in a path.
///
/// # Errors
/// `not_found`.
pub fn item_number(path: &PathParameters) -> Result<u32, Problem> {
    let text = path.get("item");
    let digits = text.bytes().all(|it| it.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Problem::new(ErrorCode::NotFound, "the review has no such answer"))
}

fn value(document: &impl Serialize) -> Result<Value, Problem> {
    serde_json::to_value(document).map_err(|cause| internal(&cause))
}

/// `GET /v1/host/touchstone/reviews`.
pub async fn list(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Answer {
    let before = query.whole("before", 1, i64::MAX.unsigned_abs())?;
    let before = before.and_then(|it| i64::try_from(it).ok());
    let limit = query.whole("limit", 1, u64::from(MAX_LISTED))?;
    let limit = limit.and_then(|it| u32::try_from(it).ok());
    let limit = limit.unwrap_or(MAX_LISTED);
    let reviews = &state.human_reviews;
    let mut found = reviews.list(&caller.tenant, before, limit + 1).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| more).map(|it| it.number);
    let listed = |it: &ListedReview| -> Result<Value, Problem> {
        let mut shown = value(&it.review)?;
        if let Some(members) = shown.as_object_mut() {
            members.insert("labels".to_owned(), it.labels.into());
        }
        Ok(shown)
    };
    let listed = found.iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    let mut body = json!({"reviews": listed});
    if let (Some(next), Some(members)) = (next, body.as_object_mut()) {
        members.insert("before".to_owned(), next.into());
    }
    json(StatusCode::OK, &body)
}

/// `POST /v1/host/touchstone/reviews`.
pub async fn create(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let new = NewReview::parse(&body)?;
    let (reviews, who) = (state.human_reviews.clone(), caller.clone());
    let endpoint = format!("POST {REVIEWS}");
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let review = reviews.create(&who, new, claim.as_ref()).await?;
        Ok(Done::new(StatusCode::CREATED, value(&review)?).recorded(claim.is_some()))
    };
    once(&state.host, &caller, endpoint, key, &body, operation).await
}

/// `GET /v1/host/touchstone/reviews/{reviewId}`.
pub async fn show(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let id = path.get("reviewId");
    let found = state.human_reviews.show(&caller.tenant, id).await?;
    json(StatusCode::OK, &found)
}

/// `GET /v1/host/touchstone/reviews/{reviewId}/next`. Keeps the answer for the caller for a while,
/// and changes nothing else.
pub async fn next(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    query: Query,
) -> Answer {
    let id = path.get("reviewId");
    let after = query.whole("after", 0, u64::from(u32::MAX))?;
    let after = after.and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
    let reviews = &state.human_reviews;
    let turn = reviews.next(&caller, id, after).await?;
    let body = match turn {
        Turn::Item(number) => json!({"item": reviews.item(&caller, id, number).await?}),
        Turn::Waiting => json!({"item": null, "waiting": true}),
        Turn::Finished => json!({"item": null, "waiting": false}),
    };
    json(StatusCode::OK, &body)
}

/// `GET /v1/host/touchstone/reviews/{reviewId}/samples`.
pub async fn samples(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
) -> Answer {
    let id = path.get("reviewId");
    let found = state.human_reviews.samples(&caller, id).await?;
    json(StatusCode::OK, &found)
}

/// `POST /v1/host/touchstone/reviews/{reviewId}/items/{item}/label`.
pub async fn label(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("reviewId").to_owned();
    let number = item_number(&path)?;
    let new = NewLabel::parse(&body)?;
    let (reviews, who) = (state.human_reviews.clone(), caller.clone());
    let endpoint = format!("POST {REVIEWS}/{id}/items/{number}/label");
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let label = reviews
            .label(&who, &id, number, new, claim.as_ref())
            .await?;
        Ok(Done::new(StatusCode::OK, value(&label)?).recorded(claim.is_some()))
    };
    once_per_principal(&state.host, &caller, endpoint, key, &body, operation).await
}

/// `POST /v1/host/touchstone/reviews/{reviewId}/close`.
pub async fn close(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Empty {}
    closed::<Empty>(&body)?;
    let id = path.get("reviewId").to_owned();
    let (reviews, who) = (state.human_reviews.clone(), caller.clone());
    let endpoint = format!("POST {REVIEWS}/{id}/close");
    let operation = |claim: Option<IdempotencyClaim>| async move {
        let review = reviews.close(&who, &id, claim.as_ref()).await?;
        Ok(Done::new(StatusCode::OK, value(&review)?).recorded(claim.is_some()))
    };
    once(&state.host, &caller, endpoint, key, &body, operation).await
}
