//! Issuers: DIDs whose keys are available without a request (`did:key`), or from one document
//! (`did:web`).

use serde::{Deserialize, Serialize};

use touchstone_kit::keys::PublicKey;

/// Multicodec prefix of an Ed25519 public key, as a varint.
const ED25519: [u8; 2] = [0xed, 0x01];
/// Multibase prefix of base58btc.
const BASE58: char = 'z';

/// The key as a Multikey.
pub fn multibase(key: &PublicKey) -> String {
    let bytes = [&ED25519[..], key.as_octets()].concat();
    encode_base58(&bytes)
}

/// Reads a Multikey; `None` if it is not a valid Ed25519 key.
pub fn parse_multibase(text: &str) -> Option<PublicKey> {
    let bytes = decode_base58(text)?;
    let raw = bytes.strip_prefix(&ED25519)?;
    PublicKey::from_octets(raw).ok()
}

/// Encodes as multibase base58btc.
pub(super) fn encode_base58(bytes: &[u8]) -> String {
    format!("{BASE58}{}", bs58::encode(bytes).into_string())
}

pub(super) fn decode_base58(text: &str) -> Option<Vec<u8>> {
    // No valid key is longer, and decoding time grows with the square of the length.
    if text.len() > 128 {
        return None;
    }
    bs58::decode(text.strip_prefix(BASE58)?).into_vec().ok()
}

/// The `did:key` of a key.
pub fn did_key(key: &PublicKey) -> String {
    format!("did:key:{}", multibase(key))
}

/// The `did:web` of an organization on a host that is served over HTTPS at `authority` (`host` or
/// `host:port`).
pub fn did_web(authority: &str, organization: &str) -> String {
    // In did:web, a colon separates path segments, so the port's colon is escaped.
    format!(
        "did:web:{}:orgs:{organization}",
        authority.replace(':', "%3A")
    )
}

/// The DID that a verification method belongs to.
pub fn controller(method: &str) -> &str {
    method.split_once('#').map_or(method, |(did, _)| did)
}

/// An issuer and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatory {
    pub did: String,
    /// The key's id in the DID document.
    pub method: String,
}

impl Signatory {
    /// An issuer whose DID is the key itself.
    pub fn by_key(key: &PublicKey) -> Self {
        let (did, name) = (did_key(key), multibase(key));
        Self {
            method: format!("{did}#{name}"),
            did,
        }
    }

    /// An issuer with a `did:web` document. The key's id is derived from the key, so a new key
    /// never takes an old one's id.
    pub fn by_web(did: String, key: &PublicKey) -> Self {
        Self {
            method: format!("{did}#{}", multibase(key)),
            did,
        }
    }
}

/// The members of a DID document that are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DidDocument {
    #[serde(rename = "@context", default)]
    pub context: Vec<String>,
    pub id: String,
    pub verification_method: Vec<VerificationMethod>,
    /// The keys that may sign credentials.
    pub assertion_method: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationMethod {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub controller: String,
    pub public_key_multibase: String,
}

impl DidDocument {
    /// The document of a `did:web`. Include retired keys, so that their signatures can be verified,
    /// and leave out exposed ones.
    pub fn new<'a>(did: &str, keys: impl IntoIterator<Item = &'a PublicKey>) -> Self {
        let verification_method: Vec<VerificationMethod> = keys
            .into_iter()
            .map(|key| VerificationMethod {
                id: Signatory::by_web(did.to_owned(), key).method,
                kind: "Multikey".to_owned(),
                controller: did.to_owned(),
                public_key_multibase: multibase(key),
            })
            .collect();
        Self {
            context: vec![
                "https://www.w3.org/ns/did/v1".to_owned(),
                "https://w3id.org/security/multikey/v1".to_owned(),
            ],
            id: did.to_owned(),
            assertion_method: verification_method.iter().map(|it| it.id.clone()).collect(),
            verification_method,
        }
    }

    fn key(&self, method: &str) -> Option<PublicKey> {
        let listed = self.verification_method.iter().find(|it| it.id == method)?;
        let entitled = listed.kind == "Multikey"
            && listed.controller == self.id
            && self.assertion_method.iter().any(|it| it == method);
        entitled
            .then(|| parse_multibase(&listed.public_key_multibase))
            .flatten()
    }
}

/// Why the verification key is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The document of a `did:web` was not given.
    #[error("the DID document of {0} is needed to find its keys")]
    DocumentNeeded(String),
    /// The document does not list the key.
    #[error("the DID document of {0} lists no such key for assertions")]
    NotListed(String),
    /// Not a supported DID method.
    #[error("{0} is neither a did:key of an Ed25519 key nor a did:web")]
    Method(String),
}

/// The key that a verification method names, from the DID itself or from one of the given
/// documents.
///
/// # Errors
/// [`KeyError`].
pub fn resolve(method: &str, documents: &[DidDocument]) -> Result<PublicKey, KeyError> {
    let did = controller(method);
    if let Some(name) = did.strip_prefix("did:key:") {
        return parse_multibase(name)
            .filter(|_| method == format!("{did}#{name}"))
            .ok_or_else(|| KeyError::Method(did.to_owned()));
    }
    if !did.starts_with("did:web:") {
        return Err(KeyError::Method(did.to_owned()));
    }
    let document = documents
        .iter()
        .find(|document| document.id == did)
        .ok_or_else(|| KeyError::DocumentNeeded(did.to_owned()))?;
    document
        .key(method)
        .ok_or_else(|| KeyError::NotListed(did.to_owned()))
}
