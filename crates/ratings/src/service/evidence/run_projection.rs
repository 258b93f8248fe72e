//! Projects one eval run to evidence. Its log is read in pages and trimmed on the way, so that
//! little of it is in memory.

use std::collections::{BTreeMap, HashSet};

use crate::ports::agents::AgentRecord;
use crate::ports::events::NewEvent;
use crate::ports::profiles::ExclusionReason;
use crate::rules::Event;
use crate::rules::projection::{
    Finding, FindingSeverity, Profile, Run, RunEvent, SkipReason, project,
};
use touchstone_host::ports::run_log::reaches_end;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::summary::Severity;
use touchstone_runs::rules::run::fold::RunState;
use touchstone_runs::rules::run::record::{COMMAND_PROVIDER, RunRecord};
use touchstone_runs::store as run_store;

/// Maximum number of events read from one log.
const MAX_EVENTS: usize = 200_000;
const PAGE: u32 = 500;
/// Prefix of a task's node id in the projection.
const NODE: &str = "eval:";

/// The part of a log that matters as evidence.
struct Log {
    events: Vec<RunEvent>,
    /// Whether tasks scored by an uncalibrated judge were skipped.
    uncalibrated: bool,
    findings: BTreeMap<String, Vec<Finding>>,
}

/// The projection of a run.
pub struct RunEvidence {
    pub events: Vec<NewEvent>,
    /// Why the run produced no events, or only some.
    pub left_out: Option<ExclusionReason>,
}

/// The events of an ended run about an agent, or about an assessment's stress test if one is named.
/// `uncalibrated` tasks are skipped whatever their result: skipping only those that the judge
/// scored would leave the agent's failures.
///
/// # Errors
/// The store failed.
pub async fn project_run(
    store: &Database,
    agent: &AgentRecord,
    record: &RunRecord,
    profile: Profile,
    assessment: Option<&str>,
    uncalibrated: &HashSet<TaskId>,
) -> Result<Result<RunEvidence, ExclusionReason>, StoreError> {
    // Copied tasks are evidence of the run they were executed in.
    let (Some(eval), None) = (record.spec.eval(), &record.fork) else {
        return Ok(Err(ExclusionReason::Fork));
    };
    // The replayed answers come from a cassette and say nothing about the agent.
    if record.is_replay() {
        return Ok(Err(ExclusionReason::Replay));
    }
    match (&eval.execution.reached_by, assessment) {
        // Only stress tests use `reached_by`, so this run is a retry of one.
        (Some(_), None) => return Ok(Err(ExclusionReason::StressTest)),
        (Some(_), Some(_)) => {}
        (None, _) if eval.model.provider == COMMAND_PROVIDER => {
            return Ok(Err(ExclusionReason::AgentCommand));
        }
        (None, _) => {}
    }
    let log = match read(store, record, uncalibrated).await? {
        Ok(log) => log,
        Err(reason) => return Ok(Err(reason)),
    };
    let run = Run {
        run_id: record.run_id.to_string(),
        agent_id: eval.agent_id.to_string(),
        assessment_id: assessment.map(str::to_owned),
    };
    let about = agent.clone();
    let evidence =
        tokio::task::spawn_blocking(move || events_of(&about, &run, &profile, &log)).await;
    Ok(evidence.unwrap_or(Err(ExclusionReason::Unsound)))
}

async fn read(
    store: &Database,
    record: &RunRecord,
    uncalibrated: &HashSet<TaskId>,
) -> Result<Result<Log, ExclusionReason>, StoreError> {
    let mut state = RunState::default();
    let mut events: Vec<RunEvent> = Vec::new();
    loop {
        let page = run_store::runs::read(store, &record.run_id, state.sequence, PAGE).await?;
        let last = reaches_end(&page, PAGE);
        for event in page {
            let document: Option<RunEvent> = serde_json::from_slice(&event.body).ok();
            state.apply_stored(event.sequence, &event.body);
            let (Some(mut document), 0) = (document, state.eval.unreadable) else {
                return Ok(Err(ExclusionReason::Unsound));
            };
            // Log events name only the task, and parallel tasks are interleaved in the log.
            document.node_id = document.node_id.map(|task| format!("{NODE}{task}"));
            events.push(document.trimmed());
        }
        if events.len() > MAX_EVENTS {
            return Ok(Err(ExclusionReason::TooLong));
        }
        if last {
            break;
        }
    }
    // A copied task is evidence of the run that executed it, and infrastructure errors say nothing
    // about the agent.
    let foreign: HashSet<String> = state
        .eval
        .tasks
        .iter()
        .filter(|(task, facts)| {
            facts.reused_from.is_some() || facts.unjudged.is_some() || uncalibrated.contains(task)
        })
        .map(|(task, _)| format!("{NODE}{task}"))
        .collect();
    events.retain(|it| {
        it.node_id
            .as_ref()
            .is_none_or(|node| !foreign.contains(node))
    });
    let findings = state.eval.tasks.iter().filter_map(|(task, facts)| {
        let found = facts
            .into_owned()
            .safety_findings?
            .into_iter()
            .map(|it| Finding {
                kind: it.kind,
                severity: severity(it.severity),
            });
        Some((task.to_string(), found.collect()))
    });
    Ok(Ok(Log {
        events,
        uncalibrated: !uncalibrated.is_empty(),
        findings: findings.collect(),
    }))
}

const fn severity(of: Severity) -> FindingSeverity {
    match of {
        Severity::Low => FindingSeverity::Low,
        Severity::Medium => FindingSeverity::Medium,
        Severity::High => FindingSeverity::High,
        Severity::Critical => FindingSeverity::Critical,
    }
}

fn events_of(
    agent: &AgentRecord,
    run: &Run,
    profile: &Profile,
    log: &Log,
) -> Result<RunEvidence, ExclusionReason> {
    let left_out = log
        .uncalibrated
        .then_some(ExclusionReason::UncalibratedJudge);
    let evidence = project(&agent.id, run, Some(profile), &log.events, &log.findings)
        .map_err(|_| ExclusionReason::Unsound)?;
    match evidence.skipped {
        Some(SkipReason::NoProfile | SkipReason::ProfileMismatch) => {
            return Err(ExclusionReason::NoProfile);
        }
        Some(SkipReason::NoEval) => return Err(ExclusionReason::NothingJudged),
        None if evidence.events.is_empty() => {
            return Err(left_out.unwrap_or(ExclusionReason::NothingJudged));
        }
        None => {}
    }
    let events: Result<Vec<NewEvent>, ExclusionReason> = evidence
        .events
        .into_iter()
        .map(|document| {
            // The same validation as for events that arrive over the API.
            let event = Event::read(&document).map_err(|_| ExclusionReason::Unsound)?;
            let data = document.get("data").map(ToString::to_string);
            Ok(NewEvent {
                kind: event.event_type().as_str(),
                id: event.id.ok_or(ExclusionReason::Unsound)?,
                agent: agent.number,
                occurred_at: event.timestamp,
                task: event.task_id,
                assessment: event.assessment_id,
                data: data.unwrap_or_default(),
            })
        })
        .collect();
    Ok(RunEvidence {
        events: events?,
        left_out,
    })
}
