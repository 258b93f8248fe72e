//! Signing secrets: generated here or supplied by the caller, shown once, never logged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::hex::{hex, hex_prefix};

/// Prefix that Standard Webhooks puts before the base64 of a symmetric secret.
const STANDARD_PREFIX: &str = "whsec_";
/// Length of a Standard Webhooks secret, in bytes.
const STANDARD_OCTETS: std::ops::RangeInclusive<usize> = 24..=64;
/// Length of a secret supplied by the caller, in characters.
const CHARACTERS: std::ops::RangeInclusive<usize> = 16..=512;

/// A signing secret. Its text is available only through [`Self::expose`].
#[derive(Clone, Debug)]
pub struct Secret(SecretString);

impl Secret {
    /// A secret from the store.
    pub fn kept(text: String) -> Self {
        Self(SecretString::from(text))
    }

    /// A secret from 32 random bytes, as 64 hexadecimal digits.
    pub fn minted(octets: [u8; 32]) -> Self {
        Self(SecretString::from(hex(&octets)))
    }

    /// A secret from 32 random bytes, in the form of Standard Webhooks.
    pub fn minted_standard(octets: [u8; 32]) -> Self {
        let text = format!("{STANDARD_PREFIX}{}", STANDARD.encode(octets));
        Self(SecretString::from(text))
    }

    /// A secret supplied by the caller; `None` if it is too short, too long, or not printable
    /// ASCII.
    pub fn brought(text: &str) -> Option<Self> {
        let sound = CHARACTERS.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        sound.then(|| Self(SecretString::from(text)))
    }

    /// A secret in the form of Standard Webhooks: `whsec_` followed by the base64 of 24 to 64
    /// bytes.
    pub fn standard(text: &str) -> Option<Self> {
        let secret = Self(SecretString::from(text));
        secret
            .standard_key()
            .filter(|key| STANDARD_OCTETS.contains(&key.len()))?;
        Some(secret)
    }

    /// The text, to show it to its owner and to store it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// The first eight hexadecimal digits of its SHA-256, which identify the secret in logs and
    /// lists.
    pub fn fingerprint(&self) -> String {
        hex_prefix(&Sha256::digest(self.expose().as_bytes()), 8)
    }

    /// The key bytes of a Standard Webhooks signature.
    pub(super) fn standard_key(&self) -> Option<Vec<u8>> {
        STANDARD
            .decode(self.expose().strip_prefix(STANDARD_PREFIX)?)
            .ok()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        use subtle::ConstantTimeEq as _;
        self.expose()
            .as_bytes()
            .ct_eq(other.expose().as_bytes())
            .into()
    }
}

/// The secrets of a subscription; two during the overlap after a rotation (RFC 0201 §E).
#[derive(Clone, Debug, PartialEq)]
pub struct Secrets {
    pub current: Secret,
    /// The previous secret and until when it signs.
    pub previous: Option<(Secret, Timestamp)>,
}

impl Secrets {
    pub fn of(current: Secret) -> Self {
        Self {
            current,
            previous: None,
        }
    }

    /// The secrets after a rotation; the previous secret before it is retired at once.
    #[must_use]
    pub fn rotated(self, new: Secret, until: Timestamp) -> Self {
        Self {
            current: new,
            previous: Some((self.current, until)),
        }
    }

    /// The previous secret, while it still signs.
    pub fn overlapping(&self, now: Timestamp) -> Option<&Secret> {
        let (previous, until) = self.previous.as_ref()?;
        (now < *until).then_some(previous)
    }
}
