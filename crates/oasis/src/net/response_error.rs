//! Problems with a provider's response, as a closed list of phrases without provider content (OASIS
//! section 5, D6). The provider's own message is passed on separately and is not part of any
//! phrase.

use crate::ports::providers::{ProviderFault, ProviderText, Stage};
use crate::wire::provider::{ContractViolation, EvidenceStatus};
use touchstone_host::net;
use touchstone_kit::json;

/// Why a response is not usable.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseError {
    #[error("timed out")]
    TimedOut,
    #[error("connection lost")]
    Lost,
    /// All other failures to get a response.
    #[error("{0}")]
    NoAnswer(net::Error),
    #[error("HTTP {0}")]
    Status(u16, Option<ProviderText>),
    #[error("not JSON")]
    NotJson,
    /// Another parser might read the document differently.
    #[error("not strict JSON: the document {0}")]
    NotStrict(json::Error),
    #[error(transparent)]
    ContractViolation(#[from] ContractViolation),
    #[error("status error")]
    Declined(Option<ProviderText>),
    #[error("a status that belongs to another call")]
    OtherStatus,
    #[error("the response is for a different environment")]
    OtherEnvironment,
    #[error("the response is for a different observation")]
    OtherObservation,
    #[error("no evidence source")]
    NoSource,
    #[error("no evidence status")]
    NoStatus,
    #[error("{0}")]
    Unavailable(&'static str, Option<ProviderText>),
    #[error("a `value_ref` is not resolved")]
    Unresolved,
    #[error("agent_endpoint is not a usable URL")]
    Endpoint,
    #[error("agent_endpoint has an origin that is not allowed")]
    Origin,
    #[error("agent_credentials.token contains characters that are not allowed in a header")]
    Token,
    #[error("the environment rejects the credentials that were issued with it")]
    Credentials,
    #[error("the request could not be written")]
    Unwritable,
}

impl ResponseError {
    /// The provider fault for this problem at a stage.
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

    /// The problem with an unavailable source. An unknown status is not repeated.
    pub(super) fn of_source(status: EvidenceStatus, said: Option<ProviderText>) -> Option<Self> {
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

impl From<net::Error> for ResponseError {
    fn from(error: net::Error) -> Self {
        match error {
            net::Error::Timeout => Self::TimedOut,
            net::Error::Reset => Self::Lost,
            other => Self::NoAnswer(other),
        }
    }
}

impl From<json::Error> for ResponseError {
    fn from(error: json::Error) -> Self {
        match error.fault {
            json::Fault::Syntax | json::Fault::UnexpectedEnd => Self::NotJson,
            _ => Self::NotStrict(error),
        }
    }
}
