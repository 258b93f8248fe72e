//! The last deliveries of a webhook, sending one of them again, and those that were given up.

use bytes::Bytes;

use crate::ports::webhooks::{DeadLetter, DeliveryRecord, WebhookRecord, Window};
use crate::service::log_reader::PagedEvent;
use crate::service::metrics::RUN_METRICS;
use crate::service::webhooks::message::{RunForm, delivery};
use crate::service::webhooks::{Webhooks, not_found};
use crate::store;
use crate::store::deliveries::KEPT;
use crate::store::webhooks::dead_letters;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::WebhookId;

/// A page of deliveries, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryPage {
    pub deliveries: Vec<DeliveryRecord>,
    /// Older ones have a number below this.
    pub next: Option<u64>,
}

/// A page of dead letters, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterPage {
    pub letters: Vec<DeadLetter>,
    /// The cursor of the next page: the delivery id of the last letter of this one.
    pub next: Option<String>,
}

impl Webhooks {
    /// A subscription of the caller's tenant.
    ///
    /// # Errors
    /// `subscription_not_found`.
    pub async fn webhook(&self, caller: &Caller, id: &WebhookId) -> Result<WebhookRecord, Problem> {
        let found = store::webhooks::find(&self.store, &caller.tenant, id).await;
        found
            .map_err(|cause| internal(&cause))?
            .ok_or_else(not_found)
    }

    /// The last deliveries with a number below `before`, newest first.
    ///
    /// # Errors
    /// `subscription_not_found`.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        id: &WebhookId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<DeliveryPage, Problem> {
        self.webhook(caller, id).await?;
        let before = before.unwrap_or(u64::MAX);
        let more = limit.saturating_add(1);
        let found = store::deliveries::list(&self.store, &caller.tenant, id, before, more).await;
        let mut deliveries = found.map_err(|cause| internal(&cause))?;
        let has_more = deliveries.len() > limit;
        deliveries.truncate(limit);
        let next = deliveries.last().map(|last| last.number);
        Ok(DeliveryPage {
            next: next.filter(|_| has_more),
            deliveries,
        })
    }

    /// Deliveries of a subscription that were given up, newest first. `cursor` is the one of the page
    /// before.
    ///
    /// # Errors
    /// `subscription_not_found`; `validation_error` for a cursor that is not of this subscription.
    pub async fn dead_letters(
        &self,
        caller: &Caller,
        id: &WebhookId,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<DeadLetterPage, Problem> {
        self.webhook(caller, id).await?;
        let (store, tenant) = (&self.store, &caller.tenant);
        let before = match cursor {
            None => i64::MAX,
            Some(delivery) => dead_letters::number(store, tenant, id, delivery)
                .await
                .map_err(|cause| internal(&cause))?
                .ok_or_else(|| {
                    Problem::validation(
                        "cursor",
                        "`cursor` must be the `nextCursor` of another page of this subscription; \
                         leave it out to begin with the first page",
                    )
                })?,
        };
        let more = limit.saturating_add(1);
        let found = dead_letters::list(store, tenant, id, self.clock.now(), before, more).await;
        let mut letters = found.map_err(|cause| internal(&cause))?;
        let has_more = letters.len() > limit;
        letters.truncate(limit);
        let next = letters.last().map(|last| last.delivery_id.clone());
        Ok(DeadLetterPage {
            next: next.filter(|_| has_more),
            letters,
        })
    }

    /// Deletes the dead letters of all tenants whose time is over, and subscriptions whose removal was
    /// interrupted.
    ///
    /// # Errors
    /// The store failed.
    pub async fn clean(&self) -> Result<u64, StoreError> {
        let removed = store::webhooks::remove_stopped(&self.store).await?;
        let expired = dead_letters::expire(&self.store, self.clock.now()).await?;
        Ok(removed + expired)
    }

    /// Sends the event of a delivery again, with the same message id. It neither waits for the
    /// circuit breaker nor changes it.
    ///
    /// # Errors
    /// `subscription_not_found`; `not_found` for a delivery that is no longer kept; `conflict` if
    /// the event was deleted with its run.
    pub async fn replay(
        &self,
        caller: &Caller,
        id: &WebhookId,
        number: u64,
    ) -> Result<DeliveryRecord, Problem> {
        let webhook = self.webhook(caller, id).await?;
        let kept = store::deliveries::list(&self.store, &caller.tenant, id, u64::MAX, KEPT).await;
        let kept = kept.map_err(|cause| internal(&cause))?;
        let Some(first) = kept.iter().find(|it| it.number == number) else {
            return Err(Problem::new(
                ErrorCode::NotFound,
                format!("no such delivery; the host keeps the last {KEPT} of a webhook"),
            ));
        };
        let event = self.shown(&webhook, first).await?;
        let now = self.clock.now();
        let delivery = delivery(&webhook, &first.run_id, &event, now);
        let began = self.clock.uptime();
        let sent = Bytes::from(delivery.body);
        let outcome = self.notifier.deliver(&webhook.url, &delivery.headers, sent);
        let outcome = outcome.await.map_err(|it| it.cause);
        let took = self.clock.uptime().saturating_sub(began).as_millis();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        RUN_METRICS.delivered(outcome.is_ok());
        let what = (first.sequence, first.event_type.as_str());
        let earlier = kept
            .iter()
            .filter(|it| (&it.run_id, it.sequence) == (&first.run_id, first.sequence));
        let most = earlier.map(|it| it.attempts).max().unwrap_or_default();
        let attempts = most.saturating_add(1);
        let mut record = DeliveryRecord {
            replay: true,
            ..DeliveryRecord::of(&first.run_id, what, attempts, &outcome, (now, took))
        };
        let added = store::deliveries::add_one(&self.store, &caller.tenant, id, &mut record).await;
        if !added.map_err(|cause| internal(&cause))? {
            return Err(not_found());
        }
        let reasons = vec![format!("delivery: {number}, of the run {}", first.run_id)];
        self.note(caller, "webhooks:replay", id, reasons).await?;
        Ok(record)
    }

    /// The event of a delivery, as it was sent.
    async fn shown(
        &self,
        webhook: &WebhookRecord,
        delivery: &DeliveryRecord,
    ) -> Result<PagedEvent, Problem> {
        let gone = || {
            Problem::new(
                ErrorCode::Conflict,
                "the event was deleted with its run, so it cannot be sent again",
            )
        };
        let run = store::runs::find(&self.store, &webhook.tenant, &delivery.run_id).await;
        let run = run.map_err(|cause| internal(&cause))?.ok_or_else(gone)?;
        let window = Window {
            after: delivery.sequence.saturating_sub(1),
            upto: delivery.sequence,
        };
        let kinds = std::slice::from_ref(&delivery.event_type);
        let events =
            store::webhooks::events_of(&self.store, &delivery.run_id, window, kinds, 1).await;
        let events = events.map_err(|cause| internal(&cause))?;
        let event = events.first().ok_or_else(gone)?;
        let form = RunForm::of(&run, webhook.contract);
        let shown = form.shown(&self.store, &delivery.run_id, event).await;
        let shown = shown.map_err(|cause| internal(&cause))?;
        shown.map_err(|unshown| unshown.problem())
    }
}
