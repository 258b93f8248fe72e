//! A registry tree on disk, in the layout that a static file server would serve.
//!
//! Paths are built only from checked names and versions. Links that lead out of the tree are not
//! followed: the real path of every opened file must be under the root.

use std::io;
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncReadExt as _;

use crate::ports::{PackSource, SourceError};
use crate::registry::document;
use crate::rules::name::{PackId, is_pack_name};
use touchstone_openwop::pack::{PackIndex, RegistryDiscovery, SigningKey};

/// Both spellings are in use: servers answer to the first, file trees contain the second.
const DISCOVERY: [&str; 2] = [
    ".well-known/openwop-registry",
    ".well-known/openwop-registry.json",
];

#[derive(Clone, Debug)]
pub struct DirectoryRegistry {
    root: PathBuf,
}

impl DirectoryRegistry {
    /// A registry in a directory. Reads nothing yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    async fn read(&self, path: &str, most: usize) -> Result<Option<Bytes>, SourceError> {
        let relative = Path::new(path);
        if !relative
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            return Ok(None);
        }
        match self.open(relative, most).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(SourceError::Unreachable(error.kind().to_string())),
        }
    }

    async fn open(&self, relative: &Path, most: usize) -> io::Result<Bytes> {
        let root = tokio::fs::canonicalize(&self.root).await?;
        let path = tokio::fs::canonicalize(root.join(relative)).await?;
        let inside = path.starts_with(&root);
        if !inside || !tokio::fs::metadata(&path).await?.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        read_at_most(&path, most).await
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::InvalidFilename
    )
}

/// Reads a file up to `most` bytes and cuts off the rest; the rules then refuse the oversized
/// document.
pub(super) async fn read_at_most(path: &Path, most: usize) -> io::Result<Bytes> {
    let file = tokio::fs::File::open(path).await?;
    let mut bytes = Vec::new();
    file.take(most as u64).read_to_end(&mut bytes).await?;
    Ok(Bytes::from(bytes))
}

fn of_version(pack: &PackId, suffix: &str) -> String {
    format!("v1/packs/{}/-/{}.{suffix}", pack.name, pack.version)
}

#[async_trait]
impl PackSource for DirectoryRegistry {
    async fn discovery(&self) -> Result<Option<RegistryDiscovery>, SourceError> {
        if !tokio::fs::metadata(&self.root)
            .await
            .is_ok_and(|meta| meta.is_dir())
        {
            return Err(SourceError::Unreachable("no such directory".to_owned()));
        }
        for path in DISCOVERY {
            if let Some(bytes) = self.read(path, document::DISCOVERY).await? {
                return document::parse("discovery document", &bytes).map(Some);
            }
        }
        Ok(None)
    }

    async fn index(&self, name: &str) -> Result<Option<PackIndex>, SourceError> {
        if !is_pack_name(name) {
            return Ok(None);
        }
        let path = format!("v1/packs/{name}/index.json");
        let Some(bytes) = self.read(&path, document::INDEX).await? else {
            return Ok(None);
        };
        document::parse("pack index", &bytes).map(Some)
    }

    async fn served(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError> {
        self.read(&of_version(pack, "json"), document::SERVED + 1)
            .await
    }

    async fn tarball(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError> {
        self.read(&of_version(pack, "tgz"), document::TARBALL).await
    }

    async fn signature(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError> {
        self.read(&of_version(pack, "sig"), document::SIGNATURE)
            .await
    }

    async fn public_key(&self, key: &SigningKey) -> Result<Option<Bytes>, SourceError> {
        // Only the URL's path is used, and only inside the tree.
        let url = key.public_key_url.as_deref().unwrap_or_default();
        let path = match url::Url::parse(url) {
            Ok(absolute) => absolute.path().to_owned(),
            Err(_) => url.to_owned(),
        };
        self.read(path.trim_start_matches('/'), document::KEY + 1)
            .await
    }
}
