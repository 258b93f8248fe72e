//! Tenant storage: usage, deletion of runs, legal holds.

use jiff::Timestamp;

use crate::ports::storage::{ContentKept, Retained, RunDeletion, Unmasked};
use crate::rules::run::record::RunRecord;
use crate::storage::{LegalHold, Usage};
use crate::store::projection::{self, FORGET};
use crate::store::run_names;
use crate::store::runs::parse_record;
use crate::store::segments;
use touchstone_host::audit::Decision;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Sql, query};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_packs::store as pack_store;

/// A suite counts with what its tenant stored: other tenants may have stored the same suite in another
/// form.
const USAGE: &str = "SELECT
    (SELECT COUNT(*) FROM pack WHERE tenant = $1),
    (SELECT COUNT(*) FROM suite WHERE tenant = $1),
    (SELECT COUNT(*) FROM run WHERE tenant = $1 AND deleted_at IS NULL),
    CAST((SELECT COALESCE(SUM(bytes), 0) FROM run WHERE tenant = $1) AS BIGINT)
        + CAST((SELECT COALESCE(SUM(OCTET_LENGTH(octets)), 0) FROM blob WHERE digest IN (
            SELECT integrity FROM pack WHERE tenant = $1
            UNION SELECT scoring FROM suite WHERE tenant = $1)) AS BIGINT)
        + CAST((SELECT COALESCE(SUM(bytes), 0) FROM (SELECT DISTINCT digest, COALESCE(bytes,
            (SELECT OCTET_LENGTH(octets) FROM blob WHERE blob.digest = suite.digest), 0) AS bytes
            FROM suite WHERE tenant = $1) AS charged) AS BIGINT)
        + CAST((SELECT COALESCE(SUM(bytes), 0) FROM suite_upload WHERE tenant = $1) AS BIGINT)";
/// The update locks the row, so that a legal hold and a deletion are serialized.
const LOOK: &str =
    "UPDATE run SET tenant = tenant WHERE run_id = $1 AND tenant = $2 AND deleted_at IS NULL
    RETURNING number, ended, legal_hold";
const ATTEMPT: &str =
    "UPDATE run SET deleted_at = $2, masked_to = 0, content = 'none' WHERE number = $1";
const ATTEMPT_RECORD: &str = "UPDATE run_record SET record = $2 WHERE run_number = $1";
const UNMASKED: &str =
    "SELECT r.masked_to, r.deleted_at IS NOT NULL, r.content, d.record FROM run r JOIN run_record d ON d.run_number = r.number
    WHERE r.masked_to IS NOT NULL ORDER BY r.number LIMIT 1";
const LOCK_UNMASKED: &str =
    "UPDATE run SET tenant = tenant WHERE run_id = $1 AND masked_to IS NOT NULL";
const MASK: &str = "UPDATE event SET body = $3
    WHERE run_number = (SELECT number FROM run WHERE run_id = $1) AND sequence = $2";
const MASKED_TO: &str = "UPDATE run SET masked_to = $2 WHERE run_id = $1 AND masked_to IS NOT NULL";
const MASKED: &str =
    "UPDATE run SET masked_to = NULL, bytes = CAST((SELECT COALESCE(SUM(OCTET_LENGTH(body)), 0)
        FROM event WHERE run_number = run.number) AS BIGINT)
        + CAST((SELECT COALESCE(SUM(OCTET_LENGTH(octets)), 0)
        FROM log_segment WHERE run_number = run.number) AS BIGINT)
    WHERE run_id = $1 AND masked_to IS NOT NULL";
const CONTENT: &str = "SELECT content FROM run WHERE run_id = $1";
const ARCHIVABLE: &str = "SELECT content FROM run WHERE run_id = $1 AND tenant = $2
    AND ended AND deleted_at IS NULL AND masked_to IS NULL";
/// A run whose content is being masked is masked to its end first.
const CONTENT_DUE: &str = "SELECT r.number, d.record FROM run r JOIN run_record d ON d.run_number = r.number
    WHERE r.ended AND r.content <> 'none' AND r.eval_agent IS NOT NULL AND r.profile IS NULL AND r.content <> $1
        AND r.deleted_at IS NULL AND r.legal_hold IS NULL AND r.masked_to IS NULL AND r.created_at < $2 AND r.number > $3
    ORDER BY r.number LIMIT $4";
const DROP_CONTENT: &str = "UPDATE run SET content = $2, masked_to = 0
    WHERE run_id = $1 AND ended AND deleted_at IS NULL AND legal_hold IS NULL AND masked_to IS NULL";
const HOLD: &str =
    "UPDATE run SET legal_hold = $3 WHERE run_id = $1 AND tenant = $2 AND deleted_at IS NULL";
const HELD: &str =
    "SELECT legal_hold FROM run WHERE run_id = $1 AND tenant = $2 AND deleted_at IS NULL";
const DELETABLE: &str = "SELECT r.number, d.record FROM run r JOIN run_record d ON d.run_number = r.number
    WHERE r.ended AND r.deleted_at IS NULL AND r.legal_hold IS NULL AND r.created_at < $1 AND r.number > $2
    ORDER BY r.number LIMIT $3";
/// Makes a transaction that stores the same bytes wait until this one has decided whether to delete
/// them.
const LOCK_BLOB: Sql = Sql {
    sqlite: "SELECT digest FROM blob WHERE digest = $1",
    postgres: "SELECT digest FROM blob WHERE digest = $1 FOR UPDATE",
};
/// A run record names the suite and packs that are needed to resume, retry or fork the run.
const DROP_BLOB: &str = "DELETE FROM blob WHERE digest = $1
    AND NOT EXISTS (SELECT 1 FROM pack WHERE integrity = $1)
    AND NOT EXISTS (SELECT 1 FROM suite WHERE digest = $1 OR scoring = $1)
    AND NOT EXISTS (SELECT 1 FROM run_record WHERE record LIKE '%' || $1 || '%')";

/// Rows that depend on a run. A callback subscription belongs to its run.
const DEPENDENTS: [&str; 11] = [
    FORGET,
    "DELETE FROM run_summary WHERE run_number = $1",
    "DELETE FROM run_tag WHERE run_number = $1",
    "DELETE FROM annotation WHERE run_number = $1",
    "DELETE FROM review_label WHERE queue IN (SELECT number FROM review_queue WHERE run_number = $1)",
    "DELETE FROM review_claim WHERE queue IN (SELECT number FROM review_queue WHERE run_number = $1)",
    "DELETE FROM review_item WHERE queue IN (SELECT number FROM review_queue WHERE run_number = $1)",
    "DELETE FROM review_queue WHERE run_number = $1",
    "DELETE FROM webhook_run WHERE run_number = $1",
    "DELETE FROM webhook_retry WHERE run_number = $1",
    "DELETE FROM webhook WHERE run_number = $1",
];
const WHOLE_RUN: [&str; 4] = [
    segments::FORGET,
    "DELETE FROM event WHERE run_number = $1",
    "DELETE FROM run_record WHERE run_number = $1",
    "DELETE FROM run WHERE number = $1",
];

fn hold_of(hold: Option<String>) -> Result<Option<LegalHold>, StoreError> {
    let hold = hold.map(|hold| column("run", "legal_hold").document(&hold));
    hold.transpose()
}

/// The tenant's current usage. Reads every run's size, so callers should cache the result
/// briefly.
pub async fn usage(database: &Database, tenant: &TenantId) -> Result<Usage, StoreError> {
    let (packs, suites, runs, bytes): (i64, i64, i64, i64) = query(USAGE)
        .bind(tenant.as_str())
        .fetch_one(database.readers())
        .await?;
    Ok(Usage {
        packs: column("pack", "tenant").number(packs)?,
        suites: column("suite", "tenant").number(suites)?,
        runs: column("run", "tenant").number(runs)?,
        bytes: column("run", "bytes").number(bytes)?,
    })
}

/// Deletes a finished run and its annotations, together with the audit entry.
pub async fn delete_run(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
    retained: &Retained,
    decision: &Decision,
) -> Result<RunDeletion, StoreError> {
    let mut transaction = database.begin_write().await?;
    let found: Option<(i64, bool, Option<String>)> = query(LOOK)
        .bind(run.as_str())
        .bind(tenant.as_str())
        .fetch_optional(&mut transaction)
        .await?;
    let refused = match &found {
        None => Some(RunDeletion::NotFound),
        Some((_, false, _)) => Some(RunDeletion::InProgress),
        Some((_, _, Some(_))) => Some(RunDeletion::Held),
        Some(_) => None,
    };
    let Some((number, None)) = found.map(|(number, ..)| (number, refused)) else {
        transaction.rollback().await?;
        return Ok(refused.unwrap_or(RunDeletion::NotFound));
    };
    run_names::forget(&mut transaction, number).await?;
    for delete in DEPENDENTS {
        query(delete).bind(number).execute(&mut transaction).await?;
    }
    match retained {
        Retained::Nothing => {
            for delete in WHOLE_RUN {
                query(delete).bind(number).execute(&mut transaction).await?;
            }
        }
        Retained::Attempt(record) => {
            query(ATTEMPT_RECORD)
                .bind(number)
                .bind(column("run_record", "record").text(record)?)
                .execute(&mut transaction)
                .await?;
            query(ATTEMPT)
                .bind(number)
                .bind(decision.at.as_microsecond())
                .execute(&mut transaction)
                .await?;
        }
    }
    record(&mut transaction, tenant, decision).await?;
    transaction.commit().await?;
    Ok(RunDeletion::Deleted)
}

fn kept_of(text: &str) -> Result<ContentKept, StoreError> {
    ContentKept::parse(text).ok_or_else(|| column("run", "content").inconsistent())
}

/// The task content that the log of a run keeps; `None` for an unknown run.
pub async fn content_kept(
    database: &Database,
    run: &RunId,
) -> Result<Option<ContentKept>, StoreError> {
    let found: Option<String> = query(CONTENT)
        .bind(run.as_str())
        .fetch_optional(database.readers())
        .await?;
    found.map(|text| kept_of(&text)).transpose()
}

/// The task content that the log of an ended run keeps; `None` if the run is unknown, has not ended,
/// was deleted, or is being masked.
pub async fn archivable(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<ContentKept>, StoreError> {
    let found: Option<String> = query(ARCHIVABLE)
        .bind(run.as_str())
        .bind(tenant.as_str())
        .fetch_optional(database.readers())
        .await?;
    found.map(|text| kept_of(&text)).transpose()
}

/// Up to `limit` ended eval runs of plain suites, by number, that follow the run numbered `after`,
/// were created before `before`, keep more content than `kept`, and are not under a hold.
pub async fn content_due(
    database: &Database,
    kept: ContentKept,
    before: Timestamp,
    after: i64,
    limit: u32,
) -> Result<Vec<(i64, RunRecord)>, StoreError> {
    let rows: Vec<(i64, String)> = query(CONTENT_DUE)
        .bind(kept.as_str())
        .bind(before.as_microsecond())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    rows.into_iter()
        .map(|(number, record)| Ok((number, parse_record(&record)?)))
        .collect()
}

/// Marks content of a run for masking, together with the audit entry; `false` if the run is
/// deleted, under a hold, or being masked.
pub async fn drop_content(
    database: &Database,
    run: &RunRecord,
    kept: ContentKept,
    decision: &Decision,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let marked = query(DROP_CONTENT)
        .bind(run.run_id.as_str())
        .bind(kept.as_str())
        .execute(&mut transaction)
        .await?;
    if marked == 0 {
        transaction.rollback().await?;
        return Ok(false);
    }
    projection::forget(&mut transaction, &run.run_id).await?;
    record(&mut transaction, &run.tenant, decision).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The next run whose log still has content that is to be deleted.
pub async fn next_unmasked(database: &Database) -> Result<Option<Unmasked>, StoreError> {
    let row: Option<(i64, bool, String, String)> =
        query(UNMASKED).fetch_optional(database.readers()).await?;
    let unmasked = row.map(|(masked_to, is_deleted, kept, record)| {
        Ok(Unmasked {
            record: parse_record(&record)?,
            is_deleted,
            kept: kept_of(&kept)?,
            masked_to: column("run", "masked_to").number(masked_to)?,
        })
    });
    unmasked.transpose()
}

/// Replaces these events and records how far the log is masked; `done` at its
/// end.
pub async fn mask_events(
    database: &Database,
    run: &RunId,
    events: &[StoredEvent],
    masked_to: u64,
    done: bool,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    // A segment is read and written again, so only one process at a time may mask it.
    let locked = query(LOCK_UNMASKED)
        .bind(run.as_str())
        .execute(&mut transaction)
        .await?;
    if locked == 0 {
        // Another process has masked the rest.
        return transaction.rollback().await;
    }
    let compressed = segments::replace(&mut transaction, run, events).await?;
    for event in events.iter().filter(|it| it.sequence > compressed) {
        let body =
            std::str::from_utf8(&event.body).map_err(|_| column("event", "body").inconsistent())?;
        query(MASK)
            .bind(run.as_str())
            .bind(column("event", "sequence").number::<_, i64>(event.sequence)?)
            .bind(body)
            .execute(&mut transaction)
            .await?;
    }
    let progress = match done {
        true => query(MASKED).bind(run.as_str()),
        false => query(MASKED_TO)
            .bind(run.as_str())
            .bind(column("run", "masked_to").number::<_, i64>(masked_to)?),
    };
    progress.execute(&mut transaction).await?;
    transaction.commit().await
}

/// Places (`Some`) or releases (`None`) a legal hold, together with the audit entry; `false` if
/// the tenant has no such run.
pub async fn hold_run(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
    hold: Option<&LegalHold>,
    decision: &Decision,
) -> Result<bool, StoreError> {
    let hold = hold.map(|hold| column("run", "legal_hold").text(hold));
    let mut transaction = database.begin_write().await?;
    let held = query(HOLD)
        .bind(run.as_str())
        .bind(tenant.as_str())
        .bind(hold.transpose()?)
        .execute(&mut transaction)
        .await?;
    if held == 0 {
        transaction.rollback().await?;
        return Ok(false);
    }
    record(&mut transaction, tenant, decision).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The legal hold of a run, if any.
pub async fn legal_hold(
    database: &Database,
    tenant: &TenantId,
    run: &RunId,
) -> Result<Option<LegalHold>, StoreError> {
    let hold: Option<Option<String>> = query(HELD)
        .bind(run.as_str())
        .bind(tenant.as_str())
        .fetch_optional(database.readers())
        .await?;
    hold_of(hold.flatten())
}

/// Up to `limit` finished runs, by number, that follow the run numbered `after`, were created
/// before `before`, are not deleted and not under a hold. Each with its number.
pub async fn deletable_runs(
    database: &Database,
    before: Timestamp,
    after: i64,
    limit: u32,
) -> Result<Vec<(i64, RunRecord)>, StoreError> {
    let rows: Vec<(i64, String)> = query(DELETABLE)
        .bind(before.as_microsecond())
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    rows.into_iter()
        .map(|(number, record)| Ok((number, parse_record(&record)?)))
        .collect()
}

/// Deletes the bytes under a digest if no pack, suite or run of any tenant refers to them.
pub async fn drop_unreferenced(database: &Database, digest: &str) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    for statement in [LOCK_BLOB, Sql::from(DROP_BLOB)] {
        query(statement)
            .bind(digest)
            .execute(&mut transaction)
            .await?;
    }
    transaction.commit().await?;
    pack_store::suites::release(database, digest).await
}
