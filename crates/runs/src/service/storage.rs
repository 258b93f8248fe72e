//! Quotas of tenants, deletion of runs, legal holds, retention.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::ports::storage::{ContentKept, Retained, RunDeletion};
use crate::rules::kind::{Action, Kinds};
use crate::rules::run::bundle::{Redactor, has_task_content, without_task_content};
use crate::rules::run::fold::RunState;
use crate::rules::run::record::{RunRecord, Work};
use crate::service::projections::Projections;
use crate::storage::{LegalHold, Quotas, StorageLimits, Usage};
use crate::store;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::run_log::{StoredEvent, reaches_end};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_kit::redaction::mask;
use touchstone_openwop::events::EventDocument;
use touchstone_packs::ports::host::{Addition, AgentDeployments, SharedStorage};
use touchstone_packs::store as pack_store;

/// How long a tenant's usage is cached. Reservations by this process are added meanwhile.
const USAGE_TTL: Duration = Duration::from_secs(10);
/// Maximum number of tenants in the cache.
const MAX_TENANTS: usize = 10_000;
/// Events masked in one transaction.
const EVENTS: u32 = 500;
/// Runs per page in the retention sweep.
const RUNS: u32 = 100;
/// How long an upload of a suite is kept. Requests end much sooner.
const UPLOAD_KEPT: SignedDuration = SignedDuration::from_hours(2);
/// The principal of retention in the audit log.
pub(super) const RETENTION_PRINCIPAL: &str = "host:retention";
/// Longest reason of a hold, in characters.
const MAX_REASON: usize = 500;

pub struct Storage {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    projections: Arc<Projections>,
    kinds: Kinds,
    deployments: Arc<dyn AgentDeployments>,
    limits: StorageLimits,
    cached_usage: Mutex<HashMap<TenantId, (Instant, Usage)>>,
}

impl Storage {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        projections: Arc<Projections>,
        kinds: Kinds,
        deployments: Arc<dyn AgentDeployments>,
        limits: StorageLimits,
    ) -> Self {
        Self {
            store,
            clock,
            projections,
            kinds,
            deployments,
            limits,
            cached_usage: Mutex::default(),
        }
    }

    /// The quotas of each tenant.
    pub fn quotas(&self) -> &Quotas {
        &self.limits.quotas
    }

    /// The tenant's usage.
    ///
    /// # Errors
    /// The store failed.
    pub async fn usage(&self, tenant: &TenantId) -> Result<Usage, Problem> {
        let usage = store::storage::usage(&self.store, tenant).await;
        usage.map_err(|cause| internal(&cause))
    }

    /// Counts `adding` towards the tenant's usage.
    ///
    /// # Errors
    /// `quota_exceeded`; then nothing is counted.
    pub async fn reserve(&self, tenant: &TenantId, adding: &Usage) -> Result<(), Problem> {
        self.read_usage(tenant).await?;
        let mut cached_usage = self.cached_usage();
        let Some((_, used)) = cached_usage.get_mut(tenant) else {
            return Ok(());
        };
        self.within_quotas(used, adding)?;
        used.packs = used.packs.saturating_add(adding.packs);
        used.suites = used.suites.saturating_add(adding.suites);
        used.runs = used.runs.saturating_add(adding.runs);
        used.bytes = used.bytes.saturating_add(adding.bytes);
        Ok(())
    }

    /// Reads the tenant's usage unless it is in the cache.
    async fn read_usage(&self, tenant: &TenantId) -> Result<(), Problem> {
        if !self.is_fresh(tenant) {
            let usage = self.usage(tenant).await?;
            let mut cached_usage = self.cached_usage();
            if cached_usage.len() >= MAX_TENANTS {
                cached_usage.clear();
            }
            cached_usage.insert(tenant.clone(), (Instant::now(), usage));
        }
        Ok(())
    }

    fn within_quotas(&self, used: &Usage, adding: &Usage) -> Result<(), Problem> {
        if let Some(exceeded) = self.limits.quotas.exceeded(used, adding) {
            return Err(Problem::new(
                ErrorCode::QuotaExceeded,
                format!(
                    "the tenant's quota `{}` of {} {} would be exceeded, {} are in use; delete \
                     some, or ask the operator to raise `quotas.{}`",
                    exceeded.quota, exceeded.limit, exceeded.unit, exceeded.used, exceeded.quota
                ),
            )
            .with("quota", exceeded.quota)
            .with("limit", exceeded.limit)
            .with("used", exceeded.used));
        }
        Ok(())
    }

    /// Reads the tenant's usage again before the next reservation, because something was deleted,
    /// or not added after all.
    pub fn forget_usage(&self, tenant: &TenantId) {
        self.cached_usage().remove(tenant);
    }

    fn is_fresh(&self, tenant: &TenantId) -> bool {
        let cached_usage = self.cached_usage();
        cached_usage
            .get(tenant)
            .is_some_and(|(read_at, _)| read_at.elapsed() < USAGE_TTL)
    }

    fn cached_usage(&self) -> std::sync::MutexGuard<'_, HashMap<TenantId, (Instant, Usage)>> {
        self.cached_usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes a finished run. The scores of an eval run stay, without content, because gates count
    /// every attempt.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a run that is in progress, under a legal hold, the evidence of a
    /// version in service, or a record of a decision that the host keeps.
    pub async fn delete(&self, caller: &Caller, run: &RunId) -> Result<(), Problem> {
        let record = self.record(&caller.tenant, run).await?;
        if let Some(refusal) = kept_by_host(self.kinds, &record) {
            return Err(conflict(refusal));
        }
        if self.is_evidence(&record).await? {
            return Err(conflict(
                "the run is the evidence of a version in service; deprecate the version or roll it back first",
            ));
        }
        let decision = self.decision(&caller.principal, "runs:delete", run, Vec::new());
        let deleted = self.delete_as(&record, &decision).await;
        match deleted.map_err(|cause| internal(&cause))? {
            RunDeletion::Deleted => {}
            RunDeletion::NotFound => return Err(not_found()),
            RunDeletion::InProgress => {
                return Err(conflict("the run has not ended; cancel it first"));
            }
            RunDeletion::Held => {
                return Err(conflict("the run is under a legal hold; release it first"));
            }
        }
        // If interrupted, the host's next sweep masks the rest.
        self.mask_all().await.map_err(|cause| internal(&cause))?;
        Ok(())
    }

    /// Places a legal hold on a run, or replaces its reason.
    ///
    /// # Errors
    /// `not_found`, `validation_error`.
    pub async fn hold(
        &self,
        caller: &Caller,
        run: &RunId,
        reason: &str,
    ) -> Result<LegalHold, Problem> {
        let length = reason.trim().chars().count();
        if length == 0 || reason.chars().count() > MAX_REASON {
            return Err(Problem::validation(
                "reason",
                format!("`reason` must have 1 to {MAX_REASON} characters"),
            ));
        }
        let hold = LegalHold {
            placed_by: caller.principal.clone(),
            placed_at: self.clock.now(),
            // Recorded and audited as masked.
            reason: mask(reason).into_owned(),
        };
        let reasons = vec![format!("hold: {}", hold.reason)];
        let decision = self.decision(&caller.principal, "runs:hold", run, reasons);
        self.place(caller, run, Some(&hold), &decision).await?;
        Ok(hold)
    }

    /// Releases the legal hold of a run.
    ///
    /// # Errors
    /// `not_found`; `conflict` if the run is not under a hold.
    pub async fn release(&self, caller: &Caller, run: &RunId) -> Result<(), Problem> {
        self.record(&caller.tenant, run).await?;
        let hold = store::storage::legal_hold(&self.store, &caller.tenant, run).await;
        let Some(hold) = hold.map_err(|cause| internal(&cause))? else {
            return Err(conflict("the run is not under a legal hold"));
        };
        let reasons = vec![format!("release: {}", hold.reason)];
        let decision = self.decision(&caller.principal, "runs:release", run, reasons);
        self.place(caller, run, None, &decision).await
    }

    async fn place(
        &self,
        caller: &Caller,
        run: &RunId,
        hold: Option<&LegalHold>,
        decision: &Decision,
    ) -> Result<(), Problem> {
        let placed =
            store::storage::hold_run(&self.store, &caller.tenant, run, hold, decision).await;
        match placed.map_err(|cause| internal(&cause))? {
            true => Ok(()),
            false => Err(not_found()),
        }
    }

    /// Runs created before this time are due for deletion; `None` if runs are kept.
    pub(super) fn due_before(&self) -> Option<Timestamp> {
        self.limits.retention.due_before(self.clock.now())
    }

    /// A page of runs that are due for deletion, each with its number.
    pub(super) async fn due(
        &self,
        before: Timestamp,
        after: i64,
    ) -> Result<Vec<(i64, RunRecord)>, StoreError> {
        store::storage::deletable_runs(&self.store, before, after, RUNS).await
    }

    /// Deletes the task content of eval runs that is not retained. Scores stay.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete_content(&self, shutdown: &CancellationToken) -> Result<u64, StoreError> {
        store::projection::forget_outdated(&self.store).await?;
        self.mask_all().await?;
        let Some((kept, before)) = self.limits.content.due(self.clock.now()) else {
            return Ok(0);
        };
        let (mut after, mut deleted) = (0, 0);
        while !shutdown.is_cancelled() {
            let due = store::storage::content_due(&self.store, kept, before, after, RUNS).await?;
            let Some((last, _)) = due.last() else { break };
            after = *last;
            for (_, record) in &due {
                let reasons = vec![format!("content.retain: kept {}", kept.as_str())];
                let decision = self.decision(
                    RETENTION_PRINCIPAL,
                    "runs:content-delete",
                    &record.run_id,
                    reasons,
                );
                let marked =
                    store::storage::drop_content(&self.store, record, kept, &decision).await?;
                deleted += u64::from(marked);
            }
            self.mask_all().await?;
        }
        if deleted > 0 {
            info!(deleted, "deleted the task content of runs");
        }
        Ok(deleted)
    }

    /// Deletes uploads of suites that were interrupted.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn sweep_uploads(
        &self,
        shutdown: &CancellationToken,
    ) -> Result<(), StoreError> {
        let before = self.clock.now() - UPLOAD_KEPT;
        let mut swept = 0;
        while !shutdown.is_cancelled() {
            let found = pack_store::suites::sweep(&self.store, before).await?;
            if found == 0 {
                break;
            }
            swept += found;
        }
        if swept > 0 {
            info!(uploads = swept, "deleted interrupted uploads of suites");
        }
        Ok(())
    }

    /// Compresses the logs of ended runs that are due.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn compress_logs(
        &self,
        shutdown: &CancellationToken,
    ) -> Result<(), StoreError> {
        let Some(before) = self.limits.retention.compressed_before(self.clock.now()) else {
            return Ok(());
        };
        let (mut after, mut compressed) = (0, 0_u64);
        loop {
            let due = store::segments::compressible(&self.store, before, after, RUNS).await?;
            let Some(last) = due.last() else { break };
            after = *last;
            for number in due {
                compressed += u64::from(self.compress_log(number, shutdown).await?);
                if shutdown.is_cancelled() {
                    return Ok(());
                }
            }
        }
        if compressed > 0 {
            info!(runs = compressed, "compressed the logs of runs");
        }
        Ok(())
    }

    async fn compress_log(
        &self,
        number: i64,
        shutdown: &CancellationToken,
    ) -> Result<bool, StoreError> {
        loop {
            match store::segments::compress_next(&self.store, number).await {
                Ok(true) if !shutdown.is_cancelled() => {}
                Ok(_) => return Ok(true),
                // The log stays as it is. Other runs are not affected.
                Err(cause @ StoreError::Inconsistent { .. }) => {
                    error!(number, %cause, "could not compress the log of a run");
                    return Ok(false);
                }
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Whether retention may delete a run that is due.
    pub(super) async fn may_be_deleted(&self, record: &RunRecord) -> bool {
        // If the lookup fails, the run may be the evidence of a version in service.
        kept_by_host(self.kinds, record).is_none()
            && !self.is_evidence(record).await.unwrap_or(true)
    }

    /// Why retention acts, for the audit log.
    pub(super) fn retention_reason(&self) -> String {
        format!("retention: {} days", self.limits.retention.runs_days)
    }

    /// Deletes a run that is due, unless it is under a legal hold by now.
    pub(super) async fn delete_due(
        &self,
        record: &RunRecord,
        further_reasons: Vec<String>,
    ) -> Result<bool, StoreError> {
        let mut reasons = vec![self.retention_reason()];
        reasons.extend(further_reasons);
        let run = &record.run_id;
        let decision = self.decision(RETENTION_PRINCIPAL, "runs:delete", run, reasons);
        Ok(self.delete_as(record, &decision).await? == RunDeletion::Deleted)
    }

    async fn delete_as(
        &self,
        record: &RunRecord,
        decision: &Decision,
    ) -> Result<RunDeletion, StoreError> {
        let retained = match &record.spec.work {
            Work::Eval(_) => Retained::Attempt(Box::new(without_content(record.clone()))),
            Work::Workflow(_) | Work::Journal => Retained::Nothing,
        };
        let deleted = store::storage::delete_run(
            &self.store,
            &record.tenant,
            &record.run_id,
            &retained,
            decision,
        )
        .await?;
        self.projections.forget(&record.run_id).await;
        self.forget_usage(&record.tenant);
        Ok(deleted)
    }

    /// Masks the logs of which content is to be deleted.
    pub(super) async fn mask_all(&self) -> Result<(), StoreError> {
        while let Some(unmasked) = store::storage::next_unmasked(&self.store).await? {
            let (record, from) = (&unmasked.record, unmasked.masked_to);
            let passed = match unmasked.kept {
                ContentKept::Failures => self.passed_tasks(record).await?,
                ContentKept::None | ContentKept::All => HashSet::new(),
            };
            let events = store::runs::read(&self.store, &record.run_id, from, EVENTS).await?;
            let done = reaches_end(&events, EVENTS);
            let masked_to = events.last().map_or(from, |last| last.sequence);
            let masked: Vec<StoredEvent> = events
                .iter()
                .filter_map(|event| match (unmasked.is_deleted, unmasked.kept) {
                    (true, _) => masked(record, event),
                    (false, ContentKept::None) => masked_content(event),
                    (false, ContentKept::Failures) => {
                        of_task(event, &passed).then(|| masked_content(event))?
                    }
                    (false, ContentKept::All) => None,
                })
                .collect();
            store::storage::mask_events(&self.store, &record.run_id, &masked, masked_to, done)
                .await?;
        }
        Ok(())
    }

    async fn passed_tasks(&self, record: &RunRecord) -> Result<HashSet<TaskId>, StoreError> {
        let Some(eval) = record.spec.eval() else {
            return Ok(HashSet::new());
        };
        let passed = |state: &RunState| {
            let has_passed = |id: &TaskId| state.eval.scored(id).is_some_and(|task| task.passed);
            eval.tasks.iter().filter(has_passed).collect()
        };
        self.projections.with_state(&record.run_id, passed).await
    }

    async fn is_evidence(&self, record: &RunRecord) -> Result<bool, Problem> {
        let Some(eval) = record.spec.eval() else {
            return Ok(false);
        };
        self.deployments
            .rests_on(&record.tenant, &eval.agent_id, &record.run_id)
            .await
            .map_err(|cause| internal(&cause))
    }

    async fn record(&self, tenant: &TenantId, run: &RunId) -> Result<Arc<RunRecord>, Problem> {
        let record = self.projections.record(tenant, run).await;
        record
            .map_err(|cause| internal(&cause))?
            .ok_or_else(not_found)
    }

    fn decision(
        &self,
        principal: &str,
        action: &str,
        run: &RunId,
        reasons: Vec<String>,
    ) -> Decision {
        Decision {
            at: self.clock.now(),
            principal: principal.to_owned(),
            action: action.to_owned(),
            resource: run.to_string(),
            outcome: Outcome::Done,
            reasons,
            decided_on: None,
            run_id: Some(run.clone()),
        }
    }
}

#[async_trait]
impl SharedStorage for Storage {
    async fn reserve(&self, tenant: &TenantId, adding: Addition) -> Result<(), Problem> {
        self.reserve(tenant, &usage_of(adding)).await
    }

    async fn check(&self, tenant: &TenantId, adding: Addition) -> Result<(), Problem> {
        self.read_usage(tenant).await?;
        let used = self.cached_usage().get(tenant).map(|(_, used)| *used);
        used.map_or(Ok(()), |used| self.within_quotas(&used, &usage_of(adding)))
    }

    async fn release(&self, tenant: &TenantId, digests: &[&str]) -> Result<(), StoreError> {
        for digest in digests {
            store::storage::drop_unreferenced(&self.store, digest).await?;
        }
        self.forget_usage(tenant);
        Ok(())
    }
}

fn usage_of(adding: Addition) -> Usage {
    let Addition {
        packs,
        suites,
        bytes,
    } = adding;
    Usage {
        packs,
        suites,
        runs: 0,
        bytes,
    }
}

/// Why callers may not delete a run.
fn kept_by_host(kinds: Kinds, record: &RunRecord) -> Option<&'static str> {
    match &record.spec.work {
        Work::Journal => Some("the run records decisions about a deployment and cannot be deleted"),
        Work::Workflow(_) if record.is_approval_gate() => {
            Some("the run records an approval of a deployment and cannot be deleted")
        }
        Work::Eval(eval) => kinds.of(eval).map(|kind| kind.refusal(Action::Delete)),
        Work::Workflow(_) => None,
    }
}

/// The record without its caller's content.
fn without_content(mut record: RunRecord) -> RunRecord {
    record.spec.inputs = Map::new();
    record.spec.metadata = Map::new();
    record.spec.tags = Vec::new();
    record.spec.configurable = Map::new();
    record
}

/// The event without content; `None` if it has none.
fn masked(record: &RunRecord, event: &StoredEvent) -> Option<StoredEvent> {
    let mut redactor = Redactor::default();
    let body = match redactor.event(record.spec.work.is_eval(), &event.body) {
        Ok(_) if !redactor.applied() => return None,
        Ok(body) => body.get().to_owned(),
        // The content of an unreadable event is unknown.
        Err(_) => Value::Object(Map::new()).to_string(),
    };
    Some(StoredEvent {
        body: body.into(),
        ..event.clone()
    })
}

/// The event without task content; `None` if it has none.
fn masked_content(event: &StoredEvent) -> Option<StoredEvent> {
    has_task_content(&event.kind).then(|| StoredEvent {
        body: without_task_content(&event.kind, &event.body),
        ..event.clone()
    })
}

/// Whether the event belongs to one of these tasks. An unreadable one may.
fn of_task(event: &StoredEvent, tasks: &HashSet<TaskId>) -> bool {
    match EventDocument::read(&event.body) {
        Ok(document) => document.node_id.is_some_and(|id| tasks.contains(&id)),
        Err(_) => true,
    }
}

fn conflict(message: &str) -> Problem {
    Problem::new(ErrorCode::Conflict, message)
}

fn not_found() -> Problem {
    Problem::new(ErrorCode::NotFound, "no such run")
}
