//! The append-only event log and the runs it belongs to.

use std::sync::Arc;

use bytes::Bytes;

use crate::audit::Decision;

/// Fencing token: increases with every claim of a run; an append with an older one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// One entry of a run's log as stored and streamed: the document is serialized once, when it is
/// appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Position in the log, from 1, without gaps.
    pub sequence: u64,
    /// The event type, for filters.
    pub kind: Arc<str>,
    /// The complete event document as JSON text on one line.
    pub body: Bytes,
}

/// Bytes of event documents after which a read stops. The last document may exceed it.
pub const READ_BYTES: usize = 4 * 1024 * 1024;

/// Whether a read of up to `limit` events that returned these reached the end of the log.
pub fn reaches_end(events: &[StoredEvent], limit: u32) -> bool {
    let bytes: usize = events.iter().map(|event| event.body.len()).sum();
    events.len() < limit as usize && bytes < READ_BYTES
}

/// The end of a run's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The highest sequence, 0 for an empty log.
    pub sequence: u64,
    /// Whether the last entry is the terminal event.
    pub ended: bool,
}

/// Records written together with events, in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum CompanionRecord {
    /// The audit entry of the decision.
    Decision(Box<Decision>),
    /// The run resumes: the pause request is done.
    Resumed,
}
