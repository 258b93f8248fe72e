//! Eval runs of a kind, which have a profile.

use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::{RunId, TenantId};

const NEWEST: &str = "SELECT number, run_id, profile FROM run
    WHERE tenant = $1 AND number < $2 AND profile IS NOT NULL AND deleted_at IS NULL
    ORDER BY number DESC LIMIT $3";

/// A run and its profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfiledRun {
    /// Its place in the order of creation.
    pub number: i64,
    pub run: RunId,
    pub profile: String,
}

/// The runs of a tenant that have a profile, newest first, from before the run with this number.
pub async fn newest(
    database: &Database,
    tenant: &TenantId,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<ProfiledRun>, StoreError> {
    let rows: Vec<(i64, String, Option<String>)> = query(NEWEST)
        .bind(tenant.as_str())
        .bind(before.unwrap_or(i64::MAX))
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    let run = |(number, run, profile): (i64, String, Option<String>)| {
        Ok(ProfiledRun {
            number,
            run: run.into(),
            profile: profile.ok_or_else(|| column("run", "profile").inconsistent())?,
        })
    };
    rows.into_iter().map(run).collect()
}
