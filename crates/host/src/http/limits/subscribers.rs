//! The limit of clients that wait for events at the same time.

use std::sync::Arc;

use crate::http::limits::shares::{Full, Share, Shares};
use crate::telemetry::names;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::TenantId;

const RETRY_AFTER_MS: u64 = 5000;

/// The places in all and per tenant.
pub struct Subscribers(Arc<Shares<TenantId>>);

/// A taken place; dropping it gives it back.
pub struct SubscriberSlot {
    places: Arc<Shares<TenantId>>,
    share: Option<Share<TenantId>>,
}

impl Subscribers {
    /// `most` places; a single tenant gets at most half of them.
    pub fn new(most: usize) -> Self {
        Self(Shares::halved(most))
    }

    /// Takes a place.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn enter(&self, tenant: &TenantId) -> Result<SubscriberSlot, Problem> {
        let share = self.0.take(tenant, 1).map_err(refused)?;
        let place = SubscriberSlot {
            places: self.0.clone(),
            share: Some(share),
        };
        place.count();
        Ok(place)
    }
}

impl SubscriberSlot {
    fn count(&self) {
        metrics::gauge!(names::SUBSCRIBERS).set(self.places.taken() as f64);
    }
}

impl Drop for SubscriberSlot {
    fn drop(&mut self) {
        self.share = None;
        self.count();
    }
}

fn refused(full: Full) -> Problem {
    let (scope, limit) = match full {
        Full::ForAll(limit) => ("global", limit),
        Full::ForOne(limit) => ("tenant", limit),
    };
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
    fn subscribers_are_limited_per_tenant() {
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
