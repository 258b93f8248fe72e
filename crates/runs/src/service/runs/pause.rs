//! Pausing and resuming runs (OpenWOP `runs.pauseResume`).

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ports::pauses::PauseRequest;
use crate::rules::run::fold::{RunState, RunStatus};
use crate::service::runs::Runs;
use crate::service::runs::interrupts::needs_approver;
use crate::store;
use touchstone_host::ports::run_log::{CompanionRecord, Head};
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::{DrainPolicy, Event, NewEvent, RunResumed};

/// How long a response waits for the pause to take effect. A pause that lets work in flight finish
/// may take longer.
const PATIENCE: Duration = Duration::from_secs(2);

impl Runs {
    /// Requests a pause.
    ///
    /// # Errors
    /// `not_found`; `conflict` with `details.runStatus` unless the run is in progress.
    pub async fn pause(
        &self,
        caller: &Caller,
        run: &RunId,
        drain_policy: DrainPolicy,
        reason: Option<String>,
    ) -> Result<Value, Problem> {
        let record = self.record(&caller.tenant, run).await?;
        let (status, paused_at) = self.with_state(run, pause_state).await?;
        if status != RunStatus::Running || !record.spec.work.is_claimable() {
            return Err(not_pausable(status, paused_at));
        }
        if record.is_approval_gate() {
            return Err(needs_approver(run, "paused").with("runStatus", status.as_str()));
        }
        let request = PauseRequest {
            paused_by: caller.principal.clone(),
            reason,
            drain_policy,
            requested_at: self.clock.now(),
        };
        let news = store::pauses::request_pause(&self.store, run, &request).await;
        if !news.map_err(|cause| internal(&cause))? {
            let (status, paused_at) = self.with_state(run, pause_state).await?;
            return Err(not_pausable(status, paused_at));
        }
        self.store.notify_work().await;
        let (status, paused_at) = self.await_pause(run).await?;
        if paused_at.is_none() && status.is_terminal() {
            return Err(not_pausable(status, None));
        }
        Ok(json!({
            "runId": run,
            "status": RunStatus::Paused,
            "pausedAt": paused_at.unwrap_or(request.requested_at),
        }))
    }

    /// Resumes a paused run, or withdraws a pause that has not taken effect. A withdrawal leaves no
    /// event in the log: the run never stopped.
    ///
    /// # Errors
    /// `not_found`; `conflict` with `details.runStatus` unless the run is paused or about to pause;
    /// `service_unavailable` while a pause is about to take effect.
    pub async fn resume(&self, caller: &Caller, run: &RunId) -> Result<Value, Problem> {
        self.record(&caller.tenant, run).await?;
        let resumable = |state: &RunState| match state.status {
            RunStatus::Paused => Ok(()),
            status => Err(conflict("the run is not paused", status)),
        };
        let (status, _) = self.with_state(run, pause_state).await?;
        if !matches!(status, RunStatus::Paused) && !status.is_terminal() {
            let withdrawn = store::pauses::withdraw_pause(&self.store, run).await;
            if withdrawn.map_err(|cause| internal(&cause))? {
                return Ok(resumed(run, status, self.clock.now()));
            }
            let pause = store::pauses::pause_requested(&self.store, run).await;
            if pause.map_err(|cause| internal(&cause))?.is_some() {
                // The pause takes effect at this moment, unless the holder of the run is gone; then
                // the next holder applies it.
                let (status, paused_at) = self.await_pause(run).await?;
                if paused_at.is_none() && !status.is_terminal() {
                    return Err(Problem::new(
                        ErrorCode::Unavailable,
                        "the pause is about to take effect; try again",
                    ));
                }
            }
        }
        self.with_state(run, resumable).await??;
        let decide = |state: &RunState| {
            resumable(state)?;
            let resumed = RunResumed {
                resumed_by: caller.principal.clone(),
            };
            Ok::<_, Problem>(vec![NewEvent::of_run(Event::RunResumed(resumed))])
        };
        // Together with the event: of two concurrent resumes, the second must not withdraw a pause
        // requested after the first.
        let over = |_: &[NewEvent]| Some(CompanionRecord::Resumed);
        let state = self
            .journal
            .append_with(&caller.tenant, run, decide, over)
            .await?;
        let at = state.last_at.unwrap_or_else(|| self.clock.now());
        Ok(resumed(run, state.status, at))
    }

    /// Waits briefly for a pause to take effect; returns the run's state afterwards.
    async fn await_pause(&self, run: &RunId) -> Result<(RunStatus, Option<Timestamp>), Problem> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let (head, status, paused_at) = self
                .with_state(run, |state| {
                    let head = Head {
                        sequence: state.sequence,
                        ended: state.status.is_terminal(),
                    };
                    (head, state.status, state.paused_at)
                })
                .await?;
            let left = give_up.saturating_duration_since(Instant::now());
            if paused_at.is_some() || status.is_terminal() || left.is_zero() {
                return Ok((status, paused_at));
            }
            self.store.run_changed(run, head, left).await;
        }
    }
}

fn resumed(run: &RunId, status: RunStatus, at: Timestamp) -> Value {
    json!({"runId": run, "status": status, "resumedAt": at})
}

fn pause_state(state: &RunState) -> (RunStatus, Option<Timestamp>) {
    (state.status, state.paused_at)
}

fn conflict(message: &str, status: RunStatus) -> Problem {
    let code = match status.is_terminal() {
        true => ErrorCode::RunTerminal,
        false => ErrorCode::RunStateConflict,
    };
    Problem::new(code, message).with("runStatus", status.as_str())
}

fn not_pausable(status: RunStatus, paused_at: Option<Timestamp>) -> Problem {
    let message = match status {
        RunStatus::Paused => "the run is already paused",
        RunStatus::Running => {
            "a pause is already requested; it takes effect once work in flight has ended"
        }
        _ => "only a run in progress can be paused",
    };
    let problem = conflict(message, status);
    match paused_at {
        Some(at) => problem.with("pausedAt", at.to_string()),
        None => problem,
    }
}
