//! What workers can do with their permissions, and hostile ones cannot.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use touchstone_agents::budget::Limits;
use touchstone_agents::ports::agent::InvocationEnd;
use touchstone_agents::runtime::Runtime;
use touchstone_kit::ids::RunId;

use super::server::{Server, User, with_users};
use crate::config::ClusterSettings;
use crate::nats::{NatsBus, Role, keys};
use crate::ports::announcements::Announcements as _;
use crate::ports::bus::{Bus as _, BusError, Delivery, Request};
use crate::rules::access::permissions::Permissions;
use crate::rules::access::pools::{Pool, PoolEntry, Pools};
use crate::rules::access::rights::Rights;
use crate::rules::lane::Lane;
use crate::rules::lane::tests::lane;
use crate::rules::refusals::Refusal;
use crate::rules::subjects::{self, Address, Operation};
use crate::rules::wire::{
    self, Await, Claim, Claimed, End, Ending, Facts, Frame, Proof, Received, WorkerId,
};
use crate::service::owner::{ClusterRuntime, Owner};
use crate::service::tests::support::{
    Account, Cluster, Recorder, Task, TestClock, TestIds, endpoint, labels,
};

/// How long something that must happen may take.
const AT_MOST: Duration = Duration::from_secs(60);
/// How long it is watched that something does not happen.
const NOTHING: Duration = Duration::from_millis(500);
const HOST: &str = "host_1";

/// A server with a host and two workers: `w1` of the pool `acme`, and `w2`, which is hostile.
struct Site {
    server: Server,
    folder: TempDir,
    host: User,
    users: [User; 2],
}

fn acme() -> Pool {
    Pool::parse("acme").unwrap()
}

impl Site {
    /// `None` if there is no server.
    async fn start(pool_of_hostile: &Pool) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let of_host = Permissions::of_host(&[acme(), Pool::shared()]);
        let host = User::new(folder.path(), "host", &of_host);
        let users = [("w1", acme()), ("w2", pool_of_hostile.clone())];
        let users = users.map(|(name, pool)| {
            User::new(folder.path(), name, &Permissions::of_worker(name, &[pool]))
        });
        let server = Server::start(&with_users(&[&host, &users[0], &users[1]])).await?;
        Some(Self {
            server,
            folder,
            host,
            users,
        })
    }

    fn bus(&self, user: &User, role: Role) -> NatsBus {
        let pools = vec![PoolEntry {
            name: "acme".to_owned(),
            tenants: vec!["acme".into()],
        }];
        let settings = ClusterSettings {
            nkey_file: Some(user.seed_file.clone()),
            pools: pools.try_into().unwrap(),
            ..self.server.settings("nats")
        };
        NatsBus::new(settings, role)
    }

    fn host(&self) -> NatsBus {
        self.bus(&self.host, Role::Host)
    }

    fn worker(&self) -> NatsBus {
        self.bus(&self.users[0], Role::Worker("w1".to_owned()))
    }

    async fn hostile(&self) -> Hostile {
        let (sender, refusals) = mpsc::unbounded_channel();
        let seed = keys::read(&self.users[1].seed_file).unwrap();
        let client = ConnectOptions::with_nkey(seed)
            .custom_inbox_prefix(subjects::inbox("w2"))
            .event_callback(move |event| {
                if let Event::ServerError(cause) = event {
                    let refusal = Refusal::parse(&cause.to_string()).unwrap();
                    let _ = sender.send(refusal);
                }
                std::future::ready(())
            })
            .connect(self.server.settings("nats").nats.unwrap())
            .await
            .unwrap();
        Hostile { client, refusals }
    }
}

/// A client with the key of `w2` that uses it for anything.
struct Hostile {
    client: Client,
    refusals: mpsc::UnboundedReceiver<Refusal>,
}

impl Hostile {
    async fn cannot_publish(&mut self, subject: &str) {
        let message = Bytes::from_static(b"{}");
        let sent = self.client.publish(subject.to_owned(), message);
        sent.await.unwrap();
        self.is_refused("publish to", subject).await;
    }

    async fn cannot_subscribe(&mut self, subject: &str) {
        let _subscription = self.client.subscribe(subject.to_owned()).await.unwrap();
        self.is_refused("subscribe to", subject).await;
    }

    async fn is_refused(&mut self, action: &str, subject: &str) {
        let refusal = timeout(AT_MOST, self.refusals.recv()).await;
        let refusal = refusal.unwrap_or_else(|_| panic!("not refused: {action} {subject}"));
        let refusal = refusal.unwrap();
        assert_eq!((refusal.action, &*refusal.subject), (action, subject));
    }
}

/// A message in the queue of a lane.
pub(super) async fn take(bus: &NatsBus, lane: &Lane) -> Delivery {
    let taken = async {
        loop {
            let pulled = match bus.pull(lane, 1, Duration::from_secs(5)).await {
                // The server may be slow.
                Err(BusError::NoAnswer) => continue,
                pulled => pulled.unwrap(),
            };
            if let Some(delivery) = pulled.into_iter().next() {
                return delivery;
            }
        }
    };
    timeout(AT_MOST, taken).await.unwrap()
}

fn address(operation: Operation, worker: &str) -> Address {
    Address {
        operation,
        replica: HOST.to_owned(),
        worker: worker.to_owned(),
    }
}

async fn hears_nothing(requests: &mut mpsc::Receiver<Request>) {
    let heard = timeout(NOTHING, requests.recv()).await;
    assert!(heard.is_err(), "{}", heard.unwrap().unwrap().address);
}

#[tokio::test]
async fn a_worker_takes_and_leaves_messages_of_its_pool_and_asks_as_itself() {
    let Some(site) = Site::start(&Pool::shared()).await else {
        return;
    };
    let (host, worker, lane) = (site.host(), site.worker(), lane(&acme(), "m"));
    let early = worker.filled(&acme()).await;
    assert_eq!(early.unwrap().len(), 0, "no host has created the stream");
    let early = worker.pull(&lane, 1, Duration::from_secs(1)).await;
    assert_eq!(early.unwrap().len(), 0, "no host has created the queue");
    let message = Bytes::from_static(b"offer");
    host.publish(&lane, HOST, message.clone()).await.unwrap();
    let filled = BTreeSet::from([lane.name().to_owned()]);
    assert_eq!(worker.filled(&acme()).await.unwrap(), filled);
    let first = take(&worker, &lane).await;
    assert_eq!((&first.message, first.deliveries), (&message, 1));
    first.receipt.release(Duration::from_millis(100)).await;
    let again = take(&worker, &lane).await;
    assert_eq!((&again.message, again.deliveries), (&message, 2));
    again.receipt.acknowledge().await;
    let empty = async {
        while host.waiting(&lane).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(AT_MOST, empty).await.unwrap();
    assert_eq!(worker.filled(&acme()).await.unwrap(), BTreeSet::new());

    let mut requests = host.serve(HOST).await.unwrap();
    // Once this is answered, the server knows that the host listens.
    host.waiting(&lane).await.unwrap();
    for operation in Operation::ALL {
        let address = address(operation, "w1");
        let asked = worker.request(&address, message.clone(), AT_MOST);
        let answered = async {
            let request = timeout(AT_MOST, requests.recv()).await.unwrap().unwrap();
            assert_eq!(request.address, address);
            request.reply.send(Bytes::from_static(b"answer")).unwrap();
        };
        let (answer, ()) = tokio::join!(asked, answered);
        assert_eq!(answer.unwrap(), "answer");
    }
}

#[tokio::test]
async fn a_hostile_worker_reaches_neither_other_pools_nor_other_workers() {
    let Some(site) = Site::start(&Pool::shared()).await else {
        return;
    };
    let (host, worker, lane) = (site.host(), site.worker(), lane(&acme(), "m"));
    let message = Bytes::from_static(b"offer");
    host.publish(&lane, HOST, message.clone()).await.unwrap();
    let mut requests = host.serve(HOST).await.unwrap();
    let mut hostile = site.hostile().await;

    let (stream, name) = (acme().stream(), lane.name());
    for call in [
        format!("CONSUMER.MSG.NEXT.{stream}.{name}"),
        format!("CONSUMER.INFO.{stream}.{name}"),
        format!("CONSUMER.NAMES.{stream}"),
        format!("CONSUMER.LIST.{stream}"),
        format!("STREAM.INFO.{stream}"),
        format!("CONSUMER.DELETE.{stream}.{name}"),
        format!("CONSUMER.CREATE.{stream}"),
        format!("CONSUMER.CREATE.{}", Pool::shared().stream()),
        format!("STREAM.MSG.GET.{stream}"),
        format!("STREAM.PURGE.{stream}"),
        format!("STREAM.DELETE.{stream}"),
        format!("STREAM.PURGE.{}", Pool::shared().stream()),
        "STREAM.CREATE.OWN".to_owned(),
        "STREAM.NAMES".to_owned(),
        "INFO".to_owned(),
    ] {
        hostile.cannot_publish(&format!("$JS.API.{call}")).await;
    }
    hostile
        .cannot_publish(&format!("$JS.ACK.{stream}.{name}.1.1.1.1.0"))
        .await;
    for operation in Operation::ALL {
        let subject = address(operation, "w1").to_string();
        hostile.cannot_publish(&subject).await;
    }
    for subject in [
        &subjects::queued(&lane, HOST),
        "ts1.inbox.w1.x",
        "ts1.hosts.x",
        "ts1.presence.w1",
        "ts1.signals.host_1",
    ] {
        hostile.cannot_publish(subject).await;
    }
    for subject in [
        ">",
        "ts1.>",
        "ts1.inbox.w1.>",
        "ts1.inbox.>",
        "ts1.*.*.*",
        "ts1.hosts.>",
        "ts1.signals.*",
        "ts1.presence.*",
        "_INBOX.>",
        "$JS.API.>",
        "$JS.EVENT.>",
    ] {
        hostile.cannot_subscribe(subject).await;
    }
    hears_nothing(&mut requests).await;
    let taken = take(&worker, &lane).await;
    assert_eq!((&taken.message, taken.deliveries), (&message, 1));
}

#[tokio::test]
async fn a_host_answers_a_worker_only_in_its_own_inbox() {
    let Some(site) = Site::start(&Pool::shared()).await else {
        return;
    };
    let (host, lane) = (site.host(), lane(&acme(), "m"));
    let message = Bytes::from_static(b"offer");
    host.publish(&lane, HOST, message.clone()).await.unwrap();
    let mut requests = host.serve(HOST).await.unwrap();
    let hostile = site.hostile().await;
    let stream = acme().stream();
    for reply in [
        "ts1.inbox.w1.x".to_owned(),
        "ts1.hosts.x".to_owned(),
        address(Operation::Facts, "w1").to_string(),
        subjects::queued(&lane, HOST),
        format!("$JS.API.STREAM.PURGE.{stream}"),
        format!("$JS.API.STREAM.DELETE.{stream}"),
    ] {
        let subject = address(Operation::Claim, "w2").to_string();
        let sent = hostile
            .client
            .publish_with_reply(subject, reply, message.clone());
        sent.await.unwrap();
    }
    hostile.client.flush().await.unwrap();
    hears_nothing(&mut requests).await;
    assert_eq!(host.waiting(&lane).await, Ok(1));
}

/// A server delivers a message wherever the request for it says.
#[tokio::test]
async fn a_message_that_a_worker_sends_elsewhere_has_no_effect() {
    let Some(site) = Site::start(&Pool::shared()).await else {
        return;
    };
    let (own, other) = (lane(&Pool::shared(), "m"), lane(&acme(), "m"));
    let host = site.host();
    for lane in [&own, &other] {
        let message = Bytes::from_static(b"{\"v\":1}");
        for _ in 0..5 {
            host.publish(lane, HOST, message.clone()).await.unwrap();
        }
    }
    let mut requests = host.serve(HOST).await.unwrap();
    let hostile = site.hostile().await;
    let next = format!(
        "$JS.API.CONSUMER.MSG.NEXT.{}.{}",
        own.pool().stream(),
        own.name()
    );
    let pull = async |reply: String| {
        let message = Bytes::from_static(b"{\"batch\":1,\"no_wait\":true}");
        let sent = hostile
            .client
            .publish_with_reply(next.clone(), reply, message);
        sent.await.unwrap();
    };
    let mut inbox = hostile.client.subscribe("ts1.inbox.w2.x").await.unwrap();
    pull("ts1.inbox.w2.x".to_owned()).await;
    let delivered = timeout(AT_MOST, inbox.next()).await.unwrap();
    assert_eq!(delivered.unwrap().payload, "{\"v\":1}");
    let stream = acme().stream();
    for reply in [
        format!("$JS.API.STREAM.PURGE.{stream}"),
        format!("$JS.API.STREAM.DELETE.{stream}"),
        address(Operation::Facts, "w1").to_string(),
        subjects::queued(&other, HOST),
    ] {
        pull(reply).await;
    }
    hostile.client.flush().await.unwrap();
    hears_nothing(&mut requests).await;
    let waiting = host.waiting(&other).await;
    assert_eq!(waiting, Ok(5));
}

#[tokio::test]
async fn only_hosts_give_orders_to_a_worker() {
    let Some(site) = Site::start(&acme()).await else {
        return;
    };
    let (host, worker) = (site.host(), site.worker());
    let early = async {
        // The host may not be connected yet.
        loop {
            let early = host.order("w1", Bytes::from_static(b"early")).await;
            match early {
                Err(BusError::NoResponder) => return,
                other => assert!(other.is_err(), "nobody takes the order"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(AT_MOST, early).await.unwrap();
    let mut orders = worker.orders("w1").await.unwrap();
    let mut hostile = site.hostile().await;
    hostile.cannot_publish(&subjects::orders("w1")).await;
    hostile.cannot_subscribe(&subjects::orders("w1")).await;
    // The subscription of the worker may reach the server later than the first order.
    let ordered = async {
        while host
            .order("w1", Bytes::from_static(b"order"))
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(AT_MOST, ordered).await.unwrap();
    let order = timeout(AT_MOST, orders.recv()).await.unwrap();
    assert_eq!(order.unwrap(), "order");
}

/// The proof of an attempt that an owner has granted.
async fn claim(bus: &NatsBus, delivery: &Delivery, worker: &str) -> (Address, Option<Proof>) {
    let offered: wire::Offered = wire::read(&delivery.message).unwrap();
    let claim = Claim {
        worker: WorkerId {
            worker: worker.to_owned(),
            epoch: "epoch_1".to_owned(),
        },
        offer: offered.offer,
        claim: format!("claim_of_{worker}"),
        labels: labels(&[]),
        largest: 0,
    };
    let address = Address {
        operation: Operation::Claim,
        replica: offered.replica,
        worker: worker.to_owned(),
    };
    let message = wire::write(&claim).unwrap();
    let answer = bus.request(&address, message, AT_MOST).await.unwrap();
    let proof = match wire::read::<Claimed>(&answer).unwrap() {
        Claimed::Granted(grant) => Some(Proof {
            worker: claim.worker,
            offer: claim.offer,
            invocation: grant.invocation,
            token: grant.token,
        }),
        Claimed::Part { .. } => unreachable!(),
        Claimed::Gone | Claimed::Forbidden { .. } => None,
    };
    (address, proof)
}

fn ending(proof: Proof, output: &str) -> Bytes {
    let facts = Facts {
        proof,
        from: 0,
        frames: vec![Frame::Ended(Ending {
            end: End::Decided {
                output: json!(output),
            },
            schema_valid: None,
            latency_ms: 1,
        })],
        until: Await::Recorded,
    };
    wire::write(&facts).unwrap()
}

#[tokio::test]
async fn facts_count_only_from_the_worker_that_holds_the_task() {
    let Some(site) = Site::start(&acme()).await else {
        return;
    };
    let pools = vec![PoolEntry {
        name: "acme".to_owned(),
        tenants: vec!["acme".into()],
    }];
    let pools = Pools::try_from(pools).unwrap();
    let (clock, ids) = (TestClock(Instant::now()), TestIds::default());
    let host = Arc::new(site.host());
    let owner = Owner::new(
        host,
        Arc::new(clock),
        Arc::new(ids),
        Duration::from_secs(60),
    );
    let owner = Arc::new(owner.with_access(pools, Rights::default()));
    let stop = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "ends with the test")]
    let serving = tokio::spawn(owner.clone().serve(stop.clone()));
    let runtime = ClusterRuntime {
        owner,
        local: Runtime::default(),
    };
    let model = Cluster::start(0).await.model(Some(endpoint("test")));
    let task = Task {
        run: RunId::from("run_1"),
        id: "t1".to_owned(),
        invocation: "inv_1".to_owned(),
        tenant: "acme".to_owned(),
        input: json!({}),
        model,
        labels: labels(&[]),
        recorded: None,
    };
    let lane = Lane::of(&acme(), &task.model.identity(), None).unwrap();
    let (meter, recorder) = (Account::new(Limits::default()), Recorder::default());
    let running = task.run(&runtime, &meter, &recorder);
    let attacked = async {
        let (holder, other) = (
            site.worker(),
            site.bus(&site.users[1], Role::Worker("w2".to_owned())),
        );
        let delivery = take(&holder, &lane).await;
        let (claimed_at, proof) = claim(&holder, &delivery, "w1").await;
        let proof = proof.unwrap();
        let (_, second) = claim(&other, &delivery, "w2").await;
        assert_eq!(second, None, "another worker holds the task");
        // The other worker has even learnt the token of the attempt.
        let mut stolen = proof.clone();
        stolen.worker.worker = "w2".to_owned();
        let [of_holder, of_other] = ["w1", "w2"].map(|worker| Address {
            operation: Operation::Facts,
            worker: worker.to_owned(),
            ..claimed_at.clone()
        });
        let answer = other.request(&of_other, ending(stolen, "forged"), AT_MOST);
        let received: Received = wire::read(&answer.await.unwrap()).unwrap();
        assert_eq!(received, Received::Superseded);
        let named = other.request(&of_other, ending(proof.clone(), "forged"), NOTHING);
        assert!(named.await.is_err(), "the message names another worker");
        let answer = holder.request(&of_holder, ending(proof, "answer"), AT_MOST);
        let received: Received = wire::read(&answer.await.unwrap()).unwrap();
        assert_eq!(received, Received::Recorded { next: 1 });
    };
    let both = async { tokio::join!(running, attacked) };
    let (result, ()) = timeout(AT_MOST * 2, both).await.unwrap();
    let output = json!("answer");
    assert_eq!(result.end, InvocationEnd::Decided { output });
    stop.cancel();
    serving.await.unwrap();
    drop(site.folder);
}
