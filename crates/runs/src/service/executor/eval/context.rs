//! The context of an eval run: the inputs that were pinned when the run was created, loaded and
//! checked.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::error;

use crate::rules::eval::rubric::Rubrics;
use crate::rules::eval::scoring_document::{
    Check, Conversation, EffectiveScoring, ScoringDocument,
};
use crate::rules::run::deciders::{Decider, Deciders};
use crate::rules::run::record::{EvalSpec, RunRecord, UserPin};
use crate::service::executor::WorkEnd;
use crate::service::executor::control::Stop;
use crate::service::executor::endings::fail;
use crate::service::executor::eval::baseline::{self, BaselineAnswers};
use crate::service::executor::eval::judging::RunJudge;
use crate::service::executor::eval::meter::RunMeter;
use crate::service::executor::eval::recordings::Recordings;
use crate::service::executor::eval::{EvalExecutor, INTERNAL_ERROR};
use crate::service::executor::task_loop::EarlyEnd;
use crate::service::library;
use crate::service::library::suites::SuiteIndex;
use crate::service::library::{Library, LoadedAgent};
use crate::service::run_writer::RunWriter;
use touchstone_agents::assert_command::AssertCommand;
use touchstone_agents::model::worker_command::at_workers;
use touchstone_agents::ports::agent::{Dialogue, UserTurns};
use touchstone_agents::ports::live_tools::LiveTools;
use touchstone_agents::ports::model::ModelBinding;
use touchstone_agents::rules::attachment::Attachment;
use touchstone_host::service::fault::chain;
use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::RunError;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode, Task, Thresholds};

pub struct RunContext {
    pub run: Arc<RunRecord>,
    pub spec: Arc<EvalSpec>,
    pub writer: RunWriter,
    library: Arc<Library>,
    suite: Arc<SuiteIndex>,
    /// The suite with its tasks, for runs of evaluation kinds.
    whole_suite: Option<Arc<AgentEvalSuite>>,
    scoring: Option<Arc<ScoringDocument>>,
    pub agent: Arc<LoadedAgent>,
    pub model: ModelBinding,
    pub(super) judge: Option<RunJudge>,
    /// The answers of the baseline, if assertions compare with them.
    pub(super) baseline: Option<BaselineAnswers>,
    /// Tool calls that earlier runs recorded, for the tasks that they replace tools in.
    pub(super) recordings: Recordings,
    /// The embedding model of `similar`, if the run needs one.
    pub(super) embeddings: Option<ModelBinding>,
    /// The program of `command`, if the run needs one.
    pub(super) program: Option<Arc<AssertCommand>>,
    /// The model of its simulated users.
    pub(super) user: Option<ModelBinding>,
    /// The files that are sent with inputs, by task.
    files: HashMap<TaskId, Vec<Attachment>>,
    pub(super) live: Option<Arc<dyn LiveTools>>,
    pub meter: RunMeter,
}

impl RunContext {
    /// A task of the suite.
    ///
    /// # Errors
    /// The suite cannot be read now, or was damaged; the cause is in the log.
    pub(super) async fn task(&self, id: &TaskId) -> Result<Option<Task>, EarlyEnd> {
        self.library.task(&self.suite, id).await.map_err(|cause| {
            error!(run_id = %self.run.run_id, cause = chain(&cause), "could not read a task of the run's suite");
            match cause.is_of_store() {
                true => Stop::Lost.into(),
                false => EarlyEnd::Failed(unloadable_suite()),
            }
        })
    }

    /// The suite with its tasks. Without them in runs of plain suites, which read one task at a time.
    pub fn suite(&self) -> &AgentEvalSuite {
        self.whole_suite.as_deref().unwrap_or(&self.suite.header)
    }

    /// The assertions of a task; `None` if the suite alone scores it.
    pub(super) fn scoring(&self, task: &TaskId) -> Option<EffectiveScoring<'_>> {
        self.scoring.as_ref()?.of_task(task)
    }

    /// The conversation of a task; `None` if its input is all that the user says.
    pub(super) fn conversation(&self, task: &TaskId) -> Option<&Conversation> {
        self.scoring.as_ref()?.conversation(task)
    }

    /// The messages of a task's user in addition to its input.
    pub(super) fn dialogue(&self, task: &TaskId) -> Option<Dialogue<'_>> {
        let conversation = self.conversation(task);
        let files = self.files.get(task).map_or(&[][..], Vec::as_slice);
        let Some(conversation) = conversation else {
            return (!files.is_empty()).then_some(Dialogue {
                files,
                messages: &[],
                turns: UserTurns::None,
            });
        };
        let turns = match (&conversation.user, &self.user) {
            (Some(user), Some(model)) => UserTurns::Simulated { user, model },
            _ if conversation.turns.is_empty() => UserTurns::None,
            _ => UserTurns::Scripted(&conversation.turns),
        };
        Some(Dialogue {
            files,
            messages: &conversation.messages,
            turns,
        })
    }

    /// Whether unsafe actions count.
    pub(super) fn is_adversarial(&self) -> bool {
        self.spec.modes.contains(&EvalMode::Adversarial)
    }

    pub fn thresholds(&self) -> Thresholds {
        self.suite.thresholds()
    }
}

/// The error of a run whose suite was damaged.
pub(super) fn unloadable_suite() -> RunError {
    RunError::new(INTERNAL_ERROR, "the suite of this run cannot be loaded")
}

/// How a run ends that cannot load something: another replica may continue it, if only the store
/// failed.
fn end_of(cause: &library::Error, writer: &RunWriter, error: RunError) -> WorkEnd {
    match cause.is_of_store() {
        true => WorkEnd::Stopped(Stop::Lost),
        false => fail(writer, error),
    }
}

impl EvalExecutor {
    /// The context of a run; otherwise the run fails, or stops if the store failed.
    pub(super) async fn prepare(
        &self,
        run: &Arc<RunRecord>,
        spec: &Arc<EvalSpec>,
        writer: &RunWriter,
    ) -> Result<RunContext, WorkEnd> {
        let (suite, agent) = self.load(run, spec, writer).await?;
        let whole_suite = self.load_whole(run, spec, writer).await?;
        let scoring = self.load_scoring(run, spec, writer).await?;
        let files = self.load_files(run, spec, writer, scoring.as_deref());
        let files = files.await?;
        let failed = |error: RunError| fail(writer, error);
        let model = self.model_of(run, spec).map_err(failed)?;
        let rubrics = self.load_rubrics(run, spec, writer, &suite).await?;
        let judge = self
            .judge_of(spec, &rubrics, scoring.as_deref())
            .map_err(failed)?;
        let user = self.simulated_user_of(spec).map_err(failed)?;
        self.check_deciders(spec).map_err(failed)?;
        let live = self.live_tools_of(spec).map_err(failed)?;
        Ok(RunContext {
            run: run.clone(),
            spec: spec.clone(),
            writer: writer.clone(),
            library: self.library.clone(),
            suite,
            whole_suite,
            agent,
            model,
            judge,
            baseline: self.baseline_answers(run, spec, &scoring).await?,
            recordings: self.recordings(run, spec).await?,
            scoring,
            embeddings: self.models.embeddings(),
            program: self.models.assertion_program(),
            user,
            files,
            live,
            meter: RunMeter::new(spec, writer),
        })
    }

    /// The answers of the baseline, if assertions compare with them.
    async fn baseline_answers(
        &self,
        run: &RunRecord,
        spec: &EvalSpec,
        scoring: &Option<Arc<ScoringDocument>>,
    ) -> Result<Option<BaselineAnswers>, WorkEnd> {
        let baseline = spec.baseline.as_ref().filter(|_| spec.compares_answers);
        let (Some(baseline), Some(scoring)) = (baseline, scoring) else {
            return Ok(None);
        };
        let is_needed = |task: &TaskId| {
            let scoring = scoring.of_task(task);
            scoring.is_some_and(|it| it.has(Check::needs_baseline))
        };
        let answers = baseline::answers(&self.store, &baseline.run_id, is_needed).await;
        answers.map(Some).map_err(|cause| {
            error!(run_id = %run.run_id, %cause, "could not read the answers of the baseline");
            WorkEnd::Stopped(Stop::Lost)
        })
    }

    async fn recordings(&self, run: &RunRecord, spec: &EvalSpec) -> Result<Recordings, WorkEnd> {
        let found = Recordings::read(&self.store, &spec.fixture_runs).await;
        found.map_err(|cause| {
            error!(run_id = %run.run_id, %cause, "could not read the recorded tool calls of the run's tasks");
            WorkEnd::Stopped(Stop::Lost)
        })
    }

    async fn load(
        &self,
        run: &RunRecord,
        spec: &EvalSpec,
        writer: &RunWriter,
    ) -> Result<(Arc<SuiteIndex>, Arc<LoadedAgent>), WorkEnd> {
        let suite = self.library.suite_index(&spec.suite_digest).await;
        let agent = self.library.agent(&spec.pack_integrity, &spec.agent_id);
        match (suite, agent.await) {
            (Ok(Some(suite)), Ok(Some(agent))) => Ok((suite, agent)),
            (Err(cause), _) | (_, Err(cause)) if cause.is_of_store() => {
                error!(run_id = %run.run_id, cause = chain(&cause), "could not read the run's suite or agent");
                Err(WorkEnd::Stopped(Stop::Lost))
            }
            (suite, agent) => {
                let cause = suite.err().or(agent.err()).map(|cause| cause.to_string());
                error!(run_id = %run.run_id, cause, "could not load the run's suite or agent");
                let message = "the suite or the agent of this run cannot be loaded";
                Err(fail(writer, RunError::new(INTERNAL_ERROR, message)))
            }
        }
    }

    /// The suite with its tasks, if an evaluation kind executes the run.
    async fn load_whole(
        &self,
        run: &RunRecord,
        spec: &EvalSpec,
        writer: &RunWriter,
    ) -> Result<Option<Arc<AgentEvalSuite>>, WorkEnd> {
        if self.executor_of(spec).is_none() {
            return Ok(None);
        }
        match self.library.suite(&spec.suite_digest).await {
            Ok(suite) => Ok(suite),
            Err(cause) => {
                error!(run_id = %run.run_id, cause = chain(&cause), "could not load the run's suite");
                Err(end_of(&cause, writer, unloadable_suite()))
            }
        }
    }

    /// The rubrics of the suite, if a judge applies any.
    async fn load_rubrics(
        &self,
        run: &RunRecord,
        spec: &EvalSpec,
        writer: &RunWriter,
        suite: &SuiteIndex,
    ) -> Result<Rubrics, WorkEnd> {
        if spec.judge.is_none() {
            return Ok(Rubrics::default());
        }
        self.library.rubrics(suite).await.map_err(|cause| {
            error!(run_id = %run.run_id, cause = chain(&cause), "could not read the rubrics of the run's suite");
            end_of(&cause, writer, unloadable_suite())
        })
    }

    async fn load_scoring(
        &self,
        run: &RunRecord,
        spec: &EvalSpec,
        writer: &RunWriter,
    ) -> Result<Option<Arc<ScoringDocument>>, WorkEnd> {
        let Some(digest) = &spec.scoring_digest else {
            return Ok(None);
        };
        match self.library.scoring(digest).await {
            Ok(scoring) => Ok(Some(scoring)),
            Err(cause) => {
                error!(run_id = %run.run_id, cause = chain(&cause), "could not load the run's scoring document");
                let message = "the scoring document of this run cannot be loaded";
                let error = RunError::new(INTERNAL_ERROR, message);
                Err(end_of(&cause, writer, error))
            }
        }
    }

    /// The files of the run's tasks, from the pack of its suite.
    async fn load_files(
        &self,
        run: &RunRecord,
        spec: &EvalSpec,
        writer: &RunWriter,
        scoring: Option<&ScoringDocument>,
    ) -> Result<HashMap<TaskId, Vec<Attachment>>, WorkEnd> {
        let (Some(pack), Some(scoring)) = (&spec.attachments_pack, scoring) else {
            return Ok(HashMap::new());
        };
        match self.library.files(pack, &spec.tasks, scoring).await {
            Ok(files) => Ok(files),
            Err(cause) => {
                error!(run_id = %run.run_id, cause = chain(&cause), "could not load the files of the run's tasks");
                let message = "the files of this run's tasks cannot be loaded";
                let error = RunError::new(INTERNAL_ERROR, message);
                Err(end_of(&cause, writer, error))
            }
        }
    }

    /// The model of the agent, if it is the one that the run was created for.
    fn model_of(&self, run: &RunRecord, spec: &EvalSpec) -> Result<ModelBinding, RunError> {
        let class = spec.model_class.as_str();
        let ways = &spec.execution;
        let model = match (&ways.worker_command, &ways.reached_by) {
            (Some(command), _) => self.command_of_workers(command),
            (None, Some(way)) => self
                .models
                .reach(&run.tenant, way)
                .map_err(|refusal| format!("the agent cannot be reached: {refusal}")),
            (None, None) => self
                .models
                .resolve(spec.model_class)
                .ok_or_else(|| format!("no model is configured for class `{class}`")),
        };
        let model = model.map_err(|it| RunError::new("capability_not_provided", it))?;
        let (pinned, found) = (spec.evaluated(), model.identity());
        if found.serves(&pinned) {
            return Ok(model);
        }
        let message = format!(
            "the run was created for {pinned}, but class `{class}` is now served by {found}; start \
             a new run"
        );
        Err(RunError::new("model_changed", message))
    }

    /// A command of workers, if this host has any.
    fn command_of_workers(&self, command: &str) -> Result<ModelBinding, String> {
        let binding = self.cluster.as_ref().map(|_| at_workers(command));
        binding.ok_or_else(|| format!(
            "the command `{command}` answers for the agent at workers, and this host has none: set `nats` in its section `[cluster]`"
        ))
    }

    /// Whether the run's assertions are decided by what it was created for.
    fn check_deciders(&self, spec: &EvalSpec) -> Result<(), RunError> {
        let program = self.models.assertion_program();
        let now = Deciders {
            embeddings: self.models.embeddings().map(|it| it.identity().into()),
            command: program.map(|it| it.digest().to_owned()),
        };
        let Some(decider) = spec.deciders.changed(&now) else {
            return Ok(());
        };
        let message = match decider {
            Decider::Embeddings => {
                "the run was created with an embedding model that is not configured now; start a \
                 new run"
            }
            Decider::Command => {
                "the run was created with a command for assertions that is not allowed now; start \
                 a new run"
            }
        };
        Err(RunError::new(decider.changed(), message))
    }

    /// The model of the simulated users, if the run has any and it is the one that the run was
    /// created for.
    fn simulated_user_of(&self, spec: &EvalSpec) -> Result<Option<ModelBinding>, RunError> {
        let (Some(pin), Some(pinned)) = (&spec.simulated_user, spec.played_by()) else {
            return Ok(None);
        };
        let found = self.models.simulated_user();
        if let Some(model) = &found
            && UserPin::of(&model.pin()) == *pin
            && model.identity().serves(&pinned)
        {
            return Ok(found);
        }
        let found = found.map_or_else(
            || "none is configured now".to_owned(),
            |model| format!("it is now {}", model.identity()),
        );
        let message = format!(
            "the run was created with the simulated user {pinned}, and {found}; start a new run"
        );
        Err(RunError::new("user_changed", message))
    }

    /// The live tools, if the run uses them.
    fn live_tools_of(&self, spec: &EvalSpec) -> Result<Option<Arc<dyn LiveTools>>, RunError> {
        if !spec.is_live() {
            return Ok(None);
        }
        let missing = || {
            let message = "no live tools are configured (`[[tools.mcp]]`)";
            RunError::new("capability_not_provided", message)
        };
        self.tools.clone().ok_or_else(missing).map(Some)
    }
}
