//! A registry over HTTP (OpenWOP registry-operations).
//!
//! The discovery document gives the locations as templates with `{name}`, `{version}` and
//! `{keyId}`. Templates and key URLs that leave the registry's origin are refused: otherwise an
//! unsigned document could choose which hosts are contacted. All requests go through the guarded
//! client.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::OnceCell;
use url::Url;

use crate::ports::{PackSource, SourceError};
use crate::registry::document;
use crate::rules::name::{PackId, is_pack_name};
use touchstone_host::net;
use touchstone_host::net::Client;
use touchstone_openwop::pack::{Endpoints, PackIndex, RegistryDiscovery, SigningKey};

const DEADLINE: Duration = Duration::from_secs(30);
const DISCOVERY: [&str; 2] = [
    "/.well-known/openwop-registry",
    "/.well-known/openwop-registry.json",
];

#[derive(Clone)]
pub struct HttpRegistry {
    client: Arc<Client>,
    base: Url,
    discovery: Arc<OnceCell<Option<RegistryDiscovery>>>,
}

impl HttpRegistry {
    /// A registry at the origin of `base`; the rest of the URL is ignored.
    pub fn new(client: Arc<Client>, base: Url) -> Self {
        Self {
            client,
            base,
            discovery: Arc::new(OnceCell::new()),
        }
    }

    async fn get(
        &self,
        document: &'static str,
        url: &Url,
        most: usize,
    ) -> Result<Option<Bytes>, SourceError> {
        match self.client.get_limited(url, most as u64, DEADLINE).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(net::Error::Status(404 | 410)) => Ok(None),
            Err(net::Error::TooLarge { .. }) => Err(SourceError::TooLarge { document }),
            Err(error) => Err(SourceError::Unreachable(error.label().into_owned())),
        }
    }

    async fn found(&self) -> Result<&Option<RegistryDiscovery>, SourceError> {
        self.discovery
            .get_or_try_init(|| async {
                for path in DISCOVERY {
                    let url = self.address("discovery document", path)?;
                    if let Some(bytes) = self
                        .get("discovery document", &url, document::DISCOVERY)
                        .await?
                    {
                        return document::parse("discovery document", &bytes).map(Some);
                    }
                }
                Ok(None)
            })
            .await
    }

    /// A URL on the registry's own origin.
    fn address(&self, document: &'static str, reference: &str) -> Result<Url, SourceError> {
        let malformed = |reason: &str| SourceError::Malformed {
            document,
            reason: reason.to_owned(),
        };
        let url = self
            .base
            .join(reference)
            .map_err(|_| malformed("has no valid URL"))?;
        if url.origin() != self.base.origin() || !url.username().is_empty() {
            return Err(malformed("has a URL outside the registry"));
        }
        Ok(url)
    }

    async fn endpoints(&self) -> Result<Endpoints, SourceError> {
        let discovery = self.found().await?.as_ref();
        Ok(discovery
            .map(|found| found.endpoints.clone())
            .unwrap_or_default())
    }

    async fn of_version(
        &self,
        document: &'static str,
        template: &str,
        pack: &PackId,
        most: usize,
    ) -> Result<Option<Bytes>, SourceError> {
        // Names and versions are already checked; none of their characters is special in a path.
        let reference = template
            .replace("{name}", &pack.name)
            .replace("{version}", &pack.version.to_string());
        self.get(document, &self.address(document, &reference)?, most)
            .await
    }
}

#[async_trait]
impl PackSource for HttpRegistry {
    async fn discovery(&self) -> Result<Option<RegistryDiscovery>, SourceError> {
        self.found().await.cloned()
    }

    async fn index(&self, name: &str) -> Result<Option<PackIndex>, SourceError> {
        if !is_pack_name(name) {
            return Ok(None);
        }
        let reference = self
            .endpoints()
            .await?
            .pack_metadata
            .replace("{name}", name);
        let url = self.address("pack index", &reference)?;
        let Some(bytes) = self.get("pack index", &url, document::INDEX).await? else {
            return Ok(None);
        };
        document::parse("pack index", &bytes).map(Some)
    }

    async fn served(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError> {
        let template = self.endpoints().await?.version_manifest;
        self.of_version("version manifest", &template, pack, document::SERVED)
            .await
    }

    async fn tarball(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError> {
        let template = self.endpoints().await?.version_tarball;
        self.of_version("archive", &template, pack, document::TARBALL)
            .await
    }

    async fn signature(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError> {
        let template = self.endpoints().await?.version_signature;
        self.of_version("signature", &template, pack, document::SIGNATURE)
            .await
    }

    async fn public_key(&self, key: &SigningKey) -> Result<Option<Bytes>, SourceError> {
        // The key id is untrusted text: it identifies the key, and never becomes part of a URL.
        let Some(reference) = &key.public_key_url else {
            return Ok(None);
        };
        let url = self.address("key", reference)?;
        self.get("key", &url, document::KEY).await
    }
}
