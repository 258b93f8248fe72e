//! Packs and suites: install and remove, list.
//!
//! A refused pack leaves nothing behind: everything is verified in memory, and a verified pack
//! becomes visible in one step.

use std::sync::Arc;

use bytes::Bytes;
use semver::Version;
use serde_json::Value;

use crate::ports::host::{Addition, AgentDeployments, SharedStorage};
use crate::ports::inventory::{InstallRecord, Revision, SuiteRecord};
use crate::rules::contents::PackScoring;
use crate::rules::format::PackFormat;
use crate::rules::inventory;
use crate::rules::inventory::PackFacts;
use crate::rules::name::PackId;
use crate::rules::verify::{SignatureCoverage, VerifiedPack};
use crate::store;
use crate::store::suites::{MAX_WHOLE_BYTES, WholeSuite};
use touchstone_host::audit::Decision;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_host::service::keys::{LOCAL, LOCAL_TENANT};
use touchstone_host::store::audit::record_alone;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{AgentId, TenantId};
use touchstone_openwop::pack::{AgentInventory, AgentInventoryEntry};
use touchstone_openwop::suite::{SuiteDocument, SuiteFault};

/// How often a removal is decided again because a deployment has changed.
const ATTEMPTS: u32 = 32;

/// A verified pack with its archive.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub pack: VerifiedPack,
    /// The archive.
    pub tgz: Bytes,
}

/// Who installs and removes, for the audit log of the tenant.
#[derive(Clone, Debug)]
pub struct Actor {
    pub tenant: TenantId,
    pub principal: String,
}

impl Actor {
    pub fn of(caller: &Caller) -> Self {
        Self {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
        }
    }

    /// A person at the data folder itself.
    pub fn local() -> Self {
        Self {
            tenant: LOCAL_TENANT.into(),
            principal: LOCAL.to_owned(),
        }
    }
}

/// Why a suite was not imported.
#[derive(Debug)]
pub enum ImportError {
    /// The document is not a valid suite.
    Faults(Vec<SuiteFault>),
    /// The suite is valid but cannot be added.
    Problem(Problem),
}

/// The documents of a suite.
#[derive(Clone, Debug)]
pub struct SuiteDocuments {
    pub suite: Value,
    /// The scoring document, if it has one.
    pub scoring: Option<Value>,
}

#[derive(Clone)]
pub struct Packs {
    pub(super) store: Arc<Database>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    format: PackFormat,
    /// Enforces quotas and deletes bytes.
    pub(super) storage: Arc<dyn SharedStorage>,
    /// Knows which packs are in service, and so cannot be removed.
    deployments: Arc<dyn AgentDeployments>,
}

impl Packs {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        format: PackFormat,
        storage: Arc<dyn SharedStorage>,
        deployments: Arc<dyn AgentDeployments>,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            format,
            storage,
            deployments,
        }
    }

    /// What packs may contain.
    pub fn format(&self) -> PackFormat {
        self.format
    }

    /// Installs a verified pack and its suites for a tenant, in one step. Installing the same pack
    /// again changes nothing.
    ///
    /// # Errors
    /// `conflict` if the version, or one of its suites, exists with different content.
    pub async fn install(&self, by: &Actor, candidate: &Candidate) -> Result<PackFacts, Problem> {
        let tenant = &by.tenant;
        let pack = &candidate.pack;
        let facts = inventory::facts(pack);
        let now = self.clock.now();
        self.reserve_pack(tenant, candidate).await?;
        let mut suites = Vec::with_capacity(pack.contents.suites.len());
        for suite in &pack.contents.suites {
            suites.push(SuiteRecord {
                tenant: tenant.clone(),
                suite_id: suite.suite().suite_id.clone(),
                version: suite.suite().version.clone(),
                digest: suite.digest.clone(),
                scoring: suite.scoring.as_ref().map(|it| it.digest.clone()),
                task_count: u32::try_from(suite.suite().tasks.len()).unwrap_or(u32::MAX),
                pack: Some(pack.id.to_string()),
                signed: pack.signature.coverage == SignatureCoverage::Tarball,
                added_at: now,
                bytes: Some(suite.document.canonical.len() as u64),
            });
        }
        let record = InstallRecord {
            tenant: tenant.clone(),
            name: pack.id.name.clone(),
            version: pack.id.version.to_string(),
            integrity: pack.integrity.clone(),
            installed_at: now,
            facts: serde_json::to_value(&facts).map_err(|cause| internal(&cause))?,
        };
        let octets: Vec<(&str, &[u8])> = pack
            .contents
            .suites
            .iter()
            .map(|suite| (suite.digest.as_str(), suite.document.canonical.as_bytes()))
            .chain(pack.contents.suites.iter().filter_map(|suite| {
                let scoring = suite.scoring.as_ref()?;
                Some((scoring.digest.as_str(), scoring.canonical.as_bytes()))
            }))
            .chain([(pack.integrity.as_str(), candidate.tgz.as_ref())])
            .collect();
        let installed = self
            .with_octets(
                tenant,
                &octets,
                store::inventory::install(&self.store, &record, &suites),
            )
            .await;
        match installed {
            Ok(()) => {
                let reasons = vec![format!("integrity: {}", pack.integrity)];
                self.note(by, "packs:install", pack.id.to_string(), reasons)
                    .await?;
                Ok(facts)
            }
            Err(StoreError::Exists(_)) => Err(Problem::new(
                ErrorCode::Conflict,
                format!(
                    "{} or one of its suites is installed with different content; versions are \
                     immutable, remove it first",
                    pack.id
                ),
            )),
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// Records in the audit log what was installed or removed.
    async fn note(
        &self,
        by: &Actor,
        action: &str,
        resource: String,
        reasons: Vec<String>,
    ) -> Result<(), Problem> {
        let decision = Decision::done(self.clock.now(), &by.principal, action, resource);
        let decision = decision.because(reasons);
        let noted = record_alone(&self.store, &by.tenant, &decision).await;
        noted.map_err(|cause| internal(&cause))
    }

    /// Stores bytes by their digests, then the records that refer to them. Bytes without references
    /// are deleted at the end.
    async fn with_octets(
        &self,
        tenant: &TenantId,
        octets: &[(&str, &[u8])],
        record: impl Future<Output = Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        self.put_all(octets).await?;
        let recorded = record.await;
        match &recorded {
            // A concurrent removal may have deleted the same bytes just before the record existed.
            Ok(()) => self.put_all(octets).await?,
            Err(_) => {
                let digests: Vec<&str> = octets.iter().map(|(digest, _)| *digest).collect();
                self.storage.release(tenant, &digests).await?;
            }
        }
        recorded
    }

    async fn put_all(&self, octets: &[(&str, &[u8])]) -> Result<(), StoreError> {
        for (digest, octets) in octets {
            store::blobs::put(&self.store, digest, octets).await?;
        }
        Ok(())
    }

    /// Counts a pack that is new to the tenant against its quotas.
    async fn reserve_pack(&self, tenant: &TenantId, candidate: &Candidate) -> Result<(), Problem> {
        let pack = &candidate.pack;
        let installs = store::inventory::installs(&self.store, tenant).await;
        let is_installed = installs
            .map_err(|cause| internal(&cause))?
            .iter()
            .any(|known| known.name == pack.id.name && known.integrity == pack.integrity);
        if is_installed {
            return Ok(());
        }
        let suites = &pack.contents.suites;
        let suite_bytes = suites.iter().map(|suite| {
            let scoring = suite.scoring.as_ref().map_or(0, |it| it.canonical.len());
            suite.document.canonical.len() + scoring
        });
        let bytes = suite_bytes.sum::<usize>() + candidate.tgz.len();
        let adding = Addition {
            packs: 1,
            suites: u64::try_from(suites.len()).unwrap_or(u64::MAX),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        };
        self.storage.reserve(tenant, adding).await
    }

    /// Counts a suite that is new to the tenant against its quotas.
    pub(super) async fn reserve_suite(
        &self,
        tenant: &TenantId,
        (id, version, digest): (&str, &str, &str),
        bytes: u64,
    ) -> Result<(), Problem> {
        let known = store::inventory::suite(&self.store, tenant, id, version).await;
        let known = known.map_err(|cause| internal(&cause))?;
        if known.is_some_and(|known| known.digest == digest) {
            return Ok(());
        }
        let adding = Addition {
            packs: 0,
            suites: 1,
            bytes,
        };
        self.storage.reserve(tenant, adding).await
    }

    /// Removes a pack and its suites from a tenant; runs that use it continue.
    ///
    /// # Errors
    /// `not_found`; `conflict` for a pack in service.
    pub async fn remove(&self, by: &Actor, pack: &PackId) -> Result<(), Problem> {
        let tenant = &by.tenant;
        let version = pack.version.to_string();
        for _ in 0..ATTEMPTS {
            let seen = self.out_of_service(tenant, pack).await?;
            let digests = self.digests_of(tenant, pack).await?;
            let removed =
                store::inventory::remove(&self.store, tenant, &pack.name, &version, &seen);
            match removed.await {
                Ok(true) => {
                    let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
                    let released = self.storage.release(tenant, &digests).await;
                    released.map_err(|cause| internal(&cause))?;
                    let resource = pack.to_string();
                    return self.note(by, "packs:remove", resource, Vec::new()).await;
                }
                Ok(false) => {
                    return Err(Problem::new(
                        ErrorCode::NotFound,
                        format!("{pack} is not installed"),
                    ));
                }
                Err(StoreError::Stale) => {}
                Err(cause) => return Err(internal(&cause)),
            }
        }
        Err(Problem::new(
            ErrorCode::Unavailable,
            format!("the agents of {pack} are being deployed; try again"),
        ))
    }

    /// The digests of a pack and of its suites.
    async fn digests_of(&self, tenant: &TenantId, pack: &PackId) -> Result<Vec<String>, Problem> {
        let installs = store::inventory::installs(&self.store, tenant).await;
        let suites = store::inventory::suites(&self.store, tenant).await;
        let (version, origin) = (pack.version.to_string(), pack.to_string());
        let packs = installs
            .map_err(|cause| internal(&cause))?
            .into_iter()
            .filter(|known| known.name == pack.name && known.version == version)
            .map(|known| known.integrity);
        let suites = suites
            .map_err(|cause| internal(&cause))?
            .into_iter()
            .filter(|suite| suite.pack.as_ref() == Some(&origin))
            .flat_map(|suite| [Some(suite.digest), suite.scoring].into_iter().flatten());
        Ok(packs.chain(suites).collect())
    }

    /// Checks that the pack serves no traffic and cannot return to service. Returns the deployment
    /// revisions on which this was decided.
    async fn out_of_service(
        &self,
        tenant: &TenantId,
        pack: &PackId,
    ) -> Result<Vec<(AgentId, Revision)>, Problem> {
        let version = pack.version.to_string();
        let mut seen = Vec::new();
        let listed = self.list(tenant).await?;
        let agents = listed
            .iter()
            .filter(|facts| facts.name == pack.name && facts.version == version)
            .flat_map(|facts| &facts.agents);
        for agent in agents {
            let id = AgentId::from(agent.agent_id.as_str());
            let found = self.deployments.in_service(tenant, &id, &pack.version);
            let (in_service, revision) = found.await.map_err(|cause| internal(&cause))?;
            if in_service {
                return Err(Problem::new(
                    ErrorCode::Conflict,
                    format!("{pack} is in service; deprecate it or roll it back first"),
                ));
            }
            seen.push((id, revision));
        }
        Ok(seen)
    }

    /// The packs of a tenant, by name and version.
    ///
    /// # Errors
    /// An internal error.
    pub async fn list(&self, tenant: &TenantId) -> Result<Vec<PackFacts>, Problem> {
        let records = store::inventory::installs(&self.store, tenant)
            .await
            .map_err(|cause| internal(&cause))?;
        records
            .into_iter()
            .map(|record| serde_json::from_value(record.facts).map_err(|cause| internal(&cause)))
            .collect()
    }

    /// The agents a tenant has installed, sorted by id; for each, the version that runs would use.
    ///
    /// # Errors
    /// An internal error.
    pub async fn agents(&self, tenant: &TenantId) -> Result<AgentInventory, Problem> {
        let mut found: Vec<(Option<Version>, AgentInventoryEntry)> = Vec::new();
        for facts in self.list(tenant).await? {
            let version = Version::parse(&facts.version).ok();
            found.extend(
                facts
                    .agents
                    .into_iter()
                    .map(|agent| (version.clone(), agent)),
            );
        }
        // Releases before pre-releases, then the highest version: the order in which runs choose.
        let rank = |version: &Option<Version>| {
            (
                version.as_ref().is_some_and(|v| v.pre.is_empty()),
                version.clone(),
            )
        };
        found.sort_by(|(a, one), (b, other)| {
            one.agent_id
                .cmp(&other.agent_id)
                .then_with(|| rank(b).cmp(&rank(a)))
        });
        let mut agents: Vec<AgentInventoryEntry> =
            found.into_iter().map(|(_, agent)| agent).collect();
        agents.dedup_by(|later, earlier| later.agent_id == earlier.agent_id);
        Ok(AgentInventory {
            total: agents.len(),
            agents,
        })
    }

    /// Adds an unsigned suite, with its scoring document if it has one, for local work. Returns the
    /// suite as runs use it: the pack's, if a pack contains the same documents.
    ///
    /// # Errors
    /// The faults of the documents, or `conflict` if the suite's version exists with different
    /// content.
    pub async fn import_suite(
        &self,
        by: &Actor,
        octets: &[u8],
        scoring: Option<Vec<u8>>,
    ) -> Result<SuiteRecord, ImportError> {
        let tenant = &by.tenant;
        let (document, scoring) = self.read_import(octets.to_vec(), scoring).await?;
        let digest = document.digest();
        let suite = &document.suite;
        let record = SuiteRecord {
            tenant: tenant.clone(),
            suite_id: suite.suite_id.clone(),
            version: suite.version.clone(),
            digest: digest.clone(),
            scoring: scoring.as_ref().map(|it| it.digest.clone()),
            task_count: u32::try_from(suite.tasks.len()).unwrap_or(u32::MAX),
            pack: None,
            signed: false,
            added_at: self.clock.now(),
            bytes: Some(document.canonical.len() as u64),
        };
        let is_stored = self.is_stored_in_chunks(&record).await;
        if is_stored.map_err(ImportError::Problem)? {
            let imported = self.imported(by, record, Ok(())).await;
            return imported.map_err(ImportError::Problem);
        }
        let scoring_bytes = scoring.as_ref().map_or(0, |it| it.canonical.len());
        self.reserve_suite(
            tenant,
            (&suite.suite_id, &suite.version, &digest),
            (document.canonical.len() + scoring_bytes) as u64,
        )
        .await
        .map_err(ImportError::Problem)?;
        let mut octets = vec![(record.digest.as_str(), document.canonical.as_bytes())];
        octets.extend(
            scoring
                .iter()
                .map(|it| (it.digest.as_str(), it.canonical.as_bytes())),
        );
        let added = self
            .with_octets(
                tenant,
                &octets,
                store::inventory::add_suite(&self.store, &record),
            )
            .await;
        let imported = self.imported(by, record, added).await;
        imported.map_err(ImportError::Problem)
    }

    /// Whether the tenant imported this suite already.
    pub(super) async fn is_imported(&self, record: &SuiteRecord) -> Result<bool, Problem> {
        let (id, version) = (&record.suite_id, &record.version);
        let known = store::inventory::suite(&self.store, &record.tenant, id, version).await;
        let known = known.map_err(|cause| internal(&cause))?;
        Ok(known.is_some_and(|it| {
            it.pack.is_none() && it.digest == record.digest && it.scoring == record.scoring
        }))
    }

    /// Whether the tenant imported this suite already and its tasks are stored. Otherwise the tenant
    /// would have them twice.
    async fn is_stored_in_chunks(&self, record: &SuiteRecord) -> Result<bool, Problem> {
        if !self.is_imported(record).await? {
            return Ok(false);
        }
        let stream = store::suites::stream(&self.store, &record.digest).await;
        Ok(stream.map_err(|cause| internal(&cause))?.is_some())
    }

    /// The suite that runs will use, after an import was recorded or refused by the store.
    pub(super) async fn imported(
        &self,
        by: &Actor,
        record: SuiteRecord,
        added: Result<(), StoreError>,
    ) -> Result<SuiteRecord, Problem> {
        let reference = format!("{}@{}", record.suite_id, record.version);
        let used =
            store::inventory::suite(&self.store, &by.tenant, &record.suite_id, &record.version);
        let used = used.await.map_err(|cause| internal(&cause))?;
        match added {
            Ok(()) => {
                let resource = reference;
                let reasons = vec![format!("digest: {}", record.digest)];
                self.note(by, "suites:import", resource, reasons).await?;
                Ok(used.unwrap_or(record))
            }
            Err(StoreError::Exists(_)) => {
                let origin = match used.and_then(|suite| suite.pack) {
                    Some(pack) => format!(", from {pack}"),
                    None => String::new(),
                };
                Err(Problem::new(
                    ErrorCode::Conflict,
                    format!(
                        "{reference} exists with different content{origin}; give the changed suite or \
                         scoring document another version of the suite"
                    ),
                ))
            }
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// Parses an import. A large suite takes a while, so the async thread is kept free.
    async fn read_import(
        &self,
        octets: Vec<u8>,
        scoring: Option<Vec<u8>>,
    ) -> Result<(SuiteDocument, Option<PackScoring>), ImportError> {
        let format = self.format;
        let reading = tokio::task::spawn_blocking(move || {
            let document = (format.read_suite)(&octets)?;
            let scoring = scoring.map(|bytes| (format.read_scoring)(&bytes, &document.suite));
            let scoring = scoring.transpose().map_err(|faults| {
                let place = |fault: SuiteFault| SuiteFault {
                    pointer: format!("/scoring{}", fault.pointer),
                    ..fault
                };
                faults.into_iter().map(place).collect::<Vec<_>>()
            })?;
            Ok((document, scoring.map(PackScoring::new)))
        });
        let read = reading
            .await
            .map_err(|cause| ImportError::Problem(internal(&cause)))?;
        read.map_err(ImportError::Faults)
    }

    /// The suites of a tenant, by id and version.
    ///
    /// # Errors
    /// An internal error.
    pub async fn suites(&self, tenant: &TenantId) -> Result<Vec<SuiteRecord>, Problem> {
        store::inventory::suites(&self.store, tenant)
            .await
            .map_err(|cause| internal(&cause))
    }

    /// The documents of a suite as they were installed. They are the content of tasks, so the read
    /// is in the audit log.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn suite_documents(
        &self,
        caller: &Caller,
        suite_id: &str,
        version: &str,
    ) -> Result<SuiteDocuments, Problem> {
        let tenant = &caller.tenant;
        let known = store::inventory::suite(&self.store, tenant, suite_id, version).await;
        let not_found = || Problem::new(ErrorCode::NotFound, "no such suite");
        let known = known
            .map_err(|cause| internal(&cause))?
            .ok_or_else(not_found)?;
        let suite = self.suite_document(&known.digest).await?;
        let suite = suite.ok_or_else(not_found)?;
        let scoring = match &known.scoring {
            Some(digest) => Some(self.document(digest).await?.ok_or_else(not_found)?),
            None => None,
        };
        let resource = format!("{}@{}", known.suite_id, known.version);
        let by = Actor::of(caller);
        self.note(&by, "suites:content", resource, Vec::new())
            .await?;
        Ok(SuiteDocuments { suite, scoring })
    }

    /// The document of a suite.
    async fn suite_document(&self, digest: &str) -> Result<Option<Value>, Problem> {
        let whole = store::suites::whole(&self.store, digest).await;
        match whole.map_err(|cause| internal(&cause))? {
            WholeSuite::Missing => Ok(None),
            WholeSuite::Document(bytes) => {
                let parsed = touchstone_kit::json::parse(&bytes);
                parsed.map(Some).map_err(|cause| internal(&cause))
            }
            WholeSuite::TooLarge => Err(Problem::new(
                ErrorCode::PayloadTooLarge,
                format!(
                    "the suite is larger than {MAX_WHOLE_BYTES} bytes and is not sent as one document; \
                     read its tasks from the file that was imported"
                ),
            )),
        }
    }

    /// The JSON document with this digest.
    async fn document(&self, digest: &str) -> Result<Option<Value>, Problem> {
        let bytes = store::blobs::get(&self.store, digest).await;
        let bytes = bytes.map_err(|cause| internal(&cause))?;
        let parsed = bytes.map(|bytes| touchstone_kit::json::parse(&bytes));
        parsed.transpose().map_err(|cause| internal(&cause))
    }

    /// Removes an imported suite.
    ///
    /// # Errors
    /// `not_found`, also if it came with a pack.
    pub async fn remove_suite(
        &self,
        by: &Actor,
        suite_id: &str,
        version: &str,
    ) -> Result<(), Problem> {
        let tenant = &by.tenant;
        let known = store::inventory::suite(&self.store, tenant, suite_id, version).await;
        let known = known.map_err(|cause| internal(&cause))?;
        match store::inventory::remove_suite(&self.store, tenant, suite_id, version).await {
            Ok(true) => {
                let digests: Vec<&str> = known
                    .iter()
                    .flat_map(|suite| [Some(suite.digest.as_str()), suite.scoring.as_deref()])
                    .flatten()
                    .collect();
                let released = self.storage.release(tenant, &digests).await;
                released.map_err(|cause| internal(&cause))?;
                let resource = format!("{suite_id}@{version}");
                self.note(by, "suites:remove", resource, Vec::new()).await
            }
            Ok(false) => Err(Problem::new(
                ErrorCode::NotFound,
                format!(
                    "{suite_id}@{version} is not an imported suite; to remove a suite of a pack, \
                     remove the pack"
                ),
            )),
            Err(cause) => Err(internal(&cause)),
        }
    }
}
