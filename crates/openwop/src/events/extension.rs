//! Events of evaluation kinds: the log stores them, and only their kind reads their payloads.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// The prefix of this host's own types.
const PREFIX: &str = "touchstone.";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExtensionEvent {
    kind: String,
    payload: Box<RawValue>,
}

impl ExtensionEvent {
    /// # Errors
    /// The payload contains a map whose keys are not strings.
    pub fn new(kind: &str, payload: &impl Serialize) -> serde_json::Result<Self> {
        Ok(Self {
            kind: kind.to_owned(),
            payload: to_raw_value(payload)?,
        })
    }

    /// An event of the log; `None` if the type is not one of this host.
    pub(super) fn read(kind: &str, payload: &str) -> serde_json::Result<Option<Self>> {
        if !kind.starts_with(PREFIX) {
            return Ok(None);
        }
        Ok(Some(Self {
            kind: kind.to_owned(),
            payload: RawValue::from_string(payload.to_owned())?,
        }))
    }

    /// The wire name of the type.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn payload(&self) -> &RawValue {
        &self.payload
    }

    /// The payload in the form of its type.
    ///
    /// # Errors
    /// The payload does not have this form.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.payload.get())
    }
}

impl PartialEq for ExtensionEvent {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.payload.get() == other.payload.get()
    }
}
