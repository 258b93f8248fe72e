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

/// The task content that the log of an eval run keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentKept {
    None,
    /// Of tasks that did not pass.
    Failures,
    All,
}

impl ContentKept {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Failures => "failures",
            Self::All => "all",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Failures, Self::All]
            .into_iter()
            .find(|kept| kept.as_str() == text)
    }
}

/// A run whose log still has content that is to be deleted.
#[derive(Clone, Debug)]
pub struct Unmasked {
    pub record: RunRecord,
    /// Whether the run is deleted: then all content is masked, and not only that of tasks.
    pub is_deleted: bool,
    pub kept: ContentKept,
    /// The last sequence that was masked.
    pub masked_to: u64,
}
