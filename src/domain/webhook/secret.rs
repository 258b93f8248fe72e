//! Signing secrets: minted here or brought along, shown once, never printed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::domain::hex::hex;

/// What Standard Webhooks puts before the base64 of a symmetric secret.
const STANDARD_PREFIX: &str = "whsec_";
/// Octets of a Standard Webhooks secret.
const STANDARD_OCTETS: std::ops::RangeInclusive<usize> = 24..=64;
/// Characters of a secret somebody brings along.
const CHARACTERS: std::ops::RangeInclusive<usize> = 16..=512;

/// A signing secret. Its text is reachable only on purpose.
#[derive(Clone, Debug)]
pub struct Secret(SecretString);

impl Secret {
    /// A secret as it was kept.
    pub fn kept(text: String) -> Self {
        Self(SecretString::from(text))
    }

    /// A secret of 32 fresh octets, as 64 hexadecimal digits.
    pub fn minted(octets: [u8; 32]) -> Self {
        Self(SecretString::from(hex(&octets)))
    }

    /// A secret of 32 fresh octets in the form of Standard Webhooks.
    pub fn minted_standard(octets: [u8; 32]) -> Self {
        let text = format!("{STANDARD_PREFIX}{}", STANDARD.encode(octets));
        Self(SecretString::from(text))
    }

    /// A secret somebody brings along; `None` if it is too short, too long, or not printable ASCII.
    pub fn brought(text: &str) -> Option<Self> {
        let sound = CHARACTERS.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        sound.then(|| Self(SecretString::from(text)))
    }

    /// A secret in the form of Standard Webhooks: `whsec_` and the base64 of 24 to 64 octets.
    pub fn standard(text: &str) -> Option<Self> {
        let secret = Self(SecretString::from(text));
        secret
            .standard_key()
            .filter(|key| STANDARD_OCTETS.contains(&key.len()))?;
        Some(secret)
    }

    /// The text, for who is to be told and for the store.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// The first eight hexadecimal digits of its SHA-256: what logs and lists call it by.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.expose().as_bytes());
        hex(digest.get(..4).unwrap_or_default())
    }

    /// The octets a Standard Webhooks signature is keyed by.
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

/// The secrets of a subscription: after a rotation, two for a while (RFC 0201 §E).
#[derive(Clone, Debug, PartialEq)]
pub struct Secrets {
    /// The newest one.
    pub current: Secret,
    /// The one before it, and until when it signs.
    pub previous: Option<(Secret, Timestamp)>,
}

impl Secrets {
    /// One secret only.
    pub fn of(current: Secret) -> Self {
        Self {
            current,
            previous: None,
        }
    }

    /// The secrets after a rotation; the one before the last is retired at once.
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
