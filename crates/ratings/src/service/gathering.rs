//! Turns eval runs into evidence (AAAF, OpenWOP eval runs): the runs of the OpenWOP agent that an
//! enrolled agent represents, each once.
//!
//! The state of a run is irrelevant: judged tasks of a cancelled run are evidence too. Otherwise a
//! bad run could be discarded by cancelling it.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::ports::agents::AgentRecord;
use crate::ports::events::{NewEvent, Origin, PROJECTED};
use crate::ports::organizations::OrganizationNumber;
use crate::ports::profiles::{Gathered, LeftOut, RunsOf};
use crate::rules::agent::{OpenwopAgent, Status};
use crate::rules::evidence::{RETENTION_DAYS, Recorder};
use crate::rules::order::Collection;
use crate::service::projected::projected;
use crate::service::{Aaaf, Member};
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_packs::store as pack_store;
use touchstone_runs::rules::eval::rubric::calibration::{MIN_AGREEMENT, doubt};
use touchstone_runs::rules::eval::rubric::rubric;
use touchstone_runs::rules::eval::suite_rules::read_suite;
use touchstone_runs::rules::run::record::EvalSpec;
use touchstone_runs::store as run_store;

/// Maximum number of runs processed per request, so that one caller cannot occupy a host.
const MOST_RUNS: usize = 500;
/// Number of runs read at once.
const PAGE: u32 = 100;
/// Number of events recorded in one transaction.
const BATCH: usize = 1000;
/// Maximum number of runs without evidence that an answer lists.
const MOST_NAMED: u32 = 100;
/// Number of agents read at once.
const AGENTS: u32 = 200;
/// A run created this long before a window may still have ended within it.
const BEFORE_WINDOW: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The origin of the recorded events.
const ORIGIN: Origin<'static> = Origin {
    source: PROJECTED,
    recorder: Recorder::Host,
    principal: "host",
};

/// The result of collecting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Number of runs processed for the first time.
    pub runs: usize,
    /// Number of new events.
    pub events: usize,
    /// Whether there are more runs to process.
    pub more: bool,
    /// Runs that produced no evidence, newest first.
    pub skipped: Vec<LeftOutRun>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOutRun {
    run_id: RunId,
    reason: &'static str,
}

/// The tenant that owns the runs, and the agent they are evidence about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    organization: OrganizationNumber,
    tenant: &'a TenantId,
    agent: &'a AgentRecord,
    stands_for: &'a OpenwopAgent,
}

impl Aaaf {
    /// Collects the eval runs of one agent, or of all agents that represent an OpenWOP agent.
    ///
    /// # Errors
    /// `not_found` for an unknown agent; `validation_error` for an agent that represents no OpenWOP
    /// agent; `conflict` for an archived or suspended agent.
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

    /// Collects the eval runs of an assessment's window before scoring, so that the assessment uses
    /// all of them.
    ///
    /// # Errors
    /// `conflict` if there are more runs than one request processes.
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

    /// The start of the period to collect; older evidence is not retained.
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
            let page = store::agents::agents(
                &self.store,
                organization,
                Some(Status::Active),
                after.as_ref(),
                AGENTS,
            );
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
            let page =
                store::profiles::runs_to_gather(&self.store, organization, which, after, PAGE)
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
        let left_out =
            store::profiles::left_out(&self.store, organization, subject.agent.number, room)
                .await?;
        let named = left_out.into_iter().map(|(run_id, reason)| LeftOutRun {
            run_id,
            reason: reason.as_str(),
        });
        tally.skipped.extend(named);
        Ok(())
    }

    /// Records the events of a run and returns how many are new.
    async fn gather_run(&self, subject: Subject<'_>, run: &RunId) -> Result<usize, StoreError> {
        let store = self.store.as_ref();
        let Some(record) = store::profiles::run_to_gather(store, subject.tenant, run).await? else {
            return Ok(0);
        };
        let Some(eval) = record.spec.eval() else {
            return Ok(0);
        };
        let suite = format!("{}@{}", eval.suite_id, eval.suite_version);
        let profile = store::profiles::profile(store, subject.organization, &suite).await?;
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
        // Mark the run last: lost work is then repeated, and repeating it changes nothing.
        store::profiles::gathered(store, subject.organization, &gathered, self.clock.now()).await?;
        Ok(new)
    }
}

impl Aaaf {
    /// Tasks scored by a judge without a current calibration against people (AAAF S11). `None` if
    /// the suite cannot be read and the tasks are unknown.
    async fn doubted(
        &self,
        tenant: &TenantId,
        eval: &EvalSpec,
    ) -> Result<Option<HashSet<TaskId>>, StoreError> {
        let Some(judge) = &eval.judge else {
            return Ok(Some(HashSet::new()));
        };
        let found = run_store::calibrations::find(&self.store, tenant, &judge.identity).await?;
        if doubt(found.as_ref(), MIN_AGREEMENT, self.clock.now()).is_none() {
            return Ok(Some(HashSet::new()));
        }
        let octets = pack_store::blobs::get(&self.store, &eval.suite_digest).await?;
        let document = octets.and_then(|octets| read_suite(self.runs.library.kinds, &octets).ok());
        Ok(document.map(|it| {
            let tasks = it.suite.tasks.into_iter();
            let judged = tasks.filter(|task| rubric(task).is_some());
            judged.map(|task| task.task_id).collect()
        }))
    }
}

/// Whether the ids of these events belong to events of another source. Then the run cannot be
/// recorded.
pub(super) async fn is_taken(
    store: &Database,
    organization: OrganizationNumber,
    events: &[NewEvent],
) -> Result<bool, StoreError> {
    for batch in events.chunks(BATCH) {
        let ids: Vec<&str> = batch.iter().map(|event| event.id.as_str()).collect();
        if store::events::is_taken(store, organization, PROJECTED, &ids).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Records the events of a run and returns how many are new.
pub(super) async fn keep(
    store: &Database,
    organization: OrganizationNumber,
    events: &[NewEvent],
    now: Timestamp,
) -> Result<usize, StoreError> {
    let mut new = 0;
    for batch in events.chunks(BATCH) {
        let recorded =
            store::events::record_events(store, organization, batch, ORIGIN, now).await?;
        new += recorded.into_iter().filter(|new| *new).count();
    }
    Ok(new)
}
