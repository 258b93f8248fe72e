//! Shared parts of the fuzz targets and their seeds.

use jiff::Timestamp;
use serde_json::json;
use touchstone_runs::rules::run::record::RunRecord;

/// Length of the log that `last_event_id` reads.
pub const EVENTS: u64 = 40;

/// The id of one of its events.
pub fn event_id(sequence: u64) -> String {
    format!("evt_0199c0de_{sequence}")
}

/// The run it belongs to: a journal without content.
pub fn run_record() -> RunRecord {
    let record = json!({"runId": "run_fuzz", "tenant": "fuzz", "principal": "key_1", "createdAt": "2026-01-01T00:00:00Z",
        "spec": {"workflowId": "fuzz", "work": "journal"}});
    serde_json::from_value(record).expect("a record")
}

/// The time of all events.
pub fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a moment")
}
