//! What the tenants of a host do, counted: keys, runs, the queue, leases.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::ports::queue::{LeasedRun, QueueOverview, TenantWork};
use touchstone_host::ports::keys::KeyRecord;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::TenantId;

/// A statement about one tenant, and one about all of them.
macro_rules! both {
    ($what:literal, $rest:literal) => {
        (
            concat!($what, " AND tenant = $1 ", $rest),
            concat!($what, " AND COALESCE($1, '') = '' ", $rest),
        )
    };
}

type Both = (&'static str, &'static str);

/// Without a lease, `lease_until` is the wall-clock time from which a worker may claim the run.
const QUEUE: Both = both!(
    "SELECT COUNT(*),
        CAST(COALESCE(SUM(CASE WHEN lease_owner IS NOT NULL THEN 1 ELSE 0 END), 0) AS BIGINT),
        CAST(COALESCE(SUM(CASE WHEN lease_owner IS NULL AND pause_taken THEN 1 ELSE 0 END), 0) AS BIGINT),
        CAST(COALESCE(SUM(CASE WHEN lease_owner IS NULL AND NOT pause_taken AND executor IS NULL
            AND lease_until <= {now} THEN 1 ELSE 0 END), 0) AS BIGINT),
        MIN(CASE WHEN lease_owner IS NULL AND NOT pause_taken AND executor IS NULL AND lease_until <= {now}
            THEN created_at END),
        MIN(CASE WHEN lease_owner IS NULL AND NOT pause_taken AND executor IS NULL AND lease_until <= {now}
            THEN CASE WHEN fence = 0 THEN created_at WHEN lease_until > 0 THEN lease_until END END)
    FROM run WHERE NOT ended",
    ""
);
const RUNS: Both = both!(
    "SELECT tenant, COUNT(*), CAST(SUM(CASE WHEN ended THEN 0 ELSE 1 END) AS BIGINT)
    FROM run WHERE deleted_at IS NULL",
    "GROUP BY tenant"
);
const LEASES: Both = both!(
    "SELECT run_id, tenant, lease_owner, lease_until - COALESCE($2, {now})
    FROM run WHERE NOT ended AND lease_owner IS NOT NULL",
    "ORDER BY number LIMIT $3"
);

/// The statement for a tenant, or for all, and its first parameter.
fn of((one, all): Both, tenant: Option<&TenantId>) -> (&'static str, Option<&str>) {
    match tenant {
        Some(tenant) => (one, Some(tenant.as_str())),
        None => (all, None),
    }
}

/// The unfinished runs of a tenant, or of all.
pub async fn queue(
    database: &Database,
    tenant: Option<&TenantId>,
) -> Result<QueueOverview, StoreError> {
    let (statement, tenant) = of(QUEUE, tenant);
    type Row = (i64, i64, i64, i64, Option<i64>, Option<i64>);
    let (open, running, paused, queued, oldest, ready): Row = query(statement)
        .bind(tenant)
        .fetch_one(database.readers())
        .await?;
    let open: u64 = column("run", "number").number(open)?;
    let running: u64 = column("run", "lease_owner").number(running)?;
    let paused: u64 = column("run", "pause_taken").number(paused)?;
    let created = |micros| column("run", "created_at").time(micros);
    Ok(QueueOverview {
        running,
        paused,
        waiting: open.saturating_sub(running).saturating_sub(paused),
        queued: column("run", "lease_until").number(queued)?,
        oldest: oldest.map(created).transpose()?,
        ready_since: ready.map(created).transpose()?,
    })
}

/// The keys and runs of a tenant, or of each tenant by name.
pub async fn tenants(
    database: &Database,
    tenant: Option<&TenantId>,
    now: Timestamp,
) -> Result<Vec<TenantWork>, StoreError> {
    let mut found: BTreeMap<String, TenantWork> = BTreeMap::new();
    let empty = |tenant: &str| TenantWork {
        tenant: tenant.into(),
        keys: 0,
        runs: 0,
        open: 0,
    };
    let valid = |key: &KeyRecord| {
        key.revoked_at.is_none() && key.expires_at.is_none_or(|expiry| expiry > now)
    };
    for key in database.keys(tenant).await?.iter().filter(|key| valid(key)) {
        let tenant = key.tenant.as_str().to_owned();
        let work = found.entry(tenant).or_insert_with_key(|it| empty(it));
        work.keys += 1;
    }
    let (statement, named) = of(RUNS, tenant);
    let runs: Vec<(String, i64, i64)> = query(statement)
        .bind(named)
        .fetch_all(database.readers())
        .await?;
    for (tenant, runs, open) in runs {
        let work = found.entry(tenant).or_insert_with_key(|it| empty(it));
        work.runs = column("run", "number").number(runs)?;
        work.open = column("run", "ended").number(open)?;
    }
    Ok(found.into_values().collect())
}

/// The oldest leased runs of a tenant, or of all.
pub async fn leases(
    database: &Database,
    tenant: Option<&TenantId>,
    limit: u32,
) -> Result<Vec<LeasedRun>, StoreError> {
    let (statement, tenant) = of(LEASES, tenant);
    let rows: Vec<(String, String, String, i64)> = query(statement)
        .bind(tenant)
        .bind(database.lease_clock())
        .bind(limit)
        .fetch_all(database.readers())
        .await?;
    let leased = |(run, tenant, holder, remaining): (String, String, String, i64)| LeasedRun {
        run: run.as_str().into(),
        tenant: tenant.as_str().into(),
        holder,
        remaining: SignedDuration::from_micros(remaining),
    };
    Ok(rows.into_iter().map(leased).collect())
}
