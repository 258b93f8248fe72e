//! `/api/v1/events`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::http::page::Page;
use crate::ports::events::{EventFilter, EventPosition, EventRecord};
use crate::rules::assessment::order::Collection;
use crate::rules::evidence::RejectedEvent;
use crate::service::Member;
use crate::service::evidence::MAX_BATCH;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, OptionalJsonBody, Query};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::ports::idempotency::IdempotencyClaim;
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::fields::{Fields, Nulls};

/// `POST /api/v1/events`.
pub async fn record(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let (host, caller, document) = (state.clone(), member.caller.clone(), body.clone());
    let endpoint = endpoint_of_principal(&caller, "POST /api/v1/events");
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &body,
        |claim| async move {
            host.allowances.events(&member.caller.key_id, 1)?;
            let attempt = claim.as_ref().map(IdempotencyClaim::names);
            let recorded = host.ratings.ingest_one(&member, document, attempt).await?;
            let status = match recorded.new {
                true => StatusCode::CREATED,
                false => StatusCode::OK,
            };
            Ok(Done::new(status, to_json(&recorded.event)))
        },
    )
    .await
}

/// `POST /api/v1/events/batch`.
pub async fn record_batch(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let many = documents(&body)?.len();
    let (host, caller, request) = (state.clone(), member.caller.clone(), body.clone());
    let endpoint = endpoint_of_principal(&caller, "POST /api/v1/events/batch");
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &body,
        |claim| async move {
            host.allowances.events(&member.caller.key_id, many)?;
            let attempt = claim.as_ref().map(IdempotencyClaim::names);
            let events = documents(&request)?;
            let ingested = host.ratings.ingest(&member, events, attempt).await?;
            let (accepted, errors) = (ingested.accepted, json!(ingested.errors));
            let rejected = ingested.errors.len();
            if accepted == 0 {
                let is_conflict = |it: &RejectedEvent| it.code == Some(RejectedEvent::CONFLICT);
                let code = match ingested.errors.iter().all(is_conflict) {
                    true => ErrorCode::Conflict,
                    false => ErrorCode::ValidationError,
                };
                return Err(Problem::new(
                code,
                "no event of the batch was recorded; `details.errors` gives the reason for each",
            )
            .with("accepted", accepted)
            .with("rejected", rejected)
            .with("errors", errors));
            }
            let new = ingested.new;
            let body =
                json!({"accepted": accepted, "new": new, "rejected": rejected, "errors": errors});
            Ok(Done::new(StatusCode::CREATED, body))
        },
    )
    .await
}

/// `POST /api/v1/events/collect`.
pub async fn collect(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    IdempotencyKey(key): IdempotencyKey,
    OptionalJsonBody(body): OptionalJsonBody,
) -> Answer {
    let collection = Collection::parse(&body)?;
    let (host, caller) = (state.clone(), member.caller.clone());
    let endpoint = "POST /api/v1/events/collect".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        host.allowances.events(&member.caller.key_id, 1)?;
        let summary = host.ratings.collect_runs(&member, &collection).await?;
        Ok(Done::new(StatusCode::OK, json!(summary)))
    })
    .await
}

/// Scopes idempotency keys to the principal. The recorder of an event decides which of its
/// statements count, so replaying one principal's answer to another would lose the other's event.
fn endpoint_of_principal(caller: &Caller, endpoint: &str) -> String {
    format!("{endpoint} by {}", caller.principal)
}

fn documents(body: &Value) -> Result<&[Value], Problem> {
    let fields = Fields::closed(body, "", &["events"], Nulls::Wrong)?;
    match fields.get("events") {
        Some(Value::Array(events)) if (1..=MAX_BATCH).contains(&events.len()) => Ok(events),
        _ => Err(fields.invalid(
            "events",
            &format!("must be a list of 1 to {MAX_BATCH} events"),
        )),
    }
}

/// `GET /api/v1/events`.
pub async fn list(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    query: Query,
) -> Answer {
    let page = Page::<EventPosition>::of(&query)?;
    let filter = EventFilter {
        agent: None,
        kind: query.get("type").map(str::to_owned),
        from: moment(&query, "from")?,
        to: moment(&query, "to")?,
    };
    let agent = query.get("agent_id");
    let events = state
        .ratings
        .events(&member, agent, filter, page.after, page.fetch_limit());
    page.answer(events.await?, EventRecord::position, to_json)
}

/// A parameter that is a timestamp, or a day, which stands for its first moment in UTC.
fn moment(query: &Query, name: &str) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = query.get(name) else {
        return Ok(None);
    };
    let day = || {
        let day = Date::strptime("%Y-%m-%d", text).ok()?;
        Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    text.parse().ok().or_else(day).map(Some).ok_or_else(|| {
        let message = format!(
            "`{name}` must be a timestamp such as 2026-04-16T12:00:00Z, or a day such as 2026-04-16"
        );
        Problem::validation(name, message)
    })
}

fn to_json(event: &EventRecord) -> Value {
    json!({
        "id": event.id,
        "agent_id": event.agent,
        "type": event.kind,
        "timestamp": event.occurred_at,
        "recorded_at": event.recorded_at,
        "source": event.source,
        "recorder": event.recorder,
        "recorded_by": event.recorded_by,
        "data": event.data,
    })
}
