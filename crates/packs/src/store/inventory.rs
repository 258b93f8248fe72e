//! Installed packs and suites.

use std::cmp::Ordering;

use semver::Version;

use crate::ports::inventory::Revision;
use crate::ports::inventory::{InstallRecord, SuiteRecord};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};
use touchstone_kit::ids::{AgentId, TenantId};

const ADD_PACK: &str = "INSERT INTO pack (tenant, name, version, integrity, installed_at, facts)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, name, version) DO NOTHING";
const PACK_INTEGRITY: &str =
    "SELECT integrity FROM pack WHERE tenant = $1 AND name = $2 AND version = $3";
const REVISION: &str = "SELECT revision FROM deployment WHERE tenant = $1 AND agent_id = $2";
const REMOVE_PACK: &str = "DELETE FROM pack WHERE tenant = $1 AND name = $2 AND version = $3";
const PACKS: &str =
    "SELECT tenant, name, version, integrity, installed_at, facts FROM pack WHERE tenant = $1";
const PACK_VERSIONS: &str = "SELECT tenant, name, version, integrity, installed_at, facts FROM pack WHERE tenant = $1 AND name = $2";

const ADD_SUITE: &str = "INSERT INTO suite (tenant, suite_id, version, pack, digest, task_count, signed, added_at, scoring, bytes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (tenant, suite_id, version, pack) DO NOTHING";
const OTHER_CONTENT: &str = "SELECT COUNT(*) FROM suite
    WHERE tenant = $1 AND suite_id = $2 AND version = $3 AND (digest <> $4 OR scoring <> $5)";
const REMOVE_PACK_SUITES: &str = "DELETE FROM suite WHERE tenant = $1 AND pack = $2";
const REMOVE_IMPORT: &str =
    "DELETE FROM suite WHERE tenant = $1 AND suite_id = $2 AND version = $3 AND pack = ''";
/// The same content may have been added several ways: signed before unsigned, then oldest first.
const ONE_SUITE: &str =
    "SELECT tenant, suite_id, version, pack, digest, task_count, signed, added_at, scoring, bytes
    FROM suite WHERE tenant = $1 AND suite_id = $2 AND version = $3
    ORDER BY signed DESC, added_at, pack LIMIT 1";
const SUITES: &str =
    "SELECT tenant, suite_id, version, pack, digest, task_count, signed, added_at, scoring, bytes
    FROM suite WHERE tenant = $1 ORDER BY suite_id, version, signed DESC, added_at, pack";

type PackRow = (String, String, String, String, i64, String);
type SuiteRow = (
    String,
    String,
    String,
    String,
    String,
    i64,
    bool,
    i64,
    String,
    Option<i64>,
);

fn pack_of(row: PackRow) -> Result<InstallRecord, StoreError> {
    let (tenant, name, version, integrity, installed_at, facts) = row;
    Ok(InstallRecord {
        tenant: tenant.into(),
        name,
        version,
        integrity,
        installed_at: column("pack", "installed_at").time(installed_at)?,
        facts: column("pack", "facts").document(&facts)?,
    })
}

fn suite_of(row: SuiteRow) -> Result<SuiteRecord, StoreError> {
    let (tenant, suite_id, version, pack, digest, task_count, signed, added_at, scoring, bytes) =
        row;
    let bytes = bytes.map(|bytes| column("suite", "bytes").number(bytes));
    Ok(SuiteRecord {
        tenant: tenant.into(),
        suite_id,
        version,
        digest,
        scoring: (!scoring.is_empty()).then_some(scoring),
        task_count: column("suite", "task_count").number(task_count)?,
        pack: (!pack.is_empty()).then_some(pack),
        signed,
        added_at: column("suite", "added_at").time(added_at)?,
        bytes: bytes.transpose()?,
    })
}

/// Compares semantic versions: `1.10.0` comes after `1.9.0`.
fn by_version(a: &str, b: &str) -> Ordering {
    match (Version::parse(a), Version::parse(b)) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        _ => a.cmp(b),
    }
}

pub(super) async fn insert_suite(
    transaction: &mut Transaction,
    suite: &SuiteRecord,
) -> Result<(), StoreError> {
    let other: i64 = query(OTHER_CONTENT)
        .bind(suite.tenant.as_str())
        .bind(&suite.suite_id)
        .bind(&suite.version)
        .bind(&suite.digest)
        .bind(suite.scoring.as_deref().unwrap_or_default())
        .fetch_one(&mut *transaction)
        .await?;
    if other > 0 {
        return Err(StoreError::Exists(
            "a suite with this id and version but different content",
        ));
    }
    let bytes = suite
        .bytes
        .map(|bytes| column("suite", "bytes").number(bytes));
    let bytes: Option<i64> = bytes.transpose()?;
    query(ADD_SUITE)
        .bind(suite.tenant.as_str())
        .bind(&suite.suite_id)
        .bind(&suite.version)
        .bind(suite.pack.as_deref().unwrap_or_default())
        .bind(&suite.digest)
        .bind(i64::from(suite.task_count))
        .bind(suite.signed)
        .bind(suite.added_at.as_microsecond())
        .bind(suite.scoring.as_deref().unwrap_or_default())
        .bind(bytes)
        .execute(&mut *transaction)
        .await?;
    Ok(())
}

/// Makes a pack and its suites visible in one step. [`StoreError::Exists`] if the name and
/// version, or one of the suites, exists with different content; installing the same again is not
/// an error.
pub async fn install(
    database: &Database,
    pack: &InstallRecord,
    suites: &[SuiteRecord],
) -> Result<(), StoreError> {
    let mut transaction = database.begin_inventory(&pack.tenant).await?;
    let added = query(ADD_PACK)
        .bind(pack.tenant.as_str())
        .bind(&pack.name)
        .bind(&pack.version)
        .bind(&pack.integrity)
        .bind(pack.installed_at.as_microsecond())
        .bind(column("pack", "facts").text(&pack.facts)?)
        .execute(&mut transaction)
        .await?;
    if added == 0 {
        let integrity: String = query(PACK_INTEGRITY)
            .bind(pack.tenant.as_str())
            .bind(&pack.name)
            .bind(&pack.version)
            .fetch_one(&mut transaction)
            .await?;
        if integrity != pack.integrity {
            return Err(StoreError::Exists(
                "a pack with this name and version but different content",
            ));
        }
    }
    for suite in suites {
        insert_suite(&mut transaction, suite).await?;
    }
    transaction.commit().await
}

/// Removes a pack and its suites; `false` if it was not installed. [`StoreError::Stale`], and
/// nothing is removed, if the deployments of one of these agents have changed since that
/// revision.
pub async fn remove(
    database: &Database,
    tenant: &TenantId,
    name: &str,
    version: &str,
    seen: &[(AgentId, Revision)],
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_inventory(tenant).await?;
    let removed = query(REMOVE_PACK)
        .bind(tenant.as_str())
        .bind(name)
        .bind(version)
        .execute(&mut transaction)
        .await?;
    // Checked after the removal: transactions that deployed the pack have ended by now, and new
    // ones cannot find it.
    for (agent, seen) in seen {
        let revision: Option<i64> = query(REVISION)
            .bind(tenant.as_str())
            .bind(agent.as_str())
            .fetch_optional(&mut transaction)
            .await?;
        if revision.map_or(Revision::default(), Revision) != *seen {
            return Err(StoreError::Stale);
        }
    }
    query(REMOVE_PACK_SUITES)
        .bind(tenant.as_str())
        .bind(format!("{name}@{version}"))
        .execute(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(removed > 0)
}

/// All packs of a tenant by name and version.
pub async fn installs(
    database: &Database,
    tenant: &TenantId,
) -> Result<Vec<InstallRecord>, StoreError> {
    let rows = query(PACKS)
        .bind(tenant.as_str())
        .fetch_all(database.readers())
        .await?;
    let mut packs = rows
        .into_iter()
        .map(pack_of)
        .collect::<Result<Vec<_>, _>>()?;
    packs.sort_by(|a, b| {
        a.name
            .cmp(&b.name)
            .then_with(|| by_version(&a.version, &b.version))
    });
    Ok(packs)
}

/// The versions of one pack of a tenant, in any order.
pub async fn installs_of(
    database: &Database,
    tenant: &TenantId,
    name: &str,
) -> Result<Vec<InstallRecord>, StoreError> {
    let rows: Vec<PackRow> = query(PACK_VERSIONS)
        .bind(tenant.as_str())
        .bind(name)
        .fetch_all(database.readers())
        .await?;
    rows.into_iter().map(pack_of).collect()
}

/// Adds an imported suite. [`StoreError::Exists`] as in `install`.
pub async fn add_suite(database: &Database, suite: &SuiteRecord) -> Result<(), StoreError> {
    let mut transaction = database.begin_inventory(&suite.tenant).await?;
    insert_suite(&mut transaction, suite).await?;
    transaction.commit().await
}

/// Removes an imported suite; `false` if it does not exist or came with a pack.
pub async fn remove_suite(
    database: &Database,
    tenant: &TenantId,
    suite_id: &str,
    version: &str,
) -> Result<bool, StoreError> {
    let removed = query(REMOVE_IMPORT)
        .bind(tenant.as_str())
        .bind(suite_id)
        .bind(version)
        .execute(database.writer()?)
        .await?;
    Ok(removed > 0)
}

pub async fn suite(
    database: &Database,
    tenant: &TenantId,
    suite_id: &str,
    version: &str,
) -> Result<Option<SuiteRecord>, StoreError> {
    let row = query(ONE_SUITE)
        .bind(tenant.as_str())
        .bind(suite_id)
        .bind(version)
        .fetch_optional(database.readers())
        .await?;
    row.map(suite_of).transpose()
}

/// All suites of a tenant by id and version.
pub async fn suites(
    database: &Database,
    tenant: &TenantId,
) -> Result<Vec<SuiteRecord>, StoreError> {
    let rows = query(SUITES)
        .bind(tenant.as_str())
        .fetch_all(database.readers())
        .await?;
    let mut suites = rows
        .into_iter()
        .map(suite_of)
        .collect::<Result<Vec<_>, _>>()?;
    suites.dedup_by(|b, a| a.suite_id == b.suite_id && a.version == b.version);
    suites.sort_by(|a, b| {
        a.suite_id
            .cmp(&b.suite_id)
            .then_with(|| by_version(&a.version, &b.version))
    });
    Ok(suites)
}
