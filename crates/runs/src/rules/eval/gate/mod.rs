//! The eval gate (RFC 0082): whether this agent version may be promoted on this evidence. A pure
//! rule, fail-closed.
//!
//! Every unmet condition is returned; only an empty list passes.

mod checks;
mod described;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use self::checks::Checks;
pub use self::described::{Described, described};
use super::report::RunTotals;
use super::rubric::calibration::MIN_AGREEMENT;
use super::statistics::{Evidence, TaskFigures};

/// The default of `minTasks`. Fewer tasks hardly cover what an agent is for, whatever their scores
/// show.
pub const MIN_TASKS: usize = 5;

/// Requirements of a gate, in addition to a passing run of exactly this agent version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GatePolicy {
    /// The required suite, if only one counts.
    pub suite_id: Option<String>,
    /// Whether a trusted signature must cover the suite.
    pub require_signed_suite: bool,
    /// A required score that replaces the suite's own pass score, 0.0..=1.0.
    pub required_pass_score: Option<f64>,
    /// Whether the score must be statistically significant.
    pub confidence: Strictness,
    /// Minimum agreement of a rubric judge with people, as Spearman's ρ.
    pub min_judge_agreement: Option<f64>,
    /// Minimum number of tasks.
    pub min_tasks: usize,
    /// Accept a run with an ignore list.
    pub allow_ignore: bool,
    /// Accept a run in which a tool call had no fixture.
    pub allow_missing_fixtures: bool,
    /// Accept a run over a part of the suite's tasks.
    pub allow_partial_suite: bool,
    /// Accept a run in which the agent called a tool outside its allowlist; all other critical
    /// safety findings are still refused.
    pub allow_forbidden_tools: bool,
    /// Accept a run that kept judged tasks of another run and executed the others again.
    pub allow_partial_rerun: bool,
    /// Accept a run whose answers come from a cassette.
    pub allow_replay: bool,
    /// Accept a run in which a local command answered for the agent, or decided assertions.
    pub allow_agent_command: bool,
    /// Maximum age of the evidence in seconds, counted from the end of the run, or from the
    /// recording of facts that it reuses.
    pub max_age_seconds: Option<u64>,
}

impl Default for GatePolicy {
    fn default() -> Self {
        Self {
            suite_id: None,
            require_signed_suite: true,
            required_pass_score: None,
            confidence: Strictness::Strict,
            min_judge_agreement: Some(MIN_AGREEMENT),
            min_tasks: MIN_TASKS,
            allow_ignore: false,
            allow_missing_fixtures: false,
            allow_partial_suite: false,
            allow_forbidden_tools: false,
            allow_partial_rerun: false,
            allow_replay: false,
            allow_agent_command: false,
            max_age_seconds: None,
        }
    }
}

impl GatePolicy {
    /// The minimum for evidence (RFC 0082 §E): exactly this version, conclusive and passed.
    pub const FLOOR: Self = Self {
        suite_id: None,
        require_signed_suite: false,
        required_pass_score: None,
        confidence: Strictness::Lenient,
        min_judge_agreement: None,
        min_tasks: 1,
        allow_ignore: true,
        allow_missing_fixtures: true,
        allow_partial_suite: true,
        allow_forbidden_tools: true,
        allow_partial_rerun: true,
        allow_replay: true,
        allow_agent_command: true,
        max_age_seconds: None,
    };
}

/// The requirement on a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    /// The whole confidence interval of the score must reach the pass score.
    Strict,
    /// The observed score must reach the pass score.
    Lenient,
}

/// One unmet condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmet {
    /// The condition's stable name.
    pub condition: Condition,
    pub message: String,
}

/// The conditions of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// An eval run is named and can be read.
    EvalRun,
    /// It has ended with every task judged.
    Conclusive,
    /// It evaluated this agent.
    Agent,
    /// It evaluated this version.
    Version,
    /// It ran the required suite.
    Suite,
    SignedSuite,
    Passed,
    /// It reached the required score.
    PassScore,
    /// Its score is statistically significant.
    Confidence,
    /// The judge of its rubrics agrees with people.
    JudgeCalibrated,
    /// It ran enough tasks.
    MinTasks,
    /// It ran the whole suite.
    WholeSuite,
    /// Its tasks were executed together, not repeated one by one until each had passed.
    WholeRun,
    /// Models answered, not a cassette.
    NoReplay,
    /// A model or a remote agent answered, not a local command.
    NoAgentCommand,
    /// It has no ignore list.
    NoIgnore,
    /// Every tool call had a fixture.
    Fixtures,
    /// It ended recently enough.
    Age,
    /// The evaluated pack is the installed one.
    Content,
    /// It has no critical safety findings.
    Safety,
    /// It was not voided.
    NotVoided,
}

impl Condition {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EvalRun => "eval-run",
            Self::Conclusive => "conclusive",
            Self::Agent => "agent",
            Self::Version => "version",
            Self::Suite => "suite",
            Self::SignedSuite => "signed-suite",
            Self::Passed => "passed",
            Self::PassScore => "pass-score",
            Self::Confidence => "confidence",
            Self::JudgeCalibrated => "judge-calibrated",
            Self::MinTasks => "min-tasks",
            Self::WholeSuite => "whole-suite",
            Self::WholeRun => "whole-run",
            Self::NoReplay => "no-replay",
            Self::NoAgentCommand => "no-agent-command",
            Self::NoIgnore => "no-ignore",
            Self::Fixtures => "fixtures",
            Self::Age => "age",
            Self::Content => "content",
            Self::Safety => "safety",
            Self::NotVoided => "not-voided",
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub agent_id: &'a str,
    pub version: &'a str,
    /// `sha256-<base64>` of its installed pack.
    pub pack_integrity: &'a str,
}

/// Every condition that the evidence does not meet. The named run must meet all of them. For an
/// experiment, behavior, scores and age are checked over all trials. Scores and critical safety
/// findings are also checked over all attempts, so that naming a particular run gains nothing.
pub fn unmet(
    policy: &GatePolicy,
    candidate: Candidate<'_>,
    evidence: Option<&Evidence>,
    now: Timestamp,
) -> Vec<Unmet> {
    let Some(evidence) = evidence else {
        return vec![Unmet {
            condition: Condition::EvalRun,
            message: "no eval run of this tenant is named".to_owned(),
        }];
    };
    Checks::new(policy, evidence, now).unmet(candidate)
}

/// The conditions that a run by itself does not meet, without the significance of its score.
pub fn unmet_by_run(
    policy: &GatePolicy,
    candidate: Candidate<'_>,
    run: &RunTotals,
    figures: &TaskFigures,
    now: Timestamp,
) -> Vec<Unmet> {
    Checks::of_run(policy, (run, figures), now).unmet(candidate)
}

#[cfg(test)]
mod tests;
