//! `eddsa-rdfc-2022`: signing and verifying a document (Data Integrity EdDSA Cryptosuites 1.0
//! §3.2).

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::did::{self, DidDocument, KeyError, Signatory};
use super::rdf::{self, RdfError};
use touchstone_kit::keys::SecretKey;

const TYPE: &str = "DataIntegrityProof";
const SUITE: &str = "eddsa-rdfc-2022";
const PURPOSE: &str = "assertionMethod";

/// Why a document cannot be signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// A signature would not cover the whole document.
    #[error(transparent)]
    Content(#[from] RdfError),
    /// The document already has a proof.
    #[error("the document already has a proof")]
    Signed,
    /// The document names another issuer.
    #[error("the document's issuer is not the owner of the signing key")]
    Issuer,
}

/// Why a proof is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// A signature does not cover the whole document, or there is nothing to cover.
    #[error(transparent)]
    Content(#[from] RdfError),
    /// The document has no proof, or several.
    #[error("/proof must be exactly one proof object")]
    NoProof,
    /// The proof is of another kind.
    #[error(
        "/proof must use the cryptosuite `eddsa-rdfc-2022` and the purpose \
        `assertionMethod`"
    )]
    Kind,
    #[error("/proof/created is not a timestamp")]
    Created,
    /// Another issuer signed it.
    #[error("/proof/verificationMethod is not a key of the issuer")]
    Issuer,
    #[error(transparent)]
    KeyError(#[from] KeyError),
    /// The document was changed, or signed with another key.
    #[error(
        "/proof/proofValue does not verify: the document was changed, or signed with \
        another key"
    )]
    Signature,
}

/// The issuer of a credential: a DID, given as a string or as the id of an object.
pub fn issuer(credential: &Value) -> Option<&str> {
    let issuer = credential.get("issuer")?;
    issuer.get("id").unwrap_or(issuer).as_str()
}

/// Signs a document.
///
/// # Errors
/// [`SignError`].
pub fn sign(
    document: Value,
    signatory: &Signatory,
    key: &SecretKey,
    created: Timestamp,
) -> Result<Value, SignError> {
    if issuer(&document) != Some(signatory.did.as_str()) {
        return Err(SignError::Issuer);
    }
    let Value::Object(mut document) = document else {
        return Err(SignError::Issuer);
    };
    if document.contains_key("proof") {
        return Err(SignError::Signed);
    }
    let mut proof = Map::from_iter(
        [
            ("type", TYPE.to_owned()),
            ("cryptosuite", SUITE.to_owned()),
            ("created", moment(created)),
            ("verificationMethod", signatory.method.clone()),
            ("proofPurpose", PURPOSE.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), Value::String(value))),
    );
    let signature = key.sign(&to_sign(&document, &proof)?);
    proof.insert(
        "proofValue".to_owned(),
        json!(did::encode_base58(&signature)),
    );
    document.insert("proof".to_owned(), Value::Object(proof));
    Ok(Value::Object(document))
}

/// Verifies that the issuer signed the whole document. `documents` are those of `did:web` issuers.
///
/// # Errors
/// [`ProofError`].
pub fn verify(signed: &Value, documents: &[DidDocument]) -> Result<(), ProofError> {
    let mut document = signed.as_object().cloned().ok_or(ProofError::NoProof)?;
    let Some(Value::Object(mut proof)) = document.remove("proof") else {
        return Err(ProofError::NoProof);
    };
    let Some(Value::String(value)) = proof.remove("proofValue") else {
        return Err(ProofError::Signature);
    };
    let member = |name: &str| proof.get(name).and_then(Value::as_str);
    if (
        member("type"),
        member("cryptosuite"),
        member("proofPurpose"),
    ) != (Some(TYPE), Some(SUITE), Some(PURPOSE))
    {
        return Err(ProofError::Kind);
    }
    let created = member("created").map(str::parse::<Timestamp>);
    if !matches!(created, Some(Ok(_))) {
        return Err(ProofError::Created);
    }
    let message = to_sign(&document, &proof)?;
    let method = member("verificationMethod").ok_or(ProofError::Issuer)?;
    if issuer(signed) != Some(did::controller(method)) {
        return Err(ProofError::Issuer);
    }
    let key = did::resolve(method, documents)?;
    let signature = did::decode_base58(&value).ok_or(ProofError::Signature)?;
    if key.verifies(&message, &signature) {
        Ok(())
    } else {
        Err(ProofError::Signature)
    }
}

/// The bytes to sign: the digest of the proof options, then that of the document.
fn to_sign(document: &Map<String, Value>, proof: &Map<String, Value>) -> Result<Vec<u8>, RdfError> {
    let mut configuration = proof.clone();
    if let Some(context) = document.get("@context") {
        configuration.insert("@context".to_owned(), context.clone());
    }
    Ok([rdf::digest(&configuration)?, rdf::digest(document)?].concat())
}

/// A timestamp in whole seconds, because some readers do not accept fractions.
pub fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
