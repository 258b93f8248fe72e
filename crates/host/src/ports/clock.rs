use std::time::Duration;

use jiff::Timestamp;

/// The time, injected so that tests determine what "now" is.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// Time since a fixed moment in the past. It is monotonic, and it advances while the process is
    /// stopped and while the machine sleeps.
    fn uptime(&self) -> Duration;
}
