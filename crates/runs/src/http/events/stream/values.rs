//! `streamMode=values`: the run's snapshot, on connect and after every change.
//!
//! Under major 1, the snapshot is sent in the envelope of an event, type `state.snapshot`, because
//! clients drop data without one; major 2 has none. It is not an entry of the log: its id is the
//! sequence it was folded up to.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use serde_json::{Value, json};

use crate::http::events::stream::{Signals, Subscription, Wakeup, key_is_valid};
use crate::rules::run::snapshot::snapshot;
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_openwop::events::{ENGINE_VERSION, SCHEMA_VERSION};
use touchstone_openwop::wire::{Major, v2};

struct Snapshot {
    /// Number of events it was folded from.
    events: u64,
    ended: bool,
    payload: Value,
}

/// The snapshots of a run until the run ends.
pub fn stream(
    subscription: Subscription,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send + 'static {
    async_stream::stream! {
        let state = subscription.state.clone();
        let mut signals = Signals::new(&subscription);
        let mut shown: Option<Value> = None;
        // A client that has the last snapshot has nothing to wait for.
        if subscription.head.ended && subscription.position > subscription.head.sequence {
            return;
        }
        loop {
            signals.follow.head();
            // The cause has been logged.
            let Ok(snapshot) = take(&subscription).await else { return };
            if shown.as_ref() != Some(&snapshot.payload) {
                let Some(frame) = frame(&subscription, &snapshot) else { return };
                yield Ok(frame);
                signals.sent_since_tick = true;
                shown = Some(snapshot.payload);
            }
            if snapshot.ended {
                return;
            }
            loop {
                match signals.next(&state).await {
                    Wakeup::Changed => break,
                    // Snapshots do not contain annotations.
                    Wakeup::Annotated => {}
                    Wakeup::Shutdown => return,
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
}

async fn take(subscription: &Subscription) -> Result<Snapshot, Problem> {
    let (state, run) = (&subscription.state, &subscription.run);
    let kinds = state.runs.library.kinds;
    let cancelling = store::queue::cancel_requested(&state.host.store, &run.run_id)
        .await
        .map_err(|cause| internal(&cause))?
        .is_some();
    let folded = state
        .runs
        .with_sums(run, |folded| {
            let payload = serde_json::to_value(snapshot(kinds, run, folded, cancelling));
            payload.map(|payload| Snapshot {
                events: folded.sequence,
                ended: folded.status.is_terminal(),
                payload,
            })
        })
        .await?;
    folded.map_err(|cause| internal(&cause))
}

/// `None` if the snapshot has no form under the major.
fn frame(subscription: &Subscription, snapshot: &Snapshot) -> Option<Bytes> {
    let run = &subscription.run.run_id;
    let reached = subscription.form.numbers().reached(snapshot.events);
    let document = match subscription.form.major {
        Major::V1 => json!({
            "eventId": format!("snapshot-{}-{run}", snapshot.events),
            "runId": run,
            "type": "state.snapshot",
            "timestamp": subscription.state.host.clock.now(),
            "sequence": reached.unwrap_or_default(),
            "schemaVersion": SCHEMA_VERSION,
            "engineVersion": ENGINE_VERSION,
            "payload": snapshot.payload,
        }),
        Major::V2 => {
            let context = v2::Context {
                tenant: subscription.run.tenant.as_str(),
            };
            let shown = v2::answer("getRun", &context, 200, snapshot.payload.clone());
            if let Err(cause) = &shown {
                tracing::error!(run_id = %run, ?cause, "a stream ends: the snapshot has no form under major 2");
            }
            shown.ok()?
        }
    };
    // Without an id, a client that resumes begins again.
    let id = reached.map_or_else(String::new, |reached| format!("id: {reached}\n"));
    Some(format!("{id}event: state.snapshot\ndata: {document}\n\n").into())
}
