//! Annotations of runs, stored next to the log.

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::{IdempotencyCompletion, StoreError};
use crate::domain::audit::Decision;
use crate::domain::ids::{RunId, TaskId, TenantId};
use crate::protocol::openwop::annotation::Annotation;

#[derive(Clone, Debug, PartialEq)]
pub struct AnnotationRecord {
    /// Its number among the run's annotations, from 1.
    pub number: u64,
    /// The annotated task, given directly or by one of its events.
    pub task: Option<TaskId>,
    pub annotation: Annotation,
}

/// Limits per run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnotationLimits {
    pub count: u32,
    /// Bytes of all annotation documents.
    pub octets: u32,
}

/// The result of adding an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotated {
    Recorded,
    /// The run has the maximum number of annotations.
    TooMany,
    /// The run's annotations would exceed the maximum size.
    TooLong,
}

/// Annotations of runs. They are not part of a run's log: forks do not inherit them.
#[async_trait]
pub trait Annotations: Send + Sync {
    /// Adds an annotation to a run of this tenant, together with the audit entry and the
    /// idempotency record, all or nothing. Adds nothing beyond the limits.
    async fn annotate(
        &self,
        tenant: &TenantId,
        task: Option<&TaskId>,
        annotation: &Annotation,
        decision: &Decision,
        limits: AnnotationLimits,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<Annotated, StoreError>;
    /// The annotations of a run with a number above `after`, in order.
    async fn annotations(
        &self,
        run: &RunId,
        after: u64,
    ) -> Result<Vec<AnnotationRecord>, StoreError>;
    /// The number of the last one, 0 for none.
    async fn last_annotation(&self, run: &RunId) -> Result<u64, StoreError>;
    /// Notifies every replica of a new annotation of a run.
    async fn notify_annotated(&self, run: &RunId);
    /// Runs annotated from now on; `None` if signals may have been missed, so that every subscriber
    /// checks.
    fn annotated(&self) -> broadcast::Receiver<Option<RunId>>;
}
