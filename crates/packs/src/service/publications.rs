//! This host's pack registry: publishes installed packs.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use moka::future::Cache;
use semver::Version;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::ports::inventory::InstallRecord;
use crate::rules::archive;
use crate::rules::inventory::PackFacts;
use crate::rules::manifest;
use crate::rules::name::is_pack_name;
use crate::rules::publication;
use crate::rules::publication::{Publication, Release};
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::keys::SIGNATURE_OCTETS;
use touchstone_openwop::pack::RegistryDiscovery;

/// Size of the manifest cache, in bytes.
const CACHED_MANIFESTS: u64 = 64 * 1024 * 1024;
/// How long the list of all published packs is cached: requests need no key, and reading the list
/// takes longer the more is installed. Requests for one pack always read its versions.
const LIST_HOLDS: Duration = Duration::from_secs(5);

pub struct Publications {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    publication: Publication,
    /// Keyed by the digest of the archive.
    manifests: Cache<String, Arc<Manifest>>,
    /// All published versions, and when they were read.
    everything: Mutex<Option<(Duration, Arc<[Release]>)>>,
}

struct Manifest {
    document: Value,
    size: u32,
}

pub struct Page {
    pub packs: Vec<Value>,
    /// Where the next page starts, if there is one.
    pub next: Option<String>,
}

impl Page {
    /// The page as a document, with its packs under this member name.
    pub fn named(self, member: &str) -> Value {
        let mut document = json!({member: self.packs});
        if let (Some(next), Some(members)) = (self.next, document.as_object_mut()) {
            members.insert("nextCursor".to_owned(), json!(next));
        }
        document
    }
}

impl Publications {
    /// The registry of the packs in `store` that `publication` covers.
    pub fn new(store: Arc<Database>, clock: Arc<dyn Clock>, publication: Publication) -> Self {
        let manifests = Cache::builder()
            .max_capacity(CACHED_MANIFESTS)
            .weigher(|_, manifest: &Arc<Manifest>| manifest.size)
            .build();
        Self {
            store,
            clock,
            publication,
            manifests,
            everything: Mutex::default(),
        }
    }

    /// At most a given number of published packs, by name, that match a search term and follow a
    /// name.
    ///
    /// # Errors
    /// An internal error.
    pub async fn list(
        &self,
        term: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page, Problem> {
        let releases = self.everything().await?;
        let mut page = Page {
            packs: Vec::new(),
            next: None,
        };
        let mut last: Option<&str> = None;
        for of_pack in releases.chunk_by(|a, b| a.facts.name == b.facts.name) {
            let Some(latest) = publication::latest(of_pack) else {
                continue;
            };
            let name = latest.facts.name.as_str();
            if after.is_some_and(|after| name <= after) {
                continue;
            }
            // The pack may have been removed since the list was read.
            let Some(manifest) = self.find_manifest(latest).await? else {
                continue;
            };
            if !publication::matches(&manifest.document, term) {
                continue;
            }
            if page.packs.len() == limit {
                page.next = last.map(str::to_owned);
                break;
            }
            page.packs
                .push(publication::listed(latest, &manifest.document));
            last = Some(name);
        }
        Ok(page)
    }

    /// The versions of a pack.
    ///
    /// # Errors
    /// `invalid_pack_name`, `pack_not_found`.
    pub async fn catalogue(&self, name: &str) -> Result<Value, Problem> {
        let releases = self.of_pack(name).await?;
        let latest = publication::latest(&releases).ok_or_else(|| not_published(name))?;
        let manifest = self.manifest(latest).await?;
        Ok(publication::catalogue(
            latest,
            &manifest.document,
            &releases,
        ))
    }

    /// The manifest of a version.
    ///
    /// # Errors
    /// `invalid_pack_name`, `invalid_version`, `pack_not_found`.
    pub async fn served(&self, name: &str, version: &str) -> Result<Value, Problem> {
        let release = self.release(name, version).await?;
        let manifest = self.manifest(&release).await?;
        Ok(publication::served(&release, &manifest.document))
    }

    /// The archive of a version, with its digest.
    ///
    /// # Errors
    /// As [`Publications::served`].
    pub async fn archive(&self, name: &str, version: &str) -> Result<(String, Bytes), Problem> {
        let release = self.release(name, version).await?;
        let bytes = self.octets(&release).await?;
        Ok((release.facts.integrity, bytes))
    }

    /// The signature of a version: 64 bytes.
    ///
    /// # Errors
    /// `invalid_pack_name`, `invalid_version`; `signature_not_available` for everything else.
    pub async fn signature(&self, name: &str, version: &str) -> Result<Bytes, Problem> {
        let unavailable = || {
            Problem::new(
                ErrorCode::SignatureNotAvailable,
                "this registry has no signature for that version",
            )
        };
        let release = self
            .release(name, version)
            .await
            .map_err(|problem| match problem.code {
                ErrorCode::PackNotFound => unavailable(),
                _ => problem,
            })?;
        let recorded = release.facts.checked_signature;
        recorded
            .and_then(|signature| STANDARD.decode(signature.value).ok())
            .filter(|signature| signature.len() == SIGNATURE_OCTETS)
            .map(Bytes::from)
            .ok_or_else(unavailable)
    }

    /// The keys that signed published versions of a pack.
    ///
    /// # Errors
    /// `invalid_pack_name`, `pack_not_found`.
    pub async fn keychain(&self, name: &str) -> Result<Value, Problem> {
        let releases = self.of_pack(name).await?;
        Ok(publication::keychain(name, &releases))
    }

    /// The discovery document: endpoints and signing keys.
    ///
    /// # Errors
    /// An internal error.
    pub async fn discovery(&self) -> Result<RegistryDiscovery, Problem> {
        Ok(publication::discovery(&self.everything().await?))
    }

    /// A key in PEM.
    ///
    /// # Errors
    /// `not_found` for a key that signed no published version.
    pub async fn key(&self, key_id: &str) -> Result<String, Problem> {
        publication::key(&self.everything().await?, key_id)
            .map(|key| key.to_pem())
            .ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such signing key"))
    }

    async fn of_pack(&self, name: &str) -> Result<Vec<Release>, Problem> {
        well_formed(name)?;
        let tenant = &self.publication.tenant;
        let installs = store::inventory::installs_of(&self.store, tenant, name).await;
        let releases = self.published(installs.map_err(|cause| internal(&cause))?)?;
        if releases.is_empty() {
            return Err(not_published(name));
        }
        Ok(releases)
    }

    async fn release(&self, name: &str, version: &str) -> Result<Release, Problem> {
        well_formed(name)?;
        let wanted = Version::parse(version).map_err(|_| {
            Problem::new(
                ErrorCode::InvalidVersion,
                "a version looks like `1.2.0` (SemVer 2.0.0)",
            )
        })?;
        let releases = self.of_pack(name).await?;
        releases
            .into_iter()
            .find(|release| release.version == wanted)
            .ok_or_else(|| not_published(&format!("{name}@{version}")))
    }

    /// All published versions, by name and version.
    async fn everything(&self) -> Result<Arc<[Release]>, Problem> {
        // Concurrent requests wait for one read.
        let mut known = self.everything.lock().await;
        let now = self.clock.uptime();
        if let Some((read_at, releases)) = &*known
            && now.saturating_sub(*read_at) < LIST_HOLDS
        {
            return Ok(releases.clone());
        }
        let installs = store::inventory::installs(&self.store, &self.publication.tenant).await;
        let installs = installs.map_err(|cause| internal(&cause))?;
        let releases: Arc<[Release]> = self.published(installs)?.into();
        *known = Some((now, releases.clone()));
        Ok(releases)
    }

    /// The published ones of these versions, by name and version.
    fn published(&self, installs: Vec<InstallRecord>) -> Result<Vec<Release>, Problem> {
        let mut releases = Vec::new();
        for install in installs {
            let facts: PackFacts =
                serde_json::from_value(install.facts).map_err(|cause| internal(&cause))?;
            if let (true, Ok(version)) = (
                self.publication.covers(&facts),
                Version::parse(&facts.version),
            ) {
                releases.push(Release {
                    facts,
                    version,
                    published_at: install.installed_at,
                });
            }
        }
        releases.sort_by(|a, b| (&a.facts.name, &a.version).cmp(&(&b.facts.name, &b.version)));
        Ok(releases)
    }

    async fn octets(&self, release: &Release) -> Result<Bytes, Problem> {
        let bytes = store::blobs::get(&self.store, &release.facts.integrity).await;
        bytes
            .map_err(|cause| internal(&cause))?
            .ok_or_else(|| missing(release))
    }

    async fn manifest(&self, release: &Release) -> Result<Arc<Manifest>, Problem> {
        let found = self.find_manifest(release).await?;
        found.ok_or_else(|| missing(release))
    }

    /// The manifest of an archive, unless the archive is missing or damaged. It is identified by
    /// its digest, so it never changes.
    async fn find_manifest(&self, release: &Release) -> Result<Option<Arc<Manifest>>, Problem> {
        let digest = &release.facts.integrity;
        if let Some(manifest) = self.manifests.get(digest).await {
            return Ok(Some(manifest));
        }
        let bytes = store::blobs::get(&self.store, digest).await;
        let Some(bytes) = bytes.map_err(|cause| internal(&cause))? else {
            return Ok(None);
        };
        let read = tokio::task::spawn_blocking(move || read_manifest(&bytes)).await;
        let Some(manifest) = read.map_err(|cause| internal(&cause))? else {
            return Ok(None);
        };
        let manifest = Arc::new(manifest);
        self.manifests
            .insert(digest.clone(), manifest.clone())
            .await;
        Ok(Some(manifest))
    }
}

fn read_manifest(bytes: &[u8]) -> Option<Manifest> {
    let archive = archive::read(bytes).ok()?;
    let bytes = archive.manifest().ok()?;
    Some(Manifest {
        document: manifest::parse(bytes).ok()?,
        size: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
    })
}

fn well_formed(name: &str) -> Result<(), Problem> {
    if is_pack_name(name) {
        return Ok(());
    }
    Err(Problem::new(
        ErrorCode::InvalidPackName,
        "a pack name looks like `vendor.acme.triage`",
    ))
}

fn not_published(what: &str) -> Problem {
    Problem::new(
        ErrorCode::PackNotFound,
        format!("this registry does not publish {what}"),
    )
}

fn missing(release: &Release) -> Problem {
    tracing::error!(
        name = release.facts.name,
        version = release.facts.version,
        "the archive of an installed pack is missing or damaged"
    );
    Problem::new(
        ErrorCode::InternalError,
        "the archive is missing or damaged; contact the operator",
    )
}
