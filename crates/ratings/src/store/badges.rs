//! Badges, their signing keys, and the status lists that revoke them.

use jiff::Timestamp;

use crate::credential::did::multibase;
use crate::ports::agents::AgentNumber;
use crate::ports::badges::{
    BadgeRecord, BadgeState, Issued, IssuerKeyRecord, Retirement, Revocation, StatusListNumber,
    StatusListRecord,
};
use crate::ports::organizations::{OrganizationNumber, OrganizationRecord};
use crate::store::organizations::organization_numbered;
use crate::store::{fetch_record, fetch_records, map_unique_violation};
use touchstone_host::audit::Decision;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Target, Transaction, query};
use touchstone_kit::keys::PublicKey;

const KEYS: &str = "SELECT public, sealed, created_at, retired_at, compromised
    FROM rating_issuer_key WHERE organization = $1 ORDER BY number";
const ADD_KEY: &str = "INSERT INTO rating_issuer_key
        (organization, public, sealed, created_at, retired_at, compromised)
    VALUES ($1, $2, $3, $4, $5, $6)";
const RETIRE_KEY: &str = "UPDATE rating_issuer_key
    SET retired_at = COALESCE(retired_at, $3), compromised = $4
    WHERE organization = $1 AND public = $2 AND (retired_at IS NULL) = $5 AND NOT compromised";
/// The proof names its key; no other key name in a credential follows a `#`.
const REVOKE_SIGNED: &str = "UPDATE rating_badge SET state = 'revoked', revocation = $3
    WHERE organization = $1 AND state = 'issued' AND credential LIKE '%#' || $2 || '\"%'";
/// Marks all lists for signing again, including those that the key would have signed.
const ALL_CHANGED: &str =
    "UPDATE rating_status_list SET changes = changes + 1 WHERE organization = $1";
const LIST_WITH_ROOM: &str = "SELECT number, organization, issuer, base_url, changes
    FROM rating_status_list
    WHERE organization = $1 AND issuer = $2 AND base_url = $3 AND given_out < $4
    ORDER BY number LIMIT 1";
const ADD_LIST: &str = "INSERT INTO rating_status_list (organization, issuer, base_url, created_at)
    VALUES ($1, $2, $3, $4) RETURNING number, organization, issuer, base_url, changes";
const LIST: &str = "SELECT number, organization, issuer, base_url, changes
    FROM rating_status_list WHERE number = $1";
const REVOKED_BITS: &str = "SELECT status_index FROM rating_badge
    WHERE status_list = $1 AND state = 'revoked' AND status_index IS NOT NULL ORDER BY status_index";
const CHANGED: &str = "UPDATE rating_status_list SET changes = changes + 1 WHERE number = $1";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT organization, agent, revision, state, badge, credential, status_list, status_index,
                revocation, created_at FROM rating_badge ",
            $rest
        )
    };
}
const ONE: &str = select!("WHERE id = $1");
const NEWEST: &str = select!("WHERE assessment = $1 ORDER BY revision DESC LIMIT 1");
const OF: &str =
    select!("WHERE organization = $1 AND assessment = $2 ORDER BY revision DESC LIMIT 1");
const REVOKE: &str = "UPDATE rating_badge SET state = 'revoked', revocation = $2
    WHERE id = $1 AND state = 'issued'";
const ADD: &str = "INSERT INTO rating_badge
        (organization, agent, assessment, revision, id, state, badge, credential, status_list, status_index,
            valid_until, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
const DECIDE: &str = "UPDATE rating_badge
    SET state = $2, badge = $3, credential = $4, status_list = $5, status_index = $6
    WHERE id = $1 AND state = 'withheld'";
const COUNT_STATUS_BIT: &str =
    "UPDATE rating_status_list SET given_out = given_out + 1 WHERE number = $1";

type Row = (
    i64,
    i64,
    i64,
    String,
    String,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    i64,
);
type ListRow = (i64, i64, String, String, i64);
type KeyRow = (String, String, i64, Option<i64>, bool);

fn at(name: &'static str) -> Column {
    column("rating_badge", name)
}

fn record_of(row: Row) -> Result<BadgeRecord, StoreError> {
    let (organization, agent, revision, state, badge, ..) = row;
    let (.., credential, status_list, status_index, revocation, created_at) = row;
    let issued = match (credential, status_list, status_index) {
        (Some(credential), Some(list), Some(index)) => Some(Issued {
            credential,
            status_list: StatusListNumber(list),
            status_index: at("status_index").number(index)?,
        }),
        (None, None, None) => None,
        _ => return Err(at("credential").inconsistent()),
    };
    let revocation = revocation.map(|it| at("revocation").document(&it));
    Ok(BadgeRecord {
        organization: OrganizationNumber(organization),
        agent: AgentNumber(agent),
        revision: at("revision").number(revision)?,
        state: BadgeState::parse(&state).ok_or_else(|| at("state").inconsistent())?,
        badge: at("badge").document(&badge)?,
        issued,
        revocation: revocation.transpose()?,
        created_at: at("created_at").time(created_at)?,
    })
}

fn list_of((number, organization, issuer, base_url, changes): ListRow) -> StatusListRecord {
    StatusListRecord {
        number: StatusListNumber(number),
        organization: OrganizationNumber(organization),
        issuer,
        base_url,
        changes,
    }
}

fn key_of(row: KeyRow) -> Result<IssuerKeyRecord, StoreError> {
    let at = |name| column("rating_issuer_key", name);
    let (public, sealed, created_at, retired_at, compromised) = row;
    let retired_at = retired_at.map(|micros| at("retired_at").time(micros));
    Ok(IssuerKeyRecord {
        public: PublicKey::from_text(&public).map_err(|_| at("public").inconsistent())?,
        sealed,
        created_at: at("created_at").time(created_at)?,
        retired_at: retired_at.transpose()?,
        compromised,
    })
}

async fn add_key(
    on: impl Into<Target<'_>>,
    organization: OrganizationNumber,
    key: &IssuerKeyRecord,
) -> Result<(), StoreError> {
    query(ADD_KEY)
        .bind(organization.0)
        .bind(key.public.to_base64())
        .bind(&key.sealed)
        .bind(key.created_at.as_microsecond())
        .bind(key.retired_at.map(Timestamp::as_microsecond))
        .bind(key.compromised)
        .execute(on)
        .await
        .map_err(|cause| map_unique_violation(cause, "a current key for this organization"))?;
    Ok(())
}

pub(super) async fn add_badge(
    transaction: &mut Transaction,
    badge: &BadgeRecord,
) -> Result<(), StoreError> {
    let issued = badge.issued.as_ref();
    query(ADD)
        .bind(badge.organization.0)
        .bind(badge.agent.0)
        .bind(badge.badge.assessment_id.to_string())
        .bind(i64::from(badge.revision))
        .bind(badge.badge.id.to_string())
        .bind(badge.state.as_str())
        .bind(at("badge").text(&badge.badge)?)
        .bind(issued.map(|it| &it.credential))
        .bind(issued.map(|it| it.status_list.0))
        .bind(issued.map(|it| i64::from(it.status_index)))
        .bind(badge.badge.valid_until.as_microsecond())
        .bind(badge.created_at.as_microsecond())
        .execute(&mut *transaction)
        .await
        .map_err(|cause| map_unique_violation(cause, "a badge with this status bit or revision"))?;
    count_status_bit(transaction, issued).await
}

/// Records the decision about a withheld badge, within a transaction.
pub(super) async fn decide_badge(
    transaction: &mut Transaction,
    badge: &BadgeRecord,
) -> Result<(), StoreError> {
    let issued = badge.issued.as_ref();
    let decided = query(DECIDE)
        .bind(badge.badge.id.to_string())
        .bind(badge.state.as_str())
        .bind(at("badge").text(&badge.badge)?)
        .bind(issued.map(|it| &it.credential))
        .bind(issued.map(|it| it.status_list.0))
        .bind(issued.map(|it| i64::from(it.status_index)))
        .execute(&mut *transaction)
        .await
        .map_err(|cause| map_unique_violation(cause, "a badge with this status bit"))?;
    if decided == 0 {
        return Err(StoreError::Stale);
    }
    count_status_bit(transaction, issued).await
}

/// Counts a status bit that was assigned, if one was.
async fn count_status_bit(
    transaction: &mut Transaction,
    issued: Option<&Issued>,
) -> Result<(), StoreError> {
    if let Some(issued) = issued {
        query(COUNT_STATUS_BIT)
            .bind(issued.status_list.0)
            .execute(&mut *transaction)
            .await?;
    }
    Ok(())
}

/// Revokes an issued badge within a transaction.
pub(super) async fn revoke_within(
    transaction: &mut Transaction,
    badge: &BadgeRecord,
    revocation: &Revocation,
) -> Result<(), StoreError> {
    let revoked = query(REVOKE)
        .bind(badge.badge.id.to_string())
        .bind(at("revocation").text(revocation)?)
        .execute(&mut *transaction)
        .await?;
    if revoked == 0 {
        return Err(StoreError::Stale);
    }
    query(CHANGED)
        .bind(badge.issued.as_ref().map(|it| it.status_list.0))
        .execute(&mut *transaction)
        .await?;
    Ok(())
}

/// Finds a badge and its organization with a query by id.
async fn certified(
    database: &Database,
    statement: &'static str,
    id: &str,
) -> Result<Option<(BadgeRecord, OrganizationRecord)>, StoreError> {
    let row: Option<Row> = query(statement)
        .bind(id)
        .fetch_optional(database.readers())
        .await?;
    let Some(badge) = row.map(record_of).transpose()? else {
        return Ok(None);
    };
    let organization = organization_numbered(database, badge.organization).await?;
    let organization = organization.ok_or_else(|| at("organization").inconsistent())?;
    Ok(Some((badge, organization)))
}

/// The keys of an organization, oldest first.
pub async fn issuer_keys(
    database: &Database,
    organization: OrganizationNumber,
) -> Result<Vec<IssuerKeyRecord>, StoreError> {
    let listed = query(KEYS).bind(organization.0);
    fetch_records(database, listed, key_of).await
}

/// Adds the current key; [`StoreError::Exists`] if there is one.
pub async fn add_issuer_key(
    database: &Database,
    organization: OrganizationNumber,
    key: &IssuerKeyRecord,
) -> Result<(), StoreError> {
    add_key(database.writer()?, organization, key).await
}

/// Retires a key with all consequences and writes the audit entry. Returns the number of
/// revoked badges. [`StoreError::Stale`] if the state of the key has changed.
pub async fn retire_issuer_key(
    database: &Database,
    retirement: &Retirement<'_>,
    decision: &Decision,
) -> Result<u64, StoreError> {
    let organization = retirement.organization;
    let mut transaction = database.begin_write().await?;
    let retired = query(RETIRE_KEY)
        .bind(organization.number.0)
        .bind(retirement.key.to_base64())
        .bind(retirement.at.as_microsecond())
        .bind(retirement.compromised.is_some())
        .bind(retirement.successor.is_some())
        .execute(&mut transaction)
        .await?;
    if retired == 0 {
        return Err(StoreError::Stale);
    }
    if let Some(successor) = retirement.successor {
        add_key(&mut transaction, organization.number, successor).await?;
    }
    let mut revoked = 0;
    if let Some(revocation) = retirement.compromised {
        let badges = query(REVOKE_SIGNED)
            .bind(organization.number.0)
            .bind(multibase(retirement.key))
            .bind(at("revocation").text(revocation)?)
            .execute(&mut transaction)
            .await?;
        revoked = badges;
        query(ALL_CHANGED)
            .bind(organization.number.0)
            .execute(&mut transaction)
            .await?;
    }
    record(&mut transaction, &organization.tenant, decision).await?;
    transaction.commit().await?;
    Ok(revoked)
}

/// A status list of this issuer and address in which fewer than `room` bits are taken; created
/// if necessary.
pub async fn open_status_list(
    database: &Database,
    organization: OrganizationNumber,
    issuer: &str,
    base_url: &str,
    room: u32,
    now: Timestamp,
) -> Result<StatusListRecord, StoreError> {
    let open: Option<ListRow> = query(LIST_WITH_ROOM)
        .bind(organization.0)
        .bind(issuer)
        .bind(base_url)
        .bind(i64::from(room))
        .fetch_optional(database.readers())
        .await?;
    if let Some(open) = open {
        return Ok(list_of(open));
    }
    let added: Option<ListRow> = query(ADD_LIST)
        .bind(organization.0)
        .bind(issuer)
        .bind(base_url)
        .bind(now.as_microsecond())
        .fetch_all(database.writer()?)
        .await?
        .pop();
    let added = added.ok_or_else(|| column("rating_status_list", "number").inconsistent())?;
    Ok(list_of(added))
}

/// The list of this number, in any organization.
pub async fn status_list(
    database: &Database,
    number: StatusListNumber,
) -> Result<Option<StatusListRecord>, StoreError> {
    let row: Option<ListRow> = query(LIST)
        .bind(number.0)
        .fetch_optional(database.readers())
        .await?;
    Ok(row.map(list_of))
}

/// The indexes of the revoked bits of a list.
pub async fn revoked_bits(
    database: &Database,
    number: StatusListNumber,
) -> Result<Vec<u32>, StoreError> {
    let bits: Vec<i64> = query(REVOKED_BITS)
        .bind(number.0)
        .fetch_all(database.readers())
        .await?;
    let bits = bits.into_iter().map(|bit| at("status_index").number(bit));
    bits.collect()
}

/// A badge with its organization, in any organization.
pub async fn badge(
    database: &Database,
    id: &str,
) -> Result<Option<(BadgeRecord, OrganizationRecord)>, StoreError> {
    certified(database, ONE, id).await
}

/// The newest badge of an assessment with its organization, in any organization.
pub async fn newest_badge(
    database: &Database,
    assessment: &str,
) -> Result<Option<(BadgeRecord, OrganizationRecord)>, StoreError> {
    certified(database, NEWEST, assessment).await
}

pub async fn badge_of(
    database: &Database,
    organization: OrganizationNumber,
    assessment: &str,
) -> Result<Option<BadgeRecord>, StoreError> {
    let found = query(OF).bind(organization.0).bind(assessment);
    fetch_record(database, found, record_of).await
}

/// Revokes an issued badge and writes the audit entry; [`StoreError::Stale`] if the badge is
/// not issued any more.
pub async fn revoke_badge(
    database: &Database,
    badge: &BadgeRecord,
    revocation: &Revocation,
    organization: &OrganizationRecord,
    decision: &Decision,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    revoke_within(&mut transaction, badge, revocation).await?;
    record(&mut transaction, &organization.tenant, decision).await?;
    transaction.commit().await
}
