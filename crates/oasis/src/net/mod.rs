//! Environment providers, using the guarded client (OASIS section 5; PC 3.8).
//!
//! The operator names a provider and thereby all permitted destinations: the provider's origin and
//! the origins listed with it. An agent endpoint with any other origin is a fault. The evaluator's
//! token is sent only to the provider, and the agent's token only to the agent endpoint.
//!
//! Calls are not retried (D7), redirects are not followed, and connections are not reused: a
//! connection that the server closes between calls would look like missing evidence and end the
//! evaluation.

pub mod calls;
pub mod connection;
pub mod destinations;
pub mod response_error;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::{Origin, Url};

pub use crate::net::connection::HttpProvider;
use crate::ports::providers::{Provider, Providers};
use touchstone_host::net::error::Error;

/// The address of a provider, and the settings for calls.
#[derive(Clone, Debug)]
pub struct ProviderAccess {
    /// The operator's name for the provider.
    pub name: String,
    /// The base URL; calls go to `/v1/…` below it.
    pub url: Url,
    /// The evaluator's bearer token.
    pub token: Option<SecretString>,
    /// Timeout of one call.
    pub timeout: Duration,
    /// Maximum size of a response in bytes.
    pub max_response_bytes: u64,
    /// Maximum difference between the provider's and the host's clock.
    pub clock_tolerance: Duration,
    /// Permitted origins of agent endpoints, in addition to the origin of `url`.
    pub agent_origins: Vec<Origin>,
    /// The operator's declaration about the provider's lab.
    pub lab_framework: Option<String>,
}

/// A provider cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The address is invalid, or the client could not be set up.
    #[error("the OASIS provider `{name}` cannot be used: {cause}")]
    Net { name: String, cause: Error },
    /// The token is not valid in a header.
    #[error(
        "the OASIS provider `{name}` cannot be used: its token contains characters that are not allowed in a header"
    )]
    Token { name: String },
}

/// The configured providers.
#[derive(Clone, Debug, Default)]
pub struct HttpProviders(BTreeMap<String, Arc<HttpProvider>>);

impl HttpProviders {
    /// Sets up all providers without contacting them.
    ///
    /// # Errors
    /// The first provider that cannot be used.
    pub fn new(accesses: Vec<ProviderAccess>) -> Result<Self, SetupError> {
        let named = |access: ProviderAccess| {
            let name = access.name.clone();
            HttpProvider::new(access).map(|provider| (name, Arc::new(provider)))
        };
        let providers: Result<_, _> = accesses.into_iter().map(named).collect();
        providers.map(Self)
    }
}

impl Providers for HttpProviders {
    fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        let found = self.0.get(name)?;
        Some(Arc::clone(found) as Arc<dyn Provider>)
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}
