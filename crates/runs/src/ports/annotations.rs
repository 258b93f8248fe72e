//! Annotations of runs, stored next to the log.

use touchstone_kit::ids::TaskId;
use touchstone_openwop::annotation::Annotation;

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
    pub bytes: u32,
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
