//! `GET /v1/runs/{runId}/events/poll`: the events after a position; waits if there are none yet.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::time::{Instant, timeout_at};

use crate::http::RunsApi;
use crate::http::events::visible;
use crate::http::extract::OwnRun;
use crate::rules::run::record::RunRecord;
use crate::service::log_reader::Error;
use crate::service::log_reader::filter::Filter;
use crate::service::log_reader::memory::OutOfMemory;
use crate::service::log_reader::page::{PAGE_BYTES, Page};
use touchstone_host::http::answer::{Answer, Failure, json_text};
use touchstone_host::http::extract::Query;
use touchstone_host::ports::run_log::Head;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;

const DEFAULT_TIMEOUT_S: u64 = 30;
const LONGEST_TIMEOUT_S: u64 = 60;
/// Maximum size of a response in bytes, unless a single event is larger.
const ENOUGH_BYTES: usize = PAGE_BYTES;

/// `GET /v1/runs/{runId}/events/poll`.
pub async fn poll(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    OwnRun(record): OwnRun,
) -> Answer {
    let run = &record.run_id;
    let after = query
        .whole("lastSequence", 0, u64::MAX)?
        .unwrap_or_default();
    let timeout = query
        .whole("timeout", 1, LONGEST_TIMEOUT_S)?
        .unwrap_or(DEFAULT_TIMEOUT_S);
    let _place = state.host.subscribers.enter(&caller.tenant)?;
    let mut head = state
        .log
        .head(run)
        .await
        .map_err(|cause| internal(&cause))?;
    if head.sequence <= after && !head.ended {
        head = wait(&state, run, after, head, Duration::from_secs(timeout)).await;
    }
    collect(&state, &caller, &record, after, head, Filter::Everything).await
}

/// Waits for an event after `after`, the end of the run, the timeout, or shutdown.
async fn wait(state: &RunsApi, run: &RunId, after: u64, head: Head, patience: Duration) -> Head {
    let until = Instant::now() + patience;
    let mut follow = state.log.follow(run, head);
    loop {
        let current = follow.head();
        if current.sequence > after || current.ended {
            return current;
        }
        tokio::select! {
            () = state.host.shutdown.cancelled() => return head,
            changed = timeout_at(until, follow.changed()) => if changed.is_err() {
                return head;
            },
        }
    }
}

/// The response: the events after a position, as many as fit, and whether the log is complete with
/// them.
///
/// # Errors
/// The store failed.
pub async fn collect(
    state: &RunsApi,
    caller: &Caller,
    record: &RunRecord,
    after: u64,
    mut head: Head,
    filter: Filter,
) -> Result<Response, Failure> {
    let run = &record.run_id;
    let mut text = Vec::from(br#"{"events":["#.as_slice());
    let mut position = after;
    let (_turn, permit) = state.log.memory().reserve_response().await.map_err(full)?;
    'pages: while position < head.sequence {
        let page = read_page(state, run, position, head.sequence).await?;
        let page = visible(page, record, caller);
        for event in page.events_after(position) {
            // The next poll gets the events that do not fit: it starts after the last one of this
            // response.
            if filter.passes(&event.kind) {
                let first = text.ends_with(b"[");
                if !first && text.len() + event.body.len() > ENOUGH_BYTES {
                    break 'pages;
                }
                if !first {
                    text.push(b',');
                }
                text.extend_from_slice(&event.body);
            }
            position = event.sequence;
        }
        if position > head.sequence {
            // The page contains events that arrived after the head was read, maybe the last one.
            head = state
                .log
                .head(run)
                .await
                .map_err(|cause| internal(&cause))?;
        }
    }
    let complete = head.ended && position >= head.sequence;
    text.extend_from_slice(format!(r#"],"isComplete":{complete}}}"#).as_bytes());
    Ok(json_text(StatusCode::OK, permit.hold(text)))
}

async fn read_page(
    state: &RunsApi,
    run: &RunId,
    position: u64,
    head: u64,
) -> Result<Arc<Page>, Problem> {
    let page = state.log.page_after(run, position, head).await;
    page.map_err(|cause| match cause {
        Error::OutOfMemory(cause) => full(cause),
        cause => internal(&cause),
    })
}

/// The error when there is not enough memory for event logs at the moment.
pub fn full(_: OutOfMemory) -> Problem {
    Problem::new(
        ErrorCode::RateLimited,
        "not enough memory to read event logs; retry after the time in `Retry-After`",
    )
    .with("scope", "route")
    .with("retryAfterMs", 1000)
}
