//! Delivers events to webhook subscriptions (OpenWOP webhooks, delivery semantics).
//!
//! The log is the queue: a subscription stores how far it has been served of each run it follows,
//! and there is no other queue. So a restart loses nothing, a slow endpoint takes no memory, and
//! the next claim of a subscription continues where the last one stopped. One replica at a time
//! serves a subscription, under a lease with a fencing token.
//!
//! An event is attempted once. Progress is recorded after the attempt: if the process is killed in
//! between, one event is delivered twice rather than never, and receivers recognize it by its
//! signed id.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::ports::webhooks::{DeliveryRecord, Followed, WebhookClaim, Window};
use crate::service::metrics::RUN_METRICS;
use crate::service::webhooks::deliveries::sent;
use crate::store;
use crate::store::deliveries::KEPT;
use crate::webhook_client::WebhookClient;
use touchstone_host::otlp::span::{self, Place};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::jobs::{Failure, Leased};
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;
use touchstone_kit::webhook::delivery::Addressed;
use touchstone_kit::webhook::{Admission, Delivery};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::Numbering;

/// Much longer than the longest attempt; every recorded attempt extends it.
const LEASE: Duration = Duration::from_secs(30);
/// How long a subscription is served before others get their turn.
const SESSION: Duration = Duration::from_secs(10);
/// Runs per pass over a subscription, and events delivered of each of them.
const RUNS: u32 = 16;
const EVENTS: u32 = 32;
/// Log entries searched at once.
const WINDOW: u64 = 8192;
/// Maximum time to wait for a signal, in case one is lost. The pause after it is added.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Shortest pause after a signal: events committed within it are served together.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause after a signal, however long a search takes.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Up to that limit, searching for work takes at most 1/`SHARE` of the time.
const SHARE: u32 = 20;

pub struct Dispatcher {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    notifier: Arc<WebhookClient>,
    owner: String,
}

impl Dispatcher {
    /// A dispatcher named `owner`, unique among all replicas and starts.
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        notifier: Arc<WebhookClient>,
        owner: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            clock,
            notifier,
            owner,
        })
    }
}

#[async_trait]
impl Leased for Dispatcher {
    const NAME: &'static str = "webhooks";

    /// With fewer slow endpoints, the others are not delayed.
    const AT_ONCE: usize = 64;

    type Claim = WebhookClaim;

    fn store(&self) -> &Database {
        &self.store
    }

    fn poll(&self) -> Duration {
        POLL_INTERVAL
    }

    async fn claim(&self) -> Result<Option<WebhookClaim>, StoreError> {
        store::webhooks::claim(&self.store, &self.owner, LEASE).await
    }

    fn id(claim: &WebhookClaim) -> &str {
        claim.webhook.id.as_str()
    }

    async fn perform(
        &self,
        claim: WebhookClaim,
        shutdown: &CancellationToken,
    ) -> Result<(), Failure> {
        let mut session = Session {
            ends: self.clock.uptime() + SESSION,
            store: self.store.clone(),
            clock: self.clock.clone(),
            notifier: self.notifier.clone(),
            runs: HashMap::new(),
            shutdown: shutdown.clone(),
            made: VecDeque::new(),
            claim,
        };
        session.serve_all().await?;
        let made = session.made.make_contiguous();
        store::webhooks::release(&self.store, &session.claim, made).await?;
        Ok(())
    }

    async fn idle(&self, search: Duration) {
        self.store.any_run_changed(POLL_INTERVAL).await;
        sleep(pause_after(search)).await;
    }
}

/// The pause after a search that took this long and found nothing.
fn pause_after(search: Duration) -> Duration {
    search.saturating_mul(SHARE).clamp(MIN_PAUSE, MAX_PAUSE)
}

/// The facts about a run that its deliveries depend on.
#[derive(Clone)]
struct RunFacts {
    /// Whether it has one of the requested tags.
    is_tagged: bool,
    is_eval: bool,
    /// The numbers of its events.
    numbers: Numbering,
    /// Its place in a trace.
    place: Option<Place>,
}

/// One replica's turn at one subscription.
struct Session {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    notifier: Arc<WebhookClient>,
    claim: WebhookClaim,
    /// The runs looked up so far.
    runs: HashMap<RunId, RunFacts>,
    shutdown: CancellationToken,
    /// The attempts of this turn, at most [`KEPT`]. They are stored when it ends, so that no
    /// delivery waits for them.
    made: VecDeque<DeliveryRecord>,
    /// By [`Clock::uptime`]: a machine that slept finds its session over, and makes no attempt
    /// under a lease that may be lost.
    ends: Duration,
}

impl Session {
    /// Serves until nothing is left or the session is over.
    async fn serve_all(&mut self) -> Result<(), StoreError> {
        loop {
            match self.claim.webhook.circuit.admits(self.clock.now()) {
                Admission::Attempt => {}
                Admission::Skip => {
                    return store::webhooks::skip_pending(&self.store, &self.claim).await;
                }
                Admission::Never => {
                    return store::webhooks::unfollow(&self.store, &self.claim, None).await;
                }
            }
            let grown =
                store::webhooks::grown_runs(&self.store, &self.claim.webhook.id, RUNS).await?;
            if grown.is_empty() {
                return Ok(());
            }
            for followed in grown {
                if self.is_over() {
                    return Ok(());
                }
                self.serve(&followed).await?;
                if self.claim.webhook.circuit.admits(self.clock.now()) != Admission::Attempt {
                    break;
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.shutdown.is_cancelled() || self.clock.uptime() >= self.ends
    }

    /// Delivers some of a run's pending events.
    async fn serve(&mut self, followed: &Followed) -> Result<(), StoreError> {
        if !self.matches_tags(&followed.run).await? {
            return store::webhooks::unfollow(&self.store, &self.claim, Some(&followed.run)).await;
        }
        let window = Window {
            after: followed.after,
            upto: followed.head.min(followed.after + WINDOW),
        };
        let events = store::webhooks::events_of(
            &self.store,
            &followed.run,
            window,
            &self.claim.webhook.events,
            EVENTS,
        )
        .await?;
        let complete = events.len() < EVENTS as usize;
        for event in &events {
            if self.is_over() {
                return Ok(());
            }
            self.attempt(&followed.run, event).await?;
            if self.claim.webhook.circuit.admits(self.clock.now()) != Admission::Attempt {
                return Ok(());
            }
        }
        if complete && events.last().is_none_or(|last| last.sequence < window.upto) {
            self.record(&followed.run, window.upto).await?;
        }
        Ok(())
    }

    async fn attempt(&mut self, run: &RunId, event: &StoredEvent) -> Result<(), StoreError> {
        let body = self.shown(run, event).await?;
        let place = self.facts(run).await?.place;
        let webhook = &self.claim.webhook;
        let addressed = Addressed {
            webhook: &webhook.id,
            tenant: &webhook.tenant,
            run,
            sequence: event.sequence,
            kind: &event.kind,
            event: &body,
        };
        let delivery = Delivery::of(
            &addressed,
            &webhook.secrets,
            webhook.standard,
            self.clock.now(),
        );
        let (at, began) = (self.clock.now(), self.clock.uptime());
        let body = Bytes::from(delivery.body);
        let delivered = self.notifier.deliver(&webhook.url, &delivery.headers, body);
        let outcome = span::within(place, delivered).await;
        let took = self.clock.uptime().saturating_sub(began).as_millis();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        let what = (event.sequence, &*event.kind);
        let record = DeliveryRecord::first(run, what, &outcome, (at, took));
        if self.made.len() == KEPT {
            self.made.pop_front();
        }
        self.made.push_back(record);
        RUN_METRICS.delivered(outcome.is_ok());
        let circuit = std::mem::take(&mut self.claim.webhook.circuit);
        let webhook = &mut self.claim.webhook;
        webhook.circuit = match outcome {
            Ok(_) => circuit.succeeded(),
            Err(cause) => {
                let circuit = circuit.failed_at(self.clock.now());
                info!(
                    webhook_id = %webhook.id, run_id = %run, sequence = event.sequence, %cause,
                    state = circuit.state(self.clock.now()), "a webhook delivery failed"
                );
                circuit
            }
        };
        self.record(run, event.sequence).await
    }

    async fn record(&self, run: &RunId, upto: u64) -> Result<(), StoreError> {
        store::webhooks::record_progress(
            &self.store,
            &self.claim,
            run,
            upto,
            &self.claim.webhook.circuit,
            LEASE,
        )
        .await
    }

    /// Whether the run has one of the requested tags.
    async fn matches_tags(&mut self, run: &RunId) -> Result<bool, StoreError> {
        if self.claim.webhook.tags.is_empty() {
            return Ok(true);
        }
        Ok(self.facts(run).await?.is_tagged)
    }

    async fn facts(&mut self, run: &RunId) -> Result<RunFacts, StoreError> {
        if let Some(facts) = self.runs.get(run) {
            return Ok(facts.clone());
        }
        let webhook = &self.claim.webhook;
        let record = store::runs::find(&self.store, &webhook.tenant, run).await?;
        let record = record.as_ref();
        let requested = |tag: &String| webhook.tags.contains(tag);
        let facts = RunFacts {
            is_tagged: record.is_some_and(|it| it.spec.tags.iter().any(requested)),
            is_eval: record.is_none_or(|it| it.spec.work.is_eval()),
            numbers: record.map_or(Numbering::STORED, |it| it.log.under(Major::V1)),
            place: span::root(run.as_str(), record.and_then(|it| it.trace.as_ref())),
        };
        self.runs.insert(run.clone(), facts.clone());
        Ok(facts)
    }

    /// The event as webhooks send it.
    async fn shown(&mut self, run: &RunId, event: &StoredEvent) -> Result<Bytes, StoreError> {
        let facts = self.facts(run).await?;
        Ok(sent(event, facts.is_eval, facts.numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_is_proportional_to_the_search_within_limits() {
        let pause = |millis| pause_after(Duration::from_millis(millis)).as_millis();
        assert_eq!(
            [0, 2, 10, 250, 251, 60_000].map(pause),
            [50, 50, 200, 5000, 5000, 5000]
        );
    }
}
