use serde::{Deserialize, Serialize};

use crate::ports::Position;
use crate::ports::agents::AgentNumber;
use crate::ports::appeals::{AppealEffect, AppealRecord, AppealState};
use crate::ports::assessments::AssessmentOutcome;
use crate::ports::organizations::OrganizationNumber;
use crate::rules::appeal::filing::Filing;
use crate::store::badges::{add_badge, revoke_within};
use crate::store::notices::record_notice::record_notice;
use crate::store::{fetch_page, fetch_record, fetch_records, map_unique_violation};
use touchstone_host::audit::Decision;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::audit::record;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::{Transaction, query};
use touchstone_kit::ids::TenantId;

const ADD: &str = "INSERT INTO rating_appeal
        (organization, agent, assessment, id, state, filing, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING number";
const CHALLENGE: &str =
    "INSERT INTO rating_appealed_dimension (assessment, dimension, appeal) VALUES ($1, $2, $3)";
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT organization, agent, assessment, id, state, filing, resolution, created_at, resolved_at
            FROM rating_appeal ",
            $rest
        )
    };
}
const ONE: &str = select!("WHERE organization = $1 AND assessment = $2 AND id = $3");
const LISTED: &str = select!(
    "WHERE organization = $1 AND assessment = $2 AND (created_at, id) > ($3, $4)
    ORDER BY created_at, id LIMIT $5"
);
const ACCEPTED: &str = select!(
    "WHERE organization = $1 AND assessment = $2 AND accepted IS NOT NULL ORDER BY accepted"
);
const OPEN: &str = "SELECT COUNT(*) FROM rating_appealed_dimension WHERE assessment = $1";
const HANDLE: &str = "UPDATE rating_appeal
    SET state = $2, resolution = $3, resolved_at = $4, accepted = $5
    WHERE id = $1 AND state IN ('filed', 'under_review')";
const SETTLE: &str = "DELETE FROM rating_appealed_dimension
    WHERE appeal = (SELECT number FROM rating_appeal WHERE id = $1)";
const AMEND: &str = "UPDATE rating_assessment SET finding = $4
    WHERE organization = $1 AND id = $2 AND stage = 'completed' AND reviewed = $3";

type Row = (
    i64,
    i64,
    String,
    String,
    String,
    String,
    Option<String>,
    i64,
    Option<i64>,
);

/// A filing and the principal that filed it.
#[derive(Serialize, Deserialize)]
struct Filed<F> {
    by: String,
    filing: F,
}

fn at(name: &'static str) -> Column {
    column("rating_appeal", name)
}

fn record_of(row: Row) -> Result<AppealRecord, StoreError> {
    let (organization, agent, assessment, id, state, filing, ..) = row;
    let (.., resolution, created_at, resolved_at) = row;
    let filed: Filed<Filing> = at("filing").document(&filing)?;
    let handling = resolution.map(|it| at("resolution").document(&it));
    let resolved_at = resolved_at.map(|micros| at("resolved_at").time(micros));
    Ok(AppealRecord {
        id,
        organization: OrganizationNumber(organization),
        agent: AgentNumber(agent),
        assessment,
        state: AppealState::parse(&state).ok_or_else(|| at("state").inconsistent())?,
        filing: filed.filing,
        filed_by: filed.by,
        handling: handling.transpose()?,
        created_at: at("created_at").time(created_at)?,
        resolved_at: resolved_at.transpose()?,
    })
}

/// Whether a person has reviewed an assessment. A review and a change by an appeal exclude each
/// other.
fn is_reviewed(outcome: Option<&AssessmentOutcome>) -> bool {
    matches!(
        outcome,
        Some(AssessmentOutcome::Scored {
            review: Some(_),
            ..
        })
    )
}

/// Applies an accepted appeal within a transaction.
async fn amend(transaction: &mut Transaction, amended: AppealEffect<'_>) -> Result<(), StoreError> {
    let of = amended.assessment;
    let kept = query(AMEND)
        .bind(of.organization.0)
        .bind(&of.id)
        .bind(is_reviewed(of.outcome.as_ref()))
        .bind(column("rating_assessment", "finding").text(amended.outcome)?)
        .execute(&mut *transaction)
        .await?;
    if kept == 0 {
        return Err(StoreError::Stale);
    }
    if let Some((badge, revocation)) = amended.revoked {
        revoke_within(transaction, badge, revocation).await?;
    }
    if let Some(badge) = amended.issued {
        add_badge(transaction, badge).await?;
    }
    Ok(())
}

/// Files an appeal and writes the audit entry; [`StoreError::Exists`] if one of its dimensions
/// has an open appeal.
pub async fn file_appeal(
    database: &Database,
    appeal: &AppealRecord,
    tenant: &TenantId,
    decision: &Decision,
) -> Result<(), StoreError> {
    let filed = Filed {
        by: appeal.filed_by.clone(),
        filing: &appeal.filing,
    };
    let mut transaction = database.begin_write().await?;
    let number: i64 = query(ADD)
        .bind(appeal.organization.0)
        .bind(appeal.agent.0)
        .bind(&appeal.assessment)
        .bind(&appeal.id)
        .bind(appeal.state.as_str())
        .bind(at("filing").text(&filed)?)
        .bind(appeal.created_at.as_microsecond())
        .fetch_one(&mut transaction)
        .await?;
    for dimension in &appeal.filing.dimensions {
        query(CHALLENGE)
            .bind(&appeal.assessment)
            .bind(dimension.as_str())
            .bind(number)
            .execute(&mut transaction)
            .await
            .map_err(|cause| {
                map_unique_violation(cause, "an open appeal against this dimension")
            })?;
    }
    record_notice(&mut transaction, appeal.organization, &appeal.notice()).await?;
    record(&mut transaction, tenant, decision).await?;
    transaction.commit().await
}

pub async fn appeal(
    database: &Database,
    organization: OrganizationNumber,
    assessment: &str,
    id: &str,
) -> Result<Option<AppealRecord>, StoreError> {
    let found = query(ONE).bind(organization.0).bind(assessment).bind(id);
    fetch_record(database, found, record_of).await
}

/// Appeals of an assessment after a position, in the order of filing.
pub async fn appeals(
    database: &Database,
    organization: OrganizationNumber,
    assessment: &str,
    after: Option<&Position>,
    limit: u32,
) -> Result<Vec<AppealRecord>, StoreError> {
    let listed = query(LISTED).bind(organization.0).bind(assessment);
    fetch_page(database, listed, after, limit, record_of).await
}

/// The accepted appeals of an assessment, in the order of acceptance.
pub async fn accepted_appeals(
    database: &Database,
    organization: OrganizationNumber,
    assessment: &str,
) -> Result<Vec<AppealRecord>, StoreError> {
    let listed = query(ACCEPTED).bind(organization.0).bind(assessment);
    fetch_records(database, listed, record_of).await
}

pub async fn is_appealed(database: &Database, assessment: &str) -> Result<bool, StoreError> {
    let open: i64 = query(OPEN)
        .bind(assessment)
        .fetch_one(database.readers())
        .await?;
    Ok(open > 0)
}

/// Stores the new state of an open appeal with everything it changes, and writes the audit
/// entry. [`StoreError::Stale`] if the appeal is already decided or the records it changes are
/// not as they were read, [`StoreError::Exists`] if the badge's status bit is already taken.
pub async fn handle_appeal(
    database: &Database,
    appeal: &AppealRecord,
    amended: Option<AppealEffect<'_>>,
    tenant: &TenantId,
    decision: &Decision,
) -> Result<(), StoreError> {
    let handling = appeal.handling.as_ref();
    let handling = handling.map(|it| at("resolution").text(it)).transpose()?;
    let mut transaction = database.begin_write().await?;
    let handled = query(HANDLE)
        .bind(&appeal.id)
        .bind(appeal.state.as_str())
        .bind(handling)
        .bind(appeal.resolved_at.map(|it| it.as_microsecond()))
        .bind(amended.map(|it| i64::from(it.place)))
        .execute(&mut transaction)
        .await
        .map_err(
            |cause| match map_unique_violation(cause, "an appeal at this position") {
                // Another appeal against the assessment was accepted in the meantime.
                StoreError::Exists(_) => StoreError::Stale,
                cause => cause,
            },
        )?;
    if handled == 0 {
        return Err(StoreError::Stale);
    }
    if !appeal.state.is_open() {
        query(SETTLE)
            .bind(&appeal.id)
            .execute(&mut transaction)
            .await?;
        record_notice(&mut transaction, appeal.organization, &appeal.notice()).await?;
    }
    if let Some(amended) = amended {
        amend(&mut transaction, amended).await?;
    }
    record(&mut transaction, tenant, decision).await?;
    transaction.commit().await
}
