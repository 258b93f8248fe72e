//! Several executors of one run that attempt one effect (OpenWOP idempotency, "Concurrent
//! duplicates (Layer 2)").
//!
//! Each executor claims the run, and the next one takes it over while the earlier one is still
//! alive, as happens when a host stalls beyond its lease. Each announces the effect as a call of a
//! live tool is announced, and performs it only if the announcement is durable under the fencing
//! token of its claim.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::conformance::{Seams, closed, nothing_came};
use touchstone_agents::rules::activity::Activity;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::events::{EffectIntended, Event, NewEvent, RunCompleted, RunOutputs};
use touchstone_runs::ports::queue::Wait;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::service::journal::Journal;
use touchstone_runs::service::projections::catch_up;
use touchstone_runs::service::run_writer::RunWriter;
use touchstone_runs::store as run_store;

/// Longer than any executor needs.
const LEASE: Duration = Duration::from_secs(15);
const WORKFLOW: &str = "conformance:concurrent-claim";
const NODE: &str = "effect";
const TOOL: &str = "conformance:effect";
const FEWEST_EXECUTORS: u64 = 2;
const MOST_EXECUTORS: u64 = 16;

impl Seams {
    /// Lets several executors of a new run attempt the same effect at once: `{executors?}`.
    ///
    /// # Errors
    /// `validation_error`; the store failed.
    pub async fn claim_concurrently(
        &self,
        caller: &Caller,
        body: &Value,
    ) -> Result<Value, Problem> {
        let members = closed(body, &["executors"])?;
        let count = executor_count(members)?;
        let began = Instant::now();
        let tenant = &caller.tenant;
        let run = RunId::from(self.ids.mint("run"));
        let owner = self.ids.mint("seam");
        let journal = Journal::new(
            self.store.clone(),
            self.clock.clone(),
            self.ids.clone(),
            owner.clone(),
        );
        journal
            .open(tenant, &run, WORKFLOW, &caller.principal)
            .await?;
        // Starts the log.
        journal
            .append(tenant, &run, |_| Ok::<_, Problem>(Vec::new()))
            .await?;
        let mut state = RunState::default();
        catch_up(self.store.as_ref(), &run, &mut state)
            .await
            .map_err(|cause| internal(&cause))?;
        let executors = self.executors(tenant, &run, &owner, &state, count).await?;
        let effect = Activity {
            tenant,
            run: &run,
            node: NODE,
            ordinal: 0,
            provider_key: &format!("mcp:{TOOL}"),
        };
        let attempts = join_all(executors.iter().map(|writer| attempt(writer, &effect))).await;
        let delivered = attempts.iter().filter(|(_, delivered)| *delivered).count();
        let minted: Vec<&String> = attempts.iter().map(|(id, _)| id).collect();
        let completed = RunCompleted {
            outputs: RunOutputs::Workflow(Map::new()),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        journal
            .append(tenant, &run, |_| {
                Ok::<_, Problem>(vec![NewEvent::of_run(Event::RunCompleted(completed))])
            })
            .await?;
        Ok(json!({
            "runId": run,
            "logicalInvocationId": minted.first(),
            "mintedIds": minted,
            "attempted": minted.len(),
            "delivered": delivered,
        }))
    }

    /// Executors that each took the run over from the one before.
    async fn executors(
        &self,
        tenant: &TenantId,
        run: &RunId,
        owner: &str,
        state: &RunState,
        count: u64,
    ) -> Result<Vec<RunWriter>, Problem> {
        let mut executors = Vec::new();
        for _ in 0..count {
            let claim = run_store::queue::claim_run(&self.store, tenant, run, owner, LEASE)
                .await
                .map_err(|cause| internal(&cause))?
                .ok_or_else(nothing_came)?;
            // The next executor takes over; this one does not notice.
            run_store::queue::park(&self.store, run, claim.fence, Wait::default())
                .await
                .map_err(|cause| internal(&cause))?;
            executors.push(RunWriter::new(
                &claim,
                None,
                state.clone(),
                self.store.clone(),
                self.clock.clone(),
                self.ids.clone(),
            ));
        }
        Ok(executors)
    }
}

fn executor_count(members: &Map<String, Value>) -> Result<u64, Problem> {
    match members.get("executors") {
        None | Some(Value::Null) => Ok(FEWEST_EXECUTORS),
        Some(count) => count
            .as_u64()
            .filter(|count| (FEWEST_EXECUTORS..=MOST_EXECUTORS).contains(count))
            .ok_or_else(|| {
                Problem::validation(
                    "executors",
                    format!(
                        "`executors` must be an integer from {FEWEST_EXECUTORS} to {MOST_EXECUTORS}"
                    ),
                )
            }),
    }
}

/// One executor attempts the effect: the id it gives the effect, and whether it performed it.
async fn attempt(writer: &RunWriter, effect: &Activity<'_>) -> (String, bool) {
    let id = effect.id();
    let intended = EffectIntended {
        tool: TOOL.to_owned(),
        call_id: id.clone(),
    };
    writer.emit(&NewEvent::of_run(Event::EffectIntended(intended)));
    let (kept, ()) = tokio::join!(
        async {
            let kept = writer.flush().await;
            writer.close();
            kept
        },
        writer.run_flusher()
    );
    (id, kept.is_ok())
}
