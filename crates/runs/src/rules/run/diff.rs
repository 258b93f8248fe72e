//! Differences between two runs (RFC 0054): a pure function of their logs.
//!
//! Events are aligned by their place in the logs. Members that always differ are excluded: the ids of
//! event, run and cause, and the time. Numbers are compared by value, and the order of members is
//! ignored. Logs are read event by event, so memory use depends on the stored differences only, not
//! on the length of the runs.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::fold::RunStatus;
use crate::rules::eval::matching::equal;
use touchstone_kit::ids::RunId;
use touchstone_openwop::diff::{DiffOp, EventDiff, RunDiff};

/// Maximum number of stored differences.
const MAX_DIFFS: usize = 1_000;
/// Maximum total size of the events in them, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The type of the placeholder for an event that cannot be parsed.
pub const UNREADABLE: &str = "touchstone.unreadable";

/// One of the two runs.
#[derive(Clone, Debug)]
pub struct Side {
    pub run: RunId,
    /// Number of events in its log.
    pub events: u64,
    /// The run's current status.
    pub status: RunStatus,
}

/// The number of events that can be compared. If a log is still growing, nothing is known about
/// events past its current end.
pub fn comparable(a: &Side, b: &Side) -> u64 {
    match (a.status.is_terminal(), b.status.is_terminal()) {
        (true, true) => a.events.max(b.events),
        (true, false) => b.events,
        (false, true) => a.events,
        (false, false) => a.events.min(b.events),
    }
}

#[derive(Debug, Default)]
pub struct LogDiff {
    diverged_at: Option<u64>,
    diffs: Vec<EventDiff>,
    bytes: usize,
    full: bool,
}

impl LogDiff {
    /// Compares the events at one place; call it in rising order. Events that cannot be parsed are
    /// compared byte by byte and shown by their sequence only.
    pub fn compare(&mut self, seq: u64, a: Option<&[u8]>, b: Option<&[u8]>) {
        let op = match (a, b) {
            (None, None) => return,
            (None, Some(_)) => DiffOp::Added,
            (Some(_), None) => DiffOp::Removed,
            (Some(a), Some(b)) => {
                if same(a, b).unwrap_or(a == b) {
                    return;
                }
                DiffOp::Changed
            }
        };
        self.diverged_at.get_or_insert(seq);
        let bytes = a.map_or(0, <[u8]>::len) + b.map_or(0, <[u8]>::len);
        let fits = self.diffs.len() < MAX_DIFFS && self.bytes + bytes <= MAX_BYTES;
        // The first difference is always shown.
        if !fits && !self.diffs.is_empty() {
            self.full = true;
            return;
        }
        let read = |body: Option<&[u8]>| {
            let unreadable = || json!({"sequence": seq, "type": UNREADABLE});
            body.map(|body| serde_json::from_slice(body).unwrap_or_else(|_| unreadable()))
        };
        self.bytes += bytes;
        self.diffs.push(EventDiff {
            seq,
            op,
            a_event: read(a),
            b_event: read(b),
        });
    }

    /// Whether no more differences can be stored, so that later events need not be compared.
    pub fn is_full(&self) -> bool {
        self.full
    }

    pub fn finish(self, a: Side, b: Side) -> RunDiff {
        let in_flight = !a.status.is_terminal() || !b.status.is_terminal();
        RunDiff {
            diverged_at_seq: self.diverged_at,
            event_diffs: self.diffs,
            state_diff: state_diff(&a, &b),
            truncated: in_flight || self.full,
            a: a.run,
            b: b.run,
        }
    }
}

/// Compares the status only: it cannot contain a credential, because no caller, model or task
/// chooses it.
fn state_diff(a: &Side, b: &Side) -> Map<String, Value> {
    let mut members = Map::new();
    if a.status != b.status {
        members.insert("status".to_owned(), json!({"a": a.status, "b": b.status}));
    }
    members
}

/// The compared part of an event document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Comparable<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    node_id: Option<Cow<'a, str>>,
    schema_version: Option<u64>,
    #[serde(borrow)]
    engine_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

fn same(a: &[u8], b: &[u8]) -> serde_json::Result<bool> {
    let a: Comparable<'_> = serde_json::from_slice(a)?;
    let b: Comparable<'_> = serde_json::from_slice(b)?;
    let envelopes = a.kind == b.kind
        && a.node_id == b.node_id
        && a.schema_version == b.schema_version
        && a.engine_version == b.engine_version;
    if !envelopes {
        return Ok(false);
    }
    match (a.payload, b.payload) {
        (Some(a), Some(b)) => Ok(a.get() == b.get() || equal(&read(a)?, &read(b)?)),
        (a, b) => Ok(a.is_none() == b.is_none()),
    }
}

fn read(payload: &RawValue) -> serde_json::Result<Value> {
    serde_json::from_str(payload.get())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn event(run: &str, seq: u64, kind: &str, payload: &Value) -> Vec<u8> {
        let document = json!({"eventId": format!("evt_{run}_{seq}"), "runId": run, "type": kind, "sequence": seq,
            "timestamp": format!("2026-01-01T00:00:{:02}.000000Z", seq % 60), "schemaVersion": 1,
            "engineVersion": "1", "causationId": format!("evt_{run}_0"), "payload": payload});
        document.to_string().into_bytes()
    }

    fn log(run: &str, payloads: &[u8]) -> Vec<Vec<u8>> {
        let of = |(seq, n): (u64, &u8)| event(run, seq, "eval.scored", &json!({"score": n}));
        (1..).zip(payloads).map(of).collect()
    }

    fn side(run: &str, events: usize, status: RunStatus) -> Side {
        Side {
            run: run.into(),
            events: events as u64,
            status,
        }
    }

    fn diff(a: &[Vec<u8>], b: &[Vec<u8>], statuses: (RunStatus, RunStatus)) -> RunDiff {
        let (a_side, b_side) = (
            side("a", a.len(), statuses.0),
            side("b", b.len(), statuses.1),
        );
        let mut found = LogDiff::default();
        for seq in 1..=comparable(&a_side, &b_side) {
            let at = |log: &[Vec<u8>]| log.get(seq as usize - 1).cloned();
            found.compare(seq, at(a).as_deref(), at(b).as_deref());
        }
        found.finish(a_side, b_side)
    }

    const ENDED: (RunStatus, RunStatus) = (RunStatus::Completed, RunStatus::Completed);

    #[rstest]
    #[case::order(r#"{"a":1,"b":[2]}"#, r#"{ "b": [2], "a": 1 }"#, true)]
    #[case::number(r#"{"a":1}"#, r#"{"a":1.0}"#, true)]
    #[case::value(r#"{"a":1}"#, r#"{"a":2}"#, false)]
    #[case::text_is_no_number(r#"{"a":1}"#, r#"{"a":"1"}"#, false)]
    #[case::member(r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false)]
    #[case::order_of_a_list(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false)]
    fn payloads_are_compared_by_value(#[case] a: &str, #[case] b: &str, #[case] equal: bool) {
        let document = |payload: &str| format!(r#"{{"type":"x.y","payload":{payload}}}"#);
        let (a, b) = (document(a), document(b));
        assert_eq!(same(a.as_bytes(), b.as_bytes()).unwrap(), equal);
    }

    #[test]
    fn events_of_another_type_or_node_differ() {
        let base = r#"{"type":"x.y","nodeId":"n","payload":{}}"#;
        for other in [
            r#"{"type":"x.z","nodeId":"n","payload":{}}"#,
            r#"{"type":"x.y","nodeId":"m","payload":{}}"#,
            r#"{"type":"x.y","payload":{}}"#,
        ] {
            assert!(!same(base.as_bytes(), other.as_bytes()).unwrap(), "{other}");
        }
    }

    #[test]
    fn a_diff_is_truncated_at_its_limit() {
        let (a, b) = (log("a", &[1; 1500]), log("b", &[2; 1500]));
        let found = diff(&a, &b, ENDED);
        assert_eq!(
            (
                found.diverged_at_seq,
                found.event_diffs.len(),
                found.truncated
            ),
            (Some(1), MAX_DIFFS, true)
        );
        let big = json!({"text": "x".repeat(MAX_BYTES)});
        let (a, b) = (
            vec![event("a", 1, "x.y", &big), event("a", 2, "x.y", &big)],
            vec![],
        );
        let found = diff(&a, &b, ENDED);
        assert_eq!((found.event_diffs.len(), found.truncated), (1, true));
    }

    #[test]
    fn events_after_the_end_of_an_unfinished_log_are_not_compared() {
        let (short, long) = (log("a", &[1, 2]), log("b", &[1, 2, 3]));
        let (running, done) = (RunStatus::Running, RunStatus::Completed);
        for statuses in [(running, done), (running, running)] {
            let found = diff(&short, &long, statuses);
            assert_eq!((found.diverged_at_seq, found.truncated), (None, true));
        }
        let found = diff(&short, &long, (done, running));
        assert_eq!(
            (found.diverged_at_seq, found.event_diffs[0].op),
            (Some(3), DiffOp::Added)
        );
        assert_eq!(
            found.state_diff["status"],
            json!({"a": "completed", "b": "running"})
        );
    }

    proptest! {
        #[test]
        fn a_run_does_not_differ_from_itself(payloads in prop::collection::vec(0..4_u8, 0..40)) {
            let found = diff(&log("a", &payloads), &log("b", &payloads), ENDED);
            prop_assert_eq!(found.diverged_at_seq, None);
            prop_assert!(found.event_diffs.is_empty() && found.state_diff.is_empty() && !found.truncated);
        }

        #[test]
        fn swapping_the_runs_swaps_added_and_removed_events(
            a in prop::collection::vec(0..3_u8, 0..40),
            b in prop::collection::vec(0..3_u8, 0..40),
        ) {
            let (a, b) = (log("a", &a), log("b", &b));
            let (there, back) = (diff(&a, &b, ENDED), diff(&b, &a, ENDED));
            prop_assert_eq!(there.diverged_at_seq, back.diverged_at_seq);
            prop_assert_eq!(there.diverged_at_seq, there.event_diffs.first().map(|diff| diff.seq));
            prop_assert_eq!(there.event_diffs.len(), back.event_diffs.len());
            for (x, y) in there.event_diffs.iter().zip(&back.event_diffs) {
                let mirrored = match x.op {
                    DiffOp::Added => DiffOp::Removed,
                    DiffOp::Removed => DiffOp::Added,
                    DiffOp::Changed => DiffOp::Changed,
                };
                prop_assert_eq!((x.seq, mirrored), (y.seq, y.op));
                prop_assert_eq!((&x.a_event, &x.b_event), (&y.b_event, &y.a_event));
            }
            prop_assert!(there.event_diffs.is_sorted_by(|x, y| x.seq < y.seq));
        }
    }
}
