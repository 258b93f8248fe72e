//! Orders assessments by schedule: at an interval after an agent's last rating, or before its badge
//! expires.
//!
//! One replica at a time runs the job, under a lease. An agent is claimed before its assessment is
//! ordered, so that a replica that lost its lease orders nothing twice. Orders go through
//! [`Ratings::order`], and the organization is notified of the result.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::ports::agents::AgentNumber;
use crate::ports::assessments::AssessmentRecord;
use crate::ports::badges::BadgeState;
use crate::ports::organizations::{OrganizationNumber, OrganizationRecord};
use crate::ports::upkeep::AgentToCheck;
use crate::rules::assessment::order::Order;
use crate::rules::assessment::reassessment::{
    LastBadge, LastRating, RETRY_AFTER, Reason, scheduled,
};
use crate::rules::config::Rules;
use crate::rules::notice::{Notice, Topic};
use crate::service::assessments::valid_until;
use crate::service::{Member, Ratings, config};
use crate::store;
use touchstone_host::access::Grants;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::jobs::{Replica, Shared, Turn};
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::KeyId;

/// The principal of scheduled orders.
const PRINCIPAL: &str = "schedule";
/// Checks all agents. The lease is longer than an order, which may collect hundreds of eval runs.
const JOB: Shared = Shared {
    name: "schedule",
    every: SignedDuration::from_hours(1),
    lease: Duration::from_secs(300),
};
/// Number of agents read at once.
const AGENTS: u32 = 200;

/// The worker that runs the schedule for one replica.
pub struct Scheduler {
    ratings: Arc<Ratings>,
    replica: Replica,
}

struct Scheduled {
    organization: Arc<OrganizationRecord>,
    rules: Rules,
}

impl Scheduler {
    /// Creates a worker; `owner` must be unique among all replicas and starts.
    pub fn new(ratings: Arc<Ratings>, owner: String) -> Self {
        let replica = Replica {
            store: ratings.store.clone(),
            clock: ratings.clock.clone(),
            owner,
        };
        Self { ratings, replica }
    }

    /// Orders due assessments, if the job is due and no other replica runs it.
    ///
    /// # Errors
    /// The store failed; [`StoreError::Fenced`] if another replica has the job.
    pub async fn run(&self, shutdown: &CancellationToken) -> Result<(), StoreError> {
        let Some(turn) = self.replica.begin(JOB).await? else {
            return Ok(());
        };
        self.order_due(&turn, shutdown).await?;
        turn.end(shutdown).await
    }

    async fn order_due(
        &self,
        turn: &Turn<'_>,
        shutdown: &CancellationToken,
    ) -> Result<(), StoreError> {
        let (store, now) = (&self.ratings.store, turn.now);
        let mut after = AgentNumber(i64::MIN);
        // Consecutive agents often belong to the same organization.
        let mut known: Option<(OrganizationNumber, Option<Scheduled>)> = None;
        while !shutdown.is_cancelled() {
            let agents = store::upkeep::every_agent(store, after, AGENTS).await?;
            let Some(last) = agents.last() else { break };
            after = last.agent;
            for agent in agents.iter().filter(|agent| !agent.retired) {
                let number = agent.organization;
                let of = match known.take() {
                    Some((last, of)) if last == number => of,
                    _ => self.scheduled(number).await?,
                };
                if let Some(of) = &of
                    && self.order_for(of, agent, now).await?
                {
                    turn.hold().await?;
                }
                known = Some((number, of));
                if shutdown.is_cancelled() {
                    return Ok(());
                }
            }
            turn.hold().await?;
        }
        Ok(())
    }

    async fn scheduled(&self, number: OrganizationNumber) -> Result<Option<Scheduled>, StoreError> {
        let found =
            store::organizations::organization_numbered(&self.ratings.store, number).await?;
        let Some(organization) = found else {
            return Ok(None);
        };
        let Ok(config) = config::of(&organization) else {
            warn!(
                organization_id = organization.id,
                "could not read the organization's configuration; no assessment is scheduled"
            );
            return Ok(None);
        };
        let rules = config.rules;
        Ok(rules.has_schedule().then(|| Scheduled {
            organization: Arc::new(organization),
            rules,
        }))
    }

    /// Orders an assessment of an agent if one is due. Returns whether an order was tried.
    async fn order_for(
        &self,
        of: &Scheduled,
        agent: &AgentToCheck,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let store = &self.ratings.store;
        let Some(last) = store::assessments::last_rating(store, agent.agent, now).await? else {
            return Ok(false);
        };
        let rating = LastRating {
            assessed_at: last.created_at,
            badge: self.last_badge(&last).await?,
        };
        let Some(reason) = scheduled(&of.rules, &rating, now) else {
            return Ok(false);
        };
        let retried = now.checked_sub(RETRY_AFTER).unwrap_or(Timestamp::MIN);
        // A try before the last rating does not count, since the rating may be its result.
        let before = retried.max(last.created_at);
        if !store::upkeep::claim_reassessment(store, agent.agent, before, now).await? {
            return Ok(false);
        }
        let member = Member {
            caller: Caller {
                tenant: of.organization.tenant.clone(),
                principal: PRINCIPAL.to_owned(),
                key_id: KeyId::from(PRINCIPAL),
                grants: Grants::default(),
                test: false,
            },
            organization: of.organization.clone(),
        };
        let request = &last.request;
        let with_stress_test = request.stress_test.is_some();
        let order = Order::again(&agent.id, request.assessment.kind, with_stress_test);
        let notice = match self.ratings.order(&member, &order).await {
            Ok(assessment) => {
                info!(
                    assessment_id = assessment.id,
                    reason = reason.as_str(),
                    "the schedule ordered an assessment"
                );
                ordered(&assessment, &last, reason, now)
            }
            // An assessment of the agent is already in progress.
            Err(problem) if problem.code == ErrorCode::AssessmentInProgress => return Ok(true),
            Err(problem) => {
                warn!(
                    agent_id = agent.id,
                    code = problem.code.as_str(),
                    "a scheduled assessment was refused"
                );
                failed(&problem, &last, reason, now)
            }
        };
        let is_new = store::upkeep::record_notice(store, of.organization.number, &notice).await?;
        if is_new {
            store.notify_work().await;
        }
        Ok(true)
    }

    /// The issued badge of an agent's last rating, or else that of an earlier rating.
    async fn last_badge(&self, last: &AssessmentRecord) -> Result<Option<LastBadge>, StoreError> {
        let badge = last.badge.as_ref();
        if badge.is_some_and(|it| it.state == BadgeState::Issued) {
            return Ok(valid_until(last).map(|valid_until| LastBadge {
                valid_until,
                is_earlier: false,
            }));
        }
        let latest = store::upkeep::latest_badge_expiry(&self.ratings.store, last.agent_number);
        Ok(latest.await?.map(|valid_until| LastBadge {
            valid_until,
            is_earlier: true,
        }))
    }
}

/// The notice that an assessment was ordered.
fn ordered(
    assessment: &AssessmentRecord,
    last: &AssessmentRecord,
    reason: Reason,
    now: Timestamp,
) -> Notice {
    let mut data = notice_data(last, reason);
    data.insert("assessment_id".to_owned(), json!(assessment.id));
    Notice {
        topic: Topic::ReassessmentOrdered,
        subject: assessment.id.clone(),
        data,
        at: now,
    }
}

/// The notice that a due assessment was refused, once for each rating, however often the host
/// retries.
fn failed(problem: &Problem, last: &AssessmentRecord, reason: Reason, now: Timestamp) -> Notice {
    let mut data = notice_data(last, reason);
    data.insert("code".to_owned(), json!(problem.code.as_str()));
    Notice {
        topic: Topic::ReassessmentFailed,
        subject: last.id.clone(),
        data,
        at: now,
    }
}

fn notice_data(last: &AssessmentRecord, reason: Reason) -> Map<String, Value> {
    let notice_data = [
        ("agent_id", json!(last.agent)),
        ("last_assessment_id", json!(last.id)),
        ("last_assessed_at", json!(last.created_at)),
        ("reason", json!(reason.as_str())),
    ];
    notice_data
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
