//! How many may wait for events at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::ids::TenantId;
use crate::protocol::error::{ErrorCode, Problem};
use crate::telemetry::names;

/// A tenant may hold this share of all places.
const TENANT_SHARE: usize = 2;
const RETRY_AFTER_MS: u64 = 5000;

/// The places, over all tenants and by tenant.
pub struct Subscribers {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    total: usize,
    by_tenant: HashMap<TenantId, usize>,
}

/// A taken place; dropping it gives it back.
pub struct Place {
    subscribers: Arc<Subscribers>,
    tenant: TenantId,
}

impl Subscribers {
    /// `most` places; a single tenant gets half of them.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// Takes a place.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn enter(self: &Arc<Self>, tenant: &TenantId) -> Result<Place, Problem> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let tenants_most = self.most.div_ceil(TENANT_SHARE);
        let own = taken.by_tenant.get(tenant).copied().unwrap_or_default();
        if taken.total >= self.most {
            return Err(full("global", self.most));
        }
        if own >= tenants_most {
            return Err(full("tenant", tenants_most));
        }
        taken.total += 1;
        taken.by_tenant.insert(tenant.clone(), own + 1);
        metrics::gauge!(names::SUBSCRIBERS).set(taken.total as f64);
        Ok(Place {
            subscribers: self.clone(),
            tenant: tenant.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self
            .subscribers
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        taken.total -= 1;
        let left = taken
            .by_tenant
            .get(&self.tenant)
            .map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            taken.by_tenant.remove(&self.tenant);
        } else {
            taken.by_tenant.insert(self.tenant.clone(), left);
        }
        metrics::gauge!(names::SUBSCRIBERS).set(taken.total as f64);
    }
}

fn full(scope: &str, limit: usize) -> Problem {
    Problem::new(
        ErrorCode::RateLimited,
        "too many event streams are open; close some or try again later",
    )
    .with("scope", scope)
    .with("limit", limit)
    .with("retryAfterMs", RETRY_AFTER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_cannot_take_the_places_of_all() {
        let subscribers = Subscribers::new(4);
        let (a, b): (TenantId, TenantId) = ("a".into(), "b".into());
        let held = [
            subscribers.enter(&a).unwrap(),
            subscribers.enter(&a).unwrap(),
        ];
        assert_eq!(
            subscribers.enter(&a).err().unwrap().details["scope"],
            "tenant"
        );
        let _others = [
            subscribers.enter(&b).unwrap(),
            subscribers.enter(&b).unwrap(),
        ];
        assert_eq!(
            subscribers.enter(&"c".into()).err().unwrap().details["scope"],
            "global"
        );
        drop(held);
        assert!(subscribers.enter(&a).is_ok());
    }
}
