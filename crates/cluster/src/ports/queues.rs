//! The state of the queues, for operators.

use async_trait::async_trait;

use crate::ports::bus::BusError;

/// The queue of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub pool: String,
    pub lane: String,
    /// Messages that no worker has taken.
    pub waiting: u64,
    /// Messages that a worker has taken and not acknowledged.
    pub unacknowledged: u64,
    /// Requests of workers that wait for a message.
    pub pulls: u64,
}

#[async_trait]
pub trait Queues: Send + Sync {
    /// The queues of the host's pools, sorted by pool and lane.
    ///
    /// # Errors
    /// The bus gave no answer.
    async fn queues(&self) -> Result<Vec<Queue>, BusError>;
}
