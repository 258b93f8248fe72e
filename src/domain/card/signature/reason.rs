//! Why a signature is not valid.

use serde::{Deserialize, Serialize};

use super::State;

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// `protected` or `signature` is no canonical base64url.
    BadEncoding,
    /// The protected header is no JSON object, or too long.
    HeaderNotJson,
    /// No algorithm is named.
    AlgMissing,
    /// The algorithm proves nothing.
    AlgForbidden,
    /// The header demands an extension.
    CritUnsupported,
    /// The algorithm is not known here.
    AlgUnsupported,
    /// Nothing says where the key is.
    NoKeySource,
    /// The key set is not served over https.
    JkuNotHttps,
    /// The key set is on an internal host.
    JkuForbiddenAddress,
    /// The key set cannot be fetched.
    JwksUnreachable,
    /// What was fetched is no key set.
    JwksBadResponse,
    /// The key set has no such key.
    KidNotFound,
    /// The key is not one for the algorithm.
    KeyMismatch,
    /// The signature is of something else, or by somebody else.
    SignatureMismatch,
    /// The key was revoked.
    KeyRevoked,
    /// The signature's time is over.
    ExpPassed,
    /// The key's time is over.
    KeyExpired,
    /// The signature's time is still to come.
    NotYetValid,
    /// The card has more signatures or key sets than are looked at.
    LimitExceeded,
}

impl Reason {
    /// The state it leads to.
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

    /// In words, with the remedy.
    pub const fn message(self) -> &'static str {
        match self {
            Self::BadEncoding => {
                "`protected` or `signature` is no canonical base64url; write both without padding (RFC 7515 §2)."
            }
            Self::HeaderNotJson => {
                "The protected header is no JSON object of at most 8 KiB with distinct names; sign with one."
            }
            Self::AlgMissing => "The protected header names no `alg`; state the algorithm.",
            Self::AlgForbidden => {
                "The `alg` proves nothing to others (none, or a shared secret); sign with a key pair."
            }
            Self::CritUnsupported => {
                "The header demands an extension (`crit` or `b64`) that is not supported; sign without it."
            }
            Self::AlgUnsupported => {
                "The `alg` is not known here; also sign with ES256, RS256, PS256 or EdDSA."
            }
            Self::NoKeySource => {
                "No key is known for it: name an https key set in the protected header's `jku`, or put the key into the trust store."
            }
            Self::JkuNotHttps => "The key set's URL is not https; serve it over https.",
            Self::JkuForbiddenAddress => {
                "The key set is on an internal host; serve it from a public one."
            }
            Self::JwksUnreachable => {
                "The key set could not be fetched; see that its server answers, then score again."
            }
            Self::JwksBadResponse => {
                "The key set's server did not answer 200 with a key set of at most 50 keys and 256 KiB; correct it."
            }
            Self::KidNotFound => {
                "The key set has no key of this `kid`; publish the key, or sign with one that is published."
            }
            Self::KeyMismatch => {
                "The key does not fit the `alg` (type, curve, at least 2048 bits of RSA) or is not for signatures; use one that does."
            }
            Self::SignatureMismatch => {
                "The signature is not of this card by this key: the card was changed after it was signed, or somebody else signed it. Do not rely on it; the provider has to sign anew."
            }
            Self::KeyRevoked => "The key was revoked; sign with another.",
            Self::ExpPassed => "The signature's `exp` has passed; sign the card anew.",
            Self::KeyExpired => "The key's own `exp` has passed; sign with a current key.",
            Self::NotYetValid => {
                "The signature's `nbf` is still to come; score again then, or set the signer's clock right."
            }
            Self::LimitExceeded => {
                "Only ten signatures and three key sets of a card are looked at, and a few hundred keys tried; remove what is not needed, and name each key by `kid`."
            }
        }
    }
}
