//! Store access to the organizations' own stress tasks.

use jiff::Timestamp;

use crate::ports::Position;
use crate::rules::stress_test::own_task::OwnTask;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTaskRecord {
    pub task: OwnTask,
    pub created_at: Timestamp,
}

impl OwnTaskRecord {
    /// The position of this record in a list.
    pub fn position(&self) -> Position {
        Position::new(self.created_at, self.task.id.clone())
    }
}
