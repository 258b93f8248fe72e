//! Signs checkpoints of every tenant's audit log while the host runs (OpenWOP audit-log-integrity).

use std::sync::Arc;

use tracing::{error, info};

use crate::audit::checkpoint::{Checkpoint, MAX_ENTRIES};
use crate::audit::{Link, Walk};
use crate::ports::clock::Clock;
use crate::ports::ids::Ids;
use crate::ports::store::StoreError;
use crate::store::database::Database;
use touchstone_kit::ids::TenantId;
use touchstone_kit::keys::SecretKey;

/// Tenants read per page.
const TENANTS: u32 = 100;

/// Signs the entries since the last checkpoint. If two replicas do so at once, one succeeds.
pub struct Checkpointer {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    key: SecretKey,
}

impl Checkpointer {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        key: SecretKey,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            key,
        }
    }

    /// Signs all new entries and returns the number of checkpoints. A broken chain is not signed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sign_all(&self) -> Result<u64, StoreError> {
        let (mut after, mut signed) = (String::new(), 0);
        loop {
            let tenants = self.store.audit_unanchored(&after, TENANTS).await?;
            let Some((last, _)) = tenants.last() else {
                return Ok(signed);
            };
            last.as_str().clone_into(&mut after);
            for (tenant, anchored) in &tenants {
                signed += self.sign_chain(tenant, *anchored).await?;
            }
        }
    }

    async fn sign_chain(&self, tenant: &TenantId, mut anchored: u64) -> Result<u64, StoreError> {
        let mut signed = 0;
        while let Some(end) = self.sign_next(tenant, anchored).await? {
            (anchored, signed) = (end, signed + 1);
            if self.store.audit_head(tenant).await?.sequence <= anchored {
                break;
            }
        }
        Ok(signed)
    }

    /// Signs the entries after `anchored`, up to the maximum of one checkpoint, and returns the
    /// last one signed.
    async fn sign_next(&self, tenant: &TenantId, anchored: u64) -> Result<Option<u64>, StoreError> {
        let links = self
            .store
            .audit_entries(tenant, anchored, MAX_ENTRIES)
            .await?;
        let before = match anchored {
            0 => None,
            _ => self
                .store
                .audit_entries(tenant, anchored - 1, 1)
                .await?
                .pop(),
        };
        let mut walk = Walk::behind(before.as_ref());
        links.iter().for_each(|link| walk.step(link));
        let whole = walk.found().is_empty() && links.last().is_some_and(Link::is_intact);
        let id = self.ids.mint("checkpoint");
        let checkpoint = Checkpoint::sign(id, &links, self.clock.now(), &self.key);
        let Some(checkpoint) = checkpoint.filter(|_| whole) else {
            error!(
                tenant = %tenant,
                after = anchored,
                "the audit log has been altered; not signing a checkpoint"
            );
            return Ok(None);
        };
        if !self.store.add_audit_checkpoint(tenant, &checkpoint).await? {
            return Ok(None);
        }
        // The host's own log is a copy outside the database.
        info!(
            tenant = %tenant,
            checkpoint = checkpoint.id,
            at_sequence = checkpoint.at_sequence,
            merkle_root = checkpoint.merkle_root,
            signature = checkpoint.signature,
            "audit checkpoint signed"
        );
        Ok(Some(checkpoint.at_sequence))
    }
}
