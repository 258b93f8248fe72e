//! Tasks and facts that are larger than a message.

use super::*;
use crate::rules::wire::parts::ContentLimits;
use crate::rules::wire::{
    Amount, Answer, Ask, Await, Facts, FetchPart, Frame, ModelRole, Proof, Question, Received,
    Token,
};
use touchstone_agents::model::worker_command::at_workers;

const MIB: usize = 1024 * 1024;

fn large(cluster: &Cluster, id: &str, input: usize, answer: usize) -> Task {
    let input = json!({"tool": true, "text": "ä".repeat(input / 2), "answer": answer});
    Task {
        input,
        ..task(cluster, id)
    }
}

#[tokio::test(start_paused = true)]
async fn large_tasks_and_answers_are_those_of_a_local_run() {
    for faults in [0, 12] {
        let cluster = Cluster::start(faults).await;
        let _workers = ["w1", "w2"].map(|name| cluster.worker(name, 2));
        let (runtime, meter) = (cluster.runtime(), account());
        let runs = [(2 * MIB, 0), (10, MIB)];
        let runs = runs.into_iter().enumerate();
        let runs = runs.map(async |(number, (input, answer))| {
            let task = large(&cluster, &format!("t{number}"), input, answer);
            let (recorder, expected) = (Recorder::default(), Recorder::default());
            let result = task.run(&runtime, &meter, &recorder).await;
            let locally = task.run(&Runtime::default(), &account(), &expected).await;
            let shown = |it: &InvocationResult| format!("{:.80}", format!("{:?}", it.end));
            assert_eq!(shown(&result), shown(&locally));
            assert!(result == locally, "t{number} with {faults} faults");
            assert!(recorder.described() == expected.described(), "t{number}");
        });
        join_all(runs).await;
        assert_eq!(meter.reserved.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_above_the_limit_is_executed_by_its_host() {
    let limits = ContentLimits {
        task: MIB,
        pool: MIB,
    };
    let cluster = Cluster::start_with_content(0, limits).await;
    let task = large(&cluster, "t0", 2 * MIB, 0);
    let (runtime, meter, recorder) = (cluster.runtime(), account(), Recorder::default());
    let result = task.run(&runtime, &meter, &recorder).await;
    assert_eq!(result.end, decided("t0"));
    let task = Task {
        model: at_workers("triage"),
        ..task
    };
    let result = task.run(&runtime, &meter, &recorder).await;
    let reason = "too_large_for_worker".to_owned();
    assert_eq!(result.end, InvocationEnd::Unjudged { reason });
}

#[tokio::test(start_paused = true)]
async fn an_answer_above_the_limit_is_not_recorded() {
    let limits = ContentLimits {
        task: MIB,
        pool: MIB,
    };
    let cluster = Cluster::start_with_content(0, limits).await;
    let _worker = cluster.worker("w1", 1);
    let task = large(&cluster, "t0", 10, 2 * MIB);
    let (runtime, meter, recorder) = (cluster.runtime(), account(), Recorder::default());
    let result = task.run(&runtime, &meter, &recorder).await;
    let reason = "too_large_for_worker".to_owned();
    assert_eq!(result.end, InvocationEnd::Unjudged { reason });
}

#[tokio::test(start_paused = true)]
async fn a_worker_gets_no_larger_task_than_it_takes() {
    let mut cluster = Cluster::start(0).await;
    let enough = std::mem::replace(&mut cluster.largest, MIB);
    let _small = cluster.worker("w1", 2);
    let task = large(&cluster, "t0", 2 * MIB, 0);
    let (runtime, meter, recorder) = (cluster.runtime(), account(), Recorder::default());
    let running = task.run(&runtime, &meter, &recorder);
    let mut running = std::pin::pin!(running);
    let waited = tokio::time::timeout(Duration::from_secs(60), &mut running).await;
    assert!(waited.is_err() && cluster.all_calls() == 0);
    cluster.largest = enough;
    let _right = cluster.worker("w2", 2);
    assert_eq!(running.await.end, decided("t0"));
}

#[tokio::test(start_paused = true)]
async fn a_pool_has_room_for_some_large_tasks_and_answers_at_the_same_time() {
    let limits = ContentLimits {
        task: 2 * MIB,
        pool: 5 * MIB / 2,
    };
    for (input, answer) in [(3 * MIB / 2, 0), (10, 5 * MIB / 4), (MIB, 5 * MIB / 4)] {
        let cluster = Cluster::start_with_content(0, limits).await;
        let _worker = cluster.worker("w1", 4);
        let (runtime, meter) = (cluster.runtime(), account());
        let tasks = (0..4).map(async |number| {
            let task = large(&cluster, &format!("t{number}"), input, answer);
            let result = task.run(&runtime, &meter, &Recorder::default()).await;
            assert!(matches!(result.end, InvocationEnd::Decided { .. }));
        });
        let watching = async {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let held = cluster.owner.state(|_, _| None).runs;
                let held: u64 = held.iter().map(|it| it.held).sum();
                assert!(held <= 2 || input < MIB, "{held} tasks at the same time");
            }
        };
        tokio::select! {
            _ = join_all(tasks) => {}
            () = watching => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn large_tasks_that_no_worker_takes_delay_no_others() {
    let limits = ContentLimits {
        task: 2 * MIB,
        pool: 5 * MIB / 2,
    };
    let cluster = Cluster::start_with_content(0, limits).await;
    let _worker = cluster.worker("w1", 4);
    let (runtime, meter) = (cluster.runtime(), account());
    let unserved = (0..4).map(async |number| {
        let task = Task {
            labels: some_labels(&["none-has-this"]),
            run: RunId::from("run_2"),
            ..large(&cluster, &format!("u{number}"), 3 * MIB / 2, 0)
        };
        task.run(&runtime, &meter, &Recorder::default()).await
    });
    let others = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let task = large(&cluster, "t0", 3 * MIB / 2, 0);
        let result = task.run(&runtime, &meter, &Recorder::default()).await;
        let waiting = cluster.owner.state(|_, _| None).runs;
        (result, waiting)
    };
    tokio::select! {
        _ = join_all(unserved) => unreachable!(),
        (result, waiting) = others => {
            assert_eq!(result.end, decided("t0"));
            let offered: Vec<u64> = waiting.iter().map(|it| it.offered).collect();
            assert_eq!(offered, [4]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_too_large_for_a_worker_does_not_keep_it_from_others() {
    let mut cluster = Cluster::start(0).await;
    cluster.largest = 3 * MIB / 2;
    let _worker = cluster.worker("w1", 2);
    let (runtime, meter) = (cluster.runtime(), account());
    let too_large = large(&cluster, "u0", 3 * MIB, 0);
    let recorder = Recorder::default();
    let waiting = too_large.run(&runtime, &meter, &recorder);
    let begun = Instant::now();
    let others = async {
        for number in 0..8 {
            let task = large(&cluster, &format!("t{number}"), MIB, 0);
            let result = task.run(&runtime, &meter, &Recorder::default()).await;
            assert_eq!(result.end, decided(&task.id));
        }
        begun.elapsed()
    };
    tokio::select! {
        _ = waiting => unreachable!(),
        needed = others => assert!(needed < Duration::from_secs(180), "{needed:?}"),
    }
}

/// Claims a large task as a worker that does nothing else.
async fn claimed(cluster: &Cluster, task: &Task) -> (Address, Proof, usize) {
    let (pool, model) = (Pool::shared(), task.model.identity());
    let lane = Lane::with(&pool, &model, None, &[], true).unwrap();
    let delivered = cluster.bus.pull(&lane, 1, Duration::from_secs(1)).await;
    let offered: wire::Offered = wire::read(&delivered.unwrap()[0].message).unwrap();
    let claim = Claim {
        worker: WorkerId {
            worker: "w1".to_owned(),
            epoch: "epoch_1".to_owned(),
        },
        offer: offered.offer,
        claim: "claim_1".to_owned(),
        labels: some_labels(&[]),
        largest: cluster.largest,
    };
    let address = Address {
        operation: Operation::Claim,
        replica: offered.replica,
        worker: "w1".to_owned(),
    };
    let Claimed::Granted(grant) = asked(cluster, &address, &claim).await else {
        panic!("not granted");
    };
    assert_eq!(grant.task, "");
    let proof = Proof {
        worker: claim.worker,
        offer: claim.offer,
        invocation: grant.invocation,
        token: grant.token,
    };
    (address, proof, grant.parts_of.unwrap())
}

async fn asked(cluster: &Cluster, address: &Address, message: &impl wire::Message) -> Claimed {
    let message = wire::write(message).unwrap();
    let longest = Duration::from_secs(1);
    let answer = cluster.bus.request(address, message, longest).await;
    wire::read(&answer.unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_of_a_task_reads_its_parts() {
    let cluster = Cluster::start(0).await;
    let task = large(&cluster, "t0", 2 * MIB, 0);
    let (runtime, meter, recorder) = (cluster.runtime(), account(), Recorder::default());
    let running = task.run(&runtime, &meter, &recorder);
    let reading = async {
        let (address, proof, bytes) = claimed(&cluster, &task).await;
        let fetch = |proof: &Proof, part_from| FetchPart {
            proof: proof.clone(),
            part_from,
        };
        let Claimed::Part { text } = asked(&cluster, &address, &fetch(&proof, 0)).await else {
            panic!("no part");
        };
        assert!(text.starts_with("{\"tenant\":\"acme\"") && text.len() < bytes);
        let guessed = Proof {
            token: Token::new(&[9; 32]),
            ..proof.clone()
        };
        let other = Proof {
            invocation: "inv_other".to_owned(),
            ..proof.clone()
        };
        for refused in [fetch(&guessed, 0), fetch(&other, 0), fetch(&proof, bytes)] {
            assert_eq!(asked(&cluster, &address, &refused).await, Claimed::Gone);
        }
        let mut stranger = fetch(&proof, 0);
        "w2".clone_into(&mut stranger.proof.worker.worker);
        let address = Address {
            worker: "w2".to_owned(),
            ..address
        };
        assert_eq!(asked(&cluster, &address, &stranger).await, Claimed::Gone);
    };
    tokio::select! {
        _ = running => unreachable!(),
        () = reading => {}
    }
}

/// A worker repeats a question whose answer was lost. The log may be unavailable by then.
#[tokio::test(start_paused = true)]
async fn a_repeated_question_allows_a_call_only_while_the_log_takes_it() {
    let cluster = Cluster::start(0).await;
    let task = large(&cluster, "t0", 2 * MIB, 0);
    let (runtime, meter, recorder) = (cluster.runtime(), account(), Recorder::default());
    let running = task.run(&runtime, &meter, &recorder);
    let asking = async {
        let (address, proof, _) = claimed(&cluster, &task).await;
        let address = Address {
            operation: Operation::Meter,
            ..address
        };
        let amount = Amount {
            tokens: 1,
            nano_usd: 0,
        };
        let question = Question::ReserveAndCall {
            amount,
            role: ModelRole::Agent,
        };
        let ask = Ask {
            proof,
            call: 1,
            question,
            facts: None,
        };
        let answer = async || {
            let message = wire::write(&ask).unwrap();
            let longest = Duration::from_secs(1);
            let answer = cluster.bus.request(&address, message, longest).await;
            answer.ok().map(|it| wire::read::<Answer>(&it).unwrap())
        };
        assert_eq!(answer().await, Some(Answer::MayCall));
        recorder.may_call.send_replace(false);
        assert!(matches!(answer().await, None | Some(Answer::Wait)));
        recorder.may_call.send_replace(true);
        assert_eq!(answer().await, Some(Answer::MayCall));
    };
    tokio::select! {
        _ = running => unreachable!(),
        () = asking => {}
    }
}

/// Parts that a worker of this version never sends: the attempt is lost.
#[rstest]
#[case::more_than_the_limit(vec![part("x", Some(usize::MAX))])]
#[case::not_the_first_fact(vec![settled(), part("x", Some(2))])]
#[case::two_at_once(vec![part("x", Some(1)), part("x", Some(1))])]
#[case::without_a_first_part(vec![part("x", None)])]
#[case::longer_than_announced(vec![part("xxx", Some(2))])]
#[case::another_fact_between(vec![part("x", Some(2)), settled()])]
#[case::not_a_fact(vec![part("xx", Some(2))])]
#[tokio::test(start_paused = true)]
async fn parts_that_cannot_be_are_not_recorded(#[case] frames: Vec<Frame>) {
    let cluster = Cluster::start(0).await;
    let task = large(&cluster, "t0", 2 * MIB, 0);
    let (runtime, meter, recorder) = (cluster.runtime(), account(), Recorder::default());
    let running = task.run(&runtime, &meter, &recorder);
    let reporting = async {
        let (address, proof, _) = claimed(&cluster, &task).await;
        let facts = Facts {
            proof,
            from: 0,
            frames,
            until: Await::Recorded,
        };
        let address = Address {
            operation: Operation::Facts,
            ..address
        };
        let message = wire::write(&facts).unwrap();
        let longest = Duration::from_secs(1);
        let answer = cluster.bus.request(&address, message, longest).await;
        let answer: Received = wire::read(&answer.unwrap()).unwrap();
        assert_eq!(answer, Received::Superseded);
    };
    tokio::select! {
        _ = running => unreachable!(),
        () = reporting => {}
    }
    assert_eq!(recorder.events.lock().unwrap().len(), 0);
}

fn part(text: &str, of: Option<usize>) -> Frame {
    Frame::Part {
        text: text.to_owned(),
        of,
    }
}

fn settled() -> Frame {
    Frame::Settled {
        call: 1,
        used: Amount::default(),
    }
}
