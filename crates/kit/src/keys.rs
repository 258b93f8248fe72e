//! Ed25519 keys and signatures.
//!
//! RFC 8032, pure, detached, 64 raw bytes. Verification is strict: S must be below the group order,
//! and points of small order are refused, because one fixed signature would verify every message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
};
use ed25519_dalek::{Signature, Signer as _, SigningKey as DalekSigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use crate::hex::hex;

/// Length of a signature in bytes.
pub const SIGNATURE_OCTETS: usize = 64;
/// Maximum size of a key file in bytes.
pub const MAX_KEY_OCTETS: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The key has an unsupported form.
    #[error(
        "is not an Ed25519 public key; a PEM file with `BEGIN PUBLIC KEY`, or base64 of its 32 \
        bytes, is expected"
    )]
    Form,
    /// A point for which any message verifies.
    #[error("is a point of small order, which would accept forged signatures")]
    SmallOrder,
    #[error("is not an Ed25519 private key; a PEM file with `BEGIN PRIVATE KEY` is expected")]
    Private,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads a PEM SPKI document.
    ///
    /// # Errors
    /// The document has another form or algorithm, or the point has small order.
    pub fn from_pem(bytes: &[u8]) -> Result<Self, KeyFault> {
        if bytes.len() > MAX_KEY_OCTETS {
            return Err(KeyFault::Form);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| KeyFault::Form)?;
        Self::sound(VerifyingKey::from_public_key_pem(text.trim_end()).map_err(|_| KeyFault::Form)?)
    }

    /// Reads PEM, base64 of SPKI, or base64 of the raw 32 bytes.
    ///
    /// # Errors
    /// As [`PublicKey::from_pem`].
    pub fn from_text(text: &str) -> Result<Self, KeyFault> {
        let text = text.trim();
        if text.starts_with("-----BEGIN") {
            return Self::from_pem(text.as_bytes());
        }
        if text.len() > MAX_KEY_OCTETS {
            return Err(KeyFault::Form);
        }
        let bytes = STANDARD.decode(text).map_err(|_| KeyFault::Form)?;
        let key = match <[u8; 32]>::try_from(bytes.as_slice()) {
            Ok(raw) => VerifyingKey::from_bytes(&raw).map_err(|_| KeyFault::Form)?,
            Err(_) => VerifyingKey::from_public_key_der(&bytes).map_err(|_| KeyFault::Form)?,
        };
        Self::sound(key)
    }

    /// Reads the raw 32 bytes of a key.
    ///
    /// # Errors
    /// As [`PublicKey::from_pem`].
    pub fn from_octets(bytes: &[u8]) -> Result<Self, KeyFault> {
        let raw = <&[u8; 32]>::try_from(bytes).map_err(|_| KeyFault::Form)?;
        Self::sound(VerifyingKey::from_bytes(raw).map_err(|_| KeyFault::Form)?)
    }

    fn sound(key: VerifyingKey) -> Result<Self, KeyFault> {
        if key.is_weak() {
            Err(KeyFault::SmallOrder)
        } else {
            Ok(Self(key))
        }
    }

    /// PEM, SPKI.
    #[expect(clippy::expect_used, reason = "encoding 32 bytes cannot fail")]
    pub fn to_pem(&self) -> String {
        let encoded = self.0.to_public_key_pem(LineEnding::LF);
        encoded.expect("an Ed25519 key has an SPKI encoding")
    }

    pub fn as_octets(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// Base64 of the raw bytes.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0.as_bytes())
    }

    /// Base64 of the SPKI encoding.
    pub fn to_spki_base64(&self) -> String {
        STANDARD.encode(self.to_spki())
    }

    #[expect(clippy::expect_used, reason = "encoding 32 bytes cannot fail")]
    fn to_spki(&self) -> Vec<u8> {
        let encoded = self.0.to_public_key_der();
        let encoded = encoded.expect("an Ed25519 key has an SPKI encoding");
        encoded.as_bytes().to_vec()
    }

    /// Hexadecimal SHA-256 of the key's SPKI encoding: an id that needs no registration.
    pub fn fingerprint(&self) -> String {
        hex(&Sha256::digest(self.to_spki()))
    }

    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature)
            .is_ok_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }
}

/// A private key. Its memory is wiped on drop.
pub struct SecretKey(DalekSigningKey);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

impl SecretKey {
    /// Creates the key from 32 random bytes.
    pub fn from_random(bytes: [u8; 32]) -> Self {
        Self(DalekSigningKey::from_bytes(&bytes))
    }

    /// Reads PEM, PKCS #8.
    ///
    /// # Errors
    /// The text has another form or algorithm.
    pub fn from_pem(text: &str) -> Result<Self, KeyFault> {
        DalekSigningKey::from_pkcs8_pem(text.trim_end())
            .map(Self)
            .map_err(|_| KeyFault::Private)
    }

    /// PEM, PKCS #8. Write it only to a file that only its owner can read.
    #[expect(clippy::expect_used, reason = "encoding 32 bytes cannot fail")]
    pub fn to_pem(&self) -> String {
        let encoded = self.0.to_pkcs8_pem(LineEnding::LF);
        encoded
            .expect("an Ed25519 key has a PKCS #8 encoding")
            .to_string()
    }

    /// The raw secret, for key derivation.
    pub fn to_octets(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_OCTETS] {
        self.0.sign(message).to_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> SecretKey {
        SecretKey::from_random([7; 32])
    }

    #[test]
    fn a_signature_verifies_over_its_message_only() {
        let (secret, other) = (secret(), SecretKey::from_random([8; 32]));
        let signature = secret.sign(b"pack");
        assert!(secret.public().verifies(b"pack", &signature));
        assert!(!secret.public().verifies(b"pack.", &signature));
        assert!(!other.public().verifies(b"pack", &signature));
        assert!(!secret.public().verifies(b"pack", &signature[..63]));
        let longer = [&signature[..], &[0]].concat();
        assert!(!secret.public().verifies(b"pack", &longer));
    }

    #[test]
    fn a_malleated_signature_is_refused() {
        // S + L, little-endian.
        const L: [u8; 32] = [
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9,
            0xde, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
        ];
        let mut signature = secret().sign(b"pack");
        let mut carry = 0_u16;
        for (octet, l) in signature[32..].iter_mut().zip(L) {
            let sum = u16::from(*octet) + u16::from(l) + carry;
            *octet = sum.to_le_bytes()[0];
            carry = sum >> 8;
        }
        assert!(!secret().public().verifies(b"pack", &signature));
    }

    #[test]
    fn a_public_key_of_small_order_is_rejected() {
        let mut identity = [0_u8; 32];
        identity[0] = 1;
        let text = STANDARD.encode(identity);
        assert_eq!(PublicKey::from_text(&text), Err(KeyFault::SmallOrder));
    }

    #[test]
    fn a_public_key_is_read_in_its_three_forms() {
        let key = secret().public();
        let pem = key.to_pem();
        let spki: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        for text in [pem.as_str(), &format!("{pem}\n"), &spki, &key.to_base64()] {
            assert_eq!(PublicKey::from_text(text).as_ref(), Ok(&key));
        }
        assert_eq!(
            PublicKey::from_pem(key.to_base64().as_bytes()),
            Err(KeyFault::Form)
        );
    }

    #[test]
    fn a_secret_key_survives_pem_encoding() {
        let again = SecretKey::from_pem(&secret().to_pem()).unwrap();
        assert_eq!(again.public(), secret().public());
        assert!(SecretKey::from_pem(&secret().public().to_pem()).is_err());
        assert_eq!(format!("{again:?}"), "SecretKey");
    }
}
