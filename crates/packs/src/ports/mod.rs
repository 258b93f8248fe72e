//! Pack registries as a source.

pub mod host;
pub mod inventory;

use async_trait::async_trait;
use bytes::Bytes;

use crate::rules::name::PackId;
use touchstone_openwop::pack::{PackIndex, RegistryDiscovery, SigningKey};

/// Why a registry could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The registry cannot be reached, or its response is not as specified; a label from a closed
    /// list.
    #[error("the registry cannot be reached: {0}")]
    Unreachable(String),
    /// A document exceeds the size limit.
    #[error("the registry's {document} is too large")]
    TooLarge { document: &'static str },
    /// A document is malformed.
    #[error("the registry's {document} {reason}")]
    Malformed {
        document: &'static str,
        /// The reason, without the content of the document.
        reason: String,
    },
}

/// A registry: a directory or a server. Its content is untrusted; every document is limited in size
/// and verified by [`crate::rules`].
#[async_trait]
pub trait PackSource: Send + Sync {
    /// The discovery document, if there is one.
    async fn discovery(&self) -> Result<Option<RegistryDiscovery>, SourceError>;
    /// The versions of a pack.
    async fn index(&self, name: &str) -> Result<Option<PackIndex>, SourceError>;
    /// The served manifest.
    async fn served(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError>;
    /// The archive.
    async fn tarball(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError>;
    /// The detached signature.
    async fn signature(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError>;
    /// The file of a key that the discovery document lists.
    async fn public_key(&self, key: &SigningKey) -> Result<Option<Bytes>, SourceError>;
}
