//! Values as JSON text in a string. So they may be as deep as a document of their own, and count as
//! one value of the message.

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub fn serialize<T: Serialize, S: Serializer>(value: &T, into: S) -> Result<S::Ok, S::Error> {
    let text = serde_json::to_string(value).map_err(S::Error::custom)?;
    into.serialize_str(&text)
}

pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    // The error may quote the text.
    serde_json::from_str(&text).map_err(|_| D::Error::custom("the text has another form"))
}
