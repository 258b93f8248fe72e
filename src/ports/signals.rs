//! Wake-ups between readers, workers and replicas.

use std::time::Duration;

use async_trait::async_trait;

use super::Head;
use crate::domain::ids::RunId;

/// Wakes whoever waits for a run. Carries no truth: a lost signal costs a poll interval, never an event.
#[async_trait]
pub trait Signals: Send + Sync {
    /// Waits until something may have changed in `run` (new events, a cancel request) or `at_most` has passed.
    async fn run_changed(&self, run: &RunId, known: Head, at_most: Duration);
    /// Waits until some log may have grown, of whatever run, or `at_most` has passed.
    async fn any_run_changed(&self, at_most: Duration);
    /// Waits until work may be waiting or `at_most` has passed.
    async fn work_waiting(&self, at_most: Duration);
    /// Tells every replica that `run`'s log reaches `head` now.
    async fn notify_run(&self, run: &RunId, head: Head);
    /// Tells every replica that a run waits, or that a cancel was requested.
    async fn notify_work(&self);
}
