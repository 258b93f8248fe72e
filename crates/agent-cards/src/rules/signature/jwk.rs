//! Public keys as JSON (RFC 7517, RFC 7518 §6, RFC 8037), and their thumbprints (RFC 7638).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::algorithm::{Algorithm, KeyKind, PublicKey};

/// SHA-256 of the key material, independent of the key's JSON form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thumbprint([u8; 32]);

/// A key that can verify signatures of one algorithm.
pub(super) struct Verifier {
    key: PublicKey,
    thumbprint: Thumbprint,
}

impl Verifier {
    pub(super) fn verifies(&self, input: &[u8], signature: &[u8]) -> bool {
        self.key.verifies(input, signature)
    }

    pub(super) fn thumbprint(&self) -> Thumbprint {
        self.thumbprint
    }
}

/// A published key, not yet validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Jwk(Map<String, Value>);

impl Jwk {
    /// Accepts any object; the key is validated on use.
    pub fn read(value: Value) -> Option<Self> {
        match value {
            Value::Object(members) => Some(Self(members)),
            _ => None,
        }
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.text("kid")
    }

    fn present(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn octets(&self, name: &str) -> Option<Vec<u8>> {
        URL_SAFE_NO_PAD.decode(self.text(name)?).ok()
    }

    pub(super) fn has_id(&self, id: &Value) -> bool {
        id.is_string() && self.0.get("kid") == Some(id)
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.present("revoked")
            .is_some_and(|it| *it != Value::Bool(false))
    }

    pub(super) fn expiry(&self) -> Option<&Value> {
        self.present("exp")
    }

    /// A verifier for `algorithm`, if the key fits it and is meant for signatures.
    pub(super) fn verifier(&self, algorithm: Algorithm) -> Option<Verifier> {
        let fits = |name: &str, wanted: &str| {
            self.present(name)
                .is_none_or(|it| it.as_str() == Some(wanted))
        };
        let verifies = self.present("key_ops").is_none_or(|it| {
            it.as_array()
                .is_some_and(|all| all.iter().any(|one| one.as_str() == Some("verify")))
        });
        if !fits("alg", algorithm.name()) || !fits("use", "sig") || !verifies {
            return None;
        }
        let (key, identity) = match algorithm.key_kind() {
            KeyKind::Elliptic { curve, octets } => self.elliptic(algorithm, curve, octets)?,
            KeyKind::Edwards => self.edwards()?,
            KeyKind::Rsa => self.rsa(algorithm)?,
        };
        let thumbprint = Thumbprint(Sha256::digest(identity).into());
        Some(Verifier { key, thumbprint })
    }

    fn is(&self, kty: &str, crv: Option<&str>) -> Option<()> {
        let of_kind = self.text("kty") == Some(kty);
        (of_kind && crv.is_none_or(|crv| self.text("crv") == Some(crv))).then_some(())
    }

    fn elliptic(
        &self,
        algorithm: Algorithm,
        crv: &str,
        width: usize,
    ) -> Option<(PublicKey, String)> {
        self.is("EC", Some(crv))?;
        let (x, y) = (self.octets("x")?, self.octets("y")?);
        if x.len() != width || y.len() != width {
            return None;
        }
        let identity = format!(
            r#"{{"crv":"{crv}","kty":"EC","x":"{}","y":"{}"}}"#,
            encode(&x),
            encode(&y)
        );
        Some((PublicKey::elliptic(algorithm, &x, &y)?, identity))
    }

    fn edwards(&self) -> Option<(PublicKey, String)> {
        self.is("OKP", Some("Ed25519"))?;
        let x = self.octets("x")?;
        let identity = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, encode(&x));
        Some((PublicKey::edwards(&x)?, identity))
    }

    fn rsa(&self, algorithm: Algorithm) -> Option<(PublicKey, String)> {
        self.is("RSA", None)?;
        // Some libraries prepend a zero, which RFC 7518 §6.3.1.1 forbids but which does not change
        // the number.
        let (n, e) = (
            without_zeros(self.octets("n")?),
            without_zeros(self.octets("e")?),
        );
        let identity = format!(
            r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#,
            encode(&e),
            encode(&n)
        );
        Some((PublicKey::rsa(algorithm, n, e)?, identity))
    }
}

fn encode(octets: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(octets)
}

fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    number.into_iter().skip_while(|octet| *octet == 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thumbprint_is_the_one_of_rfc_7638() {
        // RFC 7638 §3.1; members other than the key material are ignored.
        let key = serde_json::json!({
            "kty": "RSA",
            "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
            "e": "AQAB",
            "alg": "RS256",
            "kid": "2011-04-29"
        });
        let key = Jwk::read(key).unwrap();
        let verifier = key.verifier(Algorithm::Rs256).unwrap();
        assert_eq!(
            encode(&verifier.thumbprint().0),
            "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
        );
        assert!(key.verifier(Algorithm::Ps256).is_none());
    }
}
