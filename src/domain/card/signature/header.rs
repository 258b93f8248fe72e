//! The protected header of a signature (RFC 7515 §4), as far as it may be relied on before a key is known.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::Reason;
use super::algorithm::Algorithm;
use crate::protocol::json;

/// Octets a protected header may have.
pub const MAX_HEADER_OCTETS: usize = 8 * 1024;

/// A protected header.
#[derive(Clone, Debug, PartialEq)]
pub struct Header(Map<String, Value>);

/// A string in canonical base64url without padding: of several spellings of the same octets only one is read, so that a
/// signature has one form.
pub fn decode(value: Option<&Value>) -> Result<Vec<u8>, Reason> {
    value
        .and_then(Value::as_str)
        .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
        .ok_or(Reason::BadEncoding)
}

impl Header {
    /// Reads the decoded header.
    pub fn parse(octets: &[u8]) -> Result<Self, Reason> {
        if octets.len() > MAX_HEADER_OCTETS {
            return Err(Reason::HeaderNotJson);
        }
        match json::parse_foreign(octets) {
            Ok(Value::Object(members)) => Ok(Self(members)),
            _ => Err(Reason::HeaderNotJson),
        }
    }

    /// The algorithm, if the header asks for nothing but one that is known.
    pub fn algorithm(&self) -> Result<Algorithm, Reason> {
        let name = self
            .0
            .get("alg")
            .and_then(Value::as_str)
            .ok_or(Reason::AlgMissing)?;
        if name.eq_ignore_ascii_case("none") || name.starts_with("HS") {
            return Err(Reason::AlgForbidden);
        }
        // RFC 7797: without the base64 encoding of the payload, what is signed is something else.
        let plain = self.0.get("b64").is_some_and(|it| *it != Value::Bool(true));
        if plain || self.0.contains_key("crit") {
            return Err(Reason::CritUnsupported);
        }
        Algorithm::named(name).ok_or(Reason::AlgUnsupported)
    }

    fn present(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// The key's id. One that is no string names no key.
    pub fn key_id(&self) -> Option<&Value> {
        self.present("kid")
    }

    /// Where the header says the key set is.
    pub fn key_set(&self) -> Option<&Value> {
        self.present("jku").or_else(|| self.present("jwks_uri"))
    }

    /// `exp`.
    pub fn expiry(&self) -> Option<&Value> {
        self.present("exp")
    }

    /// `nbf`.
    pub fn not_before(&self) -> Option<&Value> {
        self.present("nbf")
    }

    /// `iat`.
    pub fn issued_at(&self) -> Option<&Value> {
        self.present("iat")
    }

    /// What is odd about it without being wrong.
    pub fn warning(&self) -> Option<&'static str> {
        let odd = self
            .present("typ")
            .is_some_and(|it| it.as_str() != Some("JOSE"));
        odd.then_some("the protected header's `typ` is not `JOSE`")
    }
}
