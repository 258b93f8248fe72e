use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::rules::eval::comparison::tests::Run;
use crate::rules::eval::comparison::{ChangeKind, ExclusionReason};

/// The run as an attestation describes it, with the suite of its spec.
fn attested(run: &Run) -> AttestedRun {
    let mut report = run.report.clone();
    report.suite.digest.clone_from(&run.spec.suite_digest);
    report
        .suite
        .scoring_digest
        .clone_from(&run.spec.scoring_digest);
    AttestedRun {
        report,
        further_trials: run.further.clone(),
        missing_trials: run.missing,
        tasks: run.digests(),
    }
}

fn found(baseline: &Run, candidate: &Run) -> RunComparison {
    compare_attested(&attested(baseline), &attested(candidate)).unwrap()
}

fn left_out_of(found: &RunComparison) -> Vec<(&str, ExclusionReason)> {
    let left = found.left_out.iter();
    left.map(|it| (it.task_id.as_str(), it.reason)).collect()
}

proptest! {
    /// A file must give the same results as the records of the host.
    #[test]
    fn attestations_and_runs_compare_alike(
        scores in prop::collection::vec((0..=3_u8, 0..=3_u8), 2..40),
    ) {
        let score = |n: u8| (n < 3).then(|| f64::from(n) / 2.0);
        let (before, after): (Vec<_>, Vec<_>) =
            scores.iter().map(|(a, b)| (score(*a), score(*b))).unzip();
        let (before, after) = (Run::new("a", &before), Run::new("b", &after));
        let by_suite = before.compared(&after);
        let by_digest = compare_attested(&attested(&before), &attested(&after));
        match (by_suite, by_digest) {
            (Ok(by_suite), Ok(by_digest)) => {
                prop_assert_eq!(by_suite.changes, by_digest.changes);
                prop_assert_eq!(by_suite.left_out, by_digest.left_out);
                prop_assert_eq!(by_suite.regression, by_digest.regression);
                prop_assert_eq!(by_suite.notes, by_digest.notes);
                prop_assert_eq!(by_digest.diff_ref, "");
            }
            (one, other) => prop_assert_eq!(one.is_err(), other.is_err()),
        }
    }
}

#[test]
fn only_tasks_with_equal_content_are_compared() {
    let before = Run::golden("a", &[1.0, 1.0, 1.0, 1.0]);
    let mut after = Run::golden("b", &[1.0, 0.0, 0.0]);
    after.spec.suite_digest = "sha256-z".to_owned();
    after.suite.tasks[1].input = json!("something else");
    let found = found(&before, &after);
    assert_eq!(
        left_out_of(&found),
        [
            ("task-1", ExclusionReason::TaskChanged),
            ("task-3", ExclusionReason::OnlyBaseline)
        ]
    );
    assert_eq!(found.changes.len(), 1);
    assert_eq!(found.changes[0].turn, ChangeKind::Broke);
    assert!(
        found.notes[0].starts_with("the suites differ: 2 of 3"),
        "{:?}",
        found.notes
    );
}

#[test]
fn scores_of_two_judges_are_not_compared() {
    let before = Run::golden("a", &[1.0, 1.0]).judged_by(1, "sha256-j");
    let same = Run::golden("b", &[1.0, 0.0]).judged_by(1, "sha256-j");
    assert_eq!(found(&before, &same).broke, 1);
    let other = Run::golden("b", &[1.0, 0.0]).judged_by(1, "sha256-k");
    assert_eq!(
        left_out_of(&found(&before, &other)),
        [("task-1", ExclusionReason::JudgeChanged)]
    );
}

#[test]
fn suites_without_a_common_task_are_refused() {
    let before = Run::golden("a", &[1.0]);
    let mut after = Run::golden("b", &[1.0]);
    after.suite.tasks[0].input = json!("something else");
    assert!(compare_attested(&attested(&before), &attested(&after)).is_err());
}

/// The digests must not depend on anything that is not in the suite, or no two runs are comparable.
#[rstest]
#[case::agent(|run: &mut Run| run.spec.agent_version = "9.9.9".to_owned())]
#[case::suite_version(|run: &mut Run| run.spec.suite_version = "9.9.9".to_owned())]
#[case::model(|run: &mut Run| run.spec.model.model = "large-1".to_owned())]
#[case::judge_of_other_tasks(|run: &mut Run| {
    let pin = json!({"provider": "openai", "model": "judge-1", "identity": "sha256-j"});
    run.spec.judge = Some(serde_json::from_value(pin).unwrap());
})]
fn digests_of_a_task_depend_only_on_the_task(#[case] change: fn(&mut Run)) {
    let before = Run::golden("a", &[1.0, 0.0]);
    let mut after = Run::golden("b", &[1.0, 0.0]);
    change(&mut after);
    assert_eq!(attested(&before).tasks, attested(&after).tasks);
}
