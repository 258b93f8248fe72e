//! A replica's share of the work.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use touchstone::domain::run::fold::RunStatus;
use touchstone::ports::CancelRequest;
use touchstone::service::worker::{Worker, WorkerSettings};
use touchstone::system::SystemClock;

use super::bench::{Bench, echo};

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_pending_run_is_cancelled_although_every_slot_is_taken() {
    let bench = Bench::new(echo).await;
    let busy = bench.seed(&["hang"], |_| {}).await;
    let pending = bench.seed(&["a"], |_| {}).await;
    let settings = WorkerSettings {
        max_runs: 1,
        drain: Duration::from_millis(10),
        poll: Duration::from_millis(20),
        ..WorkerSettings::default()
    };
    let clock = Arc::new(SystemClock);
    let worker = Worker::new(
        bench.store.clone(),
        clock,
        bench.executor.clone(),
        "replica".to_owned(),
        settings,
    );
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(worker.work(shutdown.clone()));

    until(&bench, &busy.run_id, RunStatus::Running).await;
    let request = CancelRequest {
        cancelled_by: "key".to_owned(),
        reason: None,
    };
    assert!(
        bench
            .store
            .request_cancel(&pending.run_id, &request)
            .await
            .unwrap()
    );
    bench.store.notify_work().await;
    until(&bench, &pending.run_id, RunStatus::Cancelled).await;
    assert_eq!(bench.model.calls("a"), 0);

    // What still runs is given back, for others to go on with at once.
    shutdown.cancel();
    working.await.unwrap();
    assert_eq!(bench.state(&busy.run_id).await.status, RunStatus::Running);
    bench.leave_behind(&busy.run_id, &[]).await;
}

async fn until(bench: &Bench, run: &touchstone::domain::ids::RunId, status: RunStatus) {
    let reached = async {
        while bench.state(run).await.status != status {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap();
}
