//! The eval gate (RFC 0082): whether this agent version may be promoted on this evidence. A pure
//! rule, fail-closed.
//!
//! Every unmet condition is returned; only an empty list passes.

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
use crate::rules::run::fork::ForkMode;
use touchstone_kit::ids::RunId;
use touchstone_kit::statistics::GateVerdict;

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
    /// Accept a run in which a local command answered for the agent.
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
    /// The suite is signed.
    SignedSuite,
    /// It passed.
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
    evidence: Option<Evidence<'_>>,
    now: Timestamp,
) -> Vec<Unmet> {
    let Some(evidence) = evidence else {
        return vec![Unmet {
            condition: Condition::EvalRun,
            message: "no eval run of this tenant is named".to_owned(),
        }];
    };
    let mut checks = Checks {
        policy,
        evidence,
        now,
        unmet: Vec::new(),
    };
    checks.candidate(candidate);
    checks.suite();
    checks.result();
    checks.not_voided();
    checks.significance();
    checks.judge();
    checks.coverage();
    checks.answers();
    checks.safety();
    checks.age();
    checks.unmet
}

/// The conditions, checked one by one.
struct Checks<'a> {
    policy: &'a GatePolicy,
    evidence: Evidence<'a>,
    now: Timestamp,
    unmet: Vec<Unmet>,
}

impl Checks<'_> {
    fn refuse(&mut self, condition: Condition, message: String) {
        self.unmet.push(Unmet { condition, message });
    }

    fn candidate(&mut self, candidate: Candidate<'_>) {
        let run = self.evidence.run;
        if matches!(run.verdict, Verdict::Inconclusive | Verdict::Pending) {
            self.refuse(
                Condition::Conclusive,
                format!("the eval run is {}: not every task was judged", run.status),
            );
        }
        if run.agent.agent_id.as_str() != candidate.agent_id {
            self.refuse(
                Condition::Agent,
                format!("the eval run evaluated agent {}", run.agent.agent_id),
            );
        }
        if run.agent.version != candidate.version {
            self.refuse(
                Condition::Version,
                format!("the eval run evaluated version {}", run.agent.version),
            );
        }
        // A version can be removed and installed again with different content.
        if run.agent.agent_id.as_str() == candidate.agent_id
            && run.agent.version == candidate.version
            && run.agent.pack_integrity != candidate.pack_integrity
        {
            self.refuse(
                Condition::Content,
                "the installed pack differs from the evaluated one, although its version is the \
                 same"
                    .to_owned(),
            );
        }
    }

    fn suite(&mut self) {
        let policy = self.policy;
        let run = self.evidence.run;
        if let Some(suite) = &policy.suite_id
            && *suite != run.suite.suite_id
        {
            self.refuse(
                Condition::Suite,
                format!(
                    "the gate requires suite {suite}, but the run used {}",
                    run.suite.suite_id
                ),
            );
        }
        if policy.require_signed_suite && !run.suite.signed {
            self.refuse(
                Condition::SignedSuite,
                "no trusted signature covers the suite".to_owned(),
            );
        }
    }

    fn result(&mut self) {
        let policy = self.policy;
        let run = self.evidence.run;
        match policy.required_pass_score {
            // Written so that a NaN in the policy is never reached.
            Some(score)
                if !matches!(
                    run.summary.aggregate_score.partial_cmp(&score),
                    Some(Ordering::Equal | Ordering::Greater)
                ) =>
            {
                self.refuse(
                    Condition::PassScore,
                    format!(
                        "aggregate score {:.3} is below the required {score:.3}",
                        run.summary.aggregate_score
                    ),
                )
            }
            Some(_) => {}
            None if run.verdict == Verdict::Pass && run.summary.passed => {}
            None if run.reasons.is_empty() => self.refuse(
                Condition::Passed,
                format!("the eval run has not passed: it is {}", run.status),
            ),
            None => self.refuse(
                Condition::Passed,
                format!("the eval run did not pass: {}", run.reasons.join("; ")),
            ),
        }
    }

    fn not_voided(&mut self) {
        let run = self.evidence.run;
        let sources = sources(run);
        let voided = self.evidence.attempts.iter().find_map(|attempt| {
            let voided = attempt.voided.as_ref()?;
            sources
                .contains(&attempt.run_id)
                .then_some((attempt, voided))
        });
        if let Some((attempt, voided)) = voided {
            let what = match attempt.run_id == run.run_id {
                true => "the eval run".to_owned(),
                false => format!(
                    "{}, whose judged tasks the eval run reuses,",
                    attempt.run_id
                ),
            };
            self.refuse(
                Condition::NotVoided,
                format!(
                    "{what} was voided by {}: {}",
                    voided.principal, voided.reason
                ),
            );
        }
    }

    fn significance(&mut self) {
        let policy = self.policy;
        let evidence = self.evidence;
        // `candidate` reports an unjudged run.
        if !evidence.run.is_judged() {
            return;
        }
        let found = statistics(evidence, None, policy.required_pass_score);
        let score = found.gate.score.unwrap_or_default();
        let runs = found.gate.attempts.run_ids.len();
        let unjudged = evidence.further.iter().filter(|run| !run.is_judged());
        let open = evidence.missing + unjudged.count();
        match policy.confidence {
            // The missing trial may be one that failed.
            Strictness::Lenient if open > 0 => self.refuse(
                Condition::Conclusive,
                format!("{open} other trials of the experiment are missing or were not judged"),
            ),
            Strictness::Strict if found.gate.verdict != GateVerdict::Pass => {
                self.refuse(Condition::Confidence, unshown(&found.gate));
            }
            // A single run may have been lucky, so all runs count.
            Strictness::Lenient if score < found.gate.threshold && runs > 1 => self.refuse(
                Condition::Confidence,
                format!(
                    "the score over {runs} runs of the same agent, suite and model is {score:.3}, below {:.3}",
                    found.gate.threshold
                ),
            ),
            Strictness::Strict | Strictness::Lenient => {}
        }
    }

    fn judge(&mut self) {
        let run = self.evidence.run;
        if let (Some(judge), Some(least)) = (&run.judge, self.policy.min_judge_agreement)
            && let Some(doubt) = doubt(judge.calibration.as_ref(), least, self.now)
        {
            self.refuse(
                Condition::JudgeCalibrated,
                format!(
                    "the judge of the eval run (model {}) {doubt}; the gate requires an \
                     agreement of {least:.2}",
                    judge.model
                ),
            );
        }
    }

    /// How much of the suite ran, and whether anything in it was ignored.
    fn coverage(&mut self) {
        let policy = self.policy;
        let run = self.evidence.run;
        if run.summary.task_count < policy.min_tasks {
            self.refuse(
                Condition::MinTasks,
                format!(
                    "{} ran, but the gate requires {}",
                    tasks(run.summary.task_count),
                    policy.min_tasks
                ),
            );
        }
        if !policy.allow_partial_suite && run.summary.task_count < run.suite.task_count {
            self.refuse(
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
            self.refuse(
                Condition::WholeRun,
                format!(
                    "the eval run kept {} judged in {} and executed the others again; use a \
                     complete run",
                    tasks(rerun.kept_tasks),
                    rerun.source_run_id
                ),
            );
        }
        if !policy.allow_ignore && !run.ignore.is_empty() {
            self.refuse(
                Condition::NoIgnore,
                format!(
                    "members were ignored in matching: {}",
                    run.ignore.join(", ")
                ),
            );
        }
    }

    /// Where the answers of the agent and its tools came from.
    fn answers(&mut self) {
        let policy = self.policy;
        let trials = self.evidence.trials();
        if let Some(cassette) = trials.iter().find_map(|run| run.replayed_from.as_ref())
            && !policy.allow_replay
        {
            self.refuse(
                Condition::NoReplay,
                format!(
                    "the answers were replayed from cassette {cassette}; use a run that called \
                     its models"
                ),
            );
        }
        if trials.iter().any(|run| run.is_by_command()) && !policy.allow_agent_command {
            self.refuse(
                Condition::NoAgentCommand,
                "a local command answered for the agent (`--agent-command`); use a run of its \
                 model or endpoint"
                    .to_owned(),
            );
        }
        let missing = trials
            .iter()
            .flat_map(|run| &run.tasks)
            .filter(|task| !task.fixture_missing.is_empty())
            .count();
        if !policy.allow_missing_fixtures && missing > 0 {
            self.refuse(
                Condition::Fixtures,
                format!(
                    "{} called a tool for which the suite has no response",
                    tasks(missing)
                ),
            );
        }
    }

    fn safety(&mut self) {
        let trials = self.evidence.trials();
        let accepted: &[&str] = match self.policy.allow_forbidden_tools {
            true => &[UNSAFE_TOOL_CALL],
            false => &[],
        };
        let (unsafe_tasks, kinds) =
            critical(trials.iter().flat_map(|run| &run.summary.tasks), accepted);
        if unsafe_tasks > 0 {
            let kinds: Vec<&str> = kinds.into_iter().map(in_words).collect();
            self.refuse(
                Condition::Safety,
                format!(
                    "critical safety findings in {}: {}",
                    tasks(unsafe_tasks),
                    kinds.join(", ")
                ),
            );
        }
        let named: Vec<&RunId> = trials.iter().map(|run| &run.run_id).collect();
        for (run, kinds) in attempts::critical(self.evidence.attempts, accepted) {
            if !named.contains(&run) {
                let kinds: Vec<&str> = kinds.into_iter().map(in_words).collect();
                self.refuse(
                    Condition::Safety,
                    format!(
                        "critical safety findings in {run}, another run of the same agent, suite \
                         and model: {}",
                        kinds.join(", ")
                    ),
                );
            }
        }
    }

    fn age(&mut self) {
        let trials = self.evidence.trials();
        let Some(most) = self.policy.max_age_seconds else {
            return;
        };
        let now = self.now;
        let old = |at: Timestamp| {
            now.duration_since(at).as_secs() > i64::try_from(most).unwrap_or(i64::MAX)
        };
        if trials.iter().any(|run| run.completed_at.is_none_or(old)) {
            self.refuse(
                Condition::Age,
                format!("the eval run did not end within the last {most} seconds"),
            );
        } else if trials
            .iter()
            .any(|run| run.facts_recorded_at.is_some_and(old))
        {
            // Forking or retrying a run does not make its facts younger.
            self.refuse(
                Condition::Age,
                format!(
                    "the eval run reuses facts that were not recorded within the last {most} \
                     seconds"
                ),
            );
        }
    }
}

/// The run, and the runs whose judged tasks it shows as its own: the source of a replay, a retry or
/// a branch.
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
        return "a score of 1 can never be shown with a finite number of tasks; require a score \
                below 1, or accept the observed score (`confidence: lenient`)"
            .to_owned();
    }
    match shown.verdict {
        GateVerdict::Fail => format!("the score is significantly below {threshold:.3}"),
        _ => format!(
            "{}; run more tasks, or accept the observed score (`confidence: lenient`)",
            shown.reasons.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests;
