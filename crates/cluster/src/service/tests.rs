//! Owners and workers over a bus in memory, with paused time.

mod labels;
mod large;
mod sharing;
pub(crate) mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::Instant;
use touchstone_agents::budget::Limits;
use touchstone_agents::ports::agent::{InvocationEnd, InvocationResult};
use touchstone_agents::rules::{RecordedCall, WORKERS_UNREACHABLE};
use touchstone_agents::runtime::Runtime;
use touchstone_kit::ids::RunId;
use touchstone_openwop::events::args_hash;

use crate::ports::bus::Bus as _;
use crate::rules::access::pools::Pool;
use crate::rules::access::rights::WorkerEntry;
use crate::rules::lane::Lane;
use crate::rules::subjects::{Address, Operation};
use crate::rules::wire::{self, Beat, Claim, Claimed, Held, WorkerId};
use support::{Account, Cluster, Recorder, Task, endpoint, labels as some_labels};

fn task(cluster: &Cluster, id: &str) -> Task {
    Task {
        run: RunId::from("run_1"),
        id: id.to_owned(),
        invocation: format!("inv_{id}"),
        tenant: "acme".to_owned(),
        input: json!({"tool": true}),
        model: cluster.model(Some(endpoint("test"))),
        labels: some_labels(&[]),
        recorded: None,
    }
}

fn account() -> Account {
    Account::new(Limits::default())
}

/// Runs tasks at the same time, each with a log of its own.
async fn run_all(
    cluster: &Cluster,
    meter: &Account,
    count: usize,
) -> Vec<(InvocationResult, Recorder)> {
    let runtime = cluster.runtime();
    let runs = (0..count).map(async |number| {
        let recorder = Recorder::default();
        let task = task(cluster, &format!("t{number}"));
        let result = task.run(&runtime, meter, &recorder).await;
        (result, recorder)
    });
    join_all(runs).await
}

fn decided(id: &str) -> InvocationEnd {
    InvocationEnd::Decided {
        output: json!(format!("done {id}")),
    }
}

fn assert_done(results: &[(InvocationResult, Recorder)]) {
    for (number, (result, _)) in results.iter().enumerate() {
        assert_eq!(result.end, decided(&format!("t{number}")));
    }
}

#[tokio::test(start_paused = true)]
async fn results_and_events_are_those_of_a_local_run() {
    let cluster = Cluster::start(0).await;
    let _workers = ["w1", "w2", "w3"].map(|name| cluster.worker(name, 2));
    let meter = account();
    let results = run_all(&cluster, &meter, 20).await;
    let spent = meter.spent();
    assert_eq!(cluster.all_calls(), 40);

    let local = account();
    for (number, (result, recorder)) in results.iter().enumerate() {
        let expected = Recorder::default();
        let task = task(&cluster, &format!("t{number}"));
        let locally = task.run(&Runtime::default(), &local, &expected).await;
        assert_eq!(*result, locally);
        assert_eq!(recorder.described(), expected.described());
    }
    assert_eq!(spent, local.spent());
    assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
}

#[rstest]
#[case::recorded(&json!({}), "agent.decided", 0)]
#[case::not_recorded(&json!({"other": 1}), "touchstone.fixture.missing", 1)]
#[tokio::test(start_paused = true)]
async fn a_worker_answers_with_the_calls_that_another_run_recorded(
    #[case] arguments: &Value,
    #[case] kind: &str,
    #[case] missing: usize,
) {
    let cluster = Cluster::start(0).await;
    let _worker = cluster.worker("w1", 2);
    let call = RecordedCall {
        tool: "docs:find".to_owned(),
        args_hash: args_hash(arguments).unwrap(),
        failed: false,
        outcome: json!("recorded"),
    };
    let task = Task {
        recorded: Some(vec![call]),
        ..task(&cluster, "t0")
    };
    let (meter, recorder, expected) = (account(), Recorder::default(), Recorder::default());
    let result = task.run(&cluster.runtime(), &meter, &recorder).await;
    let locally = task.run(&Runtime::default(), &account(), &expected).await;
    assert_eq!(result, locally);
    assert_eq!(recorder.described(), expected.described());
    assert_eq!(recorder.count(kind), 1);
    assert_eq!(recorder.count("touchstone.fixture.missing"), missing);
    let text = json!(recorder.described()).to_string();
    assert_eq!(text.contains("\"outcome\":\"recorded\""), missing == 0);
}

#[rstest]
#[case::of_this_version(false, &[Operation::Meter])]
#[case::of_an_earlier_version(true, &[Operation::Facts, Operation::Meter, Operation::Meter])]
#[tokio::test(start_paused = true)]
async fn a_worker_asks_once_before_a_call_if_its_host_allows_it(
    #[case] is_earlier: bool,
    #[case] before_a_call: &[Operation],
) {
    let cluster = Cluster::start(0).await;
    cluster.is_earlier.store(is_earlier, Ordering::Relaxed);
    let _worker = cluster.worker("w1", 2);
    let task = Task {
        input: json!({}),
        ..task(&cluster, "t0")
    };
    let (meter, recorder) = (account(), Recorder::default());
    let result = task.run(&cluster.runtime(), &meter, &recorder).await;
    assert_eq!(result.end, decided("t0"));
    assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
    let mut asked = cluster.asked.lock().unwrap().clone();
    asked.retain(|it| *it != Operation::Beat);
    let expected = [&[Operation::Claim], before_a_call, &[Operation::Facts]];
    assert_eq!(asked, expected.concat());
}

#[tokio::test(start_paused = true)]
async fn lost_repeated_and_late_messages_change_nothing() {
    for (faults, is_earlier) in [(8, false), (12, false), (20, false), (12, true)] {
        let cluster = Cluster::start(faults).await;
        cluster.is_earlier.store(is_earlier, Ordering::Relaxed);
        let _workers = ["w1", "w2"].map(|name| cluster.worker(name, 5));
        let meter = account();
        let results = run_all(&cluster, &meter, 20).await;
        assert_done(&results);
        assert_eq!(cluster.all_calls(), 40, "one of {faults} messages is lost");
        for (_, recorder) in &results {
            assert_eq!(recorder.count("agent.invocation.started"), 1);
            assert_eq!(recorder.count("agent.decided"), 1);
            assert_eq!(recorder.count("provider.usage"), 2);
        }
        assert_eq!(meter.spent().tokens, 20 * 30);
        assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_killed_worker_are_executed_by_others() {
    let cluster = Cluster::start(0).await;
    let killed = cluster.worker("w1", 5);
    let meter = account();
    let killing = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        killed.kill();
        cluster.worker("w2", 5)
    };
    let (results, _worker) = tokio::join!(run_all(&cluster, &meter, 10), killing);
    assert_done(&results);
    // Each task has two calls, and the second one of five was under way.
    assert_eq!(cluster.all_calls(), 20 + 2 * 5);
    let started = results
        .iter()
        .map(|(_, it)| it.count("agent.invocation.started"));
    assert_eq!(started.sum::<usize>(), 15);
    for (_, recorder) in &results {
        let open = recorder.count("agent.invocation.started");
        assert_eq!(recorder.count("agent.invocation.completed"), open);
        assert_eq!(recorder.count("agent.decided"), 1);
    }
    assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn facts_of_a_stopped_worker_do_not_count_when_it_continues() {
    let cluster = Cluster::start(0).await;
    let stopped = cluster.worker("w1", 5);
    let meter = account();
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stopped.set_stopped(true);
        let other = cluster.worker("w2", 5);
        tokio::time::sleep(support::HOLD + Duration::from_secs(2)).await;
        // Its calls are answered now, and the attempts of the other worker are under way.
        stopped.set_stopped(false);
        other
    };
    let (results, _other) = tokio::join!(run_all(&cluster, &meter, 5), stopping);
    assert_done(&results);
    tokio::time::sleep(Duration::from_secs(30)).await;
    for (number, (_, recorder)) in results.iter().enumerate() {
        // One call of the stopped worker and two of the other: the stopped one makes no second.
        assert_eq!(cluster.calls_of(&format!("t{number}")), 3);
        assert_eq!(
            recorder.count("provider.usage"),
            2,
            "{:?}",
            recorder.kinds()
        );
        assert_eq!(recorder.count("agent.decided"), 1);
    }
    assert_eq!(meter.spent().tokens, 5 * 30);
    assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn workers_share_the_budget_of_the_run() {
    let cluster = Cluster::start(0).await;
    let _workers = ["w1", "w2", "w3"].map(|name| cluster.worker(name, 10));
    let limit = 200;
    let meter = Account::new(Limits {
        max_tokens: Some(limit),
        ..Limits::default()
    });
    let results = run_all(&cluster, &meter, 30).await;
    let exhausted = InvocationEnd::Unjudged {
        reason: "budget_exhausted".to_owned(),
    };
    let refused = results.iter().filter(|(it, _)| it.end == exhausted).count();
    assert!(refused > 0 && meter.is_exhausted.load(Ordering::Relaxed));
    // One call may be made whose estimate does not fit: 15 tokens.
    assert!(meter.spent().tokens <= limit + 15, "{:?}", meter.spent());
    assert_eq!(meter.spent().tokens, 15 * cluster.all_calls() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_worker_drops_a_task_that_was_cancelled() {
    let cluster = Cluster::start(0).await;
    let worker = cluster.worker("w1", 1);
    worker.set_stopped(false);
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    let first = task(&cluster, "t0");
    let running = first.run(&runtime, &meter, &recorder);
    let cancelled = tokio::time::timeout(Duration::from_millis(50), running).await;
    assert!(cancelled.is_err());
    // The only place of the worker is free again.
    let second = task(&cluster, "t1")
        .run(&runtime, &meter, &Recorder::default())
        .await;
    assert_eq!(second.end, decided("t1"));
    assert_eq!(cluster.calls_of("t0"), 1);
    assert_eq!(recorder.count("provider.usage"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_gives_its_reservation_back() {
    let cluster = Cluster::start(0).await;
    let _worker = cluster.worker("w1", 1);
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    let task = task(&cluster, "t0");
    let running = task.run(&runtime, &meter, &recorder);
    let cancelled = tokio::time::timeout(Duration::from_millis(50), async {
        let mut running = std::pin::pin!(running);
        loop {
            tokio::select! {
                _ = &mut running => unreachable!(),
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
            assert!(meter.reserved.load(Ordering::Relaxed) <= 1);
        }
    });
    assert!(cancelled.await.is_err());
    assert_eq!(cluster.calls_of("t0"), 1, "a call was reserved and made");
    assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_its_host_can_execute_is_executed_there() {
    let cluster = Cluster::start(0).await;
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    let local = Task {
        model: cluster.model(None),
        ..task(&cluster, "t0")
    };
    let result = local.run(&runtime, &meter, &recorder).await;
    assert_eq!(result.end, decided("t0"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_only_tasks_of_models_that_it_serves() {
    let cluster = Cluster::start(0).await;
    let _other = cluster.worker_for("w1", 5, "another");
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    let task = task(&cluster, "t0");
    let running = task.run(&runtime, &meter, &recorder);
    let mut running = std::pin::pin!(running);
    let waited = tokio::time::timeout(Duration::from_secs(60), &mut running).await;
    assert!(waited.is_err());
    assert_eq!(cluster.all_calls(), 0);
    let lane = Lane::of(&Pool::shared(), &task.model.identity(), None).unwrap();
    let waiting = cluster.bus.waiting(&lane).await.unwrap();
    assert_eq!(
        waiting, 1,
        "a task is not published again while it waits in its queue"
    );
    let _right = cluster.worker("w2", 5);
    assert_eq!(running.await.end, decided("t0"));
}

fn entry(name: &str, tenant: &str, model: &str) -> WorkerEntry {
    WorkerEntry {
        name: name.to_owned(),
        tenants: vec![tenant.to_owned()],
        models: vec![model.to_owned()],
        labels: vec!["*".to_owned()],
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_wait_for_a_worker_that_may_execute_them() {
    const TASKS: usize = 40;
    let entries = [
        entry("wrong_tenant", "umbrella", "*"),
        entry("wrong_model", "acme", "openai/other"),
        entry("right", "acme", "openai/test"),
    ];
    let cluster = Cluster::start_with(0, &entries).await;
    let _forbidden = ["wrong_tenant", "wrong_model", "unknown"].map(|it| cluster.worker(it, 16));
    let meter = account();
    let mut running = std::pin::pin!(run_all(&cluster, &meter, TASKS));
    let waited = tokio::time::timeout(Duration::from_secs(300), &mut running).await;
    assert!(waited.is_err());
    assert_eq!(cluster.all_calls(), 0);
    // The others still ask now and then, and leave the tasks to this worker.
    let _right = cluster.worker("right", 4);
    let done = tokio::time::timeout(Duration::from_secs(90), running).await;
    assert_done(&done.expect("the tasks are not taken by workers that may not execute them"));
    assert_eq!(cluster.all_calls(), 2 * TASKS);
}

#[tokio::test(start_paused = true)]
async fn a_worker_takes_tasks_of_its_pools_only() {
    let cluster = Cluster::start(0).await;
    let acme = Pool::parse("acme").unwrap();
    let _other = cluster.worker_of(&acme, "w1", 5, "test");
    let meter = account();
    let mut running = std::pin::pin!(run_all(&cluster, &meter, 2));
    let waited = tokio::time::timeout(Duration::from_secs(60), &mut running).await;
    assert!(waited.is_err());
    assert_eq!(cluster.all_calls(), 0);
    let _shared = cluster.worker("w2", 5);
    assert_done(&running.await);
}

#[tokio::test(start_paused = true)]
async fn no_call_is_made_while_the_log_of_the_run_takes_nothing() {
    let cluster = Cluster::start(0).await;
    let _worker = cluster.worker("w1", 5);
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    let task = task(&cluster, "t0");
    let outage = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        recorder.may_call.send_replace(false);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(cluster.all_calls(), 1, "only the call that was under way");
        recorder.may_call.send_replace(true);
    };
    let (result, ()) = tokio::join!(task.run(&runtime, &meter, &recorder), outage);
    assert_eq!(result.end, decided("t0"));
    assert_eq!(cluster.all_calls(), 2);
    assert_eq!(recorder.count("agent.invocation.started"), 1);
}

/// Claims every task and is never heard of again, but for one heartbeat if it is `known`.
async fn claim_and_vanish(cluster: &Cluster, lane: &Lane, known: bool) {
    for number in 0.. {
        for delivery in cluster
            .bus
            .pull(lane, 1, Duration::from_secs(1))
            .await
            .unwrap()
        {
            let offered: wire::Offered = wire::read(&delivery.message).unwrap();
            let worker = WorkerId {
                worker: "w9".to_owned(),
                epoch: "epoch_9".to_owned(),
            };
            let claim = Claim {
                worker: worker.clone(),
                offer: offered.offer.clone(),
                claim: format!("claim_{number}"),
                labels: some_labels(&[]),
                largest: 0,
            };
            let address = Address {
                operation: Operation::Claim,
                replica: offered.replica,
                worker: "w9".to_owned(),
            };
            let message = wire::write(&claim).unwrap();
            let asked = cluster
                .bus
                .request(&address, message, Duration::from_secs(5));
            let claimed: Claimed = wire::read(&asked.await.unwrap()).unwrap();
            let Claimed::Granted(granted) = claimed else {
                panic!("{claimed:?}");
            };
            delivery.receipt.acknowledge().await;
            if known {
                let held = Held {
                    offer: offered.offer,
                    invocation: granted.invocation,
                    token: granted.token,
                };
                let beat = Beat {
                    worker,
                    held: vec![held],
                };
                let address = Address {
                    operation: Operation::Beat,
                    ..address
                };
                let message = wire::write(&beat).unwrap();
                let beaten = cluster
                    .bus
                    .request(&address, message, Duration::from_secs(1));
                beaten.await.unwrap();
            }
        }
    }
}

#[rstest]
#[case::fell_silent(true, true, 3)]
#[case::never_heard_of(false, true, 20)]
#[case::no_worker_was_heard_of(true, false, 20)]
#[tokio::test(start_paused = true)]
async fn a_task_is_unjudged_after_many_lost_attempts(
    #[case] known: bool,
    #[case] others_heard: bool,
    #[case] expected: u32,
) {
    let cluster = Cluster::start(0).await;
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    let task = task(&cluster, "t0");
    let lane = Lane::of(&Pool::shared(), &task.model.identity(), None).unwrap();
    let others = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if others_heard {
                cluster.owner.contact().heard_worker();
            }
        }
    };
    let begun = Instant::now();
    let result = tokio::select! {
        result = task.run(&runtime, &meter, &recorder) => result,
        () = claim_and_vanish(&cluster, &lane, known) => unreachable!(),
        () = others => unreachable!(),
    };
    let reason = "worker_lost".to_owned();
    assert_eq!(result.end, InvocationEnd::Unjudged { reason });
    // Each attempt lasts for a hold and its margin, and is found within a tick.
    let attempt = support::HOLD + support::HOLD / 8;
    let attempts = begun.elapsed().div_duration_f64(attempt);
    assert!((f64::from(expected)..f64::from(expected) * 1.1).contains(&attempts));
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_host_that_does_not_answer_do_not_hold_up_those_of_others() {
    let cluster = Cluster::start(0).await;
    let lane = Lane::of(
        &Pool::shared(),
        &task(&cluster, "t0").model.identity(),
        None,
    )
    .unwrap();
    // Requests to it have no answer.
    let _stopped = cluster.bus.serve("stopped").await.unwrap();
    for number in 0..100 {
        let offered = wire::Offered {
            replica: "stopped".to_owned(),
            offer: format!("inv_{number}"),
        };
        let message = wire::write(&offered).unwrap();
        let published = cluster.bus.publish(&lane, "stopped", message);
        published.await.unwrap();
    }
    let _worker = cluster.worker("w1", 2);
    let meter = account();
    let ended = tokio::time::timeout(Duration::from_secs(30), run_all(&cluster, &meter, 10));
    assert_done(&ended.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_refused_for_a_moment_is_offered_again_at_once() {
    let cluster = Cluster::start(0).await;
    let _worker = cluster.worker("w1", 5);
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    recorder.may_call.send_replace(false);
    let task = task(&cluster, "t0");
    let pause = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        recorder.may_call.send_replace(true);
    };
    let running = async { tokio::join!(task.run(&runtime, &meter, &recorder), pause).0 };
    let ended = tokio::time::timeout(Duration::from_secs(2), running).await;
    assert_eq!(ended.unwrap().end, decided("t0"));
}

#[tokio::test(start_paused = true)]
async fn a_host_without_a_bus_leaves_its_tasks_to_another_after_two_holds() {
    let cluster = Cluster::start(0).await;
    let worker = cluster.worker("w1", 5);
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    let task = task(&cluster, "t0");
    let cutting_off = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        worker.kill();
        cluster.cut_off.send_replace(true);
    };
    let begun = Instant::now();
    let (result, ()) = tokio::join!(task.run(&runtime, &meter, &recorder), cutting_off);
    let reason = WORKERS_UNREACHABLE.to_owned();
    assert_eq!(result.end, InvocationEnd::Unjudged { reason });
    assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
    let holds = begun.elapsed().div_duration_f64(support::HOLD);
    assert!((2.0..2.2).contains(&holds), "{holds}");
    // A task that is started later is given the same time.
    let begun = Instant::now();
    let task = self::task(&cluster, "t1");
    let result = task.run(&runtime, &meter, &Recorder::default()).await;
    assert!(matches!(result.end, InvocationEnd::Unjudged { .. }));
    assert!(begun.elapsed() >= support::HOLD * 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_names_another_worker_than_its_address_has_no_answer() {
    let cluster = Cluster::start(0).await;
    let (meter, runtime, recorder) = (account(), cluster.runtime(), Recorder::default());
    let task = task(&cluster, "t0");
    let lane = Lane::of(&Pool::shared(), &task.model.identity(), None).unwrap();
    let mut running = std::pin::pin!(task.run(&runtime, &meter, &recorder));
    let delivered = tokio::select! {
        delivered = cluster.bus.pull(&lane, 1, Duration::from_secs(1)) => delivered.unwrap(),
        _ = &mut running => unreachable!(),
    };
    let offered: wire::Offered = wire::read(&delivered[0].message).unwrap();
    let claim = Claim {
        worker: WorkerId {
            worker: "w1".to_owned(),
            epoch: "epoch_1".to_owned(),
        },
        offer: offered.offer,
        claim: "claim_1".to_owned(),
        labels: some_labels(&[]),
        largest: 0,
    };
    let address = Address {
        operation: Operation::Claim,
        replica: offered.replica,
        worker: "w2".to_owned(),
    };
    let message = wire::write(&claim).unwrap();
    let asked = cluster
        .bus
        .request(&address, message, Duration::from_secs(5));
    let answer = tokio::select! {
        answer = asked => answer,
        _ = &mut running => unreachable!(),
    };
    assert!(answer.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_asked_to_stop_finishes_its_tasks() {
    let cluster = Cluster::start(0).await;
    let worker = cluster.worker("w1", 2);
    let meter = account();
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        worker.stop.cancel();
        worker.ended().await;
        assert_eq!(cluster.all_calls(), 4);
        cluster.worker("w2", 5)
    };
    let (results, _other) = tokio::join!(run_all(&cluster, &meter, 4), stopping);
    assert_done(&results);
    assert_eq!(cluster.all_calls(), 8);
}
