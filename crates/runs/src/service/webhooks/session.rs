//! One replica's turn at one subscription.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::ports::webhooks::{
    DeliveryRecord, Followed, GivenUp, NextStep, Retry, Undelivered, WebhookClaim, Window,
};
use crate::service::metrics::RUN_METRICS;
use crate::service::webhooks::dispatcher::LEASE;
use crate::service::webhooks::message::{RunForm, delivery, event_id};
use crate::store;
use crate::store::deliveries::KEPT;
use crate::store::webhooks::retries;
use crate::webhook_client::WebhookClient;
use touchstone_host::otlp::span::{self, Place};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::headers::retry_after::retry_after;
use touchstone_kit::ids::RunId;
use touchstone_kit::webhook::schedule::next_attempt;
use touchstone_kit::webhook::{Admission, Circuit};

/// How long a subscription is served before others get their turn.
const SESSION: Duration = Duration::from_secs(10);
/// Runs per pass over a subscription, and events delivered of each of them.
const RUNS: u32 = 16;
const EVENTS: u32 = 32;
/// Log entries searched at once.
const WINDOW: u64 = 8192;
/// Events of a subscription that may wait to be sent again. With more of them, new events wait in
/// the log.
const MOST_RETRIES: u64 = 1000;

/// The facts about a run that its deliveries depend on.
#[derive(Clone)]
struct RunFacts {
    /// Whether it has one of the requested tags.
    is_tagged: bool,
    form: RunForm,
    /// Its place in a trace.
    place: Option<Place>,
}

pub(super) struct Session {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    notifier: Arc<WebhookClient>,
    pub(super) claim: WebhookClaim,
    /// The runs looked up so far; `None` if a run was deleted.
    runs: HashMap<RunId, Option<RunFacts>>,
    shutdown: CancellationToken,
    /// The attempts of this turn, at most [`KEPT`]. They are stored when it ends, so that no
    /// delivery waits for them.
    pub(super) made: VecDeque<DeliveryRecord>,
    /// By [`Clock::uptime`]: a machine that slept finds its session over, and makes no attempt
    /// under a lease that may be lost.
    ends: Duration,
}

impl Session {
    pub(super) fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        notifier: Arc<WebhookClient>,
        claim: WebhookClaim,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            ends: clock.uptime() + SESSION,
            store,
            clock,
            notifier,
            runs: HashMap::new(),
            shutdown,
            made: VecDeque::new(),
            claim,
        }
    }

    /// Serves until nothing is due or the session is over.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the claim was lost or the subscription is removed; the store
    /// failed.
    pub(super) async fn serve_all(&mut self) -> Result<(), StoreError> {
        while !self.is_over() {
            match self.circuit().admits(self.clock.now()) {
                Admission::Attempt => {}
                Admission::Wait(until) => {
                    return store::webhooks::pause(&self.store, &self.claim, until).await;
                }
                Admission::Never => return self.end().await,
            }
            // A new event is the better probe: the endpoint may refuse the earlier ones alone.
            let has_served = match self.circuit().is_probing() {
                true => self.serve_new().await? || self.serve_due().await?,
                false => self.serve_due().await? || self.serve_new().await?,
            };
            if !has_served {
                return Ok(());
            }
        }
        Ok(())
    }

    fn circuit(&self) -> &Circuit {
        &self.claim.webhook.circuit
    }

    fn is_over(&self) -> bool {
        self.shutdown.is_cancelled() || self.clock.uptime() >= self.ends
    }

    fn is_admitted(&self) -> bool {
        self.circuit().admits(self.clock.now()) == Admission::Attempt
    }

    /// Ends a subscription that has failed.
    async fn end(&mut self) -> Result<(), StoreError> {
        let unsent = self.unsent().await?;
        let (id, now) = (&self.claim.webhook.id, self.clock.now());
        warn!(webhook_id = %id, "a webhook has failed too often and gets no more deliveries");
        let given_up = |retry: Retry| retry.given_up(id, GivenUp::RetriesExhausted, now);
        store::webhooks::end(&self.store, &self.claim, unsent, given_up).await
    }

    /// The first events in the log that were not sent, at most [`MOST_RETRIES`], of at most [`RUNS`] runs.
    async fn unsent(&mut self) -> Result<Vec<Retry>, StoreError> {
        let mut unsent = Vec::new();
        let grown = store::webhooks::grown_runs(&self.store, &self.claim.webhook.id, RUNS).await?;
        for followed in &grown {
            if !self.matches_tags(&followed.run).await? {
                continue;
            }
            let window = Window {
                after: followed.after,
                upto: followed.head.min(followed.after + WINDOW),
            };
            let (store, kinds) = (&self.store, &self.claim.webhook.events);
            let room = MOST_RETRIES.saturating_sub(unsent.len() as u64);
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            let events = store::webhooks::events_of(store, &followed.run, window, kinds, room);
            for event in events.await? {
                unsent.push(self.retry_of((&followed.run, event.sequence), &event, 0, None));
            }
        }
        Ok(unsent)
    }

    /// Sends events again that are due; whether there were any.
    async fn serve_due(&mut self) -> Result<bool, StoreError> {
        let (id, now) = (&self.claim.webhook.id, self.clock.now());
        let due = retries::due(&self.store, id, now, EVENTS).await?;
        for retry in &due {
            if self.is_over() || !self.is_admitted() {
                break;
            }
            let window = Window {
                after: retry.sequence.saturating_sub(1),
                upto: retry.sequence,
            };
            let kinds = std::slice::from_ref(&retry.kind);
            let events =
                store::webhooks::events_of(&self.store, &retry.run, window, kinds, 1).await?;
            match events.first() {
                Some(event) => self.attempt(&retry.run, event, retry.attempts).await?,
                // It was deleted.
                None => {
                    let event = (&retry.run, retry.sequence);
                    self.record_attempt(event, true, &NextStep::Done).await?;
                }
            }
        }
        Ok(!due.is_empty())
    }

    /// Delivers some events that were not sent yet; whether there were any.
    async fn serve_new(&mut self) -> Result<bool, StoreError> {
        let (waiting, first) = retries::pending(&self.store, &self.claim.webhook.id).await?;
        if let (Some(first), true) = (first, waiting >= MOST_RETRIES) {
            store::webhooks::pause(&self.store, &self.claim, first).await?;
            return Ok(false);
        }
        let grown = store::webhooks::grown_runs(&self.store, &self.claim.webhook.id, RUNS).await?;
        for followed in &grown {
            if self.is_over() || !self.is_admitted() {
                break;
            }
            self.serve(followed).await?;
        }
        Ok(!grown.is_empty())
    }

    /// Delivers some of a run's pending events.
    async fn serve(&mut self, followed: &Followed) -> Result<(), StoreError> {
        if !self.matches_tags(&followed.run).await? {
            return store::webhooks::unfollow(&self.store, &self.claim, &followed.run).await;
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
            self.attempt(&followed.run, event, 0).await?;
            if !self.is_admitted() {
                return Ok(());
            }
        }
        if complete && events.last().is_none_or(|last| last.sequence < window.upto) {
            self.record_progress(&followed.run, window.upto).await?;
        }
        Ok(())
    }

    /// Sends an event after `earlier` attempts.
    async fn attempt(
        &mut self,
        run: &RunId,
        event: &StoredEvent,
        earlier: u32,
    ) -> Result<(), StoreError> {
        let (this, is_retry) = ((run, event.sequence), earlier > 0);
        let Some(facts) = self.facts(run).await? else {
            return self.record_attempt(this, is_retry, &NextStep::Done).await;
        };
        let shown = match facts.form.shown(&self.store, run, event).await? {
            Ok(shown) => shown,
            Err(unshown) => {
                let id = &self.claim.webhook.id;
                warn!(webhook_id = %id, run_id = %run, %unshown, "an event cannot be delivered");
                let given_up = self.retry_of(this, event, earlier, None).given_up(
                    id,
                    GivenUp::PayloadUnprojectable,
                    self.clock.now(),
                );
                let next = NextStep::GiveUp(given_up);
                return self.record_attempt(this, is_retry, &next).await;
            }
        };
        let webhook = &self.claim.webhook;
        let delivery = delivery(webhook, run, &shown, self.clock.now());
        let (at, began) = (self.clock.now(), self.clock.uptime());
        let body = Bytes::from(delivery.body);
        let sent = self.notifier.deliver(&webhook.url, &delivery.headers, body);
        let outcome = span::within(facts.place, sent).await;
        let took = self.clock.uptime().saturating_sub(began).as_millis();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        RUN_METRICS.delivered(outcome.is_ok());
        let attempts = earlier.saturating_add(1);
        let asked = outcome.as_ref().err().and_then(|it| it.retry_after.clone());
        let outcome = outcome.map_err(|it: Undelivered| it.cause);
        let what = (event.sequence, &*event.kind);
        let record = DeliveryRecord::of(run, what, attempts, &outcome, (at, took));
        let status = record.status;
        if self.made.len() == KEPT {
            self.made.pop_front();
        }
        self.made.push_back(record);
        let now = self.clock.now();
        let circuit = std::mem::take(&mut self.claim.webhook.circuit);
        let next = match outcome {
            Ok(_) => {
                self.claim.webhook.circuit = circuit.succeeded();
                NextStep::Done
            }
            Err(cause) => {
                let circuit = circuit.failed_at(now);
                let asked = asked.and_then(|text| retry_after(&text, now));
                let mut retry = self.retry_of(this, event, attempts, status);
                let id = &self.claim.webhook.id;
                info!(
                    webhook_id = %id, run_id = %run, sequence = event.sequence, attempts, %cause,
                    state = circuit.state(now), "a webhook delivery failed"
                );
                let due = next_attempt(attempts, now, asked);
                let next = match due {
                    Some(due_at) => {
                        retry.due_at = due_at;
                        NextStep::Retry(retry)
                    }
                    None => NextStep::GiveUp(retry.given_up(id, GivenUp::RetriesExhausted, now)),
                };
                self.claim.webhook.circuit = match due {
                    Some(_) => circuit,
                    None => circuit.gave_up_at(now),
                };
                next
            }
        };
        self.record_attempt(this, is_retry, &next).await
    }

    /// What is recorded of an event after this many attempts; it is due now.
    fn retry_of(
        &self,
        (run, sequence): (&RunId, u64),
        event: &StoredEvent,
        attempts: u32,
        last_status: Option<u16>,
    ) -> Retry {
        Retry {
            run: run.clone(),
            sequence,
            kind: event.kind.to_string(),
            event_id: event_id(run, event),
            attempts,
            due_at: self.clock.now(),
            last_status,
        }
    }

    async fn record_attempt(
        &self,
        event: (&RunId, u64),
        is_retry: bool,
        next: &NextStep,
    ) -> Result<(), StoreError> {
        let (store, claim) = (&self.store, &self.claim);
        let circuit = &claim.webhook.circuit;
        store::webhooks::record_attempt(store, claim, event, is_retry, next, circuit, LEASE).await
    }

    async fn record_progress(&self, run: &RunId, upto: u64) -> Result<(), StoreError> {
        let (store, claim) = (&self.store, &self.claim);
        let circuit = &claim.webhook.circuit;
        store::webhooks::record_progress(store, claim, run, upto, circuit, LEASE).await
    }

    /// Whether the run has one of the requested tags.
    async fn matches_tags(&mut self, run: &RunId) -> Result<bool, StoreError> {
        if self.claim.webhook.tags.is_empty() {
            return Ok(true);
        }
        Ok(self.facts(run).await?.is_some_and(|it| it.is_tagged))
    }

    async fn facts(&mut self, run: &RunId) -> Result<Option<RunFacts>, StoreError> {
        if let Some(facts) = self.runs.get(run) {
            return Ok(facts.clone());
        }
        let webhook = &self.claim.webhook;
        let record = store::runs::find(&self.store, &webhook.tenant, run).await?;
        let requested = |tag: &String| webhook.tags.contains(tag);
        let facts = record.map(|record| RunFacts {
            is_tagged: record.spec.tags.iter().any(requested),
            form: RunForm::of(&record, webhook.contract),
            place: span::root(run.as_str(), record.trace.as_ref()),
        });
        self.runs.insert(run.clone(), facts.clone());
        Ok(facts)
    }
}
