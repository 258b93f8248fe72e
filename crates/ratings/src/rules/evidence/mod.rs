//! Evidence events (AAAF evidence) describe an agent's work as ids, counts and scores, never as
//! content.

mod batch;
mod data;
mod extent;
mod kinds;
mod listing;
mod members;
mod read;
mod recorder;
mod values;

pub use self::batch::{
    Batch, RETENTION_DAYS, RejectedEvent, ValidEvent, ValidationContext, validate,
};
pub use self::data::{
    DelegationDecision, DelegationOutcome, Error, OrchestrationPlan, OrchestrationResult,
    TaskAssigned, TaskCompleted, TaskRevised, ToolInvoked, ToolUse,
};
pub use self::kinds::EventType;
pub use self::listing::{Listed, ListingFault, list, places};
pub use self::read::{Data, Event, Fault};
pub use self::recorder::{Entitlement, Recorder, Sources, in_words, is_grade, shares};
pub use self::values::{
    AutonomyLevel, Cause, CompletionStatus, ComplexityLevel, Count, Decision, Node, Outcome,
    Severity,
};
