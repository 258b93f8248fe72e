//! The eval gate (RFC 0082): may this agent version be promoted on this evidence? A pure rule, fail-closed.
//!
//! Every unmet condition is named; an empty list is the only way to pass.

use std::cmp::Ordering;

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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::domain::eval::report::{AgentProvenance, SuiteProvenance, TaskOutcome, TaskReport};
    use crate::protocol::openwop::suite::EvalMode;
    use crate::protocol::openwop::summary::EvalSummary;

    const CANDIDATE: Candidate<'_> = Candidate {
        agent_id: "vendor.acme.triage.default",
        version: "1.2.0",
    };

    fn passing() -> EvalReport {
        let task = TaskReport {
            task_id: "refund".into(),
            outcome: TaskOutcome::Passed,
            reason: None,
            fixture_missing: Vec::new(),
            forbidden_tools: Vec::new(),
            retries: 0,
            reused_from: None,
        };
        EvalReport {
            run_id: "run_1".into(),
            status: "completed".to_owned(),
            verdict: Verdict::Pass,
            reasons: Vec::new(),
            suite: SuiteProvenance {
                suite_id: "vendor.acme.evals.triage".to_owned(),
                version: "1.0.0".to_owned(),
                digest: "sha256-x".to_owned(),
                signed: true,
                task_count: 1,
            },
            agent: AgentProvenance {
                agent_id: CANDIDATE.agent_id.into(),
                version: CANDIDATE.version.to_owned(),
                pack_integrity: "sha256-y".to_owned(),
                model: None,
                provider: None,
            },
            modes: vec![EvalMode::Golden],
            notes: Vec::new(),
            ignore: Vec::new(),
            summary: EvalSummary {
                suite_id: "vendor.acme.evals.triage".to_owned(),
                suite_version: "1.0.0".to_owned(),
                evaluated_model_class: None,
                aggregate_score: 0.9,
                passed: true,
                task_count: 1,
                passed_count: 1,
                total_cost_usd: None,
                tasks: Vec::new(),
                regression: None,
            },
            tasks: vec![task],
            retry_of: None,
            completed_at: None,
            duration_ms: None,
        }
    }

    fn conditions(policy: &GatePolicy, evidence: &EvalReport) -> Vec<Condition> {
        unmet(policy, CANDIDATE, Some(evidence))
            .into_iter()
            .map(|unmet| unmet.condition)
            .collect()
    }

    #[test]
    fn good_evidence_leaves_nothing_unmet() {
        assert_eq!(conditions(&GatePolicy::default(), &passing()), []);
    }

    #[test]
    fn no_evidence_is_refused_and_nothing_else_is_looked_at() {
        let unmet = unmet(&GatePolicy::default(), CANDIDATE, None);
        assert_eq!(
            unmet
                .iter()
                .map(|unmet| unmet.condition)
                .collect::<Vec<_>>(),
            [Condition::EvalRun]
        );
    }

    type Spoil = fn(&mut EvalReport);

    #[rstest]
    #[case::unjudged(|run: &mut EvalReport| run.verdict = Verdict::Inconclusive, &[Condition::Conclusive, Condition::Passed])]
    #[case::running(|run: &mut EvalReport| run.verdict = Verdict::Pending, &[Condition::Conclusive, Condition::Passed])]
    #[case::failed(|run: &mut EvalReport| { run.verdict = Verdict::Fail; run.summary.passed = false }, &[Condition::Passed])]
    #[case::summary_disagrees(|run: &mut EvalReport| run.summary.passed = false, &[Condition::Passed])]
    #[case::other_agent(|run: &mut EvalReport| run.agent.agent_id = "vendor.acme.triage.second".into(), &[Condition::Agent])]
    #[case::other_version(|run: &mut EvalReport| run.agent.version = "1.2.1".to_owned(), &[Condition::Version])]
    #[case::unsigned(|run: &mut EvalReport| run.suite.signed = false, &[Condition::SignedSuite])]
    #[case::part_of_the_suite(|run: &mut EvalReport| run.suite.task_count = 2, &[Condition::WholeSuite])]
    #[case::ignore_list(|run: &mut EvalReport| run.ignore = vec!["/why".to_owned()], &[Condition::NoIgnore])]
    #[case::missing_fixture(
        |run: &mut EvalReport| run.tasks.iter_mut().for_each(|task| task.fixture_missing = vec!["acme:crm".to_owned()]),
        &[Condition::Fixtures]
    )]
    #[case::no_task(|run: &mut EvalReport| { run.summary.task_count = 0; run.suite.task_count = 0 }, &[Condition::MinTasks])]
    fn every_flaw_is_named(#[case] spoil: Spoil, #[case] expected: &[Condition]) {
        let mut evidence = passing();
        spoil(&mut evidence);
        assert_eq!(conditions(&GatePolicy::default(), &evidence), expected);
    }

    #[rstest]
    #[case(GatePolicy { allow_ignore: true, ..GatePolicy::default() }, |run: &mut EvalReport| run.ignore = vec!["/why".to_owned()])]
    #[case(GatePolicy { require_signed_suite: false, ..GatePolicy::default() }, |run: &mut EvalReport| run.suite.signed = false)]
    #[case(GatePolicy { allow_partial_suite: true, ..GatePolicy::default() }, |run: &mut EvalReport| run.suite.task_count = 2)]
    #[case(GatePolicy { required_pass_score: Some(0.9), ..GatePolicy::default() }, |run: &mut EvalReport| {
        run.verdict = Verdict::Fail;
        run.summary.passed = false;
    })]
    fn a_policy_may_allow_what_is_refused_by_default(
        #[case] policy: GatePolicy,
        #[case] spoil: Spoil,
    ) {
        let mut evidence = passing();
        spoil(&mut evidence);
        assert_eq!(conditions(&policy, &evidence), []);
        assert_ne!(conditions(&GatePolicy::default(), &evidence), []);
    }

    #[test]
    fn a_demanded_score_suite_and_size_bind() {
        let policy = GatePolicy {
            suite_id: Some("vendor.acme.evals.other".to_owned()),
            required_pass_score: Some(0.95),
            min_tasks: 20,
            ..GatePolicy::default()
        };
        assert_eq!(
            conditions(&policy, &passing()),
            [Condition::Suite, Condition::PassScore, Condition::MinTasks]
        );
    }

    #[test]
    fn a_demanded_score_that_is_no_number_is_never_reached() {
        let policy = GatePolicy {
            required_pass_score: Some(f64::NAN),
            ..GatePolicy::default()
        };
        assert_eq!(conditions(&policy, &passing()), [Condition::PassScore]);
    }

    #[test]
    fn a_demanded_score_does_not_excuse_unjudged_tasks() {
        let policy = GatePolicy {
            required_pass_score: Some(0.5),
            ..GatePolicy::default()
        };
        let mut evidence = passing();
        evidence.verdict = Verdict::Inconclusive;
        assert_eq!(conditions(&policy, &evidence), [Condition::Conclusive]);
    }
}
