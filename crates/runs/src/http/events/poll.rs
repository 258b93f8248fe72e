//! `GET /v1/runs/{runId}/events/poll`: the events after a position; waits if there are none yet.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::time::{Instant, timeout_at};

use crate::http::RunsApi;
use crate::http::events::form::{form_for, in_its_form, page_for, polled_up_to};
use crate::http::extract::OwnRun;
use crate::rules::run::record::RunRecord;
use crate::rules::run::snapshot::visible_status;
use crate::service::log_reader::LogForm;
use crate::service::log_reader::filter::Filter;
use crate::service::log_reader::memory::OutOfMemory;
use crate::service::log_reader::page::PAGE_BYTES;
use crate::store;
use touchstone_host::http::answer::{Answer, Failure, json_text};
use touchstone_host::http::extract::Query;
use touchstone_host::http::negotiation::Spoken;
use touchstone_host::ports::run_log::Head;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::v2::Poll;

const DEFAULT_TIMEOUT_S: u64 = 30;
const LONGEST_TIMEOUT_S: u64 = 60;
/// Maximum size of a response in bytes, unless a single event is larger.
const ENOUGH_BYTES: usize = PAGE_BYTES;

/// `GET /v1/runs/{runId}/events/poll`.
pub async fn poll(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
    Spoken(major): Spoken,
    query: Query,
    OwnRun(record): OwnRun,
) -> Answer {
    let run = &record.run_id;
    let form = form_for(&record, &caller, major);
    let after = polled_up_to(&query, &form)?;
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
    collect(&state, &record, &form, after, head, Filter::DEBUG).await
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
/// The store failed, or an event has no form under the major.
pub async fn collect(
    state: &RunsApi,
    record: &RunRecord,
    form: &LogForm,
    after: u64,
    mut head: Head,
    filter: Filter,
) -> Result<Response, Failure> {
    let run = &record.run_id;
    let mut poll = Poll {
        tenant: record.tenant.as_str(),
        run: run.as_str(),
        last_sequence: None,
        status: "",
        is_terminal: false,
    };
    let mut text = match form.major {
        Major::V1 => Vec::from(br#"{"events":["#.as_slice()),
        Major::V2 => poll.head().into_bytes(),
    };
    let mut position = after;
    let (_turn, permit) = state.log.memory().reserve_response().await.map_err(full)?;
    'pages: while position < head.sequence {
        let page = page_for(state, record, form, position, head.sequence).await?;
        for event in page.events_after(position) {
            // The next poll gets the events that do not fit: it starts after the last one of this
            // response.
            if filter.passes(form.major, &event.kind) {
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
    let end = match form.major {
        Major::V1 => format!(r#"],"isComplete":{complete}}}"#),
        Major::V2 => {
            // Clients poll on after `lastSequence`: it must not pass events that did not fit.
            let reached = head.sequence.min(position);
            poll.last_sequence = (reached > 0).then(|| form.numbers().sequence(reached));
            poll.is_terminal = complete;
            poll.status = status(state, record).await?;
            poll.tail()
        }
    };
    text.extend_from_slice(end.as_bytes());
    let response = json_text(StatusCode::OK, permit.hold(text));
    Ok(in_its_form(response))
}

/// The run's status, as its snapshot shows it.
async fn status(state: &RunsApi, run: &RunRecord) -> Result<&'static str, Problem> {
    let cancelling = store::queue::cancel_requested(&state.host.store, &run.run_id).await;
    let cancelling = cancelling.map_err(|cause| internal(&cause))?.is_some();
    let runs = &state.runs;
    runs.with_sums(run, |folded| visible_status(folded, cancelling).as_str())
        .await
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
