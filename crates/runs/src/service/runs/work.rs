//! What the host works on: tenants, queue and leases, for the person who operates it.

use crate::ports::queue::{LeasedRun, QueueOverview, TenantWork};
use crate::service::runs::Runs;
use crate::store;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;

/// Maximum number of leases.
pub const MAX_LEASES: u32 = 50;

/// The work of the caller's tenant, or of all tenants for an operator.
#[derive(Clone, Debug)]
pub struct HostWork {
    pub tenants: Vec<TenantWork>,
    pub queue: QueueOverview,
    /// The oldest, at most [`MAX_LEASES`].
    pub leases: Vec<LeasedRun>,
}

impl HostWork {
    /// Milliseconds until the lease of a run ends, 0 if it has ended; `None` if no lease is listed.
    pub fn lease_ms(&self, run: &str) -> Option<u64> {
        let lease = self.leases.iter().find(|it| it.run.as_str() == run)?;
        Some(u64::try_from(lease.remaining.as_millis()).unwrap_or(0))
    }
}

impl Runs {
    /// Tenants with their keys and runs, the queue, and who holds which run. An operator of the
    /// host sees all tenants; others see their own.
    ///
    /// # Errors
    /// The store failed.
    pub async fn work(&self, caller: &Caller) -> Result<HostWork, Problem> {
        let tenant = (!caller.is_operator()).then_some(&caller.tenant);
        let database = &self.store;
        let found = async {
            Ok(HostWork {
                tenants: store::work::tenants(database, tenant, self.clock.now()).await?,
                queue: store::work::queue(database, tenant).await?,
                leases: store::work::leases(database, tenant, MAX_LEASES).await?,
            })
        };
        let found: Result<_, touchstone_host::ports::store::StoreError> = found.await;
        found.map_err(|cause| internal(&cause))
    }
}
