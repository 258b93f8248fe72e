//! A log with an unreadable event: its other events count, the run can be resumed and cancelled,
//! and it never passes.

use rstest::rstest;
use touchstone::kinds::KINDS;
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_openwop::suite::Thresholds;
use touchstone_runs::ports::queue::CancelRequest;
use touchstone_runs::rules::eval::report::{Verdict, report};
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::rules::run::record::RunRecord;
use touchstone_runs::service::projections::Projections;
use touchstone_runs::store as run_store;

use crate::runs::bench::{Bench, echo};
use crate::store::Engine::{self, Postgres, Sqlite};

const SAYS: [&str; 3] = ["a", "b", "c"];

/// A run that was killed after its first score, with `body` instead of its first `provider.usage`
/// event.
async fn damaged(bench: &Bench, body: impl Fn(&str) -> String) -> RunRecord {
    let whole = bench.seed(&SAYS, |spec| spec.concurrency = 1).await;
    assert!(bench.execute().await);
    let mut log = bench.log(&whole.run_id).await;
    let scored = log.iter().position(|event| &*event.kind == "eval.scored");
    log.truncate(scored.unwrap() + 1);
    let run = bench.seed(&SAYS, |spec| spec.concurrency = 1).await;
    let log: Vec<StoredEvent> = log
        .into_iter()
        .map(|event| {
            let text = String::from_utf8(event.body.to_vec()).unwrap();
            let text = text.replace(whole.run_id.as_str(), run.run_id.as_str());
            let odd = &*event.kind == "provider.usage";
            let text = if odd { body(&text) } else { text };
            StoredEvent {
                body: text.into(),
                ..event
            }
        })
        .collect();
    bench.leave_behind(&run.run_id, &log).await;
    run
}

fn no_json(_: &str) -> String {
    "{\"eventId\":".to_owned()
}

fn negative_cost(text: &str) -> String {
    let (before, after) = text.split_once("\"costEstimateUsd\":").unwrap();
    let rest =
        after.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '-'));
    format!("{before}\"costEstimateUsd\":-1{rest}")
}

#[rstest]
#[tokio::test]
async fn a_run_with_an_unreadable_event_is_resumed_and_passes_nothing(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[values(no_json as fn(&str) -> String, negative_cost)] body: fn(&str) -> String,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let bench = Bench::on(database.open().await, echo);
    let run = damaged(&bench, body).await;
    assert!(bench.execute().await);
    let state = bench.state(&run.run_id).await;
    assert_eq!(
        (state.status, state.eval.unreadable),
        (RunStatus::Completed, 1)
    );
    assert_eq!(state.eval.scored_count, 3);
    let report = report(
        KINDS,
        &run,
        run.spec.eval().unwrap(),
        &Thresholds::default(),
        &state,
    );
    assert_eq!(
        (report.verdict, report.summary.passed),
        (Verdict::Inconclusive, false)
    );
    assert_eq!(report.reasons[0], "1 event of the log cannot be read");
}

#[rstest]
#[tokio::test]
async fn a_run_with_an_unreadable_event_can_be_seen_and_cancelled(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let bench = Bench::on(database.open().await, echo);
    let run = damaged(&bench, no_json).await;
    // As after a restart: there is no folded state.
    let projections = Projections::new(bench.store.clone());
    let status = projections
        .with_state(&run.run_id, |state| state.status)
        .await;
    assert_eq!(status.unwrap(), RunStatus::Running);
    let request = CancelRequest {
        cancelled_by: "key".to_owned(),
        reason: None,
    };
    assert!(
        run_store::queue::request_cancel(&bench.store, &run.run_id, &request)
            .await
            .unwrap()
    );
    assert!(bench.execute().await);
    let status = projections
        .with_state(&run.run_id, |state| state.status)
        .await;
    assert_eq!(status.unwrap(), RunStatus::Cancelled);
}
