//! The message bus on NATS: queues in JetStream, requests in core NATS.
//!
//! All queues of a pool are subjects of one stream, and a lane has one durable consumer. More
//! streams and consumers would be expensive where they are replicated. Hosts create them; workers
//! need no permission to.

mod announcements;
mod events;
pub mod examination;
pub mod keys;
mod lanes;
mod queues;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::{self, AckKind, Context};
use async_nats::{Client, ConnectOptions, Event};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::time::Instant;
use touchstone_host::background;
use tracing::warn;

use crate::cluster_metrics::{BusFault, BusMetrics};
use crate::config::ClusterSettings;
use crate::nats::events::EventLog;
use crate::ports::bus::{Bus, BusError, Delivery, Receipt, Request};
use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;
use crate::rules::subjects::{self, Address};
use crate::rules::wire;

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
/// How long the consumer of an optional lane is expected to exist. JetStream removes it when no
/// worker has pulled from it for a while.
const OPTIONAL_KNOWN: Duration = Duration::from_secs(60);
/// When a worker looks again for a queue that no host has created.
const LOOK: Duration = Duration::from_secs(1);

/// Who is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Host,
    /// A worker of this name.
    Worker(String),
}

impl Role {
    /// Shown in the server's list of connections.
    fn name(&self) -> String {
        match self {
            Self::Host => "touchstone".to_owned(),
            Self::Worker(name) => format!("touchstone worker {name}"),
        }
    }

    /// Where answers arrive. A server can keep others from it.
    fn inbox(&self) -> String {
        match self {
            Self::Host => subjects::HOSTS_INBOX.to_owned(),
            Self::Worker(name) => subjects::inbox(name),
        }
    }
}

/// NATS servers, connected on first use.
pub struct NatsBus {
    settings: ClusterSettings,
    role: Role,
    events: Arc<EventLog>,
    connected: OnceCell<Connected>,
    /// Number of connections made so far.
    connections: watch::Sender<u64>,
    metrics: BusMetrics,
}

struct Connected {
    client: Client,
    context: Context,
    /// The consumers of lanes, and when each was found or created.
    consumers: Mutex<HashMap<Lane, (PullConsumer, Instant)>>,
}

impl NatsBus {
    pub fn new(settings: ClusterSettings, role: Role) -> Self {
        Self {
            settings,
            events: Arc::new(EventLog::new(&role)),
            role,
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
        let (addresses, options) = options(&self.settings, &self.role).await?;
        let (connections, events) = (self.connections.clone(), self.events.clone());
        let metrics = self.metrics.clone();
        let options = options
            .retry_on_initial_connect()
            .ping_interval(PING)
            .event_callback(move |event| {
                if matches!(event, Event::Connected) {
                    connections.send_modify(|count| *count += 1);
                }
                count(&event, &metrics);
                events.log(&event);
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

    /// Forgets a consumer that does not answer: it may have been removed.
    fn forget(&self, lane: &Lane) {
        self.metrics.fault(BusFault::Queue);
        if let Some(connected) = self.connected.get() {
            connected.consumers().remove(lane);
        }
    }
}

impl Connected {
    fn consumers(&self) -> std::sync::MutexGuard<'_, HashMap<Lane, (PullConsumer, Instant)>> {
        self.consumers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The consumer of a lane, unless it may have been removed since it was looked for.
    fn known(&self, lane: &Lane) -> Option<PullConsumer> {
        let consumers = self.consumers();
        let (consumer, at) = consumers.get(lane)?;
        let is_there = !lane.is_optional() || at.elapsed() < OPTIONAL_KNOWN;
        is_there.then(|| consumer.clone())
    }
}

fn fault(cause: &dyn std::fmt::Display) -> BusError {
    BusError::Failed(cause.to_string())
}

/// The addresses of the servers, and how to connect to them.
async fn options(
    settings: &ClusterSettings,
    role: &Role,
) -> Result<(Vec<async_nats::ServerAddr>, ConnectOptions), BusError> {
    let servers = settings.servers();
    let servers = servers.map_err(|(field, problem)| fault(&format!("`{field}` {problem}")))?;
    let addresses: Result<Vec<async_nats::ServerAddr>, _> =
        servers.iter().map(|url| url.as_str().parse()).collect();
    let addresses = addresses.map_err(|cause| fault(&cause))?;
    let mut options = ConnectOptions::new()
        .name(role.name())
        .custom_inbox_prefix(role.inbox())
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
    if let Some(file) = &settings.nkey_file {
        options = options.nkey(keys::read(file).map_err(|cause| fault(&cause))?);
    }
    Ok((addresses, options))
}

/// Counts events of the connection.
fn count(event: &Event, metrics: &BusMetrics) {
    match event {
        Event::Connected => metrics.connected(),
        Event::Disconnected => metrics.fault(BusFault::Disconnected),
        Event::ServerError(_) => metrics.fault(BusFault::ServerError),
        Event::ClientError(_) => metrics.fault(BusFault::ClientError),
        Event::SlowConsumer(_) => metrics.fault(BusFault::SlowConsumer),
        _ => {}
    }
}

/// Takes the messages that are in a queue now, or waits for one, unless `longest` is zero.
async fn take(
    consumer: &PullConsumer,
    most: usize,
    longest: Duration,
) -> Result<Vec<Delivery>, BusError> {
    let there = consumer.fetch().max_messages(most).messages();
    let taken = receive_all(there, PULLED_WITHIN).await?;
    if !taken.is_empty() || longest.is_zero() {
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

    async fn release(self: Box<Self>, after: Duration) {
        if let Err(cause) = self.0.ack_with(AckKind::Nak(Some(after))).await {
            warn!(%cause, "a message could not be left to other workers; it is delivered again");
        }
    }
}

fn delivery(message: jetstream::Message) -> Delivery {
    let info = message.info();
    Delivery {
        deliveries: info.map_or(1, |it| u64::try_from(it.delivered).unwrap_or(1)),
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
        for _ in 0..2 {
            let Some(mut consumer) = self.consumer(lane).await? else {
                return Ok(0);
            };
            match consumer.info().await {
                Ok(info) => {
                    let delivered = u64::try_from(info.num_ack_pending).unwrap_or(0);
                    return Ok(info.num_pending.saturating_add(delivered));
                }
                // It was removed, because no worker has pulled from it for long. Its messages are in
                // the stream, and a new one finds them.
                Err(cause)
                    if lane.is_optional()
                        && matches!(cause.kind(), ConsumerInfoErrorKind::NotFound) =>
                {
                    self.connected().await?.consumers().remove(lane);
                }
                Err(cause) => {
                    self.forget(lane);
                    return Err(fault(&cause));
                }
            }
        }
        Ok(0)
    }

    async fn filled(&self, pool: &Pool) -> Result<BTreeSet<String>, BusError> {
        self.filled_lanes(pool).await
    }

    async fn pull(
        &self,
        lane: &Lane,
        most: usize,
        longest: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        if longest.is_zero() {
            // It may have been removed and created again since this worker has last pulled from it.
            self.connected().await?.consumers().remove(lane);
        }
        let Some(consumer) = self.consumer(lane).await? else {
            tokio::time::sleep(longest.min(LOOK)).await;
            return Ok(Vec::new());
        };
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
    // A task for each would cost a wake-up more.
    let mut replies = FuturesUnordered::new();
    // Answers are sent also while there is no place for a further request.
    let mut place = None;
    loop {
        let message = tokio::select! {
            () = sender.closed() => return,
            Some(()) = replies.next(), if !replies.is_empty() => continue,
            free = sender.reserve(), if place.is_none() => match free {
                Ok(free) => {
                    place = Some(free);
                    continue;
                }
                Err(_) => return,
            },
            message = subscriber.next(), if place.is_some() => message,
        };
        let Some(message) = message else { return };
        let address = Address::parse(&message.subject);
        let (Some(address), Some(inbox)) = (address, message.reply) else {
            continue;
        };
        if !subjects::is_in_inbox(&inbox, &address.worker) {
            warn!(
                worker = address.worker,
                "a request was ignored: its answer would go to a subject that is not the worker's"
            );
            continue;
        }
        let (request, answer) = Request::new(address, message.payload);
        if let Some(place) = place.take() {
            place.send(request);
        }
        let client = client.clone();
        replies.push(async move {
            if let Ok(answer) = answer.await
                && let Err(cause) = client.publish(inbox, answer).await
            {
                warn!(%cause, "an answer to a worker could not be sent");
            }
        });
    }
}
