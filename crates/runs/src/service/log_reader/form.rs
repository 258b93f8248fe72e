//! The form in which a reader sees the events of a log: the numbers and names of a major of the
//! protocol.

use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::error;

use crate::rules::run::record::RunRecord;
use crate::service::log_reader::page::PagedEvent;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;
use touchstone_openwop::wire::log::{LogMark, Numbering};
use touchstone_openwop::wire::v2::event::{LogContext, Projector, Unprojectable};
use touchstone_openwop::wire::v2::names;
use touchstone_openwop::wire::{Major, v1};

/// The event that names the interrupt which later events of its node belong to.
pub const SUSPENDED: &str = "node.suspended";

/// How one kind of readers sees a log.
#[derive(Clone, Debug)]
pub struct LogForm {
    pub major: Major,
    /// Whether task content is masked.
    pub is_masked: bool,
    tenant: TenantId,
    mark: LogMark,
}

/// An event that has no form under the reader's major. The log must not be shown without it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("event {place} has no form under this major: {cause}")]
pub struct Unshown {
    /// Its place in the log.
    pub place: u64,
    /// Its number for the reader.
    pub sequence: u64,
    /// `None` if the stored text is damaged.
    pub event_id: Option<String>,
    pub cause: Unprojectable,
}

impl Unshown {
    /// The error for the client.
    pub fn problem(&self) -> Problem {
        let (code, kind, keys): (ErrorCode, &str, &[String]) = match &self.cause {
            Unprojectable::Kind(kind) => (ErrorCode::EventTypeUnmapped, kind, &[]),
            Unprojectable::Members { kind, keys } => (ErrorCode::PayloadUnprojectable, kind, keys),
            Unprojectable::Document | Unprojectable::Interrupt { .. } => {
                (ErrorCode::PayloadUnprojectable, "", &[])
            }
        };
        error!(cause = %self.cause, sequence = self.sequence, "an event has no form under major 2");
        let problem = Problem::new(
            code,
            "an event of the log has no form in this version of the protocol; read it under \
             version 1.0",
        )
        .with("type", kind)
        .with("keys", keys)
        .with("sequence", self.sequence);
        match &self.event_id {
            Some(id) => problem.with("eventId", id.as_str()),
            None => problem,
        }
    }
}

impl LogForm {
    /// The form of a run's log under a major, with all content.
    pub fn of(record: &RunRecord, major: Major) -> Self {
        Self {
            major,
            is_masked: false,
            tenant: record.tenant.clone(),
            mark: record.log,
        }
    }

    /// The same with masked task content, or without masks.
    #[must_use]
    pub fn masked(self, is_masked: bool) -> Self {
        Self { is_masked, ..self }
    }

    /// The numbers of the events.
    pub fn numbers(&self) -> Numbering {
        self.mark.under(self.major)
    }

    /// Whether the stored events have this form.
    pub fn is_stored(&self) -> bool {
        self.major == Major::V1 && self.numbers() == Numbering::STORED
    }

    /// The events in this form, in their order. `before` are the earlier events of the log with the
    /// kind [`SUSPENDED`], as far as they are known.
    ///
    /// # Errors
    /// One of them has no such form.
    pub fn project<'e>(
        &self,
        before: impl IntoIterator<Item = &'e [u8]>,
        events: &[PagedEvent],
    ) -> Result<Vec<PagedEvent>, Unshown> {
        match self.major {
            Major::V1 => Ok(self.renumbered(events)),
            Major::V2 => self.translated(before, events),
        }
    }

    fn renumbered(&self, events: &[PagedEvent]) -> Vec<PagedEvent> {
        let numbers = self.numbers();
        let renumber = |event: &PagedEvent| {
            // A damaged event is shown as it is stored.
            let shown = v1::event::project(numbers, &event.body).ok();
            PagedEvent {
                body: shown.map_or_else(|| event.body.clone(), |it| it.into_owned().into()),
                ..event.clone()
            }
        };
        events.iter().map(renumber).collect()
    }

    fn translated<'e>(
        &self,
        before: impl IntoIterator<Item = &'e [u8]>,
        events: &[PagedEvent],
    ) -> Result<Vec<PagedEvent>, Unshown> {
        let mut projector = Projector::new(LogContext {
            tenant: self.tenant.as_str(),
            mark: self.mark,
        });
        for suspended in before {
            // One that is damaged cannot be shown either, and this is reported there.
            let _ = projector.learn(suspended);
        }
        let mut shown = Vec::with_capacity(events.len());
        for event in events {
            let mut body = Vec::with_capacity(event.body.len() + 64);
            projector
                .project(&event.body, &mut body)
                .map_err(|cause| self.unshown(event, cause))?;
            let unmapped = || Unprojectable::Kind(event.kind.to_string());
            let kind = names::projected(&event.kind).ok_or_else(unmapped);
            let kind = kind.map_err(|cause| self.unshown(event, cause))?;
            shown.push(PagedEvent {
                sequence: event.sequence,
                kind: kind.into(),
                body: body.into(),
            });
        }
        Ok(shown)
    }

    fn unshown(&self, event: &PagedEvent, cause: Unprojectable) -> Unshown {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Named {
            event_id: String,
        }
        let named = serde_json::from_slice::<Named>(&event.body);
        Unshown {
            place: event.sequence,
            sequence: self.numbers().sequence(event.sequence),
            event_id: named.ok().map(|it| it.event_id),
            cause,
        }
    }
}

/// The payload of an event document.
///
/// # Errors
/// The text is not an event document.
pub fn payload_of(document: &[u8]) -> serde_json::Result<&RawValue> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    serde_json::from_slice::<Document<'_>>(document).map(|it| it.payload)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn form(major: Major, log: &Value) -> LogForm {
        let mut record = json!({"runId": "run_1", "tenant": "acme", "principal": "key_1",
            "createdAt": "2026-01-01T00:00:00Z", "spec": {"workflowId": "w", "work": "journal"}});
        if !log.is_null() {
            record["log"] = log.clone();
        }
        LogForm::of(&serde_json::from_value(record).unwrap(), major)
    }

    fn event(place: u64, kind: &str, payload: &Value) -> PagedEvent {
        let body = json!({"eventId": format!("evt_{place}"), "runId": "run_1", "type": kind,
            "timestamp": "2026-01-01T00:00:00.000000Z", "sequence": place, "schemaVersion": 1,
            "engineVersion": "1", "payload": payload});
        PagedEvent {
            sequence: place,
            kind: kind.into(),
            body: body.to_string().into(),
        }
    }

    fn shown(form: &LogForm, events: &[PagedEvent]) -> Vec<Value> {
        let shown = form.project([], events).unwrap();
        let read = |event: &PagedEvent| serde_json::from_slice(&event.body).unwrap();
        shown.iter().map(read).collect()
    }

    #[test]
    fn major_1_reads_stored_events_unless_major_2_made_the_run() {
        for (log, is_stored) in [
            (Value::Null, true),
            (json!({"first": 1}), true),
            (json!({"first": 0, "firstUnderV1": 1}), true),
            (json!({"first": 0}), false),
        ] {
            assert_eq!(form(Major::V1, &log).is_stored(), is_stored, "{log}");
            assert!(!form(Major::V2, &log).is_stored(), "{log}");
        }
    }

    #[test]
    fn each_major_has_its_numbers_and_names() {
        let events = [event(3, "agent.toolReturned", &json!({"callId": "c"}))];
        let of_v1 = &shown(&form(Major::V1, &json!({"first": 0})), &events)[0];
        let found = (&of_v1["sequence"], &of_v1["type"], &of_v1["runId"]);
        assert_eq!(
            found,
            (&json!(2), &json!("agent.toolReturned"), &json!("run_1"))
        );
        let chunk = json!({"nodeId": "n", "runId": "run_1", "chunk": "x", "isLast": true});
        let events = [event(4, "ai.message.chunk", &chunk)];
        let of_v2 = form(Major::V2, &json!({"first": 0, "firstUnderV1": 1}));
        let kinds: Vec<_> = of_v2.project([], &events).unwrap();
        assert_eq!((&*kinds[0].kind, kinds[0].sequence), ("output.chunk", 4));
        let of_v2 = &shown(&of_v2, &events)[0];
        let found = (&of_v2["sequence"], &of_v2["type"], &of_v2["runId"]);
        assert_eq!(
            found,
            (&json!(3), &json!("output.chunk"), &json!("acme/run_1"))
        );
    }

    #[test]
    fn a_damaged_event_is_shown_as_it_is_stored_by_major_1_alone() {
        let damaged = PagedEvent {
            body: "{\"type\":".into(),
            ..event(2, "eval.scored", &json!({}))
        };
        let of_v1 =
            form(Major::V1, &json!({"first": 0})).project([], std::slice::from_ref(&damaged));
        assert_eq!(of_v1.unwrap()[0].body, damaged.body);
        let of_v2 = form(Major::V2, &json!({"first": 0})).project([], &[damaged]);
        let unshown = of_v2.unwrap_err();
        assert_eq!((unshown.sequence, unshown.event_id), (1, None));
    }

    #[test]
    fn an_event_without_a_form_is_named() {
        let of_v2 = form(Major::V2, &json!({"first": 0}));
        let unshown = of_v2.project([], &[event(5, "later.invented", &json!({}))]);
        let problem = unshown.unwrap_err().problem();
        assert_eq!(problem.code, ErrorCode::EventTypeUnmapped);
        let details = json!(problem.details);
        let expected =
            json!({"type": "later.invented", "keys": [], "sequence": 4, "eventId": "evt_5"});
        assert_eq!(details, expected);
    }

    #[test]
    fn a_decision_needs_the_suspension_before_it() {
        let of_v2 = form(Major::V2, &json!({"first": 0}));
        let granted = [event(
            9,
            "approval.granted",
            &json!({"gateId": "gate", "principal": "key_1"}),
        )];
        let unknown = of_v2.project([], &granted).unwrap_err();
        assert!(matches!(unknown.cause, Unprojectable::Interrupt { .. }));
        let suspended = event(
            2,
            SUSPENDED,
            &json!({"nodeId": "gate", "interruptId": "int-gate-1",
            "kind": "approval", "key": "k"}),
        );
        assert!(of_v2.project([&*suspended.body], &granted).is_ok());
    }
}
