use std::collections::HashMap;

use crate::ports::Position;
use crate::ports::agents::{AgentNumber, AgentRecord, KnownAgent};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::agent::Status;
use crate::store::{fetch_record, fetch_records, map_unique_violation, page_start};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Sql, Transaction, query};
use touchstone_kit::ids::KeyId;

/// Whether the agent has any events or assessments.
macro_rules! observed {
    () => {
        "(EXISTS (SELECT 1 FROM rating_event e
                WHERE e.organization = rating_agent.organization AND e.agent = rating_agent.number)
            OR EXISTS (SELECT 1 FROM rating_assessment s WHERE s.agent = rating_agent.number))"
    };
}
macro_rules! select {
    ($($rest:tt)+) => {
        concat!(
            "SELECT number, id, name, archived, suspended, ",
            observed!(),
            ", profile, created_at, updated_at, revision FROM rating_agent ",
            $($rest)+
        )
    };
}
const ADD: &str = "INSERT INTO rating_agent
        (organization, id, name, archived, suspended, profile, created_at, updated_at, revision)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING number";
const ONE: &str = select!("WHERE organization = $1 AND id = $2");
const LISTED: &str = select!(
    "WHERE organization = $1 AND (created_at, id) > ($2, $3)
        AND CASE CAST($4 AS TEXT)
            WHEN 'archived' THEN archived
            WHEN 'suspended' THEN NOT archived AND suspended
            WHEN 'active' THEN NOT archived AND NOT suspended
            WHEN 'enrolled' THEN NOT archived AND NOT suspended AND NOT ",
    observed!(),
    " ELSE TRUE END
    ORDER BY created_at, id LIMIT $5"
);
const CHANGE: &str = "UPDATE rating_agent
    SET name = $4, archived = $5, suspended = $6, profile = $7, updated_at = $8, revision = revision + 1
    WHERE organization = $1 AND number = $2 AND revision = $3";

/// Also searches the agents themselves: hosts of the previous version, which may run at the same
/// time, do not record principals.
const IS_AGENT: &str = "SELECT
    (SELECT COUNT(*) FROM rating_agent_principal WHERE organization = $1
        AND ((kind = 'name' AND principal = $2) OR (kind = 'key' AND principal = $3)))
    + (SELECT COUNT(*) FROM rating_agent WHERE organization = $1 AND (id = $4 OR name = $4))";
const NAMED: &str = "INSERT INTO rating_agent_principal (organization, principal, agent, kind)
    VALUES ($1, $2, $3, 'name') ON CONFLICT DO NOTHING";
const ASSIGNED: &str = "INSERT INTO rating_agent_principal (organization, principal, agent, kind)
    VALUES ($1, $2, $3, 'key') ON CONFLICT DO NOTHING";
const UNASSIGN: &str = "DELETE FROM rating_agent_principal
    WHERE organization = $1 AND agent = $2 AND kind = 'key'";

const NAME: &str = "an agent with this name";

macro_rules! representing {
    ($openwop_agent:literal) => {
        select!(
            "WHERE organization = $1 AND NOT archived AND (",
            $openwop_agent,
            " = $2 OR ",
            $openwop_agent,
            " LIKE $2 || '@%')",
        )
    };
}

const REPRESENTING: Sql = Sql {
    sqlite: representing!("profile ->> '$.openwop_agent'"),
    postgres: representing!("profile::jsonb ->> 'openwop_agent'"),
};
const KNOWN_AGENTS: &str = "SELECT id, number, archived OR suspended FROM rating_agent
    WHERE organization = $1 AND id IN ({each $2})";

type Row = (i64, String, String, bool, bool, bool, String, i64, i64, i64);

fn at(name: &'static str) -> Column {
    column("rating_agent", name)
}

fn record_of(row: Row) -> Result<AgentRecord, StoreError> {
    let (number, id, name, archived, suspended, observed, ..) = row;
    let (.., profile, created_at, updated_at, revision) = row;
    Ok(AgentRecord {
        number: AgentNumber(number),
        id,
        name,
        archived,
        suspended,
        observed,
        profile: at("profile").document(&profile)?,
        created_at: at("created_at").time(created_at)?,
        updated_at: at("updated_at").time(updated_at)?,
        revision,
    })
}

/// Replaces the keys that identify an agent, and adds its names to the known ones.
async fn replace_principals(
    transaction: &mut Transaction,
    organization: OrganizationNumber,
    number: i64,
    agent: &AgentRecord,
) -> Result<(), StoreError> {
    query(UNASSIGN)
        .bind(organization.0)
        .bind(number)
        .execute(&mut *transaction)
        .await?;
    let named = agent.principals().into_iter().map(|it| (NAMED, it));
    let assigned = agent.profile.keys.iter().map(|it| (ASSIGNED, it.clone()));
    let all: Vec<(&'static str, String)> = named.chain(assigned).collect();
    for (add, principal) in all {
        query(add)
            .bind(organization.0)
            .bind(principal)
            .bind(number)
            .execute(&mut *transaction)
            .await?;
    }
    Ok(())
}

/// Adds an agent; [`StoreError::Exists`] if the organization has an agent of this name that is
/// not archived.
pub async fn add_agent(
    database: &Database,
    organization: OrganizationNumber,
    agent: &AgentRecord,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let number: i64 = query(ADD)
        .bind(organization.0)
        .bind(&agent.id)
        .bind(&agent.name)
        .bind(agent.archived)
        .bind(agent.suspended)
        .bind(at("profile").text(&agent.profile)?)
        .bind(agent.created_at.as_microsecond())
        .bind(agent.updated_at.as_microsecond())
        .bind(agent.revision)
        .fetch_one(&mut transaction)
        .await
        .map_err(|cause| map_unique_violation(cause, NAME))?;
    replace_principals(&mut transaction, organization, number, agent).await?;
    transaction.commit().await
}

pub async fn agent(
    database: &Database,
    organization: OrganizationNumber,
    id: &str,
) -> Result<Option<AgentRecord>, StoreError> {
    let found = query(ONE).bind(organization.0).bind(id);
    fetch_record(database, found, record_of).await
}

/// Agents after a position, in order of enrollment. `Status::Active` includes agents without any
/// evidence.
pub async fn agents(
    database: &Database,
    organization: OrganizationNumber,
    status: Option<Status>,
    after: Option<&Position>,
    limit: u32,
) -> Result<Vec<AgentRecord>, StoreError> {
    let (created_at, id) = page_start(after);
    let listed = query(LISTED)
        .bind(organization.0)
        .bind(created_at)
        .bind(id)
        .bind(status.map(Status::as_str))
        .bind(i64::from(limit));
    fetch_records(database, listed, record_of).await
}

/// The existing agents among these ids, by id.
pub async fn known_agents(
    database: &Database,
    organization: OrganizationNumber,
    ids: &[&str],
) -> Result<HashMap<String, KnownAgent>, StoreError> {
    let rows: Vec<(String, i64, bool)> = query(KNOWN_AGENTS)
        .bind(organization.0)
        .bind(at("id").text(&ids)?)
        .fetch_all(database.readers())
        .await?;
    let known_agent = |number, closed| KnownAgent {
        number: AgentNumber(number),
        closed,
    };
    Ok(rows
        .into_iter()
        .map(|(id, number, closed)| (id, known_agent(number, closed)))
        .collect())
}

/// Whether this key or principal belongs to an agent, archived ones included: the key is
/// assigned to the agent, or the principal equals its id, name, a former name or its OpenWOP
/// agent, ignoring case.
pub async fn is_agent(
    database: &Database,
    organization: OrganizationNumber,
    principal: &str,
    key: &KeyId,
) -> Result<bool, StoreError> {
    let found: i64 = query(IS_AGENT)
        .bind(organization.0)
        .bind(principal.to_ascii_lowercase())
        .bind(key.as_str())
        .bind(principal)
        .fetch_one(database.readers())
        .await?;
    Ok(found > 0)
}

/// Agents that are not archived and may represent the OpenWOP agent of this id. The match is
/// approximate; the caller compares further.
pub async fn agents_representing(
    database: &Database,
    organization: OrganizationNumber,
    openwop_agent: &str,
) -> Result<Vec<AgentRecord>, StoreError> {
    let listed = query(REPRESENTING).bind(organization.0).bind(openwop_agent);
    fetch_records(database, listed, record_of).await
}

/// Updates an agent. `revision` is that of the record that was read: [`StoreError::Stale`] if
/// the agent has changed since, [`StoreError::Exists`] if another agent has the new name.
pub async fn change_agent(
    database: &Database,
    organization: OrganizationNumber,
    agent: &AgentRecord,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let changed = query(CHANGE)
        .bind(organization.0)
        .bind(agent.number.0)
        .bind(agent.revision)
        .bind(&agent.name)
        .bind(agent.archived)
        .bind(agent.suspended)
        .bind(at("profile").text(&agent.profile)?)
        .bind(agent.updated_at.as_microsecond())
        .execute(&mut transaction)
        .await
        .map_err(|cause| map_unique_violation(cause, NAME))?;
    if changed == 0 {
        return Err(StoreError::Stale);
    }
    replace_principals(&mut transaction, organization, agent.number.0, agent).await?;
    transaction.commit().await
}
