//! The OASIS files of installed packs: loaded from content-addressed bytes and cached.

use std::collections::BTreeMap;
use std::sync::Arc;

use moka::future::Cache;

use crate::rules::adapter::AdapterReport;
use crate::rules::format::Package;
use crate::rules::pack;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::AgentId;
use touchstone_kit::integrity;
use touchstone_packs::rules::archive;
use touchstone_packs::store as pack_store;

const CACHED_PACKS: u64 = 64;

/// The OASIS files of a pack cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bytes do not match their digest, or can no longer be parsed.
    #[error("the pack {0} was modified in the store")]
    Damaged(String),
}

struct OasisPack {
    profile: Option<Arc<Package>>,
    reports: BTreeMap<String, AdapterReport>,
}

/// The profiles and adapter reports of installed packs.
pub struct Library {
    store: Arc<Database>,
    packs: Cache<String, Arc<OasisPack>>,
}

impl Library {
    pub fn new(store: Arc<Database>) -> Self {
        Self {
            store,
            packs: Cache::new(CACHED_PACKS),
        }
    }

    /// The profile of the pack with this digest, if it has one.
    ///
    /// # Errors
    /// The store failed, or the pack was altered in it.
    pub async fn profile(&self, pack_integrity: &str) -> Result<Option<Arc<Package>>, Error> {
        let pack = self.pack(pack_integrity).await?;
        Ok(pack.and_then(|pack| pack.profile.clone()))
    }

    /// The report of the pack with this digest about an agent, if it has one.
    ///
    /// # Errors
    /// The store failed, or the pack was altered in it.
    pub async fn report(
        &self,
        pack_integrity: &str,
        agent: &AgentId,
    ) -> Result<Option<AdapterReport>, Error> {
        let pack = self.pack(pack_integrity).await?;
        Ok(pack.and_then(|pack| pack.reports.get(agent.as_str()).cloned()))
    }

    async fn pack(&self, pack_integrity: &str) -> Result<Option<Arc<OasisPack>>, Error> {
        if let Some(pack) = self.packs.get(pack_integrity).await {
            return Ok(Some(pack));
        }
        let Some(bytes) = pack_store::blobs::get(&self.store, pack_integrity).await? else {
            return Ok(None);
        };
        let pack = load(pack_integrity, &bytes);
        let pack = Arc::new(pack.ok_or_else(|| Error::Damaged(pack_integrity.to_owned()))?);
        self.packs
            .insert(pack_integrity.to_owned(), pack.clone())
            .await;
        Ok(Some(pack))
    }
}

fn load(pack_integrity: &str, bytes: &[u8]) -> Option<OasisPack> {
    if !integrity::matches(pack_integrity, bytes) {
        return None;
    }
    let archive = archive::read(bytes).ok()?;
    Some(OasisPack {
        profile: pack::profile(&archive).ok()?.map(Arc::new),
        reports: pack::reports(&archive).ok()?,
    })
}
