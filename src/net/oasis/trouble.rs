//! What can be wrong with a provider's answer, as a closed list of phrases without anything a provider said (OASIS section 5, D6).
//! What it said beside them is carried along and shown by no phrase.

use crate::net;
use crate::ports::oasis::{ProviderFault, ProviderWords, Stage};
use crate::protocol::json;
use crate::protocol::oasis::provider::{EvidenceStatus, Misfit};

/// Why an answer is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("timed out")]
    TimedOut,
    #[error("connection lost")]
    Lost,
    /// Every other way in which there is no answer.
    #[error("{0}")]
    NoAnswer(net::Error),
    #[error("HTTP {0}")]
    Status(u16, Option<ProviderWords>),
    #[error("not JSON")]
    NotJson,
    /// Another parser might read something else.
    #[error("not strict JSON, it {0}")]
    NotStrict(json::Error),
    #[error(transparent)]
    Misfit(#[from] Misfit),
    #[error("status error")]
    Declined(Option<ProviderWords>),
    #[error("a status that belongs to another call")]
    OtherStatus,
    #[error("the answer is about another environment")]
    OtherEnvironment,
    #[error("the answer is another observation")]
    OtherObservation,
    #[error("no evidence source")]
    NoSource,
    #[error("no evidence status")]
    NoStatus,
    #[error("{0}")]
    Unavailable(&'static str, Option<ProviderWords>),
    #[error("a value_ref is not resolved")]
    Unresolved,
    #[error("agent_endpoint is no usable URL")]
    Endpoint,
    #[error("agent_endpoint leads to an origin that is not allowed")]
    Origin,
    #[error("agent_credentials.token holds characters a header cannot carry")]
    Token,
    #[error("the environment does not take the credentials it came with")]
    Credentials,
    #[error("the request could not be written")]
    Unwritable,
}

impl Trouble {
    /// What it means that this was asked for in vain.
    pub(super) fn at(self, stage: &Stage) -> ProviderFault {
        let cause = format!("{stage}: {self}");
        ProviderFault {
            stage: stage.clone(),
            cause,
            said: match self {
                Self::Status(_, said) | Self::Declined(said) | Self::Unavailable(_, said) => said,
                _ => None,
            },
        }
    }

    /// What a source says that is not available; a word nobody knows is not repeated.
    pub(super) fn of_source(status: EvidenceStatus, said: Option<ProviderWords>) -> Option<Self> {
        let phrase = match status {
            EvidenceStatus::Available => return None,
            EvidenceStatus::Unreachable => "unreachable",
            EvidenceStatus::Partial => "partial",
            EvidenceStatus::EmptyWindow => "empty_window",
            EvidenceStatus::Unknown => "unknown evidence status",
        };
        Some(Self::Unavailable(phrase, said))
    }
}

impl From<net::Error> for Trouble {
    fn from(error: net::Error) -> Self {
        match error {
            net::Error::Timeout => Self::TimedOut,
            net::Error::Reset => Self::Lost,
            other => Self::NoAnswer(other),
        }
    }
}

impl From<json::Error> for Trouble {
    fn from(error: json::Error) -> Self {
        match error.fault {
            json::Fault::Syntax | json::Fault::UnexpectedEnd => Self::NotJson,
            _ => Self::NotStrict(error),
        }
    }
}
