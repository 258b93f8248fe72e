//! Eval runs become evidence (AAAF, OpenWOP eval runs): those of the OpenWOP agent that an enrolled one stands for, each once.
//!
//! How a run ended says nothing about it: a judged task is evidence in a cancelled run too, else a run that goes badly
//! could be got rid of by cancelling it.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::projected::projected;
use super::{Aaaf, Member};
use crate::domain::aaaf::agent::{OpenwopAgent, Status};
use crate::domain::aaaf::evidence::{RETENTION_DAYS, Recorder};
use crate::domain::aaaf::order::Collection;
use crate::domain::eval::rubric::calibration::{MIN_AGREEMENT, doubt};
use crate::domain::eval::rubric::rubric;
use crate::domain::eval::suite_rules::read_suite;
use crate::domain::ids::{RunId, TaskId, TenantId};
use crate::domain::run::record::EvalSpec;
use crate::ports::aaaf::{
    AgentRecord, Gathered, LeftOut, NewEvent, OrganizationNumber, Origin, PROJECTED, RunsOf,
};
use crate::ports::{Store, StoreError};
use crate::protocol::error::{ErrorCode, Problem};
use crate::service::fault::internal;

/// Runs that one request looks at: a host is not kept busy by one caller.
const MOST_RUNS: usize = 500;
/// Runs asked for at once.
const PAGE: u32 = 100;
/// Events recorded in one transaction.
const BATCH: usize = 1000;
/// Runs that gave nothing, named in an answer.
const MOST_NAMED: u32 = 100;
/// Agents asked for at once.
const AGENTS: u32 = 200;
/// A run that was created so long before a window may still have ended in it.
const BEFORE_WINDOW: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How these events come to be recorded.
const ORIGIN: Origin<'static> = Origin {
    source: PROJECTED,
    recorder: Recorder::Host,
    principal: "host",
};

/// What gathering came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Runs that were looked at for the first time.
    pub runs: usize,
    /// Events that are new.
    pub events: usize,
    /// Whether there are runs left to look at.
    pub more: bool,
    /// Runs that gave no evidence, the newest first.
    pub skipped: Vec<LeftOutRun>,
}

/// A run that gave no evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOutRun {
    run_id: RunId,
    reason: &'static str,
}

/// Whose runs, for whom.
#[derive(Clone, Copy)]
struct Subject<'a> {
    organization: OrganizationNumber,
    tenant: &'a TenantId,
    agent: &'a AgentRecord,
    stands_for: &'a OpenwopAgent,
}

impl Aaaf {
    /// Takes up what eval runs say: of one agent, or of all that stand for one.
    ///
    /// # Errors
    /// `not_found` for an agent that is not there; `validation_error` for one that stands for no OpenWOP agent; `conflict`
    /// for one that is archived or suspended.
    pub async fn gather(&self, member: &Member, asked: &Collection) -> Result<Tally, Problem> {
        let mut tally = Tally::default();
        let since = self.oldest(asked.from);
        let Some(id) = &asked.agent else {
            self.gather_all(member, since, &mut tally).await?;
            return Ok(tally);
        };
        let agent = self.agent(member, id).await?;
        if let Some(hindrance) = agent.status().hinders() {
            return Err(Problem::new(ErrorCode::Conflict, hindrance));
        }
        if agent.profile.openwop_agent.is_none() {
            let message = "`agent_id` names an agent that represents no OpenWOP agent; set its \
                `openwop_agent` first";
            return Err(Problem::validation("agent_id", message));
        }
        self.gather_of(member, &agent, since, &mut tally).await?;
        Ok(tally)
    }

    /// The same before an assessment over a window, so that it looks at everything there is.
    ///
    /// # Errors
    /// `conflict` if there are more runs than one request looks at.
    pub(super) async fn gather_for(
        &self,
        member: &Member,
        agent: &AgentRecord,
        window_start: Timestamp,
    ) -> Result<(), Problem> {
        let since = window_start.checked_sub(BEFORE_WINDOW).ok();
        let mut tally = Tally::default();
        self.gather_of(member, agent, self.oldest(since), &mut tally)
            .await?;
        if tally.more {
            return Err(Problem::new(
                ErrorCode::Conflict,
                format!(
                    "more than {MOST_RUNS} eval runs of this agent wait to be collected as \
                    evidence; send POST events/collect until `more` is false"
                ),
            ));
        }
        Ok(())
    }

    /// What is older is not kept.
    fn oldest(&self, from: Option<Timestamp>) -> Timestamp {
        let kept = SignedDuration::from_hours(24 * RETENTION_DAYS);
        let kept = self.clock.now().checked_sub(kept);
        let kept = kept.unwrap_or(Timestamp::MIN);
        from.map_or(kept, |from| from.max(kept))
    }

    async fn gather_all(
        &self,
        member: &Member,
        since: Timestamp,
        tally: &mut Tally,
    ) -> Result<(), Problem> {
        let organization = member.organization.number;
        let mut after = None;
        loop {
            let page =
                self.store
                    .agents(organization, Some(Status::Active), after.as_ref(), AGENTS);
            let page = page.await.map_err(|cause| internal(&cause))?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.position());
            for agent in &page {
                self.gather_of(member, agent, since, tally).await?;
                if tally.more {
                    return Ok(());
                }
            }
        }
    }

    async fn gather_of(
        &self,
        member: &Member,
        agent: &AgentRecord,
        since: Timestamp,
        tally: &mut Tally,
    ) -> Result<(), Problem> {
        let Some(stands_for) = &agent.profile.openwop_agent else {
            return Ok(());
        };
        let subject = Subject {
            organization: member.organization.number,
            tenant: &member.organization.tenant,
            agent,
            stands_for,
        };
        self.gather_runs(subject, since, tally)
            .await
            .map_err(|cause| internal(&cause))
    }

    async fn gather_runs(
        &self,
        subject: Subject<'_>,
        since: Timestamp,
        tally: &mut Tally,
    ) -> Result<(), StoreError> {
        let which = RunsOf {
            tenant: subject.tenant,
            agent: subject.stands_for,
            since,
        };
        let (organization, mut after) = (subject.organization, 0);
        loop {
            let page = self
                .store
                .runs_to_gather(organization, which, after, PAGE)
                .await?;
            let Some(last) = page.last() else { break };
            after = last.number;
            for ended in &page {
                if tally.runs == MOST_RUNS {
                    tally.more = true;
                    return Ok(());
                }
                tally.runs += 1;
                tally.events += self.gather_run(subject, &ended.run).await?;
            }
        }
        let room =
            MOST_NAMED.saturating_sub(u32::try_from(tally.skipped.len()).unwrap_or(u32::MAX));
        let left_out = self
            .store
            .left_out(organization, subject.agent.number, room)
            .await?;
        let named = left_out.into_iter().map(|(run_id, reason)| LeftOutRun {
            run_id,
            reason: reason.as_str(),
        });
        tally.skipped.extend(named);
        Ok(())
    }

    /// How many of its events are new.
    async fn gather_run(&self, subject: Subject<'_>, run: &RunId) -> Result<usize, StoreError> {
        let store = self.store.as_ref();
        let Some(record) = store.run_to_gather(subject.tenant, run).await? else {
            return Ok(0);
        };
        let Some(eval) = record.spec.eval() else {
            return Ok(0);
        };
        let suite = format!("{}@{}", eval.suite_id, eval.suite_version);
        let profile = store.profile(subject.organization, &suite).await?;
        let doubted = self.doubted(subject.tenant, eval).await?;
        let made = match (profile, doubted) {
            (None, _) => Err(LeftOut::NoProfile),
            (_, None) => Err(LeftOut::Unsound),
            (Some(kept), _) if kept.profile.is_of_other_suite(&eval.suite_digest) => {
                Err(LeftOut::SuiteChanged)
            }
            (Some(kept), Some(doubted)) => {
                projected(store, subject.agent, &record, kept.profile, None, &doubted).await?
            }
        };
        let made = match made {
            Ok(made) if is_taken(store, subject.organization, &made.events).await? => {
                Err(LeftOut::IdTaken)
            }
            made => made,
        };
        let mut new = 0;
        if let Ok(made) = &made {
            new = keep(store, subject.organization, &made.events, self.clock.now()).await?;
        }
        let gathered = Gathered {
            run: run.clone(),
            agent: subject.agent.number,
            suite,
            events: made.as_ref().map_or(0, |made| made.events.len()),
            left_out: made.map_or_else(Some, |made| made.left_out),
        };
        // After the events: what was lost in between is done again, and changes nothing.
        store
            .gathered(subject.organization, &gathered, self.clock.now())
            .await?;
        Ok(new)
    }
}

impl Aaaf {
    /// Tasks that a judge scores which may not grade (AAAF S11): it has to have agreed with people lately. `None` where the
    /// suite cannot be read, so that nobody can tell.
    async fn doubted(
        &self,
        tenant: &TenantId,
        eval: &EvalSpec,
    ) -> Result<Option<HashSet<TaskId>>, StoreError> {
        let Some(judge) = &eval.judge else {
            return Ok(Some(HashSet::new()));
        };
        let found = self.store.calibration(tenant, &judge.identity).await?;
        if doubt(found.as_ref(), MIN_AGREEMENT, self.clock.now()).is_none() {
            return Ok(Some(HashSet::new()));
        }
        let octets = self.store.get(&eval.suite_digest).await?;
        let document = octets.and_then(|octets| read_suite(&octets).ok());
        Ok(document.map(|it| {
            let tasks = it.suite.tasks.into_iter();
            let judged = tasks.filter(|task| rubric(task).is_some());
            judged.map(|task| task.task_id).collect()
        }))
    }
}

/// Whether somebody has used the ids of these events for others: then what the run says cannot be recorded as it is.
pub(super) async fn is_taken(
    store: &dyn Store,
    organization: OrganizationNumber,
    events: &[NewEvent],
) -> Result<bool, StoreError> {
    for batch in events.chunks(BATCH) {
        let ids: Vec<&str> = batch.iter().map(|event| event.id.as_str()).collect();
        if store.is_taken(organization, PROJECTED, &ids).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Records what a run says; says how many events are new.
pub(super) async fn keep(
    store: &dyn Store,
    organization: OrganizationNumber,
    events: &[NewEvent],
    now: Timestamp,
) -> Result<usize, StoreError> {
    let mut new = 0;
    for batch in events.chunks(BATCH) {
        let recorded = store
            .record_events(organization, batch, ORIGIN, now)
            .await?;
        new += recorded.into_iter().filter(|new| *new).count();
    }
    Ok(new)
}
