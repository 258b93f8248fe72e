//! The dispatcher on a real store: restarts, replicas, slow and broken endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rstest::rstest;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::run_log::Head;
use touchstone_host::service::jobs;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{RunId, WebhookId};
use touchstone_kit::webhook::{Circuit, Secret, Secrets};
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::version::Majors;
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::ports::webhooks::{DeadLetter, DeliveryState, GivenUp, WebhookRecord};
use touchstone_runs::service::webhooks::dispatcher::Dispatcher;
use touchstone_runs::store as run_store;
use touchstone_runs::store::webhooks::retries;
use touchstone_runs::webhook_client::WebhookClient;

use super::receiver::{Answer, Received, Receiver};
use crate::store::{Engine, Engine::*, TOO_LONG, TTL, at, events, record, tenant};
use crate::support::clock::Told;

const SECRET: [u8; 32] = [7; 32];

/// A running dispatcher.
struct Replica {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(store: &Arc<Database>, clock: &Arc<Told>, name: &str) -> Self {
        let notifier = WebhookClient::new(vec!["127.0.0.1".parse().unwrap()]).unwrap();
        let dispatcher = Dispatcher::new(
            store.clone(),
            clock.clone(),
            Arc::new(notifier),
            name.to_owned(),
        );
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(jobs::perform(dispatcher, shutdown.clone()));
        Self { shutdown, task }
    }

    /// Stops gracefully.
    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

fn subscription(id: &str, receiver: &Receiver) -> WebhookRecord {
    WebhookRecord {
        id: id.into(),
        tenant: "acme".into(),
        url: receiver.url().parse().unwrap(),
        events: vec!["eval.scored".to_owned()],
        tags: Vec::new(),
        standard: false,
        contract: Major::V1,
        secrets: Secrets::of(Secret::minted(SECRET)),
        created_by: "key_1".to_owned(),
        created_at: at(0),
        circuit: Circuit::default(),
    }
}

/// A run whose log the test writes.
struct Log {
    store: Arc<Database>,
    run: RunId,
    fence: Fence,
    written: u64,
}

impl Log {
    async fn of(store: &Arc<Database>, id: &str, owner: &str) -> Self {
        run_store::runs::create(store, &record(id, owner, 1), None)
            .await
            .unwrap();
        Self::claimed(store, id).await
    }

    /// A log for an existing run.
    async fn claimed(store: &Arc<Database>, id: &str) -> Self {
        let claim = run_store::queue::claim(store, id, Claimable::All, TTL)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(claim.run.run_id.as_str(), id);
        Self {
            store: store.clone(),
            run: claim.run.run_id.clone(),
            fence: claim.fence,
            written: 0,
        }
    }

    async fn append(&mut self, count: u64, ends: bool) {
        let events = events(&self.run, self.written + 1, count);
        run_store::runs::append(&self.store, &self.run, self.fence, &events, ends)
            .await
            .unwrap();
        self.written += count;
        let head = Head {
            sequence: self.written,
            ended: ends,
        };
        self.store.notify_run(&self.run, head).await;
    }
}

/// The sequences received for each run, in order of arrival.
fn by_run(got: &[Received]) -> BTreeMap<String, Vec<u64>> {
    let mut runs = BTreeMap::<String, Vec<u64>>::new();
    for received in got {
        let run = received.json()["runId"].as_str().unwrap().to_owned();
        runs.entry(run).or_default().push(received.sequence());
    }
    runs
}

macro_rules! open {
    ($engine:expr => $database:ident, $store:ident) => {
        let Some($database) = $engine.database().await else {
            return;
        };
        let $store = $database.open().await;
    };
}

#[rstest]
#[tokio::test]
async fn pending_messages_are_delivered_after_a_restart_without_duplicates(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let receiver = Receiver::start(Answer::Status(204)).await;
    let clock = Told::at_rest();
    run_store::webhooks::create(&store, &subscription("wh_1", &receiver), 9)
        .await
        .unwrap();
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(5, false).await;
    let replica = Replica::start(&store, &clock, "first");
    receiver.wait_for(5).await;
    replica.stop().await;

    // No dispatcher is running; the store is closed and reopened.
    log.append(40, false).await;
    log.append(3, true).await;
    let mut other = Log::of(&store, "run_2", "acme").await;
    other.append(2, true).await;
    drop((log, other, store));
    let store = database.open().await;
    let replica = Replica::start(&store, &clock, "second");
    let got = receiver.wait_for(50).await;
    replica.stop().await;
    assert_eq!(receiver.got().len(), 50);
    let runs = by_run(&got);
    assert_eq!(runs["run_1"], (1..=48).collect::<Vec<_>>());
    assert_eq!(runs["run_2"], [1, 2]);
    assert!(
        run_store::webhooks::grown_runs(&store, &"wh_1".into(), 9)
            .await
            .unwrap()
            .is_empty(),
        "and nothing is left"
    );
}

#[rstest]
#[tokio::test]
async fn a_callback_waits_for_the_end_of_its_run_outlives_a_restart_and_is_gone_then(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let receiver = Receiver::start(Answer::Status(500)).await;
    let clock = Told::at_rest();
    let callback = subscription("wh_1", &receiver);
    run_store::runs::create_with_callback(
        &store,
        &record("run_1", "acme", 1),
        Some(&callback),
        None,
    )
    .await
    .unwrap();
    let mut log = Log::claimed(&store, "run_1").await;
    let mut other = Log::of(&store, "run_2", "acme").await;
    log.append(2, false).await;
    other.append(2, true).await;
    let due = run_store::webhooks::claim(&store, "nobody", TTL, clock.now()).await;
    assert_eq!(
        due.unwrap(),
        None,
        "its run is still running, and the other run is not subscribed"
    );
    assert_eq!(
        run_store::webhooks::list(&store, &tenant("acme"))
            .await
            .unwrap(),
        []
    );
    let id = "wh_1".into();
    assert!(
        !run_store::webhooks::remove(&store, &tenant("acme"), &id)
            .await
            .unwrap()
    );
    log.append(1, true).await;
    drop((log, other, store));
    let store = database.open().await;
    let replica = Replica::start(&store, &clock, "second");
    receiver.wait_for(3).await;
    // The last failure is recorded shortly after its response.
    let all_wait = async {
        let id = WebhookId::from("wh_1");
        while retries::pending(&store, &id).await.unwrap().0 < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, all_wait).await.unwrap();
    receiver.answer(Answer::Status(200));
    clock.advance(2);
    let got = receiver.wait_for(6).await;
    replica.stop().await;
    assert_eq!(by_run(&got)["run_1"], [1, 2, 3, 1, 2, 3]);
    clock.advance(24 * 3600);
    let left = run_store::webhooks::claim(&store, "nobody", TTL, clock.now()).await;
    assert_eq!(left.unwrap(), None);
    // Its id can be used again: nothing of it is left.
    let again = run_store::webhooks::create(&store, &callback, 9).await;
    assert!(again.unwrap());
}

/// The dead letters of `wh_1`, once there are this many.
async fn dead_letters(store: &Database, clock: &Told, many: usize) -> Vec<DeadLetter> {
    let (acme, id) = (tenant("acme"), WebhookId::from("wh_1"));
    let begun = Instant::now();
    while begun.elapsed() < TOO_LONG {
        let letters =
            run_store::webhooks::dead_letters::list(store, &acme, &id, clock.now(), i64::MAX, 99);
        let letters = letters.await.unwrap();
        if letters.len() >= many {
            return letters;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the host never gave up {many} deliveries");
}

#[rstest]
#[tokio::test]
async fn an_event_is_attempted_five_times_with_growing_waits_and_then_given_up(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let receiver = Receiver::start(Answer::Status(503)).await;
    let clock = Told::at_rest();
    run_store::webhooks::create(&store, &subscription("wh_1", &receiver), 9)
        .await
        .unwrap();
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(1, true).await;
    drop(log);
    let mut store = store;
    let replica = Replica::start(&store, &clock, "1");
    receiver.wait_for(1).await;
    replica.stop().await;
    for (attempt, wait) in [(2, 2), (3, 20), (4, 200), (5, 3600)] {
        // Every attempt is made by another process.
        drop(store);
        store = database.open().await;
        clock.advance(wait - 1);
        let early = run_store::webhooks::claim(&store, "early", TTL, clock.now()).await;
        assert_eq!(early.unwrap(), None, "attempt {attempt} is not due yet");
        clock.advance(1);
        let replica = Replica::start(&store, &clock, &attempt.to_string());
        receiver.wait_for(attempt).await;
        replica.stop().await;
    }
    let letters = dead_letters(&store, &clock, 1).await;
    let letter = &letters[0];
    assert_eq!(
        (letter.attempts, letter.reason, letter.last_status),
        (5, GivenUp::RetriesExhausted, Some(503))
    );
    assert_eq!(letter.event_id, "evt_run_1_1");
    let kept = letter.expires_at.duration_since(letter.dead_lettered_at);
    assert_eq!(kept.as_hours(), 720);
    clock.advance(24 * 3600);
    let left = run_store::webhooks::claim(&store, "nobody", TTL, clock.now()).await;
    assert_eq!(left.unwrap(), None);
    let got = receiver.got();
    assert_eq!(got.len(), 5);
    assert!(got.iter().all(|it| it.body == got[0].body));
}

#[tokio::test]
async fn a_failed_event_delays_no_later_one_and_is_repeated_when_its_endpoint_asks() {
    open!(Sqlite => _database, store);
    let clock = Told::at_rest();
    let receiver = Receiver::start(Answer::Later(503, "60")).await;
    run_store::webhooks::create(&store, &subscription("wh_1", &receiver), 9)
        .await
        .unwrap();
    let replica = Replica::start(&store, &clock, "only");
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(1, false).await;
    receiver.wait_for(1).await;
    receiver.answer(Answer::Status(200));
    log.append(2, true).await;
    // Served by one replica, one after the other: the failure has been recorded.
    receiver.wait_for(3).await;
    clock.advance(59);
    let mut other = Log::of(&store, "run_2", "acme").await;
    other.append(1, true).await;
    receiver.wait_for(4).await;
    clock.advance(1);
    let got = receiver.wait_for(5).await;
    replica.stop().await;
    let runs = by_run(&got);
    assert_eq!(runs["run_1"], [1, 2, 3, 1]);
    assert_eq!(runs["run_2"], [1]);
    assert_eq!(got[4].header("openwop-webhook-id"), Some("wh_1"));
}

#[rstest]
#[tokio::test]
async fn an_event_without_a_form_under_the_subscriptions_major_is_given_up(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let clock = Told::at_rest();
    let receiver = Receiver::start(Answer::Status(200)).await;
    let mut second = subscription("wh_1", &receiver);
    second.contract = Major::V2;
    run_store::webhooks::create(&store, &second, 9)
        .await
        .unwrap();
    let replica = Replica::start(&store, &clock, "only");
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(2, true).await;
    let letters = dead_letters(&store, &clock, 2).await;
    replica.stop().await;
    let found = letters
        .iter()
        .map(|it| (it.event_id.as_str(), it.reason, it.attempts));
    let expected = [2, 1].map(|sequence| {
        let id = format!("evt_run_1_{sequence}");
        (id, GivenUp::PayloadUnprojectable, 0)
    });
    assert!(
        found.eq(expected
            .iter()
            .map(|(id, reason, n)| (id.as_str(), *reason, *n)))
    );
    assert!(receiver.got().is_empty());
    let webhook = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into()).await;
    let circuit = webhook.unwrap().unwrap().circuit;
    assert_eq!(circuit, Circuit::default(), "the endpoint is not to blame");
}

#[rstest]
#[tokio::test]
async fn a_replica_that_is_killed_in_the_middle_leaves_one_event_to_come_again(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let receiver = Receiver::start(Answer::Status(200)).await;
    let clock = Told::at_rest();
    run_store::webhooks::create(&store, &subscription("wh_1", &receiver), 9)
        .await
        .unwrap();
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(3, false).await;
    let first = Replica::start(&store, &clock, "first");
    receiver.wait_for(3).await;
    receiver.answer(Answer::Hang);
    log.append(3, true).await;
    receiver.wait_for(4).await;
    let lease = run_store::webhooks::claim(&store, "second", TTL, clock.now()).await;
    assert_eq!(lease.unwrap(), None, "it is being served");
    // The store disappears, as in a killed process: nothing more is recorded or released.
    first.task.abort();
    let store = database.open().await;
    receiver.answer(Answer::Status(200));
    // Before the second one looks for work and pauses: the attempt of the first one ends in a few
    // seconds and would then be recorded.
    database.pass(31).await;
    let second = Replica::start(&store, &clock, "second");
    let got = receiver.wait_for(7).await;
    second.stop().await;
    let sequences: Vec<u64> = got.iter().map(Received::sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 4, 5, 6]);
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_replicas_deliver_each_event_once_and_in_order(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let clock = Told::at_rest();
    let mut receivers = Vec::new();
    for n in 0..3 {
        let receiver = Receiver::start(Answer::Status(200)).await;
        run_store::webhooks::create(&store, &subscription(&format!("wh_{n}"), &receiver), 9)
            .await
            .unwrap();
        receivers.push(receiver);
    }
    let stores = [database.open().await, database.open().await];
    let replicas: Vec<Replica> = stores
        .iter()
        .enumerate()
        .map(|(n, store)| Replica::start(store, &clock, &format!("replica-{n}")))
        .collect();
    let mut logs = Vec::new();
    for n in 0..4 {
        logs.push(Log::of(&store, &format!("run_{n}"), "acme").await);
    }
    for round in 0..10 {
        for log in &mut logs {
            log.append(3, round == 9).await;
        }
    }
    for receiver in &receivers {
        receiver.wait_for(120).await;
    }
    for replica in replicas {
        replica.stop().await;
    }
    for receiver in &receivers {
        let runs = by_run(&receiver.got());
        assert_eq!(runs.len(), 4);
        for sequences in runs.values() {
            assert_eq!(*sequences, (1..=30).collect::<Vec<_>>());
        }
        assert!(
            receiver
                .got()
                .iter()
                .all(|received| received.is_signed_by(Secret::minted(SECRET).expose()))
        );
    }
}

#[tokio::test]
async fn a_hanging_endpoint_delays_no_other_endpoint() {
    open!(Sqlite => _database, store);
    let clock = Told::at_rest();
    let (slow, quick) = (
        Receiver::start(Answer::Hang).await,
        Receiver::start(Answer::Status(200)).await,
    );
    for n in 0..20 {
        run_store::webhooks::create(&store, &subscription(&format!("wh_slow_{n}"), &slow), 99)
            .await
            .unwrap();
    }
    run_store::webhooks::create(&store, &subscription("wh_quick", &quick), 99)
        .await
        .unwrap();
    let replica = Replica::start(&store, &clock, "only");
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(30, true).await;
    slow.wait_for(1).await;
    for count in 1..=30 {
        let began = Instant::now();
        quick.wait_for(count).await;
        assert!(
            began.elapsed() < Duration::from_secs(4),
            "an attempt at a slow one takes five"
        );
    }
    slow.wait_for(20).await;
    replica.task.abort();
}

#[tokio::test]
async fn a_broken_endpoint_is_left_alone_for_an_hour_and_then_probed_once() {
    open!(Sqlite => _database, store);
    let clock = Told::at_rest();
    let receiver = Receiver::start(Answer::Status(500)).await;
    run_store::webhooks::create(&store, &subscription("wh_1", &receiver), 9)
        .await
        .unwrap();
    let replica = Replica::start(&store, &clock, "only");
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(20, false).await;
    receiver.wait_for(4).await;
    let state = async |wanted: &str| {
        // The last attempt is recorded shortly after its response.
        let begun = Instant::now();
        while begun.elapsed() < TOO_LONG {
            let webhook = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into())
                .await
                .unwrap()
                .unwrap();
            if webhook.circuit.state(clock.now()) == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never became {wanted}");
    };
    state("open").await;
    log.append(5, false).await;
    // The first four events are due again.
    clock.advance(3599);
    let early = run_store::webhooks::claim(&store, "early", TTL, clock.now()).await;
    assert_eq!(early.unwrap(), None);
    assert_eq!(receiver.got().len(), 4, "deliveries wait in the meantime");

    clock.advance(1);
    receiver.wait_for(5).await;
    state("open").await;
    let early = run_store::webhooks::claim(&store, "early", TTL, clock.now()).await;
    assert_eq!(early.unwrap(), None);
    assert_eq!(receiver.got().len(), 5, "one probe, and open again");

    clock.advance(3600);
    receiver.answer(Answer::Status(200));
    log.append(3, true).await;
    let got = receiver.wait_for(33).await;
    state("active").await;
    let sequences: Vec<u64> = got.iter().map(Received::sequence).collect();
    let (probes, rest) = sequences.split_at(6);
    assert_eq!(probes, [1, 2, 3, 4, 5, 6]);
    let mut rest = rest.to_vec();
    rest.sort_unstable();
    let expected: Vec<u64> = (1..=5).chain(7..=28).collect();
    assert_eq!(rest, expected, "nothing is lost");
    replica.stop().await;
}

#[tokio::test]
async fn a_hundred_failures_in_a_row_within_a_week_end_a_subscription() {
    open!(Sqlite => _database, store);
    let clock = Told::at_rest();
    let receiver = Receiver::start(Answer::Status(503)).await;
    let mut doomed = subscription("wh_1", &receiver);
    for n in 0..99 {
        doomed.circuit = doomed.circuit.failed_at(at(-3600 * (99 - n)));
    }
    run_store::webhooks::create(&store, &doomed, 9)
        .await
        .unwrap();
    let replica = Replica::start(&store, &clock, "only");
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(2, false).await;
    receiver.wait_for(1).await;
    while !run_store::webhooks::grown_runs(&store, &"wh_1".into(), 9)
        .await
        .unwrap()
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let letters = dead_letters(&store, &clock, 2).await;
    let attempts: Vec<_> = letters.iter().map(|it| it.attempts).collect();
    assert_eq!(
        attempts,
        [0, 1],
        "an event that was not sent, and one that was"
    );
    clock.advance(8 * 24 * 3600);
    Log::of(&store, "run_2", "acme").await.append(2, true).await;
    replica.stop().await;
    assert_eq!(receiver.got().len(), 1);
    let webhook = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(webhook.circuit.state(clock.now()), "failed");
    assert!(
        run_store::webhooks::grown_runs(&store, &"wh_1".into(), 9)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_redirected_delivery_fails_and_is_not_followed() {
    open!(Sqlite => _database, store);
    let clock = Told::at_rest();
    let elsewhere = Receiver::start(Answer::Status(200)).await;
    let receiver = Receiver::start(Answer::Redirect(elsewhere.address)).await;
    run_store::webhooks::create(&store, &subscription("wh_1", &receiver), 9)
        .await
        .unwrap();
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(1, true).await;
    let replica = Replica::start(&store, &clock, "only");
    receiver.wait_for(1).await;
    replica.stop().await;
    let webhook = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(webhook.circuit.consecutive_failures(), 1);
    assert!(elsewhere.got().is_empty());
}

#[tokio::test]
async fn the_destination_address_is_checked_again_at_delivery() {
    open!(Sqlite => _database, store);
    let clock = Told::at_rest();
    let receiver = Receiver::start(Answer::Status(200)).await;
    let mut turned = subscription("wh_1", &receiver);
    // A name that passed the check once and now resolves to this host; the operator has allowed the
    // address, not the name.
    turned.url = format!(
        "https://localtest.example.localhost:{}/",
        receiver.address.port()
    )
    .parse()
    .unwrap();
    run_store::webhooks::create(&store, &turned, 9)
        .await
        .unwrap();
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(1, true).await;
    let replica = Replica::start(&store, &clock, "only");
    while !run_store::webhooks::grown_runs(&store, &"wh_1".into(), 9)
        .await
        .unwrap()
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    replica.stop().await;
    let webhook = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(webhook.circuit.consecutive_failures(), 1);
    assert!(receiver.got().is_empty());
}

/// The lease expires while small writes may still succeed: without outage detection, the same event
/// would be delivered every time.
#[tokio::test]
async fn a_delivery_that_cannot_be_recorded_is_not_made_again_during_the_outage() {
    open!(Postgres => database, store);
    let receiver = Receiver::start(Answer::Status(204)).await;
    let clock = Told::at_rest();
    run_store::webhooks::create(&store, &subscription("wh_1", &receiver), 9)
        .await
        .unwrap();
    let mut log = Log::of(&store, "run_1", "acme").await;
    for sql in [
        "CREATE FUNCTION full_disk() RETURNS trigger AS $$ BEGIN
            RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql",
        "CREATE TRIGGER full_disk BEFORE UPDATE ON webhook_run FOR EACH ROW EXECUTE FUNCTION full_disk()",
    ] {
        database.execute(sql.to_owned()).await;
    }
    database.fail_checks().await;
    let replica = Replica::start(&store, &clock, "first");
    log.append(1, false).await;
    receiver.wait_for(1).await;
    let reported = async {
        while !store.in_outage() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TOO_LONG, reported).await.unwrap();
    database.pass(31).await;
    // Several polling intervals.
    tokio::time::sleep(Duration::from_secs(3)).await;
    database
        .execute("DROP TRIGGER full_disk ON webhook_run".to_owned())
        .await;
    database.pass_checks().await;
    let got = receiver.wait_for(2).await;
    replica.stop().await;
    let sequences: Vec<u64> = got.iter().map(Received::sequence).collect();
    assert_eq!(
        sequences,
        [1, 1],
        "once before the outage was noticed, once after it"
    );
}

#[rstest]
#[tokio::test]
async fn the_last_200_attempts_are_kept_without_content_until_the_webhook_is_removed(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let receiver = Receiver::start(Answer::Status(204)).await;
    let clock = Told::at_rest();
    let (acme, id) = (tenant("acme"), WebhookId::from("wh_1"));
    run_store::webhooks::create(&store, &subscription("wh_1", &receiver), 9)
        .await
        .unwrap();
    let mut log = Log::of(&store, "run_1", "acme").await;
    log.append(210, false).await;
    let replica = Replica::start(&store, &clock, "first");
    receiver.wait_for(210).await;
    replica.stop().await;
    receiver.answer(Answer::Status(503));
    log.append(1, true).await;
    let replica = Replica::start(&store, &clock, "second");
    receiver.wait_for(211).await;
    replica.stop().await;

    let kept = async |before, limit| {
        let found = run_store::deliveries::list(&store, &acme, &id, before, limit).await;
        found.unwrap()
    };
    let all = kept(u64::MAX, 1000).await;
    assert_eq!(all.len(), 200);
    let (last, rest) = all.split_first().unwrap();
    assert_eq!(
        (last.sequence, last.state, last.status, last.attempts),
        (211, DeliveryState::Failed, Some(503), 1)
    );
    assert!(rest.iter().all(|it| it.state == DeliveryState::Delivered));
    let sequences: Vec<u64> = all.iter().map(|it| it.sequence).collect();
    assert_eq!(sequences, (12..=211).rev().collect::<Vec<_>>());
    let page = kept(all[9].number, 3).await;
    assert_eq!(page, all[10..13]);
    let other = tenant("globex");
    let foreign = run_store::deliveries::list(&store, &other, &id, u64::MAX, 9).await;
    assert_eq!(foreign.unwrap(), []);

    assert!(
        run_store::webhooks::remove(&store, &acme, &id)
            .await
            .unwrap()
    );
    assert_eq!(kept(u64::MAX, 9).await, []);
    let mut late = last.clone();
    let added = run_store::deliveries::add_one(&store, &acme, &id, &mut late).await;
    assert!(!added.unwrap(), "the webhook is gone");
}

#[tokio::test]
async fn a_host_without_major_1_sends_no_headers_of_it() {
    let receiver = Receiver::start(Answer::Status(200)).await;
    let url = receiver.url().parse().unwrap();
    for majors in [Majors::Both, Majors::V2] {
        let client = WebhookClient::new(vec!["127.0.0.1".parse().unwrap()]).unwrap();
        let client = client.serving(majors);
        let headers = [
            ("x-openwop-webhook-id", "wh_1".to_owned()),
            ("openwop-webhook-id", "wh_1".to_owned()),
            ("webhook-id", "msg_1".to_owned()),
        ];
        client.deliver(&url, &headers, "{}".into()).await.unwrap();
    }
    let names = ["x-openwop-webhook-id", "openwop-webhook-id", "webhook-id"];
    let found: Vec<_> = receiver
        .wait_for(2)
        .await
        .iter()
        .map(|got| names.map(|name| got.header(name).is_some()))
        .collect();
    assert_eq!(found, [[true, true, true], [false, true, true]]);
}
