//! A valid card, changes to it, and keys that sign it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::Signer as _;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
    RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use touchstone_agent_cards::rules::signature::{Jwk, KeySetAnswer, Keys};
use touchstone_agent_cards::rules::{Context, Live, Scorecard, score};

/// 2026-06-01T12:00:00Z, when every card here is scored.
pub const NOW: i64 = 1_780_315_200;
pub const DAY: i64 = 86_400;
/// URL of the key set.
pub const KEY_SET: &str = "https://keys.harbour.example/set.json";

pub fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

/// An unsigned card without faults.
pub fn card() -> Value {
    json!({
        "protocolVersion": "0.3.0",
        "name": "Berth Planner",
        "description": "Finds a berth for a ship by its draught and its cargo.",
        "url": "https://berths.harbour.example/a2a",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [
            {"url": "https://berths.harbour.example/a2a", "transport": "JSONRPC"},
            {"url": "https://berths.harbour.example/rest", "transport": "HTTP+JSON"},
        ],
        "provider": {"organization": "Harbour Office", "url": "https://harbour.example"},
        "version": "3.1.0",
        "documentationUrl": "https://harbour.example/docs",
        "iconUrl": "https://harbour.example/anchor.svg",
        "termsOfServiceUrl": "https://harbour.example/terms",
        "privacyPolicyUrl": "https://harbour.example/privacy",
        "capabilities": {"streaming": true, "pushNotifications": false},
        "securitySchemes": {"pass": {"type": "oauth2", "flows": {"clientCredentials": {
            "tokenUrl": "https://login.harbour.example/token", "scopes": {"berths": "read berths"},
        }}}},
        "security": [{"pass": ["berths"]}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["application/json"],
        "skills": [
            {"id": "find", "name": "Find a berth", "description": "Proposes berths.", "tags": ["port"]},
            {"id": "book", "name": "Book a berth", "description": "Reserves one.", "tags": ["port", "booking"]},
        ],
    })
}

/// A change to a card.
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets a value at a pointer, whose parent must exist.
    Set(&'static str, Value),
    /// Removes the value at a pointer.
    Cut(&'static str),
}

/// Applies changes to a card.
pub fn changed(mut card: Value, changes: &[Change]) -> Value {
    for change in changes {
        let (Change::Set(pointer, _) | Change::Cut(pointer)) = change;
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match (card.pointer_mut(parent).unwrap(), change) {
            (Value::Object(members), Change::Set(_, value)) => {
                members.insert(name.to_owned(), value.clone());
            }
            (Value::Object(members), Change::Cut(_)) => {
                members.remove(name).unwrap();
            }
            (Value::Array(entries), Change::Set(_, value)) => {
                let place: usize = name.parse().unwrap();
                entries.truncate(entries.len().max(place));
                if place == entries.len() {
                    entries.push(value.clone());
                } else {
                    entries[place] = value.clone();
                }
            }
            (other, change) => panic!("{change:?} of {other}"),
        }
    }
    card
}

/// Scores a card offline.
pub fn scored(card: &Value, keys: &Keys) -> Scorecard {
    let context = Context {
        now: now(),
        keys: Some(keys),
        live: Live::Disabled,
    };
    score(&serde_json::to_vec(card).unwrap(), &context)
}

/// Each finding as code and pointer, sorted.
pub fn issues(scorecard: &Scorecard) -> Vec<String> {
    let mut issues: Vec<_> = scorecard
        .issues
        .iter()
        .map(|it| {
            let code = serde_json::to_value(it.code).unwrap();
            format!("{} {}", code.as_str().unwrap(), it.path)
        })
        .collect();
    issues.sort();
    issues
}

enum Secret {
    Elliptic(EcdsaKeyPair),
    P521(Box<p521::ecdsa::SigningKey>),
    Edwards(ed25519_dalek::SigningKey),
    Rsa(Box<RsaKeyPair>),
}

pub struct Signer {
    id: &'static str,
    secret: Secret,
}

pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn elliptic(id: &'static str, algorithm: &'static EcdsaSigningAlgorithm) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self {
            id,
            secret: Secret::Elliptic(pair),
        }
    }

    pub fn id(&self) -> &'static str {
        self.id
    }

    pub fn jwk(&self) -> Value {
        let point = |curve: &str, point: &[u8]| {
            let (x, y) = point[1..].split_at((point.len() - 1) / 2);
            json!({"kty": "EC", "crv": curve, "x": encode(x), "y": encode(y), "kid": self.id})
        };
        match &self.secret {
            Secret::Elliptic(pair) => {
                let bytes = pair.public_key().as_ref();
                point(if bytes.len() == 65 { "P-256" } else { "P-384" }, bytes)
            }
            Secret::P521(key) => {
                point("P-521", key.verifying_key().to_sec1_point(false).as_bytes())
            }
            Secret::Edwards(key) => json!({
                "kty": "OKP", "crv": "Ed25519", "x": encode(key.verifying_key().as_bytes()), "kid": self.id,
            }),
            Secret::Rsa(pair) => {
                let key = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "kid": self.id, "n": encode(&key.n), "e": encode(&key.e)})
            }
        }
    }

    fn sign(&self, algorithm: &str, input: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.secret {
            Secret::Elliptic(pair) => pair.sign(&random, input).unwrap().as_ref().to_vec(),
            Secret::P521(key) => {
                use p521::ecdsa::signature::Signer as _;
                let signature: p521::ecdsa::Signature = key.sign(input);
                signature.to_bytes().to_vec()
            }
            Secret::Edwards(key) => key.sign(input).to_bytes().to_vec(),
            Secret::Rsa(pair) => {
                let padding: &dyn ring::signature::RsaEncoding = match algorithm {
                    "RS256" => &RSA_PKCS1_SHA256,
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    _ => &RSA_PSS_SHA512,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, input, &mut signature).unwrap();
                signature
            }
        }
    }

    /// Signs bytes with a protected header.
    pub fn seal(&self, header: &Value, payload: &[u8]) -> Value {
        let protected = encode(&serde_json::to_vec(header).unwrap());
        let input = format!("{protected}.{}", encode(payload));
        let algorithm = header["alg"].as_str().unwrap_or_default();
        let signature = self.sign(algorithm, input.as_bytes());
        json!({"protected": protected, "signature": encode(&signature)})
    }
}

/// All keys that the tests sign with.
pub struct Signers {
    pub es256: Signer,
    pub other: Signer,
    pub es384: Signer,
    pub es512: Signer,
    pub ed25519: Signer,
    pub rsa: Signer,
}

pub static SIGNERS: LazyLock<Signers> = LazyLock::new(|| {
    let text: String = include_str!("keys/rsa-2048.txt")
        .split_whitespace()
        .collect();
    let rsa = RsaKeyPair::from_pkcs8(&STANDARD.decode(text).unwrap()).unwrap();
    let p521 = p521::ecdsa::SigningKey::from_slice(&[1; 66]).unwrap();
    Signers {
        es256: Signer::elliptic("quay-1", &ECDSA_P256_SHA256_FIXED_SIGNING),
        other: Signer::elliptic("quay-2", &ECDSA_P256_SHA256_FIXED_SIGNING),
        es384: Signer::elliptic("quay-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
        es512: Signer {
            id: "quay-521",
            secret: Secret::P521(Box::new(p521)),
        },
        ed25519: Signer {
            id: "quay-ed",
            secret: Secret::Edwards(ed25519_dalek::SigningKey::from_bytes(&[9; 32])),
        },
        rsa: Signer {
            id: "quay-rsa",
            secret: Secret::Rsa(Box::new(rsa)),
        },
    }
});

impl Signers {
    pub fn all(&self) -> [&Signer; 6] {
        [
            &self.es256,
            &self.other,
            &self.es384,
            &self.es512,
            &self.ed25519,
            &self.rsa,
        ]
    }

    pub fn of(&self, algorithm: &str) -> &Signer {
        match algorithm {
            "ES256" => &self.es256,
            "ES384" => &self.es384,
            "ES512" => &self.es512,
            "EdDSA" => &self.ed25519,
            _ => &self.rsa,
        }
    }
}

/// The protected header of a signature made yesterday.
pub fn header(algorithm: &str, key_id: &str) -> Value {
    json!({"alg": algorithm, "typ": "JOSE", "kid": key_id, "jku": KEY_SET, "iat": NOW - DAY})
}

/// The card in RFC 8785 form, without signatures.
pub fn canonical(card: &Value) -> Vec<u8> {
    let mut card = card.clone();
    card.as_object_mut().unwrap().remove("signatures");
    serde_json_canonicalizer::to_vec(&card).unwrap()
}

/// A card with these signatures.
pub fn with_signatures(mut card: Value, signatures: Vec<Value>) -> Value {
    card["signatures"] = signatures.into();
    card
}

/// A card signed by one key in the common way.
pub fn signed(card: Value, algorithm: &str) -> Value {
    let signer = SIGNERS.of(algorithm);
    let signature = signer.seal(&header(algorithm, signer.id()), &canonical(&card));
    with_signatures(card, vec![signature])
}

/// The response of a key-set server.
pub fn answered(document: &Value) -> KeySetAnswer {
    KeySetAnswer::Answered {
        status: 200,
        body: serde_json::to_vec(document).unwrap(),
    }
}

/// The key set of all signers, at the URL in the headers.
pub fn keys() -> Keys {
    let all: Vec<Value> = SIGNERS.all().iter().map(|it| it.jwk()).collect();
    keys_of(&json!({"keys": all}))
}

/// A key set at the URL in the headers.
pub fn keys_of(document: &Value) -> Keys {
    Keys {
        key_sets: BTreeMap::from([(KEY_SET.to_owned(), answered(document))]),
        trusted_issuers: ["keys.harbour.example".to_owned()].into(),
        ..Keys::default()
    }
}

pub fn jwk(value: &Value) -> Jwk {
    Jwk::read(value.clone()).unwrap()
}
