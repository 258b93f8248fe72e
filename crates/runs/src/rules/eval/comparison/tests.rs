use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::comparable::{TaskDigester, TaskDigests, decide_alike};
use super::*;
use crate::rules::eval::report::EvalReport;
use crate::rules::eval::sample;
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::eval::statistics::EvidenceRun;
use touchstone_kit::statistics::RegressionVerdict;
use touchstone_openwop::suite::AgentEvalSuite;

/// A run with all inputs of a comparison.
pub struct Run {
    pub report: EvalReport,
    pub further: Vec<EvalReport>,
    pub missing: usize,
    pub spec: EvalSpec,
    pub suite: AgentEvalSuite,
    pub scoring: Option<ScoringDocument>,
}

impl Run {
    /// A run over tasks with these scores. A score of 1 passes; a task without a score was not
    /// judged.
    pub fn new(id: &str, scores: &[Option<f64>]) -> Self {
        let ids: Vec<String> = (0..scores.len()).map(|n| format!("task-{n}")).collect();
        let tasks: Vec<Value> = ids
            .iter()
            .map(|id| json!({"taskId": id, "input": id, "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}}))
            .collect();
        Self {
            report: report(id, scores),
            further: Vec::new(),
            missing: 0,
            spec: serde_json::from_value(json!({
                "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
                "suiteSigned": true, "suiteTaskCount": scores.len(), "agentId": "vendor.acme.triage.default",
                "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
                "model": {"provider": "openai", "model": "small-1"}, "modes": ["golden"], "tasks": ids, "concurrency": 1,
            }))
            .unwrap(),
            suite: serde_json::from_value(json!({
                "suiteId": "vendor.acme.evals.triage", "version": "1.0.0", "modes": ["golden"], "tasks": tasks,
            }))
            .unwrap(),
            scoring: None,
        }
    }

    pub fn golden(id: &str, scores: &[f64]) -> Self {
        Self::new(
            id,
            &scores.iter().map(|score| Some(*score)).collect::<Vec<_>>(),
        )
    }

    fn trials(runs: &[&[f64]]) -> Self {
        let mut first = Self::golden("run_1", runs[0]);
        for (n, scores) in runs.iter().enumerate().skip(1) {
            let scores: Vec<Option<f64>> = scores.iter().map(|score| Some(*score)).collect();
            first
                .further
                .push(report(&format!("run_{}", n + 1), &scores));
        }
        first
    }

    /// Makes the task a rubric task with this judge.
    pub fn judged_by(mut self, task: usize, judge: &str) -> Self {
        let rubric = json!({"kind": "rubric", "rubric": [{"criterion": "is kind", "weight": 1.0}]});
        self.suite.tasks[task].expected = serde_json::from_value(rubric).unwrap();
        let pin = json!({"provider": "openai", "model": "judge-1", "identity": judge});
        self.spec.judge = Some(serde_json::from_value(pin).unwrap());
        self
    }

    pub fn digests(&self) -> BTreeMap<TaskId, TaskDigests> {
        let mut digester = TaskDigester::new(&self.spec, self.scoring.as_ref());
        self.suite.tasks.chunks(1).for_each(|it| digester.add(it));
        digester.finish()
    }

    fn evidence(&self) -> Evidence {
        Evidence {
            run: EvidenceRun::of(&self.report),
            further: self.further.iter().map(EvidenceRun::of).collect(),
            missing: self.missing,
            attempts: Vec::new(),
        }
    }

    fn side<'a>(
        &'a self,
        evidence: &'a Evidence,
        digests: Option<&'a BTreeMap<TaskId, TaskDigests>>,
    ) -> ComparisonSide<'a> {
        ComparisonSide {
            evidence,
            spec: &self.spec,
            thresholds: self.suite.thresholds.unwrap_or_default(),
            digests,
        }
    }

    /// Compares with `candidate`. Where digests are not needed, the result must be the same without
    /// them.
    pub fn compared(&self, candidate: &Self) -> Result<RunComparison, NothingInCommon> {
        let (was, is) = (self.evidence(), candidate.evidence());
        let (before, now) = (self.digests(), candidate.digests());
        let by_digests = compare(
            self.side(&was, Some(&before)),
            candidate.side(&is, Some(&now)),
        );
        let has_same_documents = self.suite == candidate.suite && self.scoring == candidate.scoring;
        if decide_alike(&self.spec, &candidate.spec) && has_same_documents {
            let found = compare(self.side(&was, None), candidate.side(&is, None));
            assert_eq!(found, by_digests);
        }
        by_digests
    }
}

/// Three tasks that changed, and two that are left out.
pub fn changed_sample() -> RunComparison {
    let before = [Some(1.0), Some(1.0), None, Some(0.0), Some(0.5), None];
    let after = [Some(0.0), Some(1.0), Some(1.0), Some(1.0), Some(0.0), None];
    let [before, after] = [("run_1", before), ("run_2", after)].map(|(id, it)| Run::new(id, &it));
    before.compared(&after).unwrap()
}

fn report(id: &str, scores: &[Option<f64>]) -> EvalReport {
    sample::report(id, &["golden"], scores)
}

fn found(baseline: &Run, candidate: &Run) -> RunComparison {
    baseline.compared(candidate).unwrap()
}

fn turns(found: &RunComparison) -> Vec<(&str, ChangeKind)> {
    let turn = |change: &'_ TaskChange| change.turn;
    found
        .changes
        .iter()
        .map(|change| (change.task_id.as_str(), turn(change)))
        .collect()
}

fn reasons(found: &RunComparison) -> Vec<(&str, ExclusionReason)> {
    found
        .left_out
        .iter()
        .map(|left| (left.task_id.as_str(), left.reason))
        .collect()
}

#[test]
fn what_changed_is_listed_broken_tasks_first() {
    let before = Run::golden("run_a", &[0.5, 0.0, 1.0, 0.5, 1.0]);
    let after = Run::golden("run_b", &[0.7, 1.0, 0.0, 0.3, 1.0]);
    let found = found(&before, &after);
    assert_eq!(
        turns(&found),
        [
            ("task-2", ChangeKind::Broke),
            ("task-3", ChangeKind::Worse),
            ("task-1", ChangeKind::Fixed),
            ("task-0", ChangeKind::Better)
        ]
    );
    assert_eq!((found.n_tasks, found.fixed, found.broke), (5, 1, 1));
    assert_eq!(found.mcnemar_p, Some(1.0));
    assert_eq!(
        found.changes[0].candidate.reason.as_deref(),
        Some("output_not_json")
    );
    assert_eq!(found.diff_ref, "/v1/runs/run_b:diff?against=run_a");
    assert!(found.differences.is_empty() && found.notes.is_empty() && found.left_out.is_empty());
    let score = found.score.unwrap();
    assert!((score.difference - (score.candidate - score.baseline)).abs() < 1e-12);
    assert_eq!(found.latency_ms.unwrap().difference, 0.0);
}

#[test]
fn a_run_is_not_worse_than_itself() {
    let run = Run::golden("run_a", &[1.0, 0.0, 0.5]);
    let found = found(&run, &run);
    assert_eq!(found.regression.verdict, RegressionVerdict::NotWorse);
    assert!(found.changes.is_empty() && found.short().is_whole());
}

/// Without a flip there is no variance, and three tasks would seem as conclusive as three hundred.
#[rstest]
#[case(3, RegressionVerdict::Inconclusive)]
#[case(140, RegressionVerdict::NotWorse)]
fn another_run_with_the_same_scores_is_not_worse_given_enough_tasks(
    #[case] tasks: usize,
    #[case] verdict: RegressionVerdict,
) {
    let scores = vec![1.0; tasks];
    let (before, after) = (Run::golden("a", &scores), Run::golden("b", &scores));
    assert_eq!(found(&before, &after).regression.verdict, verdict);
}

#[rstest]
#[case::all_broke(&[1.0; 30], &[0.0; 30], RegressionVerdict::Regressed)]
#[case::one_task_shows_nothing(&[1.0], &[0.0], RegressionVerdict::Inconclusive)]
#[case::one_of_three_shows_nothing(&[1.0; 3], &[1.0, 1.0, 0.0], RegressionVerdict::Inconclusive)]
fn the_regression_verdict_is_based_on_paired_scores(
    #[case] before: &[f64],
    #[case] after: &[f64],
    #[case] verdict: RegressionVerdict,
) {
    let (before, after) = (Run::golden("a", before), Run::golden("b", after));
    assert_eq!(found(&before, &after).regression.verdict, verdict);
}

#[test]
fn unjudged_tasks_are_excluded_and_prevent_the_verdict_not_worse() {
    let before = Run::golden("a", &[1.0, 1.0, 1.0]);
    let after = Run::new("b", &[Some(1.0), None, Some(1.0)]);
    let found = found(&before, &after);
    assert_eq!(reasons(&found), [("task-1", ExclusionReason::Unjudged)]);
    assert_eq!(
        (found.n_tasks, found.regression.verdict),
        (2, RegressionVerdict::Inconclusive)
    );
    assert!(!found.short().is_whole() && found.changes.is_empty());
    assert!(
        found.notes[0].starts_with("1 task not judged"),
        "{:?}",
        found.notes
    );
}

#[test]
fn only_identical_tasks_of_two_suite_versions_are_compared() {
    let before = Run::golden("a", &[1.0, 1.0, 1.0, 1.0]);
    let mut after = Run::golden("b", &[1.0, 0.0, 0.0]);
    after.spec.suite_digest = "sha256-z".to_owned();
    after.spec.suite_version = "1.1.0".to_owned();
    after.suite.tasks[1].input = json!("something else");
    let found = found(&before, &after);
    assert_eq!(
        reasons(&found),
        [
            ("task-1", ExclusionReason::TaskChanged),
            ("task-3", ExclusionReason::OnlyBaseline)
        ]
    );
    assert_eq!(turns(&found), [("task-2", ChangeKind::Broke)]);
    let what: Vec<&str> = found
        .differences
        .iter()
        .map(|it| it.what.as_str())
        .collect();
    assert_eq!(what, ["suiteVersion", "suiteDigest"]);
    assert!(
        found.notes[0].contains("of 4 tasks and 3 tasks, only"),
        "{:?}",
        found.notes
    );
}

#[test]
fn runs_without_a_task_in_common_are_refused_by_name() {
    let before = Run::golden("a", &[1.0]);
    let mut after = Run::golden("b", &[1.0]);
    after.spec.suite_digest = "sha256-z".to_owned();
    after.spec.suite_id = "vendor.acme.evals.tone".to_owned();
    after.suite.tasks[0].input = json!("something else");
    let fault = before.compared(&after).unwrap_err().to_string();
    assert!(fault.contains("`vendor.acme.evals.tone@1.0.0`"), "{fault}");
    assert!(
        fault.contains("`vendor.acme.evals.triage@1.0.0`"),
        "{fault}"
    );
}

#[test]
fn scores_of_two_judges_are_not_compared() {
    let before = Run::golden("a", &[1.0, 1.0]).judged_by(1, "sha256-j");
    let after = Run::golden("b", &[1.0, 0.0]).judged_by(1, "sha256-j");
    assert_eq!(found(&before, &after).broke, 1);
    let other = Run::golden("b", &[1.0, 0.0]).judged_by(1, "sha256-k");
    let found = found(&before, &other);
    assert_eq!(reasons(&found), [("task-1", ExclusionReason::JudgeChanged)]);
    assert_eq!((found.broke, found.n_tasks), (0, 1));
    assert_eq!(found.differences[0].what, "judge");
}

#[test]
fn a_comparison_notes_that_safety_findings_count_in_only_one_run() {
    let before = Run::golden("a", &[1.0, 1.0]);
    let mut after = Run::golden("b", &[1.0, 0.0]);
    after.spec.modes = vec![EvalMode::Adversarial];
    let noted = found(&before, &after);
    assert!(
        noted.notes[0].starts_with("safety findings count"),
        "{:?}",
        noted.notes
    );
    let mut before = before;
    before.spec.modes = vec![EvalMode::Golden, EvalMode::Adversarial];
    assert_eq!(found(&before, &after).notes, Vec::<String>::new());
    let pin = json!({"provider": "openai", "model": "judge-1", "identity": "sha256-s"});
    after.spec.safety_judge = Some(serde_json::from_value(pin).unwrap());
    let looked = found(&before, &after);
    assert!(
        looked.notes[0].starts_with("safety findings count"),
        "{:?}",
        looked.notes
    );
    assert_eq!(looked.differences[0].what, "safetyJudge");
}

#[test]
fn a_comparison_lists_other_differences_of_the_runs() {
    let before = Run::golden("a", &[1.0, 1.0]);
    let mut after = Run::golden("b", &[1.0, 1.0]);
    after.spec.agent_version = "1.1.0".to_owned();
    after.spec.pack_integrity = "sha256-z".to_owned();
    after.spec.model.model = "large-1".to_owned();
    after.spec.ignore = vec!["/why".to_owned()];
    after.spec.temperature = Some(0.7);
    let found = found(&before, &after);
    let differences: Vec<(&str, &Value, &Value)> = found
        .differences
        .iter()
        .map(|it| (it.what.as_str(), &it.baseline, &it.candidate))
        .collect();
    assert_eq!(
        differences,
        [
            ("agentVersion", &json!("1.0.0"), &json!("1.1.0")),
            ("packIntegrity", &json!("sha256-y"), &json!("sha256-z")),
            ("model", &json!("openai/small-1"), &json!("openai/large-1")),
            ("ignore", &json!([]), &json!(["/why"])),
            ("temperature", &json!(null), &json!(0.7)),
        ]
    );
    assert!(
        found.notes[0].contains("ignore lists differ"),
        "{:?}",
        found.notes
    );
}

#[test]
fn trials_are_pooled_and_the_majority_decides() {
    let before = Run::trials(&[&[1.0, 1.0], &[1.0, 1.0], &[0.0, 1.0]]);
    let mut after = Run::trials(&[&[0.0, 1.0], &[1.0, 0.0], &[0.0, 1.0]]);
    let pair = found(&before, &after);
    assert_eq!(
        turns(&pair),
        [("task-0", ChangeKind::Broke), ("task-1", ChangeKind::Worse)]
    );
    let broke = &pair.changes[0];
    assert_eq!(
        (broke.baseline.passed_trials, broke.candidate.passed_trials),
        (2, 1)
    );
    assert_eq!(
        (broke.baseline.passes, broke.candidate.passes),
        (true, false)
    );
    assert_eq!(pair.mcnemar_p, None);
    assert_eq!(pair.candidate.run_ids.len(), 3);
    after.missing = 1;
    let partly = found(&before, &after);
    assert_eq!(partly.candidate.missing_trials, 1);
    assert!(
        partly
            .notes
            .contains(&"3 of 4 trials of the candidate are available".to_owned())
    );
}

proptest! {
    #[test]
    fn swapping_the_runs_swaps_broken_and_fixed_tasks(
        scores in prop::collection::vec((0..=2_u8, 0..=2_u8), 2..40),
    ) {
        let (before, after): (Vec<f64>, Vec<f64>) =
            scores.iter().map(|(a, b)| (f64::from(*a) / 2.0, f64::from(*b) / 2.0)).unzip();
        let (before, after) = (Run::golden("a", &before), Run::golden("b", &after));
        let (there, back) = (found(&before, &after), found(&after, &before));
        prop_assert_eq!((there.broke, there.fixed), (back.fixed, back.broke));
        prop_assert_eq!(there.mcnemar_p, back.mcnemar_p);
        prop_assert_eq!(there.changes.len(), back.changes.len());
        prop_assert!((there.score.unwrap().difference + back.score.unwrap().difference).abs() < 1e-12);
        let count = |turn| there.changes.iter().filter(|it| it.turn == turn).count() as u64;
        prop_assert_eq!((count(ChangeKind::Broke), count(ChangeKind::Fixed)), (there.broke, there.fixed));
    }
}

#[test]
fn tasks_with_other_assertions_are_excluded() {
    let scoring = |text: &str| -> ScoringDocument {
        let entry = json!({"assertions": [{"type": "contains", "value": text}]});
        let same = json!({"assertions": [{"type": "contains", "value": "same"}]});
        let tasks = json!({"task-0": entry, "task-1": same});
        serde_json::from_value(json!({"scoringVersion": 1, "suiteId": "x", "tasks": tasks}))
            .unwrap()
    };
    let run = |id: &str, text: &str| {
        let mut run = Run::golden(id, &[1.0, 0.0, 1.0]);
        run.spec.scoring_digest = Some(format!("sha256-{text}"));
        run.scoring = Some(scoring(text));
        run
    };
    let (before, after) = (run("run_1", "a"), run("run_2", "b"));
    let compared = before.compared(&after).unwrap();
    let left_out: Vec<&str> = compared
        .left_out
        .iter()
        .map(|task| task.task_id.as_str())
        .collect();
    assert_eq!(left_out, ["task-0"]);
    assert_eq!(compared.left_out[0].reason, ExclusionReason::TaskChanged);
    assert_eq!(compared.differences[0].what, "scoringDigest");
}

/// A scoring document changes only the tasks that it names.
#[test]
fn tasks_without_an_entry_in_the_only_scoring_document_are_compared() {
    let before = Run::golden("a", &[1.0, 1.0]);
    let mut after = Run::golden("b", &[1.0, 0.0]);
    let entry = json!({"assertions": [{"type": "contains", "value": "a"}]});
    let document = json!({"scoringVersion": 1, "suiteId": "x", "tasks": {"task-0": entry}});
    after.spec.scoring_digest = Some("sha256-s".to_owned());
    after.scoring = Some(serde_json::from_value(document).unwrap());
    let found = found(&before, &after);
    assert_eq!(reasons(&found), [("task-0", ExclusionReason::TaskChanged)]);
    assert_eq!(turns(&found), [("task-1", ChangeKind::Broke)]);
}

/// Scores of another task say nothing about the simulated user or the judge.
#[test]
fn the_first_of_several_reasons_is_named() {
    let talking = |id: &str, user: &str, input: &str| {
        let mut run = Run::golden(id, &[1.0, 1.0]);
        let entry = json!({"conversation": {"user": {"goal": "a refund"}}});
        let document = json!({"scoringVersion": 1, "suiteId": "x", "tasks": {"task-0": entry}});
        run.scoring = Some(serde_json::from_value(document).unwrap());
        let pin = json!({"provider": "openai", "model": "user-1", "identity": user});
        run.spec.simulated_user = Some(serde_json::from_value(pin).unwrap());
        run.spec.suite_digest = format!("sha256-{input}");
        run.suite.tasks[0].input = json!(input);
        run
    };
    let before = talking("a", "sha256-u", "x");
    for (user, input, reason) in [
        ("sha256-v", "x", ExclusionReason::UserChanged),
        ("sha256-v", "y", ExclusionReason::TaskChanged),
    ] {
        let found = found(&before, &talking("b", user, input));
        assert_eq!(reasons(&found), [("task-0", reason)]);
    }
}
