//! The last deliveries of a webhook, and sending one of them again.

use std::borrow::Cow;

use bytes::Bytes;

use crate::ports::webhooks::{DeliveryRecord, WebhookRecord, Window};
use crate::rules::run::bundle::{has_task_content, without_task_content};
use crate::service::metrics::RUN_METRICS;
use crate::service::webhooks::{Webhooks, not_found};
use crate::store;
use crate::store::deliveries::KEPT;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::WebhookId;
use touchstone_kit::webhook::Delivery;
use touchstone_kit::webhook::delivery::Addressed;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::Numbering;
use touchstone_openwop::wire::v1::event::project;

/// A page of deliveries, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryPage {
    pub deliveries: Vec<DeliveryRecord>,
    /// Older ones have a number below this.
    pub next: Option<u64>,
}

/// An event as webhooks send it: with the number that polls show, and without task content of eval
/// runs.
pub fn sent(event: &StoredEvent, is_eval: bool, numbers: Numbering) -> Bytes {
    let shown = match is_eval && has_task_content(&event.kind) {
        true => without_task_content(&event.kind, &event.body),
        false => event.body.clone(),
    };
    match project(numbers, &shown) {
        Ok(Cow::Owned(renumbered)) => renumbered.into(),
        // A damaged event is sent as it is stored.
        Ok(Cow::Borrowed(_)) | Err(_) => shown,
    }
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
        let body = self.stored(&webhook, first).await?;
        let now = self.clock.now();
        let addressed = Addressed {
            webhook: &webhook.id,
            tenant: &webhook.tenant,
            run: &first.run_id,
            sequence: first.sequence,
            kind: &first.event_type,
            event: &body,
        };
        let delivery = Delivery::of(&addressed, &webhook.secrets, webhook.standard, now);
        let began = self.clock.uptime();
        let sent = Bytes::from(delivery.body);
        let outcome = self.notifier.deliver(&webhook.url, &delivery.headers, sent);
        let outcome = outcome.await;
        let took = self.clock.uptime().saturating_sub(began).as_millis();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        RUN_METRICS.delivered(outcome.is_ok());
        let what = (first.sequence, first.event_type.as_str());
        let earlier = kept
            .iter()
            .filter(|it| (&it.run_id, it.sequence) == (&first.run_id, first.sequence));
        let most = earlier.map(|it| it.attempts).max().unwrap_or_default();
        let mut record = DeliveryRecord {
            attempts: most.saturating_add(1),
            replay: true,
            ..DeliveryRecord::first(&first.run_id, what, &outcome, (now, took))
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
    async fn stored(
        &self,
        webhook: &WebhookRecord,
        delivery: &DeliveryRecord,
    ) -> Result<Bytes, Problem> {
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
        let numbers = run.log.under(Major::V1);
        Ok(sent(event, run.spec.work.is_eval(), numbers))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use touchstone_openwop::wire::log::LogMark;

    use super::*;

    #[test]
    fn a_delivery_has_the_number_that_polls_show() {
        let stored = json!({"eventId": "evt_1_3", "type": "eval.scored", "sequence": 3,
            "payload": {"taskId": "a"}});
        let event = StoredEvent {
            sequence: 3,
            kind: "eval.scored".into(),
            body: stored.to_string().into(),
        };
        for (made, expected) in [(Major::V1, 3), (Major::V2, 2)] {
            let numbers = LogMark::of_new(made).under(Major::V1);
            let shown: Value = serde_json::from_slice(&sent(&event, true, numbers)).unwrap();
            assert_eq!(shown["sequence"], expected);
            assert_eq!(shown["payload"], stored["payload"]);
        }
        let damaged = StoredEvent {
            body: "{".into(),
            ..event
        };
        let numbers = LogMark::of_new(Major::V2).under(Major::V1);
        assert_eq!(sent(&damaged, false, numbers), damaged.body);
    }
}
