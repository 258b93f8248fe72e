//! The conditions of the gate, checked one by one.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Candidate, Condition, GatePolicy, Strictness, Unmet};
use crate::rules::eval::attempts::{self, Attempt};
use crate::rules::eval::report::{RunTotals, Verdict};
use crate::rules::eval::rubric::calibration::shortfall;
use crate::rules::eval::safety::UNSAFE_TOOL_CALL;
use crate::rules::eval::safety::kinds::in_words;
use crate::rules::eval::scoring::tasks;
use crate::rules::eval::statistics::unshown::unshown;
use crate::rules::eval::statistics::{Evidence, TaskFigures, statistics};
use crate::rules::run::fork::ForkMode;
use touchstone_kit::ids::RunId;
use touchstone_kit::statistics::GateVerdict;

/// A run as the checks see it.
type CheckedRun<'a> = (&'a RunTotals, &'a TaskFigures);

pub(super) struct Checks<'a> {
    policy: &'a GatePolicy,
    /// The named run.
    named: CheckedRun<'a>,
    /// All trials of its experiment, in order.
    trials: Vec<CheckedRun<'a>>,
    attempts: &'a [Attempt],
    /// The scores; `None` if their significance is not checked.
    evidence: Option<&'a Evidence>,
    now: Timestamp,
    unmet: Vec<Unmet>,
}

impl<'a> Checks<'a> {
    pub(super) fn new(policy: &'a GatePolicy, evidence: &'a Evidence, now: Timestamp) -> Self {
        let trials = evidence.trials().into_iter();
        Self {
            named: (&evidence.run.report, evidence.run.figures()),
            trials: trials.map(|run| (&run.report, run.figures())).collect(),
            attempts: &evidence.attempts,
            evidence: Some(evidence),
            policy,
            now,
            unmet: Vec::new(),
        }
    }

    /// Checks of a run by itself, without the significance of its score.
    pub(super) fn of_run(policy: &'a GatePolicy, run: CheckedRun<'a>, now: Timestamp) -> Self {
        Self {
            named: run,
            trials: vec![run],
            attempts: &[],
            evidence: None,
            policy,
            now,
            unmet: Vec::new(),
        }
    }

    pub(super) fn unmet(mut self, candidate: Candidate<'_>) -> Vec<Unmet> {
        self.candidate(candidate);
        self.suite();
        self.result();
        self.not_voided();
        if let Some(evidence) = self.evidence {
            self.significance(evidence);
        }
        self.judge();
        self.coverage();
        self.answers();
        self.safety();
        self.age();
        self.unmet
    }

    fn refuse(&mut self, condition: Condition, message: String) {
        self.unmet.push(Unmet { condition, message });
    }

    fn candidate(&mut self, candidate: Candidate<'_>) {
        let (run, _) = self.named;
        if matches!(
            run.lenient_verdict(),
            Verdict::Inconclusive | Verdict::Pending
        ) {
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
        let (run, _) = self.named;
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
        let (run, _) = self.named;
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
                        "the score {:.3} is below the required {score:.3}",
                        run.summary.aggregate_score
                    ),
                )
            }
            Some(_) => {}
            None if run.lenient_verdict() == Verdict::Pass && run.summary.passed => {}
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
        let (run, figures) = self.named;
        let sources = sources(run, figures);
        let voided = self.attempts.iter().find_map(|attempt| {
            let voided = attempt.voided.as_ref()?;
            sources
                .contains(&attempt.run_id)
                .then_some((attempt, voided))
        });
        if let Some((attempt, voided)) = voided {
            let subject = match attempt.run_id == run.run_id {
                true => "the eval run".to_owned(),
                false => format!(
                    "{}, whose judged tasks the eval run reuses,",
                    attempt.run_id
                ),
            };
            self.refuse(
                Condition::NotVoided,
                format!(
                    "{subject} was voided by {}: {}",
                    voided.principal, voided.reason
                ),
            );
        }
    }

    fn significance(&mut self, evidence: &Evidence) {
        let policy = self.policy;
        // `candidate` reports an unjudged run.
        if !evidence.run.report.is_judged() {
            return;
        }
        let found = statistics(evidence, None, policy.required_pass_score);
        let score = found.gate.score.unwrap_or_default();
        let runs = found.gate.attempts.run_ids.len();
        let further = evidence.further.iter();
        let unjudged = further.filter(|run| !run.report.is_judged());
        let open = evidence.missing + unjudged.count();
        match policy.confidence {
            // The missing trial may be one that failed.
            Strictness::Lenient if open > 0 => self.refuse(
                Condition::Conclusive,
                format!("{open} other trials of the experiment are missing or unjudged"),
            ),
            Strictness::Strict if found.gate.verdict != GateVerdict::Pass => {
                self.refuse(
                    Condition::Confidence,
                    unshown(
                        &found.gate,
                        "require a score below 1 (`gate set --pass-score`)",
                        "gate set --lenient",
                    ),
                );
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
        let (run, _) = self.named;
        if let (Some(judge), Some(least)) = (&run.judge, self.policy.min_judge_agreement)
            && let Some(shortfall) = shortfall(judge.calibration.as_ref(), least, self.now)
        {
            self.refuse(
                Condition::JudgeCalibrated,
                format!(
                    "the judge of the eval run (model {}) {shortfall}; the gate requires an \
                     agreement of {least:.2}",
                    judge.model
                ),
            );
        }
    }

    /// How much of the suite ran, and whether anything in it was ignored.
    fn coverage(&mut self) {
        let policy = self.policy;
        let (run, _) = self.named;
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
                    "the eval run reused {} judged in {} and executed only the others; use a run \
                     that executed all tasks",
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
        let trials: Vec<&RunTotals> = self.trials.iter().map(|(run, _)| *run).collect();
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
        if trials.iter().any(|run| run.answer_cache.is_some()) && !policy.allow_replay {
            self.refuse(
                Condition::NoReplay,
                "answers may have come from the cache of model answers; use a run with --no-cache"
                    .to_owned(),
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
        if trials.iter().any(|run| run.deciders.command.is_some()) && !policy.allow_agent_command {
            self.refuse(
                Condition::NoAgentCommand,
                "a local command decided assertions (`--assert-command`, `[assertions]`); use a \
                 suite without assertions of the type `command`"
                    .to_owned(),
            );
        }
        let missing = self.trials.iter().map(|(_, of)| of.missing_fixtures).sum();
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
        let accepted: &[&str] = match self.policy.allow_forbidden_tools {
            true => &[UNSAFE_TOOL_CALL],
            false => &[],
        };
        let (mut unsafe_tasks, mut kinds) = (0, BTreeSet::new());
        for (_, figures) in &self.trials {
            let (tasks, found) = figures.critical(accepted);
            unsafe_tasks += tasks;
            kinds.extend(found);
        }
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
        let named: Vec<&RunId> = self.trials.iter().map(|(run, _)| &run.run_id).collect();
        for (run, kinds) in attempts::critical(self.attempts, accepted) {
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
        let trials = &self.trials;
        let Some(most) = self.policy.max_age_seconds else {
            return;
        };
        let now = self.now;
        let old = |at: Timestamp| {
            now.duration_since(at).as_secs() > i64::try_from(most).unwrap_or(i64::MAX)
        };
        if trials
            .iter()
            .any(|(run, _)| run.completed_at.is_none_or(old))
        {
            self.refuse(
                Condition::Age,
                format!("the eval run did not end within the last {most} seconds"),
            );
        } else if trials
            .iter()
            .any(|(run, _)| run.facts_recorded_at.is_some_and(old))
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
fn sources<'a>(run: &'a RunTotals, figures: &'a TaskFigures) -> BTreeSet<&'a RunId> {
    let replayed = run.fork.as_ref();
    let replayed = replayed.filter(|fork| fork.mode == ForkMode::Replay);
    let mut sources: BTreeSet<&RunId> = figures.reused_from.iter().collect();
    sources.insert(&run.run_id);
    sources.extend(replayed.map(|fork| &fork.source_run_id));
    sources.extend(run.partial_rerun.as_ref().map(|rerun| &rerun.source_run_id));
    sources
}
