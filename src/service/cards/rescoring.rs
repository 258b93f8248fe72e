//! Cards that are watched are looked at again by themselves: by one replica at a time, under a lease; twice is no harm.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::history::CardScores;
use crate::ports::{Clock, DueCard, Store, StoreError};
use crate::service::fault::{chain, note_outage};

const JOB: &str = "agent_cards";
/// A lease outlives any batch: a look takes a minute and a half at most.
const LEASE: Duration = Duration::from_secs(180);
/// Cards that are looked at at the same time, and then the lease is held anew.
const AT_ONCE: u32 = 8;

/// A replica's share of the work.
pub struct Rescorer {
    scores: Arc<CardScores>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    owner: String,
    poll: Duration,
}

impl Rescorer {
    /// One named `owner`, unique among all replicas and starts, that asks every `poll` whether something is due.
    pub fn new(
        scores: Arc<CardScores>,
        store: Arc<dyn Store>,
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
            // Not at once: a process that is there for one command has other things to do.
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(self.poll) => {}
            }
            self.look_again(&shutdown).await;
        }
    }

    /// Looks at what is due, unless another replica does.
    pub async fn look_again(&self, shutdown: &CancellationToken) {
        match self.take_on(shutdown).await {
            // Another replica has it.
            Ok(()) | Err(StoreError::Fenced) => {}
            Err(cause) => {
                note_outage(self.store.as_ref(), &cause);
                error!(
                    job = JOB,
                    cause = chain(&cause),
                    "a job cannot be done; it is tried again"
                );
            }
        }
    }

    async fn take_on(&self, shutdown: &CancellationToken) -> Result<(), StoreError> {
        // A look that cannot be kept would be made again and again.
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
            // The lease runs out, and the rest is still due then.
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
            // What could not even be put off is due still; looking at nothing else would go on for ever.
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
                    "a look at an agent card cannot be kept"
                );
                false
            }
            // The panic hook has written where; one card is no reason to look at no others.
            Err(_) => {
                error!(
                    tenant = due.tenant.as_str(),
                    "a look at an agent card panicked"
                );
                false
            }
        }
    }
}
