//! Event streams over SSE (OpenWOP stream-modes, rest-endpoints).
//!
//! A stream is only a position in the log: the backlog and the live part are read the same way, so
//! no event is lost or doubled between them. A stream ends after the terminal event, on shutdown,
//! and when its API key is revoked; a client resumes with `Last-Event-ID`.

pub mod annotated;
pub mod batch;
pub mod mode;
pub mod values;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::info;

use crate::http::RunsApi;
use crate::http::events::form::page_for;
use crate::http::events::stream::annotated::AnnotationFeed;
use crate::http::events::stream::batch::Window;
use crate::http::events::stream::mode::{Mode, StreamOptions};
use crate::rules::run::record::RunRecord;
use crate::service::log_reader::LogForm;
use crate::service::log_reader::filter::Filter;
use crate::service::log_reader::follower::Follow;
use crate::service::log_reader::memory::WAIT;
use crate::store;
use touchstone_host::http::limits::subscribers::SubscriberSlot;
use touchstone_host::http::server::STALL_TIMEOUT;
use touchstone_host::ports::run_log::Head;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::chain;
use touchstone_kit::ids::RunId;

/// Sent at once on an unfinished run, so that a client behind a proxy knows it is connected.
const OPEN: Bytes = Bytes::from_static(b": open\n\n");
const KEEPALIVE: Bytes = Bytes::from_static(b": keepalive\n\n");
// Consumers that do not read are disconnected before a stream that waits for their memory ends.
const _: () = assert!(WAIT.as_secs() > STALL_TIMEOUT.as_secs());

/// An admitted consumer.
pub struct Subscription {
    pub state: Arc<RunsApi>,
    pub caller: Caller,
    pub run: Arc<RunRecord>,
    /// The form of the log for the consumer.
    pub form: LogForm,
    /// The place of the last event that the consumer has.
    pub position: u64,
    /// Where the log ended when the consumer connected.
    pub head: Head,
    /// Its place among the subscribers.
    pub place: SubscriberSlot,
}

impl Subscription {
    pub fn into_response(self, options: StreamOptions) -> Response {
        let body = match options.mode {
            Mode::Values => Body::from_stream(values::stream(self)),
            Mode::Events(filter) => Body::from_stream(events(self, filter, options.buffer)),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Proxies that buffer by default would hold events back.
        headers.insert(
            HeaderName::from_static("x-accel-buffering"),
            HeaderValue::from_static("no"),
        );
        response
    }
}

/// Why a stream wakes up.
enum Wakeup {
    /// The log may have grown.
    Changed,
    /// The run may have a new annotation.
    Annotated,
    /// The keepalive interval is over.
    Tick,
    /// The host shuts down.
    Shutdown,
}

/// The signals that every kind of stream waits for.
pub struct Signals {
    follow: Follow,
    annotated: broadcast::Receiver<Option<RunId>>,
    run: RunId,
    ticks: tokio::time::Interval,
    sent_since_tick: bool,
}

impl Signals {
    fn new(subscription: &Subscription) -> Self {
        let state = &subscription.state;
        let every = state.host.settings.keepalive;
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            follow: state
                .log
                .follow(&subscription.run.run_id, subscription.head),
            annotated: store::annotations::subscribe(&state.host.store),
            run: subscription.run.run_id.clone(),
            ticks,
            sent_since_tick: false,
        }
    }

    async fn next(&mut self, state: &RunsApi) -> Wakeup {
        loop {
            tokio::select! {
                () = state.host.shutdown.cancelled() => return Wakeup::Shutdown,
                () = self.follow.changed() => return Wakeup::Changed,
                _ = self.ticks.tick() => return Wakeup::Tick,
                signal = self.annotated.recv() => match signal {
                    Ok(Some(run)) if run != self.run => {}
                    // A missed or unspecified signal may concern this run.
                    Ok(_) | Err(RecvError::Lagged(_)) => return Wakeup::Annotated,
                    // The store is gone; its readers report that.
                    Err(RecvError::Closed) => std::future::pending().await,
                },
            }
        }
    }

    /// A keepalive comment, if nothing else was sent recently.
    fn keepalive(&mut self) -> Option<Bytes> {
        (!std::mem::take(&mut self.sent_since_tick)).then_some(KEEPALIVE)
    }
}

fn later(known: Head, head: Head) -> Head {
    if head.sequence >= known.sequence {
        head
    } else {
        known
    }
}

/// Whether the stream's API key is still valid.
async fn key_is_valid(subscription: &Subscription) -> bool {
    let valid = subscription
        .state
        .host
        .keys
        .still_valid(&subscription.caller)
        .await;
    if let Err(problem) = &valid {
        info!(run_id = %subscription.run.run_id, code = %problem.code, "a stream ends: its API key is no longer valid");
    }
    valid.is_ok()
}

fn ended_early(run: &RunId) {
    tracing::warn!(run_id = %run, "a stream ends: an event cannot be shown");
}

fn unreadable(run: &RunId, cause: &dyn std::error::Error) {
    tracing::error!(run_id = %run, cause = chain(cause), "a stream ends: could not read the log");
}

fn events(
    subscription: Subscription,
    filter: Filter,
    buffer: Duration,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
    async_stream::stream! {
        let state = subscription.state.clone();
        let run = subscription.run.run_id.clone();
        let (mut position, mut head) = (subscription.position, subscription.head);
        let form = &subscription.form;
        let mut signals = Signals::new(&subscription);
        let mut annotations = match AnnotationFeed::from_now_on(&state, &subscription.run, form, filter, head.ended).await {
            Ok(annotations) => annotations,
            Err(cause) => return unreadable(&run, &cause),
        };
        let mut closing = false;
        if !head.ended {
            yield Ok(OPEN);
        }
        loop {
            head = later(head, signals.follow.head());
            if !buffer.is_zero() && position < head.sequence && !closing {
                match batch::gather(&state, &mut signals, position, head, buffer).await {
                    Ok(Window::Upto(grown)) => head = grown,
                    Ok(Window::Closing) => closing = true,
                    Err(cause) => return unreadable(&run, &cause),
                }
            }
            while position < head.sequence {
                let page = page_for(&state, &subscription.run, form, position, head.sequence);
                let page = match page.await {
                    Ok(page) => page,
                    // The cause has been logged. A terminal event would say that the log is whole.
                    Err(_) => return ended_early(&run),
                };
                let frames = if buffer.is_zero() {
                    page.frames_after(position, filter)
                } else {
                    match batch::frame(state.log.memory(), form, page.events_after(position), filter).await {
                        Ok(frame) => frame,
                        Err(cause) => return unreadable(&run, &cause),
                    }
                };
                position = page.last();
                if let Some(frames) = frames {
                    signals.sent_since_tick = true;
                    yield Ok(frames);
                }
                if state.host.shutdown.is_cancelled() {
                    closing = true;
                    break;
                }
            }
            if closing || (head.ended && position >= head.sequence) {
                return;
            }
            match signals.next(&state).await {
                Wakeup::Changed => {}
                Wakeup::Annotated => {
                    for frame in annotations.frames(&state, position, !buffer.is_zero()).await {
                        signals.sent_since_tick = true;
                        yield Ok(frame);
                    }
                }
                Wakeup::Shutdown => closing = true,
                Wakeup::Tick => {
                    if !key_is_valid(&subscription).await {
                        return;
                    }
                    if let Some(comment) = signals.keepalive() {
                        yield Ok(comment);
                    }
                }
            }
        }
    }
}
