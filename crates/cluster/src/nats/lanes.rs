//! The stream of a pool and the consumers of its lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{self, ConsumerErrorKind, RetentionPolicy, StorageType};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::nats::{Connected, NatsBus, Role, fault};
use crate::ports::bus::BusError;
use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;
use crate::rules::subjects;

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
/// A consumer from which no worker pulls is removed after this.
const CONSUMER_KEPT: Duration = Duration::from_secs(24 * 3600);
/// The same for an optional lane, from which workers pull only while it has messages.
const OPTIONAL_CONSUMER_KEPT: Duration = Duration::from_secs(15 * 60);

impl NatsBus {
    /// The consumer of a lane. A host creates it, with its stream; a worker has none until then.
    pub(super) async fn consumer(&self, lane: &Lane) -> Result<Option<PullConsumer>, BusError> {
        let connected = self.connected().await?;
        if let Some(consumer) = connected.known(lane) {
            return Ok(Some(consumer));
        }
        let consumer = match &self.role {
            Role::Host => Some(self.create(connected, lane).await?),
            Role::Worker(_) => find(connected, lane).await?,
        };
        if let Some(consumer) = &consumer {
            let mut consumers = connected.consumers();
            consumers.insert(lane.clone(), (consumer.clone(), Instant::now()));
        }
        Ok(consumer)
    }

    async fn create(&self, connected: &Connected, lane: &Lane) -> Result<PullConsumer, BusError> {
        let stream = connected.context.get_or_create_stream(stream::Config {
            name: lane.pool().stream(),
            subjects: vec![subjects::queues(lane.pool())],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            num_replicas: self.settings.replicas,
            max_message_size: MAX_QUEUED_BYTES,
            max_age: KEPT,
            ..stream::Config::default()
        });
        let stream = stream.await.map_err(|cause| fault(&cause))?;
        // One that exists may be of a version with another configuration, which cannot be changed.
        if let Ok(existing) = stream.get_consumer::<pull::Config>(lane.name()).await {
            return Ok(existing);
        }
        let created = stream.create_consumer(pull::Config {
            durable_name: Some(lane.name().to_owned()),
            filter_subject: subjects::queue(lane),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACKNOWLEDGED_WITHIN,
            max_deliver: -1,
            max_ack_pending: MAX_UNACKNOWLEDGED,
            max_waiting: MAX_WAITING,
            inactive_threshold: match lane.is_optional() {
                true => OPTIONAL_CONSUMER_KEPT,
                false => CONSUMER_KEPT,
            },
            ..pull::Config::default()
        });
        created.await.map_err(|cause| fault(&cause))
    }
}

/// The part of a stream's state that says which subjects have messages.
#[derive(Deserialize)]
struct StreamInfo {
    state: StreamState,
}

#[derive(Deserialize)]
struct StreamState {
    #[serde(default)]
    subjects: BTreeMap<String, u64>,
}

impl NatsBus {
    /// The lanes of a pool with messages. The leader of the pool's stream knows them, and JetStream does
    /// not ask each consumer. The answer has one page of subjects, which is 100,000.
    pub(super) async fn filled_lanes(&self, pool: &Pool) -> Result<BTreeSet<String>, BusError> {
        let context = &self.connected().await?.context;
        let call = format!("STREAM.INFO.{}", pool.stream());
        let filter = json!({"subjects_filter": subjects::queues(pool)});
        let answer = context.request(call, &filter).await;
        let answer: Response<StreamInfo> = answer.map_err(|cause| fault(&cause))?;
        match answer {
            Response::Ok(info) => {
                let queued = info.state.subjects.keys();
                let lanes = queued.filter_map(|it| subjects::lane_of(it));
                Ok(lanes.map(str::to_owned).collect())
            }
            // No host has created it.
            Response::Err { error } if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                Ok(BTreeSet::new())
            }
            Response::Err { error } => Err(fault(&error)),
        }
    }
}

async fn find(connected: &Connected, lane: &Lane) -> Result<Option<PullConsumer>, BusError> {
    let (name, stream) = (lane.name(), lane.pool().stream());
    let found = connected.context.get_consumer_from_stream(name, stream);
    match found.await {
        Ok(consumer) => Ok(Some(consumer)),
        Err(cause) => match cause.kind() {
            ConsumerErrorKind::JetStream(cause)
                if [ErrorCode::CONSUMER_NOT_FOUND, ErrorCode::STREAM_NOT_FOUND]
                    .contains(&cause.error_code()) =>
            {
                Ok(None)
            }
            _ => Err(fault(&cause)),
        },
    }
}
