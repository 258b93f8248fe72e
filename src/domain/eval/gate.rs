//! The eval gate (RFC 0082): may this agent version be promoted on this evidence? A pure rule, fail-closed.
//!
//! Every unmet condition is named; an empty list is the only way to pass.

use serde::{Deserialize, Serialize};

use super::report::{EvalReport, Verdict};

/// What a gate demands beside a passing run of the very agent version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GatePolicy {
    /// `suiteId`, if only this suite counts.
    pub suite_id: Option<String>,
    /// A trusted signature must cover the suite.
    pub require_signed_suite: bool,
    /// A score to reach instead of the suite's own bar, 0.0..=1.0.
    pub required_pass_score: Option<f64>,
    /// Fewest tasks that say anything.
    pub min_tasks: usize,
    /// Accept a run that left members out of matching.
    pub allow_ignore: bool,
    /// Accept a run in which a tool call had no fixture.
    pub allow_missing_fixtures: bool,
    /// Accept a run over a part of the suite's tasks.
    pub allow_partial_suite: bool,
}

impl Default for GatePolicy {
    fn default() -> Self {
        Self {
            suite_id: None,
            require_signed_suite: true,
            required_pass_score: None,
            min_tasks: 1,
            allow_ignore: false,
            allow_missing_fixtures: false,
            allow_partial_suite: false,
        }
    }
}

/// One condition that is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmet {
    /// The condition's name, stable.
    pub condition: Condition,
    /// In words.
    pub message: String,
}

/// The conditions of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// An eval run is named and can be read.
    EvalRun,
    /// It has ended and judged every task.
    Conclusive,
    /// It evaluated this agent.
    Agent,
    /// It evaluated this version.
    Version,
    /// It ran the demanded suite.
    Suite,
    /// The suite is signed.
    SignedSuite,
    /// It passed.
    Passed,
    /// It reached the demanded score.
    PassScore,
    /// It ran enough tasks.
    MinTasks,
    /// It ran the whole suite.
    WholeSuite,
    /// It left nothing out of matching.
    NoIgnore,
    /// Every tool call had a fixture.
    Fixtures,
}

/// What is to be promoted.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The agent.
    pub agent_id: &'a str,
    /// Its version.
    pub version: &'a str,
}

/// Every condition the evidence does not meet.
pub fn unmet(
    policy: &GatePolicy,
    candidate: Candidate<'_>,
    evidence: Option<&EvalReport>,
) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    let mut refuse = |condition, message: String| unmet.push(Unmet { condition, message });
    let Some(run) = evidence else {
        refuse(
            Condition::EvalRun,
            "no eval run is named, or none of this tenant".to_owned(),
        );
        return unmet;
    };
    if matches!(run.verdict, Verdict::Inconclusive | Verdict::Pending) {
        refuse(
            Condition::Conclusive,
            format!("the eval run is {}: not every task was judged", run.status),
        );
    }
    if run.agent.agent_id.as_str() != candidate.agent_id {
        refuse(
            Condition::Agent,
            format!("the eval run is of agent {}", run.agent.agent_id),
        );
    }
    if run.agent.version != candidate.version {
        refuse(
            Condition::Version,
            format!("the eval run is of version {}", run.agent.version),
        );
    }
    if let Some(suite) = &policy.suite_id
        && *suite != run.suite.suite_id
    {
        refuse(
            Condition::Suite,
            format!(
                "the gate asks for suite {suite}, the run is of {}",
                run.suite.suite_id
            ),
        );
    }
    if policy.require_signed_suite && !run.suite.signed {
        refuse(
            Condition::SignedSuite,
            "no trusted signature covers the suite".to_owned(),
        );
    }
    match policy.required_pass_score {
        Some(score) if run.summary.aggregate_score < score => refuse(
            Condition::PassScore,
            format!(
                "aggregate score {:.3} is below the demanded {score:.3}",
                run.summary.aggregate_score
            ),
        ),
        Some(_) => {}
        None if run.verdict == Verdict::Pass && run.summary.passed => {}
        None => refuse(
            Condition::Passed,
            format!("the eval run did not pass: {}", run.reasons.join("; ")),
        ),
    }
    if run.summary.task_count < policy.min_tasks {
        refuse(
            Condition::MinTasks,
            format!(
                "{} task(s) ran, the gate asks for {}",
                run.summary.task_count, policy.min_tasks
            ),
        );
    }
    if !policy.allow_partial_suite && run.summary.task_count < run.suite.task_count {
        refuse(
            Condition::WholeSuite,
            format!(
                "{} of the suite's {} tasks ran",
                run.summary.task_count, run.suite.task_count
            ),
        );
    }
    if !policy.allow_ignore && !run.ignore.is_empty() {
        refuse(
            Condition::NoIgnore,
            format!(
                "members were left out of matching: {}",
                run.ignore.join(", ")
            ),
        );
    }
    let missing = run
        .tasks
        .iter()
        .filter(|task| !task.fixture_missing.is_empty())
        .count();
    if !policy.allow_missing_fixtures && missing > 0 {
        refuse(
            Condition::Fixtures,
            format!("{missing} task(s) called a tool the suite has no response for"),
        );
    }
    unmet
}
