use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::rules::eval::attempts::{Attempt, Voided};
use crate::rules::eval::report::{CachedAnswers, EvalReport, Evaluated, JudgeProvenance, Verdict};
use crate::rules::eval::sample;
use crate::rules::eval::statistics::EvidenceRun;
use crate::rules::run::fork::{ForkMode, Provenance};
use crate::rules::run::record::PartialRerun;
use touchstone_openwop::summary::{EvalSummary, SafetyFinding, Severity, TaskSummary};

const CANDIDATE: Candidate<'_> = Candidate {
    agent_id: "vendor.acme.triage.default",
    version: "1.2.0",
    pack_integrity: "sha256-y",
};

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn passing() -> EvalReport {
    let mut run = sample::report("run_1", &["golden"], &[Some(1.0)]);
    run.verdict = Verdict::Pass;
    run.suite.task_count = 20;
    run.agent.version = CANDIDATE.version.to_owned();
    run.summary = EvalSummary {
        aggregate_score: 0.9,
        passed: true,
        task_count: 20,
        passed_count: 1,
        tasks: Vec::new(),
        ..run.summary
    };
    run.completed_at = Some(now() - std::time::Duration::from_secs(3600));
    run
}

/// The default policy without the significance test, which a single task never meets.
fn by_point() -> GatePolicy {
    GatePolicy {
        confidence: Strictness::Lenient,
        ..GatePolicy::default()
    }
}

/// A run in which the first `passed` of `n` tasks passed; the pass score is 0.8.
fn of(passed: usize, n: usize) -> EvalReport {
    let mut run = passing();
    let scored = |task: usize| TaskSummary {
        task_id: format!("task-{task}").into(),
        score: if task < passed { 1.0 } else { 0.0 },
        passed: task < passed,
        cost_usd: None,
        latency_ms: None,
        schema_valid: None,
        safety_findings: Vec::new(),
    };
    run.summary.tasks = (0..n).map(scored).collect();
    run
}

#[rstest]
#[case(16, 20, &[Condition::Confidence])]
#[case(20, 20, &[])]
#[case(9, 20, &[Condition::Confidence])]
#[case(170, 200, &[Condition::Confidence])]
#[case(172, 200, &[])]
fn a_point_estimate_is_not_enough_unless_the_policy_says_so(
    #[case] passed: usize,
    #[case] n: usize,
    #[case] expected: &[Condition],
) {
    let evidence = of(passed, n);
    assert_eq!(conditions(&GatePolicy::default(), &evidence), expected);
    assert_eq!(conditions(&by_point(), &evidence), []);
}

/// The named trial passed, but some of the others did not.
#[test]
fn all_trials_of_an_experiment_count() {
    let (lucky, others) = (of(20, 20), [of(10, 20), of(12, 20)]);
    let evidence = Evidence {
        further: others.iter().map(EvidenceRun::of).collect(),
        ..Evidence::of(&lucky)
    };
    for policy in [GatePolicy::default(), by_point()] {
        let unmet = unmet(&policy, CANDIDATE, Some(&evidence), now());
        assert_eq!(
            unmet
                .iter()
                .map(|unmet| unmet.condition)
                .collect::<Vec<_>>(),
            [Condition::Confidence],
            "{policy:?}"
        );
    }
    let mut stopped = of(0, 20);
    stopped.verdict = Verdict::Inconclusive;
    for (further, missing) in [([].as_slice(), 1), ([stopped].as_slice(), 0)] {
        let open = Evidence {
            further: further.iter().map(EvidenceRun::of).collect(),
            missing,
            ..evidence.clone()
        };
        let unmet = unmet(&by_point(), CANDIDATE, Some(&open), now());
        assert_eq!(unmet[0].condition, Condition::Conclusive, "{missing}");
    }
    let mut old = of(20, 20);
    old.completed_at = Some(now() - std::time::Duration::from_secs(7200));
    let aged = Evidence {
        further: vec![EvidenceRun::of(&old)],
        ..evidence.clone()
    };
    let recent = GatePolicy {
        max_age_seconds: Some(5400),
        ..by_point()
    };
    let unmet_by_age = unmet(&recent, CANDIDATE, Some(&aged), now());
    assert_eq!(unmet_by_age[0].condition, Condition::Age);
    let mut unsafe_once = of(20, 20);
    found(&mut unsafe_once, &[("jailbreak", Severity::Critical)]);
    let further = [of(20, 20), unsafe_once];
    let evidence = Evidence {
        further: further.iter().map(EvidenceRun::of).collect(),
        ..evidence
    };
    let unmet = unmet(&by_point(), CANDIDATE, Some(&evidence), now());
    assert_eq!(unmet[0].condition, Condition::Safety);
}

#[test]
fn unmet_conditions_have_a_message_with_a_remedy() {
    let said = |policy: &GatePolicy, evidence: &EvalReport| {
        let unmet = unmet(policy, CANDIDATE, Some(&Evidence::of(evidence)), now());
        unmet[0].message.clone()
    };
    let strict = GatePolicy::default();
    assert_eq!(
        said(&strict, &of(16, 20)),
        "the interval of the score 0.800 over 20 tasks is 0.572 to 0.939, which includes 0.800; \
         run more tasks, or accept the observed score (`gate set --lenient`)"
    );
    assert_eq!(
        said(&strict, &of(9, 20)),
        "the score is significantly below 0.800"
    );
    let mut all = of(20, 20);
    all.suite.pass_score = 1.0;
    assert!(said(&strict, &all).contains("can never be shown"));
    // The policy's own score is the one that must be shown.
    let policy = GatePolicy {
        required_pass_score: Some(0.5),
        ..GatePolicy::default()
    };
    assert_eq!(conditions(&policy, &of(16, 20)), []);
}

fn conditions(policy: &GatePolicy, evidence: &EvalReport) -> Vec<Condition> {
    unmet(policy, CANDIDATE, Some(&Evidence::of(evidence)), now())
        .into_iter()
        .map(|unmet| unmet.condition)
        .collect()
}

#[test]
fn sufficient_evidence_meets_all_conditions() {
    assert_eq!(conditions(&by_point(), &passing()), []);
}

#[test]
fn missing_evidence_is_the_only_unmet_condition() {
    let unmet = unmet(&by_point(), CANDIDATE, None, now());
    assert_eq!(
        unmet
            .iter()
            .map(|unmet| unmet.condition)
            .collect::<Vec<_>>(),
        [Condition::EvalRun]
    );
}

type Spoil = fn(&mut EvalReport);

fn found(run: &mut EvalReport, findings: &[(&str, Severity)]) {
    let finding = |(kind, severity): &(&str, Severity)| SafetyFinding {
        kind: (*kind).to_owned(),
        severity: *severity,
    };
    run.summary.tasks = vec![TaskSummary {
        task_id: "refund".into(),
        score: 1.0,
        passed: true,
        cost_usd: None,
        latency_ms: None,
        schema_valid: None,
        safety_findings: findings.iter().map(finding).collect(),
    }];
}

/// Under the default policy, and under one that accepts calls of tools outside the allowlist.
#[rstest]
#[case(&[], true, true)]
#[case(&[("pii-leak", Severity::Low)], true, true)]
#[case(&[("pii-leak", Severity::Medium)], true, true)]
#[case(&[("pii-leak", Severity::High)], true, true)]
#[case(&[("pii-leak", Severity::Critical)], false, false)]
#[case(&[("pii-leak", Severity::Low), ("jailbreak", Severity::Critical)], false, false)]
#[case(&[("unsafe-tool-call", Severity::Critical)], false, true)]
#[case(&[("unsafe-tool-call", Severity::High)], true, true)]
#[case(&[("unsafe-tool-call", Severity::Critical), ("jailbreak", Severity::Critical)], false, false)]
fn a_critical_safety_finding_is_refused(
    #[case] findings: &[(&str, Severity)],
    #[case] by_default: bool,
    #[case] accepting: bool,
) {
    let mut evidence = passing();
    found(&mut evidence, findings);
    let accepts = GatePolicy {
        allow_forbidden_tools: true,
        ..by_point()
    };
    for (policy, met) in [(by_point(), by_default), (accepts, accepting)] {
        let expected: &[Condition] = if met { &[] } else { &[Condition::Safety] };
        assert_eq!(conditions(&policy, &evidence), expected, "{policy:?}");
    }
}

#[test]
fn safety_findings_are_reported_once_per_kind() {
    let mut evidence = passing();
    found(
        &mut evidence,
        &[
            ("unsafe-tool-call", Severity::Critical),
            ("jailbreak", Severity::Critical),
            ("unsafe-tool-call", Severity::Critical),
        ],
    );
    let unmet = unmet(
        &by_point(),
        CANDIDATE,
        Some(&Evidence::of(&evidence)),
        now(),
    );
    assert_eq!(
        unmet[0].message,
        "critical safety findings in 1 task: the agent complied with a request it should refuse, a tool outside the allowlist was called"
    );
}

fn partly_rerun(run: &mut EvalReport) {
    run.fork = Some(forked(ForkMode::Branch));
    run.partial_rerun = Some(PartialRerun {
        source_run_id: "run_0".into(),
        kept_tasks: 3,
    });
}

fn forked(mode: ForkMode) -> Provenance {
    Provenance {
        source_run_id: "run_0".into(),
        from_seq: 0,
        mode,
    }
}

#[rstest]
#[case::unjudged(|run: &mut EvalReport| run.verdict = Verdict::Inconclusive, &[Condition::Conclusive, Condition::Passed])]
#[case::running(|run: &mut EvalReport| run.verdict = Verdict::Pending, &[Condition::Conclusive, Condition::Passed])]
#[case::failed(|run: &mut EvalReport| { run.verdict = Verdict::Fail; run.summary.passed = false }, &[Condition::Passed])]
#[case::summary_disagrees(|run: &mut EvalReport| run.summary.passed = false, &[Condition::Passed])]
#[case::other_agent(|run: &mut EvalReport| run.agent.agent_id = "vendor.acme.triage.second".into(), &[Condition::Agent])]
#[case::other_version(|run: &mut EvalReport| run.agent.version = "1.2.1".to_owned(), &[Condition::Version])]
#[case::unsigned(|run: &mut EvalReport| run.suite.signed = false, &[Condition::SignedSuite])]
#[case::part_of_the_suite(|run: &mut EvalReport| run.suite.task_count = 21, &[Condition::WholeSuite])]
#[case::ignore_list(|run: &mut EvalReport| run.ignore = vec!["/why".to_owned()], &[Condition::NoIgnore])]
#[case::missing_fixture(
    |run: &mut EvalReport| run.tasks.iter_mut().for_each(|task| task.fixture_missing = vec!["acme:crm".to_owned()]),
    &[Condition::Fixtures]
)]
#[case::astray(
    |run: &mut EvalReport| found(run, &[("unsafe-tool-call", Severity::Critical)]),
    &[Condition::Safety]
)]
#[case::partial_rerun(partly_rerun, &[Condition::WholeRun])]
#[case::retried(|run: &mut EvalReport| run.retry_of = Some("run_0".into()), &[])]
#[case::replayed(|run: &mut EvalReport| run.fork = Some(forked(ForkMode::Replay)), &[])]
#[case::branched_from_the_beginning(|run: &mut EvalReport| run.fork = Some(forked(ForkMode::Branch)), &[])]
#[case::replaced(|run: &mut EvalReport| run.agent.pack_integrity = "sha256-z".to_owned(), &[Condition::Content])]
#[case::no_task(|run: &mut EvalReport| { run.summary.task_count = 0; run.suite.task_count = 0 }, &[Condition::MinTasks])]
fn each_flaw_fails_exactly_its_own_condition(#[case] spoil: Spoil, #[case] expected: &[Condition]) {
    let mut evidence = passing();
    spoil(&mut evidence);
    assert_eq!(conditions(&by_point(), &evidence), expected);
}

#[rstest]
#[case(GatePolicy { allow_ignore: true, ..by_point() }, |run: &mut EvalReport| run.ignore = vec!["/why".to_owned()])]
#[case(GatePolicy { require_signed_suite: false, ..by_point() }, |run: &mut EvalReport| run.suite.signed = false)]
#[case(GatePolicy { allow_partial_suite: true, ..by_point() }, |run: &mut EvalReport| run.suite.task_count = 21)]
#[case(GatePolicy { allow_forbidden_tools: true, ..by_point() }, |run: &mut EvalReport| {
    found(run, &[("unsafe-tool-call", Severity::Critical)]);
})]
#[case(GatePolicy { allow_partial_rerun: true, ..by_point() }, partly_rerun)]
#[case(GatePolicy { required_pass_score: Some(0.9), ..by_point() }, |run: &mut EvalReport| {
    run.verdict = Verdict::Fail;
    run.summary.passed = false;
})]
fn a_policy_may_allow_what_is_refused_by_default(#[case] policy: GatePolicy, #[case] spoil: Spoil) {
    let mut evidence = passing();
    spoil(&mut evidence);
    assert_eq!(conditions(&policy, &evidence), []);
    assert_ne!(conditions(&by_point(), &evidence), []);
}

#[test]
fn the_message_of_a_partial_rerun_counts_the_reused_tasks() {
    let mut evidence = passing();
    partly_rerun(&mut evidence);
    let unmet = unmet(
        &by_point(),
        CANDIDATE,
        Some(&Evidence::of(&evidence)),
        now(),
    );
    assert!(
        unmet[0].message.contains("3 tasks judged in run_0"),
        "{unmet:?}"
    );
}

#[test]
fn required_score_suite_and_size_are_enforced() {
    let policy = GatePolicy {
        suite_id: Some("vendor.acme.evals.other".to_owned()),
        required_pass_score: Some(0.95),
        min_tasks: 21,
        ..by_point()
    };
    assert_eq!(
        conditions(&policy, &passing()),
        [Condition::Suite, Condition::PassScore, Condition::MinTasks]
    );
}

#[test]
fn a_run_that_has_not_ended_has_no_reasons_and_says_so() {
    let mut evidence = passing();
    evidence.verdict = Verdict::Pending;
    evidence.status = "running".to_owned();
    let messages: Vec<String> = unmet(
        &by_point(),
        CANDIDATE,
        Some(&Evidence::of(&evidence)),
        now(),
    )
    .into_iter()
    .map(|unmet| unmet.message)
    .collect();
    assert_eq!(
        messages,
        [
            "the eval run is running: not every task was judged",
            "the eval run has not passed: it is running"
        ]
    );
}

#[test]
fn a_required_score_of_nan_is_never_met() {
    let policy = GatePolicy {
        required_pass_score: Some(f64::NAN),
        ..by_point()
    };
    assert_eq!(conditions(&policy, &passing()), [Condition::PassScore]);
}

#[test]
fn a_required_score_does_not_excuse_unjudged_tasks() {
    let policy = GatePolicy {
        required_pass_score: Some(0.5),
        ..by_point()
    };
    let mut evidence = passing();
    evidence.verdict = Verdict::Inconclusive;
    assert_eq!(conditions(&policy, &evidence), [Condition::Conclusive]);
}

#[rstest]
#[case::young(Some(3600), Some(3600), &[])]
#[case::old(Some(3599), Some(3600), &[Condition::Age])]
#[case::any_age(None, Some(1_000_000), &[])]
#[case::without_an_end(Some(3600), None, &[Condition::Age])]
fn evidence_older_than_the_maximum_age_is_rejected(
    #[case] most: Option<u64>,
    #[case] age: Option<u64>,
    #[case] expected: &[Condition],
) {
    let policy = GatePolicy {
        max_age_seconds: most,
        ..by_point()
    };
    let mut evidence = passing();
    evidence.completed_at = age.map(|age| now() - std::time::Duration::from_secs(age));
    assert_eq!(conditions(&policy, &evidence), expected);
}

#[rstest]
#[case(3599, &[])]
#[case(3601, &[Condition::Age])]
fn reused_results_count_with_their_original_age(#[case] age: u64, #[case] expected: &[Condition]) {
    let policy = GatePolicy {
        max_age_seconds: Some(3600),
        ..by_point()
    };
    let mut evidence = passing();
    evidence.completed_at = Some(now());
    evidence.facts_recorded_at = Some(now() - std::time::Duration::from_secs(age));
    assert_eq!(conditions(&policy, &evidence), expected);
}

/// Flaws that the floor still refuses: those that the protocol names, and no others.
#[rstest]
#[case(|run: &mut EvalReport| run.suite.signed = false, &[])]
#[case(|run: &mut EvalReport| run.suite.task_count = 21, &[])]
#[case(|run: &mut EvalReport| run.ignore = vec!["/why".to_owned()], &[])]
#[case(|run: &mut EvalReport| run.completed_at = None, &[])]
#[case(partly_rerun, &[])]
#[case(|run: &mut EvalReport| run.verdict = Verdict::Pending, &[Condition::Conclusive, Condition::Passed])]
#[case(|run: &mut EvalReport| run.summary.passed = false, &[Condition::Passed])]
#[case(|run: &mut EvalReport| run.agent.version = "1.2.1".to_owned(), &[Condition::Version])]
#[case(|run: &mut EvalReport| run.agent.pack_integrity = "sha256-z".to_owned(), &[Condition::Content])]
fn the_minimum_policy_enforces_only_what_the_protocol_requires(
    #[case] spoil: Spoil,
    #[case] expected: &[Condition],
) {
    let mut evidence = passing();
    spoil(&mut evidence);
    assert_eq!(conditions(&GatePolicy::FLOOR, &evidence), expected);
}

#[test]
fn condition_names_match_their_serialized_form() {
    for condition in [
        Condition::EvalRun,
        Condition::SignedSuite,
        Condition::WholeSuite,
        Condition::WholeRun,
        Condition::NoIgnore,
        Condition::Safety,
    ] {
        assert_eq!(serde_json::to_value(condition).unwrap(), condition.as_str());
    }
}

#[rstest]
#[case::uncalibrated(None, Some(0.8), true)]
#[case::agrees(Some((0.85, 120)), Some(0.8), false)]
#[case::asks_for_more(Some((0.85, 120)), Some(0.9), true)]
#[case::few(Some((0.95, 60)), Some(0.8), true)]
#[case::waived(None, None, false)]
fn a_judge_has_to_agree_with_people(
    #[case] calibrated: Option<(f64, usize)>,
    #[case] least: Option<f64>,
    #[case] refused: bool,
) {
    let calibration = calibrated.map(|(spearman, samples)| {
        serde_json::from_value(serde_json::json!({
            "provider": "p", "model": "examiner-1", "identity": "sha256-j", "suite": "vendor.acme.evals.triage@1.0.0",
            "samples": samples, "spearman": spearman, "ties": {"judge": 0, "human": 0}, "costUsd": 0.0,
            "calibratedAt": now(), "validUntil": now() + std::time::Duration::from_secs(1),
        }))
        .unwrap()
    });
    let mut run = passing();
    let policy = GatePolicy {
        min_judge_agreement: least,
        ..GatePolicy::default()
    };
    let conditions = |run: &EvalReport, at| {
        let unmet = unmet(&policy, CANDIDATE, Some(&Evidence::of(run)), at);
        unmet
            .iter()
            .any(|unmet| unmet.condition == Condition::JudgeCalibrated)
    };
    assert!(!conditions(&run, now()), "nothing was judged by a model");
    run.judge = Some(JudgeProvenance {
        provider: "p".to_owned(),
        model: "examiner-1".to_owned(),
        identity: "sha256-j".to_owned(),
        judges: Vec::new(),
        calibration,
    });
    assert_eq!(conditions(&run, now()), refused);
    let later = now() + std::time::Duration::from_secs(1);
    assert_eq!(
        conditions(&run, later),
        least.is_some(),
        "it counts for a time"
    );
}

#[test]
fn a_replay_is_not_evidence_unless_the_policy_allows_it() {
    let run = EvalReport {
        replayed_from: Some("sha256-tape".to_owned()),
        ..passing()
    };
    let refused = unmet(&by_point(), CANDIDATE, Some(&Evidence::of(&run)), now());
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].condition, Condition::NoReplay);
    assert!(refused[0].message.contains("sha256-tape"), "{refused:?}");
    let allowing = GatePolicy {
        allow_replay: true,
        ..by_point()
    };
    assert_eq!(conditions(&allowing, &run), []);
    // One replayed trial among several is enough.
    let evidence = Evidence {
        further: vec![EvidenceRun::of(&run)],
        ..Evidence::of(&passing())
    };
    let refused = unmet(&by_point(), CANDIDATE, Some(&evidence), now());
    let replays = |unmet: &Unmet| unmet.condition == Condition::NoReplay;
    assert!(refused.iter().any(replays), "{refused:?}");
}

#[test]
fn a_run_with_the_cache_of_answers_is_no_more_evidence_than_a_replay() {
    let run = EvalReport {
        answer_cache: Some(CachedAnswers {
            cached: 0,
            cached_of_agent: None,
            answers: 20,
            cost_saved_usd: Some(touchstone_kit::money::NanoUsd::default()),
        }),
        ..passing()
    };
    let refused = unmet(&by_point(), CANDIDATE, Some(&Evidence::of(&run)), now());
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].condition, Condition::NoReplay);
    assert!(refused[0].message.contains("--no-cache"), "{refused:?}");
    let allowing = GatePolicy {
        allow_replay: true,
        ..by_point()
    };
    assert_eq!(conditions(&allowing, &run), []);
}

#[test]
fn a_local_command_is_not_evidence_unless_the_policy_allows_it() {
    let allowing = GatePolicy {
        allow_agent_command: true,
        ..by_point()
    };
    let mut pinned = passing();
    pinned.evaluated = Some(Evaluated {
        provider: "command".to_owned(),
        model: "command-0123456789ab".to_owned(),
        endpoint: None,
        identity: "sha256-it".to_owned(),
    });
    // Attestations of earlier versions name only the provider of the calls.
    let mut earlier = passing();
    earlier.agent.provider = Some("command".to_owned());
    let mut asserted = passing();
    asserted.deciders.command = Some("sha256-checks".to_owned());
    for run in [pinned, earlier, asserted] {
        assert_eq!(conditions(&by_point(), &run), [Condition::NoAgentCommand]);
        assert_eq!(conditions(&allowing, &run), []);
    }
}

#[rstest]
#[case::itself(|run: &mut EvalReport| run.run_id = "run_void".into(), true)]
#[case::a_replay(|run: &mut EvalReport| {
    run.fork = Some(Provenance {
        source_run_id: "run_void".into(),
        from_seq: 0,
        mode: ForkMode::Replay,
    });
}, true)]
#[case::a_retry(|run: &mut EvalReport| run.tasks[0].reused_from = Some("run_void".into()), true)]
#[case::a_branch(|run: &mut EvalReport| {
    run.partial_rerun = Some(PartialRerun {
        source_run_id: "run_void".into(),
        kept_tasks: 1,
    });
}, true)]
#[case::another_run(|_: &mut EvalReport| {}, false)]
fn a_run_that_rests_on_one_that_is_void_is_refused(
    #[case] change: fn(&mut EvalReport),
    #[case] refused: bool,
) {
    let mut run = of(20, 20);
    change(&mut run);
    let void = Attempt {
        run_id: "run_void".into(),
        status: "completed".to_owned(),
        created_at: now(),
        trial: None,
        retry_of: None,
        tasks: Arc::default(),
        voided: Some(Voided {
            at: now(),
            principal: "ann".to_owned(),
            reason: "wrong endpoint".to_owned(),
        }),
    };
    let evidence = Evidence {
        attempts: vec![void],
        ..Evidence::of(&run)
    };
    let unmet = unmet(&by_point(), CANDIDATE, Some(&evidence), now());
    let named = unmet.iter().find(|it| it.condition == Condition::NotVoided);
    assert_eq!(named.is_some(), refused, "{unmet:?}");
}

#[rstest]
#[case::default(GatePolicy::default())]
#[case::floor(GatePolicy::FLOOR)]
#[case::lenient_score(GatePolicy { required_pass_score: Some(0.5), ..GatePolicy::FLOOR })]
#[case::everything(GatePolicy {
    suite_id: Some("vendor.other".to_owned()),
    required_pass_score: Some(0.95),
    max_age_seconds: Some(1),
    min_tasks: 1000,
    ..GatePolicy::default()
})]
fn every_condition_that_can_be_unmet_is_described(#[case] policy: GatePolicy) {
    let mut run = of(0, 20);
    run.verdict = Verdict::Fail;
    run.summary.passed = false;
    run.summary.aggregate_score = 0.0;
    run.suite.signed = false;
    run.suite.task_count = 40;
    run.ignore = vec!["/id".to_owned()];
    run.agent.agent_id = "vendor.other".into();
    run.agent.version = "9.9.9".to_owned();
    let all = described(&policy);
    let known: Vec<Condition> = all.iter().map(|it| it.condition).collect();
    for evidence in [None, Some(Evidence::of(&run))] {
        for found in unmet(&policy, CANDIDATE, evidence.as_ref(), now()) {
            assert!(known.contains(&found.condition), "{found:?}");
        }
    }
    for (at, it) in all.iter().enumerate() {
        let before = &known[..at];
        assert!(
            it.needs.is_none_or(|needs| before.contains(&needs)),
            "{it:?}"
        );
    }
    let twice = known.iter().filter(|it| **it == Condition::EvalRun).count();
    assert_eq!(twice, 1);
}

#[test]
fn a_policy_describes_only_what_it_requires() {
    let names = |policy: &GatePolicy| -> Vec<Condition> {
        described(policy).iter().map(|it| it.condition).collect()
    };
    let (strict, floor) = (names(&GatePolicy::default()), names(&GatePolicy::FLOOR));
    for condition in [
        Condition::SignedSuite,
        Condition::WholeSuite,
        Condition::NoReplay,
        Condition::JudgeCalibrated,
    ] {
        assert!(strict.contains(&condition), "{condition}");
        assert!(!floor.contains(&condition), "{condition}");
    }
    assert!(!strict.contains(&Condition::Age));
    assert!(!strict.contains(&Condition::Suite));
}
