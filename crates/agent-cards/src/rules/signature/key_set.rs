//! Key sets (RFC 7517 §5), and the results of fetching them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Reason;
use super::jwk::Jwk;
use touchstone_kit::json;

/// Maximum size of a key set in bytes.
pub const MAX_KEY_SET_OCTETS: usize = 256 * 1024;
/// Maximum number of keys in a key set.
pub const MAX_KEYS: usize = 50;

/// The result of fetching a key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySetAnswer {
    /// A complete answer, whatever its status.
    Answered { status: u16, body: Vec<u8> },
    /// Larger than [`MAX_KEY_SET_OCTETS`]; the rest was not read.
    TooLarge,
    /// No answer.
    Unreachable,
    /// Not called: its name resolves to an internal address.
    Forbidden,
}

impl KeySetAnswer {
    /// The key set in an answer.
    pub(super) fn read(answer: Option<&Self>) -> Result<KeySet, Reason> {
        match answer {
            None | Some(Self::Unreachable) => Err(Reason::JwksUnreachable),
            Some(Self::Forbidden) => Err(Reason::JkuForbiddenAddress),
            Some(Self::Answered { status: 200, body }) => {
                KeySet::parse(body).ok_or(Reason::JwksBadResponse)
            }
            Some(Self::Answered { .. } | Self::TooLarge) => Err(Reason::JwksBadResponse),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeySet(Vec<Jwk>);

impl KeySet {
    /// Parses a key set. Entries that are not objects are dropped; keys of unknown kinds are kept,
    /// so that a signature that names one gets the right reason.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_KEY_SET_OCTETS {
            return None;
        }
        let Ok(Value::Object(mut document)) = json::parse_foreign(bytes) else {
            return None;
        };
        let Some(Value::Array(entries)) = document.remove("keys") else {
            return None;
        };
        if entries.len() > MAX_KEYS {
            return None;
        }
        Some(Self(entries.into_iter().filter_map(Jwk::read).collect()))
    }

    /// The keys by id; `None` if a key has no id, or two share one.
    pub fn by_id(self) -> Option<BTreeMap<String, Jwk>> {
        let mut keys = BTreeMap::new();
        for key in self.0 {
            if keys.insert(key.id()?.to_owned(), key).is_some() {
                return None;
            }
        }
        Some(keys)
    }

    /// The keys with an id, or all keys if no id is named.
    pub(super) fn with_id(&self, id: Option<&Value>) -> Vec<&Jwk> {
        let named = self
            .0
            .iter()
            .filter(|key| id.is_none_or(|id| key.has_id(id)));
        named.collect()
    }
}
