//! How answers of strangers are read: as strictly as a schema would, with the place of what does not fit.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use secrecy::SecretString;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::Segment;

/// An answer is not as its contract has it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Misfit {
    /// JSON Pointer to the member that is missing or wrong; empty for the whole.
    pub pointer: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("does not match its schema")?;
        if self.pointer.is_empty() {
            return Ok(());
        }
        write!(f, " at {}", self.pointer)
    }
}

impl Misfit {
    /// A member of the whole is missing or wrong.
    pub fn at(member: &str) -> Self {
        Self {
            pointer: format!("/{member}"),
        }
    }

    fn of(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let mut pointer = String::new();
        for segment in error.path() {
            // Every name on the way is one of ours: members nobody knows are passed over before anything in them is read.
            let _ = match segment {
                Segment::Seq { index } => write!(pointer, "/{index}"),
                Segment::Map { key } => write!(pointer, "/{key}"),
                Segment::Enum { .. } | Segment::Unknown => Ok(()),
            };
        }
        // The library tells a member that is missing only in words; the name in them is ours, too.
        let words = error.inner().to_string();
        let missing = words.strip_prefix("missing field `");
        if let Some((name, _)) = missing.and_then(|rest| rest.split_once('`')) {
            let _ = write!(pointer, "/{name}");
        }
        Self { pointer }
    }
}

/// Reads an answer.
///
/// # Errors
/// The first place where it does not fit.
pub fn read<'de, T: Deserialize<'de>>(
    answer: impl Deserializer<'de, Error = serde_json::Error>,
) -> Result<T, Misfit> {
    let read: Result<Object<T>, _> = serde_path_to_error::deserialize(answer);
    read.map(|object| object.0)
        .map_err(|error| Misfit::of(&error))
}

/// What is read from an object only. The readers that are derived for a type take a list of its members' values as well.
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

/// A text of at least one character that is a secret.
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

/// Unlike an `Option`'s own reader this one takes no `null`: the contract has members that may be missing, and none that may be null.
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
