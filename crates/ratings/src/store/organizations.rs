use crate::ports::organizations::{OrganizationNumber, OrganizationRecord};
use crate::rules::organization::Status;
use crate::store::{fetch_record, map_unique_violation};
use touchstone_host::audit::Decision;
use touchstone_host::ports::keys::KeyRecord;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::keys::add_key;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::TenantId;

/// SQL condition that the organization in a column is neither suspended nor archived. Work and
/// notices are limited to active organizations.
macro_rules! active {
    ($column:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM rating_organization o WHERE o.number = ",
            $column,
            " AND o.status = 'active')"
        )
    };
}
pub(super) use active;

const ADD: &str = "INSERT INTO rating_organization
        (id, tenant, name, status, private_badges, config, created_at, updated_at, revision, auditors)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT number, id, tenant, name, status, private_badges, config, created_at, updated_at, revision,
                auditors
            FROM rating_organization ",
            $rest
        )
    };
}
const ONE: &str = select!("WHERE id = $1");
const OF_TENANT: &str = select!("WHERE tenant = $1");
const NUMBERED: &str = select!("WHERE number = $1");
const CHANGE: &str = "UPDATE rating_organization
    SET name = $3, status = $4, private_badges = $5, config = $6, updated_at = $7, auditors = $8,
        revision = revision + 1
    WHERE number = $1 AND revision = $2";

type Row = (
    i64,
    String,
    String,
    String,
    String,
    bool,
    String,
    i64,
    i64,
    i64,
    String,
);

fn at(name: &'static str) -> Column {
    column("rating_organization", name)
}

fn record_of(row: Row) -> Result<OrganizationRecord, StoreError> {
    let (
        number,
        id,
        tenant,
        name,
        status,
        private_badges,
        config,
        created_at,
        updated_at,
        revision,
        auditors,
    ) = row;
    Ok(OrganizationRecord {
        number: OrganizationNumber(number),
        id,
        tenant: tenant.into(),
        name,
        status: Status::parse(&status).ok_or_else(|| at("status").inconsistent())?,
        private_badges,
        auditors: at("auditors").document(&auditors)?,
        config: at("config").document(&config)?,
        created_at: at("created_at").time(created_at)?,
        updated_at: at("updated_at").time(updated_at)?,
        revision,
    })
}

/// Adds an organization with its first key and writes the audit entry; [`StoreError::Exists`]
/// if the tenant already has one.
pub async fn add_organization(
    database: &Database,
    organization: &OrganizationRecord,
    key: &KeyRecord,
    decision: &Decision,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    query(ADD)
        .bind(&organization.id)
        .bind(organization.tenant.as_str())
        .bind(&organization.name)
        .bind(organization.status.as_str())
        .bind(organization.private_badges)
        .bind(at("config").text(&organization.config)?)
        .bind(organization.created_at.as_microsecond())
        .bind(organization.updated_at.as_microsecond())
        .bind(organization.revision)
        .bind(at("auditors").text(&organization.auditors)?)
        .execute(&mut transaction)
        .await
        .map_err(|cause| map_unique_violation(cause, "an organization for this tenant"))?;
    add_key(&mut transaction, key).await?;
    record(&mut transaction, &organization.tenant, decision).await?;
    transaction.commit().await
}

/// The organization of this id, in any tenant.
pub async fn organization(
    database: &Database,
    id: &str,
) -> Result<Option<OrganizationRecord>, StoreError> {
    let found = query(ONE).bind(id);
    fetch_record(database, found, record_of).await
}

pub async fn organization_numbered(
    database: &Database,
    number: OrganizationNumber,
) -> Result<Option<OrganizationRecord>, StoreError> {
    let found = query(NUMBERED).bind(number.0);
    fetch_record(database, found, record_of).await
}

pub async fn organization_of(
    database: &Database,
    tenant: &TenantId,
) -> Result<Option<OrganizationRecord>, StoreError> {
    let found = query(OF_TENANT).bind(tenant.as_str());
    fetch_record(database, found, record_of).await
}

/// Updates an organization and writes the audit entry. `revision` is that of the record that
/// was read; [`StoreError::Stale`] if it has changed since.
pub async fn change_organization(
    database: &Database,
    organization: &OrganizationRecord,
    decision: &Decision,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let changed = query(CHANGE)
        .bind(organization.number.0)
        .bind(organization.revision)
        .bind(&organization.name)
        .bind(organization.status.as_str())
        .bind(organization.private_badges)
        .bind(at("config").text(&organization.config)?)
        .bind(organization.updated_at.as_microsecond())
        .bind(at("auditors").text(&organization.auditors)?)
        .execute(&mut transaction)
        .await?;
    if changed == 0 {
        return Err(StoreError::Stale);
    }
    record(&mut transaction, &organization.tenant, decision).await?;
    transaction.commit().await
}
