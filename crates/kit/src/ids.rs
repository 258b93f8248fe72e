//! Identifiers as types, so that a tenant id cannot be passed where a run id is expected.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a value that is already known to be well-formed.
            pub fn new(value: impl Into<Arc<str>>) -> Self {
                Self(value.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self(value.into())
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                Self(value.into())
            }
        }
    };
}

id!(
    /// A run: `run_` and a time-ordered UUID, `[A-Za-z0-9_-]`, at most 128 bytes.
    RunId
);
id!(
    /// A tenant, the isolation boundary. Opaque, derived from the credential only.
    TenantId
);
id!(
    /// An agent of a pack: pack name, a dot, one segment.
    AgentId
);
id!(
    /// A task of a suite, `^[a-z0-9][a-z0-9-]*$`; unique in its suite.
    TaskId
);
/// A node of a workflow. Events use the same member for it as for the task of an eval run (envelope
/// `nodeId`).
pub type NodeId = TaskId;

id!(
    /// The public half of an API key; the secret half is stored only as a hash.
    KeyId
);
id!(
    /// An event: `evt_`, a time-ordered UUID, and its sequence number in the log it was first
    /// recorded in.
    EventId
);
id!(
    /// A webhook subscription: `wh_` and a time-ordered UUID.
    WebhookId
);

impl EventId {
    /// The id of the event recorded at `sequence`; `unique` must differ for every event.
    pub fn at(unique: &str, sequence: u64) -> Self {
        Self::from(format!("{unique}_{sequence}"))
    }

    /// The sequence number encoded in an event id: the event's position in the log it was first
    /// recorded in.
    pub fn place(id: &str) -> Option<u64> {
        let (_, place) = id.rsplit_once('_')?;
        place.parse().ok()
    }
}
