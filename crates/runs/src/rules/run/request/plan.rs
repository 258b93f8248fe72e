//! The checks of an eval run in the protocol's order (RFC 0081 §B), after which everything is
//! pinned.

use std::sync::Arc;

use serde_json::Value;

use super::fixtures;
use super::parse::CreateRun;
use crate::rules::eval::rubric::Rubrics;
use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::kind::{KindPlan, PlanKind};
use crate::rules::run::deciders::Deciders;
use crate::rules::run::record::{
    Baseline, EvalSpec, ExecutionPin, JudgePin, ModelPin, PinnedJudge, RunSpec, Work,
};
use crate::rules::run::task_ids::{TaskIds, TaskIdsBuilder};
use touchstone_agents::budget::policy::BudgetSpec;
use touchstone_agents::rules::distribution::Distribution;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{AgentId, RunId, TaskId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode, ExpectedKind, ModelClass, Task};

/// The modes this host scores, with or without a judge and live tools; discovery advertises them.
pub const fn scored_modes(judge: bool, live_tools: bool) -> &'static [EvalMode] {
    use EvalMode::{Adversarial, Golden, LiveShadow, Regression, Rubric};
    match (judge, live_tools) {
        (true, true) => &[Golden, Rubric, Adversarial, Regression, LiveShadow],
        (true, false) => &[Golden, Rubric, Adversarial, Regression],
        (false, true) => &[Golden, Adversarial, Regression, LiveShadow],
        (false, false) => &[Golden, Adversarial, Regression],
    }
}

/// One message for all reasons why a suite or an agent is unavailable, so that it does not reveal
/// what other tenants have.
const UNRESOLVABLE: &str = "no such suite or agent is installed for this tenant; install the \
    pack or import the suite, and use the exact names (`suiteId@version`, agent id)";

/// One message for all runs that this tenant cannot name.
const NO_BASELINE: &str = "regression needs `configurable.baselineRunId`: a finished eval run of this tenant \
    over the same suite and version, with every task judged, the same tasks, the same scoring document, the same judge and the same ignore list";

/// The host's limits for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HostLimits {
    /// Maximum number of tasks in one run.
    pub max_tasks_per_suite: usize,
    /// Maximum cost of one run.
    pub max_cost_per_suite: Option<NanoUsd>,
    /// Whether the operator set it. Such a limit refuses runs whose cost is unknown; the default
    /// does not, so that models without a price work.
    pub is_max_cost_set: bool,
    /// Longest duration of a run.
    pub max_run_duration_ms: u64,
    /// Maximum number of node executions of a workflow run.
    pub max_node_executions: u64,
    /// Default number of tasks in flight.
    pub default_concurrency: u32,
    /// Maximum number of tasks in flight.
    pub max_concurrency: u32,
    /// Whether callers' budgets are only reported, not enforced.
    pub advisory_budgets: bool,
    pub scored_modes: &'static [EvalMode],
    /// Where runs are executed that do not say it; absent if the host has no workers.
    pub distribution: Option<Distribution>,
    /// The sets of labels of workers that runs may require.
    pub worker_labels: Vec<WorkerLabels>,
}

/// The agent of a planned run.
pub struct AgentFacts<'a> {
    pub agent_id: &'a AgentId,
    /// The version of its pack.
    pub version: &'a str,
    /// The digest of its pack.
    pub pack_integrity: &'a str,
    /// The digest of the pack's definition of the agent.
    pub content: &'a str,
    pub model_class: ModelClass,
    pub model: Option<ModelPin>,
}

/// What the plan of a run needs to know about the tasks of its suite.
#[derive(Clone, Debug, Default)]
pub struct SuiteOutline {
    /// All tasks.
    pub tasks: TaskIds,
    /// The positions of those that a rubric scores, ascending.
    by_rubric: Vec<usize>,
    rubrics: Rubrics,
    /// The first task whose input the agent's task schema does not accept.
    refused: Option<TaskId>,
}

impl SuiteOutline {
    pub fn of<'a>(
        tasks: impl IntoIterator<Item = &'a Task>,
        accepts: impl Fn(&Value) -> bool,
    ) -> Self {
        let mut outline = SuiteOutlineBuilder::default();
        let tasks = tasks.into_iter();
        tasks.for_each(|task| outline.add(task, &accepts));
        outline.finish()
    }

    /// The tasks that can be scored.
    fn scored(&self, rubrics: bool) -> TaskIds {
        if rubrics || self.by_rubric.is_empty() {
            return self.tasks.clone();
        }
        let is_golden = |at: &usize| self.by_rubric.binary_search(at).is_err();
        let tasks = self.tasks.texts().enumerate();
        let golden = tasks.filter(|(at, _)| is_golden(at));
        golden.map(|(_, task)| task).collect()
    }
}

/// Collects an outline while the tasks of a suite are read.
#[derive(Default)]
pub struct SuiteOutlineBuilder {
    tasks: TaskIdsBuilder,
    outline: SuiteOutline,
}

impl SuiteOutlineBuilder {
    /// Adds the next task of the suite. `accepts` tells whether the agent's task schema accepts an
    /// input.
    pub fn add(&mut self, task: &Task, accepts: impl Fn(&Value) -> bool) {
        let outline = &mut self.outline;
        if outline.refused.is_none() && !accepts(&task.input) {
            outline.refused = Some(task.task_id.clone());
        }
        if task.expected.kind == ExpectedKind::Rubric {
            outline.by_rubric.push(self.tasks.len());
        }
        outline.rubrics.add(task);
        self.tasks.push(task.task_id.as_str());
    }

    pub fn finish(self) -> SuiteOutline {
        SuiteOutline {
            tasks: self.tasks.finish(),
            ..self.outline
        }
    }
}

/// The suite of a planned run.
pub struct SuiteFacts<'a> {
    /// Its members; only evaluation kinds read its tasks, and a large suite has none here.
    pub document: &'a AgentEvalSuite,
    pub outline: &'a SuiteOutline,
    pub digest: &'a str,
    /// The digest of its scoring document.
    pub scoring: Option<&'a str>,
    /// The scoring document.
    pub scoring_document: Option<&'a ScoringDocument>,
    /// Whether a trusted signature covers it.
    pub signed: bool,
    /// Whether it is stored as lines, which versions cannot read that cannot read a record with
    /// compressed ids.
    pub is_streamed: bool,
}

/// A finished eval run that may serve as a baseline.
pub struct BaselineFacts<'a> {
    pub run_id: &'a RunId,
    /// Whether it completed with every task judged: the score 0 of an unjudged task would hide a
    /// regression.
    pub conclusive: bool,
    /// Its ignore list; runs with different ignore lists are not comparable.
    pub ignore: &'a [String],
    /// The tasks that took part.
    pub tasks: &'a TaskIds,
    /// The judge of its rubrics; scores of different judges are not comparable.
    pub judge: Option<&'a JudgePin>,
    /// Its modes; safety findings affect scores in `adversarial` only.
    pub modes: &'a [EvalMode],
    /// The judge that checked for missing refusals.
    pub safety_judge: Option<&'a JudgePin>,
    pub suite_id: &'a str,
    pub suite_version: &'a str,
    /// The digest of the scoring document.
    pub scoring_digest: Option<&'a str>,
    pub aggregate_score: f64,
    /// Whether its log still has the answers of all tasks.
    pub keeps_answers: bool,
}

/// Checks the request and pins everything.
///
/// # Errors
/// `validation_error` naming the field, in the order of the protocol's checks.
pub fn plan(
    request: CreateRun,
    limits: &HostLimits,
    suite: Option<&SuiteFacts<'_>>,
    agent: Option<&AgentFacts<'_>>,
    baseline_facts: Option<&BaselineFacts<'_>>,
    judges: &[ModelPin],
    plan_kind: &PlanKind<'_>,
) -> Result<RunSpec, Problem> {
    let (Some(suite), Some(agent)) = (suite, agent) else {
        return Err(Problem::validation("evalSuiteRef", UNRESOLVABLE));
    };
    let document = suite.document;
    check_agent(&request, document, agent)?;
    let modes = usable_modes(&request, document, limits.scored_modes)?;
    let mut kind = plan_kind(&request, document, &modes)?;
    if kind.is_some() {
        check_no_suite_options(&request)?;
    }
    let scoring_digest = suite.scoring.filter(|_| kind.is_none());
    let mut scoring = scoring(suite, modes, kind.as_mut(), judges)?;
    scoring.tasks =
        request
            .tasks
            .select(&suite.outline.tasks, suite.scoring_document, scoring.tasks)?;
    check_judge(suite, &scoring)?;
    check_size(suite.outline.tasks.len(), limits)?;
    if kind.is_none() {
        check_inputs(suite.outline)?;
    }
    fixtures::check(&request.fixture_runs, &scoring.modes, &scoring.tasks)?;
    let baseline = pin_baseline(&request, suite, &scoring, baseline_facts)?;
    let compares_answers = compares_answers(suite, &scoring, baseline_facts)?;
    let left_out = modes_left_out(&request, document, &scoring.modes, baseline.as_ref());
    let mut modes = scoring.modes;
    modes.retain(|mode| !left_out.contains(mode));
    let distributed = distributed(&request, limits, &modes, kind.is_some())?;
    let (worker_labels, worker_command) = (
        request.worker_labels.clone(),
        request.worker_command.clone(),
    );
    let model = agent.model.clone().ok_or_else(|| no_model(agent))?;
    fixtures::check_agent(&request.fixture_runs, &model)?;
    let default_concurrency = kind
        .as_ref()
        .map_or(limits.default_concurrency, |kind| kind.concurrency);
    let concurrency = request
        .concurrency
        .unwrap_or(default_concurrency)
        .clamp(1, limits.max_concurrency.max(1));
    let workflow_id = format!("eval:{}@{}", document.suite_id, document.version);
    let eval = EvalSpec {
        suite_id: document.suite_id.clone(),
        suite_version: document.version.clone(),
        suite_digest: suite.digest.to_owned(),
        // An evaluation kind scores its tasks itself.
        scoring_digest: scoring_digest.map(str::to_owned),
        suite_signed: suite.signed,
        suite_task_count: suite.outline.tasks.len(),
        agent_id: agent.agent_id.clone(),
        agent_version: agent.version.to_owned(),
        agent_channel: request.channel_pin,
        pack_integrity: agent.pack_integrity.to_owned(),
        agent_content: Some(agent.content.to_owned()),
        model_class: agent.model_class,
        model,
        judge: scoring.judge,
        judges: scoring.judges,
        safety_judge: scoring.safety_judge,
        // Planned with the scoring document.
        simulated_user: None,
        attachments_pack: None,
        modes,
        modes_left_out: left_out,
        tasks: match suite.is_streamed {
            true => scoring.tasks.compressible(),
            false => scoring.tasks,
        },
        baseline,
        compares_answers,
        fixture_runs: request.fixture_runs,
        ignore: request.ignore,
        concurrency,
        temperature: request.temperature,
        max_tokens: request.max_tokens,
        max_loop_iterations: request.max_loop_iterations,
        task_timeout_ms: request.task_timeout_ms,
        // The host's ceiling stops the run; the suite's `maxCostUsd` is a pass criterion and does
        // not.
        cost_ceiling: limits.max_cost_per_suite,
        prices: None,
        budget: BudgetSpec {
            advisory: limits.advisory_budgets && !request.budget.is_empty(),
            ..request.budget
        },
        retry_of: None,
        trial: request.trial,
        facts_recorded_at: None,
        partial_rerun: None,
        extensions: kind.map(|kind| kind.spec).unwrap_or_default(),
        deciders: Deciders::default(),
        execution: ExecutionPin {
            // The other two members say it too.
            distributed: distributed && worker_labels.is_empty() && worker_command.is_none(),
            worker_labels,
            worker_command,
            ..ExecutionPin::default()
        },
    };
    Ok(request
        .options
        .spec(workflow_id, Work::Eval(Arc::new(eval)), limits))
}

const LABELS: &str = "configurable.evalWorkerLabels";

/// Why a run cannot require labels or name a command of workers.
const NOT_AT_WORKERS: &str = "applies only to plain suites without live tools and to agents of packs, which workers execute; leave it out";

fn no_model(agent: &AgentFacts<'_>) -> Problem {
    Problem::validation(
        "agentId",
        format!(
            "no model is configured for class `{}`; add a `[[models]]` entry for it or for `*`",
            agent.model_class.as_str()
        ),
    )
    .with("reason", "model_missing")
}

/// Whether workers execute the tasks. Live tools and the systems of evaluation kinds are connected
/// to this host only: such runs stay here, and are refused if they request workers.
fn distributed(
    request: &CreateRun,
    limits: &HostLimits,
    modes: &[EvalMode],
    is_kind: bool,
) -> Result<bool, Problem> {
    let is_live = modes.contains(&EvalMode::LiveShadow);
    if let Some(field) = needs_workers(request) {
        check_workers(field, request, limits, is_live || is_kind)?;
        check_labels(request, limits)?;
        return Ok(true);
    }
    let field = "configurable.evalDistribution";
    match (request.distribution, limits.distribution) {
        (Some(Distribution::Cluster), None) => {
            let message = "this host has no workers: send `local`, or set `nats` in the section `[cluster]` of its configuration";
            Err(Problem::validation(field, message.to_owned()).with("reason", "no_cluster"))
        }
        (Some(Distribution::Cluster), Some(_)) if is_live || is_kind => {
            let message = "cannot be `cluster` for live tools and for evaluations other than plain suites, which only this host executes; send `local`";
            Err(Problem::validation(field, message.to_owned()).with("reason", "not_distributable"))
        }
        (Some(distribution), _) => Ok(distribution == Distribution::Cluster),
        (None, default) => Ok(default == Some(Distribution::Cluster) && !is_live && !is_kind),
    }
}

/// The member of a request that only workers can fulfil.
fn needs_workers(request: &CreateRun) -> Option<&'static str> {
    match &request.worker_command {
        Some(_) => Some("configurable.evalWorkerCommand"),
        None if request.worker_labels.is_empty() => None,
        None => Some(LABELS),
    }
}

/// Whether workers can execute the tasks of a run with this member.
fn check_workers(
    field: &str,
    request: &CreateRun,
    limits: &HostLimits,
    is_bound_to_host: bool,
) -> Result<(), Problem> {
    let refused = |message: &str, reason: &str| {
        Err(Problem::validation(field, message).with("reason", reason))
    };
    if limits.distribution.is_none() {
        let message = "this host has no workers: leave it out, or set `nats` in the section `[cluster]` of its configuration";
        return refused(message, "no_cluster");
    }
    if request.distribution == Some(Distribution::Local) {
        let message =
            "is for runs at workers: leave it out, or send `evalDistribution: \"cluster\"`";
        return refused(message, "not_distributable");
    }
    match is_bound_to_host {
        true => Err(not_at_workers(field)),
        false => Ok(()),
    }
}

/// Only sets of labels that the operator has listed are accepted, because each gets queues of its own.
fn check_labels(request: &CreateRun, limits: &HostLimits) -> Result<(), Problem> {
    let (labels, sets) = (&request.worker_labels, &limits.worker_labels);
    if labels.is_empty() || sets.contains(labels) {
        return Ok(());
    }
    let sets: Vec<String> = sets.iter().map(|it| format!("`{it}`")).collect();
    let known = match sets.is_empty() {
        true => "lists none".to_owned(),
        false => format!("lists {}", sets.join("; ")),
    };
    let message = format!(
        "must be exactly one of the sets in `labels` of the section `[cluster]` of this host, which {known}; got `{labels}`: correct it, or ask the operator to add it"
    );
    let problem = Problem::validation(LABELS, message);
    Err(problem.with("reason", "unknown_label"))
}

/// Adds the labels that the entry of the run's model requires of workers. `is_callable`: whether workers
/// can call the model.
///
/// # Errors
/// `validation_error` if no worker can execute the run.
pub fn pin_labels(
    eval: &mut EvalSpec,
    of_model: &WorkerLabels,
    is_callable: bool,
) -> Result<(), Problem> {
    let execution = &mut eval.execution;
    if !execution.is_distributed() {
        return Ok(());
    }
    let labels = execution.worker_labels.and(of_model).map_err(|problem| {
        let message = format!(
            "with `{of_model}`, which `worker_labels` of the model's entry requires, {problem}: require fewer labels"
        );
        Problem::validation(LABELS, message).with("reason", "too_many_labels")
    })?;
    if labels.is_empty() {
        return Ok(());
    }
    if !is_callable {
        let model = &eval.model;
        let message = format!(
            "cannot be required with the model `{}/{}`, which only this host can call; leave it out",
            model.provider, model.model
        );
        return Err(Problem::validation(LABELS, message).with("reason", "not_distributable"));
    }
    execution.worker_labels = labels;
    // The other member says it too.
    execution.distributed = false;
    Ok(())
}

/// The refusal of a member for a run that only this host can execute.
fn not_at_workers(field: &str) -> Problem {
    Problem::validation(field, NOT_AT_WORKERS).with("reason", "not_distributable")
}

/// Refuses what only workers can fulfil, for an agent that only this host reaches.
///
/// # Errors
/// `validation_error` that names the member.
pub fn check_at_host(request: &CreateRun) -> Result<(), Problem> {
    needs_workers(request).map_or(Ok(()), |field| Err(not_at_workers(field)))
}

/// Options about the tasks of a suite, which an evaluation kind replaces by its own.
fn check_no_suite_options(request: &CreateRun) -> Result<(), Problem> {
    let set = [
        ("evalTasks", !request.tasks.is_empty()),
        ("evalTaskTimeoutMs", request.task_timeout_ms.is_some()),
        (fixtures::FIXTURE_RUNS, !request.fixture_runs.is_empty()),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        None => Ok(()),
        Some((name, _)) => Err(Problem::validation(
            &format!("configurable.{name}"),
            "applies only to the tasks of plain suites; leave it out",
        )),
    }
}

/// Whether the suite may be run against the agent.
fn check_agent(
    request: &CreateRun,
    suite: &AgentEvalSuite,
    agent: &AgentFacts<'_>,
) -> Result<(), Problem> {
    if let Some(target) = &suite.target_agent_id
        && target != agent.agent_id
        && !request.target_override
    {
        return Err(Problem::validation(
            "agentId",
            format!(
                "the suite is written for agent `{target}`; set `configurable.evalTargetOverride` to run it anyway"
            ),
        ));
    }
    if let Some(allowed) = &suite.allowed_models
        && !allowed.contains(&agent.model_class)
    {
        return Err(Problem::validation(
            "agentId",
            format!(
                "the suite does not allow the agent's model class `{}`",
                agent.model_class.as_str()
            ),
        ));
    }
    Ok(())
}

/// The scored modes and tasks of a run, and the judges that score them.
struct Scoring {
    modes: Vec<EvalMode>,
    tasks: TaskIds,
    judge: Option<JudgePin>,
    judges: Vec<PinnedJudge>,
    safety_judge: Option<JudgePin>,
}

impl Scoring {
    fn has(&self, mode: EvalMode) -> bool {
        self.modes.contains(&mode)
    }
}

fn scoring(
    facts: &SuiteFacts<'_>,
    modes: Vec<EvalMode>,
    kind: Option<&mut KindPlan>,
    judges: &[ModelPin],
) -> Result<Scoring, Problem> {
    if let Some(kind) = kind {
        return Ok(Scoring {
            modes: std::mem::take(&mut kind.modes),
            tasks: std::mem::take(&mut kind.tasks).into(),
            judge: None,
            judges: Vec::new(),
            safety_judge: None,
        });
    }
    let outline = facts.outline;
    let adversarial = modes.contains(&EvalMode::Adversarial);
    let live = modes.contains(&EvalMode::LiveShadow);
    // With a judge, rubric expectations also count in adversarial and live runs: those modes
    // determine the origin of the input and of the tools, not how answers are scored.
    let rubrics = modes.contains(&EvalMode::Rubric) || (adversarial || live) && !judges.is_empty();
    let tasks = outline.scored(rubrics);
    if tasks.is_empty() {
        return Err(Problem::validation(
            "configurable.evalModes",
            "no task of the suite can be scored in these modes, because its tasks are rubric \
             tasks; add the mode `rubric`",
        ));
    }
    let judged = rubrics || first_judged(facts, &tasks).is_some();
    // Judges are pinned only if something is judged.
    let judging = if judged { judges } else { &[] };
    let document = facts.scoring_document;
    // Without rubrics and judged assertions there are no members, and `judge` below is `None` too.
    let members = match judging {
        [_, _, ..] => JudgePin::members(judging, &outline.rubrics, document).unwrap_or_default(),
        _ => Vec::new(),
    };
    let member = |judge| PinnedJudge {
        judge,
        endpoint: None,
    };
    Ok(Scoring {
        tasks,
        judge: JudgePin::of_all(judging, &outline.rubrics, document),
        judges: members.into_iter().map(member).collect(),
        // One judge looks for missing refusals, because a single doubt counts.
        safety_judge: judges
            .first()
            .filter(|_| adversarial)
            .map(JudgePin::of_safety),
        modes,
    })
}

/// The first of these tasks with an assertion that a judge decides.
fn first_judged(suite: &SuiteFacts<'_>, tasks: &TaskIds) -> Option<TaskId> {
    let document = suite.scoring_document?;
    tasks.iter().find(|task| {
        let scoring = document.of_task(task);
        scoring.is_some_and(|scoring| scoring.has(Check::is_judged))
    })
}

/// Whether there is a judge if an assertion needs one.
fn check_judge(suite: &SuiteFacts<'_>, scoring: &Scoring) -> Result<(), Problem> {
    match first_judged(suite, &scoring.tasks) {
        Some(task) if scoring.judge.is_none() => Err(Problem::validation(
            "evalSuiteRef",
            format!(
                "a judge decides assertions of task `{task}`, and this host has none; configure a \
                 judge (`[judge]`, --judge-url), or leave such tasks out"
            ),
        )
        .with("reason", "judge_missing")),
        _ => Ok(()),
    }
}

/// Whether assertions compare the answers of the run with those of its baseline.
fn compares_answers(
    suite: &SuiteFacts<'_>,
    scoring: &Scoring,
    baseline: Option<&BaselineFacts<'_>>,
) -> Result<bool, Problem> {
    let (Some(document), Some(baseline)) = (suite.scoring_document, baseline) else {
        return Ok(false);
    };
    let compares = |task: &TaskId| {
        let scoring = document.of_task(task);
        scoring.is_some_and(|it| it.has(Check::needs_baseline))
    };
    match scoring.tasks.iter().find(compares) {
        None => Ok(false),
        Some(_) if baseline.keeps_answers => Ok(true),
        Some(task) => Err(Problem::validation(
            "configurable.baselineRunId",
            format!(
                "an assertion of task `{task}` compares the answer with that of the baseline, and \
                 the task content of run `{}` was deleted; name a run that still has its content",
                baseline.run_id
            ),
        )
        .with("reason", "baseline_content_deleted")),
    }
}

/// Whether the host runs suites with that many tasks.
///
/// # Errors
/// `validation_error`.
pub fn check_size(tasks: usize, limits: &HostLimits) -> Result<(), Problem> {
    if tasks > limits.max_tasks_per_suite {
        return Err(Problem::validation(
            "evalSuiteRef",
            format!(
                "the suite has {tasks} tasks, but this host runs at most {} \
                 (`limits.max_tasks_per_suite` in its configuration)",
                limits.max_tasks_per_suite
            ),
        ));
    }
    Ok(())
}

/// Whether the agent accepts the inputs of all tasks. An evaluation kind builds the inputs itself.
fn check_inputs(outline: &SuiteOutline) -> Result<(), Problem> {
    match &outline.refused {
        None => Ok(()),
        Some(task) => Err(Problem::validation(
            "evalSuiteRef",
            format!("the input of task `{task}` does not satisfy the agent's task schema"),
        )),
    }
}

/// The baseline of a regression run, if one is named.
fn pin_baseline(
    request: &CreateRun,
    suite: &SuiteFacts<'_>,
    scoring: &Scoring,
    facts: Option<&BaselineFacts<'_>>,
) -> Result<Option<Baseline>, Problem> {
    let field = "configurable.baselineRunId";
    let named = request.baseline_run_id.is_some();
    let regression = scoring.has(EvalMode::Regression);
    let required = named || regression && scoring.modes.len() == 1;
    if facts.is_none() && required {
        return Err(Problem::validation(field, NO_BASELINE));
    }
    if let Some(facts) = facts
        && let Some(difference) = difference(facts, request, suite, scoring)
    {
        let run = facts.run_id;
        let message =
            format!("run {run} cannot be the baseline: {difference}; choose another run, or none");
        return Err(Problem::validation(field, message));
    }
    if named && !regression {
        return Err(Problem::validation(
            field,
            "runs in these modes are not compared with a baseline; leave the baseline out",
        ));
    }
    Ok(facts.map(|facts| Baseline {
        run_id: facts.run_id.clone(),
        aggregate_score: facts.aggregate_score,
    }))
}

/// Why a run of this tenant cannot be the baseline; `None` if it can.
fn difference(
    baseline: &BaselineFacts<'_>,
    request: &CreateRun,
    suite: &SuiteFacts<'_>,
    scoring: &Scoring,
) -> Option<String> {
    let has = |mode| baseline.modes.contains(&mode);
    let document = suite.document;
    if !baseline.conclusive {
        return Some("it did not complete with every task judged".to_owned());
    }
    if baseline.suite_id != document.suite_id || baseline.suite_version != document.version {
        return Some(format!(
            "it evaluated {}@{} instead of {}@{}",
            baseline.suite_id, baseline.suite_version, document.suite_id, document.version
        ));
    }
    if *baseline.tasks != scoring.tasks {
        return Some(format!(
            "it evaluated other tasks ({} instead of {})",
            baseline.tasks.len(),
            scoring.tasks.len()
        ));
    }
    let differs = [
        // A run on live tools is not comparable with a run on fixtures.
        (has(EvalMode::LiveShadow), "it used live tools"),
        (
            has(EvalMode::Adversarial) != scoring.has(EvalMode::Adversarial),
            "only one of the two runs is in mode `adversarial`",
        ),
        (baseline.ignore != request.ignore, "its ignore list differs"),
        (
            baseline.scoring_digest != suite.scoring,
            "its scoring document differs",
        ),
        (
            baseline.judge != scoring.judge.as_ref(),
            "its judge differs",
        ),
        (
            baseline.safety_judge != scoring.safety_judge.as_ref(),
            "another judge checked it for missing refusals",
        ),
    ];
    let first = differs.into_iter().find(|(differs, _)| *differs);
    first.map(|(_, reason)| reason.to_owned())
}

/// The modes that the run records as not run.
///
/// ADR 8: RFC 0081 has no field for the baseline, so a client that knows only the RFC requests
/// `regression` with other modes and cannot name one. The other modes are run.
fn modes_left_out(
    request: &CreateRun,
    suite: &AgentEvalSuite,
    modes: &[EvalMode],
    baseline: Option<&Baseline>,
) -> Vec<EvalMode> {
    let mut left_out = Vec::new();
    if modes.contains(&EvalMode::Regression) && baseline.is_none() {
        left_out.push(EvalMode::Regression);
    }
    let live = EvalMode::LiveShadow;
    if request.modes.is_none() && suite.modes.contains(&live) && !modes.contains(&live) {
        left_out.push(live);
    }
    left_out
}

fn usable_modes(
    request: &CreateRun,
    suite: &AgentEvalSuite,
    scored: &[EvalMode],
) -> Result<Vec<EvalMode>, Problem> {
    let field = "configurable.evalModes";
    let mut modes = request.modes.clone().unwrap_or_else(|| suite.modes.clone());
    let names = |modes: &[EvalMode]| {
        let names: Vec<&str> = modes.iter().map(|mode| mode.as_str()).collect();
        names.join(", ")
    };
    // A caller that named no mode may not know that modes can be chosen.
    let choice = match request.modes {
        None => "; or name the modes to score (`configurable.evalModes`, --mode)",
        Some(_) => "",
    };
    for mode in &modes {
        if !suite.modes.contains(mode) {
            return Err(Problem::validation(
                field,
                format!(
                    "the suite does not declare the mode `{}`; it declares {}",
                    mode.as_str(),
                    names(&suite.modes)
                ),
            ));
        }
        if !scored.contains(mode) {
            let remedy = match mode {
                EvalMode::Rubric => "; configure a judge (`[judge]`) to score rubrics",
                EvalMode::LiveShadow => "; configure live tools (`[[tools.mcp]]`) to use it",
                _ => "",
            };
            return Err(Problem::validation(
                field,
                format!(
                    "this host does not score the mode `{}`; it scores {}{remedy}{choice}",
                    mode.as_str(),
                    names(scored)
                ),
            ));
        }
    }
    if request.modes.is_some() && modes.contains(&EvalMode::LiveShadow) && modes.len() > 1 {
        return Err(Problem::validation(
            field,
            "`live-shadow` cannot be mixed with other modes",
        ));
    }
    // A named baseline requests the comparison. It changes no score, so the suite need not declare
    // the mode.
    let regression = EvalMode::Regression;
    let is_live = modes == [EvalMode::LiveShadow];
    let is_compared = request.baseline_run_id.is_some() && !is_live;
    if is_compared && scored.contains(&regression) && !modes.contains(&regression) {
        modes.push(regression);
    }
    // Live tools are called only on explicit request, not because the suite supports them.
    Ok(match modes.as_slice() {
        [EvalMode::LiveShadow] => modes,
        _ => modes
            .into_iter()
            .filter(|mode| *mode != EvalMode::LiveShadow || request.modes.is_some())
            .collect(),
    })
}
