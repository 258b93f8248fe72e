//! The eval runs of one version of an agent, and those declared void.

use std::collections::HashMap;

use async_trait::async_trait;
use futures_util::TryStreamExt;

use super::audit::record;
use super::convert::{backend, column};
use super::idempotency::complete;
use super::runs::{event_of, run_of};
use super::{PostgresStore, SqliteStore};
use crate::domain::audit::Decision;
use crate::domain::eval::attempts::Voided;
use crate::domain::ids::{AgentId, RunId, TenantId};
use crate::domain::run::record::RunRecord;
use crate::ports::{Attempts, IdempotencyCompletion, StoreError, StoredEvent};

const EVALS: &str = "SELECT number, record FROM run JOIN run_record ON run_number = number
    WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3 AND number > $4
    ORDER BY number LIMIT $5";
/// An invocation that begins anew takes back what was said about the one before it.
const VERDICTS: &str = "SELECT sequence, kind, body FROM event
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence > $2
    AND kind IN ('run.started', 'run.completed', 'run.failed', 'run.cancelled', 'agent.invocation.started', 'eval.scored',
        'touchstone.task.unjudged', 'touchstone.task.reused', 'touchstone.task.safety')
    ORDER BY sequence LIMIT $3";
const VOID: &str = "INSERT INTO run_void (run_number, document)
    SELECT number, $3 FROM run WHERE tenant = $1 AND run_id = $2
    ON CONFLICT DO NOTHING";
const VOIDED: &str = "SELECT run_id, document FROM run JOIN run_void ON run_number = number
    WHERE tenant = $1 AND eval_agent = $2 AND eval_version = $3";

macro_rules! attempts {
    ($store:ty) => {
        #[async_trait]
        impl Attempts for $store {
            async fn evals_of(
                &self,
                tenant: &TenantId,
                agent: &AgentId,
                version: &str,
                after: i64,
                limit: u32,
            ) -> Result<Vec<(i64, RunRecord)>, StoreError> {
                let rows: Vec<(i64, String)> = sqlx::query_as(EVALS)
                    .bind(tenant.as_str())
                    .bind(agent.as_str())
                    .bind(version)
                    .bind(after)
                    .bind(i64::from(limit))
                    .fetch_all(self.readers())
                    .await
                    .map_err(backend)?;
                let read = |(number, record): (i64, String)| Ok((number, run_of(&record)?));
                rows.into_iter().map(read).collect()
            }

            async fn verdicts(
                &self,
                run: &RunId,
                after: u64,
                limit: u32,
            ) -> Result<Vec<StoredEvent>, StoreError> {
                sqlx::query_as(VERDICTS)
                    .bind(run.as_str())
                    .bind(i64::try_from(after).unwrap_or(i64::MAX))
                    .bind(i64::from(limit))
                    .fetch(self.readers())
                    .map_err(backend)
                    .and_then(async |row| event_of(row))
                    .try_collect()
                    .await
            }

            async fn void(
                &self,
                tenant: &TenantId,
                run: &RunId,
                voided: &Voided,
                decision: &Decision,
                completes: Option<&IdempotencyCompletion>,
            ) -> Result<(), StoreError> {
                let mut transaction = self.begin_write().await?;
                let inserted = sqlx::query(VOID)
                    .bind(tenant.as_str())
                    .bind(run.as_str())
                    .bind(column("run_void", "document").text(voided)?)
                    .execute(&mut *transaction)
                    .await
                    .map_err(backend)?;
                if inserted.rows_affected() == 0 {
                    return Err(StoreError::Exists("a declaration that this run is void"));
                }
                record!(transaction, tenant, decision);
                if let Some(completion) = completes {
                    complete!(self, transaction, completion)?;
                }
                transaction.commit().await.map_err(backend)
            }

            async fn voided(
                &self,
                tenant: &TenantId,
                agent: &AgentId,
                version: &str,
            ) -> Result<HashMap<RunId, Voided>, StoreError> {
                let rows: Vec<(String, String)> = sqlx::query_as(VOIDED)
                    .bind(tenant.as_str())
                    .bind(agent.as_str())
                    .bind(version)
                    .fetch_all(self.readers())
                    .await
                    .map_err(backend)?;
                let read = |(run, document): (String, String)| {
                    let voided = column("run_void", "document").document(&document)?;
                    Ok((RunId::from(run), voided))
                };
                rows.into_iter().map(read).collect()
            }
        }
    };
}

attempts!(SqliteStore);
attempts!(PostgresStore);
