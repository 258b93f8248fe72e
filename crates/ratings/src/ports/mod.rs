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

pub use crate::ports::agents::{AgentNumber, AgentRecord, Known};
pub use crate::ports::appeals::{Amended, Amendment, AppealRecord, AppealState, Handling};
pub use crate::ports::assessments::{
    Asked, AssessmentClaim, AssessmentFilter, AssessmentRecord, Finding, Reviewed, Stage,
    StressTest,
};
pub use crate::ports::badges::{
    BadgeRecord, BadgeStanding, BadgeState, Issued, IssuerKeyRecord, Retirement, Revocation,
    StatusListNumber, StatusListRecord,
};
pub use crate::ports::events::{
    EventFilter, EventPosition, EventRecord, EvidenceOf, NewEvent, Origin, PROJECTED, TaskPosition,
};
pub use crate::ports::notices::{
    Attempted, DeliveryRecord, DeliveryState, DueDelivery, NoticeClaim, NoticeWebhook, Redelivery,
    SealedSecrets,
};
pub use crate::ports::organizations::{OrganizationNumber, OrganizationRecord};
pub use crate::ports::own_tasks::OwnTaskRecord;
pub use crate::ports::profiles::{EndedRun, Gathered, LeftOut, ProfileRecord, RunsOf};
pub use crate::ports::stress_tests::{Outcome, StressResult};
pub use crate::ports::upkeep::{Ending, Looked};

use jiff::Timestamp;

/// Position in a list that is ordered by creation time, then id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub created_at: Timestamp,
    pub id: String,
}
