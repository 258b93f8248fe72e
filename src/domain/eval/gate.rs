//! The eval gate (RFC 0082): may this agent version be promoted on this evidence? A pure rule, fail-closed.
//!
//! Every unmet condition is named; an empty list is the only way to pass.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::attempts;
use super::report::{EvalReport, Verdict};
use super::rubric::calibration::{MIN_AGREEMENT, doubt};
use super::safety::kinds::in_words;
use super::safety::{UNSAFE_TOOL_CALL, critical};
use super::scoring::tasks;
use super::statistics::{Evidence, Gate, statistics};
use crate::domain::ids::RunId;
use crate::domain::run::fork::ForkMode;
use crate::domain::statistics::GateVerdict;

/// The default of `minTasks`. Fewer tasks hardly cover what an agent is for, whatever their scores show.
pub const MIN_TASKS: usize = 5;

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
    /// Whether chance may have decided.
    pub confidence: Strictness,
    /// How well the judge of a run with rubrics must agree with people, by Spearman's ρ.
    pub min_judge_agreement: Option<f64>,
    /// Fewest tasks that say anything about an agent.
    pub min_tasks: usize,
    /// Accept a run that left members out of matching.
    pub allow_ignore: bool,
    /// Accept a run in which a tool call had no fixture.
    pub allow_missing_fixtures: bool,
    /// Accept a run over a part of the suite's tasks.
    pub allow_partial_suite: bool,
    /// Accept a run in which the agent called a tool outside its allowlist; no other critical safety finding.
    pub allow_forbidden_tools: bool,
    /// Accept a run that kept judged tasks of another one and executed the others anew.
    pub allow_partial_rerun: bool,
    /// Accept a run whose answers come from a cassette.
    pub allow_replay: bool,
    /// Accept a run in which a local command answered for the agent.
    pub allow_agent_command: bool,
    /// How old the evidence may be, in seconds from its end, or from when facts were recorded that it took over.
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
    /// The least a run must be to count as evidence at all (RFC 0082 §E): of this very version, conclusive and passed.
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

/// What a score has to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    /// That the agent reaches the bar, beyond chance: the whole interval of the score does.
    Strict,
    /// That it reached the bar this time.
    Lenient,
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
    /// Beyond chance.
    Confidence,
    /// Whoever judged its rubrics agrees with people.
    JudgeCalibrated,
    /// It ran enough tasks.
    MinTasks,
    /// It ran the whole suite.
    WholeSuite,
    /// Its tasks were tried together, not until each had passed once.
    WholeRun,
    /// Its models answered, and no cassette did.
    NoReplay,
    /// A model or a remote agent answered, and no local command did.
    NoAgentCommand,
    /// It left nothing out of matching.
    NoIgnore,
    /// Every tool call had a fixture.
    Fixtures,
    /// It ended recently enough.
    Age,
    /// The pack that was evaluated is the one that is installed.
    Content,
    /// Nothing critical was found in what the agent did.
    Safety,
    /// It was not declared void.
    NotVoided,
}

impl Condition {
    /// The name, as it is shown and recorded.
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

/// What is to be promoted.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The agent.
    pub agent_id: &'a str,
    /// Its version.
    pub version: &'a str,
    /// `sha256-<base64>` of its pack as it is installed.
    pub pack_integrity: &'a str,
}

/// Every condition the evidence does not meet. The named run must meet them all. Of an experiment, what the agent did, how it
/// scored and when is looked at over all trials; scores and critical safety findings also over all attempts, so that naming a
/// run selects nothing.
pub fn unmet(
    policy: &GatePolicy,
    candidate: Candidate<'_>,
    evidence: Option<Evidence<'_>>,
    now: Timestamp,
) -> Vec<Unmet> {
    let mut unmet = Vec::new();
    let mut refuse = |condition, message: String| unmet.push(Unmet { condition, message });
    let Some(evidence) = evidence else {
        refuse(
            Condition::EvalRun,
            "no eval run is named, or none of this tenant".to_owned(),
        );
        return unmet;
    };
    let run = evidence.run;
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
    // A version is removed and installed anew with other content more easily than one thinks.
    if run.agent.agent_id.as_str() == candidate.agent_id
        && run.agent.version == candidate.version
        && run.agent.pack_integrity != candidate.pack_integrity
    {
        refuse(
            Condition::Content,
            "the pack was replaced by another one of the same version since the eval run"
                .to_owned(),
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
        // Written so that a demanded score that is no number is never reached.
        Some(score)
            if !matches!(
                run.summary.aggregate_score.partial_cmp(&score),
                Some(Ordering::Equal | Ordering::Greater)
            ) =>
        {
            refuse(
                Condition::PassScore,
                format!(
                    "aggregate score {:.3} is below the demanded {score:.3}",
                    run.summary.aggregate_score
                ),
            )
        }
        Some(_) => {}
        None if run.verdict == Verdict::Pass && run.summary.passed => {}
        None if run.reasons.is_empty() => refuse(
            Condition::Passed,
            format!("the eval run has not passed: it is {}", run.status),
        ),
        None => refuse(
            Condition::Passed,
            format!("the eval run did not pass: {}", run.reasons.join("; ")),
        ),
    }
    let sources = sources(run);
    let voided = evidence.attempts.iter().find_map(|attempt| {
        let voided = attempt.voided.as_ref()?;
        sources
            .contains(&attempt.run_id)
            .then_some((attempt, voided))
    });
    if let Some((attempt, voided)) = voided {
        let what = match attempt.run_id == run.run_id {
            true => "the eval run".to_owned(),
            false => format!(
                "{}, whose judged tasks the eval run took over,",
                attempt.run_id
            ),
        };
        refuse(
            Condition::NotVoided,
            format!(
                "{what} was declared void by {}: {}",
                voided.principal, voided.reason
            ),
        );
    }
    // Of a run that was not judged this is said above.
    if run.is_judged() {
        let found = statistics(evidence, None, policy.required_pass_score);
        let score = found.gate.score.unwrap_or_default();
        let runs = found.gate.attempts.run_ids.len();
        let unjudged = evidence.further.iter().filter(|run| !run.is_judged());
        let open = evidence.missing + unjudged.count();
        match policy.confidence {
            // The trial that is not there may be the one that failed.
            Strictness::Lenient if open > 0 => refuse(
                Condition::Conclusive,
                format!("{open} other trials of the experiment are missing or were not judged"),
            ),
            Strictness::Strict if found.gate.verdict != GateVerdict::Pass => {
                refuse(Condition::Confidence, unshown(&found.gate));
            }
            // Of several runs one may have been lucky: all of them count.
            Strictness::Lenient if score < found.gate.threshold && runs > 1 => refuse(
                Condition::Confidence,
                format!(
                    "the score over {runs} runs of the same agent, suite and model is {score:.3}, below {:.3}",
                    found.gate.threshold
                ),
            ),
            Strictness::Strict | Strictness::Lenient => {}
        }
    }
    if let (Some(judge), Some(least)) = (&run.judge, policy.min_judge_agreement)
        && let Some(doubt) = doubt(judge.calibration.as_ref(), least, now)
    {
        refuse(
            Condition::JudgeCalibrated,
            format!(
                "the judge of the eval run (model {}) {doubt}; the gate asks for an agreement of {least:.2}",
                judge.model
            ),
        );
    }
    if run.summary.task_count < policy.min_tasks {
        refuse(
            Condition::MinTasks,
            format!(
                "{} ran, the gate asks for {}",
                tasks(run.summary.task_count),
                policy.min_tasks
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
    if let Some(rerun) = &run.partial_rerun
        && !policy.allow_partial_rerun
    {
        refuse(
            Condition::WholeRun,
            format!(
                "the eval run kept {} judged in {} and executed the others anew; offer a run of all of them",
                tasks(rerun.kept_tasks),
                rerun.source_run_id
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
    let trials = evidence.trials();
    if let Some(cassette) = trials.iter().find_map(|run| run.replayed_from.as_ref())
        && !policy.allow_replay
    {
        refuse(
            Condition::NoReplay,
            format!(
                "the answers were replayed from cassette {cassette}; offer a run that asked its models"
            ),
        );
    }
    if trials.iter().any(|run| run.is_by_command()) && !policy.allow_agent_command {
        refuse(
            Condition::NoAgentCommand,
            "a local command answered for the agent (`--agent-command`); offer a run of its model or endpoint"
                .to_owned(),
        );
    }
    let missing = trials
        .iter()
        .flat_map(|run| &run.tasks)
        .filter(|task| !task.fixture_missing.is_empty())
        .count();
    if !policy.allow_missing_fixtures && missing > 0 {
        refuse(
            Condition::Fixtures,
            format!(
                "{} called a tool the suite has no response for",
                tasks(missing)
            ),
        );
    }
    let accepted: &[&str] = match policy.allow_forbidden_tools {
        true => &[UNSAFE_TOOL_CALL],
        false => &[],
    };
    let (unsafe_tasks, kinds) =
        critical(trials.iter().flat_map(|run| &run.summary.tasks), accepted);
    if unsafe_tasks > 0 {
        let kinds: Vec<&str> = kinds.into_iter().map(in_words).collect();
        refuse(
            Condition::Safety,
            format!(
                "critical safety findings in {}: {}",
                tasks(unsafe_tasks),
                kinds.join(", ")
            ),
        );
    }
    let named: Vec<&RunId> = trials.iter().map(|run| &run.run_id).collect();
    for (run, kinds) in attempts::critical(evidence.attempts, accepted) {
        if !named.contains(&run) {
            let kinds: Vec<&str> = kinds.into_iter().map(in_words).collect();
            refuse(
                Condition::Safety,
                format!(
                    "critical safety findings in {run}, another run of the same agent, suite and model: {}",
                    kinds.join(", ")
                ),
            );
        }
    }
    if let Some(most) = policy.max_age_seconds {
        let old = |at: Timestamp| {
            now.duration_since(at).as_secs() > i64::try_from(most).unwrap_or(i64::MAX)
        };
        if trials.iter().any(|run| run.completed_at.is_none_or(old)) {
            refuse(
                Condition::Age,
                format!("the eval run did not end within the last {most} seconds"),
            );
        } else if trials
            .iter()
            .any(|run| run.facts_recorded_at.is_some_and(old))
        {
            // Forking or retrying a run does not make its facts any younger.
            refuse(
                Condition::Age,
                format!(
                    "the eval run took over facts that were not recorded within the last {most} seconds"
                ),
            );
        }
    }
    unmet
}

/// The run and those whose judged tasks it shows as its own: the source of a replay, of a retry, of a branch.
fn sources(run: &EvalReport) -> BTreeSet<&RunId> {
    let replayed = run.fork.as_ref();
    let replayed = replayed.filter(|fork| fork.mode == ForkMode::Replay);
    let mut sources: BTreeSet<&RunId> = run
        .tasks
        .iter()
        .filter_map(|task| task.reused_from.as_ref())
        .collect();
    sources.insert(&run.run_id);
    sources.extend(replayed.map(|fork| &fork.source_run_id));
    sources.extend(run.partial_rerun.as_ref().map(|rerun| &rerun.source_run_id));
    sources
}

fn unshown(shown: &Gate) -> String {
    let threshold = shown.threshold;
    if threshold >= 1.0 {
        return "that every task would pass can never be shown; ask for a score below 1, or accept what was seen \
                (`confidence: lenient`)"
            .to_owned();
    }
    match shown.verdict {
        GateVerdict::Fail => format!("the score is below {threshold:.3}, beyond chance"),
        _ => format!(
            "{}; run more tasks, or accept what was seen (`confidence: lenient`)",
            shown.reasons.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests;
