//! The time.

use std::time::Duration;

use jiff::Timestamp;

/// The time, injected so that rules and tests decide what "now" is.
pub trait Clock: Send + Sync {
    /// The current moment.
    fn now(&self) -> Timestamp;

    /// Time since a fixed moment in the past. It is never set, and it continues while the process is stopped and while the
    /// machine sleeps.
    fn uptime(&self) -> Duration;
}
