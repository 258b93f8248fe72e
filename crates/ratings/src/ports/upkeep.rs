//! Store access for periodic jobs: reassessment notices, and deleting expired data (AAAF S7, S12,
//! S15).

use jiff::Timestamp;

use crate::ports::agents::AgentNumber;
use crate::ports::organizations::OrganizationNumber;

/// An agent that a periodic job examines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentToCheck {
    pub organization: OrganizationNumber,
    pub agent: AgentNumber,
    pub id: String,
    /// Whether no notices are sent for the agent: it is archived or suspended, or its organization
    /// is not active.
    pub retired: bool,
}

/// A badge that is about to expire or has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiringBadge {
    /// Orders badges that expire at the same time.
    pub number: i64,
    pub organization: OrganizationNumber,
    pub badge: String,
    pub agent: String,
    pub assessment: String,
    pub valid_until: Timestamp,
}
