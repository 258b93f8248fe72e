//! How runs and tenants share workers and endpoints.

use std::sync::Arc;

use futures_util::FutureExt as _;
use rstest::rstest;
use touchstone_agents::model::EndpointPermits;
use touchstone_agents::ports::model::{EndpointHealth, ModelBinding, Permits as _};
use touchstone_agents::rules::OPENS_AFTER;

use super::*;

#[rstest]
#[case::of_the_same_tenant("acme")]
#[case::of_another_tenant("globex")]
#[tokio::test(start_paused = true)]
async fn a_large_run_delays_a_small_one_only_by_a_moment(#[case] tenant: &str) {
    let cluster = Cluster::start(0).await;
    let _worker = cluster.worker("w1", 4);
    let (runtime, meter) = (cluster.runtime(), account());
    let large = run_all(&cluster, &meter, 200);
    let small = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let tasks = (0..5).map(async |number| {
            let task = Task {
                run: RunId::from("run_2"),
                tenant: tenant.to_owned(),
                ..task(&cluster, &format!("small{number}"))
            };
            task.run(&runtime, &meter, &Recorder::default()).await
        });
        join_all(tasks).await;
        cluster.all_calls()
    };
    let (results, calls) = tokio::join!(large, small);
    assert_done(&results);
    // The worker makes 40 calls a second. Each of the small run's tasks has two.
    assert!(calls < 100, "{calls} calls until the small run had ended");
}

/// Runs tasks at the same time whose host allows this number of calls.
async fn run_limited(cluster: &Cluster, permits: &EndpointPermits, count: usize) {
    let (runtime, meter) = (cluster.runtime(), account());
    let runs = (0..count).map(async |number| {
        let task = limited(cluster, permits, &format!("t{number}"));
        let result = task.run(&runtime, &meter, &Recorder::default()).await;
        assert_eq!(result.end, decided(&task.id));
    });
    join_all(runs).await;
}

fn limited(cluster: &Cluster, permits: &EndpointPermits, id: &str) -> Task {
    let model = ModelBinding {
        permits: Arc::new(permits.clone()),
        ..cluster.model(Some(endpoint("test")))
    };
    Task {
        model,
        ..task(cluster, id)
    }
}

#[tokio::test(start_paused = true)]
async fn workers_share_the_limit_of_concurrent_calls_at_their_host() {
    for faults in [0, 12] {
        let cluster = Cluster::start(faults).await;
        let _workers = ["w1", "w2", "w3"].map(|name| cluster.worker(name, 10));
        run_limited(&cluster, &EndpointPermits::new(4), 40).await;
        assert_eq!(cluster.at_once.most.load(Ordering::Relaxed), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_the_limit_of_its_worker_holds_no_permit_of_the_host() {
    let cluster = Cluster::start(0).await;
    let _worker = cluster.worker_with_calls("w1", 4, 1);
    let permits = EndpointPermits::new(4);
    let looking = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(cluster.all_calls(), 1);
        let free: Vec<_> = (0..4)
            .map(|_| permits.acquire().now_or_never())
            .take_while(Option::is_some)
            .collect();
        free.len()
    };
    let (_, free) = tokio::join!(run_limited(&cluster, &permits, 4), looking);
    assert_eq!(free, 3);
    assert_eq!(cluster.at_once.most.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_attempt_gives_its_permit_back() {
    let cluster = Cluster::start(0).await;
    let killed = cluster.worker("w1", 4);
    let permits = EndpointPermits::new(4);
    let killing = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        killed.kill();
        cluster.worker("w2", 10)
    };
    tokio::join!(run_limited(&cluster, &permits, 12), killing);
    let permits: Vec<_> = (0..4).map(|_| permits.acquire()).collect();
    assert!(join_all(permits).await.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn workers_share_the_knowledge_that_an_endpoint_is_down() {
    let cluster = Cluster::start(0).await;
    let _worker = cluster.worker("w1", 4);
    let permits = EndpointPermits::new(4);
    // The endpoint has failed for other tasks, and has failed once more after a pause.
    for _ in 0..=OPENS_AFTER {
        let permit = permits.acquire().await.unwrap();
        permit.report(EndpointHealth::Failed);
    }
    let task = limited(&cluster, &permits, "t0");
    let (runtime, recorder) = (cluster.runtime(), Recorder::default());
    let result = task.run(&runtime, &account(), &recorder).await;
    let expected = Recorder::default();
    let local = task.run(&Runtime::default(), &account(), &expected).await;
    assert_eq!(result, local);
    assert!(matches!(result.end, InvocationEnd::Unjudged { .. }));
    assert_eq!(recorder.described(), expected.described());
    assert_eq!(cluster.all_calls(), 0);
}
