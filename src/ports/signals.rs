//! Wake-ups between readers, workers and replicas.

use std::time::Duration;

use async_trait::async_trait;

use super::Head;
use crate::domain::ids::RunId;

/// Wakes the waiters of a run. Only a hint: a lost signal costs a poll interval, never an event.
#[async_trait]
pub trait Signals: Send + Sync {
    /// Waits until something may have changed in `run` (new events, a cancel request) or `at_most`
    /// has passed.
    async fn run_changed(&self, run: &RunId, known: Head, at_most: Duration);
    /// Waits until some log may have grown, of any run, or `at_most` has passed.
    async fn any_run_changed(&self, at_most: Duration);
    /// Waits until work may be waiting or `at_most` has passed.
    async fn work_waiting(&self, at_most: Duration);
    /// Notifies every replica that `run`'s log now reaches `head`.
    async fn notify_run(&self, run: &RunId, head: Head);
    /// Notifies every replica that a run waits, or that a cancel was requested.
    async fn notify_work(&self);
}
