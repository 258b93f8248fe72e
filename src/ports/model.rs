//! Model endpoints.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::agent::{ModelReply, ModelRequest, Rejection, RetryPolicy};
use crate::domain::money::TokenPrice;
use crate::protocol::openwop::suite::ModelClass;

/// Why a call gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The machinery failed; says nothing about the agent. Retried while attempts remain.
    #[error("the model endpoint is unavailable: {reason}")]
    Unavailable {
        /// A label from a closed list (`connect`, `timeout`, `status_503`, `rate_limited`, `malformed_reply`, …).
        reason: String,
        /// Whether another attempt may help.
        retryable: bool,
        /// What the endpoint asked for in `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The endpoint understood and refused this request (context overflow, content filter): the agent's own failure.
    #[error("the model endpoint refused the request: {reason}")]
    Rejected {
        /// Which refusal.
        reason: Rejection,
    },
}

/// A model endpoint. One call is one attempt; retries are the runtime's, so that they are seen.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks once. Dropping the future cancels the request.
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError>;
    /// What is known of the endpoint.
    fn info(&self) -> &ModelInfo;
}

/// Facts about a model endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// Provider name, for `provider.usage`.
    pub provider: String,
    /// Model name, for `provider.usage`.
    pub model: String,
    /// Price of a token.
    pub price: TokenPrice,
    /// Calls in flight at most.
    pub max_concurrency: u32,
    /// Longest time one attempt may take.
    pub timeout: Duration,
    /// How failed attempts are repeated.
    pub retry: RetryPolicy,
}

/// A model endpoint as the runtime uses it: the adapter with the permits all its callers share.
#[derive(Clone)]
pub struct ModelBinding {
    /// The adapter.
    pub model: Arc<dyn Model>,
    /// Calls in flight at most, over all runs and tenants of this replica.
    pub permits: Arc<tokio::sync::Semaphore>,
}

/// The configured endpoints.
pub trait Models: Send + Sync {
    /// The endpoint for a class: an entry of its own, or the one for `*`.
    fn resolve(&self, class: ModelClass) -> Option<ModelBinding>;
}
