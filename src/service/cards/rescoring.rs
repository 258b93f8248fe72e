//! Checks watched cards again when they are due: one replica at a time, under a lease. A duplicate
//! check does no harm.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::history::CardScores;
use crate::ports::{Clock, DueCard, StoreError};
use crate::service::fault::{chain, note_outage};
use crate::store::Database;

const JOB: &str = "agent_cards";
/// Longer than any batch: a check takes at most a minute and a half.
const LEASE: Duration = Duration::from_secs(180);
/// Cards checked concurrently per batch; the lease is renewed after each batch.
const AT_ONCE: u32 = 8;

pub struct Rescorer {
    scores: Arc<CardScores>,
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    owner: String,
    poll: Duration,
}

impl Rescorer {
    /// A rescorer named `owner`, unique among all replicas and starts, that looks for due cards
    /// every `poll`.
    pub fn new(
        scores: Arc<CardScores>,
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        owner: String,
        poll: Duration,
    ) -> Self {
        Self {
            scores,
            store,
            clock,
            owner,
            poll,
        }
    }

    /// Works until `shutdown`.
    pub async fn work(&self, shutdown: CancellationToken) {
        loop {
            // Not at once: a process started for a single command has other work.
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(self.poll) => {}
            }
            self.look_again(&shutdown).await;
        }
    }

    /// Checks all due cards, unless another replica does.
    pub async fn look_again(&self, shutdown: &CancellationToken) {
        match self.take_on(shutdown).await {
            // Another replica has the lease.
            Ok(()) | Err(StoreError::Fenced) => {}
            Err(cause) => {
                note_outage(self.store.as_ref(), &cause);
                error!(
                    job = JOB,
                    cause = chain(&cause),
                    "a background job failed; retrying"
                );
            }
        }
    }

    async fn take_on(&self, shutdown: &CancellationToken) -> Result<(), StoreError> {
        // A check that cannot be stored would be repeated endlessly.
        if !self.store.takes_writes().await {
            return Ok(());
        }
        let now = self.clock.now();
        if self.store.due_cards(now, 1).await?.is_empty() {
            return Ok(());
        }
        let poll = SignedDuration::try_from(self.poll).unwrap_or(SignedDuration::MAX);
        let before = now.checked_sub(poll / 2).unwrap_or(Timestamp::MIN);
        let begun = self.store.begin_job(JOB, &self.owner, before, LEASE);
        if !begun.await? {
            return Ok(());
        }
        while !shutdown.is_cancelled() {
            let due = self.store.due_cards(now, AT_ONCE).await?;
            if due.is_empty() {
                break;
            }
            // The lease runs out; the remaining cards are still due then.
            if !self.store.takes_writes().await {
                return Ok(());
            }
            let looks = FuturesUnordered::new();
            for one in &due {
                looks.push(self.look(one, now));
            }
            let all = looks.collect();
            let done: Vec<bool> = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                done = all => done,
            };
            self.store.hold_job(JOB, &self.owner, LEASE).await?;
            // Cards that could not even be rescheduled are still due; continuing with them alone
            // would never end.
            if !done.contains(&true) {
                break;
            }
        }
        if shutdown.is_cancelled() {
            return Ok(());
        }
        self.store.end_job(JOB, &self.owner, now).await
    }

    async fn look(&self, due: &DueCard, now: Timestamp) -> bool {
        let looked = AssertUnwindSafe(self.scores.look_again(due, now));
        match looked.catch_unwind().await {
            Ok(Ok(())) => true,
            Ok(Err(cause)) => {
                note_outage(self.store.as_ref(), &cause);
                warn!(
                    tenant = due.tenant.as_str(),
                    cause = chain(&cause),
                    "could not store the result of an agent card check"
                );
                false
            }
            // The panic hook has logged the location; other cards are checked all the same.
            Err(_) => {
                error!(tenant = due.tenant.as_str(), "an agent card check panicked");
                false
            }
        }
    }
}
