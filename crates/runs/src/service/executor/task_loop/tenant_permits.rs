//! The concurrency limit of a tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use touchstone_kit::ids::TenantId;

/// Limits the number of units in flight for one tenant, over all its runs on this replica.
pub struct TenantPermits {
    per_tenant: usize,
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

impl TenantPermits {
    pub fn new(per_tenant: usize) -> Self {
        Self {
            per_tenant,
            tenants: Mutex::default(),
        }
    }

    pub fn of(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Remove tenants without work, so that the table does not grow forever.
        tenants.retain(|_, permits| Arc::strong_count(permits) > 1);
        tenants
            .entry(tenant.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(self.per_tenant)))
            .clone()
    }
}
