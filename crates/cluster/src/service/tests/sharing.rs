//! How runs and tenants share workers and endpoints.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_large_run_delays_a_small_one_only_by_a_moment() {
    let cluster = Cluster::start(0).await;
    let _worker = cluster.worker("w1", 4);
    let (runtime, meter) = (cluster.runtime(), account());
    let large = run_all(&cluster, &meter, 200);
    let small = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let tasks = (0..5).map(async |number| {
            let task = Task {
                run: RunId::from("run_2"),
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
