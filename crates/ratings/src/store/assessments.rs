//! Assessments and their work queue.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::ports::Position;
use crate::ports::agents::AgentNumber;
use crate::ports::assessments::{
    AssessmentClaim, AssessmentFilter, AssessmentOutcome, AssessmentRecord, Stage,
};
use crate::ports::badges::{BadgeRecord, BadgeState, BadgeSummary};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::Kind;
use crate::store::badges::{add_badge, decide_badge};
use crate::store::notices::record_notice::record_notice;
use crate::store::organizations::active;
use crate::store::{fetch_record, fetch_records, map_unique_violation, page_start};
use touchstone_host::audit::Decision;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::{Column, column, micros};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::TenantId;

/// An assessment without an owner can be claimed at any time; `lease_until` only orders it among
/// those that wait.
const ADD_ASSESSMENT: &str = "INSERT INTO rating_assessment
        (organization, agent, id, stage, rated, asked, created_at, lease_until)
    VALUES ($1, $2, $3, $4, $5, $6, $7, COALESCE($8, {now}))";
/// A parked assessment keeps its owner, so that its wait ends with the owner's process at the
/// latest.
const PARK_ASSESSMENT: &str = "UPDATE rating_assessment
    SET parked = parked + 1, lease_until = COALESCE($4, {now}) + $3
    WHERE id = $1 AND claims = $2 AND stage = 'in_progress'";
/// The longest-waiting assessment is next. Those queued before the lease clock restarted come
/// first.
const CLAIM_ASSESSMENT: &str = concat!(
    "UPDATE rating_assessment SET stage = 'in_progress', claims = claims + 1, lease_owner = $1,
        started_at = COALESCE(started_at, $3), lease_until = COALESCE($4, {now}) + $2
    WHERE number = (SELECT number FROM rating_assessment
        WHERE stage IN ('pending', 'in_progress') AND (lease_owner IS NULL OR lease_until <= COALESCE($4, {now}))
            AND (CAST($5 AS TEXT) IS NULL OR id IN ({each $5})) AND ",
    active!("rating_assessment.organization"),
    " ORDER BY CASE WHEN lease_until <= COALESCE($4, {now}) THEN lease_until ELSE 0 END, number
        LIMIT 1 {skip locked})
    RETURNING organization, id, claims, parked"
);
const UNDER_WAY: &str = "SELECT id, agent FROM rating_assessment
    WHERE organization = $1 AND stage IN ('pending', 'in_progress') AND id IN ({each $2})";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT s.id, s.organization, s.agent, a.id, s.stage, s.asked, s.finding,
                s.created_at, s.started_at, s.ended_at, b.id, b.state
            FROM rating_assessment s JOIN rating_agent a ON a.number = s.agent
            LEFT JOIN rating_badge b ON b.assessment = s.id AND b.revision =
                (SELECT MAX(revision) FROM rating_badge WHERE assessment = s.id) ",
            $rest
        )
    };
}
const ONE: &str = select!("WHERE s.organization = $1 AND s.id = $2");
const LISTED: &str = select!(
    "WHERE s.organization = $1 AND (s.created_at, s.id) > ($2, $3)
        AND (CAST($4 AS BIGINT) IS NULL OR s.agent = $4)
        AND (CAST($5 AS TEXT) IS NULL OR s.stage = $5)
    ORDER BY s.created_at, s.id LIMIT $6"
);
const LAST_RATING: &str = select!(
    "WHERE s.agent = $1 AND s.stage = 'completed' AND s.rated AND s.created_at < $2
    ORDER BY s.created_at DESC, s.id DESC LIMIT 1"
);
const END: &str = "UPDATE rating_assessment SET stage = $3, finding = $4, ended_at = $5
    WHERE id = $1 AND claims = $2 AND stage = 'in_progress' RETURNING organization";
const REVIEW: &str = "UPDATE rating_assessment SET finding = $3, reviewed = TRUE
    WHERE organization = $1 AND id = $2 AND stage = 'completed' AND NOT reviewed";

type Row = (
    String,
    i64,
    i64,
    String,
    String,
    String,
    Option<String>,
    i64,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
);

fn at(name: &'static str) -> Column {
    column("rating_assessment", name)
}

fn record_of(row: Row) -> Result<AssessmentRecord, StoreError> {
    let (id, organization, agent_number, agent, stage, ..) = row;
    let (.., request, outcome, created_at, started_at, ended_at, badge, state_of_badge) = row;
    let time = |name| move |micros| at(name).time(micros);
    let outcome = outcome.map(|outcome| at("finding").document(&outcome));
    let badge = badge.zip(state_of_badge).map(|(id, state)| {
        let state = BadgeState::parse(&state);
        let state = state.ok_or_else(|| column("rating_badge", "state").inconsistent())?;
        Ok(BadgeSummary { id, state })
    });
    Ok(AssessmentRecord {
        id,
        organization: OrganizationNumber(organization),
        agent_number: AgentNumber(agent_number),
        agent,
        stage: Stage::parse(&stage).ok_or_else(|| at("stage").inconsistent())?,
        request: at("asked").document(&request)?,
        outcome: outcome.transpose()?,
        badge: badge.transpose()?,
        created_at: at("created_at").time(created_at)?,
        started_at: started_at.map(time("started_at")).transpose()?,
        ended_at: ended_at.map(time("ended_at")).transpose()?,
    })
}

async fn take_assessment(
    database: &Database,
    owner: &str,
    only: Option<&[String]>,
    ttl: Duration,
    now: Timestamp,
) -> Result<Option<AssessmentClaim>, StoreError> {
    let only = only.map(|ids| at("id").text(&ids)).transpose()?;
    let mut transaction = database.begin_write().await?;
    let claimed: Option<(i64, String, i64, i64)> = query(CLAIM_ASSESSMENT)
        .bind(database.holder(owner))
        .bind(micros(ttl))
        .bind(now.as_microsecond())
        .bind(database.lease_clock())
        .bind(only)
        .fetch_optional(&mut transaction)
        .await?;
    let Some((organization, id, claims, parked)) = claimed else {
        return Ok(None);
    };
    let row = query(ONE)
        .bind(organization)
        .bind(&id)
        .fetch_one(&mut transaction)
        .await?;
    let record = record_of(row)?;
    // A notice has a stable id, so work that is restarted after a lost lease is not announced
    // twice.
    record_notice(&mut transaction, record.organization, &record.started(now)).await?;
    transaction.commit().await?;
    Ok(Some(AssessmentClaim {
        record,
        fence: Fence(claims),
        attempts: claims - parked,
    }))
}

/// Adds an assessment; [`StoreError::Exists`] if another one of the agent is pending or in
/// progress.
pub async fn add_assessment(
    database: &Database,
    assessment: &AssessmentRecord,
) -> Result<(), StoreError> {
    let request = &assessment.request;
    let rated = !matches!(request.assessment.kind, Kind::SingleDimension(_));
    query(ADD_ASSESSMENT)
        .bind(assessment.organization.0)
        .bind(assessment.agent_number.0)
        .bind(&assessment.id)
        .bind(assessment.stage.as_str())
        .bind(rated)
        .bind(at("asked").text(request)?)
        .bind(assessment.created_at.as_microsecond())
        .bind(database.lease_clock())
        .execute(database.writer()?)
        .await
        .map_err(|cause| map_unique_violation(cause, "an unfinished assessment of this agent"))?;
    Ok(())
}

pub async fn assessment(
    database: &Database,
    organization: OrganizationNumber,
    id: &str,
) -> Result<Option<AssessmentRecord>, StoreError> {
    let found = query(ONE).bind(organization.0).bind(id);
    fetch_record(database, found, record_of).await
}

/// The agents of those assessments among these ids that have not ended, by assessment id.
pub async fn assessments_under_way(
    database: &Database,
    organization: OrganizationNumber,
    ids: &[&str],
) -> Result<HashMap<String, AgentNumber>, StoreError> {
    let rows: Vec<(String, i64)> = query(UNDER_WAY)
        .bind(organization.0)
        .bind(at("id").text(&ids)?)
        .fetch_all(database.readers())
        .await?;
    let of = |(id, agent)| (id, AgentNumber(agent));
    Ok(rows.into_iter().map(of).collect())
}

/// Assessments after a position, in the order of creation.
pub async fn assessments(
    database: &Database,
    organization: OrganizationNumber,
    filter: AssessmentFilter,
    after: Option<&Position>,
    limit: u32,
) -> Result<Vec<AssessmentRecord>, StoreError> {
    let (created_at, id) = page_start(after);
    let listed = query(LISTED)
        .bind(organization.0)
        .bind(created_at)
        .bind(id)
        .bind(filter.agent.map(|agent| agent.0))
        .bind(filter.stage.map(Stage::as_str))
        .bind(i64::from(limit));
    fetch_records(database, listed, record_of).await
}

/// The newest assessment of an agent with both axes that was requested before `before`.
pub async fn last_rating(
    database: &Database,
    agent: AgentNumber,
    before: Timestamp,
) -> Result<Option<AssessmentRecord>, StoreError> {
    let found = query(LAST_RATING)
        .bind(agent.0)
        .bind(before.as_microsecond());
    fetch_record(database, found, record_of).await
}

/// Claims the oldest assessment that is unclaimed or whose lease has expired by the store's
/// clock. With `only`, limited to these ids.
pub async fn claim_assessment(
    database: &Database,
    owner: &str,
    only: Option<&[String]>,
    ttl: Duration,
    now: Timestamp,
) -> Result<Option<AssessmentClaim>, StoreError> {
    let taken = take_assessment(database, owner, only, ttl, now).await?;
    if taken.is_some() || !database.release_dead().await? {
        return Ok(taken);
    }
    take_assessment(database, owner, only, ttl, now).await
}

/// Releases an assessment that has to wait, for any replica to claim after a delay;
/// [`StoreError::Fenced`] as for [`end_assessment`].
pub async fn park_assessment(
    database: &Database,
    id: &str,
    fence: Fence,
    wait: Duration,
) -> Result<(), StoreError> {
    let parked = query(PARK_ASSESSMENT)
        .bind(id)
        .bind(fence.0)
        .bind(micros(wait))
        .bind(database.lease_clock())
        .execute(database.writer()?)
        .await?;
    match parked {
        0 => Err(StoreError::Fenced),
        _ => Ok(()),
    }
}

/// Ends an assessment and stores its badge. [`StoreError::Fenced`] if it was claimed again or
/// has ended, [`StoreError::Exists`] if the badge's status bit is already taken.
pub async fn end_assessment(
    database: &Database,
    id: &str,
    fence: Fence,
    outcome: &AssessmentOutcome,
    badge: Option<&BadgeRecord>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let stage = match outcome {
        AssessmentOutcome::Scored { .. } => Stage::Completed,
        AssessmentOutcome::Failed { .. } => Stage::Failed,
    };
    let mut transaction = database.begin_write().await?;
    let organization: Option<i64> = query(END)
        .bind(id)
        .bind(fence.0)
        .bind(stage.as_str())
        .bind(at("finding").text(outcome)?)
        .bind(now.as_microsecond())
        .fetch_optional(&mut transaction)
        .await?;
    let organization = organization.ok_or(StoreError::Fenced)?;
    if let Some(badge) = badge {
        add_badge(&mut transaction, badge).await?;
    }
    let row = query(ONE)
        .bind(organization)
        .bind(id)
        .fetch_one(&mut transaction)
        .await?;
    let record = record_of(row)?;
    record_notice(
        &mut transaction,
        record.organization,
        &record.ended(outcome, now),
    )
    .await?;
    transaction.commit().await
}

/// Stores a review: the finding with the decision, the withheld badge with its new state, and
/// an audit entry for the organization's tenant. [`StoreError::Stale`] if the assessment has
/// changed since it was read, [`StoreError::Exists`] if the badge's status bit is already
/// taken.
pub async fn review_assessment(
    database: &Database,
    assessment: &AssessmentRecord,
    reviewed: &AssessmentOutcome,
    badge: Option<&BadgeRecord>,
    tenant: &TenantId,
    decision: &Decision,
) -> Result<(), StoreError> {
    let mut transaction = database.begin_write().await?;
    let kept = query(REVIEW)
        .bind(assessment.organization.0)
        .bind(&assessment.id)
        .bind(at("finding").text(reviewed)?)
        .execute(&mut transaction)
        .await?;
    if kept == 0 {
        return Err(StoreError::Stale);
    }
    if let Some(badge) = badge {
        decide_badge(&mut transaction, badge).await?;
    }
    record(&mut transaction, tenant, decision).await?;
    transaction.commit().await
}
