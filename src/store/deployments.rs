//! Deployments and the policies of their gates.

use async_trait::async_trait;

use super::audit::record;
use super::convert::{Batch, backend, column};
use super::idempotency::complete;
use super::runs::begin;
use super::{PostgresStore, SqliteStore};
use crate::domain::audit::Decision;
use crate::domain::deployment::Lifecycle;
use crate::domain::ids::{AgentId, TenantId};
use crate::domain::promotion::{PolicyScope, ScopedPolicy};
use crate::ports::{DeploymentCommit, Deployments, IdempotencyCompletion, Revision, StoreError};

const ONE: &str = "SELECT revision, document FROM deployment WHERE tenant = $1 AND agent_id = $2";
const FIRST: &str = "INSERT INTO deployment (tenant, agent_id, revision, document)
    VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, agent_id) DO NOTHING";
const NEXT: &str = "UPDATE deployment SET revision = $3, document = $4
    WHERE tenant = $1 AND agent_id = $2 AND revision = $5";

/// A run that has ended when it is written: no worker will ever look at it.
const END: &str = "UPDATE run SET head = $2, ended = TRUE WHERE number = $1";
const EVENT: &str = "INSERT INTO event (run_number, sequence, kind, body) VALUES ($1, $2, $3, $4)";

const POLICIES: &str = "SELECT agent_id, channel, document FROM promotion_policy
    WHERE tenant = $1 ORDER BY agent_id, channel";
const SET_POLICY: &str = "INSERT INTO promotion_policy (tenant, agent_id, channel, document)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant, agent_id, channel) DO UPDATE SET document = excluded.document";
const REMOVE_POLICY: &str =
    "DELETE FROM promotion_policy WHERE tenant = $1 AND agent_id = $2 AND channel = $3";

fn policy_of(
    (agent, channel, document): (String, String, String),
) -> Result<ScopedPolicy, StoreError> {
    let named = |name: String| (!name.is_empty()).then_some(name);
    Ok(ScopedPolicy {
        scope: PolicyScope {
            agent_id: named(agent),
            channel: named(channel),
        },
        policy: column("promotion_policy", "document").document(&document)?,
    })
}

macro_rules! deployments {
    ($store:ty) => {
        #[async_trait]
        impl Deployments for $store {
            async fn deployments(
                &self,
                tenant: &TenantId,
                agent: &AgentId,
            ) -> Result<(Lifecycle, Revision), StoreError> {
                let row: Option<(i64, String)> = sqlx::query_as(ONE)
                    .bind(tenant.as_str())
                    .bind(agent.as_str())
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                row.map_or_else(
                    || Ok(Default::default()),
                    |(revision, document)| {
                        let lifecycle = column("deployment", "document").document(&document)?;
                        Ok((lifecycle, Revision(revision)))
                    },
                )
            }

            async fn commit_deployment(
                &self,
                commit: &DeploymentCommit<'_>,
            ) -> Result<(), StoreError> {
                let tenant = &commit.run.tenant;
                let log = Batch::check(commit.events)?
                    .filter(|log| log.before == 0)
                    .ok_or_else(|| column("event", "sequence").inconsistent())?;
                let mut transaction = self.begin_write().await?;
                if let Some(integrity) = commit.serves {
                    let installed: Option<String> = sqlx::query_scalar(Self::HOLD_PACK)
                        .bind(tenant.as_str())
                        .bind(integrity)
                        .fetch_optional(&mut *transaction)
                        .await
                        .map_err(backend)?;
                    installed.ok_or(StoreError::Stale)?;
                }
                if let Some((lifecycle, seen)) = commit.after {
                    let document = column("deployment", "document").text(lifecycle)?;
                    let write = match seen {
                        Revision(0) => sqlx::query(FIRST),
                        Revision(_) => sqlx::query(NEXT),
                    };
                    let mut write = write
                        .bind(tenant.as_str())
                        .bind(commit.agent.as_str())
                        .bind(seen.0 + 1)
                        .bind(document);
                    if seen != Revision(0) {
                        write = write.bind(seen.0);
                    }
                    let written = write.execute(&mut *transaction).await.map_err(backend)?;
                    if written.rows_affected() == 0 {
                        return Err(StoreError::Stale);
                    }
                }
                let number = begin!($store, transaction, commit.run);
                sqlx::query(END)
                    .bind(number)
                    .bind(log.head)
                    .execute(&mut *transaction)
                    .await
                    .map_err(backend)?;
                for opened in commit.opens {
                    begin!($store, transaction, opened);
                }
                for (sequence, (kind, body)) in (1_i64..).zip(log.rows) {
                    sqlx::query(EVENT)
                        .bind(number)
                        .bind(sequence)
                        .bind(kind)
                        .bind(body)
                        .execute(&mut *transaction)
                        .await
                        .map_err(backend)?;
                }
                record!(transaction, tenant, commit.decision);
                if let Some(completion) = commit.completes {
                    complete!(self, transaction, completion)?;
                }
                transaction.commit().await.map_err(backend)
            }

            async fn policies(&self, tenant: &TenantId) -> Result<Vec<ScopedPolicy>, StoreError> {
                let rows: Vec<(String, String, String)> = sqlx::query_as(POLICIES)
                    .bind(tenant.as_str())
                    .fetch_all(self.readers())
                    .await
                    .map_err(backend)?;
                rows.into_iter().map(policy_of).collect()
            }

            async fn set_policy(
                &self,
                tenant: &TenantId,
                policy: &ScopedPolicy,
                decision: &Decision,
            ) -> Result<(), StoreError> {
                let mut transaction = self.begin_write().await?;
                sqlx::query(SET_POLICY)
                    .bind(tenant.as_str())
                    .bind(policy.scope.agent_id.as_deref().unwrap_or_default())
                    .bind(policy.scope.channel.as_deref().unwrap_or_default())
                    .bind(column("promotion_policy", "document").text(&policy.policy)?)
                    .execute(&mut *transaction)
                    .await
                    .map_err(backend)?;
                record!(transaction, tenant, decision);
                transaction.commit().await.map_err(backend)
            }

            async fn remove_policy(
                &self,
                tenant: &TenantId,
                scope: &PolicyScope,
                decision: &Decision,
            ) -> Result<bool, StoreError> {
                let mut transaction = self.begin_write().await?;
                let removed = sqlx::query(REMOVE_POLICY)
                    .bind(tenant.as_str())
                    .bind(scope.agent_id.as_deref().unwrap_or_default())
                    .bind(scope.channel.as_deref().unwrap_or_default())
                    .execute(&mut *transaction)
                    .await
                    .map_err(backend)?;
                if removed.rows_affected() == 0 {
                    return Ok(false);
                }
                record!(transaction, tenant, decision);
                transaction.commit().await.map_err(backend)?;
                Ok(true)
            }
        }
    };
}

deployments!(SqliteStore);
deployments!(PostgresStore);
