//! The origin of what a run evaluated: its suite, agent, model and judge.

use serde::{Deserialize, Serialize};

use crate::rules::eval::rubric::calibration::Calibration;
use crate::rules::eval::scoring::DEFAULT_PASS_SCORE;
use crate::rules::run::fold::RunState;
use crate::rules::run::record::{EndpointPin, EvalSpec, JudgePin, PinnedJudge};
use touchstone_kit::ids::AgentId;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::Thresholds;

/// The origin of the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuiteProvenance {
    pub suite_id: String,
    pub version: String,
    /// `sha256-<base64>` of the canonical document.
    pub digest: String,
    /// `sha256-<base64>` of the suite's scoring document, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scoring_digest: Option<String>,
    /// Whether a trusted signature covers the suite; an imported one is never signed.
    pub signed: bool,
    /// Number of tasks in the whole suite.
    pub task_count: usize,
    /// Its pass score, 0.0..=1.0.
    pub pass_score: f64,
}

/// The evaluated agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentProvenance {
    pub agent_id: AgentId,
    /// The version of its pack.
    pub version: String,
    /// `sha256-<base64>` of its pack.
    pub pack_integrity: String,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// The model or command that answered for the agent, pinned when the run was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluated {
    /// Provider; `command` for a local command.
    pub provider: String,
    pub model: String,
    /// Its endpoint; absent for runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointPin>,
    /// Digest over agent, pack, provider and model.
    pub identity: String,
}

/// How many model answers came from the cache of model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CachedAnswers {
    pub cached: u64,
    /// Those of the agent's model, which make latencies meaningless; absent in reports of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_of_agent: Option<u64>,
    /// All answers of models, the judge's included.
    pub answers: u64,
    /// The cost that the cached ones would have had; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_saved_usd: Option<NanoUsd>,
}

impl CachedAnswers {
    pub fn of(state: &RunState) -> Self {
        let answers = state.eval.tasks.answers();
        Self {
            cached: answers.cached,
            cached_of_agent: Some(answers.cached_of_agent),
            answers: answers.all,
            cost_saved_usd: answers.saved.known(),
        }
    }
}

/// The judge of the rubrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeProvenance {
    pub provider: String,
    pub model: String,
    /// `sha256-<base64>` over model, prompt, rubrics and parameters: scores of different identities
    /// are not comparable.
    pub identity: String,
    /// Each of several judges; empty if there is only one. The members above then name the first
    /// model, and the identity of all judges together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeMember>,
    /// Its agreement with people, if it was calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// One of several judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgeMember {
    pub provider: String,
    pub model: String,
    /// `sha256-<base64>`.
    pub identity: String,
}

pub fn suite_provenance(spec: &EvalSpec, thresholds: &Thresholds) -> SuiteProvenance {
    SuiteProvenance {
        suite_id: spec.suite_id.clone(),
        version: spec.suite_version.clone(),
        digest: spec.suite_digest.clone(),
        scoring_digest: spec.scoring_digest.clone(),
        signed: spec.suite_signed,
        task_count: spec.suite_task_count,
        pass_score: thresholds.pass_score.unwrap_or(DEFAULT_PASS_SCORE),
    }
}

pub fn provenance(judge: &JudgePin) -> JudgeProvenance {
    JudgeProvenance {
        provider: judge.model.provider.clone(),
        model: judge.model.model.clone(),
        identity: judge.identity.clone(),
        judges: Vec::new(),
        calibration: None,
    }
}

pub fn judge_member(member: &PinnedJudge) -> JudgeMember {
    JudgeMember {
        provider: member.judge.model.provider.clone(),
        model: member.judge.model.model.clone(),
        identity: member.judge.identity.clone(),
    }
}
