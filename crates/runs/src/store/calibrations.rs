//! Judge calibrations and their attempts.

use std::time::Duration;

use crate::ports::calibrations::FoundAttempt;
use crate::rules::eval::rubric::attempt::Attempt;
use crate::rules::eval::rubric::calibration::Calibration;
use touchstone_host::audit::Decision;
use touchstone_host::ports::idempotency::IdempotencyCompletion;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::{Column, column, micros};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};
use touchstone_kit::ids::TenantId;

const UPSERT: &str = "INSERT INTO calibration (tenant, identity, document, calibrated_at)
    VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant, identity) DO UPDATE
    SET document = excluded.document, calibrated_at = excluded.calibrated_at";
const OF_JUDGE: &str = "SELECT document FROM calibration WHERE tenant = $1 AND identity = $2";
const ALL: &str = "SELECT document FROM calibration WHERE tenant = $1 ORDER BY identity";

/// Attempts kept per tenant.
const KEPT_ATTEMPTS: i64 = 100;
const DELETE_OLD: &str = "DELETE FROM calibration_attempt WHERE tenant = $1 AND ended AND calibration_id NOT IN
    (SELECT calibration_id FROM calibration_attempt WHERE tenant = $1 ORDER BY began_at DESC, calibration_id DESC LIMIT $2)";

/// Owner of the leases on attempts; on SQLite the process id is appended.
const HOLDER: &str = "calibration";

const DOCUMENT: Column = column("calibration_attempt", "document");

fn parse(document: &str) -> Result<Calibration, StoreError> {
    column("calibration", "document").document(document)
}

/// Ends attempts whose lease has expired, so that a new attempt can start. Their documents are
/// kept.
const END_EXPIRED: &str = "UPDATE calibration_attempt SET ended = TRUE
    WHERE tenant = $1 AND NOT ended AND lease_until <= COALESCE($2, {now})";
const INSERT_ATTEMPT: &str = "INSERT INTO calibration_attempt (tenant, calibration_id, began_at, lease_owner, lease_until, document)
    VALUES ($1, $2, $3, $6, COALESCE($7, {now}) + $4, $5) ON CONFLICT DO NOTHING";
/// Ending an attempt sets a lease of zero.
const UPDATE_HELD: &str = "UPDATE calibration_attempt SET document = $3, ended = $5, lease_until = COALESCE($6, {now}) + $4
    WHERE tenant = $1 AND calibration_id = $2 AND NOT ended AND lease_until > COALESCE($6, {now})";
const ATTEMPT: &str =
    "SELECT document, NOT ended AND lease_until > COALESCE($3, {now}) FROM calibration_attempt
    WHERE tenant = $1 AND calibration_id = $2";

/// Updates an attempt whose lease has not expired; [`StoreError::Fenced`] otherwise.
async fn update_held(
    database: &Database,
    transaction: &mut Transaction,
    tenant: &TenantId,
    attempt: &Attempt,
    lease: i64,
    ends: bool,
) -> Result<(), StoreError> {
    let held = query(UPDATE_HELD)
        .bind(tenant.as_str())
        .bind(&attempt.calibration_id)
        .bind(DOCUMENT.text(attempt)?)
        .bind(lease)
        .bind(ends)
        .bind(database.lease_clock())
        .execute(transaction)
        .await?;
    match held {
        0 => Err(StoreError::Fenced),
        _ => Ok(()),
    }
}

/// Starts an attempt under a lease, together with the response to the request, or neither.
///
/// # Errors
/// [`StoreError::Exists`] while another attempt of the tenant holds a lease.
pub async fn begin_attempt(
    database: &Database,
    tenant: &TenantId,
    attempt: &Attempt,
    lease: Duration,
    completes: Option<&IdempotencyCompletion>,
) -> Result<(), StoreError> {
    database.release_dead().await?;
    let mut transaction = database.begin_write().await?;
    query(END_EXPIRED)
        .bind(tenant.as_str())
        .bind(database.lease_clock())
        .execute(&mut transaction)
        .await?;
    let begun = query(INSERT_ATTEMPT)
        .bind(tenant.as_str())
        .bind(&attempt.calibration_id)
        .bind(attempt.started_at.as_microsecond())
        .bind(micros(lease))
        .bind(DOCUMENT.text(attempt)?)
        .bind(database.holder(HOLDER))
        .bind(database.lease_clock())
        .execute(&mut transaction)
        .await?;
    if begun == 0 {
        return Err(StoreError::Exists("an unfinished judge calibration"));
    }
    query(DELETE_OLD)
        .bind(tenant.as_str())
        .bind(KEPT_ATTEMPTS)
        .execute(&mut transaction)
        .await?;
    if let Some(completion) = completes {
        database
            .complete_within(&mut transaction, completion)
            .await?;
    }
    transaction.commit().await
}

/// Records the progress, and renews the lease for `lease` from now.
///
/// # Errors
/// [`StoreError::Fenced`] if the lease is lost.
pub async fn renew_attempt(
    database: &Database,
    tenant: &TenantId,
    attempt: &Attempt,
    lease: Duration,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    update_held(
        database,
        &mut transaction,
        tenant,
        attempt,
        micros(lease),
        false,
    )
    .await?;
    transaction.commit().await
}

/// Ends the attempt, together with the audit entry and its calibration, if any, which replaces
/// the judge's earlier one.
///
/// # Errors
/// [`StoreError::Fenced`] if the lease is lost; then nothing is stored.
pub async fn end_attempt(
    database: &Database,
    tenant: &TenantId,
    attempt: &Attempt,
    decision: &Decision,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    update_held(database, &mut transaction, tenant, attempt, 0, true).await?;
    record(&mut transaction, tenant, decision).await?;
    if let Some(calibration) = &attempt.calibration {
        let document = column("calibration", "document").text(calibration)?;
        query(UPSERT)
            .bind(tenant.as_str())
            .bind(&calibration.judge.identity)
            .bind(document)
            .bind(calibration.calibrated_at.as_microsecond())
            .execute(&mut transaction)
            .await?;
    }
    transaction.commit().await
}

/// One of the tenant's latest attempts.
pub async fn find_attempt(
    database: &Database,
    tenant: &TenantId,
    calibration_id: &str,
) -> Result<Option<FoundAttempt>, StoreError> {
    let row: Option<(String, bool)> = query(ATTEMPT)
        .bind(tenant.as_str())
        .bind(calibration_id)
        .bind(database.lease_clock())
        .fetch_optional(database.readers())
        .await?;
    let found = row.map(|(document, held)| {
        let attempt = DOCUMENT.document(&document)?;
        Ok(FoundAttempt { attempt, held })
    });
    found.transpose()
}

/// The calibration of a judge.
pub async fn find(
    database: &Database,
    tenant: &TenantId,
    identity: &str,
) -> Result<Option<Calibration>, StoreError> {
    let document: Option<String> = query(OF_JUDGE)
        .bind(tenant.as_str())
        .bind(identity)
        .fetch_optional(database.readers())
        .await?;
    document.as_deref().map(parse).transpose()
}

/// All calibrations, by identity of the judge.
pub async fn list(database: &Database, tenant: &TenantId) -> Result<Vec<Calibration>, StoreError> {
    let documents: Vec<String> = query(ALL)
        .bind(tenant.as_str())
        .fetch_all(database.readers())
        .await?;
    documents.iter().map(|document| parse(document)).collect()
}
