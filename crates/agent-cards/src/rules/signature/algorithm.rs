//! Signature algorithms (RFC 7518 §3.1, RFC 8037): the keys they take, and verification.
//!
//! Uses *ring*, the host's only cryptography provider, except for two algorithms: ring has no
//! P-521, and its Ed25519 accepts points of small order, for which any message verifies. JWS
//! libraries bring their own provider, know fewer algorithms, and verify one payload where a card
//! has three.

use ed25519_dalek::VerifyingKey as EdwardsKey;
use p521::ecdsa::signature::Verifier as _;
use ring::signature as ring;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
    /// RSA, PKCS #1 v1.5.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSA, PSS.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
    /// Ed25519.
    EdDsa,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A point on a NIST curve.
    Elliptic {
        curve: &'static str,
        /// Bytes of a coordinate.
        octets: usize,
    },
    /// A point on edwards25519.
    Edwards,
    /// A modulus and an exponent.
    Rsa,
}

const ALL: [Algorithm; 10] = [
    Algorithm::Es256,
    Algorithm::Es384,
    Algorithm::Es512,
    Algorithm::Rs256,
    Algorithm::Rs384,
    Algorithm::Rs512,
    Algorithm::Ps256,
    Algorithm::Ps384,
    Algorithm::Ps512,
    Algorithm::EdDsa,
];

impl Algorithm {
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|it| it.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The kind of key that the algorithm takes.
    pub const fn key_kind(self) -> KeyKind {
        let (curve, octets) = match self {
            Self::Es256 => ("P-256", 32),
            Self::Es384 => ("P-384", 48),
            Self::Es512 => ("P-521", 66),
            Self::EdDsa => return KeyKind::Edwards,
            _ => return KeyKind::Rsa,
        };
        KeyKind::Elliptic { curve, octets }
    }
}

/// Size of an RSA modulus in bits: smaller ones can be factored; larger ones take too long to
/// verify for untrusted keys.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
/// Maximum length of the public exponent in bytes.
const MAX_EXPONENT: usize = 4;

pub(super) enum PublicKey {
    Elliptic(&'static ring::EcdsaVerificationAlgorithm, Vec<u8>),
    P521(Box<p521::ecdsa::VerifyingKey>),
    Edwards(Box<EdwardsKey>),
    Rsa(
        &'static ring::RsaParameters,
        ring::RsaPublicKeyComponents<Vec<u8>>,
    ),
}

impl PublicKey {
    /// Creates a key from the coordinates of a point, each padded to the curve's width.
    pub(super) fn elliptic(algorithm: Algorithm, x: &[u8], y: &[u8]) -> Option<Self> {
        // SEC 1 §2.3.3, uncompressed.
        let point = [&[4], x, y].concat();
        match algorithm {
            Algorithm::Es256 => Some(Self::Elliptic(&ring::ECDSA_P256_SHA256_FIXED, point)),
            Algorithm::Es384 => Some(Self::Elliptic(&ring::ECDSA_P384_SHA384_FIXED, point)),
            Algorithm::Es512 => p521::ecdsa::VerifyingKey::from_sec1_bytes(&point)
                .ok()
                .map(|key| Self::P521(Box::new(key))),
            _ => None,
        }
    }

    /// Creates a key from a compressed point.
    pub(super) fn edwards(x: &[u8]) -> Option<Self> {
        let key = EdwardsKey::from_bytes(x.try_into().ok()?).ok()?;
        (!key.is_weak()).then(|| Self::Edwards(Box::new(key)))
    }

    /// Creates a key from a modulus and an exponent without leading zeros.
    pub(super) fn rsa(algorithm: Algorithm, n: Vec<u8>, e: Vec<u8>) -> Option<Self> {
        let bits = n.len() * 8 - n.first()?.leading_zeros() as usize;
        let odd = |number: &[u8]| number.last().is_some_and(|octet| octet % 2 == 1);
        let exponent = odd(&e) && e.len() <= MAX_EXPONENT && e.as_slice() != [1];
        if !RSA_BITS.contains(&bits) || !odd(&n) || !exponent {
            return None;
        }
        let parameters = match algorithm {
            Algorithm::Rs256 => &ring::RSA_PKCS1_2048_8192_SHA256,
            Algorithm::Rs384 => &ring::RSA_PKCS1_2048_8192_SHA384,
            Algorithm::Rs512 => &ring::RSA_PKCS1_2048_8192_SHA512,
            Algorithm::Ps256 => &ring::RSA_PSS_2048_8192_SHA256,
            Algorithm::Ps384 => &ring::RSA_PSS_2048_8192_SHA384,
            Algorithm::Ps512 => &ring::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        };
        Some(Self::Rsa(parameters, ring::RsaPublicKeyComponents { n, e }))
    }

    /// Whether `signature` over `input` verifies with this key. ECDSA signatures are the two
    /// concatenated numbers, never DER.
    pub(super) fn verifies(&self, input: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Elliptic(algorithm, point) => ring::UnparsedPublicKey::new(*algorithm, point)
                .verify(input, signature)
                .is_ok(),
            Self::P521(key) => p521::ecdsa::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify(input, &signature).is_ok()),
            Self::Edwards(key) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(input, &signature).is_ok()),
            Self::Rsa(parameters, key) => key.verify(parameters, input, signature).is_ok(),
        }
    }
}
