//! Whether the unjudged tasks of a run may be judged in a retry (ADR 4). A pure rule; every refusal
//! names an alternative.

use super::deciders::{Decider, Deciders};
use super::fold::{EvalFacts, RunStatus};
use super::record::{EvalSpec, JudgePin, ModelIdentity, UserPin};
use crate::rules::kind::{Action, Kinds};

/// From the retry of this number on, failures that the agent's side can cause count as failed.
const LAST_UNJUDGED_RETRY: u32 = 2;

/// Failures that the operator of the agent can cause at will, in addition to 4xx statuses. An
/// answer can be made too long for any judge or simulated user.
const BY_THE_AGENTS_SIDE: &[&str] = &[
    "a2a_error",
    "a2a_no_context",
    "a2a_other_context",
    "agent_canceled",
    "agent_exited",
    "agent_failed",
    "agent_waits",
    "assertion_exited",
    "assertion_failed",
    "assertion_malformed",
    "embeddings_context_overflow",
    "forbidden",
    "judge_context_overflow",
    "malformed_reply",
    "not_found",
    "not_http",
    "quota_exhausted",
    "rate_limited",
    "redirect",
    "stream_error",
    "too_large",
    "tools_unsupported",
    "unauthorized",
    "user_context_overflow",
    "wrong_content_type",
];

/// Whether a task that was left unjudged for this reason counts as failed in this retry. An agent
/// that is asked until it passes would always pass.
pub fn counts_as_failed(reason: &str, retries: u32) -> bool {
    retries >= LAST_UNJUDGED_RETRY
        && (reason.starts_with("status_4") || BY_THE_AGENTS_SIDE.contains(&reason))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetryRefusal {
    #[error("the run has not ended: wait until it has, or cancel it")]
    Running,
    /// Cancelled, but its executor has not stopped yet.
    #[error(
        "the run is being cancelled and has not ended yet: retry it once its status is `cancelled`"
    )]
    Cancelling,
    /// It ended with a verdict over every task.
    #[error(
        "every task of this run was judged, so there is nothing to retry: start a new run to judge them again"
    )]
    Judged,
    /// The verdict would cover two models.
    #[error(
        "the run was created for {then}, but for its class {} now: configure the previous model \
         and endpoint, or start a new run",
        now.as_ref().map_or_else(
            || "no model is configured".to_owned(),
            |now| format!("{now} is configured"),
        )
    )]
    ModelChanged {
        /// The model of the run.
        then: Box<ModelIdentity>,
        /// The model configured for its class now.
        now: Option<Box<ModelIdentity>>,
    },
    /// Runs of its kind cannot be retried.
    #[error("{reason}")]
    Kind {
        name: &'static str,
        reason: &'static str,
    },
    /// The verdict would be by two judges.
    #[error(
        "the run was created with the judge {then}, but {}: configure the previous judge, or start \
         a new run",
        now.as_ref().map_or_else(
            || "no judge is configured now".to_owned(),
            |now| format!("the judge is now {now}, with the prompt and rubrics of this version"),
        )
    )]
    JudgeChanged {
        /// The judge of the run.
        then: Box<ModelIdentity>,
        /// The judge configured now.
        now: Option<Box<ModelIdentity>>,
    },
    /// The verdict would have decisions of two.
    #[error("{}", changed(*decider))]
    DeciderChanged { decider: Decider },
    /// The verdict would be about conversations with two users.
    #[error(
        "the run was created with the simulated user {then}, but {}: configure the previous one, or \
         start a new run",
        now.as_ref().map_or_else(
            || "none is configured now".to_owned(),
            |now| format!("it is now {now}, with the prompt of this version"),
        )
    )]
    UserChanged {
        /// The simulated user of the run.
        then: Box<ModelIdentity>,
        /// The one configured now.
        now: Option<Box<ModelIdentity>>,
    },
}

fn changed(decider: Decider) -> &'static str {
    match decider {
        Decider::Embeddings => {
            "the run was created with another embedding model: configure the previous one \
             (`[embeddings]`, --embeddings-url), or start a new run"
        }
        Decider::Command => {
            "the run was created with another command for assertions: configure the previous one \
             (`[assertions] command`, --assert-command), or start a new run"
        }
    }
}

impl RetryRefusal {
    /// A stable label, for `details.reason`.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Judged => "judged",
            Self::ModelChanged { .. } => "model_changed",
            Self::JudgeChanged { .. } => "judge_changed",
            Self::DeciderChanged { decider } => decider.changed(),
            Self::UserChanged { .. } => "user_changed",
            Self::Kind { name, .. } => name,
        }
    }
}

/// The models and judges that are configured now.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredModels {
    /// For the class of the run's agent.
    pub model: Option<ModelIdentity>,
    /// The model that judges.
    pub judge: Option<ModelIdentity>,
    /// Every model that judges, that one included.
    pub judges: Vec<ModelIdentity>,
    /// The judge of the suite's rubrics on that model, or on all of them.
    pub rubric_judge: Option<JudgePin>,
    /// The judge of refusals on that model.
    pub safety_judge: Option<JudgePin>,
    pub deciders: Deciders,
    /// The model that plays users.
    pub user: Option<ModelIdentity>,
    /// The simulated user on that model.
    pub user_pin: Option<UserPin>,
}

impl ConfiguredModels {
    /// Whether the current configuration matches the one the run was created for.
    ///
    /// # Errors
    /// The difference, with both identities.
    pub fn check_same(&self, spec: &EvalSpec) -> Result<(), RetryRefusal> {
        let then = spec.evaluated();
        if !self.model.as_ref().is_some_and(|now| now.serves(&then)) {
            return Err(RetryRefusal::ModelChanged {
                then: Box::new(then),
                now: self.model.clone().map(Box::new),
            });
        }
        self.check_same_user(spec)?;
        if let Some(decider) = spec.deciders.changed(&self.deciders) {
            return Err(RetryRefusal::DeciderChanged { decider });
        }
        let Some(then) = spec.judged_by() else {
            return Ok(());
        };
        let same =
            |pinned: &Option<JudgePin>, now: &Option<JudgePin>| pinned.is_none() || pinned == now;
        let same_endpoints = spec.judges.is_empty()
            || spec.judges.len() == self.judges.len()
                && self
                    .judges
                    .iter()
                    .zip(&spec.judges)
                    .all(|(now, then)| now.serves(&then.model()));
        if same_endpoints
            && same(&spec.judge, &self.rubric_judge)
            && same(&spec.safety_judge, &self.safety_judge)
            && self.judge.as_ref().is_some_and(|now| now.serves(&then))
        {
            return Ok(());
        }
        Err(RetryRefusal::JudgeChanged {
            then: Box::new(then),
            now: self.judge.clone().map(Box::new),
        })
    }

    fn check_same_user(&self, spec: &EvalSpec) -> Result<(), RetryRefusal> {
        let Some(then) = spec.played_by() else {
            return Ok(());
        };
        let serves = self.user.as_ref().is_some_and(|now| now.serves(&then));
        if serves && self.user_pin == spec.simulated_user {
            return Ok(());
        }
        Err(RetryRefusal::UserChanged {
            then: Box::new(then),
            now: self.user.clone().map(Box::new),
        })
    }
}

/// Whether a run in this state may be retried with the model and the judge that are configured now.
///
/// A run that was cancelled or failed after its last task has no verdict although every task was
/// judged. Its retry executes nothing and only concludes.
///
/// # Errors
/// Why the run cannot be retried.
pub fn may_retry(
    kinds: Kinds,
    spec: &EvalSpec,
    facts: &EvalFacts,
    status: RunStatus,
    now: &ConfiguredModels,
) -> Result<(), RetryRefusal> {
    match status {
        RunStatus::Cancelling => return Err(RetryRefusal::Cancelling),
        status if !status.is_terminal() => return Err(RetryRefusal::Running),
        _ => {}
    }
    if let Some(kind) = kinds.of(spec) {
        return Err(RetryRefusal::Kind {
            name: kind.name(),
            reason: kind.refusal(Action::Retry),
        });
    }
    if status == RunStatus::Completed && facts.tasks.judged() == spec.tasks.len() {
        return Err(RetryRefusal::Judged);
    }
    now.check_same(spec)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::rules::run::fold::TaskFacts;
    use crate::rules::run::record::{EndpointPin, ModelPin};

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
    fn running_and_fully_judged_runs_may_not_be_retried(
        #[case] status: RunStatus,
        #[case] unjudged: &[&str],
        #[case] refusal: Option<&str>,
    ) {
        let spec = spec();
        let outcome = may_retry(
            Kinds::NONE,
            &spec,
            &facts(unjudged),
            status,
            &configured(&spec),
        );
        assert_eq!(outcome.err().map(|refusal| refusal.label()), refusal);
    }

    fn configured(spec: &EvalSpec) -> ConfiguredModels {
        ConfiguredModels {
            deciders: Deciders::default(),
            model: Some(spec.evaluated()),
            judge: spec.judged_by(),
            judges: Vec::new(),
            rubric_judge: spec.judge.clone(),
            safety_judge: spec.safety_judge.clone(),
            user: spec.played_by(),
            user_pin: spec.simulated_user.clone(),
        }
    }

    fn at(url: &str, digest: &str) -> Option<EndpointPin> {
        Some(EndpointPin {
            url: Some(url.to_owned()),
            digest: digest.to_owned(),
        })
    }

    #[rstest]
    #[case("status_400", 1, false)]
    #[case("status_400", 2, true)]
    #[case("status_422", 7, true)]
    #[case("malformed_reply", 2, true)]
    #[case("agent_exited", 2, true)]
    #[case("not_http", 2, true)]
    #[case("judge_context_overflow", 1, false)]
    #[case("judge_context_overflow", 2, true)]
    #[case("judge_content_filter", 9, false)]
    #[case("rate_limited", 2, true)]
    #[case::outages("status_503", 9, false)]
    #[case("connect", 9, false)]
    #[case("timeout", 9, false)]
    #[case("circuit_open", 9, false)]
    #[case("judge_status_400", 9, false)]
    #[case("tool_closed", 9, false)]
    #[case("internal_error", 9, false)]
    fn errors_the_agent_can_cause_count_as_failed_after_retries(
        #[case] reason: &str,
        #[case] retries: u32,
        #[case] failed: bool,
    ) {
        assert_eq!(counts_as_failed(reason, retries), failed);
    }

    #[test]
    fn a_retry_with_another_model_is_refused_by_name() {
        let spec = spec();
        let mut small = configured(&spec);
        small.model.as_mut().unwrap().model.model = "small-1".to_owned();
        let refusal = |now: &ConfiguredModels| {
            may_retry(
                Kinds::NONE,
                &spec,
                &facts(&["a"]),
                RunStatus::Completed,
                now,
            )
            .unwrap_err()
        };
        let text = refusal(&small).to_string();
        assert!(
            text.contains("`large-1`") && text.contains("`small-1`"),
            "{text}"
        );
        let none = refusal(&ConfiguredModels::default()).to_string();
        assert!(none.contains("no model is configured"), "{none}");
    }

    #[test]
    fn another_endpoint_or_configuration_under_the_same_name_is_refused() {
        let mut spec = spec();
        spec.execution.endpoint = at("http://10.0.0.1/v1", "sha256-one");
        let outcome = |endpoint: Option<EndpointPin>| {
            let mut now = configured(&spec);
            now.model.as_mut().unwrap().endpoint = endpoint;
            may_retry(
                Kinds::NONE,
                &spec,
                &facts(&["a"]),
                RunStatus::Completed,
                &now,
            )
        };
        assert_eq!(outcome(at("http://10.0.0.1/v1", "sha256-one")), Ok(()));
        let moved = outcome(at("http://10.0.0.2/v1", "sha256-two")).unwrap_err();
        assert_eq!(moved.label(), "model_changed");
        let text = moved.to_string();
        assert!(
            text.contains("http://10.0.0.1/v1") && text.contains("http://10.0.0.2/v1"),
            "{text}"
        );
        assert!(outcome(at("http://10.0.0.1/v1", "sha256-two")).is_err());
        assert!(outcome(None).is_err());
        // Records of earlier versions pin names only.
        spec.execution.endpoint = None;
        let mut now = configured(&spec);
        now.model.as_mut().unwrap().endpoint = at("http://10.0.0.2/v1", "sha256-two");
        let outcome = may_retry(
            Kinds::NONE,
            &spec,
            &facts(&["a"]),
            RunStatus::Completed,
            &now,
        );
        assert_eq!(outcome, Ok(()));
    }

    #[test]
    fn a_run_keeps_its_simulated_user() {
        let model = ModelPin {
            provider: "openai".to_owned(),
            model: "user-1".to_owned(),
        };
        let mut spec = EvalSpec {
            simulated_user: Some(UserPin::of(&model)),
            ..spec()
        };
        spec.execution.user_endpoint = at("http://10.0.0.3/v1", "sha256-user");
        let label = |change: fn(&mut ConfiguredModels)| {
            let mut now = configured(&spec);
            change(&mut now);
            now.check_same(&spec).err().map(|refusal| refusal.label())
        };
        assert_eq!(label(|_| {}), None);
        assert_eq!(label(|now| now.user = None), Some("user_changed"));
        assert_eq!(label(|now| now.user_pin = None), Some("user_changed"));
        let moved = |now: &mut ConfiguredModels| now.user.as_mut().unwrap().endpoint = None;
        assert_eq!(label(moved), Some("user_changed"));
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
        let mut spec = EvalSpec {
            judge: Some(judge("sha256-a")),
            ..spec()
        };
        spec.execution.judge_endpoint = at("http://10.0.0.3/v1", "sha256-judge");
        let label = |change: fn(&mut ConfiguredModels)| {
            let mut now = configured(&spec);
            change(&mut now);
            let outcome = may_retry(
                Kinds::NONE,
                &spec,
                &facts(&["a"]),
                RunStatus::Completed,
                &now,
            );
            outcome.err().map(|refusal| refusal.label())
        };
        assert_eq!(label(|_| {}), None);
        let reworded = |now: &mut ConfiguredModels| {
            now.rubric_judge.as_mut().unwrap().identity = "sha256-b".to_owned();
        };
        assert_eq!(label(reworded), Some("judge_changed"));
        assert_eq!(label(|now| now.rubric_judge = None), Some("judge_changed"));
        let moved = |now: &mut ConfiguredModels| now.judge.as_mut().unwrap().endpoint = None;
        assert_eq!(label(moved), Some("judge_changed"));
    }
}
