//! Key sets (RFC 7517 §5), and what asking for one came to.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Reason;
use super::jwk::Jwk;
use crate::protocol::json;

/// Octets a key set may have.
pub const MAX_KEY_SET_OCTETS: usize = 256 * 1024;
/// Keys a key set may have.
pub const MAX_KEYS: usize = 50;

/// What asking for a key set came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySetAnswer {
    /// A complete answer, whatever its status.
    Answered {
        /// The status.
        status: u16,
        /// The body.
        body: Vec<u8>,
    },
    /// More than [`MAX_KEY_SET_OCTETS`], of which the rest was left.
    TooLarge,
    /// None.
    Unreachable,
    /// Not asked: its name leads to an internal address.
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

/// A key set.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySet(Vec<Jwk>);

impl KeySet {
    /// Reads a key set. An entry that is no object is no key; a kind of key that is not known stays, since it may be the
    /// one that is named.
    pub fn parse(octets: &[u8]) -> Option<Self> {
        if octets.len() > MAX_KEY_SET_OCTETS {
            return None;
        }
        let Ok(Value::Object(mut document)) = json::parse_foreign(octets) else {
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

    /// The keys by their ids; `None` if one has none, or that of another.
    pub fn by_id(self) -> Option<BTreeMap<String, Jwk>> {
        let mut keys = BTreeMap::new();
        for key in self.0 {
            if keys.insert(key.id()?.to_owned(), key).is_some() {
                return None;
            }
        }
        Some(keys)
    }

    /// The keys of an id, or all of them if none is named.
    pub(super) fn with_id(&self, id: Option<&Value>) -> Vec<&Jwk> {
        let named = self
            .0
            .iter()
            .filter(|key| id.is_none_or(|id| key.has_id(id)));
        named.collect()
    }
}
