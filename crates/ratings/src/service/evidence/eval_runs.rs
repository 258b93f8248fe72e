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
use crate::ports::profiles::{CollectedRun, ExclusionReason, RunQuery};
use crate::rules::agent::{OpenwopAgent, Status};
use crate::rules::assessment::order::Collection;
use crate::rules::evidence::{RETENTION_DAYS, Recorder};
use crate::service::evidence::run_projection::project_run;
use crate::service::{Member, Ratings};
use crate::store;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TaskId, TenantId};
use touchstone_packs::store as pack_store;
use touchstone_runs::rules::eval::judged::parts::JudgedParts;
use touchstone_runs::rules::eval::rubric::calibration::{MIN_AGREEMENT, shortfall};
use touchstone_runs::rules::eval::scoring_document::ScoringDocument;
use touchstone_runs::rules::eval::scoring_document::read::read as read_scoring;
use touchstone_runs::rules::run::record::EvalSpec;
use touchstone_runs::service::library;
use touchstone_runs::store as run_store;

/// Maximum number of runs processed per request, so that one caller cannot occupy a host.
const MAX_RUNS: usize = 500;
/// Number of runs read at once.
const PAGE: u32 = 100;
/// Number of events recorded in one transaction.
const BATCH: usize = 1000;
/// Maximum number of runs without evidence that an answer lists.
const MAX_LISTED: u32 = 100;
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
pub struct CollectionSummary {
    /// Number of runs processed for the first time.
    pub runs: usize,
    /// Number of new events.
    pub events: usize,
    /// Whether there are more runs to process.
    pub more: bool,
    /// Runs that produced no evidence, newest first.
    pub skipped: Vec<SkippedRun>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedRun {
    run_id: RunId,
    reason: &'static str,
}

/// The tenant that owns the runs, and the agent they are evidence about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    organization: OrganizationNumber,
    tenant: &'a TenantId,
    agent: &'a AgentRecord,
    openwop_agent: &'a OpenwopAgent,
}

impl Ratings {
    /// Collects the eval runs of one agent, or of all agents that represent an OpenWOP agent.
    ///
    /// # Errors
    /// `not_found` for an unknown agent; `validation_error` for an agent that represents no OpenWOP
    /// agent; `conflict` for an archived or suspended agent.
    pub async fn collect_runs(
        &self,
        member: &Member,
        request: &Collection,
    ) -> Result<CollectionSummary, Problem> {
        let mut summary = CollectionSummary::default();
        let since = self.oldest(request.from);
        let Some(id) = &request.agent else {
            self.collect_all(member, since, &mut summary).await?;
            return Ok(summary);
        };
        let agent = self.agent(member, id).await?;
        if let Some(hindrance) = agent.status().hinders() {
            return Err(Problem::new(ErrorCode::Conflict, hindrance));
        }
        if agent.profile.openwop_agent.is_none() {
            let message = "`agent_id` names an agent without an `openwop_agent`; set its \
                `openwop_agent` first";
            return Err(Problem::validation("agent_id", message));
        }
        self.collect_of_agent(member, &agent, since, &mut summary)
            .await?;
        Ok(summary)
    }

    /// Collects the eval runs of an assessment's window before scoring, so that the assessment uses
    /// all of them.
    ///
    /// # Errors
    /// `conflict` if there are more runs than one request processes.
    pub(crate) async fn collect_runs_for(
        &self,
        member: &Member,
        agent: &AgentRecord,
        window_start: Timestamp,
    ) -> Result<(), Problem> {
        let since = window_start.checked_sub(BEFORE_WINDOW).ok();
        let mut summary = CollectionSummary::default();
        self.collect_of_agent(member, agent, self.oldest(since), &mut summary)
            .await?;
        if summary.more {
            return Err(Problem::new(
                ErrorCode::Conflict,
                format!(
                    "more than {MAX_RUNS} eval runs of this agent wait to be collected as \
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

    async fn collect_all(
        &self,
        member: &Member,
        since: Timestamp,
        summary: &mut CollectionSummary,
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
                self.collect_of_agent(member, agent, since, summary).await?;
                if summary.more {
                    return Ok(());
                }
            }
        }
    }

    async fn collect_of_agent(
        &self,
        member: &Member,
        agent: &AgentRecord,
        since: Timestamp,
        summary: &mut CollectionSummary,
    ) -> Result<(), Problem> {
        let Some(openwop_agent) = &agent.profile.openwop_agent else {
            return Ok(());
        };
        let subject = Subject {
            organization: member.organization.number,
            tenant: &member.organization.tenant,
            agent,
            openwop_agent,
        };
        self.collect_run_pages(subject, since, summary)
            .await
            .map_err(|cause| internal(&cause))
    }

    async fn collect_run_pages(
        &self,
        subject: Subject<'_>,
        since: Timestamp,
        summary: &mut CollectionSummary,
    ) -> Result<(), StoreError> {
        let which = RunQuery {
            tenant: subject.tenant,
            agent: subject.openwop_agent,
            since,
        };
        let (organization, mut after) = (subject.organization, 0);
        store::profiles::recollect_after_calibration(
            &self.store,
            organization,
            subject.agent.number,
            subject.tenant,
        )
        .await?;
        loop {
            let page =
                store::profiles::runs_to_collect(&self.store, organization, which, after, PAGE)
                    .await?;
            let Some(last) = page.last() else { break };
            after = last.number;
            for ended in &page {
                if summary.runs == MAX_RUNS {
                    summary.more = true;
                    return Ok(());
                }
                summary.runs += 1;
                summary.events += self.collect_run(subject, &ended.run).await?;
            }
        }
        let room =
            MAX_LISTED.saturating_sub(u32::try_from(summary.skipped.len()).unwrap_or(u32::MAX));
        let left_out =
            store::profiles::left_out(&self.store, organization, subject.agent.number, room)
                .await?;
        let named = left_out.into_iter().map(|(run_id, reason)| SkippedRun {
            run_id,
            reason: reason.as_str(),
        });
        summary.skipped.extend(named);
        Ok(())
    }

    /// Records the events of a run and returns how many are new.
    async fn collect_run(&self, subject: Subject<'_>, run: &RunId) -> Result<usize, StoreError> {
        let store = self.store.as_ref();
        let Some(record) = store::profiles::run_to_collect(store, subject.tenant, run).await?
        else {
            return Ok(0);
        };
        let Some(eval) = record.spec.eval() else {
            return Ok(0);
        };
        let suite = format!("{}@{}", eval.suite_id, eval.suite_version);
        let profile = store::profiles::profile(store, subject.organization, &suite).await?;
        let uncalibrated = self.uncalibrated(subject.tenant, eval).await?;
        let projected_run = match (profile, uncalibrated) {
            (None, _) => Err(ExclusionReason::NoProfile),
            (_, None) => Err(ExclusionReason::Unsound),
            (Some(kept), _)
                if kept
                    .profile
                    .is_of_other_suite(&eval.suite_digest, eval.scoring_digest.as_deref()) =>
            {
                Err(ExclusionReason::SuiteChanged)
            }
            (Some(kept), Some(uncalibrated)) => {
                project_run(
                    store,
                    subject.agent,
                    &record,
                    kept.profile,
                    None,
                    &uncalibrated,
                )
                .await?
            }
        };
        let projected_run = match projected_run {
            Ok(projected_run)
                if are_ids_taken(store, subject.organization, &projected_run.events).await? =>
            {
                Err(ExclusionReason::IdTaken)
            }
            projected_run => projected_run,
        };
        let mut new = 0;
        if let Ok(projected_run) = &projected_run {
            new = record_events(
                store,
                subject.organization,
                &projected_run.events,
                self.clock.now(),
            )
            .await?;
        }
        let gathered = CollectedRun {
            run: run.clone(),
            agent: subject.agent.number,
            suite,
            events: projected_run
                .as_ref()
                .map_or(0, |projected_run| projected_run.events.len()),
            left_out: projected_run.map_or_else(Some, |projected_run| projected_run.left_out),
        };
        // Mark the run last: lost work is then repeated, and repeating it changes nothing.
        store::profiles::record_collected_run(
            store,
            subject.organization,
            &gathered,
            self.clock.now(),
        )
        .await?;
        Ok(new)
    }
}

impl Ratings {
    /// Tasks scored by a judge without a current calibration against people (AAAF S11). `None` if
    /// the suite or its scoring document cannot be read and the tasks are unknown.
    async fn uncalibrated(
        &self,
        tenant: &TenantId,
        eval: &EvalSpec,
    ) -> Result<Option<HashSet<TaskId>>, StoreError> {
        let Some(judge) = &eval.judge else {
            return Ok(Some(HashSet::new()));
        };
        let found = run_store::calibrations::find(&self.store, tenant, &judge.identity).await?;
        if shortfall(found.as_ref(), MIN_AGREEMENT, self.clock.now()).is_none() {
            return Ok(Some(HashSet::new()));
        }
        let scoring = match &eval.scoring_digest {
            Some(digest) => {
                let bytes = pack_store::blobs::get(&self.store, digest).await?;
                let Some(read) = bytes.and_then(|bytes| read_scoring(&bytes).ok()) else {
                    return Ok(None);
                };
                Some(read.document)
            }
            None => None,
        };
        match self.judged_tasks(eval, scoring.as_ref()).await {
            Ok(judged) => Ok(judged),
            Err(library::Error::Store(cause)) => Err(cause),
            Err(library::Error::Damaged { .. } | library::Error::TooLarge) => Ok(None),
        }
    }

    /// The tasks of a run's suite that a judge decides; `None` without the suite.
    async fn judged_tasks(
        &self,
        eval: &EvalSpec,
        scoring: Option<&ScoringDocument>,
    ) -> Result<Option<HashSet<TaskId>>, library::Error> {
        let library = &self.runs.library;
        let Some(suite) = library.suite_index(&eval.suite_digest).await? else {
            return Ok(None);
        };
        let mut judged = HashSet::new();
        for number in 0..suite.chunk_count() {
            let tasks = library.chunk(&suite, number).await?;
            let of_chunk = tasks
                .iter()
                .filter(|task| !JudgedParts::of(task, scoring).is_empty());
            judged.extend(of_chunk.map(|task| task.task_id.clone()));
        }
        Ok(Some(judged))
    }
}

/// Whether the ids of these events belong to events of another source. Then the run cannot be
/// recorded.
pub(crate) async fn are_ids_taken(
    store: &Database,
    organization: OrganizationNumber,
    events: &[NewEvent],
) -> Result<bool, StoreError> {
    for batch in events.chunks(BATCH) {
        let ids: Vec<&str> = batch.iter().map(|event| event.id.as_str()).collect();
        if store::events::are_ids_taken(store, organization, PROJECTED, &ids).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Records the events of a run and returns how many are new.
pub(crate) async fn record_events(
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
