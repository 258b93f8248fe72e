//! `configurable.fixtureRuns`: by task, an eval run whose recorded tool calls answer the calls of the
//! task (OpenWOP v2 runs, `fixtureRuns`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::rules::run::fold::RunState;
use crate::rules::run::record::{EvalSpec, ModelPin};
use crate::rules::run::task_ids::TaskIds;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::Fields;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::suite::EvalMode;

/// The member of `configurable`.
pub const FIXTURE_RUNS: &str = "fixtureRuns";
const FIELD: &str = "configurable.fixtureRuns";

/// The logs of all named runs are read.
const MAX_RUNS: usize = 100;

/// One message for all reasons, so that it does not reveal which runs exist.
const UNUSABLE: &str = "`configurable.fixtureRuns` must name finished eval runs of this tenant over the same suite and \
    version that recorded tool calls of the task; a task must be one of this run";

/// Parses the member of `configurable`.
///
/// # Errors
/// `validation_error` naming the field.
pub(super) fn read(fields: &Fields<'_>) -> Result<BTreeMap<TaskId, RunId>, Problem> {
    let Some(members) = fields.object(FIXTURE_RUNS)? else {
        return Ok(BTreeMap::new());
    };
    let run = |(task, run): (&String, &Value)| {
        let run = run.as_str().filter(|run| !run.is_empty())?;
        Some((TaskId::from(task.as_str()), RunId::from(run)))
    };
    let runs: Option<BTreeMap<TaskId, RunId>> = members.iter().map(run).collect();
    let runs = runs.filter(|runs| !runs.is_empty()).ok_or_else(|| {
        let rule = "must be an object with the id of a run for at least one task";
        fields.invalid(FIXTURE_RUNS, rule)
    })?;
    let count = runs.values().collect::<BTreeSet<_>>().len();
    if count > MAX_RUNS {
        let rule = format!("must name at most {MAX_RUNS} different runs, got {count}");
        return Err(fields.invalid(FIXTURE_RUNS, &rule));
    }
    Ok(runs)
}

/// The refusal of a source.
pub fn unusable() -> Problem {
    Problem::validation(FIELD, UNUSABLE)
}

/// Whether an eval run over `suite` can take the tool calls of a task from this run of the tenant,
/// whose content is kept.
pub fn is_usable(
    (suite_id, suite_version): (&str, &str),
    source: &EvalSpec,
    state: &RunState,
    task: &TaskId,
) -> bool {
    let has_calls = |task: &TaskId| {
        let facts = state.eval.tasks.get(task);
        facts.is_some_and(|facts| facts.tool_calls > 0)
    };
    state.status.is_terminal()
        && source.suite_id == suite_id
        && source.suite_version == suite_version
        && has_calls(task)
}

/// Remote agents call tools of their own.
const REMOTE: [&str; 2] = ["a2a", "openwop"];

/// Whether the agent takes the answers to its tool calls from this host.
pub(super) fn check_agent(runs: &BTreeMap<TaskId, RunId>, model: &ModelPin) -> Result<(), Problem> {
    match !runs.is_empty() && REMOTE.contains(&model.provider.as_str()) {
        false => Ok(()),
        true => Err(Problem::validation(
            FIELD,
            "a remote agent calls its own tools, never fixtures; leave `configurable.fixtureRuns` out",
        )),
    }
}

/// Whether a run with these modes and tasks can have recorded fixtures.
pub(super) fn check(
    runs: &BTreeMap<TaskId, RunId>,
    modes: &[EvalMode],
    tasks: &TaskIds,
) -> Result<(), Problem> {
    if runs.is_empty() {
        return Ok(());
    }
    if modes.contains(&EvalMode::LiveShadow) {
        let message = "`live-shadow` calls live tools, never fixtures; leave `configurable.fixtureRuns` out, or \
            choose other modes";
        return Err(Problem::validation("configurable.evalModes", message));
    }
    let found = tasks.iter().filter(|task| runs.contains_key(task)).count();
    match found == runs.len() {
        true => Ok(()),
        false => Err(unusable()),
    }
}
