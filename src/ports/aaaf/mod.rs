//! Store access for ratings (AAAF S15). Every lookup names the organization.

mod agents;
mod appeals;
mod assessments;
mod badges;
mod events;
mod notices;
mod organizations;
mod own_tasks;
mod profiles;
mod stress_tests;
mod upkeep;

pub use agents::{AgentNumber, AgentRecord, Known};
pub use appeals::{Amended, Amendment, AppealRecord, AppealState, Handling};
pub use assessments::{
    Asked, AssessmentClaim, AssessmentFilter, AssessmentRecord, Finding, Reviewed, Stage,
    StressTest,
};
pub use badges::{
    BadgeRecord, BadgeStanding, BadgeState, Issued, IssuerKeyRecord, Retirement, Revocation,
    StatusListNumber, StatusListRecord,
};
pub use events::{
    EventFilter, EventPosition, EventRecord, EvidenceOf, NewEvent, Origin, PROJECTED, TaskPosition,
};
pub use notices::{
    Attempted, DeliveryRecord, DeliveryState, DueDelivery, NoticeClaim, NoticeWebhook, Redelivery,
    SealedSecrets,
};
pub use organizations::{OrganizationNumber, OrganizationRecord};
pub use own_tasks::OwnTaskRecord;
pub use profiles::{EndedRun, Gathered, LeftOut, ProfileRecord, RunsOf};
pub use stress_tests::{Outcome, StressResult};
pub use upkeep::{Ending, Looked};

use jiff::Timestamp;

/// Position in a list that is ordered by creation time, then id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub created_at: Timestamp,
    pub id: String,
}
