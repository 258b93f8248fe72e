//! Encryption of secrets at rest with ChaCha20-Poly1305 (RFC 8439). Each ciphertext is bound to its
//! owner.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest as _, Sha256};

use crate::hex::hex_prefix;

/// Version prefix of every encrypted value.
const VERSION: &str = "s1";

/// A value that cannot be decrypted. The message contains none of the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Sealed {
    #[error("the value is not encrypted with a host key")]
    Malformed,
    #[error("the value was encrypted with another key")]
    OtherKey,
    #[error("the value was changed, or it belongs to another record")]
    Changed,
}

/// An encryption key.
#[derive(Clone)]
pub struct SealingKey {
    key: LessSafeKey,
    id: String,
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({})", self.id)
    }
}

impl SealingKey {
    /// Derives the key from a secret that may have other uses too.
    #[expect(clippy::expect_used, reason = "the cipher takes keys of 32 bytes")]
    pub fn of(secret: &[u8; 32]) -> Self {
        let bytes = keyed_hash(secret, b"touchstone/sealing/1");
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes);
        Self {
            key: LessSafeKey::new(key.expect("the key has 32 bytes")),
            id: hex_prefix(&Sha256::digest(bytes), 8),
        }
    }

    /// Encrypts a secret of `owner`. Nonces are random; there are few secrets, so a nonce does not
    /// repeat.
    pub fn seal(&self, nonce: [u8; NONCE_LEN], owner: &str, secret: &[u8]) -> Option<String> {
        let mut bytes = secret.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(unique, Aad::from(owner), &mut bytes)
            .ok()?;
        let text = STANDARD_NO_PAD.encode([nonce.as_slice(), &bytes].concat());
        Some(format!("{VERSION}.{}.{text}", self.id))
    }

    /// Decrypts a secret of `owner`.
    ///
    /// # Errors
    /// [`Sealed`].
    pub fn open(&self, owner: &str, sealed: &str) -> Result<Vec<u8>, Sealed> {
        let mut parts = sealed.splitn(3, '.');
        let (Some(VERSION), Some(id), Some(text)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Sealed::Malformed);
        };
        if id != self.id {
            return Err(Sealed::OtherKey);
        }
        let bytes = STANDARD_NO_PAD
            .decode(text)
            .map_err(|_| Sealed::Malformed)?;
        let (nonce, rest) = bytes
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(Sealed::Malformed)?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self
            .key
            .open_in_place(nonce, Aad::from(owner), &mut rest)
            .map_err(|_| Sealed::Changed)?;
        Ok(opened.to_vec())
    }
}

/// The keys of a host: the current one encrypts, and the previous ones still decrypt until a
/// rotation is complete.
#[derive(Clone, Debug)]
pub struct HostKeyRing {
    current: SealingKey,
    previous: Vec<SealingKey>,
}

impl HostKeyRing {
    /// The key ring of these secrets; the first one is the current key. `None` without secrets.
    pub fn of(secrets: &[[u8; 32]]) -> Option<Self> {
        let (current, previous) = secrets.split_first()?;
        Some(Self {
            current: SealingKey::of(current),
            previous: previous.iter().map(SealingKey::of).collect(),
        })
    }

    /// A key ring with one more key for decryption.
    #[must_use]
    pub fn with_previous(&self, key: SealingKey) -> Self {
        let mut ring = self.clone();
        ring.previous.push(key);
        ring
    }

    /// Encrypts a secret of `owner` with the current key.
    pub fn seal(&self, nonce: [u8; NONCE_LEN], owner: &str, secret: &[u8]) -> Option<String> {
        self.current.seal(nonce, owner, secret)
    }

    /// Decrypts a secret of `owner` with the key that encrypted it.
    ///
    /// # Errors
    /// [`Sealed`].
    pub fn open(&self, owner: &str, sealed: &str) -> Result<Vec<u8>, Sealed> {
        match self.current.open(owner, sealed) {
            Err(Sealed::OtherKey) => {}
            opened => return opened,
        }
        let mut previous = self.previous.iter();
        previous
            .find_map(|key| match key.open(owner, sealed) {
                Err(Sealed::OtherKey) => None,
                opened => Some(opened),
            })
            .unwrap_or(Err(Sealed::OtherKey))
    }

    /// Whether a text was encrypted with the current key.
    pub fn is_current(&self, sealed: &str) -> bool {
        let mut parts = sealed.splitn(3, '.');
        parts.next() == Some(VERSION) && parts.next() == Some(&self.current.id)
    }

    /// The id of the current key; it reveals nothing about the key.
    pub fn id(&self) -> &str {
        &self.current.id
    }
}

/// A keyed hash of a digest: testing guesses of the digested value takes `key`.
pub fn keyed_digest(key: &[u8; 32], digest: &[u8; 32]) -> [u8; 32] {
    keyed_hash(key, digest)
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
fn keyed_hash(key: &[u8; 32], data: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.update(data);
    mac.finalize().into_bytes().into()
}

/// Owners of secrets. A secret decrypts for its owner only, so a value that was moved to another
/// row is rejected.
pub mod owner {
    use crate::hex::hex;

    /// The signing secret of a webhook subscription.
    pub fn webhook(id: &str) -> String {
        format!("webhook:{id}")
    }

    /// The signing secret of an organization's webhook.
    pub fn notice_webhook(id: &str) -> String {
        format!("aaaf-webhook:{id}")
    }

    /// A key with which an organization signs badges.
    pub fn issuer(organization: &str) -> String {
        format!("aaaf-issuer:{organization}")
    }

    /// The response stored under an idempotency key.
    pub fn idempotent_answer(tenant: &str, endpoint: &str, key_hash: &[u8]) -> String {
        format!("idempotency:{tenant}\0{endpoint}\0{}", hex(key_hash))
    }

    /// A secret that the host generated for itself.
    pub fn host_secret(name: &str) -> String {
        format!("host-secret:{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_decrypted_only_with_its_key_and_for_its_owner() {
        let key = SealingKey::of(&[1; 32]);
        let sealed = key.seal([2; 12], "webhook:a", b"whsec_canary").unwrap();
        assert!(!sealed.contains("canary"));
        assert_eq!(key.open("webhook:a", &sealed).unwrap(), b"whsec_canary");
        assert_eq!(key.open("webhook:b", &sealed), Err(Sealed::Changed));
        let other = SealingKey::of(&[3; 32]);
        assert_eq!(other.open("webhook:a", &sealed), Err(Sealed::OtherKey));
        let elsewhere = key.seal([4; 12], "webhook:a", b"whsec_canary").unwrap();
        assert_ne!(elsewhere, sealed);
    }

    #[test]
    fn a_ring_decrypts_with_every_key_and_encrypts_with_the_first() {
        let before = HostKeyRing::of(&[[1; 32]]).unwrap();
        let after = HostKeyRing::of(&[[2; 32]]).unwrap();
        let both = HostKeyRing::of(&[[2; 32], [1; 32]]).unwrap();
        let old = before.seal([9; 12], "a", b"secret").unwrap();
        let new = both.seal([9; 12], "a", b"secret").unwrap();
        assert!(!both.is_current(&old) && both.is_current(&new));
        assert_eq!(both.open("a", &old).unwrap(), b"secret");
        assert_eq!(after.open("a", &new).unwrap(), b"secret");
        assert_eq!(after.open("a", &old), Err(Sealed::OtherKey));
        assert_eq!(before.open("a", &new), Err(Sealed::OtherKey));
        assert_eq!(both.open("b", &old), Err(Sealed::Changed));
        assert!(HostKeyRing::of(&[]).is_none());
    }

    #[test]
    fn changed_and_malformed_ciphertexts_are_rejected() {
        let key = SealingKey::of(&[1; 32]);
        let sealed = key.seal([2; 12], "a", b"secret").unwrap();
        let last = sealed.len() - 1;
        let other = if sealed.ends_with('A') { "B" } else { "A" };
        let changed = format!("{}{other}", &sealed[..last]);
        assert!(key.open("a", &changed).is_err());
        for nothing in ["", "s1", "s1.", "plain", "s2.0.AAAA"] {
            assert_eq!(key.open("a", nothing), Err(Sealed::Malformed), "{nothing}");
        }
        let short = sealed.rsplit_once('.').unwrap().0;
        assert_eq!(
            key.open("a", &format!("{short}.AAAA")),
            Err(Sealed::Malformed)
        );
    }
}
