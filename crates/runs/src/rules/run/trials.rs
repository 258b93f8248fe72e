//! Selects the runs of an experiment that count. If callers could choose among several attempts,
//! they would choose the lucky one. Therefore the first run of each trial number counts, and only a
//! retry, which judges the tasks that the run left unjudged, replaces it.

use std::collections::BTreeMap;

use super::record::{EvalSpec, RunRecord};

/// The trials that count, by number, and how many are missing.
#[derive(Debug)]
pub struct CountingTrials<'a> {
    /// The counting trials, in order.
    pub runs: Vec<&'a RunRecord>,
    /// Number of trials that were not run, or that ran something else.
    pub missing: usize,
}

/// Selects the trials among the runs of an experiment, given in order of creation. Runs that differ
/// from `named`, one of them, in agent, suite or model do not count.
pub fn counting_trials<'a>(named: &EvalSpec, created: &'a [RunRecord]) -> CountingTrials<'a> {
    let mut slots: BTreeMap<u32, &RunRecord> = BTreeMap::new();
    for run in created {
        let Some(eval) = run.spec.eval() else {
            continue;
        };
        let Some(trial) = &eval.trial else {
            continue;
        };
        match (slots.get(&trial.index), &eval.retry_of) {
            (None, None) => {
                slots.insert(trial.index, run);
            }
            (Some(holder), Some(source)) if holder.run_id == *source => {
                slots.insert(trial.index, run);
            }
            _ => {}
        }
    }
    let planned = named.trial.as_ref().map_or(1, |trial| trial.of);
    let same_eval = |run: &&RunRecord| run.spec.eval().is_some_and(|eval| same(named, eval));
    let runs: Vec<&RunRecord> = slots
        .range(1..=planned)
        .map(|(_, run)| *run)
        .filter(same_eval)
        .collect();
    let missing = (planned as usize).saturating_sub(runs.len());
    CountingTrials { runs, missing }
}

/// Whether two runs are trials of the same eval.
fn same(a: &EvalSpec, b: &EvalSpec) -> bool {
    let of = |trial: &EvalSpec| trial.trial.as_ref().map(|trial| trial.of);
    let evaluated = |eval: &EvalSpec| {
        (
            (eval.suite_digest.clone(), eval.scoring_digest.clone()),
            eval.agent_id.clone(),
            eval.pack_integrity.clone(),
            eval.evaluated(),
            eval.execution.replayed_from.clone(),
            eval.judge.clone(),
            eval.safety_judge.clone(),
            eval.played_by().zip(eval.simulated_user.clone()),
            (eval.baseline.clone(), eval.deciders.clone()),
        )
    };
    of(a) == of(b)
        && evaluated(a) == evaluated(b)
        && a.tasks == b.tasks
        && a.modes == b.modes
        && a.ignore == b.ignore
        && a.temperature == b.temperature
        && a.max_tokens == b.max_tokens
        && a.max_loop_iterations == b.max_loop_iterations
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::rules::run::record::Work;

    fn eval(index: u32, of: u32) -> EvalSpec {
        serde_json::from_value(json!({
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": 1, "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "small-1"}, "modes": ["golden"], "tasks": ["one"],
            "concurrency": 1, "trial": {"experimentId": "exp_1", "index": index, "of": of},
        }))
        .unwrap()
    }

    fn run(id: &str, eval: EvalSpec) -> RunRecord {
        let mut record: RunRecord = serde_json::from_value(json!({
            "runId": id, "tenant": "acme", "principal": "ann", "createdAt": Timestamp::UNIX_EPOCH,
            "spec": {"workflowId": "eval:x", "work": {"eval": eval}},
        }))
        .unwrap();
        record.spec.work = Work::Eval(Arc::new(eval));
        record
    }

    fn retry(id: &str, of: &str, mut eval: EvalSpec) -> RunRecord {
        eval.retry_of = Some(of.into());
        run(id, eval)
    }

    fn counting_ids(created: &[RunRecord]) -> (Vec<&str>, usize) {
        let found = counting_trials(&eval(1, 2), created);
        (
            found.runs.iter().map(|run| run.run_id.as_str()).collect(),
            found.missing,
        )
    }

    #[test]
    fn the_first_run_of_each_trial_number_and_its_retries_count() {
        let mut created = vec![run("a1", eval(1, 2)), run("b1", eval(1, 2))];
        assert_eq!(counting_ids(&created), (vec!["a1"], 1));
        created.push(run("a2", eval(2, 2)));
        assert_eq!(counting_ids(&created), (vec!["a1", "a2"], 0));
        created.push(retry("r1", "a1", eval(1, 2)));
        created.push(retry("r2", "r1", eval(1, 2)));
        created.push(retry("other", "b1", eval(1, 2)));
        created.push(run("a3", eval(3, 2)));
        assert_eq!(counting_ids(&created), (vec!["r2", "a2"], 0));
    }

    #[rstest]
    #[case::agent(|eval: &mut EvalSpec| eval.pack_integrity = "sha256-z".to_owned())]
    #[case::suite(|eval: &mut EvalSpec| eval.suite_digest = "sha256-z".to_owned())]
    #[case::scoring(|eval: &mut EvalSpec| eval.scoring_digest = Some("sha256-z".to_owned()))]
    #[case::assert_command(|eval: &mut EvalSpec| eval.deciders.command = Some("sha256-z".to_owned()))]
    #[case::model(|eval: &mut EvalSpec| eval.model.model = "large-1".to_owned())]
    #[case::judge(|eval: &mut EvalSpec| {
        let judge = json!({"identity": "sha256-j", "provider": "openai", "model": "judge-1"});
        eval.judge = Some(serde_json::from_value(judge).unwrap());
    })]
    #[case::temperature(|eval: &mut EvalSpec| eval.temperature = Some(0.7))]
    #[case::ignored(|eval: &mut EvalSpec| eval.ignore = vec!["/why".to_owned()])]
    #[case::another_plan(|eval: &mut EvalSpec| eval.trial.as_mut().unwrap().of = 3)]
    fn a_trial_of_another_eval_does_not_count(#[case] change: fn(&mut EvalSpec)) {
        let mut other = eval(2, 2);
        change(&mut other);
        assert_eq!(
            counting_ids(&[run("a1", eval(1, 2)), run("a2", other)]),
            (vec!["a1"], 1)
        );
    }
}
