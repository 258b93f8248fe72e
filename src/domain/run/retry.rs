//! May a run be judged again where it was not judged (ADR 4)? A pure rule; every refusal says what to do instead.

use super::fold::{EvalFacts, RunStatus};
use super::record::{EvalSpec, JudgePin, ModelPin};

/// Why a run cannot be retried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRetry {
    /// It goes on.
    #[error("the run has not ended: wait until it has, or cancel it")]
    Running,
    /// It was cancelled, and whoever carries it out has not acted on that yet.
    #[error(
        "the run is being cancelled and has not ended yet: retry it once its status is `cancelled`"
    )]
    Cancelling,
    /// It ended by itself with a verdict over every task.
    #[error(
        "every task of this run was judged, so there is nothing to retry: start a new run to judge them again"
    )]
    Judged,
    /// Its verdict would be about two models.
    #[error(
        "the run was made with model `{}`, and {} for its class now: configure that model again, or start a new run",
        then.model,
        now.as_ref().map_or_else(|| "none is configured".to_owned(), |now| format!("`{}` answers", now.model))
    )]
    ModelChanged {
        /// The model of the run.
        then: ModelPin,
        /// The one configured for its class by now.
        now: Option<ModelPin>,
    },
    /// Its provider stands for no other time.
    #[error(
        "an OASIS evaluation is one piece, and goes on by itself after an interruption: start a new run"
    )]
    Oasis,
    /// Its verdict would be by two judges.
    #[error(
        "the rubrics of this run were judged by another judge than the one configured now, or none is: configure model \
         `{}` as the judge again, or start a new run", then.model.model
    )]
    JudgeChanged {
        /// The judge of the run.
        then: JudgePin,
    },
}

impl NoRetry {
    /// A stable label, for `details.reason`.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Judged => "judged",
            Self::ModelChanged { .. } => "model_changed",
            Self::JudgeChanged { .. } => "judge_changed",
            Self::Oasis => "oasis",
        }
    }
}

/// Whether a run in this state may be retried with the model that is configured now, and the judge of its suite.
///
/// A run that was cancelled or broke after its last task has no verdict although every task was judged: its retry executes
/// nothing and concludes.
///
/// # Errors
/// Why not.
pub fn may_retry(
    spec: &EvalSpec,
    facts: &EvalFacts,
    status: RunStatus,
    now: Option<&ModelPin>,
    judge: Option<&JudgePin>,
) -> Result<(), NoRetry> {
    match status {
        RunStatus::Cancelling => return Err(NoRetry::Cancelling),
        status if !status.is_terminal() => return Err(NoRetry::Running),
        _ if spec.oasis.is_some() => return Err(NoRetry::Oasis),
        _ => {}
    }
    let judged = facts
        .tasks
        .values()
        .filter(|task| task.scored && task.unjudged.is_none())
        .count();
    if status == RunStatus::Completed && judged == spec.tasks.len() {
        return Err(NoRetry::Judged);
    }
    if now != Some(&spec.model) {
        return Err(NoRetry::ModelChanged {
            then: spec.model.clone(),
            now: now.cloned(),
        });
    }
    match &spec.judge {
        Some(then) if judge != Some(then) => Err(NoRetry::JudgeChanged { then: then.clone() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::domain::run::fold::TaskFacts;

    fn spec() -> EvalSpec {
        serde_json::from_value(json!({
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": 2, "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "large-1"}, "modes": ["golden"], "tasks": ["a", "b"],
            "concurrency": 4,
        }))
        .unwrap()
    }

    fn facts(unjudged: &[&str]) -> EvalFacts {
        let task = |id: &&str| {
            let facts = TaskFacts {
                scored: true,
                unjudged: unjudged.contains(id).then(|| "timeout".to_owned()),
                ..TaskFacts::default()
            };
            ((*id).into(), facts)
        };
        EvalFacts {
            tasks: ["a", "b"].iter().map(task).collect(),
            ..EvalFacts::default()
        }
    }

    #[rstest]
    #[case(RunStatus::Pending, &["a"], Some("running"))]
    #[case(RunStatus::Running, &["a"], Some("running"))]
    #[case(RunStatus::Cancelling, &["a"], Some("cancelling"))]
    #[case(RunStatus::Completed, &["a"], None)]
    #[case(RunStatus::Completed, &[], Some("judged"))]
    #[case(RunStatus::Cancelled, &["a"], None)]
    #[case(RunStatus::Cancelled, &[], None)]
    #[case(RunStatus::Failed, &[], None)]
    fn what_has_no_verdict_may_be_retried(
        #[case] status: RunStatus,
        #[case] unjudged: &[&str],
        #[case] refusal: Option<&str>,
    ) {
        let spec = spec();
        let outcome = may_retry(&spec, &facts(unjudged), status, Some(&spec.model), None);
        assert_eq!(outcome.err().map(|refusal| refusal.label()), refusal);
    }

    #[test]
    fn another_model_is_named() {
        let now = ModelPin {
            provider: "openai".to_owned(),
            model: "small-1".to_owned(),
        };
        let spec = spec();
        let refusal =
            |now| may_retry(&spec, &facts(&["a"]), RunStatus::Completed, now, None).unwrap_err();
        let text = refusal(Some(&now)).to_string();
        assert!(
            text.contains("`large-1`") && text.contains("`small-1`"),
            "{text}"
        );
        assert!(refusal(None).to_string().contains("none is configured"));
    }

    #[test]
    fn a_judged_run_keeps_its_judge() {
        let judge = |identity: &str| JudgePin {
            model: ModelPin {
                provider: "openai".to_owned(),
                model: "examiner-1".to_owned(),
            },
            identity: identity.to_owned(),
        };
        let spec = EvalSpec {
            judge: Some(judge("sha256-a")),
            ..spec()
        };
        let label = |now: Option<&JudgePin>| {
            let facts = facts(&["a"]);
            let outcome = may_retry(&spec, &facts, RunStatus::Completed, Some(&spec.model), now);
            outcome.err().map(|refusal| refusal.label())
        };
        assert_eq!(label(Some(&judge("sha256-a"))), None);
        assert_eq!(label(Some(&judge("sha256-b"))), Some("judge_changed"));
        assert_eq!(label(None), Some("judge_changed"));
    }
}
