//! `run retry`: judged tasks are copied from the log, only the rest is executed.

use std::collections::HashSet;

use touchstone::kinds::KINDS;
use touchstone_agents::ports::model::ModelError;
use touchstone_agents::rules::ModelReply;
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::system::SystemIds;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::EventDocument;
use touchstone_openwop::suite::Thresholds;
use touchstone_runs::rules::eval::report::{Verdict, report};
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::store as run_store;

use crate::runs::bench::{Bench, echo, eval};

/// Fails for the first run's three attempts, then succeeds.
fn recovers(text: &str, nth: usize) -> Result<ModelReply, ModelError> {
    if text == "down" && nth <= 3 {
        return Err(ModelError::unavailable("connect", true));
    }
    echo(text, nth)
}

async fn retried(bench: &Bench, source: &RunRecord) -> RunRecord {
    let mut again = source.clone();
    again.run_id = SystemIds.mint("run").into();
    again.spec.eval_mut().unwrap().retry_of = Some(source.run_id.clone());
    run_store::runs::create(&bench.store, &again, None)
        .await
        .unwrap();
    again
}

#[tokio::test]
async fn a_retry_executes_only_unjudged_tasks() {
    let bench = Bench::new(recovers).await;
    let first = bench.seed(&["a", "down", "wrong-c"], |_| {}).await;
    assert!(bench.execute().await);
    let second = retried(&bench, &first).await;
    assert!(bench.execute().await);

    assert_eq!(
        (
            bench.model.calls("a"),
            bench.model.calls("down"),
            bench.model.calls("wrong-c")
        ),
        (1, 4, 1)
    );
    let thresholds = Thresholds {
        pass_score: Some(0.5),
        ..Thresholds::default()
    };
    let before = report(
        KINDS,
        &first,
        eval(&first),
        &thresholds,
        &bench.state(&first.run_id).await,
    );
    let after = report(
        KINDS,
        &second,
        eval(&second),
        &thresholds,
        &bench.state(&second.run_id).await,
    );
    assert_eq!(
        (before.verdict, after.verdict),
        (Verdict::Inconclusive, Verdict::Pass)
    );
    assert_eq!(after.retry_of, Some(first.run_id.clone()));
    assert_eq!(after.tasks[0].reused_from, Some(first.run_id.clone()));
    assert_eq!(after.tasks[1].reused_from, None);
    assert_eq!(
        after.summary.tasks[0], before.summary.tasks[0],
        "a recorded fact does not change"
    );
    assert_eq!(
        after.summary.total_cost_usd.map(|cost| cost.0),
        Some(60_000),
        "reused calls keep their cost"
    );
}

#[tokio::test]
async fn a_crash_while_taking_over_neither_loses_nor_doubles_a_task() {
    let bench = Bench::new(recovers).await;
    let first = bench.seed(&["a", "b", "down", "d"], |_| {}).await;
    assert!(bench.execute().await);
    let whole = {
        let second = retried(&bench, &first).await;
        assert!(bench.execute().await);
        bench.log(&second.run_id).await
    };
    // A copied task is one transaction, so a crash leaves only whole tasks.
    let ends: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, event)| &*event.kind == "eval.scored")
        .map(|(n, _)| n + 1)
        .collect();
    for cut in ends {
        let again = retried(&bench, &first).await;
        bench.leave_behind(&again.run_id, &whole[..cut]).await;
        assert!(bench.execute().await);
        let log = bench.log(&again.run_id).await;
        let scored = log
            .iter()
            .filter(|event| &*event.kind == "eval.scored")
            .count();
        assert_eq!(scored, 4, "cut at {cut}");
        let ids: HashSet<String> = log
            .iter()
            .map(|event| {
                EventDocument::read(&event.body)
                    .unwrap()
                    .event_id
                    .to_string()
            })
            .collect();
        assert_eq!(ids.len(), log.len(), "event ids are unique");
    }
}

#[tokio::test]
async fn a_retry_that_is_resumed_pays_for_its_own_calls_only() {
    let bench = Bench::new(recovers).await;
    let first = bench.seed(&["a", "b", "down", "d"], |_| {}).await;
    assert!(bench.execute().await);
    let whole = {
        let probe = retried(&bench, &first).await;
        assert!(bench.execute().await);
        bench.log(&probe.run_id).await
    };
    let mut again = first.clone();
    again.run_id = SystemIds.mint("run").into();
    again.spec.eval_mut().unwrap().retry_of = Some(first.run_id.clone());
    // Less than the cost of the three reused calls, but enough for the remaining one.
    again.spec.eval_mut().unwrap().budget.max_cost = Some(NanoUsd(45_000));
    run_store::runs::create(&bench.store, &again, None)
        .await
        .unwrap();
    let third = whole
        .iter()
        .enumerate()
        .filter(|(_, event)| &*event.kind == "eval.scored")
        .nth(2)
        .unwrap()
        .0;
    bench.leave_behind(&again.run_id, &whole[..=third]).await;
    assert!(bench.execute().await);
    let thresholds = Thresholds {
        pass_score: Some(0.5),
        ..Thresholds::default()
    };
    let after = report(
        KINDS,
        &again,
        eval(&again),
        &thresholds,
        &bench.state(&again.run_id).await,
    );
    assert_eq!((after.verdict, after.reasons), (Verdict::Pass, Vec::new()));
}

#[tokio::test]
async fn reused_estimated_costs_remain_marked_as_estimates() {
    // The endpoint reports usage for one task only.
    let behaviour = |text: &str, nth: usize| {
        let mut reply = recovers(text, nth)?;
        if text == "a" {
            reply.usage = None;
        }
        Ok(reply)
    };
    let bench = Bench::new(behaviour).await;
    let first = bench.seed(&["a", "down", "c"], |_| {}).await;
    assert!(bench.execute().await);
    let second = retried(&bench, &first).await;
    assert!(bench.execute().await);
    for run in [&first, &second] {
        let eval = run.spec.eval().unwrap();
        let state = bench.state(&run.run_id).await;
        let report = report(KINDS, run, eval, &Thresholds::default(), &state);
        let estimated: Vec<bool> = report
            .tasks
            .iter()
            .map(|task| task.cost_estimated)
            .collect();
        assert_eq!(estimated, [true, false, false]);
    }
}
