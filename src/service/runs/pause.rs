//! Pausing runs and letting them go on (OpenWOP `runs.pauseResume`).

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Runs;
use super::interrupts::for_people;
use crate::domain::ids::RunId;
use crate::domain::run::fold::{RunState, RunStatus};
use crate::ports::{Beside, Head, PauseRequest};
use crate::protocol::error::{ErrorCode, Problem};
use crate::protocol::openwop::events::{DrainPolicy, Event, NewEvent, RunResumed};
use crate::service::access::Caller;
use crate::service::fault::internal;

/// How long a pause is waited for before it is answered. One that lets work end first may take longer to come into force.
const PATIENCE: Duration = Duration::from_secs(2);

impl Runs {
    /// Asks for a run to be paused.
    ///
    /// # Errors
    /// `not_found`; `conflict` with `details.runStatus` unless the run is under way.
    pub async fn pause(
        &self,
        caller: &Caller,
        run: &RunId,
        drain_policy: DrainPolicy,
        reason: Option<String>,
    ) -> Result<Value, Problem> {
        let record = self.record(&caller.tenant, run).await?;
        let (status, paused_at) = self.look(run, standing).await?;
        if status != RunStatus::Running || !record.spec.work.is_claimable() {
            return Err(not_pausable(status, paused_at));
        }
        if record.is_approval_gate() {
            return Err(for_people(run, "paused").with("runStatus", status.as_str()));
        }
        let request = PauseRequest {
            paused_by: caller.principal.clone(),
            reason,
            drain_policy,
            requested_at: self.clock.now(),
        };
        let news = self.store.request_pause(run, &request).await;
        if !news.map_err(|cause| internal(&cause))? {
            let (status, paused_at) = self.look(run, standing).await?;
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

    /// Lets a paused run go on, or takes back a pause that was asked for and has not come into force. Of that nothing is
    /// in the log: the run never stopped.
    ///
    /// # Errors
    /// `not_found`; `conflict` with `details.runStatus` unless it is paused or to be paused; `service_unavailable` while a
    /// pause comes into force and does not get there.
    pub async fn resume(&self, caller: &Caller, run: &RunId) -> Result<Value, Problem> {
        self.record(&caller.tenant, run).await?;
        let resumable = |state: &RunState| match state.status {
            RunStatus::Paused => Ok(()),
            status => Err(conflict("the run is not paused", status)),
        };
        let (status, _) = self.look(run, standing).await?;
        if !matches!(status, RunStatus::Paused) && !status.is_terminal() {
            let withdrawn = self.store.withdraw_pause(run).await;
            if withdrawn.map_err(|cause| internal(&cause))? {
                return Ok(resumed(run, status, self.clock.now()));
            }
            let pause = self.store.pause_requested(run).await;
            if pause.map_err(|cause| internal(&cause))?.is_some() {
                // It comes into force at this very moment, unless whoever held the run is gone: whoever takes over is next.
                let (status, paused_at) = self.await_pause(run).await?;
                if paused_at.is_none() && !status.is_terminal() {
                    return Err(Problem::new(
                        ErrorCode::Unavailable,
                        "the pause is coming into force; try again",
                    ));
                }
            }
        }
        self.look(run, resumable).await??;
        let decide = |state: &RunState| {
            resumable(state)?;
            let resumed = RunResumed {
                resumed_by: caller.principal.clone(),
            };
            Ok::<_, Problem>(vec![NewEvent::of_run(Event::RunResumed(resumed))])
        };
        // With the event: of two who resume at once, the second must not take away what was asked for after the first.
        let over = |_: &[NewEvent]| Some(Beside::Resumed);
        let state = self
            .journal
            .append_with(&caller.tenant, run, decide, over)
            .await?;
        let at = state.last_at.unwrap_or_else(|| self.clock.now());
        Ok(resumed(run, state.status, at))
    }

    /// Waits for a pause to come into force, but not for long: how the run stands then.
    async fn await_pause(&self, run: &RunId) -> Result<(RunStatus, Option<Timestamp>), Problem> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let (head, status, paused_at) = self
                .look(run, |state| {
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

fn standing(state: &RunState) -> (RunStatus, Option<Timestamp>) {
    (state.status, state.paused_at)
}

fn conflict(message: &str, status: RunStatus) -> Problem {
    Problem::new(ErrorCode::Conflict, message).with("runStatus", status.as_str())
}

fn not_pausable(status: RunStatus, paused_at: Option<Timestamp>) -> Problem {
    let message = match status {
        RunStatus::Paused => "the run is paused already",
        RunStatus::Running => {
            "a pause was asked for already; it comes into force once work in flight has ended"
        }
        _ => "only a run that is under way can be paused",
    };
    let problem = conflict(message, status);
    match paused_at {
        Some(at) => problem.with("pausedAt", at.to_string()),
        None => problem,
    }
}
