//! The message bus on NATS: queues in JetStream, requests in core NATS.
//!
//! All queues are subjects of one stream, and a lane has one durable consumer. More streams and
//! consumers would be expensive where they are replicated.

mod announcements;
pub mod examination;
mod queues;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{self, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::task::JoinSet;
use touchstone_host::background;
use tracing::{info, warn};

use crate::cluster_metrics::{BusFault, BusMetrics};
use crate::config::ClusterSettings;
use crate::ports::bus::{Bus, BusError, Delivery, Receipt, Request};
use crate::rules::lane::Lane;
use crate::rules::subjects::{self, Address};
use crate::rules::wire;

/// The stream of all queues.
const STREAM: &str = "TS1_T";
/// Largest message of a queue in bytes.
const MAX_QUEUED_BYTES: i32 = 64 * 1024;
/// How long a message waits in a queue. Owners publish tasks again that still wait then.
const KEPT: Duration = Duration::from_secs(3600);
/// Time from delivery to acknowledgement: a claim, which takes up to 6 s, not the work on a task. A
/// message that was delivered to a stopped worker waits for this time.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(8);
/// Most deliveries of a lane without acknowledgement.
const MAX_UNACKNOWLEDGED: i64 = 20_000;
/// Most requests of workers that wait for a message of one lane. NATS allows 512 by default, and
/// refuses those of further idle workers.
const MAX_WAITING: i64 = 16_384;
/// An unused consumer is removed after this.
const CONSUMER_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long an answer of JetStream is awaited.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// Time between two questions whether the server still answers. A connection is given up after
/// three without an answer; without this, a server that hangs stops its clients for minutes.
const PING: Duration = Duration::from_secs(1);
/// How long the messages that are in a queue now are awaited, and the end of a request for later
/// ones: a request is lost with its server.
const PULLED_WITHIN: Duration = Duration::from_millis(1_500);
/// Requests to one replica that may wait.
const MAX_REQUESTS: usize = 1_024;

/// NATS servers, connected on first use.
pub struct NatsBus {
    settings: ClusterSettings,
    name: String,
    connected: OnceCell<Connected>,
    /// Number of connections made so far.
    connections: watch::Sender<u64>,
    metrics: BusMetrics,
}

struct Connected {
    client: Client,
    context: Context,
    consumers: Mutex<HashMap<Lane, PullConsumer>>,
}

impl NatsBus {
    /// The servers of these settings. `name` is shown in the list of their connections.
    pub fn new(settings: ClusterSettings, name: String) -> Self {
        Self {
            settings,
            name,
            connected: OnceCell::new(),
            connections: watch::Sender::new(0),
            metrics: BusMetrics::default(),
        }
    }

    /// Whether the connection works, as far as this process knows.
    pub fn is_connected(&self) -> bool {
        let connected = self.connected.get();
        connected.is_some_and(|it| it.client.connection_state() == State::Connected)
    }

    async fn connected(&self) -> Result<&Connected, BusError> {
        self.connected.get_or_try_init(|| self.connect()).await
    }

    async fn connect(&self) -> Result<Connected, BusError> {
        let (addresses, options) = options(&self.settings, &self.name).await?;
        let connections = self.connections.clone();
        let metrics = self.metrics.clone();
        let options = options
            .retry_on_initial_connect()
            .ping_interval(PING)
            .event_callback(move |event| {
                if matches!(event, Event::Connected) {
                    connections.send_modify(|count| *count += 1);
                }
                report(&event, &metrics);
                std::future::ready(())
            });
        let client = options.connect(addresses).await;
        let client = client.map_err(|cause| fault(&cause))?;
        let context = jetstream::context::ContextBuilder::new()
            .timeout(ANSWERED_WITHIN)
            .ack_timeout(ANSWERED_WITHIN)
            .build(client.clone());
        Ok(Connected {
            client,
            context,
            consumers: Mutex::default(),
        })
    }

    /// The consumer of a lane, created with its stream if it does not exist.
    async fn consumer(&self, lane: &Lane) -> Result<PullConsumer, BusError> {
        let connected = self.connected().await?;
        let known = connected.known(lane);
        if let Some(consumer) = known {
            return Ok(consumer);
        }
        let stream = connected.context.get_or_create_stream(stream::Config {
            name: STREAM.to_owned(),
            subjects: vec![subjects::queues()],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            num_replicas: self.settings.replicas,
            max_message_size: MAX_QUEUED_BYTES,
            max_age: KEPT,
            ..stream::Config::default()
        });
        let stream = stream.await.map_err(|cause| fault(&cause))?;
        let name = lane.to_string();
        // One that exists may be of a version with another configuration, which cannot be changed.
        let existing = stream.get_consumer::<pull::Config>(&name).await;
        let created = stream.create_consumer(pull::Config {
            durable_name: Some(name),
            filter_subject: subjects::queue(lane),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACKNOWLEDGED_WITHIN,
            max_deliver: -1,
            max_ack_pending: MAX_UNACKNOWLEDGED,
            max_waiting: MAX_WAITING,
            inactive_threshold: CONSUMER_KEPT,
            ..pull::Config::default()
        });
        let consumer = match existing {
            Ok(consumer) => consumer,
            Err(_) => created.await.map_err(|cause| fault(&cause))?,
        };
        let mut consumers = connected.consumers();
        consumers.insert(lane.clone(), consumer.clone());
        Ok(consumer)
    }

    /// Forgets a consumer that does not answer: it may have been removed.
    fn forget(&self, lane: &Lane) {
        self.metrics.fault(BusFault::Queue);
        if let Some(connected) = self.connected.get() {
            connected.consumers().remove(lane);
        }
    }
}

impl Connected {
    fn consumers(&self) -> std::sync::MutexGuard<'_, HashMap<Lane, PullConsumer>> {
        self.consumers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, lane: &Lane) -> Option<PullConsumer> {
        self.consumers().get(lane).cloned()
    }
}

/// The addresses of the servers, and how to connect to them.
async fn options(
    settings: &ClusterSettings,
    name: &str,
) -> Result<(Vec<async_nats::ServerAddr>, ConnectOptions), BusError> {
    let servers = settings.servers();
    let servers = servers.map_err(|(field, problem)| fault(&format!("`{field}` {problem}")))?;
    let addresses: Result<Vec<async_nats::ServerAddr>, _> =
        servers.iter().map(|url| url.as_str().parse()).collect();
    let addresses = addresses.map_err(|cause| fault(&cause))?;
    let mut options = ConnectOptions::new()
        .name(name)
        // The list of other servers comes from the server, and may name some without TLS.
        .ignore_discovered_servers()
        .require_tls(servers.iter().all(|url| url.scheme() == "tls"));
    if let Some(file) = &settings.ca_file {
        options = options.add_root_certificates(file.clone());
    }
    if let Some(file) = &settings.credentials_file {
        let credentials = options.credentials_file(file).await;
        options = credentials
            .map_err(|cause| fault(&format!("`credentials_file` could not be read: {cause}")))?;
    }
    Ok((addresses, options))
}

fn fault(cause: &dyn std::fmt::Display) -> BusError {
    BusError::Failed(cause.to_string())
}

/// Events of the connection. A refused permission shows only here.
fn report(event: &Event, metrics: &BusMetrics) {
    match event {
        Event::Connected => metrics.connected(),
        Event::Disconnected => metrics.fault(BusFault::Disconnected),
        Event::ServerError(_) => metrics.fault(BusFault::ServerError),
        Event::ClientError(_) => metrics.fault(BusFault::ClientError),
        Event::SlowConsumer(_) => metrics.fault(BusFault::SlowConsumer),
        _ => {}
    }
    match event {
        Event::Connected => info!("connected to NATS"),
        Event::Disconnected => warn!("disconnected from NATS; connecting again"),
        Event::ServerError(cause) => warn!(%cause, "the NATS server reports an error"),
        Event::ClientError(cause) => warn!(%cause, "the connection to NATS has an error"),
        Event::SlowConsumer(_) => {
            warn!("messages of NATS were dropped, because this process does not read them in time");
        }
        _ => {}
    }
}

/// Takes the messages that are in a queue now, or waits for one.
async fn take(
    consumer: &PullConsumer,
    most: usize,
    longest: Duration,
) -> Result<Vec<Delivery>, BusError> {
    let there = consumer.fetch().max_messages(most).messages();
    let taken = receive_all(there, PULLED_WITHIN).await?;
    if !taken.is_empty() {
        return Ok(taken);
    }
    let next = consumer.batch().max_messages(1).expires(longest);
    receive_all(next.messages(), longest.saturating_add(PULLED_WITHIN)).await
}

/// Receives the messages of a request until it ends. If it does not end in time, what has arrived
/// until then counts.
async fn receive_all(
    requested: impl Future<Output = Result<pull::Batch, pull::BatchError>>,
    longest: Duration,
) -> Result<Vec<Delivery>, BusError> {
    let mut taken = Vec::new();
    let received = async {
        let mut messages = requested.await.map_err(|cause| fault(&cause))?;
        while let Some(message) = messages.next().await {
            taken.push(delivery(message.map_err(|cause| fault(&cause))?));
        }
        Ok(())
    };
    let received = tokio::time::timeout(longest, received).await;
    match received.unwrap_or(Err(BusError::NoAnswer)) {
        Err(cause) if taken.is_empty() => Err(cause),
        _ => Ok(taken),
    }
}

struct NatsReceipt(jetstream::Message);

#[async_trait]
impl Receipt for NatsReceipt {
    async fn acknowledge(self: Box<Self>) {
        if let Err(cause) = self.0.ack().await {
            warn!(%cause, "a message could not be acknowledged; it is delivered again");
        }
    }
}

fn delivery(message: jetstream::Message) -> Delivery {
    Delivery {
        message: message.payload.clone(),
        receipt: Box::new(NatsReceipt(message)),
    }
}

#[async_trait]
impl Bus for NatsBus {
    async fn publish(&self, lane: &Lane, replica: &str, message: Bytes) -> Result<(), BusError> {
        // The stream must exist; a message without a consumer waits.
        self.consumer(lane).await?;
        let context = &self.connected().await?.context;
        let subject = subjects::queued(lane, replica);
        let published = context.publish(subject, message).await;
        let stored = match published {
            Ok(stored) => stored.await,
            Err(cause) => Err(cause),
        };
        stored.map(drop).map_err(|cause| {
            self.forget(lane);
            fault(&cause)
        })
    }

    async fn waiting(&self, lane: &Lane) -> Result<u64, BusError> {
        let mut consumer = self.consumer(lane).await?;
        match consumer.info().await {
            Ok(info) => {
                let delivered = u64::try_from(info.num_ack_pending).unwrap_or(0);
                Ok(info.num_pending.saturating_add(delivered))
            }
            Err(cause) => {
                self.forget(lane);
                Err(fault(&cause))
            }
        }
    }

    async fn pull(
        &self,
        lane: &Lane,
        most: usize,
        longest: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let consumer = self.consumer(lane).await?;
        let taken = take(&consumer, most, longest).await;
        taken.inspect_err(|_| self.forget(lane))
    }

    async fn request(
        &self,
        address: &Address,
        message: Bytes,
        longest: Duration,
    ) -> Result<Bytes, BusError> {
        let client = &self.connected().await?.client;
        let request = async_nats::Request::new()
            .payload(message)
            .timeout(Some(longest));
        let answered = client.send_request(address.to_string(), request).await;
        match answered {
            Ok(answer) => Ok(answer.payload),
            Err(cause) => Err(match cause.kind() {
                RequestErrorKind::NoResponders => BusError::NoResponder,
                RequestErrorKind::TimedOut => BusError::NoAnswer,
                _ => fault(&cause),
            }),
        }
    }

    async fn serve(&self, replica: &str) -> Result<mpsc::Receiver<Request>, BusError> {
        let client = self.connected().await?.client.clone();
        let subscribed = client.subscribe(Address::pattern(replica)).await;
        let subscriber = subscribed.map_err(|cause| fault(&cause))?;
        let (sender, requests) = mpsc::channel(MAX_REQUESTS);
        // Ends when the receiver is dropped.
        drop(background::spawn(
            "cluster requests",
            receive(client, subscriber, sender),
        ));
        Ok(requests)
    }
}

async fn receive(
    client: Client,
    mut subscriber: async_nats::Subscriber,
    sender: mpsc::Sender<Request>,
) {
    if client.connection_state() == State::Connected {
        let most = client.max_payload();
        if most < wire::MAX_BYTES {
            warn!(
                max_payload = most,
                needed = wire::MAX_BYTES,
                "the NATS server refuses large messages; raise its max_payload"
            );
        }
    }
    let mut replies = JoinSet::new();
    loop {
        let message = tokio::select! {
            () = sender.closed() => return,
            Some(_) = replies.join_next(), if !replies.is_empty() => continue,
            message = subscriber.next() => message,
        };
        let Some(message) = message else { return };
        let address = Address::parse(&message.subject);
        let (Some(address), Some(inbox)) = (address, message.reply) else {
            continue;
        };
        let (request, answer) = Request::new(address, message.payload);
        if sender.send(request).await.is_err() {
            return;
        }
        let client = client.clone();
        replies.spawn(async move {
            if let Ok(answer) = answer.await
                && let Err(cause) = client.publish(inbox, answer).await
            {
                warn!(%cause, "an answer to a worker could not be sent");
            }
        });
    }
}
