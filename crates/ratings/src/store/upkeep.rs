//! Periodic upkeep.

use jiff::Timestamp;

use crate::ports::agents::AgentNumber;
use crate::ports::organizations::OrganizationNumber;
use crate::ports::upkeep::{AgentToCheck, ExpiringBadge};
use crate::rules::notice::Notice;
use crate::store::fetch_records;
use crate::store::notices::record_notice::record_notice as record_notice_within;
use crate::store::organizations::active;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;

const AGENTS: &str = concat!(
    "SELECT organization, number, id, archived OR suspended OR NOT ",
    active!("rating_agent.organization"),
    " FROM rating_agent WHERE number > $1 ORDER BY number LIMIT $2"
);
/// Stress test tasks are not new evidence: an assessment created them.
const COMPLETED: &str = "SELECT COUNT(*) FROM (
        SELECT DISTINCT task FROM rating_event
        WHERE organization = $1 AND agent = $2 AND occurred_at >= $3 AND kind = 'task_completed'
            AND assessment IS NULL AND (recorder IS NULL OR recorder <> 'agent')
        LIMIT $4) AS completed";
const ENDING: &str = concat!(
    "SELECT b.number, b.organization, b.id, a.id, b.assessment, b.valid_until
    FROM rating_badge b JOIN rating_agent a ON a.number = b.agent
    WHERE b.state = 'issued' AND (b.valid_until, b.number) > ($1, $2) AND b.valid_until <= $3 AND ",
    active!("b.organization"),
    " ORDER BY b.valid_until, b.number LIMIT $4"
);
const LATEST_EXPIRY: &str =
    "SELECT MAX(valid_until) FROM rating_badge WHERE agent = $1 AND state = 'issued'";
const CLAIM_REASSESSMENT: &str = "UPDATE rating_agent SET reassessment_tried_at = $3
    WHERE number = $1 AND (reassessment_tried_at IS NULL OR reassessment_tried_at <= $2)";
/// Checked without a lock: most notices were sent before.
const NOTICE_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM rating_notice WHERE id = $1)";
const FORGET: &str = "DELETE FROM rating_event WHERE number IN (
        SELECT number FROM rating_event
        WHERE organization = $1 AND agent = $2 AND occurred_at < $3
            AND NOT EXISTS (SELECT 1 FROM rating_assessment s
                WHERE s.agent = $2 AND s.stage IN ('pending', 'in_progress'))
            AND NOT EXISTS (SELECT 1 FROM rating_appeal p
                WHERE p.agent = $2 AND p.state IN ('filed', 'under_review'))
        ORDER BY occurred_at, number LIMIT $4)";

type EndingRow = (i64, i64, String, String, String, i64);

fn ending_of(row: EndingRow) -> Result<ExpiringBadge, StoreError> {
    let (number, organization, badge, agent, assessment, valid_until) = row;
    Ok(ExpiringBadge {
        number,
        organization: OrganizationNumber(organization),
        badge,
        agent,
        assessment,
        valid_until: column("rating_badge", "valid_until").time(valid_until)?,
    })
}

/// Agents of every organization after `after`, in order of enrollment.
pub async fn every_agent(
    database: &Database,
    after: AgentNumber,
    limit: u32,
) -> Result<Vec<AgentToCheck>, StoreError> {
    let rows: Vec<(i64, i64, String, bool)> = query(AGENTS)
        .bind(after.0)
        .bind(i64::from(limit))
        .fetch_all(database.readers())
        .await?;
    let looked = rows
        .into_iter()
        .map(|(organization, agent, id, retired)| AgentToCheck {
            organization: OrganizationNumber(organization),
            agent: AgentNumber(agent),
            id,
            retired,
        });
    Ok(looked.collect())
}

/// Number of tasks that an agent has completed since a given time, counted up to `most`.
pub async fn completed_since(
    database: &Database,
    organization: OrganizationNumber,
    agent: AgentNumber,
    since: Timestamp,
    most: u32,
) -> Result<u32, StoreError> {
    let counted: i64 = query(COMPLETED)
        .bind(organization.0)
        .bind(agent.0)
        .bind(since.as_microsecond())
        .bind(i64::from(most))
        .fetch_one(database.readers())
        .await?;
    column("rating_event", "task").number(counted)
}

/// Valid badges of every active organization, by expiry: those after the position `after` that
/// expire until `until`.
pub async fn ending_badges(
    database: &Database,
    after: (Timestamp, i64),
    until: Timestamp,
    limit: u32,
) -> Result<Vec<ExpiringBadge>, StoreError> {
    let listed = query(ENDING)
        .bind(after.0.as_microsecond())
        .bind(after.1)
        .bind(until.as_microsecond())
        .bind(i64::from(limit));
    fetch_records(database, listed, ending_of).await
}

/// The latest expiry among an agent's issued badges, past or future; revoked badges do not count.
pub async fn latest_badge_expiry(
    database: &Database,
    agent: AgentNumber,
) -> Result<Option<Timestamp>, StoreError> {
    let latest: Option<i64> = query(LATEST_EXPIRY)
        .bind(agent.0)
        .fetch_one(database.readers())
        .await?;
    let time = |micros| column("rating_badge", "valid_until").time(micros);
    latest.map(time).transpose()
}

/// Records that the schedule tries to assess an agent. Returns `false` if there was a try after
/// `before`.
pub async fn claim_reassessment(
    database: &Database,
    agent: AgentNumber,
    before: Timestamp,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let claimed = query(CLAIM_REASSESSMENT)
        .bind(agent.0)
        .bind(before.as_microsecond())
        .bind(now.as_microsecond())
        .execute(database.writer()?)
        .await?;
    Ok(claimed > 0)
}

/// Sends a notice unless the organization already has it. Returns whether it is new.
pub async fn record_notice(
    database: &Database,
    organization: OrganizationNumber,
    notice: &Notice,
) -> Result<bool, StoreError> {
    let exists: bool = query(NOTICE_EXISTS)
        .bind(notice.id().to_string())
        .fetch_one(database.readers())
        .await?;
    if exists {
        return Ok(false);
    }
    let mut transaction = database.begin_write().await?;
    let news: bool = record_notice_within(&mut transaction, organization, notice).await?;
    transaction.commit().await?;
    Ok(news)
}

/// Deletes at most `limit` events about an agent that are older than `before`, and returns how
/// many were deleted. Nothing is deleted during an assessment of the agent or while an appeal
/// is open.
pub async fn forget_evidence(
    database: &Database,
    organization: OrganizationNumber,
    agent: AgentNumber,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let forgotten = query(FORGET)
        .bind(organization.0)
        .bind(agent.0)
        .bind(before.as_microsecond())
        .bind(i64::from(limit))
        .execute(database.writer()?)
        .await?;
    Ok(forgotten)
}
