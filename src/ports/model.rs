//! Model endpoints.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::domain::agent::{ModelReply, ModelRequest, Rejection, RetryPolicy};
use crate::domain::ids::TenantId;
use crate::domain::money::TokenPrice;
use crate::domain::run::reached_by::ReachedBy;
use crate::domain::run::record::{EndpointPin, EvalSpec, ModelIdentity, ModelPin};
use crate::protocol::openwop::suite::ModelClass;

/// The reason of a call that the endpoint had no room for (429).
pub const RATE_LIMITED: &str = "rate_limited";
/// The reason of a call that was not answered in time.
pub const TIMEOUT: &str = "timeout";

/// Reasons that are not worth another attempt although no endpoint has answered.
const NO_ANSWER: &[&str] = &["blocked_address", "not_http", "tls"];

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

impl ModelError {
    /// Whether another attempt may help.
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

/// A model endpoint. One call is one attempt; retries are the runtime's, so that they are seen.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks once. Dropping the future cancels the request.
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError>;
    /// What is known of the endpoint.
    fn info(&self) -> &ModelInfo;
    /// Asks for the identity and the configuration of the agent behind it: `{"identity": {"name", "version"},
    /// "configuration"}`. `None` where it cannot say.
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
    pub permits: Arc<dyn Permits>,
    /// Where it is and how it is set up; `None` for a model without an endpoint of its own.
    pub endpoint: Option<EndpointPin>,
}

/// Who may call an endpoint, and when.
#[async_trait]
pub trait Permits: Send + Sync {
    /// Waits until one more call may be made. Dropping the future gives up the place in the queue.
    ///
    /// # Errors
    /// The endpoint is down, and is not called for some time.
    async fn acquire(&self) -> Result<Box<dyn Permit>, ModelError>;
}

/// The right to one call. Dropping it gives it back.
pub trait Permit: Send {
    /// Gives it back, with what the call told of the endpoint.
    fn hear(self: Box<Self>, heard: Heard);
}

/// What a call told of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is up.
    Answered,
    /// It is up, and wants fewer calls.
    Throttled,
    /// It did not answer, or not as an endpoint does.
    Failed,
}

impl Heard {
    /// What an answer tells.
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

/// A cassette that answers in place of the models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaySource {
    /// Its digest.
    pub digest: String,
    /// Fingerprint of the key that signed it, if the signature was verified.
    pub signed_by: Option<String>,
}

/// The configured endpoints.
pub trait Models: Send + Sync {
    /// The endpoint for a class: an entry of its own, or the one for `*`.
    fn resolve(&self, class: ModelClass) -> Option<ModelBinding>;
    /// The endpoint that judges rubrics, if one is configured.
    fn judge(&self) -> Option<ModelBinding> {
        None
    }
    /// The cassette that answers, if no model does.
    fn replayed_from(&self) -> Option<ReplaySource> {
        None
    }
    /// An agent that runs elsewhere, as this tenant may reach it.
    ///
    /// # Errors
    /// The operator does not allow it.
    fn reach(&self, _tenant: &TenantId, _way: &ReachedBy) -> Result<ModelBinding, NotReached> {
        Err(NotReached {
            field: "transport",
            reason: "cannot be used: this host reaches no agents that run elsewhere",
        })
    }
    /// What answers for the agent of a run of this tenant, if anything does.
    fn answering(&self, tenant: &TenantId, eval: &EvalSpec) -> Option<ModelBinding> {
        match &eval.execution.reached_by {
            Some(way) => self.reach(tenant, way).ok(),
            None => self.resolve(eval.model_class),
        }
    }
}

/// Why an agent that runs elsewhere cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`reached_by.{field}` {reason}")]
pub struct NotReached {
    /// The member of `reached_by`.
    pub field: &'static str,
    /// What is wrong, and what to do.
    pub reason: &'static str,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("timeout", true, Heard::Failed)]
    #[case("status_503", true, Heard::Failed)]
    #[case(RATE_LIMITED, true, Heard::Throttled)]
    #[case::it_answered("unauthorized", false, Heard::Answered)]
    #[case::it_answered_too_much("too_large", false, Heard::Answered)]
    #[case("tls", false, Heard::Failed)]
    #[case("not_http", false, Heard::Failed)]
    #[case("blocked_address", false, Heard::Failed)]
    fn only_an_answer_says_that_an_endpoint_is_up(
        #[case] reason: &str,
        #[case] retryable: bool,
        #[case] heard: Heard,
    ) {
        let answer: Result<(), _> = Err(ModelError::Unavailable {
            reason: reason.to_owned(),
            retryable,
            retry_after: None,
        });
        assert_eq!(Heard::of(&answer), heard);
        assert_eq!(Heard::of(&Ok(())), Heard::Answered);
    }
}
