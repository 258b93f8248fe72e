//! What people say about runs, beside the log.

use async_trait::async_trait;
use tokio::sync::broadcast;

use super::{IdempotencyCompletion, StoreError};
use crate::domain::audit::Decision;
use crate::domain::ids::{RunId, TaskId, TenantId};
use crate::protocol::openwop::annotation::Annotation;

/// An annotation as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotationRecord {
    /// Its place among the run's annotations, from 1.
    pub number: u64,
    /// The task it is about, directly or by an event of it.
    pub task: Option<TaskId>,
    /// The document.
    pub annotation: Annotation,
}

/// How much may be said about one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnotationLimits {
    /// Annotations.
    pub count: u32,
    /// Octets of all their documents.
    pub octets: u32,
}

/// What came of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotated {
    /// It was recorded.
    Recorded,
    /// The run has as many as it may have.
    TooMany,
    /// With it, those of the run would be longer than they may be.
    TooLong,
}

/// Annotations of runs. They are no part of a run's log: forks do not inherit them.
#[async_trait]
pub trait Annotations: Send + Sync {
    /// Adds one to a run of this tenant, with the audit entry and the idempotency record, all or nothing. Nothing is
    /// recorded beyond the limits.
    async fn annotate(
        &self,
        tenant: &TenantId,
        task: Option<&TaskId>,
        annotation: &Annotation,
        decision: &Decision,
        limits: AnnotationLimits,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<Annotated, StoreError>;
    /// Those of a run with a number above `after`, in order.
    async fn annotations(
        &self,
        run: &RunId,
        after: u64,
    ) -> Result<Vec<AnnotationRecord>, StoreError>;
    /// The number of the last one, 0 for none.
    async fn last_annotation(&self, run: &RunId) -> Result<u64, StoreError>;
    /// Tells every replica that a run has a new one.
    async fn notify_annotated(&self, run: &RunId);
    /// Runs that are annotated from now on; `None` when signals may have been missed, so that everybody looks.
    fn annotated(&self) -> broadcast::Receiver<Option<RunId>>;
}
