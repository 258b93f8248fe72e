//! Storage of tenants: usage, deletion of runs, legal holds.

use crate::rules::run::record::RunRecord;

/// What remains of a deleted run.
#[derive(Clone, Debug)]
pub enum Retained {
    Nothing,
    /// This record and a log without content: gates still count the run as an attempt.
    Attempt(Box<RunRecord>),
}

/// The result of deleting a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDeletion {
    /// The run is deleted. The content of what remains still has to be masked.
    Deleted,
    /// The tenant has no such run, or it was already deleted.
    NotFound,
    /// The run has not ended.
    InProgress,
    /// The run is under a legal hold.
    Held,
}

/// A deleted run whose log still has content.
#[derive(Clone, Debug)]
pub struct Unmasked {
    pub record: RunRecord,
    /// The last sequence that was masked.
    pub masked_to: u64,
}
