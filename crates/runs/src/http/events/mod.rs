//! `GET /v1/runs/{runId}/events`: the event stream, or its backlog as JSON for a client that
//! accepts only JSON.

pub mod form;
pub mod poll;
pub mod stream;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Method};

use crate::http::RunsApi;
use crate::http::events::form::{form_for, page_for, streamed_up_to};
use crate::http::events::poll::collect;
use crate::http::events::stream::Subscription;
use crate::http::events::stream::mode::{Mode, StreamOptions};
use crate::http::extract::OwnRun;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::http::negotiation::Spoken;
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_openwop::wire::Major;

pub fn routes(table: Table<RunsApi>) -> Table<RunsApi> {
    let get = &Method::GET;
    table
        .waiting(get, "/v1/runs/{runId}/events", Scope::RunsRead, stream)
        .waiting(
            get,
            "/v1/runs/{runId}/events/poll",
            Scope::RunsRead,
            poll::poll,
        )
}

/// `GET /v1/runs/{runId}/events`.
pub async fn stream(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    Spoken(major): Spoken,
    query: Query,
    headers: HeaderMap,
    OwnRun(record): OwnRun,
) -> Answer {
    let run = &record.run_id;
    let options = StreamOptions::parse(&query)?;
    let place = state.host.subscribers.enter(&caller.tenant)?;
    let head = state
        .log
        .head(run)
        .await
        .map_err(|cause| internal(&cause))?;
    let form = form_for(&record, &caller, major);
    let position = streamed_up_to(&state, &record, &form, &headers).await?;
    if let (true, Mode::Events(filter)) = (only_json(&headers), options.mode) {
        return collect(&state, &record, &form, position, head, filter).await;
    }
    if major == Major::V2 && matches!(options.mode, Mode::Events(_)) && position < head.sequence {
        // A log that cannot be shown is an error. A stream that ends at once would say that it is over.
        page_for(&state, &record, &form, position, head.sequence).await?;
    }
    let subscription = Subscription {
        state: state.clone(),
        caller,
        run: record,
        form,
        position,
        head,
        place,
    };
    Ok(subscription.into_response(options))
}

/// Whether the client accepts JSON and no event stream.
fn only_json(headers: &HeaderMap) -> bool {
    let accepted = |kind: &str| {
        headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|range| range.split(';').next())
            .any(|range| range.trim().eq_ignore_ascii_case(kind))
    };
    accepted("application/json") && !accepted("text/event-stream") && !accepted("text/*")
}
