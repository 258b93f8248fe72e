//! Messages from one process to all replicas, and from a replica to a worker.

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::ports::bus::BusError;
use crate::rules::announcements::Topic;

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announced {
    Message {
        sender: String,
        message: Bytes,
    },
    /// The connection was made again. Messages may have been missed.
    Reconnected,
}

/// Delivers messages at most once.
#[async_trait]
pub trait Announcements: Send + Sync {
    /// Sends a message to all listeners, those of this process included.
    ///
    /// # Errors
    /// The message was not sent.
    async fn announce(&self, topic: Topic, sender: &str, message: Bytes) -> Result<(), BusError>;

    /// Receives messages until the receiver is dropped.
    ///
    /// # Errors
    /// The bus refused the subscription.
    async fn listen(&self, topic: Topic) -> Result<mpsc::Receiver<Announced>, BusError>;

    /// Sends a message to a worker, which does not answer.
    ///
    /// # Errors
    /// [`BusError::NoResponder`] if no worker of this name receives orders. With another error, it
    /// may have received the message.
    async fn order(&self, worker: &str, message: Bytes) -> Result<(), BusError>;

    /// Receives the messages to a worker until the receiver is dropped.
    ///
    /// # Errors
    /// The bus refused the subscription.
    async fn orders(&self, worker: &str) -> Result<mpsc::Receiver<Bytes>, BusError>;
}
