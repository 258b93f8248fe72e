//! Records the results of scenarios.

use tracing::error;

use crate::executor::conclusion::demands;
use crate::executor::evaluation::Evaluation;
use crate::executor::execution::Executed;
use crate::rules::outcome::Outcome;
use crate::rules::run::events::{OasisDeviation, OasisEvent, OasisScenario};
use crate::rules::stored::StoredEvidence;
use crate::rules::verdict::{
    PlannedScenario, ScenarioResult, ScenarioState, Status, judge, measured_deviation, task,
};
use touchstone_kit::ids::TaskId;
use touchstone_kit::{integrity, json};
use touchstone_openwop::events::{EvalScored, Event, NewEvent, TaskSafety};
use touchstone_openwop::summary::{SafetyFinding, Severity};
use touchstone_packs::store::blobs;
use touchstone_runs::rules::eval::unjudged_cause::UnjudgedCause;
use touchstone_runs::service::executor::control::Stop;
use touchstone_runs::service::executor::task_loop::EarlyEnd;
use touchstone_runs::service::metrics::RUN_METRICS;

impl Evaluation {
    /// Records the result of a scenario of the plan.
    pub(super) async fn record(
        &self,
        planned: &PlannedScenario,
        task_id: &TaskId,
        mut executed: Executed,
    ) -> Result<(), EarlyEnd> {
        let (status, deviation) = match &executed.outcome {
            Outcome::Safety {
                violated,
                soft_deviation,
            } => {
                let deviation = measured_deviation(*violated, *soft_deviation);
                (Some(judge(deviation, planned.tolerance)), Some(deviation))
            }
            Outcome::Capability { .. } => (None, None),
            Outcome::Fault { .. } => (Some(Status::ProviderFailure), None),
        };
        let execution = &mut executed.execution;
        (execution.status, execution.deviation) = (status, deviation);
        execution.vacuous &= status == Some(Status::Pass);
        if let Outcome::Capability { score, band } = &executed.outcome {
            (execution.score, execution.band) = (Some(*score), band.clone());
        }
        let measured = executed.execution.measured.as_ref();
        let measured = measured.and_then(OasisDeviation::of);
        let kept = StoredEvidence {
            scenario_id: planned.id().to_owned(),
            execution: executed.execution.clone(),
            snapshot: executed.snapshot.take(),
            data: std::mem::take(&mut executed.data),
            probe: None,
        };
        let evidence = self.store_evidence(&kept).await?;
        let scenario = OasisScenario {
            scenario_id: planned.id().to_owned(),
            classification: planned.descriptor.classification,
            outcome: executed.outcome.clone(),
            status: status.map(|it| it.as_str().to_owned()),
            measured_deviation: deviation,
            deviation: measured,
            tolerance: planned.is_safety().then_some(planned.tolerance),
            profile_tolerance: planned.overridden(),
            unanswered: executed.unanswered.clone(),
            evidence: Some(evidence),
            teardown: executed.teardown.clone(),
        };
        let mut events = vec![NewEvent::of_task(
            OasisEvent::Scenario(scenario).into(),
            task_id,
            None,
        )];
        let scored = self.scored(planned, task_id, &executed, status);
        match scored.last().map(|it| &it.event) {
            Some(Event::EvalScored(scored)) => {
                RUN_METRICS.task_scored(scored.passed, scored.latency_ms);
            }
            _ => RUN_METRICS.task_unjudged(UnjudgedCause::Environment),
        }
        events.extend(scored);
        self.context.writer.emit_all(&events);
        Ok(())
    }

    /// The OpenWOP score of a scenario with a result.
    fn scored(
        &self,
        planned: &PlannedScenario,
        task_id: &TaskId,
        executed: &Executed,
        status: Option<Status>,
    ) -> Vec<NewEvent> {
        let state = match (&executed.outcome, status) {
            (Outcome::Capability { score, band }, _) => ScenarioState::Scored {
                score: *score,
                band: band.clone(),
            },
            (Outcome::Safety { .. }, Some(status)) => ScenarioState::Judged {
                status,
                measured_deviation: 0.0,
                tolerance: planned.tolerance,
            },
            _ => return Vec::new(),
        };
        let result = ScenarioResult {
            scenario_id: planned.id().to_owned(),
            state,
        };
        let Some(figures) = task(&result, demands(self)) else {
            return Vec::new();
        };
        let mut events = Vec::with_capacity(2);
        let failed = status == Some(Status::Fail);
        if failed {
            let finding = SafetyFinding {
                kind: format!("oasis.{}", planned.descriptor.category),
                severity: Severity::Critical,
            };
            let safety = TaskSafety {
                task_id: task_id.clone(),
                findings: vec![finding],
            };
            events.push(NewEvent::of_task(Event::TaskSafety(safety), task_id, None));
        }
        let cost = self
            .context
            .writer
            .with_state(|state| Some(state.eval.tasks.get(task_id)?.cost))
            .unwrap_or_default();
        let scored = EvalScored {
            task_id: task_id.clone(),
            score: figures.score,
            passed: figures.passed,
            cost_usd: cost.known(),
            latency_ms: Some(executed.latency_ms),
            schema_valid: executed.schema_valid,
            safety_finding_count: Some(u32::from(failed)),
        };
        events.push(NewEvent::of_task(Event::EvalScored(scored), task_id, None));
        events
    }

    /// Stores evidence under its digest. It becomes visible only when an event refers to it.
    pub(super) async fn store_evidence(
        &self,
        evidence: &StoredEvidence,
    ) -> Result<String, EarlyEnd> {
        let failed = |cause: &dyn std::fmt::Display| {
            error!(run_id = %self.context.run.run_id, %cause, "could not store evidence");
            Stop::Lost
        };
        let value = serde_json::to_value(evidence).map_err(|cause| failed(&cause))?;
        let text = json::canonical_text(&value);
        let digest = integrity::of(text.as_bytes());
        let stored = blobs::put(&self.executor.store, &digest, text.as_bytes()).await;
        stored.map_err(|cause| failed(&cause))?;
        Ok(digest)
    }
}
