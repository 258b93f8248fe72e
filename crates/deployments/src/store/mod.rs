//! Deployments and promotion policies.

use std::collections::BTreeMap;

use crate::ports::DeploymentCommit;
use crate::promotion::{PolicyScope, ScopedPolicy};
use crate::rules::Lifecycle;
use touchstone_host::audit::Decision;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::{Batch, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::migrations::Schema;
use touchstone_host::store::sql::{Sql, query};
use touchstone_kit::ids::{AgentId, TenantId};
use touchstone_packs::ports::inventory::Revision;
use touchstone_runs::store::runs;

pub const SCHEMA: Schema = Schema {
    feature: "deployments",
    migrations: &[include_str!("schema.sql")],
    leases: &[],
    secrets: &[],
    held: &[],
};

const ALL: &str = "SELECT agent_id, document FROM deployment WHERE tenant = $1";
const ONE: &str = "SELECT revision, document FROM deployment WHERE tenant = $1 AND agent_id = $2";
/// Locks the pack, so that it cannot be removed before the deployments that use it are stored.
const HOLD_PACK: Sql = Sql {
    sqlite: "SELECT version FROM pack WHERE tenant = $1 AND integrity = $2",
    postgres: "SELECT version FROM pack WHERE tenant = $1 AND integrity = $2 FOR KEY SHARE",
};
const FIRST: &str = "INSERT INTO deployment (tenant, agent_id, revision, document)
    VALUES ($1, $2, $3, $4) ON CONFLICT (tenant, agent_id) DO NOTHING";
const NEXT: &str = "UPDATE deployment SET revision = $3, document = $4
    WHERE tenant = $1 AND agent_id = $2 AND revision = $5";

/// The run is stored as ended, so no worker claims it.
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

/// The deployments of an agent; an agent without deployments has none at revision 0.
pub async fn deployments(
    database: &Database,
    tenant: &TenantId,
    agent: &AgentId,
) -> Result<(Lifecycle, Revision), StoreError> {
    let row: Option<(i64, String)> = query(ONE)
        .bind(tenant.as_str())
        .bind(agent.as_str())
        .fetch_optional(database.readers())
        .await?;
    row.map_or_else(
        || Ok(Default::default()),
        |(revision, document)| {
            let lifecycle = column("deployment", "document").document(&document)?;
            Ok((lifecycle, Revision(revision)))
        },
    )
}

/// The deployments of all agents of a tenant.
pub async fn all_deployments(
    database: &Database,
    tenant: &TenantId,
) -> Result<BTreeMap<AgentId, Lifecycle>, StoreError> {
    let rows: Vec<(String, String)> = query(ALL)
        .bind(tenant.as_str())
        .fetch_all(database.readers())
        .await?;
    let parse = |(agent, document): (String, String)| {
        let lifecycle = column("deployment", "document").document(&document)?;
        Ok((AgentId::from(agent), lifecycle))
    };
    rows.into_iter().map(parse).collect()
}

/// Records a transition. [`StoreError::Stale`] if the deployments have changed since that
/// revision, or the pack that goes into service is no longer installed.
pub async fn commit_deployment(
    database: &Database,
    commit: &DeploymentCommit<'_>,
) -> Result<(), StoreError> {
    let tenant = &commit.run.tenant;
    let log = Batch::check(commit.events)?
        .filter(|log| log.before == 0)
        .ok_or_else(|| column("event", "sequence").inconsistent())?;
    let mut transaction = database.begin_write().await?;
    if let Some(integrity) = commit.serves {
        let installed: Option<String> = query(HOLD_PACK)
            .bind(tenant.as_str())
            .bind(integrity)
            .fetch_optional(&mut transaction)
            .await?;
        installed.ok_or(StoreError::Stale)?;
    }
    if let Some((lifecycle, seen)) = commit.after {
        let document = column("deployment", "document").text(lifecycle)?;
        let write = match seen {
            Revision(0) => query(FIRST),
            Revision(_) => query(NEXT),
        };
        let mut write = write
            .bind(tenant.as_str())
            .bind(commit.agent.as_str())
            .bind(seen.0 + 1)
            .bind(document);
        if seen != Revision(0) {
            write = write.bind(seen.0);
        }
        let written = write.execute(&mut transaction).await?;
        if written == 0 {
            return Err(StoreError::Stale);
        }
    }
    let number = runs::insert(&mut transaction, commit.run).await?;
    query(END)
        .bind(number)
        .bind(log.head)
        .execute(&mut transaction)
        .await?;
    for opened in commit.opens {
        runs::insert(&mut transaction, opened).await?;
    }
    for (sequence, (kind, body)) in (1_i64..).zip(log.rows) {
        query(EVENT)
            .bind(number)
            .bind(sequence)
            .bind(kind)
            .bind(body)
            .execute(&mut transaction)
            .await?;
    }
    record(&mut transaction, tenant, commit.decision).await?;
    if let Some(completion) = commit.completes {
        database
            .complete_within(&mut transaction, completion)
            .await?;
    }
    transaction.commit().await
}

/// The policies of a tenant.
pub async fn policies(
    database: &Database,
    tenant: &TenantId,
) -> Result<Vec<ScopedPolicy>, StoreError> {
    let rows: Vec<(String, String, String)> = query(POLICIES)
        .bind(tenant.as_str())
        .fetch_all(database.readers())
        .await?;
    rows.into_iter().map(policy_of).collect()
}

/// Sets a policy, replacing one with the same scope, together with the audit entry.
pub async fn set_policy(
    database: &Database,
    tenant: &TenantId,
    policy: &ScopedPolicy,
    decision: &Decision,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    query(SET_POLICY)
        .bind(tenant.as_str())
        .bind(policy.scope.agent_id.as_deref().unwrap_or_default())
        .bind(policy.scope.channel.as_deref().unwrap_or_default())
        .bind(column("promotion_policy", "document").text(&policy.policy)?)
        .execute(&mut transaction)
        .await?;
    record(&mut transaction, tenant, decision).await?;
    transaction.commit().await
}

/// Removes a policy, together with the audit entry; `false`, and nothing is recorded, if no
/// policy has this scope.
pub async fn remove_policy(
    database: &Database,
    tenant: &TenantId,
    scope: &PolicyScope,
    decision: &Decision,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let removed = query(REMOVE_POLICY)
        .bind(tenant.as_str())
        .bind(scope.agent_id.as_deref().unwrap_or_default())
        .bind(scope.channel.as_deref().unwrap_or_default())
        .execute(&mut transaction)
        .await?;
    if removed == 0 {
        return Ok(false);
    }
    record(&mut transaction, tenant, decision).await?;
    transaction.commit().await?;
    Ok(true)
}
