//! The message bus between hosts and workers.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::rules::access::pools::Pool;
use crate::rules::lane::Lane;
use crate::rules::subjects::Address;

/// Why a message was not delivered or not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// No process serves the address.
    #[error("no process answers at this address")]
    NoResponder,
    /// No answer came in time. The message may have been received.
    #[error("the message bus gave no answer in time")]
    NoAnswer,
    /// The bus refused the message, or is not connected.
    #[error("the message bus failed: {0}")]
    Failed(String),
}

/// A request and the place of its answer. Dropping the sender leaves the request unanswered.
pub struct Request {
    pub address: Address,
    pub message: Bytes,
    pub reply: oneshot::Sender<Bytes>,
}

impl Request {
    /// A request, and where its answer arrives.
    pub fn new(address: Address, message: Bytes) -> (Self, oneshot::Receiver<Bytes>) {
        let (reply, answer) = oneshot::channel();
        let request = Self {
            address,
            message,
            reply,
        };
        (request, answer)
    }
}

/// A message of a queue. Unless it is acknowledged in time, it is delivered again.
pub struct Delivery {
    pub message: Bytes,
    /// How often the message was delivered, this time included.
    pub deliveries: u64,
    pub receipt: Box<dyn Receipt>,
}

#[async_trait]
pub trait Receipt: Send {
    /// Removes the message from the queue. A lost acknowledgement has no other effect than another
    /// delivery.
    async fn acknowledge(self: Box<Self>);

    /// Leaves the message to others: the queue delivers it again after this time.
    async fn release(self: Box<Self>, after: Duration);
}

/// Delivers messages at least once, at most once, or never; correctness must not depend on it.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Adds a message of a replica to the queue of a lane.
    ///
    /// # Errors
    /// The message may be missing in the queue.
    async fn publish(&self, lane: &Lane, replica: &str, message: Bytes) -> Result<(), BusError>;

    /// Number of messages in the queue of a lane.
    ///
    /// # Errors
    /// The bus gave no answer.
    async fn waiting(&self, lane: &Lane) -> Result<u64, BusError>;

    /// The names of the lanes of a pool that have messages, those included that are delivered and
    /// not acknowledged. Does not count as use of a lane, which the bus may remove if it is unused.
    ///
    /// # Errors
    /// The bus gave no answer.
    async fn filled(&self, pool: &Pool) -> Result<BTreeSet<String>, BusError>;

    /// Takes up to `most` messages that are in the queue of a lane now. If there are none, waits
    /// for one, at most `longest`.
    ///
    /// # Errors
    /// The bus gave no answer.
    async fn pull(
        &self,
        lane: &Lane,
        most: usize,
        longest: Duration,
    ) -> Result<Vec<Delivery>, BusError>;

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// There is no answer; the request may have been received nevertheless.
    async fn request(
        &self,
        address: &Address,
        message: Bytes,
        longest: Duration,
    ) -> Result<Bytes, BusError>;

    /// Receives the requests to this replica until the receiver is dropped.
    ///
    /// # Errors
    /// The bus refused the subscription.
    async fn serve(&self, replica: &str) -> Result<mpsc::Receiver<Request>, BusError>;
}
