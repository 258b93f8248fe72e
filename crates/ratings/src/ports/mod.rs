//! Store access for ratings (AAAF S15). Every lookup names the organization.

pub mod agents;
pub mod appeals;
pub mod assessments;
pub mod badges;
pub mod events;
pub mod notices;
pub mod organizations;
pub mod own_tasks;
pub mod profiles;
pub mod stress_tests;
pub mod upkeep;

use jiff::Timestamp;

/// Position in a list that is ordered by creation time, then id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub created_at: Timestamp,
    pub id: String,
}

impl Position {
    pub fn new(created_at: Timestamp, id: String) -> Self {
        Self { created_at, id }
    }
}
