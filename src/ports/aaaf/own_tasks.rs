//! Store access to the organizations' own stress tasks.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{OrganizationNumber, OrganizationRecord, Position};
use crate::domain::aaaf::own_task::OwnTask;
use crate::domain::audit::Decision;
use crate::ports::StoreError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTaskRecord {
    pub task: OwnTask,
    pub created_at: Timestamp,
}

impl OwnTaskRecord {
    /// The position of this record in a list.
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
    /// Adds a task and writes the audit entry.
    async fn add_own_task(
        &self,
        organization: &OrganizationRecord,
        record: &OwnTaskRecord,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// Tasks after a position, in the order of creation.
    async fn own_tasks(
        &self,
        organization: OrganizationNumber,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<OwnTaskRecord>, StoreError>;
    /// Deletes a task and writes the audit entry; `false` if it does not exist.
    async fn remove_own_task(
        &self,
        organization: &OrganizationRecord,
        id: &str,
        decision: &Decision,
    ) -> Result<bool, StoreError>;
}
