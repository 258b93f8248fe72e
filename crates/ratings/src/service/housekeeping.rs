//! Periodic jobs (AAAF S7, S12, S15): sending reassessment notices and deleting expired data. One
//! replica at a time runs a job, under a lease; running a job twice is harmless.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::ports::agents::AgentNumber;
use crate::ports::assessments::AssessmentRecord;
use crate::ports::upkeep::{AgentToCheck, ExpiringBadge};
use crate::rules::Config;
use crate::rules::assessment::reassessment::{ReassessmentState, due, is_old};
use crate::rules::badge::validity::{NOTICE, Validity};
use crate::rules::evidence::RETENTION_DAYS;
use crate::rules::notice::{Notice, Topic};
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::jobs::{Replica, Shared, Turn};

/// Much longer than any batch takes.
const LEASE: Duration = Duration::from_secs(120);
/// Checks all agents.
const SEND_NOTICES: Shared = Shared {
    name: "look",
    every: SignedDuration::from_hours(1),
    lease: LEASE,
};
/// Deletes expired data.
const DELETE: Shared = Shared {
    name: "delete",
    every: SignedDuration::from_hours(24),
    lease: LEASE,
};
/// Number of agents and badges read at once.
const AGENTS: u32 = 200;
/// Badges that expired longer ago get no notice: no host is down for that long, and a user who
/// imports old badges knows about them.
const MAX_EXPIRED_AGE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Number of rows deleted at once, which bounds how long writers wait.
const MAX_ROWS: u32 = 1000;
/// Retention of the task results of a stress test (AAAF S15); scores are kept forever.
const STRESS_RESULTS: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Retention of deliveries, which can be sent again until then.
const DELIVERIES: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Runs the jobs of one replica.
pub struct Housekeeper {
    replica: Replica,
}

impl Housekeeper {
    pub fn new(replica: Replica) -> Self {
        Self { replica }
    }

    /// Sends the due notices, unless another replica does.
    ///
    /// # Errors
    /// The store failed; [`StoreError::Fenced`] if another replica has the job.
    pub async fn send_notices(&self, shutdown: &CancellationToken) -> Result<(), StoreError> {
        let Some(turn) = self.replica.begin(SEND_NOTICES).await? else {
            return Ok(());
        };
        let sent = self.notify_all(&turn, shutdown).await?;
        info!(
            job = SEND_NOTICES.name,
            done = sent,
            "a housekeeping job has finished"
        );
        turn.end(shutdown).await
    }

    /// Deletes expired data, unless another replica does.
    ///
    /// # Errors
    /// As [`send_notices`](Self::send_notices).
    pub async fn delete(&self, shutdown: &CancellationToken) -> Result<(), StoreError> {
        let Some(turn) = self.replica.begin(DELETE).await? else {
            return Ok(());
        };
        let deleted = self.delete_expired(&turn, shutdown).await?;
        info!(
            job = DELETE.name,
            done = deleted,
            "a housekeeping job has finished"
        );
        turn.end(shutdown).await
    }

    /// Sends notices about agents to reassess and returns how many.
    async fn notify_all(
        &self,
        turn: &Turn<'_>,
        shutdown: &CancellationToken,
    ) -> Result<u64, StoreError> {
        let (now, mut sent) = (turn.now, 0);
        let mut after = AgentNumber(i64::MIN);
        loop {
            let agents = store::upkeep::every_agent(&self.replica.store, after, AGENTS).await?;
            let Some(last) = agents.last() else { break };
            after = last.agent;
            for agent in agents.iter().filter(|agent| !agent.retired) {
                sent += u64::from(self.check_agent(agent, now).await?);
            }
            turn.hold().await?;
            if shutdown.is_cancelled() {
                break;
            }
        }
        sent += self.check_badges(turn, shutdown).await?;
        if sent > 0 {
            self.replica.store.notify_work().await;
        }
        Ok(sent)
    }

    /// Sends notices about badges that expire soon or have expired.
    async fn check_badges(
        &self,
        turn: &Turn<'_>,
        shutdown: &CancellationToken,
    ) -> Result<u64, StoreError> {
        let now = turn.now;
        let until = now.checked_add(NOTICE).unwrap_or(Timestamp::MAX);
        let (mut sent, mut after) = (0, (before(now, MAX_EXPIRED_AGE), i64::MIN));
        while !shutdown.is_cancelled() {
            let badges =
                store::upkeep::ending_badges(&self.replica.store, after, until, AGENTS).await?;
            let Some(last) = badges.last() else { break };
            after = (last.valid_until, last.number);
            for badge in &badges {
                let state = ReassessmentState {
                    completed_since: 0,
                    validity: Some(Validity {
                        valid_until: badge.valid_until,
                    }),
                };
                for topic in due(&state, u64::MAX, now, &[]) {
                    let notice = expiry_notice(badge, topic, now);
                    let is_new = store::upkeep::record_notice(
                        &self.replica.store,
                        badge.organization,
                        &notice,
                    )
                    .await?;
                    sent += u64::from(is_new);
                }
            }
            turn.hold().await?;
        }
        Ok(sent)
    }

    async fn check_agent(&self, agent: &AgentToCheck, now: Timestamp) -> Result<bool, StoreError> {
        let Some(last) =
            store::assessments::last_rating(&self.replica.store, agent.agent, now).await?
        else {
            return Ok(false);
        };
        let Ok(config) = Config::read(&last.request.config) else {
            // Another version of the host may have stored settings that this version rejects; that
            // is no reason to stop all notices.
            warn!(
                assessment_id = last.id,
                "could not read the organization's configuration; no reassessment notices are sent"
            );
            return Ok(false);
        };
        let threshold = config.rules.reassessment_task_threshold;
        let most = u32::try_from(threshold).unwrap_or(u32::MAX);
        let (organization, since) = (agent.organization, last.created_at);
        let completed = store::upkeep::completed_since(
            &self.replica.store,
            organization,
            agent.agent,
            since,
            most,
        )
        .await?;
        let state = ReassessmentState {
            completed_since: u64::from(completed),
            validity: None,
        };
        let enough = !due(&state, threshold, now, &[]).is_empty();
        if !enough && !is_old(since, now) {
            return Ok(false);
        }
        let reason = if enough { "completed_tasks" } else { "age" };
        let notice = reassessment_notice(&last, reason, completed, now);
        store::upkeep::record_notice(&self.replica.store, organization, &notice).await
    }

    /// Deletes expired data and returns how many rows.
    async fn delete_expired(
        &self,
        turn: &Turn<'_>,
        shutdown: &CancellationToken,
    ) -> Result<u64, StoreError> {
        let (now, mut deleted) = (turn.now, 0);
        let cutoff = before(now, DELIVERIES);
        while !shutdown.is_cancelled() {
            let count =
                store::notices::forget_deliveries(&self.replica.store, cutoff, MAX_ROWS).await?;
            deleted += count;
            if count == 0 {
                break;
            }
            turn.hold().await?;
        }
        let cutoff = before(now, STRESS_RESULTS);
        while !shutdown.is_cancelled() {
            let count =
                store::stress_tests::forget_stress_results(&self.replica.store, cutoff, MAX_ROWS)
                    .await?;
            deleted += count;
            if count == 0 {
                break;
            }
            turn.hold().await?;
        }
        let cutoff = before(now, SignedDuration::from_hours(24 * RETENTION_DAYS));
        let mut after = AgentNumber(i64::MIN);
        loop {
            let agents = store::upkeep::every_agent(&self.replica.store, after, AGENTS).await?;
            let Some(last) = agents.last() else { break };
            after = last.agent;
            for agent in &agents {
                deleted += self.delete_events_of(turn, agent, cutoff, shutdown).await?;
            }
            turn.hold().await?;
            if shutdown.is_cancelled() {
                break;
            }
        }
        Ok(deleted)
    }

    async fn delete_events_of(
        &self,
        turn: &Turn<'_>,
        agent: &AgentToCheck,
        before: Timestamp,
        shutdown: &CancellationToken,
    ) -> Result<u64, StoreError> {
        let mut deleted = 0;
        while !shutdown.is_cancelled() {
            let (organization, number) = (agent.organization, agent.agent);
            let count = store::upkeep::forget_evidence(
                &self.replica.store,
                organization,
                number,
                before,
                MAX_ROWS,
            )
            .await?;
            deleted += count;
            if count < u64::from(MAX_ROWS) {
                break;
            }
            turn.hold().await?;
        }
        Ok(deleted)
    }
}

fn before(now: Timestamp, span: SignedDuration) -> Timestamp {
    now.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// The notice that a badge expires or has expired, once for each assessment and for any revision of
/// its badge.
fn expiry_notice(badge: &ExpiringBadge, topic: Topic, now: Timestamp) -> Notice {
    let data = json!({
        "badge_id": badge.badge,
        "agent_id": badge.agent,
        "assessment_id": badge.assessment,
        "valid_until": badge.valid_until,
    });
    notice(topic, &badge.assessment, data, now)
}

/// The notice that an agent has enough new evidence or an old rating, once for each rating.
fn reassessment_notice(
    last: &AssessmentRecord,
    reason: &str,
    completed: u32,
    now: Timestamp,
) -> Notice {
    let data = json!({
        "agent_id": last.agent,
        "last_assessment_id": last.id,
        "last_assessed_at": last.created_at,
        "completed_tasks": completed,
        "reason": reason,
    });
    notice(Topic::EvidenceThresholdReached, &last.id, data, now)
}

fn notice(topic: Topic, subject: &str, data: Value, now: Timestamp) -> Notice {
    let data = match data {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    Notice {
        topic,
        subject: subject.to_owned(),
        data,
        at: now,
    }
}
