//! Judges compared with people.

use std::time::Duration;

use async_trait::async_trait;

use super::{IdempotencyCompletion, StoreError};
use crate::domain::audit::Decision;
use crate::domain::eval::rubric::attempt::Attempt;
use crate::domain::eval::rubric::calibration::Calibration;
use crate::domain::ids::TenantId;

/// An attempt as it is found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundAttempt {
    /// What was last recorded of it.
    pub attempt: Attempt,
    /// Whether whoever carries it out was heard of lately. One that runs and is not held was cut off.
    pub held: bool,
}

/// The newest calibration of each judge a tenant has, and the attempts to make one.
#[async_trait]
pub trait Calibrations: Send + Sync {
    /// Begins an attempt, held for `lease`, with the answer to the request that asked for it, or neither.
    ///
    /// # Errors
    /// [`StoreError::Exists`] while another one of the tenant is held.
    async fn begin_attempt(
        &self,
        tenant: &TenantId,
        attempt: &Attempt,
        lease: Duration,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<(), StoreError>;
    /// Records how far it is, and holds it for `lease` from now on.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if it is not held any more.
    async fn renew_attempt(
        &self,
        tenant: &TenantId,
        attempt: &Attempt,
        lease: Duration,
    ) -> Result<(), StoreError>;
    /// Ends it: with the audit entry, and with its calibration, if there is one, in the place of the judge's earlier one.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if it is not held any more; nothing is kept then.
    async fn end_attempt(
        &self,
        tenant: &TenantId,
        attempt: &Attempt,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// One of the tenant's latest attempts.
    async fn attempt(
        &self,
        tenant: &TenantId,
        calibration_id: &str,
    ) -> Result<Option<FoundAttempt>, StoreError>;
    /// The calibration of a judge.
    async fn calibration(
        &self,
        tenant: &TenantId,
        identity: &str,
    ) -> Result<Option<Calibration>, StoreError>;
    /// All of them, by identity.
    async fn calibrations(&self, tenant: &TenantId) -> Result<Vec<Calibration>, StoreError>;
}
