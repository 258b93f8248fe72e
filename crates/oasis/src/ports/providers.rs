//! Providers of the environments for OASIS scenarios (OASIS Core 3.7; PC 3.8; SI provider guide 4).
//!
//! Calls are not retried (D7), and every response that is not clearly valid is a [`ProviderFault`]
//! (D6).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Map, Value};
use url::Url;

use crate::rules::scrub::Scrub;
use crate::wire::provider::{ProvisionRequest, Trigger};
use touchstone_kit::redaction::mask;

/// A kind of request to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Support for a profile.
    Conformance,
    Provision,
    /// Additional state in an environment.
    InjectState,
    StateSnapshot,
    /// An observation of this type.
    Observe(String),
    Teardown,
    /// An operation of the agent.
    Operate,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conformance => f.write_str("conformance"),
            Self::Provision => f.write_str("provision"),
            Self::InjectState => f.write_str("state injection"),
            Self::StateSnapshot => f.write_str("state snapshot"),
            Self::Observe(kind) => write!(f, "observation {kind}"),
            Self::Teardown => f.write_str("teardown"),
            Self::Operate => f.write_str("agent operation"),
        }
    }
}

/// A failure of the harness: nothing is known about the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct ProviderFault {
    /// The failed request.
    pub stage: Stage,
    /// The request and the problem, in this host's words; never contains provider text.
    pub cause: String,
    /// The provider's own message, if it sent one.
    pub said: Option<ProviderText>,
}

impl ProviderFault {
    /// Removes secrets from the provider's message.
    #[must_use]
    pub fn without(mut self, scrub: &Scrub) -> Self {
        self.said = self.said.map(|it| ProviderText::of(scrub.text(&it.read)));
        self
    }
}

/// A provider's own error message: truncated, on one line, and without texts that look like
/// credentials. It is stored with the evidence and never appears in events or log lines; its debug
/// form hides the text.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderText {
    /// More text than is stored: secrets are removed before the text is truncated.
    read: String,
    kept: String,
}

impl ProviderText {
    /// Maximum number of characters read.
    const MOST_READ: usize = 4_096;
    /// Maximum number of characters stored.
    const MOST_KEPT: usize = 500;

    /// The message; `None` if the text is blank.
    pub fn new(text: &str) -> Option<Self> {
        let read: String = text.chars().take(Self::MOST_READ).collect();
        let line: Vec<&str> = read.split_whitespace().collect();
        let line: String = line
            .join(" ")
            .chars()
            .filter(|it| !it.is_control())
            .collect();
        let read = mask(&line).into_owned();
        (!read.is_empty()).then(|| Self::of(read))
    }

    fn of(read: String) -> Self {
        let mut kept: String = read.chars().take(Self::MOST_KEPT).collect();
        if kept.len() < read.len() {
            kept.push('…');
        }
        Self { read, kept }
    }

    /// The stored text.
    pub fn as_str(&self) -> &str {
        &self.kept
    }

    /// The text before truncation, to append it to other text.
    pub fn into_read(self) -> String {
        self.read
    }
}

impl fmt::Debug for ProviderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderText(..)")
    }
}

/// A provider's conformance response before an evaluation. Preflight judges it, whatever it
/// contains.
#[derive(Clone, Debug, PartialEq)]
pub struct ConformanceAnswer {
    /// The status, if there was a response.
    pub http_status: Option<u16>,
    /// The document, if the status is 200 and there is one.
    pub body: Option<Value>,
    /// Why the document is missing, in this host's words.
    pub trouble: Option<String>,
    /// The provider's own message, if the document is missing.
    pub said: Option<ProviderText>,
}

/// An isolated environment. Its debug form hides secrets.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The provider's id for the environment.
    pub id: String,
    /// The URL for the agent's operations.
    pub endpoint: Url,
    /// The bearer token for the agent's operations, if required.
    pub token: Option<SecretString>,
    /// The principal under which the environment logs the agent's operations, if known.
    pub principal: Option<String>,
    /// Values that must not be emitted, by reference.
    pub containment: BTreeMap<String, Vec<SecretString>>,
}

/// Evidence: the source was available.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub observation_type: String,
    /// The time of the observation, as the provider wrote it.
    pub timestamp: String,
    pub data: Value,
    /// `evidence_source.type`.
    pub source_type: String,
    /// `evidence_source.status`: `available`.
    pub status: String,
}

/// An operation of the agent without a result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OperateFault {
    /// The environment refused the operation, which is a response for the agent.
    #[error("the environment refused the operation with HTTP {status}")]
    Refused {
        /// 400 to 499 except 401, which concerns the provider's own credentials.
        status: u16,
        answer: Value,
    },
    /// The harness failed; the operation may or may not have happened.
    #[error(transparent)]
    Provider(#[from] ProviderFault),
}

#[async_trait]
pub trait Provider: Send + Sync {
    /// The operator's name for the provider.
    fn name(&self) -> &str;

    /// Maximum difference between the provider's and the host's clock.
    fn clock_tolerance(&self) -> Duration;

    /// The operator's declaration about the provider's lab.
    fn lab_framework(&self) -> Option<&str>;

    /// Asks for the provider's support of a profile, by the profile's id.
    async fn conformance(&self, profile: &str) -> ConformanceAnswer;

    /// Requests an environment. An unusable environment is torn down before the fault is returned.
    async fn provision(&self, request: &ProvisionRequest) -> Result<Environment, ProviderFault>;

    /// Adds state to an environment; immediately without a `trigger`.
    async fn inject_state(
        &self,
        environment: &str,
        state: &[Value],
        trigger: Option<Trigger>,
    ) -> Result<(), ProviderFault>;

    /// The state of an environment, or of `resources` in it, as the provider returned it.
    async fn state_snapshot(
        &self,
        environment: &str,
        resources: &[Value],
    ) -> Result<Value, ProviderFault>;

    async fn observe(
        &self,
        environment: &str,
        observation_type: &str,
        parameters: &Map<String, Value>,
    ) -> Result<Observed, ProviderFault>;

    /// Ends an environment. A fault here does not change any result (D8).
    async fn teardown(&self, environment: &str) -> Result<(), ProviderFault>;

    /// Carries out an operation of the agent, with the agent's credentials only.
    async fn operate(
        &self,
        environment: &Environment,
        operation: &Map<String, Value>,
    ) -> Result<Value, OperateFault>;
}

/// The providers that the operator configured. A request cannot define a provider.
pub trait Providers: Send + Sync {
    fn provider(&self, name: &str) -> Option<Arc<dyn Provider>>;

    /// The names, sorted.
    fn names(&self) -> Vec<String>;
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NoProviders;

impl Providers for NoProviders {
    fn provider(&self, _: &str) -> Option<Arc<dyn Provider>> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_cut_off_by_truncation_is_removed_completely() {
        let said = format!("{}tok-0123456789 is unknown", "word ".repeat(99));
        let fault = ProviderFault {
            stage: Stage::Observe("audit_log".to_owned()),
            cause: "HTTP 500".to_owned(),
            said: ProviderText::new(&said),
        };
        let words = |fault: &ProviderFault| fault.said.clone().unwrap().as_str().to_owned();
        assert!(words(&fault).ends_with("tok-0…"));
        let fault = fault.without(&Scrub::of(["tok-0123456789".to_owned()]));
        assert!(words(&fault).ends_with("[cont…"), "{}", words(&fault));
    }
}
