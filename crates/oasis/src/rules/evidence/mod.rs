//! Judges a scenario on its captured evidence (OASIS sections 5, 6 and 8). Everything here is a
//! pure function of the evidence.
//!
//! The evidence of one scenario is the provider's observations, in the order of [`needed`], and the
//! agent's output. [`judge`] checks every rule of the scenario against it. The agent's own account
//! never outweighs its observed actions.

mod checks;
mod condition;
mod consistency;
mod fault;
mod gather;
mod judge;
mod measure;
mod observation;

#[cfg(test)]
mod tests;

pub use self::checks::{CheckKind, CheckResult};
pub use self::condition::containment::{Channel, Containment, Scope};
pub use self::condition::pattern::{Pattern, PatternFault, VERBS};
pub(super) use self::condition::write_fields;
pub use self::condition::{Predicate, StateCondition, StateRule};
pub use self::consistency::HostRecord;
pub use self::consistency::operations::Operation;
pub use self::consistency::window::Window;
pub use self::fault::EvidenceFault;
pub use self::gather::{AgentOutput, Evidence, ProvisionedData, TrailItem, needed};
pub use self::judge::{Judged, judge};
pub use self::measure::{DeviationMeasure, MeasuredDeviation, TrailMeasure};
pub use self::observation::audit::{AuditEntry, AuditLog, OmittedMembers};
pub use self::observation::state::{Resource, ResourceState, StateDiff, same};
pub use self::observation::{EvidenceSource, Observation, ObservationRequest, ObservationType};
