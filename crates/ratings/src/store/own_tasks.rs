//! Stress tasks that organizations define.

use crate::ports::Position;
use crate::ports::organizations::{OrganizationNumber, OrganizationRecord};
use crate::ports::own_tasks::OwnTaskRecord;
use crate::store::fetch_page;
use touchstone_host::audit::Decision;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;

const ADD: &str = "INSERT INTO rating_own_stress_task (organization, id, document, created_at)
    VALUES ($1, $2, $3, $4)";
const LISTED: &str = "SELECT document, created_at FROM rating_own_stress_task
    WHERE organization = $1 AND (created_at, id) > ($2, $3)
    ORDER BY created_at, id LIMIT $4";
const REMOVE: &str = "DELETE FROM rating_own_stress_task WHERE organization = $1 AND id = $2";

fn at(name: &'static str) -> Column {
    column("rating_own_stress_task", name)
}

fn record_of((document, created_at): (String, i64)) -> Result<OwnTaskRecord, StoreError> {
    Ok(OwnTaskRecord {
        task: at("document").document(&document)?,
        created_at: at("created_at").time(created_at)?,
    })
}

/// Adds a task and writes the audit entry.
pub async fn add_own_task(
    database: &Database,
    organization: &OrganizationRecord,
    record: &OwnTaskRecord,
    decision: &Decision,
) -> Result<(), StoreError> {
    let document = at("document").text(&record.task)?;
    let mut transaction = database.begin_write().await?;
    query(ADD)
        .bind(organization.number.0)
        .bind(&record.task.id)
        .bind(&document)
        .bind(record.created_at.as_microsecond())
        .execute(&mut transaction)
        .await
        .map_err(|cause| crate::store::map_unique_violation(cause, "a stress task with this id"))?;
    audit::record(&mut transaction, &organization.tenant, decision).await?;
    transaction.commit().await
}

/// Tasks after a position, in the order of creation.
pub async fn own_tasks(
    database: &Database,
    organization: OrganizationNumber,
    after: Option<&Position>,
    limit: u32,
) -> Result<Vec<OwnTaskRecord>, StoreError> {
    let listed = query(LISTED).bind(organization.0);
    fetch_page(database, listed, after, limit, record_of).await
}

/// Deletes a task and writes the audit entry; `false` if it does not exist.
pub async fn remove_own_task(
    database: &Database,
    organization: &OrganizationRecord,
    id: &str,
    decision: &Decision,
) -> Result<bool, StoreError> {
    let mut transaction = database.begin_write().await?;
    let removed = query(REMOVE)
        .bind(organization.number.0)
        .bind(id)
        .execute(&mut transaction)
        .await?;
    if removed == 0 {
        transaction.rollback().await?;
        return Ok(false);
    }
    audit::record(&mut transaction, &organization.tenant, decision).await?;
    transaction.commit().await?;
    Ok(true)
}
