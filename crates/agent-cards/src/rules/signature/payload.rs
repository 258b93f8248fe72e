//! The signed form of a card. A2A 0.3.0 only says that the card is signed; three forms are in use,
//! which are tried in turn.

use std::cell::OnceCell;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::python;
use super::schema::Level;

/// A form in which a card is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// RFC 8785, without optional members that are null or empty (A2A 1.0 §8.4).
    Spec,
    /// RFC 8785 of the card as it is.
    Raw,
    /// The serialization of the card model in the Python library a2a-sdk 0.3.
    Sdk,
}

impl Profile {
    /// All forms in the order they are tried.
    pub const ALL: [Self; 3] = [Self::Spec, Self::Raw, Self::Sdk];
}

/// The card in one of the forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub profile: Profile,
    /// The signed bytes in base64url.
    pub encoded: String,
    /// Whether it contains the whole card.
    pub covers_all: bool,
}

/// The card in each form, created on demand.
#[derive(Debug)]
pub struct Payloads {
    unsigned: Value,
    spec: OnceCell<Option<Payload>>,
    raw: OnceCell<Option<Payload>>,
    sdk: OnceCell<Option<Payload>>,
}

impl Payloads {
    pub fn of(card: &Map<String, Value>) -> Self {
        let members = card.iter().filter(|(name, _)| *name != "signatures");
        let members = members.map(|(name, value)| (name.clone(), value.clone()));
        Self {
            unsigned: members.collect::<Map<_, _>>().into(),
            spec: OnceCell::new(),
            raw: OnceCell::new(),
            sdk: OnceCell::new(),
        }
    }

    /// The card in the form `profile`; `None` if it cannot be serialized.
    pub fn get(&self, profile: Profile) -> Option<&Payload> {
        let cell = match profile {
            Profile::Spec => &self.spec,
            Profile::Raw => &self.raw,
            Profile::Sdk => &self.sdk,
        };
        cell.get_or_init(|| self.write(profile)).as_ref()
    }

    fn write(&self, profile: Profile) -> Option<Payload> {
        let card = &self.unsigned;
        let mut dropped = false;
        let bytes = match profile {
            Profile::Spec => serde_json_canonicalizer::to_vec(&plain(Level::Card, card)),
            Profile::Raw => serde_json_canonicalizer::to_vec(card),
            Profile::Sdk => python::to_vec(
                &known(Level::Card, card, &mut dropped).unwrap_or_else(|| Map::new().into()),
            ),
        };
        Some(Payload {
            profile,
            encoded: URL_SAFE_NO_PAD.encode(bytes.ok()?),
            covers_all: !dropped,
        })
    }
}

/// A value without the specification's members that are null or have the same meaning when absent.
fn plain(level: Level, value: &Value) -> Value {
    match value {
        Value::Object(members) if level.is_closed() || level == Level::Schemes => {
            let kept = members
                .iter()
                .filter(|(name, value)| !is_absent(level, name, value));
            kept.map(|(name, value)| (name.clone(), plain(level.below(name, value), value)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(entries) if level.is_closed() => {
            entries.iter().map(|entry| plain(level, entry)).collect()
        }
        other => other.clone(),
    }
}

fn is_absent(level: Level, name: &str, value: &Value) -> bool {
    if value.is_null() {
        return level.is_closed() && level.knows(name);
    }
    match (level, name) {
        (Level::Card, "additionalInterfaces" | "security" | "securitySchemes")
        | (Level::Capabilities, "extensions")
        | (Level::Skill, "examples" | "inputModes" | "outputModes" | "security") => is_empty(value),
        (Level::Extension, "required") => *value == Value::Bool(false),
        (Level::Extension, "description")
        | (Level::Scheme(_), "description" | "bearerFormat" | "oauth2MetadataUrl")
        | (Level::Flow(_), "refreshUrl") => value.as_str() == Some(""),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(entries) => entries.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// A value with only the specification's members, without defaults and empty values. Sets `dropped`
/// if a member was left out because the specification does not define it.
fn known(level: Level, value: &Value, dropped: &mut bool) -> Option<Value> {
    let kept = match value {
        Value::Object(members) => {
            let mut kept = Map::new();
            for (name, value) in members {
                if !level.knows(name) {
                    *dropped = true;
                } else if !is_default(level, name, value)
                    && let Some(value) = known(level.below(name, value), value, dropped)
                {
                    kept.insert(name.clone(), value);
                }
            }
            Value::Object(kept)
        }
        Value::Array(entries) => entries
            .iter()
            .filter_map(|entry| known(level, entry, dropped))
            .collect(),
        other => other.clone(),
    };
    (!kept.is_null() && !is_empty(&kept)).then_some(kept)
}

fn is_default(level: Level, name: &str, value: &Value) -> bool {
    match (level, name) {
        (Level::Card, "protocolVersion") => value.as_str() == Some("0.3.0"),
        (Level::Card, "preferredTransport") => value.as_str() == Some("JSONRPC"),
        // The library has a class for each kind, whose `type` is a constant.
        (Level::Scheme(_), "type") => true,
        _ => false,
    }
}
