//! Where packs come from.

use async_trait::async_trait;
use bytes::Bytes;

use crate::domain::pack::name::PackId;
use crate::protocol::openwop::pack::{PackIndex, RegistryDiscovery, SigningKey};

/// Why a place packs come from could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It cannot be reached, or does not answer as it should; a label from a closed list.
    #[error("the registry cannot be reached: {0}")]
    Unreachable(String),
    /// A document is larger than any sound one.
    #[error("the registry's {document} is too large")]
    TooLarge {
        /// Which document.
        document: &'static str,
    },
    /// What it answers is not what it should be.
    #[error("the registry's {document} {reason}")]
    Malformed {
        /// Which document.
        document: &'static str,
        /// What is wrong with it, without its content.
        reason: String,
    },
}

/// A registry: a directory or a server. It is asked and never believed; every document is bounded in size and judged by
/// [`crate::domain::pack`].
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
