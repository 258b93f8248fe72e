//! Why a signature is not valid.

use serde::{Deserialize, Serialize};

use super::State;

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    BadEncoding,
    HeaderNotJson,
    AlgMissing,
    AlgForbidden,
    CritUnsupported,
    AlgUnsupported,
    NoKeySource,
    JkuNotHttps,
    JkuForbiddenAddress,
    JwksUnreachable,
    JwksBadResponse,
    KidNotFound,
    KeyMismatch,
    /// The signature does not verify over this card with the key.
    SignatureMismatch,
    KeyRevoked,
    ExpPassed,
    KeyExpired,
    NotYetValid,
    LimitExceeded,
}

impl Reason {
    /// The resulting state.
    pub const fn state(self) -> State {
        match self {
            Self::AlgUnsupported
            | Self::NoKeySource
            | Self::JwksUnreachable
            | Self::JwksBadResponse
            | Self::NotYetValid
            | Self::LimitExceeded => State::Unverifiable,
            Self::ExpPassed | Self::KeyExpired => State::Expired,
            _ => State::Invalid,
        }
    }

    /// Message with the remedy.
    pub const fn message(self) -> &'static str {
        match self {
            Self::BadEncoding => {
                "`protected` or `signature` is not canonical base64url; write both without \
                padding (RFC 7515 §2)."
            }
            Self::HeaderNotJson => {
                "The protected header is not a JSON object of at most 8 KiB with distinct names; \
                sign with one."
            }
            Self::AlgMissing => "The protected header names no `alg`; state the algorithm.",
            Self::AlgForbidden => {
                "The `alg` does not prove who signed (`none`, or a shared secret); sign with a key \
                pair."
            }
            Self::CritUnsupported => {
                "The header requires an extension (`crit` or `b64`) that is not supported; sign \
                without it."
            }
            Self::AlgUnsupported => {
                "The `alg` is not supported; also sign with ES256, RS256, PS256 or EdDSA."
            }
            Self::NoKeySource => {
                "The signature has no known key: name an https key set in the protected header's \
                `jku`, or add the key to the trust store."
            }
            Self::JkuNotHttps => "The key set's URL is not https; serve it over https.",
            Self::JkuForbiddenAddress => {
                "The key set is on an internal host; serve it from a public host."
            }
            Self::JwksUnreachable => {
                "The key set could not be fetched; check that its server answers, then score \
                again."
            }
            Self::JwksBadResponse => {
                "The key set's server did not answer 200 with a key set of at most 50 keys and \
                256 KiB; correct the server."
            }
            Self::KidNotFound => {
                "The key set has no key with this `kid`; publish the key, or sign with a \
                published key."
            }
            Self::KeyMismatch => {
                "The key does not fit the `alg` (type, curve, at least 2048 bits of RSA) or is \
                not for signatures; use a key that does."
            }
            Self::SignatureMismatch => {
                "The signature does not match this card and key: the card was changed after it \
                was signed, or another key signed it. Do not rely on it; the provider must sign \
                the card again."
            }
            Self::KeyRevoked => "The key was revoked; sign with another.",
            Self::ExpPassed => "The signature's `exp` has passed; sign the card again.",
            Self::KeyExpired => "The key's own `exp` has passed; sign with a current key.",
            Self::NotYetValid => {
                "The signature's `nbf` is in the future; score again after it, or correct the \
                signer's clock."
            }
            Self::LimitExceeded => {
                "The signature exceeds the limits of ten signatures, three key sets and a few \
                hundred tried keys per card; remove signatures that are not needed, and name each \
                key by `kid`."
            }
        }
    }
}
