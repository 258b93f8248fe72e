//! The rows of recorded events.

use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;

/// The event of a row: sequence number, type and document.
pub fn event_of((sequence, kind, body): (i64, String, String)) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        sequence: column("event", "sequence").number(sequence)?,
        kind: kind.into(),
        body: body.into(),
    })
}
