//! Stress tasks of organizations.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{OrganizationNumber, OrganizationRecord, Position};
use crate::domain::aaaf::own_task::OwnTask;
use crate::domain::audit::Decision;
use crate::ports::StoreError;

/// A task as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTaskRecord {
    /// The task.
    pub task: OwnTask,
    /// When it was added.
    pub created_at: Timestamp,
}

impl OwnTaskRecord {
    /// Where a list goes on after this one.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.created_at,
            id: self.task.id.clone(),
        }
    }
}

/// Stress tasks of organizations. A task never changes.
#[async_trait]
pub trait OwnTasks: Send + Sync {
    /// Adds one, together with the entry of the audit log.
    async fn add_own_task(
        &self,
        organization: &OrganizationRecord,
        record: &OwnTaskRecord,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// Those after a position, in the order in which they were added.
    async fn own_tasks(
        &self,
        organization: OrganizationNumber,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<OwnTaskRecord>, StoreError>;
    /// Removes one, together with the entry of the audit log; `false` if there was none.
    async fn remove_own_task(
        &self,
        organization: &OrganizationRecord,
        id: &str,
        decision: &Decision,
    ) -> Result<bool, StoreError>;
}
