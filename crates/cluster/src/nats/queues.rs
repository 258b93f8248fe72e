//! The state of the queues in JetStream.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_trait::async_trait;
use futures_util::StreamExt as _;

use crate::nats::{ANSWERED_WITHIN, NatsBus, fault};
use crate::ports::bus::BusError;
use crate::ports::queues::{Queue, Queues};
use crate::rules::access::pools::Pool;

impl NatsBus {
    async fn read_queues(&self) -> Result<Vec<Queue>, BusError> {
        let mut queues = Vec::new();
        for pool in self.settings.pools.all() {
            queues.extend(self.queues_of(&pool).await?);
        }
        Ok(queues)
    }

    async fn queues_of(&self, pool: &Pool) -> Result<Vec<Queue>, BusError> {
        let context = &self.connected().await?.context;
        let found = context.get_stream(pool.stream()).await;
        let stream = match found {
            Ok(stream) => stream,
            Err(cause) => match cause.kind() {
                // The first host that uses a queue creates the stream.
                GetStreamErrorKind::JetStream(cause)
                    if cause.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                {
                    return Ok(Vec::new());
                }
                _ => return Err(fault(&cause)),
            },
        };
        let mut queues = Vec::new();
        let mut consumers = stream.consumers();
        while let Some(consumer) = consumers.next().await {
            let consumer = consumer.map_err(|cause| fault(&cause))?;
            queues.push(Queue {
                pool: pool.to_string(),
                lane: consumer.name,
                waiting: consumer.num_pending,
                unacknowledged: u64::try_from(consumer.num_ack_pending).unwrap_or(0),
                pulls: u64::try_from(consumer.num_waiting).unwrap_or(0),
            });
        }
        queues.sort_by(|one, other| one.lane.cmp(&other.lane));
        Ok(queues)
    }
}

#[async_trait]
impl Queues for NatsBus {
    async fn queues(&self) -> Result<Vec<Queue>, BusError> {
        let read = tokio::time::timeout(ANSWERED_WITHIN, self.read_queues()).await;
        read.unwrap_or(Err(BusError::NoAnswer))
    }
}
