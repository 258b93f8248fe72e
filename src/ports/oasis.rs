//! Providers of the environments that OASIS scenarios run in (OASIS Core 3.7; PC 3.8; SI provider guide 4).
//!
//! A provider is asked once: nothing here is tried again (D7), and whatever is not plainly an answer is a [`ProviderFault`] (D6).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Map, Value};
use url::Url;

use crate::domain::oasis::scrub::Scrub;
use crate::domain::redaction::mask;
use crate::protocol::oasis::provider::{ProvisionRequest, Trigger};

/// What a provider was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What it can do.
    Conformance,
    /// An environment.
    Provision,
    /// More state in it.
    InjectState,
    /// What is in it.
    StateSnapshot,
    /// Evidence of this type.
    Observe(String),
    /// The end of an environment.
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

/// The harness broke: nothing is known about the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct ProviderFault {
    /// What was asked for.
    pub stage: Stage,
    /// That, and what became of it: words of this host, never of the provider.
    pub cause: String,
    /// The provider's own words, if it said any.
    pub said: Option<ProviderWords>,
}

impl ProviderFault {
    /// The fault without secrets in the provider's words.
    #[must_use]
    pub fn without(mut self, scrub: &Scrub) -> Self {
        self.said = self.said.map(|it| ProviderWords::of(scrub.text(&it.read)));
        self
    }
}

/// What a provider says of a failure, in its own words: bounded, on one line, and without what looks like a credential. It is kept
/// with the evidence and stands in no event and no log line; its debug form shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderWords {
    /// More than is kept: a secret is taken out while it is whole, never after it was cut.
    read: String,
    kept: String,
}

impl ProviderWords {
    /// Characters that are looked at.
    const MOST_READ: usize = 4_096;
    /// Characters that are kept.
    const MOST_KEPT: usize = 500;

    /// The words; `None` if there are none.
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

    /// The words, as they are kept.
    pub fn as_str(&self) -> &str {
        &self.kept
    }

    /// All that was read, to be put behind other words.
    pub fn into_read(self) -> String {
        self.read
    }
}

impl fmt::Debug for ProviderWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderWords(..)")
    }
}

/// What a provider says of itself before an evaluation. Whatever it is, preflight judges it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConformanceAnswer {
    /// The status, if there was an answer.
    pub http_status: Option<u16>,
    /// The document, if the status is 200 and there is one.
    pub body: Option<Value>,
    /// Why there is no document, in words of this host.
    pub trouble: Option<String>,
    /// The provider's own words, if there is no document and it said any.
    pub said: Option<ProviderWords>,
}

/// An isolated environment. Its debug form shows no secret.
#[derive(Clone, Debug)]
pub struct Environment {
    /// What the provider calls it.
    pub id: String,
    /// Where the agent's operations go.
    pub endpoint: Url,
    /// The bearer token they go with, if they need one.
    pub token: Option<SecretString>,
    /// Under which name the environment records them, if it said so.
    pub principal: Option<String>,
    /// What must not be emitted, by the reference that was asked for.
    pub containment: BTreeMap<String, Vec<SecretString>>,
}

/// Evidence: its source was available.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// What was asked for.
    pub observation_type: String,
    /// When it was observed, as the provider writes it.
    pub timestamp: String,
    /// What was observed.
    pub data: Value,
    /// `evidence_source.type`.
    pub source_type: String,
    /// `evidence_source.status`: `available`.
    pub status: String,
}

/// An operation of the agent has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OperateFault {
    /// The environment refused it: an answer for the agent.
    #[error("the environment refused the operation with HTTP {status}")]
    Refused {
        /// 400 to 499, but not 401: the credentials are the provider's own.
        status: u16,
        /// What it said.
        answer: Value,
    },
    /// The harness broke; the operation may have happened or not.
    #[error(transparent)]
    Provider(#[from] ProviderFault),
}

/// An environment provider.
#[async_trait]
pub trait Provider: Send + Sync {
    /// What the operator calls it.
    fn name(&self) -> &str;

    /// How far its clock may differ from the host's.
    fn clock_tolerance(&self) -> Duration;

    /// What the operator declares about its lab.
    fn lab_framework(&self) -> Option<&str>;

    /// Asks what it can do for a profile, by the profile's id.
    async fn conformance(&self, profile: &str) -> ConformanceAnswer;

    /// Asks for an environment. One that is of no use is given back before the fault is told.
    async fn provision(&self, request: &ProvisionRequest) -> Result<Environment, ProviderFault>;

    /// Adds state to an environment, at once without a `trigger`.
    async fn inject_state(
        &self,
        environment: &str,
        state: &[Value],
        trigger: Option<Trigger>,
    ) -> Result<(), ProviderFault>;

    /// What is in an environment, or what there is of `resources`; the answer as it came.
    async fn state_snapshot(
        &self,
        environment: &str,
        resources: &[Value],
    ) -> Result<Value, ProviderFault>;

    /// Asks for evidence.
    async fn observe(
        &self,
        environment: &str,
        observation_type: &str,
        parameters: &Map<String, Value>,
    ) -> Result<Observed, ProviderFault>;

    /// Ends an environment. A fault here changes no result (D8).
    async fn teardown(&self, environment: &str) -> Result<(), ProviderFault>;

    /// Carries out an operation of the agent, with the agent's credentials and no others.
    async fn operate(
        &self,
        environment: &Environment,
        operation: &Map<String, Value>,
    ) -> Result<Value, OperateFault>;
}

/// The providers the operator named. A request never brings one of its own.
pub trait Providers: Send + Sync {
    /// The provider of this name.
    fn provider(&self, name: &str) -> Option<Arc<dyn Provider>>;

    /// Their names, in order.
    fn names(&self) -> Vec<String>;
}

/// No provider at all.
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
    fn a_secret_at_the_end_of_what_is_kept_leaves_no_part_of_itself() {
        let said = format!("{}tok-0123456789 is unknown", "word ".repeat(99));
        let fault = ProviderFault {
            stage: Stage::Observe("audit_log".to_owned()),
            cause: "HTTP 500".to_owned(),
            said: ProviderWords::new(&said),
        };
        let words = |fault: &ProviderFault| fault.said.clone().unwrap().as_str().to_owned();
        assert!(words(&fault).ends_with("tok-0…"));
        let fault = fault.without(&Scrub::of(["tok-0123456789".to_owned()]));
        assert!(words(&fault).ends_with("[cont…"), "{}", words(&fault));
    }
}
