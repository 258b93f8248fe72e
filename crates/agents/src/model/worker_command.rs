//! Commands that workers offer under a name.
//!
//! The operator of a worker configures the command line. A run names the command, and host and
//! worker compute the same identity from the name, so that only workers with a command of this name
//! get its tasks. No command line is ever sent.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::model::command::CommandModel;
use crate::model::entries::permits;
use crate::ports::model::{Model, ModelBinding, ModelError, ModelInfo};
use crate::rules::worker_labels::{MAX_COMMAND, WorkerLabels, is_command_name};
use crate::rules::{COMMAND_PROVIDER, EndpointPin, ModelReply, ModelRequest, RetryPolicy};
use touchstone_kit::integrity;

/// Separates these digests from all others.
const RECIPE: &str = "touchstone:worker-command:v1";
/// The reason of a host that would have to execute a command of workers itself.
const ONLY_WORKERS: &str = "only_workers";
/// Calls that a host allows at the same time. Each worker has the limit of its own command.
const MAX_CALLS: u32 = 4096;

/// A command in the configuration of a worker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerCommand {
    /// The name that runs use.
    pub name: String,
    /// The command line, for the shell. It may contain secrets.
    pub command: SecretString,
}

impl WorkerCommand {
    /// The command as a model of this process.
    pub fn binding(&self) -> ModelBinding {
        let model = CommandModel::new(self.command.expose_secret()).named(&self.name);
        ModelBinding {
            permits: permits(model.info().max_concurrency),
            model: Arc::new(model),
            endpoint: Some(endpoint(&self.name)),
            worker_labels: WorkerLabels::default(),
        }
    }
}

/// Checks the commands of a worker.
///
/// # Errors
/// The first fault.
pub fn check(commands: &[WorkerCommand]) -> Result<(), String> {
    for (index, WorkerCommand { name, command }) in (0..).zip(commands) {
        if !is_command_name(name) {
            return Err(format!(
                "has the name `{name}`, which must have 1 to {MAX_COMMAND} letters, digits, `-`, `_` and `.`"
            ));
        }
        if command.expose_secret().trim().is_empty() {
            return Err(format!("must set `command` of `{name}`"));
        }
        if commands.iter().take(index).any(|it| it.name == *name) {
            return Err(format!("names the command `{name}` twice"));
        }
    }
    Ok(())
}

/// A command of workers, as a host names it in its tasks.
pub fn at_workers(name: &str) -> ModelBinding {
    let info = ModelInfo {
        provider: COMMAND_PROVIDER.to_owned(),
        model: name.to_owned(),
        price: None,
        max_concurrency: MAX_CALLS,
        timeout: super::command::TIMEOUT,
        retry: RetryPolicy::default(),
    };
    ModelBinding {
        model: Arc::new(Elsewhere(info)),
        permits: permits(MAX_CALLS),
        endpoint: Some(endpoint(name)),
        worker_labels: WorkerLabels::default(),
    }
}

/// Whether only workers can execute invocations of this model.
pub fn is_at_workers(model: &ModelBinding) -> bool {
    let info = model.model.info();
    info.provider == COMMAND_PROVIDER && model.endpoint == Some(endpoint(&info.model))
}

fn endpoint(name: &str) -> EndpointPin {
    EndpointPin {
        url: None,
        digest: integrity::of(format!("{RECIPE}:{name}").as_bytes()),
    }
}

/// Answers no call: only workers have the command.
struct Elsewhere(ModelInfo);

#[async_trait]
impl Model for Elsewhere {
    async fn complete(&self, _: &ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        Err(ModelError::unavailable(ONLY_WORKERS, false))
    }

    fn info(&self) -> &ModelInfo {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn command(name: &str, line: &str) -> WorkerCommand {
        WorkerCommand {
            name: name.to_owned(),
            command: line.to_owned().into(),
        }
    }

    #[test]
    fn host_and_worker_identify_a_command_by_its_name() {
        let at_host = at_workers("triage").identity();
        for line in ["./agent.py", "./agent.py --token secret"] {
            let of_worker = command("triage", line);
            assert_eq!(of_worker.binding().identity(), at_host);
            assert!(!format!("{of_worker:?}").contains("secret"));
        }
        assert_ne!(at_workers("other").identity(), at_host);
        assert_eq!(at_host.model.provider, "command");
        assert_eq!(at_host.model.model, "triage");
    }

    #[rstest]
    #[case(&[command("a b", "x")], "has the name `a b`")]
    #[case(&[command("", "x")], "has the name ``")]
    #[case(&[command("a", " ")], "must set `command` of `a`")]
    #[case(&[command("a", "x"), command("b", "x"), command("a", "y")], "the command `a` twice")]
    fn commands_without_a_clear_meaning_are_refused(
        #[case] commands: &[WorkerCommand],
        #[case] expected: &str,
    ) {
        let problem = check(commands).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }
}
