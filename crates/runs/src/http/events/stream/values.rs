//! `streamMode=values`: the run's snapshot, on connect and after every change.
//!
//! The snapshot is sent in the envelope of an event, type `state.snapshot`, because clients drop
//! data without one. It is not an entry of the log: its id is the sequence it was folded up to.

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

struct Snapshot {
    sequence: u64,
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
                yield Ok(frame(&subscription, &snapshot));
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
        .projections
        .with_state(&run.run_id, |folded| {
            let payload = serde_json::to_value(snapshot(kinds, run, folded, cancelling));
            payload.map(|payload| Snapshot {
                sequence: folded.sequence,
                ended: folded.status.is_terminal(),
                payload,
            })
        })
        .await
        .map_err(|cause| internal(&cause))?;
    folded.map_err(|cause| internal(&cause))
}

fn frame(subscription: &Subscription, snapshot: &Snapshot) -> Bytes {
    let run = &subscription.run.run_id;
    let document = json!({
        "eventId": format!("snapshot-{}-{run}", snapshot.sequence),
        "runId": run,
        "type": "state.snapshot",
        "timestamp": subscription.state.host.clock.now(),
        "sequence": snapshot.sequence,
        "schemaVersion": SCHEMA_VERSION,
        "engineVersion": ENGINE_VERSION,
        "payload": snapshot.payload,
    });
    Bytes::from(format!(
        "id: {}\nevent: state.snapshot\ndata: {document}\n\n",
        snapshot.sequence
    ))
}
