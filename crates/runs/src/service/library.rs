//! Suites and agents as runs use them: loaded from content-addressed bytes and cached.
//!
//! Everything loaded here was verified at installation. The digest is checked again on every load,
//! so bytes altered in the store are refused.

pub mod suites;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use moka::future::Cache;
use moka::policy::EvictionPolicy;
use semver::Version;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::suites::Suites;
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::eval::scoring_document::attachments::AttachmentReference;
use crate::rules::kind::Kinds;
use crate::rules::run::task_ids::TaskIds;
use touchstone_agents::ports::agent::AgentDefinition;
use touchstone_agents::rules::attachment::Attachment;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{AgentId, TaskId, TenantId};
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;
use touchstone_openwop::schema::CompiledSchema;
use touchstone_openwop::suite::AgentEvalSuite;
use touchstone_packs::rules::contents::PackAgent;
use touchstone_packs::rules::{archive, contents};
use touchstone_packs::store as pack_store;
use touchstone_packs::store::suites::{MAX_WHOLE_BYTES, WholeSuite};

/// Suites that are read as a whole, which runs of plain suites do not need.
const CACHED_SUITES: usize = 16 * 1024 * 1024;
const CACHED_SCORINGS: usize = 16 * 1024 * 1024;
const CACHED_PACKS: usize = 16 * 1024 * 1024;
/// How many times the size of its text a document takes in memory: a suite with tasks of 131 bytes takes
/// 1,004 bytes for each.
const GROWTH: usize = 8;

/// An installed suite or pack cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bytes do not match their digest, or can no longer be parsed.
    #[error("the {what} {digest} was modified in the store")]
    Damaged {
        /// `suite`, `scoring document` or `pack`.
        what: &'static str,
        digest: String,
    },
    /// The suite is too large to be read as a whole.
    #[error(
        "the suite is larger than {MAX_WHOLE_BYTES} bytes, and this needs it as a whole; use a smaller suite"
    )]
    TooLarge,
}

impl Error {
    /// Whether the same may succeed later, because only the store failed.
    pub fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(cause) if !matches!(cause, StoreError::Inconsistent { .. }))
    }
}

/// An agent of an installed pack.
#[derive(Debug)]
pub struct LoadedAgent {
    pub definition: AgentDefinition,
    /// The version of its pack.
    pub version: String,
    /// The digest of its pack.
    pub pack_integrity: String,
    /// The digest of the pack's content about this agent: it stays the same when the pack is
    /// rebuilt or its other files change.
    pub content: String,
    task_schema: Option<CompiledSchema>,
}

impl LoadedAgent {
    /// Whether a task's input satisfies the agent's task schema.
    pub fn accepts(&self, input: &Value) -> bool {
        self.task_schema
            .as_ref()
            .is_none_or(|schema| schema.is_valid(input))
    }
}

type LoadedAgents = HashMap<AgentId, Arc<LoadedAgent>>;

pub struct Library {
    store: Arc<Database>,
    /// The evaluation kinds of this host.
    pub kinds: Kinds,
    suites: Documents<AgentEvalSuite>,
    opened: Suites,
    scorings: Documents<ScoringDocument>,
    packs: Documents<LoadedAgents>,
}

/// Loaded documents by their digests, limited by the memory that they take.
struct Documents<T> {
    cached: Cache<String, (Arc<T>, u32)>,
    bytes: usize,
}

impl<T: Send + Sync + 'static> Documents<T> {
    fn new(bytes: usize) -> Self {
        let cached = Cache::builder()
            .max_capacity(bytes as u64)
            .weigher(|_: &String, (_, weight): &(Arc<T>, u32)| *weight)
            .eviction_policy(EvictionPolicy::lru())
            .build();
        Self { cached, bytes }
    }

    async fn get(&self, digest: &str) -> Option<Arc<T>> {
        let (document, _) = self.cached.get(digest).await?;
        Some(document)
    }

    /// Keeps a document, which has this size as text. One that exceeds the whole cache is kept alone,
    /// because a run reads its suite often.
    async fn insert(&self, digest: &str, document: Arc<T>, text: usize) {
        let weight = text.saturating_mul(GROWTH);
        self.insert_weighing(digest, document, weight).await;
    }

    async fn remove(&self, digest: &str) {
        self.cached.invalidate(digest).await;
    }

    /// As [`insert`](Self::insert), for a document of this size in memory.
    async fn insert_weighing(&self, digest: &str, document: Arc<T>, weight: usize) {
        let weight = weight.min(self.bytes);
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let entry = (document, weight);
        self.cached.insert(digest.to_owned(), entry).await;
    }
}

impl Library {
    pub fn new(store: Arc<Database>, kinds: Kinds) -> Self {
        Self {
            store,
            kinds,
            suites: Documents::new(CACHED_SUITES),
            opened: Suites::new(),
            scorings: Documents::new(CACHED_SCORINGS),
            packs: Documents::new(CACHED_PACKS),
        }
    }

    /// The whole suite with this digest, for readers that need all its tasks together.
    ///
    /// # Errors
    /// The store failed, the suite was altered in it, or it is too large.
    pub async fn suite(&self, digest: &str) -> Result<Option<Arc<AgentEvalSuite>>, Error> {
        if let Some(suite) = self.suites.get(digest).await {
            return Ok(Some(suite));
        }
        let damaged = || Error::Damaged {
            what: "suite",
            digest: digest.to_owned(),
        };
        let bytes = match pack_store::suites::whole(&self.store, digest).await {
            Ok(WholeSuite::Document(bytes)) => bytes,
            Ok(WholeSuite::Missing) => return Ok(None),
            Ok(WholeSuite::TooLarge) => return Err(Error::TooLarge),
            Err(StoreError::Inconsistent { .. }) => return Err(damaged()),
            Err(cause) => return Err(cause.into()),
        };
        let size = bytes.len();
        let suite: AgentEvalSuite = verified(bytes, digest).await.ok_or_else(damaged)?;
        let suite = Arc::new(suite);
        self.suites.insert(digest, suite.clone(), size).await;
        Ok(Some(suite))
    }

    /// The scoring document with this digest.
    ///
    /// # Errors
    /// The store failed, or the document is missing or was altered in it.
    pub async fn scoring(&self, digest: &str) -> Result<Arc<ScoringDocument>, Error> {
        if let Some(scoring) = self.scorings.get(digest).await {
            return Ok(scoring);
        }
        let damaged = || Error::Damaged {
            what: "scoring document",
            digest: digest.to_owned(),
        };
        let bytes = pack_store::blobs::get(&self.store, digest).await?;
        let bytes = bytes.ok_or_else(damaged)?;
        let size = bytes.len();
        let scoring: ScoringDocument = verified(bytes, digest).await.ok_or_else(damaged)?;
        let scoring = Arc::new(scoring);
        self.scorings.insert(digest, scoring.clone(), size).await;
        Ok(scoring)
    }

    /// The files that a scoring document attaches to these tasks, from the pack with this digest.
    ///
    /// # Errors
    /// The store failed, the pack is missing or was altered in it, or a file is not the attached
    /// one.
    pub async fn files(
        &self,
        pack_integrity: &str,
        tasks: &TaskIds,
        scoring: &ScoringDocument,
    ) -> Result<HashMap<TaskId, Vec<Attachment>>, Error> {
        let damaged = || Error::Damaged {
            what: "pack",
            digest: pack_integrity.to_owned(),
        };
        let bytes = pack_store::blobs::get(&self.store, pack_integrity).await?;
        let bytes = bytes.ok_or_else(damaged)?;
        let wanted: Vec<(TaskId, Vec<AttachmentReference>)> = tasks
            .iter()
            .map(|id| {
                let files = scoring.attachments(&id).to_vec();
                (id, files)
            })
            .filter(|(_, files)| !files.is_empty())
            .collect();
        let integrity = pack_integrity.to_owned();
        // Unpacking and encoding take a while; keep the async thread free.
        let reading = tokio::task::spawn_blocking(move || attached(&integrity, &bytes, wanted));
        reading.await.ok().flatten().ok_or_else(damaged)
    }

    /// An agent of the pack with this digest.
    ///
    /// # Errors
    /// The store failed, or the pack was altered in it.
    pub async fn agent(
        &self,
        pack_integrity: &str,
        agent: &AgentId,
    ) -> Result<Option<Arc<LoadedAgent>>, Error> {
        let agents = self.agents(pack_integrity).await?;
        Ok(agents.and_then(|agents| agents.get(agent).cloned()))
    }

    /// The agents of the pack with this digest.
    async fn agents(&self, pack_integrity: &str) -> Result<Option<Arc<LoadedAgents>>, Error> {
        if let Some(agents) = self.packs.get(pack_integrity).await {
            return Ok(Some(agents));
        }
        let Some(bytes) = pack_store::blobs::get(&self.store, pack_integrity).await? else {
            return Ok(None);
        };
        let agents = load(pack_integrity, &bytes).ok_or_else(|| Error::Damaged {
            what: "pack",
            digest: pack_integrity.to_owned(),
        })?;
        let agents = Arc::new(agents);
        let size = bytes.len();
        self.packs
            .insert(pack_integrity, agents.clone(), size)
            .await;
        Ok(Some(agents))
    }

    /// The agent as installed by this tenant: the requested version, else the highest release, else
    /// the highest pre-release.
    ///
    /// # Errors
    /// The store failed, or the pack was altered in it.
    pub async fn installed_agent(
        &self,
        tenant: &TenantId,
        agent: &AgentId,
        version: Option<&str>,
    ) -> Result<Option<Arc<LoadedAgent>>, Error> {
        // An agent's id is its pack's name and one more segment (RFC 0003 §B).
        let Some((pack, _)) = agent.as_str().rsplit_once('.') else {
            return Ok(None);
        };
        let installs = pack_store::inventory::installs(&self.store, tenant).await?;
        let newest = installs
            .iter()
            .filter(|install| {
                install.name == pack && version.is_none_or(|version| install.version == version)
            })
            .max_by_key(|install| {
                let parsed = Version::parse(&install.version).ok();
                (
                    parsed
                        .as_ref()
                        .is_some_and(|version| version.pre.is_empty()),
                    parsed,
                )
            });
        match newest {
            Some(install) => self.agent(&install.integrity, agent).await,
            None => Ok(None),
        }
    }
}

/// The document of bytes that were checked when they were stored; `None` if they changed since.
///
/// The rules of documents are not applied again: that would cost as much as the start of a run, and
/// stricter rules must not keep an older run from resuming.
async fn verified<T>(bytes: Bytes, digest: &str) -> Option<T>
where
    T: DeserializeOwned + Send + 'static,
{
    let digest = digest.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let same = integrity::matches(&digest, &bytes);
        same.then(|| serde_json::from_slice(&bytes).ok()).flatten()
    });
    reading.await.ok().flatten()
}

/// The files of tasks; `None` if one is missing or differs from its digest.
fn attached(
    pack_integrity: &str,
    pack: &[u8],
    wanted: Vec<(TaskId, Vec<AttachmentReference>)>,
) -> Option<HashMap<TaskId, Vec<Attachment>>> {
    if !integrity::matches(pack_integrity, pack) {
        return None;
    }
    let archive = archive::read(pack).ok()?;
    // A file of several tasks is in memory once.
    let mut read: HashMap<String, Attachment> = HashMap::new();
    let mut file = |reference: &AttachmentReference| {
        if let Some(known) = read.get(&reference.path) {
            return Some(known.clone());
        }
        let bytes = archive.files.get(&reference.path)?;
        let file = Attachment::new(&reference.path, reference.media_type, bytes);
        read.insert(reference.path.clone(), file.clone());
        Some(file)
    };
    let mut by_task = HashMap::new();
    for (task, references) in wanted {
        let mut files = Vec::with_capacity(references.len());
        for reference in &references {
            let found = file(reference)?;
            if *found.sha256 != *reference.sha256 {
                return None;
            }
            files.push(Attachment {
                media_type: reference.media_type,
                ..found
            });
        }
        by_task.insert(task, files);
    }
    Some(by_task)
}

/// `sha256-<base64>` over the parts of a pack that influence an agent's output.
fn content_of(agent: &PackAgent) -> String {
    let document = json!({
        "recipe": CONTENT_RECIPE,
        "modelClass": agent.manifest.model_class,
        "prompt": agent.prompt,
        "tools": agent.tools(),
        "taskSchema": agent.task_schema.as_ref().map(CompiledSchema::source),
        "returnSchema": agent.return_schema.as_ref().map(CompiledSchema::source),
    });
    integrity::of(canonical_text(&document).as_bytes())
}

/// Domain separation: distinguishes these digests from all others.
const CONTENT_RECIPE: &str = "touchstone:agent-content:v1";

fn load(pack_integrity: &str, bytes: &[u8]) -> Option<LoadedAgents> {
    if !integrity::matches(pack_integrity, bytes) {
        return None;
    }
    // Admission was decided at installation; settings that became stricter since must not keep a
    // run from resuming.
    let (manifest, agents) = contents::reopen(&archive::read(bytes).ok()?).ok()?;
    let agents = agents.into_iter().map(|agent| {
        let id = AgentId::from(agent.manifest.agent_id.as_str());
        let content = content_of(&agent);
        let definition = AgentDefinition {
            agent_id: id.clone(),
            model_class: agent.manifest.model_class,
            prompt: agent.prompt.as_str().into(),
            tool_allowlist: agent.tools().to_vec(),
            return_schema: agent
                .return_schema
                .map(|schema| (Arc::new(schema.source().clone()), schema)),
        };
        let loaded = LoadedAgent {
            definition,
            version: manifest.version.clone(),
            pack_integrity: pack_integrity.to_owned(),
            content,
            task_schema: agent.task_schema,
        };
        (id, Arc::new(loaded))
    });
    Some(agents.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn documents_are_limited_by_their_size() {
        let documents = Documents::new(1000);
        for digest in ["a", "b", "c"] {
            documents.insert(digest, Arc::new(digest), 50).await;
        }
        documents.cached.run_pending_tasks().await;
        assert_eq!(documents.get("a").await, None);
        assert_eq!(documents.get("c").await.as_deref(), Some(&"c"));
        documents.insert("large", Arc::new("large"), 5000).await;
        documents.cached.run_pending_tasks().await;
        assert_eq!(documents.get("c").await, None);
        assert_eq!(documents.get("large").await.as_deref(), Some(&"large"));
    }
}
