//! What is done again and again.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::notices::tell::tell;
use super::organizations::active;
use crate::domain::aaaf::notice::Notice;
use crate::ports::StoreError;
use crate::ports::aaaf::{AgentNumber, Ending, Looked, OrganizationNumber, Upkeep};
use crate::store::convert::{backend, column, lease_now, micros};
use crate::store::{PostgresStore, SqliteStore};

const KNOW: &str = "INSERT INTO aaaf_job (name) VALUES ($1) ON CONFLICT (name) DO NOTHING";
/// Asked before anything is written: most of the time it is somebody else's turn, or nobody's.
const DONE: &str = "SELECT EXISTS (SELECT 1 FROM aaaf_job WHERE name = $1 AND done_at >= $2)";
const END: &str = "UPDATE aaaf_job SET done_at = $3, lease_owner = NULL, lease_until = 0
    WHERE name = $1 AND lease_owner = $2";
const AGENTS: &str = concat!(
    "SELECT organization, number, id, archived OR suspended OR NOT ",
    active!("aaaf_agent.organization"),
    " FROM aaaf_agent WHERE number > $1 ORDER BY number LIMIT $2"
);
/// Tasks of stress tests are not new evidence: an assessment made them.
const COMPLETED: &str = "SELECT COUNT(*) FROM (
        SELECT DISTINCT task FROM aaaf_event
        WHERE organization = $1 AND agent = $2 AND occurred_at >= $3 AND kind = 'task_completed'
            AND assessment IS NULL AND (recorder IS NULL OR recorder <> 'agent')
        LIMIT $4) AS completed";
const ENDING: &str = concat!(
    "SELECT b.number, b.organization, b.id, a.id, b.assessment, b.valid_until
    FROM aaaf_badge b JOIN aaaf_agent a ON a.number = b.agent
    WHERE b.state = 'issued' AND (b.valid_until, b.number) > ($1, $2) AND b.valid_until <= $3 AND ",
    active!("b.organization"),
    " ORDER BY b.valid_until, b.number LIMIT $4"
);
const CLAIM_REASSESSMENT: &str = "UPDATE aaaf_agent SET reassessment_tried_at = $3
    WHERE number = $1 AND (reassessment_tried_at IS NULL OR reassessment_tried_at <= $2)";
/// Most of what is looked at was told before: that takes no lock.
const TOLD: &str = "SELECT EXISTS (SELECT 1 FROM aaaf_notice WHERE id = $1)";
const FORGET: &str = "DELETE FROM aaaf_event WHERE number IN (
        SELECT number FROM aaaf_event
        WHERE organization = $1 AND agent = $2 AND occurred_at < $3
            AND NOT EXISTS (SELECT 1 FROM aaaf_assessment s
                WHERE s.agent = $2 AND s.stage IN ('pending', 'in_progress'))
            AND NOT EXISTS (SELECT 1 FROM aaaf_appeal p
                WHERE p.agent = $2 AND p.state IN ('filed', 'under_review'))
        ORDER BY occurred_at, number LIMIT $4)";

type EndingRow = (i64, i64, String, String, String, i64);

fn ending_of(row: EndingRow) -> Result<Ending, StoreError> {
    let (number, organization, badge, agent, assessment, valid_until) = row;
    Ok(Ending {
        number,
        organization: OrganizationNumber(organization),
        badge,
        agent,
        assessment,
        valid_until: column("aaaf_badge", "valid_until").time(valid_until)?,
    })
}

macro_rules! upkeep {
    ($store:ident) => {
        impl $store {
            const BEGIN_JOB: &str = concat!(
                "UPDATE aaaf_job SET lease_owner = $2, lease_until = ",
                lease_now!($store, "$5"),
                " + $4 WHERE name = $1 AND lease_until <= ",
                lease_now!($store, "$5"),
                " AND (done_at IS NULL OR done_at < $3)"
            );
            const HOLD_JOB: &str = concat!(
                "UPDATE aaaf_job SET lease_until = ",
                lease_now!($store, "$4"),
                " + $3 WHERE name = $1 AND lease_owner = $2"
            );

            async fn take_job(
                &self,
                name: &str,
                owner: &str,
                before: Timestamp,
                ttl: Duration,
            ) -> Result<bool, StoreError> {
                let begun = sqlx::query(Self::BEGIN_JOB)
                    .bind(name)
                    .bind(self.holder(owner))
                    .bind(before.as_microsecond())
                    .bind(micros(ttl))
                    .bind(self.lease_clock())
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                Ok(begun.rows_affected() > 0)
            }
        }

        #[async_trait]
        impl Upkeep for $store {
            async fn begin_job(
                &self,
                name: &str,
                owner: &str,
                before: Timestamp,
                ttl: Duration,
            ) -> Result<bool, StoreError> {
                let done: bool = sqlx::query_scalar(DONE)
                    .bind(name)
                    .bind(before.as_microsecond())
                    .fetch_one(self.readers())
                    .await
                    .map_err(backend)?;
                if done {
                    return Ok(false);
                }
                sqlx::query(KNOW)
                    .bind(name)
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                Ok(self.take_job(name, owner, before, ttl).await?
                    || (self.release_dead().await?
                        && self.take_job(name, owner, before, ttl).await?))
            }

            async fn hold_job(
                &self,
                name: &str,
                owner: &str,
                ttl: Duration,
            ) -> Result<(), StoreError> {
                let held = sqlx::query(Self::HOLD_JOB)
                    .bind(name)
                    .bind(self.holder(owner))
                    .bind(micros(ttl))
                    .bind(self.lease_clock())
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                match held.rows_affected() {
                    0 => Err(StoreError::Fenced),
                    _ => Ok(()),
                }
            }

            async fn end_job(
                &self,
                name: &str,
                owner: &str,
                now: Timestamp,
            ) -> Result<(), StoreError> {
                sqlx::query(END)
                    .bind(name)
                    .bind(self.holder(owner))
                    .bind(now.as_microsecond())
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                Ok(())
            }

            async fn every_agent(
                &self,
                after: AgentNumber,
                limit: u32,
            ) -> Result<Vec<Looked>, StoreError> {
                let rows: Vec<(i64, i64, String, bool)> = sqlx::query_as(AGENTS)
                    .bind(after.0)
                    .bind(i64::from(limit))
                    .fetch_all(self.readers())
                    .await
                    .map_err(backend)?;
                let looked = rows
                    .into_iter()
                    .map(|(organization, agent, id, retired)| Looked {
                        organization: OrganizationNumber(organization),
                        agent: AgentNumber(agent),
                        id,
                        retired,
                    });
                Ok(looked.collect())
            }

            async fn completed_since(
                &self,
                organization: OrganizationNumber,
                agent: AgentNumber,
                since: Timestamp,
                most: u32,
            ) -> Result<u32, StoreError> {
                let counted: i64 = sqlx::query_scalar(COMPLETED)
                    .bind(organization.0)
                    .bind(agent.0)
                    .bind(since.as_microsecond())
                    .bind(i64::from(most))
                    .fetch_one(self.readers())
                    .await
                    .map_err(backend)?;
                column("aaaf_event", "task").number(counted)
            }

            async fn ending_badges(
                &self,
                after: (Timestamp, i64),
                until: Timestamp,
                limit: u32,
            ) -> Result<Vec<Ending>, StoreError> {
                let rows: Vec<EndingRow> = sqlx::query_as(ENDING)
                    .bind(after.0.as_microsecond())
                    .bind(after.1)
                    .bind(until.as_microsecond())
                    .bind(i64::from(limit))
                    .fetch_all(self.readers())
                    .await
                    .map_err(backend)?;
                rows.into_iter().map(ending_of).collect()
            }

            async fn claim_reassessment(
                &self,
                agent: AgentNumber,
                before: Timestamp,
                now: Timestamp,
            ) -> Result<bool, StoreError> {
                let claimed = sqlx::query(CLAIM_REASSESSMENT)
                    .bind(agent.0)
                    .bind(before.as_microsecond())
                    .bind(now.as_microsecond())
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                Ok(claimed.rows_affected() > 0)
            }

            async fn tell(
                &self,
                organization: OrganizationNumber,
                notice: &Notice,
            ) -> Result<bool, StoreError> {
                let told: bool = sqlx::query_scalar(TOLD)
                    .bind(notice.id().to_string())
                    .fetch_one(self.readers())
                    .await
                    .map_err(backend)?;
                if told {
                    return Ok(false);
                }
                let mut transaction = self.begin_write().await?;
                let news: bool = tell!(transaction, organization, notice)?;
                transaction.commit().await.map_err(backend)?;
                Ok(news)
            }

            async fn forget_evidence(
                &self,
                organization: OrganizationNumber,
                agent: AgentNumber,
                before: Timestamp,
                limit: u32,
            ) -> Result<u64, StoreError> {
                let forgotten = sqlx::query(FORGET)
                    .bind(organization.0)
                    .bind(agent.0)
                    .bind(before.as_microsecond())
                    .bind(i64::from(limit))
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                Ok(forgotten.rows_affected())
            }
        }
    };
}

upkeep!(SqliteStore);
upkeep!(PostgresStore);
