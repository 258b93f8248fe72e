//! What differs between the majors of the protocol on the wire.

pub mod error;
pub mod id;
pub mod idempotency;
pub mod log;
pub mod operation;
#[cfg(test)]
mod sample;
pub mod v1;
pub mod v2;
pub mod version;

/// A major version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Major {
    V1,
    V2,
}

impl Major {
    /// The version in `OpenWOP-Version` and `protocolVersions`.
    pub const fn version(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V2 => "2.0",
        }
    }
}
