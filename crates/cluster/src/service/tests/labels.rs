//! Tasks that require labels of their workers.

use super::*;
use crate::rules::access::rights::Forbidden;
use crate::rules::presence::{Member, Presence, Unserved};
use crate::rules::wire::parts::ContentLimits;
use touchstone_agents::rules::worker_labels::WorkerLabel;

fn requiring(cluster: &Cluster, id: &str, required: &[&str]) -> Task {
    Task {
        labels: some_labels(required),
        ..task(cluster, id)
    }
}

#[tokio::test(start_paused = true)]
async fn only_workers_with_all_labels_get_a_task() {
    let cluster = Cluster::start(0).await;
    let _others = [
        cluster.worker("w1", 4),
        cluster.worker_with_labels("w2", &["gpu"]),
        cluster.worker_with_labels("w3", &["region=us", "gpu"]),
    ];
    let (runtime, meter) = (cluster.runtime(), account());
    let (recorder, task) = (
        Recorder::default(),
        requiring(&cluster, "t0", &["region=eu", "gpu"]),
    );
    let running = task.run(&runtime, &meter, &recorder);
    let mut running = std::pin::pin!(running);
    let waited = tokio::time::timeout(Duration::from_secs(120), &mut running).await;
    assert!(waited.is_err() && cluster.all_calls() == 0);
    // It does not hold up tasks that need one of its labels.
    let other = requiring(&cluster, "t1", &["gpu"]);
    let result = other.run(&runtime, &meter, &Recorder::default()).await;
    assert_eq!(result.end, decided("t1"));
    let _right = cluster.worker_with_labels("w4", &["fast", "gpu", "region=eu"]);
    assert_eq!(running.await.end, decided("t0"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_labels_takes_other_tasks_too() {
    let cluster = Cluster::start(12).await;
    let _worker = cluster.worker_with_labels("w1", &["gpu"]);
    let meter = account();
    let results = run_all(&cluster, &meter, 8).await;
    assert_done(&results);
}

/// As messages, answers and workers are lost.
#[tokio::test(start_paused = true)]
async fn tasks_with_labels_survive_lost_messages_and_workers() {
    let cluster = Cluster::start(12).await;
    let lost = cluster.worker_with_labels("w1", &["gpu"]);
    let _other = cluster.worker("w2", 4);
    let (runtime, meter) = (cluster.runtime(), account());
    let tasks = (0..8).map(async |number| {
        let task = requiring(&cluster, &format!("t{number}"), &["gpu"]);
        let result = task.run(&runtime, &meter, &Recorder::default()).await;
        assert_eq!(result.end, decided(&task.id));
    });
    let losing = async {
        while cluster.all_calls() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        lost.kill();
        cluster.worker_with_labels("w3", &["gpu", "fast"])
    };
    let (_, _right) = tokio::join!(join_all(tasks), losing);
    assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
}

/// With limits that it does not fit into, or a model that workers cannot serve.
#[tokio::test(start_paused = true)]
async fn a_task_with_labels_is_never_executed_by_its_host() {
    let limits = ContentLimits { task: 0, pool: 0 };
    let cluster = Cluster::start_with_content(0, limits).await;
    let _worker = cluster.worker_with_labels("w1", &["gpu"]);
    let large = Task {
        input: json!({"text": "z".repeat(1024 * 1024)}),
        ..requiring(&cluster, "t0", &["gpu"])
    };
    let without_endpoint = Task {
        model: cluster.model(None),
        ..requiring(&cluster, "t1", &["gpu"])
    };
    let (runtime, meter) = (cluster.runtime(), account());
    for (task, expected) in [
        (large, "too_large_for_worker"),
        (without_endpoint, "workers_required"),
    ] {
        let result = task.run(&runtime, &meter, &Recorder::default()).await;
        let reason = expected.to_owned();
        assert_eq!(result.end, InvocationEnd::Unjudged { reason });
    }
    assert_eq!(cluster.all_calls(), 0);
}

/// A worker with many sets of labels that were in use.
#[tokio::test(start_paused = true)]
async fn empty_queues_of_sets_take_no_places() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let cluster = Cluster::start(0).await;
    let (runtime, meter) = (cluster.runtime(), account());
    let _worker = cluster.worker_with_labels("w1", &names);
    for set in 1..64_u32 {
        let set: Vec<&str> = (0..)
            .zip(names)
            .filter(|(at, _)| set >> at & 1 == 1)
            .map(|(_, it)| it)
            .collect();
        let task = requiring(&cluster, "once", &set);
        let result = task.run(&runtime, &meter, &Recorder::default()).await;
        assert_eq!(result.end, decided("once"));
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    // Four places, and two calls of 100 ms for each task.
    let begun = Instant::now();
    assert_done(&run_all(&cluster, &meter, 200).await);
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(15), "{taken:?}");
}

/// A worker of an earlier version does not know the queue. If it received a message from it anyway, its
/// claim would be refused.
#[tokio::test(start_paused = true)]
async fn a_claim_without_the_labels_is_refused() {
    let cluster = Cluster::start(0).await;
    let task = requiring(&cluster, "t0", &["gpu"]);
    let (runtime, meter, recorder) = (cluster.runtime(), account(), Recorder::default());
    let running = task.run(&runtime, &meter, &recorder);
    let mut running = std::pin::pin!(running);
    let (pool, model) = (Pool::shared(), task.model.identity());
    let plain = Lane::of(&pool, &model, None).unwrap();
    let gpu = WorkerLabel::parse("gpu").unwrap();
    let lane = Lane::with(&pool, &model, None, &[gpu], false).unwrap();
    let claimed = async {
        let delivered = cluster.bus.pull(&lane, 1, Duration::from_secs(1)).await;
        let offered: wire::Offered = wire::read(&delivered.unwrap()[0].message).unwrap();
        let worker = WorkerId {
            worker: "w1".to_owned(),
            epoch: "epoch_1".to_owned(),
        };
        let claim = Claim {
            worker,
            offer: offered.offer,
            claim: "claim_1".to_owned(),
            labels: some_labels(&[]),
            largest: 0,
        };
        let address = Address {
            operation: Operation::Claim,
            replica: offered.replica,
            worker: "w1".to_owned(),
        };
        let message = wire::write(&claim).unwrap();
        let asked = cluster
            .bus
            .request(&address, message, Duration::from_secs(1));
        wire::read::<Claimed>(&asked.await.unwrap()).unwrap()
    };
    let claimed = tokio::select! {
        claimed = claimed => claimed,
        _ = &mut running => unreachable!(),
    };
    let reason = Forbidden::MissingLabel;
    assert_eq!(claimed, Claimed::Forbidden { reason });
    assert_eq!(cluster.bus.waiting(&plain).await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_replica_announces_which_labels_are_missing() {
    let cluster = Cluster::start(0).await;
    let task = requiring(&cluster, "t0", &["gpu"]);
    let (runtime, meter, recorder) = (cluster.runtime(), account(), Recorder::default());
    let running = task.run(&runtime, &meter, &recorder);
    let mut running = std::pin::pin!(running);
    assert!(
        tokio::time::timeout(Duration::from_millis(10), &mut running)
            .await
            .is_err()
    );
    let worker = Presence {
        version: "1.0.0".to_owned(),
        worker: Some(cluster.state_of_worker(&[])),
        replica: None,
    };
    let members = [Member {
        name: "w1".to_owned(),
        presence: worker,
        silent: Duration::ZERO,
    }];
    let state = |members: &[Member]| {
        let state = cluster
            .owner
            .state(|model, needs| Unserved::of(members, model, needs));
        state.runs[0].clone()
    };
    let run = state(&members);
    assert_eq!(run.unserved, Some(Unserved::Labels));
    assert_eq!(run.labels, some_labels(&["gpu"]));
    assert_eq!(state(&[]).unserved, Some(Unserved::Model));
    let _worker = cluster.worker_with_labels("w1", &["gpu"]);
    assert_eq!(running.await.end, decided("t0"));
    assert!(cluster.owner.state(|_, _| None).runs.is_empty());
}
