//! The verdict of a run that accounts for chance.

use super::Statistics;
use super::unshown::why;
use crate::rules::eval::report::{EvalReport, Verdict};
use crate::rules::kind::Kinds;

/// Gives a report of scores as they are the verdict that accounts for chance, with its reason. The
/// former verdict stays as `lenient_verdict`.
///
/// The verdict of a kind is not an estimate, so it does not change.
pub fn account_for_chance<T, S>(kinds: Kinds, report: &mut EvalReport<T, S>, found: &Statistics) {
    let lenient = report.lenient_verdict();
    report.lenient_verdict = Some(lenient);
    let verdict = Verdict::from(found.gate.verdict);
    if lenient != Verdict::Pass || verdict == Verdict::Pass || kinds.are_in(report) {
        return;
    }
    report.verdict = verdict;
    report.reasons = vec![format!(
        "the score {:.3} reaches the pass score {:.3}, but not with significance: {}",
        report.summary.aggregate_score,
        found.gate.threshold,
        why(&found.gate)
    )];
}

/// Gives a report the verdict on its scores as they are.
pub fn disregard_chance<T, S>(report: &mut EvalReport<T, S>) {
    let lenient = report.lenient_verdict();
    if report.verdict != lenient {
        report.verdict = lenient;
        report.reasons.clear();
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::eval::sample;
    use crate::rules::eval::statistics::{Evidence, statistics};

    fn decided(scores: &[Option<f64>], verdict: Verdict) -> EvalReport {
        let mut report = sample::report("run_1", &["golden"], scores);
        report.suite.pass_score = 0.8;
        report.summary.aggregate_score = 1.0;
        report.verdict = verdict;
        let found = statistics(&Evidence::of(&report), None, None);
        account_for_chance(Kinds::NONE, &mut report, &found);
        report
    }

    #[rstest]
    #[case::significant(&[Some(1.0); 20], Verdict::Pass, Verdict::Pass)]
    #[case::too_few_tasks(&[Some(1.0); 3], Verdict::Pass, Verdict::Inconclusive)]
    #[case::below_by_chance(&[Some(1.0), Some(0.0)], Verdict::Fail, Verdict::Fail)]
    #[case::unjudged(&[Some(1.0), None], Verdict::Inconclusive, Verdict::Inconclusive)]
    #[case::pending(&[Some(1.0)], Verdict::Pending, Verdict::Pending)]
    fn only_a_pass_depends_on_significance(
        #[case] scores: &[Option<f64>],
        #[case] lenient: Verdict,
        #[case] expected: Verdict,
    ) {
        let mut report = decided(scores, lenient);
        assert_eq!(
            (report.verdict, report.lenient_verdict()),
            (expected, lenient)
        );
        let changed = expected != lenient;
        assert_eq!(report.reasons.is_empty(), !changed, "{:?}", report.reasons);
        assert_eq!(
            report.is_judged(),
            matches!(lenient, Verdict::Pass | Verdict::Fail)
        );
        disregard_chance(&mut report);
        assert_eq!((report.verdict, report.reasons.len()), (lenient, 0));
    }

    #[test]
    fn the_reason_has_the_score_the_pass_score_and_the_interval() {
        let report = decided(&[Some(1.0); 3], Verdict::Pass);
        let [reason] = report.reasons.as_slice() else {
            panic!("{:?}", report.reasons)
        };
        assert!(
            reason.starts_with(
                "the score 1.000 reaches the pass score 0.800, but not with significance: the interval"
            ),
            "{reason}"
        );
    }

    #[test]
    fn a_decided_report_is_decided_only_once() {
        let mut report = decided(&[Some(1.0); 3], Verdict::Pass);
        let before = report.clone();
        let found = statistics(&Evidence::of(&report), None, None);
        account_for_chance(Kinds::NONE, &mut report, &found);
        assert_eq!(report, before);
    }
}
