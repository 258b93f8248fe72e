//! Assessment profiles, and which eval runs were gathered as evidence.

use jiff::Timestamp;

use crate::ports::Position;
use crate::ports::agents::AgentNumber;
use crate::ports::organizations::OrganizationNumber;
use crate::ports::profiles::{CollectedRun, EndedRun, ExclusionReason, ProfileRecord, RunQuery};
use crate::store::{fetch_page, fetch_record};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::store::runs::parse_record;

const CHANGE: &str = "UPDATE rating_profile SET document = $3, updated_at = $4
    WHERE organization = $1 AND suite = $2";
const ADD: &str =
    "INSERT INTO rating_profile (organization, suite, document, updated_at, created_at)
    VALUES ($1, $2, $3, $4, $5)";
const LOOK_AGAIN: &str = "DELETE FROM rating_collected_run
    WHERE organization = $1 AND suite = $2 AND COALESCE(left_out, '') <> 'stress_test'";
const ONE: &str = "SELECT document, created_at, updated_at FROM rating_profile
    WHERE organization = $1 AND suite = $2";
const LISTED: &str = "SELECT document, created_at, updated_at FROM rating_profile
    WHERE organization = $1 AND (created_at, suite) > ($2, $3)
    ORDER BY created_at, suite LIMIT $4";
const REMOVE: &str = "DELETE FROM rating_profile WHERE organization = $1 AND suite = $2";
/// Clocks of replicas differ by less than a minute. Collecting a run once too often changes
/// nothing.
const RECALIBRATED: &str = "DELETE FROM rating_collected_run
    WHERE organization = $1 AND agent = $2 AND left_out = 'uncalibrated_judge'
        AND gathered_at <= (SELECT MAX(calibrated_at) FROM calibration WHERE tenant = $3) + 60000000";
const RUNS: &str = "SELECT r.number, r.run_id FROM run r
    WHERE r.tenant = $2 AND r.eval_agent = $3 AND (CAST($4 AS TEXT) IS NULL OR r.eval_version = $4)
        AND r.ended AND r.created_at >= $5 AND r.number > $6
        AND NOT EXISTS (SELECT 1 FROM rating_collected_run g WHERE g.organization = $1 AND g.run = r.run_id)
    ORDER BY r.number LIMIT $7";
/// The record of a deleted run is kept, with the scores of its tasks.
const RECORD: &str = "SELECT record FROM run JOIN run_record ON run_number = number
    WHERE run_id = $1 AND tenant = $2";
/// A run left out because its suite has no profile is not recorded once there is a profile: adding
/// the profile makes the host gather such runs again.
const RECORD_COLLECTED: &str = "INSERT INTO rating_collected_run
        (organization, run, agent, suite, events, left_out, gathered_at)
    SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT), CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS BIGINT),
        CAST($6 AS TEXT), CAST($7 AS BIGINT)
    WHERE COALESCE(CAST($6 AS TEXT), '') <> 'no_profile'
        OR NOT EXISTS (SELECT 1 FROM rating_profile WHERE organization = $1 AND suite = $4)
    ON CONFLICT (organization, run) DO NOTHING";
const LEFT_OUT: &str = "SELECT run, left_out FROM rating_collected_run
    WHERE organization = $1 AND agent = $2 AND left_out IS NOT NULL AND left_out <> 'stress_test'
    ORDER BY gathered_at DESC, run LIMIT $3";

fn at(name: &'static str) -> Column {
    column("rating_profile", name)
}

fn record_of(
    (document, created_at, updated_at): (String, i64, i64),
) -> Result<ProfileRecord, StoreError> {
    Ok(ProfileRecord {
        profile: at("document").document(&document)?,
        created_at: at("created_at").time(created_at)?,
        updated_at: at("updated_at").time(updated_at)?,
    })
}

/// Sets the profile of a suite version and marks its runs for processing. Returns whether the
/// profile is new.
pub async fn set_profile(
    database: &Database,
    organization: OrganizationNumber,
    record: &ProfileRecord,
) -> Result<bool, StoreError> {
    let suite = record.profile.suite();
    let document = at("document").text(&record.profile)?;
    let updated_at = record.updated_at.as_microsecond();
    let mut transaction = database.begin_write().await?;
    let changed = query(CHANGE)
        .bind(organization.0)
        .bind(&suite)
        .bind(&document)
        .bind(updated_at)
        .execute(&mut transaction)
        .await?;
    let new = changed == 0;
    if new {
        query(ADD)
            .bind(organization.0)
            .bind(&suite)
            .bind(&document)
            .bind(updated_at)
            .bind(record.created_at.as_microsecond())
            .execute(&mut transaction)
            .await
            .map_err(|cause| {
                crate::store::map_unique_violation(cause, "a profile for this suite")
            })?;
    }
    query(LOOK_AGAIN)
        .bind(organization.0)
        .bind(&suite)
        .execute(&mut transaction)
        .await?;
    transaction.commit().await?;
    Ok(new)
}

/// The profile of `suiteId@version`.
pub async fn profile(
    database: &Database,
    organization: OrganizationNumber,
    suite: &str,
) -> Result<Option<ProfileRecord>, StoreError> {
    let found = query(ONE).bind(organization.0).bind(suite);
    fetch_record(database, found, record_of).await
}

/// Profiles after a position, in the order in which they were first set.
pub async fn profiles(
    database: &Database,
    organization: OrganizationNumber,
    after: Option<&Position>,
    limit: u32,
) -> Result<Vec<ProfileRecord>, StoreError> {
    let listed = query(LISTED).bind(organization.0);
    fetch_page(database, listed, after, limit, record_of).await
}

/// Deletes a profile; `false` if it does not exist.
pub async fn remove_profile(
    database: &Database,
    organization: OrganizationNumber,
    suite: &str,
) -> Result<bool, StoreError> {
    let removed = query(REMOVE)
        .bind(organization.0)
        .bind(suite)
        .execute(database.writer()?)
        .await?;
    Ok(removed > 0)
}

/// Makes runs be collected again that were left out because their judge was not calibrated, if any
/// judge was calibrated after they were left out.
pub async fn recollect_after_calibration(
    database: &Database,
    organization: OrganizationNumber,
    agent: AgentNumber,
    tenant: &TenantId,
) -> Result<(), StoreError> {
    query(RECALIBRATED)
        .bind(organization.0)
        .bind(agent.0)
        .bind(tenant.as_str())
        .execute(database.writer()?)
        .await?;
    Ok(())
}

/// Ended eval runs that were not processed for this organization, in the order of creation.
pub async fn runs_to_collect(
    database: &Database,
    organization: OrganizationNumber,
    which: RunQuery<'_>,
    after: i64,
    limit: u32,
) -> Result<Vec<EndedRun>, StoreError> {
    let rows: Vec<(i64, String)> = query(RUNS)
        .bind(organization.0)
        .bind(which.tenant.as_str())
        .bind(&which.agent.id)
        .bind(which.agent.version.as_deref())
        .bind(which.since.as_microsecond())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    let ended = |(number, run): (i64, String)| EndedRun {
        number,
        run: RunId::from(run),
    };
    Ok(rows.into_iter().map(ended).collect())
}

/// The record of an eval run, even of a deleted one: its scores are kept, so that deleting a
/// run does not delete evidence.
pub async fn run_to_collect(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<RunRecord>, StoreError> {
    let record: Option<String> = query(RECORD)
        .bind(run.as_str())
        .bind(tenant.as_str())
        .fetch_optional(database.readers())
        .await?;
    record.map(|record| parse_record(&record)).transpose()
}

/// Records the result of processing a run. A missing profile is recorded only while it is
/// missing.
pub async fn record_collected_run(
    database: &Database,
    organization: OrganizationNumber,
    run: &CollectedRun,
    now: Timestamp,
) -> Result<(), StoreError> {
    query(RECORD_COLLECTED)
        .bind(organization.0)
        .bind(run.run.as_str())
        .bind(run.agent.0)
        .bind(&run.suite)
        .bind(i64::try_from(run.events).unwrap_or(i64::MAX))
        .bind(run.left_out.map(ExclusionReason::as_str))
        .bind(now.as_microsecond())
        .execute(database.writer()?)
        .await?;
    Ok(())
}

/// The newest runs of an agent that produced no evidence, with the reason.
pub async fn left_out(
    database: &Database,
    organization: OrganizationNumber,
    agent: AgentNumber,
    limit: u32,
) -> Result<Vec<(RunId, ExclusionReason)>, StoreError> {
    let rows: Vec<(String, String)> = query(LEFT_OUT)
        .bind(organization.0)
        .bind(agent.0)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    let reason = |name: &str| {
        ExclusionReason::parse(name)
            .ok_or_else(|| column("rating_collected_run", "left_out").inconsistent())
    };
    rows.into_iter()
        .map(|(run, why)| Ok((RunId::from(run), reason(&why)?)))
        .collect()
}
