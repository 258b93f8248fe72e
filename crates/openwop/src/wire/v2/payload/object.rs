//! JSON objects whose values stay text. They are read and written in order, member by member.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::value::RawValue;

/// The members of an object.
#[derive(Debug)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// Text that is borrowed unless it has escapes.
#[derive(DeriveDeserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Members<'a> {
    /// `None` if the value is not an object.
    pub fn of(value: &'a RawValue) -> Option<Self> {
        serde_json::from_str(value.get()).ok()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(key, value)| (&**key, *value))
    }

    pub fn get(&self, key: &str) -> Option<&'a RawValue> {
        let mut members = self.0.iter();
        let found = members.find(|(name, _)| name == key);
        found.map(|(_, value)| *value)
    }

    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        text(self.get(key)?)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some((Text(key), value)) = map.next_entry()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A value that is a text.
pub fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let Text(text) = serde_json::from_str(value.get()).ok()?;
    Some(text)
}

/// A value that is an integer of at least 0.
pub fn number(value: &RawValue) -> Option<u64> {
    value.get().parse().ok()
}

/// Appends a value.
pub fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Writing texts and numbers to memory does not fail.
    let _ = serde_json::to_writer(out, value);
}

/// Appends a value as it is.
pub fn copy(out: &mut Vec<u8>, value: &RawValue) {
    out.extend_from_slice(value.get().as_bytes());
}

/// Writes an object member by member. [`end`](Self::end) completes it.
pub struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Object<'o> {
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self {
            out,
            is_empty: true,
        }
    }

    /// Begins a member. The caller appends its value.
    pub fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        write(self.out, key);
        self.out.push(b':');
        self.out
    }

    pub fn value(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        write(self.key(key), value);
    }

    pub fn copy(&mut self, key: &str, value: &RawValue) {
        copy(self.key(key), value);
    }

    pub fn end(self) {
        self.out.push(b'}');
    }
}
