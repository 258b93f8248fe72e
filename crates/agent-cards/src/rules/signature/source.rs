//! A parsed signature, and the source of its key.

use serde_json::Value;
use url::Url;

use super::algorithm::Algorithm;
use super::header::{self, Header};
use super::jwk::Jwk;
use super::{Keys, Reason};
use crate::rules::web_url;

/// The source of a key.
#[derive(Clone, Debug)]
pub enum Source<'a> {
    /// The operator's trust store.
    Trusted(&'a Jwk),
    KeySet {
        /// Its URL as in the header.
        text: String,
        /// The parsed URL.
        url: Url,
    },
}

/// A parsed signature whose key is still missing.
#[derive(Clone, Debug)]
pub struct Prepared<'a> {
    pub header: Header,
    /// The protected header as it was signed.
    pub protected: String,
    pub signature: Vec<u8>,
    pub algorithm: Algorithm,
    pub source: Source<'a>,
}

/// Parses a signature of a card.
pub fn prepare<'a>(signature: &Value, keys: &'a Keys) -> Result<Prepared<'a>, Reason> {
    let protected = signature.get("protected");
    let bytes = header::decode(protected)?;
    let signed = header::decode(signature.get("signature"))?;
    let header = Header::parse(&bytes)?;
    let algorithm = header.algorithm()?;
    let source = locate(&header, keys)?;
    Ok(Prepared {
        header,
        protected: protected
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        signature: signed,
        algorithm,
        source,
    })
}

fn locate<'a>(header: &Header, keys: &'a Keys) -> Result<Source<'a>, Reason> {
    let trusted = header
        .key_id()
        .and_then(Value::as_str)
        .and_then(|id| keys.trust_store.get(id));
    if let Some(key) = trusted {
        return Ok(Source::Trusted(key));
    }
    let text = header.key_set().ok_or(Reason::NoKeySource)?;
    let text = text.as_str().ok_or(Reason::JkuNotHttps)?;
    let url = web_url::parse_https(text).ok_or(Reason::JkuNotHttps)?;
    if keys.allowed.forbids(&url) {
        return Err(Reason::JkuForbiddenAddress);
    }
    Ok(Source::KeySet {
        text: text.to_owned(),
        url,
    })
}
