//! Model endpoints.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::assert_command::AssertCommand;
use crate::rules::prices::ModelPrice;
use crate::rules::reached_by::ReachedBy;
use crate::rules::worker_labels::WorkerLabels;
use crate::rules::{
    EndpointPin, ModelIdentity, ModelPin, ModelReply, ModelRequest, Rejection, RetryPolicy,
};
use touchstone_kit::ids::TenantId;
use touchstone_openwop::suite::ModelClass;

/// The reason if the endpoint is overloaded (429).
pub const RATE_LIMITED: &str = "rate_limited";
/// The reason if the call timed out.
pub const TIMEOUT: &str = "timeout";

/// Reasons that are not retried although no endpoint has responded.
const NO_ANSWER: &[&str] = &["blocked_address", "not_http", "tls"];

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Infrastructure failed; says nothing about the agent. Retried while attempts remain.
    #[error("the model endpoint is unavailable: {reason}")]
    Unavailable {
        /// A label from a closed list (`connect`, `timeout`, `status_503`, `rate_limited`,
        /// `malformed_reply`, …).
        reason: String,
        /// Whether another attempt may succeed.
        retryable: bool,
        /// The endpoint's `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The endpoint understood and refused this request (context overflow, content filter): the
    /// agent's own failure.
    #[error("the model endpoint refused the request: {reason}")]
    Rejected { reason: Rejection },
}

impl ModelError {
    /// The infrastructure failed without a `Retry-After`.
    pub fn unavailable(reason: impl Into<String>, retryable: bool) -> Self {
        Self::Unavailable {
            reason: reason.into(),
            retryable,
            retry_after: None,
        }
    }

    /// Whether another attempt may succeed.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable {
                retryable: true,
                ..
            }
        )
    }
}

/// A model endpoint. One call is one attempt; retries are up to the runtime, so that they are
/// recorded.
#[async_trait]
pub trait Model: Send + Sync {
    /// Sends one request. Dropping the future cancels it.
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError>;
    fn info(&self) -> &ModelInfo;
    /// The answer to an equal earlier request, without a call.
    async fn recall(&self, _request: &ModelRequest<'_>) -> Option<ModelReply> {
        None
    }
    /// Reports that the reply to a request is unusable, so that [`Self::recall`] does not return
    /// it.
    async fn forget(&self, _request: &ModelRequest<'_>, _reply: &ModelReply) {}
    /// Asks for the identity and the configuration of the agent behind the endpoint: `{"identity":
    /// {"name", "version"}, "configuration"}`. `None` if it does not report them.
    async fn adapter(&self) -> Option<Value> {
        None
    }
}

/// Facts about a model endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// Provider name, for `provider.usage`.
    pub provider: String,
    /// Model name, for `provider.usage`.
    pub model: String,
    /// `None` if it is unknown.
    pub price: Option<ModelPrice>,
    /// Maximum number of concurrent calls.
    pub max_concurrency: u32,
    /// Time limit of one attempt.
    pub timeout: Duration,
    pub retry: RetryPolicy,
}

/// A model endpoint as the runtime uses it: the adapter with the permits that all its callers
/// share.
#[derive(Clone)]
pub struct ModelBinding {
    pub model: Arc<dyn Model>,
    /// Limits concurrent calls, over all runs and tenants of this replica.
    pub permits: Arc<dyn Permits>,
    /// Its address and settings; `None` for a model without its own endpoint.
    pub endpoint: Option<EndpointPin>,
    /// The labels that runs of this model require of their workers.
    pub worker_labels: WorkerLabels,
}

/// The concurrency limit and circuit breaker of an endpoint.
#[async_trait]
pub trait Permits: Send + Sync {
    /// Waits until another call may be made. Dropping the future gives up the place in the queue.
    ///
    /// # Errors
    /// The circuit is open: the endpoint is down and is not called for some time.
    async fn acquire(&self) -> Result<Box<dyn Permit>, ModelError>;

    /// A permit that may be given back without a call; `None` if none is free now. Endpoints with a limit
    /// of calls per minute have none, because a permit that is given back counts against that limit.
    fn acquire_now(&self) -> Option<Box<dyn Permit>>;
}

/// The right to make one call. Dropping it gives it back.
pub trait Permit: Send {
    /// Gives it back, and reports the result of the call.
    fn report(self: Box<Self>, health: EndpointHealth);
}

/// The state of the endpoint, as seen by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointHealth {
    Answered,
    /// It is up, and asks for fewer calls.
    Throttled,
    /// It did not respond, or not as an endpoint does.
    Failed,
}

impl EndpointHealth {
    /// The state that a result shows.
    pub fn of<T>(answer: &Result<T, ModelError>) -> Self {
        match answer {
            Err(ModelError::Unavailable { reason, .. }) if reason == RATE_LIMITED => {
                Self::Throttled
            }
            Err(ModelError::Unavailable {
                retryable: true, ..
            }) => Self::Failed,
            Err(ModelError::Unavailable { reason, .. }) if NO_ANSWER.contains(&reason.as_str()) => {
                Self::Failed
            }
            _ => Self::Answered,
        }
    }
}

impl ModelBinding {
    /// The model's name in a run's record.
    pub fn pin(&self) -> ModelPin {
        let info = self.model.info();
        ModelPin {
            provider: info.provider.clone(),
            model: info.model.clone(),
        }
    }

    /// The model's names and its endpoint, as a run pins them.
    pub fn identity(&self) -> ModelIdentity {
        ModelIdentity {
            model: self.pin(),
            endpoint: self.endpoint.clone(),
        }
    }
}

/// A cassette that replaces the models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaySource {
    pub digest: String,
    /// Fingerprint of the key that signed it, if the signature was verified.
    pub signed_by: Option<String>,
}

/// The configured endpoints.
pub trait Models: Send + Sync {
    /// The endpoint for a class: its own entry, or the one for `*`.
    fn resolve(&self, class: ModelClass) -> Option<ModelBinding>;
    /// The endpoint that judges rubrics and assertions, if one is configured.
    fn judge(&self) -> Option<ModelBinding> {
        None
    }
    /// The endpoint that plays simulated users, if one is configured.
    fn simulated_user(&self) -> Option<ModelBinding> {
        None
    }
    /// The judges beside [`judge`](Self::judge) whose decisions count equally.
    fn further_judges(&self) -> Vec<ModelBinding> {
        Vec::new()
    }
    /// The endpoint of the embedding model, if one is configured.
    fn embeddings(&self) -> Option<ModelBinding> {
        None
    }
    /// The program that decides assertions, if the operator allows one.
    fn assertion_program(&self) -> Option<Arc<AssertCommand>> {
        None
    }
    /// The cassette in use, if any.
    fn replayed_from(&self) -> Option<ReplaySource> {
        None
    }
    /// Whether answers may come from the cache of model answers.
    fn has_answer_cache(&self) -> bool {
        false
    }
    /// Binds a remote agent, within what this tenant may reach.
    ///
    /// # Errors
    /// The operator does not allow it.
    fn reach(
        &self,
        _tenant: &TenantId,
        _way: &ReachedBy,
    ) -> Result<ModelBinding, UnusableTransport> {
        Err(UnusableTransport {
            field: "transport",
            reason: "cannot be used: this host does not connect to remote agents",
        })
    }
}

/// Why a remote agent cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`reached_by.{field}` {reason}")]
pub struct UnusableTransport {
    /// The member of `reached_by`.
    pub field: &'static str,
    /// The problem and its remedy.
    pub reason: &'static str,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("timeout", true, EndpointHealth::Failed)]
    #[case("status_503", true, EndpointHealth::Failed)]
    #[case(RATE_LIMITED, true, EndpointHealth::Throttled)]
    #[case::it_answered("unauthorized", false, EndpointHealth::Answered)]
    #[case::it_answered_too_much("too_large", false, EndpointHealth::Answered)]
    #[case("tls", false, EndpointHealth::Failed)]
    #[case("not_http", false, EndpointHealth::Failed)]
    #[case("blocked_address", false, EndpointHealth::Failed)]
    fn errors_are_classified_as_answered_throttled_or_failed(
        #[case] reason: &str,
        #[case] retryable: bool,
        #[case] health: EndpointHealth,
    ) {
        let answer: Result<(), _> = Err(ModelError::Unavailable {
            reason: reason.to_owned(),
            retryable,
            retry_after: None,
        });
        assert_eq!(EndpointHealth::of(&answer), health);
        assert_eq!(EndpointHealth::of(&Ok(())), EndpointHealth::Answered);
    }
}
