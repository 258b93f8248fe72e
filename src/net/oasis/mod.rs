//! Environment providers over the guarded client (OASIS section 5; PC 3.8).
//!
//! The operator names a provider, and with it every place that may be asked: its own origin and the origins listed beside it.
//! An agent's endpoint that leads elsewhere is a fault, whatever it is. The evaluator's token goes to the provider only, the
//! agent's to its endpoint only.
//!
//! Nothing is tried again (D7), no redirect is followed, and no call rides on a connection that another one left behind: what a
//! server closes in between would look like evidence that is missing, and end an evaluation.

mod calls;
mod connection;
mod places;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use url::{Origin, Url};

pub use self::connection::HttpProvider;
use super::Error;
use crate::ports::oasis::{Provider, Providers};

/// Where a provider is, and how it is asked.
#[derive(Clone, Debug)]
pub struct ProviderAccess {
    /// What the operator calls it.
    pub name: String,
    /// Its address: `/v1/…` is below it.
    pub url: Url,
    /// The evaluator's bearer token.
    pub token: Option<SecretString>,
    /// Longest time of one call.
    pub timeout: Duration,
    /// Octets of an answer at most.
    pub max_response_bytes: u64,
    /// How far its clock may differ from the host's.
    pub clock_tolerance: Duration,
    /// Where agents' endpoints may be, beside the origin of `url`.
    pub agent_origins: Vec<Origin>,
    /// What the operator declares about its lab.
    pub lab_framework: Option<String>,
}

/// A provider cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The address, or the client.
    #[error("the OASIS provider `{name}` cannot be used: {cause}")]
    Net {
        /// Which.
        name: String,
        /// Why.
        cause: Error,
    },
    /// The token cannot stand in a header.
    #[error(
        "the OASIS provider `{name}` cannot be used: its token holds characters a header cannot carry"
    )]
    Token {
        /// Which.
        name: String,
    },
}

/// The providers of a configuration.
#[derive(Clone, Debug, Default)]
pub struct HttpProviders(BTreeMap<String, Arc<HttpProvider>>);

impl HttpProviders {
    /// Sets all of them up; none is asked anything yet.
    ///
    /// # Errors
    /// The first one that cannot be used.
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
