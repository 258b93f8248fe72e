//! Checks watched cards again when they are due: one replica at a time, under a lease. A duplicate
//! check does no harm.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::ports::watches::DueCard;
use crate::service::history::CardScores;
use crate::store;
use touchstone_host::background::supervised;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::{chain, note_outage};
use touchstone_host::service::jobs::{Replica, Shared};

/// Due at every pass: half of the interval between two passes, which come a little early or late.
/// The lease is longer than any batch: a check takes at most a minute and a half.
const JOB: Shared = Shared {
    name: "agent_cards",
    every: SignedDuration::from_secs(30),
    lease: Duration::from_secs(180),
};
/// Cards checked concurrently per batch; the lease is renewed after each batch.
const AT_ONCE: u32 = 8;

pub struct Rescorer {
    scores: Arc<CardScores>,
    replica: Replica,
}

impl Rescorer {
    pub fn new(scores: Arc<CardScores>, replica: Replica) -> Self {
        Self { scores, replica }
    }

    /// Checks all due cards, unless another replica does.
    ///
    /// # Errors
    /// The store failed; [`StoreError::Fenced`] if another replica has the job.
    pub async fn look_again(&self, shutdown: &CancellationToken) -> Result<(), StoreError> {
        let Replica { store, clock, .. } = &self.replica;
        // A check that cannot be stored would be repeated endlessly.
        if !store.takes_writes().await {
            return Ok(());
        }
        if store::due_cards(store, clock.now(), 1).await?.is_empty() {
            return Ok(());
        }
        let Some(turn) = self.replica.begin(JOB).await? else {
            return Ok(());
        };
        let now = turn.now;
        while !shutdown.is_cancelled() {
            let due = store::due_cards(store, now, AT_ONCE).await?;
            if due.is_empty() {
                break;
            }
            // The lease runs out; the remaining cards are still due then.
            if !store.takes_writes().await {
                return Ok(());
            }
            let looks = FuturesUnordered::new();
            for one in &due {
                looks.push(self.rescore(one, now));
            }
            let all = looks.collect();
            let done: Option<Vec<bool>> = shutdown.run_until_cancelled(all).await;
            let Some(done) = done else { return Ok(()) };
            turn.hold().await?;
            // Cards that could not even be rescheduled are still due; continuing with them alone
            // would never end.
            if !done.contains(&true) {
                break;
            }
        }
        turn.end(shutdown).await
    }

    async fn rescore(&self, due: &DueCard, now: Timestamp) -> bool {
        match supervised(JOB.name, self.scores.look_again(due, now)).await {
            Ok(Ok(())) => true,
            Ok(Err(cause)) => {
                note_outage(&self.replica.store, &cause);
                warn!(
                    tenant = due.tenant.as_str(),
                    cause = chain(&cause),
                    "could not store the result of an agent card check"
                );
                false
            }
            // Other cards are checked all the same.
            Err(_) => false,
        }
    }
}
