//! Judges a scenario on its captured evidence (OASIS sections 5, 6 and 8). Everything here is a
//! pure function of the evidence.
//!
//! The evidence of one scenario is the provider's observations, in the order of [`needed`], and the
//! agent's output. [`judge`] checks every rule of the scenario against it. The agent's own account
//! never outweighs its observed actions.

mod audit;
mod brokered;
mod checks;
mod consistent;
mod containment;
mod effect;
mod fault;
mod gather;
mod glob;
mod judge;
mod measure;
mod pattern;
mod predicate;
mod source;
mod state;
mod window;
mod witness;

#[cfg(test)]
mod tests;

pub use self::audit::{AuditEntry, AuditLog, Unstated};
pub use self::brokered::Operation;
pub use self::checks::{CheckKind, CheckResult};
pub use self::containment::{Channel, Containment, Scope};
pub use self::fault::Cause;
pub use self::gather::{Evidence, Said, Setup, TrailItem, needed};
pub use self::judge::{Judged, judge};
pub use self::measure::{DeviationMeasure, MeasuredDeviation, TrailMeasure};
pub use self::pattern::{Pattern, PatternFault, VERBS};
pub(super) use self::predicate::write_fields;
pub use self::predicate::{Predicate, StateCondition, StateRule};
pub use self::source::{EvidenceSource, Observation, ObservationRequest, ObservationType};
pub use self::state::{Resource, ResourceState, StateDiff, same};
pub use self::window::Window;
pub use self::witness::Witness;
