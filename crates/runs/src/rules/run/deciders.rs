//! What decides assertions besides this host and the judge: an embedding model, and a command of
//! the operator. Both are pinned when a run is created, so that one run never has decisions of two.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::run::record::ModelPin;
use crate::rules::run::task_ids::TaskIds;
use touchstone_agents::rules::EndpointPin;
use touchstone_agents::rules::ModelIdentity;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;

/// The pins of a run; empty if it has no such assertions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deciders {
    /// The embedding model of `similar`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<EmbeddingsPin>,
    /// `sha256-<base64>` of the command line of `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// An embedding model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddingsPin {
    #[serde(flatten)]
    pub model: ModelPin,
    /// Its endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointPin>,
}

impl From<ModelIdentity> for EmbeddingsPin {
    fn from(identity: ModelIdentity) -> Self {
        Self {
            model: identity.model,
            endpoint: identity.endpoint,
        }
    }
}

/// Separates these digests from all others.
const EMBEDDINGS_RECIPE: &str = "touchstone:embeddings:v1";

impl EmbeddingsPin {
    /// `sha256-<base64>` over everything that determines a similarity. As with judges, the endpoint
    /// is pinned beside it.
    pub fn identity(&self) -> String {
        let document = json!({"recipe": EMBEDDINGS_RECIPE, "model": self.model});
        integrity::of(canonical_text(&document).as_bytes())
    }
}

/// A kind of decider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    Embeddings,
    Command,
}

impl Decider {
    pub const fn of(check: &Check) -> Option<Self> {
        match check {
            Check::Similar(_) => Some(Self::Embeddings),
            Check::Command(_) => Some(Self::Command),
            _ => None,
        }
    }

    /// The label of a run that needs it and has none.
    pub const fn missing(self) -> &'static str {
        match self {
            Self::Embeddings => "embeddings_missing",
            Self::Command => "assert_command_missing",
        }
    }

    /// The label of a run that was created with another one.
    pub const fn changed(self) -> &'static str {
        match self {
            Self::Embeddings => "embeddings_changed",
            Self::Command => "assert_command_changed",
        }
    }
}

impl Deciders {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn has(&self, decider: Decider) -> bool {
        match decider {
            Decider::Embeddings => self.embeddings.is_some(),
            Decider::Command => self.command.is_some(),
        }
    }

    /// The pins of a run of these tasks, out of what is available now.
    ///
    /// # Errors
    /// `validation_error` if something is needed and not available.
    pub fn needed(
        self,
        scoring: Option<&ScoringDocument>,
        tasks: &TaskIds,
    ) -> Result<Self, Problem> {
        let mut pinned = Self::default();
        let Some(scoring) = scoring else {
            return Ok(pinned);
        };
        for task in tasks.iter() {
            let Some(entry) = scoring.of_task(&task) else {
                continue;
            };
            for decider in [Decider::Embeddings, Decider::Command] {
                if !entry.has(|check| Decider::of(check) == Some(decider)) {
                    continue;
                }
                if !self.has(decider) {
                    return Err(missing(decider, &task));
                }
                match decider {
                    Decider::Embeddings => pinned.embeddings.clone_from(&self.embeddings),
                    Decider::Command => pinned.command.clone_from(&self.command),
                }
            }
        }
        Ok(pinned)
    }

    /// The first one that is pinned and differs from what is available now.
    pub fn changed(&self, now: &Self) -> Option<Decider> {
        if self.embeddings.is_some() && self.embeddings != now.embeddings {
            return Some(Decider::Embeddings);
        }
        let is_other = self.command.is_some() && self.command != now.command;
        is_other.then_some(Decider::Command)
    }
}

fn missing(decider: Decider, task: &TaskId) -> Problem {
    let message = match decider {
        Decider::Embeddings => format!(
            "task `{task}` has the assertion `similar`, and no embedding model is configured; \
             configure one (`[embeddings]`, --embeddings-url), or leave such tasks out"
        ),
        Decider::Command => format!(
            "task `{task}` has the assertion `command`, and no command is allowed to decide it; \
             the operator can allow one (`[assertions] command`, --assert-command), or leave such \
             tasks out"
        ),
    };
    Problem::validation("evalSuiteRef", message).with("reason", decider.missing())
}

/// Refuses a baseline whose assertions were decided by something else: its scores are not
/// comparable. Both runs have the same tasks and the same scoring document.
///
/// # Errors
/// `validation_error` that names what differs.
pub fn check_same_deciders(
    baseline: &RunId,
    then: &Deciders,
    now: &Deciders,
) -> Result<(), Problem> {
    let identity = |deciders: &Deciders| deciders.embeddings.as_ref().map(EmbeddingsPin::identity);
    let difference = if identity(then) != identity(now) {
        "its embedding model differs"
    } else if then.command != now.command {
        "its command for assertions differs"
    } else {
        return Ok(());
    };
    let message =
        format!("run {baseline} cannot be the baseline: {difference}; choose another run, or none");
    Err(Problem::validation("configurable.baselineRunId", message))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    fn scoring(assertions: &Value) -> ScoringDocument {
        serde_json::from_value(json!({"scoringVersion": 1, "suiteId": "a.evals.b",
            "tasks": {"t": {"assertions": assertions}}}))
        .unwrap()
    }

    #[test]
    fn a_baseline_has_the_same_deciders() {
        let run = RunId::from("run_0");
        check_same_deciders(&run, &available(), &available()).unwrap();
        let mut other = available();
        other.command = Some("sha256-other".to_owned());
        let refused = check_same_deciders(&run, &other, &available()).unwrap_err();
        assert!(refused.message.contains("command"), "{}", refused.message);
        other.embeddings = None;
        let refused = check_same_deciders(&run, &other, &available()).unwrap_err();
        assert!(
            refused.message.contains("embedding model"),
            "{}",
            refused.message
        );
    }

    fn available() -> Deciders {
        Deciders {
            embeddings: Some(EmbeddingsPin {
                model: ModelPin {
                    provider: "openai".to_owned(),
                    model: "embed-1".to_owned(),
                },
                endpoint: None,
            }),
            command: Some("sha256-c".to_owned()),
        }
    }

    #[rstest]
    #[case::similar(json!([{"type": "similar", "value": "x"}]), true, false)]
    #[case::command(json!([{"type": "command", "name": "x"}]), false, true)]
    #[case::nested(json!([{"type": "any", "assertions": [
        {"type": "command", "name": "x"}, {"type": "similar", "value": "x"}]}]), true, true)]
    #[case::neither(json!([{"type": "refusal"}]), false, false)]
    fn only_what_is_needed_is_pinned_and_what_is_missing_is_refused(
        #[case] assertions: Value,
        #[case] embeddings: bool,
        #[case] command: bool,
    ) {
        let (document, tasks) = (scoring(&assertions), TaskIds::from_iter(["t"]));
        let pinned = available().needed(Some(&document), &tasks).unwrap();
        assert_eq!(pinned.embeddings.is_some(), embeddings);
        assert_eq!(pinned.command.is_some(), command);
        let refused = Deciders::default().needed(Some(&document), &tasks);
        assert_eq!(refused.is_err(), embeddings || command);
        // Other tasks need nothing.
        let others = Deciders::default().needed(Some(&document), &TaskIds::from_iter(["u"]));
        assert!(others.unwrap().is_empty());
    }

    #[test]
    fn a_pinned_decider_must_not_change() {
        let pinned = available();
        assert_eq!(pinned.changed(&available()), None);
        assert_eq!(Deciders::default().changed(&available()), None);
        let mut now = available();
        now.command = Some("sha256-d".to_owned());
        assert_eq!(pinned.changed(&now), Some(Decider::Command));
        now.embeddings = None;
        assert_eq!(pinned.changed(&now), Some(Decider::Embeddings));
    }
}
