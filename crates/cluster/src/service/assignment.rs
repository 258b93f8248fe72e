//! An invocation as a message, and back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use touchstone_agents::ports::agent::{AgentDefinition, Dialogue, Invocation, UserTurns};
use touchstone_agents::ports::model::{Model, ModelBinding, ModelError, ModelInfo};
use touchstone_agents::rules::attachment::Attachment;
use touchstone_agents::rules::prices::ModelPrice;
use touchstone_agents::rules::worker_labels::{NO_LABELS, WorkerLabels};
use touchstone_agents::rules::{ModelReply, ModelRequest};
use touchstone_openwop::schema::compile_untrusted;

use crate::rules::access::pools::Pools;
use crate::rules::access::rights::Needs;
use crate::rules::lane::Lane;
use crate::rules::wire::{Agent, Assignment, File, ModelRole, Served, Talk, TaskFixtures, Turns};
use crate::service::attempt::Attempt;
use crate::service::limits::SharedPermits;

/// The lane of the workers that can execute an invocation.
pub(super) fn lane(invocation: &Invocation<'_>, pools: &Pools, large: bool) -> Option<Lane> {
    let user = match invocation.dialogue.map(|it| it.turns) {
        Some(UserTurns::Simulated { model, .. }) => Some(model.identity()),
        _ => None,
    };
    let pool = pools.of(invocation.tenant);
    let model = invocation.model.identity();
    let labels = invocation.worker_labels.as_slice();
    Lane::with(&pool, &model, user.as_ref(), labels, large)
}

/// What a worker needs to execute an invocation. `None` if only this process can execute it.
pub(super) fn assigned(invocation: &Invocation<'_>) -> Option<Assignment> {
    if invocation.live.is_some() {
        return None;
    }
    let talk = match invocation.dialogue {
        None => None,
        Some(dialogue) => Some(talk(&dialogue)?),
    };
    let agent = invocation.agent;
    Some(Assignment {
        tenant: invocation.tenant.clone(),
        run: invocation.run.clone(),
        node: invocation.node_id.clone(),
        agent: Agent {
            agent: agent.agent_id.clone(),
            model_class: agent.model_class,
            prompt: agent.prompt.to_string(),
            tool_allowlist: agent.tool_allowlist.clone(),
            return_schema: agent.return_schema.as_ref().map(|(raw, _)| (**raw).clone()),
        },
        agent_version: invocation.agent_version.to_owned(),
        agent_channel: invocation.agent_channel.map(str::to_owned),
        model: served(invocation.model)?,
        input: invocation.input.clone(),
        fixtures: TaskFixtures::of(invocation.fixtures, invocation.recorded),
        dialogue: talk,
        temperature: invocation.temperature,
        max_tokens: invocation.max_tokens,
        max_loop_iterations: invocation.max_loop_iterations,
        timeout_ms: invocation
            .timeout
            .and_then(|it| u64::try_from(it.as_millis()).ok()),
    })
}

/// What a task needs of its worker.
pub(super) fn needs(task: &Assignment, labels: &WorkerLabels, bytes: usize) -> Needs {
    let user = match task.dialogue.as_ref().map(|talk| &talk.turns) {
        Some(Turns::Simulated { model, .. }) => Some(&**model),
        _ => None,
    };
    let models = [Some(&task.model), user].into_iter().flatten();
    let models = models.map(|it| format!("{}/{}", it.model.provider, it.model.model));
    Needs {
        tenant: task.tenant.clone(),
        models: models.collect(),
        labels: labels.clone(),
        bytes,
    }
}

fn served(binding: &ModelBinding) -> Option<Served> {
    Some(Served {
        model: binding.pin(),
        endpoint: binding.endpoint.clone()?,
        price: binding.model.info().price.clone(),
    })
}

fn talk(dialogue: &Dialogue<'_>) -> Option<Talk> {
    Some(Talk {
        files: dialogue.files.iter().map(File::from).collect(),
        messages: dialogue.messages.to_vec(),
        turns: match dialogue.turns {
            UserTurns::None => Turns::None,
            UserTurns::Scripted(messages) => Turns::Scripted(messages.to_vec()),
            UserTurns::Simulated { user, model } => Turns::Simulated {
                user: user.clone(),
                model: Box::new(served(model)?),
            },
        },
    })
}

/// A task that was granted, with the models of this worker.
pub(super) struct Job {
    task: Assignment,
    agent: AgentDefinition,
    files: Vec<Attachment>,
    model: ModelBinding,
    user: Option<ModelBinding>,
}

impl Job {
    /// `None` if this worker does not serve a model of the task, or its schema is not valid.
    pub fn new(
        mut task: Assignment,
        serves: impl Fn(&Served) -> Option<ModelBinding>,
    ) -> Option<Self> {
        let priced = |wanted: &Served| {
            let binding = serves(wanted)?;
            Some(priced(binding, wanted.price.clone()))
        };
        let model = priced(&task.model)?;
        let (files, user) = match &mut task.dialogue {
            None => (Vec::new(), None),
            Some(talk) => {
                let user = match &talk.turns {
                    Turns::Simulated { model, .. } => Some(priced(model)?),
                    Turns::None | Turns::Scripted(_) => None,
                };
                let files = std::mem::take(&mut talk.files);
                (files.into_iter().map(Attachment::from).collect(), user)
            }
        };
        let return_schema = match &task.agent.return_schema {
            None => None,
            Some(raw) => Some((Arc::new(raw.clone()), compile_untrusted(raw).ok()?)),
        };
        let agent = AgentDefinition {
            agent_id: task.agent.agent.clone(),
            model_class: task.agent.model_class,
            prompt: task.agent.prompt.as_str().into(),
            tool_allowlist: task.agent.tool_allowlist.clone(),
            return_schema,
        };
        Some(Self {
            task,
            agent,
            files,
            model,
            user,
        })
    }

    /// With the limits that the owner of the attempt keeps for all workers.
    pub fn limited_by(mut self, attempt: &Arc<Attempt>) -> Self {
        let limited = |binding: ModelBinding, role| ModelBinding {
            permits: Arc::new(SharedPermits {
                own: binding.permits,
                attempt: Arc::clone(attempt),
                role,
            }),
            ..binding
        };
        self.model = limited(self.model, ModelRole::Agent);
        let user = self.user.take();
        self.user = user.map(|it| limited(it, ModelRole::SimulatedUser));
        self
    }

    /// Whether a model plays the user.
    pub fn has_simulated_user(&self) -> bool {
        self.task.has_simulated_user()
    }

    pub fn invocation(&self, invocation_id: String) -> Invocation<'_> {
        let task = &self.task;
        Invocation {
            tenant: &task.tenant,
            run: &task.run,
            invocation_id,
            agent: &self.agent,
            agent_version: &task.agent_version,
            agent_channel: task.agent_channel.as_deref(),
            model: &self.model,
            input: &task.input,
            dialogue: task.dialogue.as_ref().map(|talk| Dialogue {
                files: &self.files,
                messages: &talk.messages,
                turns: self.turns(&talk.turns),
            }),
            fixtures: task.fixtures.as_ref().and_then(TaskFixtures::suite),
            recorded: task.fixtures.as_ref().and_then(TaskFixtures::recorded),
            live: None,
            temperature: task.temperature,
            max_tokens: task.max_tokens,
            max_loop_iterations: task.max_loop_iterations,
            timeout: task.timeout_ms.map(Duration::from_millis),
            node_id: &task.node,
            worker_labels: &NO_LABELS,
        }
    }

    fn turns<'a>(&'a self, turns: &'a Turns) -> UserTurns<'a> {
        match (turns, &self.user) {
            (Turns::Scripted(messages), _) => UserTurns::Scripted(messages),
            (Turns::Simulated { user, .. }, Some(model)) => UserTurns::Simulated { user, model },
            _ => UserTurns::None,
        }
    }
}

/// The binding with the price that the owner counts, so that the cost of a task does not depend on
/// who executes it.
fn priced(binding: ModelBinding, price: Option<ModelPrice>) -> ModelBinding {
    if binding.model.info().price == price {
        return binding;
    }
    let info = ModelInfo {
        price,
        ..binding.model.info().clone()
    };
    let model = Arc::new(Priced {
        model: binding.model,
        info,
    });
    ModelBinding { model, ..binding }
}

struct Priced {
    model: Arc<dyn Model>,
    info: ModelInfo,
}

#[async_trait]
impl Model for Priced {
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        self.model.complete(request).await
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }
}
