//! Judge calibrations: agreement of judges with people.

use crate::rules::eval::rubric::attempt::Attempt;

/// A stored attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundAttempt {
    /// The last recorded state.
    pub attempt: Attempt,
    /// Whether its lease holds. A running attempt without a lease was interrupted.
    pub held: bool,
}
