//! Models, and where they answer: circuit breaker, concurrency and retries of an endpoint.

pub mod circuit;
pub mod concurrency;
pub mod outcome;
pub mod retry;

use std::fmt;

use serde::{Deserialize, Serialize};

/// The provider of an agent that is a local command.
pub const COMMAND_PROVIDER: &str = "command";

/// An endpoint: its address and a digest of its configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPin {
    /// Origin and path, without credentials and query; absent for a command, a script or a
    /// cassette.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `sha256-<base64>` over the configuration without secrets, the command line, or the cassette.
    pub digest: String,
}

/// A model as named in `provider.usage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPin {
    pub provider: String,
    pub model: String,
}

/// A model and its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelIdentity {
    pub model: ModelPin,
    /// Its endpoint; `None` in records of earlier versions.
    pub endpoint: Option<EndpointPin>,
}

impl ModelIdentity {
    /// Whether this model may replace `pinned`. Runs of earlier versions pin only names.
    pub fn serves(&self, pinned: &Self) -> bool {
        self.model == pinned.model
            && pinned
                .endpoint
                .as_ref()
                .is_none_or(|endpoint| self.endpoint.as_ref() == Some(endpoint))
    }
}

impl fmt::Display for ModelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} model `{}`", self.model.provider, self.model.model)?;
        let Some(endpoint) = &self.endpoint else {
            return Ok(());
        };
        if let Some(url) = &endpoint.url {
            write!(f, " at {url}")?;
        }
        let digest: String = endpoint.digest.chars().take(DIGEST_SHOWN).collect();
        write!(f, " (digest {digest}…)")
    }
}

/// Characters of a digest that distinguish two identities in a message.
const DIGEST_SHOWN: usize = 19;
