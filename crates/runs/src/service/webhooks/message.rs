//! An event as a subscription gets it: in the form of its contract, and without task content of
//! eval runs.

use jiff::Timestamp;
use serde::Deserialize;

use crate::ports::webhooks::WebhookRecord;
use crate::rules::run::bundle::{has_task_content, without_task_content};
use crate::rules::run::record::RunRecord;
use crate::service::log_reader::projections::suspensions;
use crate::service::log_reader::{LogForm, PagedEvent, Unshown};
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;
use touchstone_kit::webhook::Delivery;
use touchstone_kit::webhook::delivery::{Addressed, BoundIds};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::id::bound;
use touchstone_openwop::wire::v2::event::Unprojectable;

/// The form of a run's events in deliveries.
#[derive(Clone)]
pub(super) struct RunForm {
    log: LogForm,
    is_eval: bool,
}

impl RunForm {
    pub(super) fn of(record: &RunRecord, contract: Major) -> Self {
        Self {
            log: LogForm::of(record, contract),
            is_eval: record.spec.work.is_eval(),
        }
    }

    /// An event in this form, or why it has none.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn shown(
        &self,
        store: &Database,
        run: &RunId,
        event: &StoredEvent,
    ) -> Result<Result<PagedEvent, Unshown>, StoreError> {
        let body = match self.is_eval && has_task_content(&event.kind) {
            true => without_task_content(&event.kind, &event.body),
            false => event.body.clone(),
        };
        let stored = PagedEvent {
            sequence: event.sequence,
            kind: event.kind.clone(),
            body,
        };
        let alone = std::slice::from_ref(&stored);
        let projected = match self.log.project([], alone) {
            Err(Unshown {
                cause: Unprojectable::Interrupt { .. },
                ..
            }) => {
                let upto = event.sequence.saturating_sub(1);
                let earlier = suspensions(store, run, upto).await?;
                let earlier = earlier.iter().map(|event| &*event.body);
                self.log.project(earlier, alone)
            }
            projected => projected,
        };
        Ok(projected.map(|mut shown| shown.pop().unwrap_or(stored)))
    }
}

/// A signed delivery of an event that has the form of the subscription's contract.
pub(super) fn delivery(
    webhook: &WebhookRecord,
    run: &RunId,
    shown: &PagedEvent,
    now: Timestamp,
) -> Delivery {
    let with_tenant = |id: &str| bound(webhook.tenant.as_str(), id);
    let ids = match webhook.contract {
        Major::V1 => None,
        Major::V2 => Some((with_tenant(webhook.id.as_str()), with_tenant(run.as_str()))),
    };
    let addressed = Addressed {
        webhook: &webhook.id,
        tenant: &webhook.tenant,
        run,
        sequence: shown.sequence,
        kind: &shown.kind,
        event: &shown.body,
        bound: ids.as_ref().map(|(webhook, run)| BoundIds { webhook, run }),
    };
    Delivery::of(&addressed, &webhook.secrets, webhook.standard, now)
}

/// The id of an event. One that is damaged is named by its place.
pub(super) fn event_id(run: &RunId, event: &StoredEvent) -> String {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named {
        event_id: String,
    }
    match serde_json::from_slice::<Named>(&event.body) {
        Ok(named) => named.event_id,
        Err(_) => format!("evt_{run}_{}", event.sequence),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn record(log: &Value) -> RunRecord {
        let record = json!({"runId": "run_1", "tenant": "acme", "principal": "key_1", "log": log,
            "createdAt": "2026-01-01T00:00:00Z", "spec": {"workflowId": "w", "work": "journal"}});
        serde_json::from_value(record).unwrap()
    }

    fn event(kind: &str) -> StoredEvent {
        let body = json!({"eventId": "evt_1_3", "runId": "run_1", "type": kind,
            "timestamp": "2026-01-01T00:00:00.000000Z", "sequence": 3, "schemaVersion": 1,
            "engineVersion": "1", "payload": {"callId": "c"}});
        StoredEvent {
            sequence: 3,
            kind: kind.into(),
            body: body.to_string().into(),
        }
    }

    fn shown(record: &RunRecord, contract: Major, event: &StoredEvent) -> Result<Value, Unshown> {
        let form = RunForm::of(record, contract);
        let stored = PagedEvent {
            sequence: event.sequence,
            kind: event.kind.clone(),
            body: event.body.clone(),
        };
        let shown = form.log.project([], &[stored])?;
        Ok(serde_json::from_slice(&shown[0].body).unwrap())
    }

    #[test]
    fn a_delivery_has_the_numbers_and_names_of_its_contract() {
        let event = event("agent.toolReturned");
        for (log, contract, expected) in [
            (
                json!({"first": 0, "firstUnderV1": 1}),
                Major::V1,
                ("run_1", "agent.toolReturned", 3),
            ),
            (
                json!({"first": 0}),
                Major::V1,
                ("run_1", "agent.toolReturned", 2),
            ),
            (
                json!({"first": 0}),
                Major::V2,
                ("acme/run_1", "agent.tool-returned", 2),
            ),
        ] {
            let shown = shown(&record(&log), contract, &event).unwrap();
            let (run, kind, sequence) = expected;
            assert_eq!(
                (&shown["runId"], &shown["type"], &shown["sequence"]),
                (&json!(run), &json!(kind), &json!(sequence))
            );
            assert_eq!(shown["eventId"], "evt_1_3");
        }
    }

    #[test]
    fn an_event_that_major_2_does_not_have_is_no_delivery_of_it() {
        let (record, event) = (record(&json!({"first": 0})), event("later.invented"));
        assert!(shown(&record, Major::V2, &event).is_err());
        assert!(shown(&record, Major::V1, &event).is_ok());
    }

    #[test]
    fn a_damaged_event_is_named_by_its_place() {
        let run = RunId::from("run_0123456789");
        assert_eq!(event_id(&run, &event("eval.scored")), "evt_1_3");
        let damaged = StoredEvent {
            body: "{".into(),
            ..event("eval.scored")
        };
        assert_eq!(event_id(&run, &damaged), "evt_run_0123456789_3");
    }
}
