//! Reads responses of untrusted parties as strictly as a schema would, and reports the position of
//! a mismatch.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use secrecy::SecretString;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::Segment;

/// A response that does not match its contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ContractViolation {
    /// JSON Pointer to the missing or wrong member; empty for the whole document.
    pub pointer: String,
}

impl fmt::Display for ContractViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("does not match its schema")?;
        if self.pointer.is_empty() {
            return Ok(());
        }
        write!(f, " at {}", self.pointer)
    }
}

impl ContractViolation {
    /// A top-level member is missing or wrong.
    pub fn at(member: &str) -> Self {
        Self {
            pointer: format!("/{member}"),
        }
    }

    fn of(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let mut pointer = String::new();
        for segment in error.path() {
            // Every name on the path is defined here: unknown members are ignored before their
            // contents are read.
            let _ = match segment {
                Segment::Seq { index } => write!(pointer, "/{index}"),
                Segment::Map { key } => write!(pointer, "/{key}"),
                Segment::Enum { .. } | Segment::Unknown => Ok(()),
            };
        }
        // The library reports a missing member only in its text; the name in the text is defined
        // here, too.
        let words = error.inner().to_string();
        let missing = words.strip_prefix("missing field `");
        if let Some((name, _)) = missing.and_then(|rest| rest.split_once('`')) {
            let _ = write!(pointer, "/{name}");
        }
        Self { pointer }
    }
}

/// Reads a response.
///
/// # Errors
/// The first position that does not match.
pub fn read<'de, T: Deserialize<'de>>(
    answer: impl Deserializer<'de, Error = serde_json::Error>,
) -> Result<T, ContractViolation> {
    let read: Result<Object<T>, _> = serde_path_to_error::deserialize(answer);
    read.map(|object| object.0)
        .map_err(|error| ContractViolation::of(&error))
}

/// A type that is read from an object only. Derived readers also accept an array of the members'
/// values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }
        reader.deserialize_map(Members(PhantomData)).map(Self)
    }
}

/// A secret string of at least one character.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Literal(pub SecretString);

impl TryFrom<String> for Literal {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("empty");
        }
        Ok(Self(text.into()))
    }
}

pub(super) fn filled<'de, D: Deserializer<'de>>(reader: D) -> Result<String, D::Error> {
    let text = String::deserialize(reader)?;
    if text.is_empty() {
        return Err(D::Error::custom("empty"));
    }
    Ok(text)
}

pub(super) fn filled_if_there<'de, D: Deserializer<'de>>(
    reader: D,
) -> Result<Option<String>, D::Error> {
    filled(reader).map(Some)
}

/// Unlike the reader of `Option`, this one rejects `null`: the contract has optional members, but
/// none of them may be null.
pub(super) fn if_there<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    reader: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(reader).map(Some)
}

pub(super) fn some<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    reader: D,
) -> Result<Vec<T>, D::Error> {
    let items = Vec::deserialize(reader)?;
    if items.is_empty() {
        return Err(D::Error::custom("empty"));
    }
    Ok(items)
}
