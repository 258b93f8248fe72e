//! Signals between replicas that do not pass through the database.

use async_trait::async_trait;

/// Carries signals to the other replicas. A signal that is lost costs one poll of the database.
#[async_trait]
pub trait Fanout: Send + Sync {
    /// Sends signals of this replica.
    ///
    /// # Errors
    /// The other replicas do not get them, so the caller sends them another way.
    async fn send(&self, signals: &[String]) -> Result<(), Undelivered>;
}

#[derive(Debug, thiserror::Error)]
#[error("the signals were not sent: {0}")]
pub struct Undelivered(pub String);
