//! The time.

use jiff::Timestamp;

/// The time, injected so that rules and tests decide what "now" is.
pub trait Clock: Send + Sync {
    /// The current moment.
    fn now(&self) -> Timestamp;
}
