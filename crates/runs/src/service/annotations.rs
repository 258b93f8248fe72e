//! Annotations of runs by people (RFC 0056): recorded next to the log, listed, and announced to
//! streams.

use std::sync::Arc;

use crate::ports::annotations::{Annotated, AnnotationLimits};
use crate::rules::run::annotation::{MAX_ANNOTATION_OCTETS, MAX_ANNOTATIONS, NewAnnotation};
use crate::rules::run::record::{RunRecord, Work};
use crate::service::reviews::score_review::{Correction, ScoreReview};
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::access::Scope;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::idempotency::{IdempotencyClaim, IdempotencyCompletion};
use touchstone_host::ports::ids::Ids;
use touchstone_host::service::access::{Caller, authorise};
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{EventId, RunId, TaskId, TenantId};
use touchstone_openwop::annotation::{Actor, Annotation, AnnotationTarget};
use touchstone_openwop::events::EventDocument;
use touchstone_openwop::workflow::WorkflowNode;

/// The subject of an annotation.
#[derive(Default)]
struct Target {
    /// The task, if the annotation is about one.
    task: Option<TaskId>,
    /// The task and the position of its score in the log, if the annotation is about a score.
    scored: Option<(TaskId, u64)>,
}

pub struct Annotations {
    runs: Arc<Runs>,
    reviews: Arc<dyn ScoreReview>,
    /// Labels of decisions about results that people must review. Features register them.
    decisions: &'static [&'static str],
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Annotations {
    pub fn new(
        runs: Arc<Runs>,
        reviews: Arc<dyn ScoreReview>,
        decisions: &'static [&'static str],
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self {
            runs,
            reviews,
            decisions,
            store,
            clock,
            ids,
        }
    }

    /// Records an annotation of a run, finished or not. It changes neither the log nor the scores.
    ///
    /// # Errors
    /// `not_found`; `validation_error` for an event or node the run does not have; `conflict` for a
    /// run at its limit of annotations, by number or total size; `forbidden` for a decision about a
    /// result by an agent's own key.
    pub async fn annotate(
        &self,
        caller: &Caller,
        run: &RunId,
        new: NewAnnotation,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Annotation, Problem> {
        let record = self.runs.record(&caller.tenant, run).await?;
        if new.has_label(self.decisions) {
            self.check_decision(caller, &new).await?;
        }
        let target = self.target(&record, &new).await?;
        let annotation = Annotation {
            annotation_id: self.ids.mint("ann"),
            target: AnnotationTarget {
                run_id: run.clone(),
                event_id: new.event_id,
                node_id: new.node_id,
            },
            signal: new.signal,
            actor: Actor {
                principal_ref: caller.principal.clone(),
            },
            note: new.note,
            created_at: self.clock.now(),
        };
        let decision = Decision {
            at: annotation.created_at,
            principal: caller.principal.clone(),
            action: "runs:annotate".to_owned(),
            resource: annotation.annotation_id.clone(),
            outcome: Outcome::Done,
            reasons: Vec::new(),
            decided_on: None,
            run_id: Some(run.clone()),
        };
        let body = serde_json::to_vec(&annotation).map_err(|cause| internal(&cause))?;
        let completes = claim.map(|claim| IdempotencyCompletion {
            claim: claim.clone(),
            status: 201,
            body: body.into(),
        });
        let recorded = store::annotations::add(
            &self.store,
            &caller.tenant,
            target.task.as_ref(),
            &annotation,
            &decision,
            AnnotationLimits {
                count: MAX_ANNOTATIONS,
                bytes: MAX_ANNOTATION_OCTETS,
            },
            completes.as_ref(),
        )
        .await
        .map_err(|cause| internal(&cause))?;
        check_recorded(recorded)?;
        store::annotations::notify(&self.store, run).await;
        if let (Some(text), Some((task, sequence))) =
            (&annotation.signal.correction, &target.scored)
        {
            let correction = Correction {
                run,
                task,
                sequence: *sequence,
                text,
            };
            // The annotation is recorded, whatever happens to the appeal.
            if let Err(problem) = self.reviews.corrected(caller, correction).await {
                tracing::warn!(run = %run, error = %problem, "could not start an appeal from a correction");
            }
        }
        Ok(annotation)
    }

    /// A decision about a result that people must review needs their scope and a reason.
    async fn check_decision(&self, caller: &Caller, new: &NewAnnotation) -> Result<(), Problem> {
        authorise(caller, Scope::ReviewsWrite)?;
        let why = "an agent's own key cannot review its results; use another principal's key";
        self.reviews.refuse_own(caller, why).await?;
        if new.node_id.is_none() {
            let missing = "a decision about a scenario needs the task of the scenario";
            return Err(Problem::validation("target.nodeId", missing));
        }
        match new.note.as_deref().map(str::trim) {
            None | Some("") => Err(Problem::validation("note", "a decision needs a reason")),
            Some(_) => Ok(()),
        }
    }

    /// Finds what the annotation is about; refuses an event or node that the run does not have.
    async fn target(&self, record: &RunRecord, new: &NewAnnotation) -> Result<Target, Problem> {
        let mut target = Target::default();
        if let Some(event) = &new.event_id {
            let (node, scored_at) = self.node_of(&record.run_id, event).await?;
            if new.node_id.is_some() && new.node_id != node {
                return Err(Problem::validation(
                    "target.nodeId",
                    "the event does not belong to this node; leave one of them out",
                ));
            }
            target.scored = node.zip(scored_at);
            target.task = target.scored.as_ref().map(|(task, _)| task.clone());
        }
        if let Some(node) = &new.node_id {
            require_node(record, node)?;
            if record.spec.eval().is_some() {
                target.task = target.task.or_else(|| Some(node.clone()));
            }
        }
        Ok(target)
    }

    /// The annotations of a run, oldest first.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn list(&self, tenant: &TenantId, run: &RunId) -> Result<Vec<Annotation>, Problem> {
        self.runs.record(tenant, run).await?;
        let found = store::annotations::list(&self.store, run, 0)
            .await
            .map_err(|cause| internal(&cause))?;
        Ok(found.into_iter().map(|record| record.annotation).collect())
    }

    /// The node an event belongs to, and the event's position in the log if the event scored the
    /// node.
    async fn node_of(
        &self,
        run: &RunId,
        event: &EventId,
    ) -> Result<(Option<TaskId>, Option<u64>), Problem> {
        let absent = || {
            Problem::validation(
                "target.eventId",
                "the run has no such event; list its events with `GET /v1/runs/{runId}/events`",
            )
        };
        let sequence = store::runs::sequence_of(&self.store, run, event.as_str())
            .await
            .map_err(|cause| internal(&cause))?
            .ok_or_else(absent)?;
        let found = store::runs::read(&self.store, run, sequence.saturating_sub(1), 1)
            .await
            .map_err(|cause| internal(&cause))?;
        let stored = found.first().ok_or_else(absent)?;
        let document = EventDocument::read(&stored.body).map_err(|cause| internal(&cause))?;
        let scored_at = (document.kind == "eval.scored").then_some(sequence);
        Ok((document.node_id, scored_at))
    }
}

/// Refuses an annotation beyond the run's limits.
fn check_recorded(recorded: Annotated) -> Result<(), Problem> {
    match recorded {
        Annotated::Recorded => Ok(()),
        Annotated::TooMany => Err(Problem::new(
            ErrorCode::LimitReached,
            format!("this run already has {MAX_ANNOTATIONS} annotations, the maximum"),
        )
        .with("maxAnnotations", MAX_ANNOTATIONS)),
        Annotated::TooLong => Err(Problem::new(
            ErrorCode::LimitReached,
            format!(
                "the annotations of this run would exceed {MAX_ANNOTATION_OCTETS} bytes in total; \
                 shorten the annotation"
            ),
        )
        .with("maxAnnotationOctets", MAX_ANNOTATION_OCTETS)),
    }
}

fn require_node(record: &RunRecord, node: &TaskId) -> Result<(), Problem> {
    let known = match &record.spec.work {
        Work::Eval(eval) => eval.tasks.contains(node),
        Work::Workflow(spec) => {
            let names = |known: &WorkflowNode| known.id.as_str() == node.as_str();
            spec.definition.nodes.iter().any(names)
        }
        Work::Journal => false,
    };
    if known {
        return Ok(());
    }
    Err(Problem::validation(
        "target.nodeId",
        "the run has no such node",
    ))
}
