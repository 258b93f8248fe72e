//! Runs and their logs.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use serde::Deserialize;
use std::borrow::Cow;

use super::audit::record;
use super::convert::{Batch, backend, column, head_of};
use super::idempotency::complete;
use super::pauses::END_PAUSE;
use super::webhooks::{FOLLOW, add};
use super::{PostgresStore, SqliteStore};
use crate::domain::ids::{AgentId, EventId, RunId, TenantId};
use crate::domain::run::record::RunRecord;
use crate::ports::{
    Beside, Fence, Head, IdempotencyCompletion, READ_BYTES, RunLog, StoreError, StoredEvent,
    WebhookRecord,
};

pub(super) const CREATE: &str = "INSERT INTO run
        (run_id, tenant, created_at, lease_until, scope, eval_agent, eval_version, experiment, oasis_profile, executor,
        retry_root, retry_number, bytes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING RETURNING number";
pub(super) const CREATE_RECORD: &str =
    "INSERT INTO run_record (run_number, record) VALUES ($1, $2)";
const ACTIVE: &str = "SELECT run_id FROM run
    WHERE tenant = $1 AND scope = $2 AND scope IS NOT NULL AND NOT ended ORDER BY number LIMIT 1";
const ONE: &str = "SELECT record FROM run JOIN run_record ON run_number = number
    WHERE run_id = $1 AND tenant = $2 AND deleted_at IS NULL";
const NEWEST_EVAL: &str = "SELECT run_id FROM run
    WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3 AND ended AND deleted_at IS NULL
        AND number NOT IN (SELECT run_number FROM run_void)
    ORDER BY number DESC LIMIT 1";
const NEWEST_OASIS: &str = "SELECT run_id FROM run
    WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3 AND oasis_profile = $4 AND ended
    ORDER BY number DESC LIMIT 1";
const TRIALS: &str = "SELECT record FROM run JOIN run_record ON run_number = number
    WHERE tenant = $1 AND experiment = $2 ORDER BY number LIMIT $3";
const RETRIES: &str = "SELECT MAX(retry_number) FROM run WHERE tenant = $1 AND retry_root = $2";
const HEAD: &str = "SELECT head, ended FROM run WHERE run_id = $1";
// Where the documents come to $4 bytes is found by their lengths alone; neither engine loads a document for its length.
const READ: &str = "SELECT sequence, kind, body FROM event
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence > $2
      AND sequence <= COALESCE((
        SELECT MIN(sequence) FROM (
            SELECT sequence, SUM(OCTET_LENGTH(body)) OVER (ORDER BY sequence) AS total FROM event
            WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence > $2
            ORDER BY sequence LIMIT $3) AS sized
        WHERE total >= $4), 9223372036854775807)
    ORDER BY sequence LIMIT $3";

/// OpenWOP run-event: `eventId` has at most this many characters.
const EVENT_ID_MAX: usize = 128;

pub(super) fn run_of(record: &str) -> Result<RunRecord, StoreError> {
    column("run_record", "record").document(record)
}

pub(super) fn event_of(
    (sequence, kind, body): (i64, String, String),
) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        sequence: column("event", "sequence").number(sequence)?,
        kind: kind.into(),
        body: body.into(),
    })
}

/// Whether this is the event of that id, and not only one that mentions it. An event that cannot be read is none that is
/// looked for.
fn is_named(body: &[u8], event_id: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Named<'a> {
        #[serde(borrow)]
        event_id: Cow<'a, str>,
    }
    serde_json::from_slice(body).is_ok_and(|named: Named<'_>| named.event_id == event_id)
}

/// Records a run without a log within a transaction; gives its number.
macro_rules! begin {
    ($store:ty, $transaction:expr, $run:expr) => {{
        let run: &crate::domain::run::record::RunRecord = $run;
        let claimable_from = match run.spec.work.is_claimable() {
            true => 0,
            false => crate::store::convert::NEVER,
        };
        let eval = run.spec.eval();
        // A fork shows which retry its source was, and is none itself.
        let retry = eval
            .map(|eval| &eval.execution)
            .filter(|retry| run.fork.is_none() && retry.retries > 0);
        let record = column("run_record", "record").text(run)?;
        let number: Option<i64> = sqlx::query_scalar(crate::store::runs::CREATE)
            .bind(run.run_id.as_str())
            .bind(run.tenant.as_str())
            .bind(run.created_at.as_microsecond())
            .bind(claimable_from)
            .bind(run.spec.scope.as_ref().map(|scope| scope.id.as_str()))
            .bind(eval.map(|eval| eval.agent_id.as_str()))
            .bind(eval.map(|eval| eval.agent_version.as_str()))
            .bind(
                eval.and_then(|eval| eval.trial.as_ref())
                    .map(|trial| trial.experiment_id.as_str()),
            )
            .bind(
                // A replay is no evaluation: it would make an old one the newest.
                eval.filter(|_| run.fork.is_none())
                    .and_then(|eval| eval.oasis.as_ref())
                    .map(|oasis| oasis.request.profile.as_str()),
            )
            .bind(eval.and_then(|eval| eval.execution.command.as_deref()))
            .bind(retry.and_then(|retry| retry.retry_root.as_ref().map(|root| root.as_str())))
            .bind(retry.map(|retry| i64::from(retry.retries)))
            .bind(i64::try_from(record.len()).unwrap_or(i64::MAX))
            .fetch_optional(&mut *$transaction)
            .await
            .map_err(backend)?;
        let number = number.ok_or(StoreError::Exists("a run with this id or retry number"))?;
        sqlx::query(crate::store::runs::CREATE_RECORD)
            .bind(number)
            .bind(record)
            .execute(&mut *$transaction)
            .await
            .map_err(backend)?;
        // The subscriptions of its tenant follow it.
        if let Some(told) = run.told() {
            sqlx::query(<$store>::FOLLOW_RUN)
                .bind(number)
                .bind(run.tenant.as_str())
                .bind(i64::try_from(told).unwrap_or(i64::MAX))
                .execute(&mut *$transaction)
                .await
                .map_err(backend)?;
        }
        number
    }};
}
pub(super) use begin;

macro_rules! run_log {
    ($store:ty) => {
        impl $store {
            /// Records a new run, with a subscription of its own if it has one.
            pub(super) async fn create_run(
                &self,
                run: &RunRecord,
                callback: Option<&WebhookRecord>,
                completes: Option<&IdempotencyCompletion>,
            ) -> Result<(), StoreError> {
                let scope = run.spec.scope.as_ref();
                let mut transaction = match scope.filter(|scope| scope.exclusive) {
                    Some(scope) => {
                        let mut transaction = self.begin_scope(&run.tenant, &scope.id).await?;
                        let active: Option<String> = sqlx::query_scalar(ACTIVE)
                            .bind(run.tenant.as_str())
                            .bind(&scope.id)
                            .fetch_optional(&mut *transaction)
                            .await
                            .map_err(backend)?;
                        if let Some(active) = active {
                            return Err(StoreError::ScopeTaken(active.into()));
                        }
                        transaction
                    }
                    None => self.begin_write().await?,
                };
                let number = begin!(Self, transaction, run);
                if let Some(callback) = callback {
                    let subscription = add!(self.cipher(), transaction, callback, Some(number))?;
                    sqlx::query(FOLLOW)
                        .bind(subscription)
                        .bind(number)
                        .execute(&mut *transaction)
                        .await
                        .map_err(backend)?;
                }
                if let Some(completion) = completes {
                    complete!(self, transaction, completion)?;
                }
                transaction.commit().await.map_err(backend)
            }
        }

        #[async_trait]
        impl RunLog for $store {
            async fn create(
                &self,
                run: &RunRecord,
                completes: Option<&IdempotencyCompletion>,
            ) -> Result<(), StoreError> {
                self.create_run(run, None, completes).await
            }

            async fn run(
                &self,
                tenant: &TenantId,
                run: &RunId,
            ) -> Result<Option<RunRecord>, StoreError> {
                let record: Option<String> = sqlx::query_scalar(ONE)
                    .bind(run.as_str())
                    .bind(tenant.as_str())
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                record.as_deref().map(run_of).transpose()
            }

            async fn append(
                &self,
                run: &RunId,
                fence: Fence,
                events: &[StoredEvent],
                ends: bool,
            ) -> Result<(), StoreError> {
                match Batch::check(events)? {
                    Some(batch) => self.append_batch(run, fence, &batch, ends).await,
                    None if ends => Err(column("event", "sequence").inconsistent()),
                    None => Ok(()),
                }
            }

            async fn append_with(
                &self,
                run: &RunRecord,
                fence: Fence,
                events: &[StoredEvent],
                ends: bool,
                beside: &Beside,
            ) -> Result<(), StoreError> {
                let batch = Batch::check(events)?
                    .ok_or_else(|| column("event", "sequence").inconsistent())?;
                let mut transaction = self.begin_write().await?;
                Self::append_within(&mut transaction, &run.run_id, fence, &batch, ends).await?;
                match beside {
                    Beside::Decision(decision) => record!(transaction, &run.tenant, decision),
                    Beside::Resumed => {
                        sqlx::query(END_PAUSE)
                            .bind(run.run_id.as_str())
                            .execute(&mut *transaction)
                            .await
                            .map_err(backend)?;
                    }
                }
                transaction.commit().await.map_err(backend)
            }

            async fn read(
                &self,
                run: &RunId,
                after: u64,
                limit: u32,
            ) -> Result<Vec<StoredEvent>, StoreError> {
                sqlx::query_as(READ)
                    .bind(run.as_str())
                    .bind(i64::try_from(after).unwrap_or(i64::MAX))
                    .bind(i64::from(limit))
                    .bind(i64::try_from(READ_BYTES).unwrap_or(i64::MAX))
                    .fetch(self.readers())
                    .map_err(backend)
                    .and_then(async |row| event_of(row))
                    .try_collect()
                    .await
            }

            async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
                let row = sqlx::query_as(HEAD)
                    .bind(run.as_str())
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                row.map(head_of).transpose()
            }

            async fn sequence_of(
                &self,
                run: &RunId,
                event_id: &str,
            ) -> Result<Option<u64>, StoreError> {
                let place = EventId::place(event_id).and_then(|place| place.checked_sub(1));
                let (Some(before), true) = (place, event_id.len() <= EVENT_ID_MAX) else {
                    return Ok(None);
                };
                if let [event] = self.read(run, before, 1).await?.as_slice()
                    && is_named(&event.body, event_id)
                {
                    return Ok(Some(event.sequence));
                }
                let mut rows = sqlx::query_as::<_, (i64, String)>(Self::MENTIONS)
                    .bind(run.as_str())
                    .bind(event_id)
                    .fetch(self.readers());
                while let Some((sequence, body)) = rows.try_next().await.map_err(backend)? {
                    if is_named(body.as_bytes(), event_id) {
                        return column("event", "sequence").number(sequence).map(Some);
                    }
                }
                Ok(None)
            }

            async fn newest_eval(
                &self,
                tenant: &TenantId,
                agent: &AgentId,
                version: &str,
            ) -> Result<Option<RunId>, StoreError> {
                let run: Option<String> = sqlx::query_scalar(NEWEST_EVAL)
                    .bind(tenant.as_str())
                    .bind(agent.as_str())
                    .bind(version)
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                Ok(run.map(RunId::from))
            }

            async fn newest_oasis(
                &self,
                tenant: &TenantId,
                agent: &AgentId,
                version: &str,
                profile: &str,
            ) -> Result<Option<RunId>, StoreError> {
                let run: Option<String> = sqlx::query_scalar(NEWEST_OASIS)
                    .bind(tenant.as_str())
                    .bind(agent.as_str())
                    .bind(version)
                    .bind(profile)
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                Ok(run.map(RunId::from))
            }

            async fn retries(&self, tenant: &TenantId, root: &RunId) -> Result<u32, StoreError> {
                let made: Option<i64> = sqlx::query_scalar(RETRIES)
                    .bind(tenant.as_str())
                    .bind(root.as_str())
                    .fetch_one(self.readers())
                    .await
                    .map_err(backend)?;
                column("run", "retry_number").number(made.unwrap_or_default())
            }

            async fn trials(
                &self,
                tenant: &TenantId,
                experiment: &str,
                limit: u32,
            ) -> Result<Vec<RunRecord>, StoreError> {
                let records: Vec<String> = sqlx::query_scalar(TRIALS)
                    .bind(tenant.as_str())
                    .bind(experiment)
                    .bind(i64::from(limit))
                    .fetch_all(self.readers())
                    .await
                    .map_err(backend)?;
                records.iter().map(|record| run_of(record)).collect()
            }
        }
    };
}

run_log!(SqliteStore);
run_log!(PostgresStore);
