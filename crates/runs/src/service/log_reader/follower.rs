//! One watcher per run, for any number of consumers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use touchstone_host::background::spawn;
use touchstone_host::ports::run_log::Head;
use touchstone_host::service::fault::chain;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_kit::ids::RunId;

/// Longest interval between two checks of a run, in case a signal is lost.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Pause after a failure of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Each consumer adds this to the pause between two announcements: waking a thousand consumers for
/// several hundred commits a second would cost more than it is worth.
const PAUSE_PER_CONSUMER: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

type Watched = Arc<Mutex<HashMap<RunId, Weak<Follower>>>>;

/// The watched runs.
#[derive(Clone, Default)]
pub(super) struct Followers {
    watched: Watched,
}

/// Watches one run for as long as it has consumers.
struct Follower {
    run: RunId,
    heads: watch::Sender<Head>,
    stop: CancellationToken,
    watched: Watched,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.cancel();
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        // A successor may already have taken its place.
        if watched
            .get(&self.run)
            .is_some_and(|follower| follower.strong_count() == 0)
        {
            watched.remove(&self.run);
        }
    }
}

/// A consumer's view of where a run's log ends.
pub struct Follow {
    heads: watch::Receiver<Head>,
    _follower: Arc<Follower>,
}

impl Follow {
    /// The head of the log, as known to the watcher.
    pub fn head(&mut self) -> Head {
        *self.heads.borrow_and_update()
    }

    /// Waits until the head is beyond the one [`head`](Self::head) returned last.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn changed(&mut self) {
        // The sender lives as long as this value.
        let _ = self.heads.changed().await;
    }
}

impl Followers {
    /// Follows a run whose log reaches `known`.
    pub(super) fn follow(&self, store: &Arc<Database>, run: &RunId, known: Head) -> Follow {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let present = watched.get(run).and_then(Weak::upgrade);
        let follower = present.unwrap_or_else(|| {
            let follower = Arc::new(Follower {
                run: run.clone(),
                heads: watch::Sender::new(known),
                stop: CancellationToken::new(),
                watched: self.watched.clone(),
            });
            watched.insert(run.clone(), Arc::downgrade(&follower));
            let (heads, stop) = (follower.heads.clone(), follower.stop.clone());
            // Ends when the last reader drops its follower.
            spawn(
                "log watcher",
                watch_run(store.clone(), run.clone(), heads, stop),
            );
            follower
        });
        drop(watched);
        Follow {
            heads: follower.heads.subscribe(),
            _follower: follower,
        }
    }
}

async fn watch_run(
    store: Arc<Database>,
    run: RunId,
    heads: watch::Sender<Head>,
    stop: CancellationToken,
) {
    let mut known = *heads.borrow();
    while !known.ended {
        tokio::select! {
            () = stop.cancelled() => return,
            () = store.run_changed(&run, known, LOOK_EVERY) => {}
        }
        let pause = match head(&store, &run).await {
            Ok(Some(head)) if head != known => {
                known = head;
                heads.send_replace(head);
                let consumers = u32::try_from(heads.receiver_count()).unwrap_or(u32::MAX);
                PAUSE_PER_CONSUMER
                    .saturating_mul(consumers)
                    .min(LONGEST_PAUSE)
            }
            Ok(_) => Duration::ZERO,
            Err(cause) => {
                warn!(run_id = %run, cause = chain(&cause), "could not follow a run; retrying");
                AFTER_FAILURE
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
