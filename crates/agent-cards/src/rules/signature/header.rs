//! The protected header of a signature (RFC 7515 §4), before its key is known.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::Reason;
use super::algorithm::Algorithm;
use touchstone_kit::json;

/// Maximum size of a protected header in bytes.
pub const MAX_HEADER_OCTETS: usize = 8 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub struct Header(Map<String, Value>);

/// Decodes canonical base64url without padding. Other spellings of the same bytes are refused, so
/// that a signature has only one form.
pub fn decode(value: Option<&Value>) -> Result<Vec<u8>, Reason> {
    value
        .and_then(Value::as_str)
        .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())
        .ok_or(Reason::BadEncoding)
}

impl Header {
    pub fn parse(bytes: &[u8]) -> Result<Self, Reason> {
        if bytes.len() > MAX_HEADER_OCTETS {
            return Err(Reason::HeaderNotJson);
        }
        match json::parse_foreign(bytes) {
            Ok(Value::Object(members)) => Ok(Self(members)),
            _ => Err(Reason::HeaderNotJson),
        }
    }

    /// The algorithm, if it is supported and the header requires no extension.
    pub fn algorithm(&self) -> Result<Algorithm, Reason> {
        let name = self
            .0
            .get("alg")
            .and_then(Value::as_str)
            .ok_or(Reason::AlgMissing)?;
        if name.eq_ignore_ascii_case("none") || name.starts_with("HS") {
            return Err(Reason::AlgForbidden);
        }
        // RFC 7797: without base64 encoding of the payload, the signed bytes differ.
        let plain = self.0.get("b64").is_some_and(|it| *it != Value::Bool(true));
        if plain || self.0.contains_key("crit") {
            return Err(Reason::CritUnsupported);
        }
        Algorithm::named(name).ok_or(Reason::AlgUnsupported)
    }

    fn present(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// The key id. A value that is not a string names no key.
    pub fn key_id(&self) -> Option<&Value> {
        self.present("kid")
    }

    /// The header's URL of the key set.
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

    /// A deviation that does not make the header invalid.
    pub fn warning(&self) -> Option<&'static str> {
        let odd = self
            .present("typ")
            .is_some_and(|it| it.as_str() != Some("JOSE"));
        odd.then_some("the protected header's `typ` is not `JOSE`")
    }
}
