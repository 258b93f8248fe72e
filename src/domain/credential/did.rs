//! Who signs: DIDs whose keys can be had without asking anybody (`did:key`), or from one document (`did:web`).

use serde::{Deserialize, Serialize};

use crate::domain::pack::keys::PublicKey;

/// Multicodec of an Ed25519 public key, as a varint.
const ED25519: [u8; 2] = [0xed, 0x01];
/// Multibase of base58btc.
const BASE58: char = 'z';

/// A key as Multikey has it written.
pub fn multibase(key: &PublicKey) -> String {
    let octets = [&ED25519[..], key.as_octets()].concat();
    encode_base58(&octets)
}

/// Reads a Multikey; `None` if it is no sound Ed25519 key.
pub fn parse_multibase(text: &str) -> Option<PublicKey> {
    let octets = decode_base58(text)?;
    let raw = octets.strip_prefix(&ED25519)?;
    PublicKey::from_octets(raw).ok()
}

/// Multibase base58btc.
pub(super) fn encode_base58(octets: &[u8]) -> String {
    format!("{BASE58}{}", bs58::encode(octets).into_string())
}

pub(super) fn decode_base58(text: &str) -> Option<Vec<u8>> {
    // Longer than anything read here; decoding takes the square of the length.
    if text.len() > 128 {
        return None;
    }
    bs58::decode(text.strip_prefix(BASE58)?).into_vec().ok()
}

/// `did:key` of a key.
pub fn did_key(key: &PublicKey) -> String {
    format!("did:key:{}", multibase(key))
}

/// `did:web` of an organization of a host that is reached by HTTPS at `authority` (`host` or `host:port`).
pub fn did_web(authority: &str, organization: &str) -> String {
    // The method's own encoding: a colon separates the parts of the path.
    format!(
        "did:web:{}:orgs:{organization}",
        authority.replace(':', "%3A")
    )
}

/// The DID a verification method belongs to.
pub fn controller(method: &str) -> &str {
    method.split_once('#').map_or(method, |(did, _)| did)
}

/// Who signs, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatory {
    /// The issuer's DID.
    pub did: String,
    /// The key, as the DID's document names it.
    pub method: String,
}

impl Signatory {
    /// One whose DID is the key itself.
    pub fn by_key(key: &PublicKey) -> Self {
        let (did, name) = (did_key(key), multibase(key));
        Self {
            method: format!("{did}#{name}"),
            did,
        }
    }

    /// One whose document is at an address of the web. The key goes by its own name, so a new one never takes an old
    /// one's place.
    pub fn by_web(did: String, key: &PublicKey) -> Self {
        Self {
            method: format!("{did}#{}", multibase(key)),
            did,
        }
    }
}

/// A DID document, with what is read of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DidDocument {
    /// Contexts.
    #[serde(rename = "@context", default)]
    pub context: Vec<String>,
    /// The DID.
    pub id: String,
    /// Its keys.
    pub verification_method: Vec<VerificationMethod>,
    /// The keys whose word counts for credentials.
    pub assertion_method: Vec<String>,
}

/// A key in a DID document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationMethod {
    /// Its name.
    pub id: String,
    /// `Multikey`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whose it is.
    pub controller: String,
    /// The key.
    pub public_key_multibase: String,
}

impl DidDocument {
    /// The document of a `did:web`. Retired keys stay in it, so that what they signed can be verified; one that fell into
    /// other hands must not be given here any more.
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

/// Why there is no key to verify with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoKey {
    /// A `did:web` whose document was not given.
    #[error("the DID document of {0} is needed to find its keys")]
    DocumentNeeded(String),
    /// Its document does not name the key.
    #[error("the DID document of {0} lists no such key for assertions")]
    NotListed(String),
    /// Not a DID that is read.
    #[error("{0} is neither a did:key of an Ed25519 key nor a did:web")]
    Method(String),
}

/// The key a verification method names, from the DID itself or from one of the documents at hand.
///
/// # Errors
/// [`NoKey`].
pub fn resolve(method: &str, documents: &[DidDocument]) -> Result<PublicKey, NoKey> {
    let did = controller(method);
    if let Some(name) = did.strip_prefix("did:key:") {
        return parse_multibase(name)
            .filter(|_| method == format!("{did}#{name}"))
            .ok_or_else(|| NoKey::Method(did.to_owned()));
    }
    if !did.starts_with("did:web:") {
        return Err(NoKey::Method(did.to_owned()));
    }
    let document = documents
        .iter()
        .find(|document| document.id == did)
        .ok_or_else(|| NoKey::DocumentNeeded(did.to_owned()))?;
    document
        .key(method)
        .ok_or_else(|| NoKey::NotListed(did.to_owned()))
}
