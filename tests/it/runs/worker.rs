//! Run slots of one replica.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use touchstone_host::system::SystemClock;
use touchstone_runs::ports::queue::CancelRequest;
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::service::worker::{Worker, WorkerSettings};
use touchstone_runs::store as run_store;

use super::bench::{Bench, echo};

const PATIENCE: Duration = Duration::from_secs(60);

fn worker(bench: &Bench, max_runs: usize) -> Arc<Worker> {
    let settings = WorkerSettings {
        max_runs,
        drain: Duration::from_millis(10),
        poll: Duration::from_millis(20),
        ..WorkerSettings::default()
    };
    Worker::new(
        bench.store.clone(),
        Arc::new(SystemClock),
        bench.executor.clone(),
        "replica".to_owned(),
        settings,
        None,
    )
}

#[tokio::test]
async fn a_tenant_with_many_runs_leaves_places_for_the_others() {
    let mut bench = Bench::new(echo).await;
    let mut many = Vec::new();
    for _ in 0..4 {
        many.push(bench.seed(&["hang"], |_| {}).await.run_id);
    }
    bench.tenant = "other".into();
    let one = bench.seed(&["a"], |_| {}).await;
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(worker(&bench, 4).work(shutdown.clone()));

    until(&bench, &one.run_id, RunStatus::Completed).await;
    for (run, status) in many.iter().zip([
        RunStatus::Running,
        RunStatus::Running,
        RunStatus::Pending,
        RunStatus::Pending,
    ]) {
        until(&bench, run, status).await;
    }
    shutdown.cancel();
    working.await.unwrap();
}

#[tokio::test]
async fn a_pending_run_is_cancelled_although_every_slot_is_taken() {
    let bench = Bench::new(echo).await;
    let busy = bench.seed(&["hang"], |_| {}).await;
    let pending = bench.seed(&["a"], |_| {}).await;
    let worker = worker(&bench, 1);
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(worker.work(shutdown.clone()));

    until(&bench, &busy.run_id, RunStatus::Running).await;
    let request = CancelRequest {
        cancelled_by: "key".to_owned(),
        reason: None,
    };
    assert!(
        run_store::queue::request_cancel(&bench.store, &pending.run_id, &request)
            .await
            .unwrap()
    );
    bench.store.notify_work().await;
    until(&bench, &pending.run_id, RunStatus::Cancelled).await;
    assert_eq!(bench.model.calls("a"), 0);

    // Running runs are released, so that other workers can continue them at once.
    shutdown.cancel();
    working.await.unwrap();
    assert_eq!(bench.state(&busy.run_id).await.status, RunStatus::Running);
    bench.leave_behind(&busy.run_id, &[]).await;
}

async fn until(bench: &Bench, run: &touchstone_kit::ids::RunId, status: RunStatus) {
    let reached = async {
        while bench.state(run).await.status != status {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap();
}
