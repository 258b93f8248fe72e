//! Judge calibrations: agreement of judges with people.

use std::time::Duration;

use async_trait::async_trait;

use super::{IdempotencyCompletion, StoreError};
use crate::domain::audit::Decision;
use crate::domain::eval::rubric::attempt::Attempt;
use crate::domain::eval::rubric::calibration::Calibration;
use crate::domain::ids::TenantId;

/// A stored attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundAttempt {
    /// The last recorded state.
    pub attempt: Attempt,
    /// Whether its lease holds. A running attempt without a lease was interrupted.
    pub held: bool,
}

/// The newest calibration of each judge of a tenant, and the attempts to compute one.
#[async_trait]
pub trait Calibrations: Send + Sync {
    /// Starts an attempt under a lease, together with the response to the request, or neither.
    ///
    /// # Errors
    /// [`StoreError::Exists`] while another attempt of the tenant holds a lease.
    async fn begin_attempt(
        &self,
        tenant: &TenantId,
        attempt: &Attempt,
        lease: Duration,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<(), StoreError>;
    /// Records the progress, and renews the lease for `lease` from now.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the lease is lost.
    async fn renew_attempt(
        &self,
        tenant: &TenantId,
        attempt: &Attempt,
        lease: Duration,
    ) -> Result<(), StoreError>;
    /// Ends the attempt, together with the audit entry and its calibration, if any, which replaces
    /// the judge's earlier one.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the lease is lost; then nothing is stored.
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
    /// All calibrations, by identity of the judge.
    async fn calibrations(&self, tenant: &TenantId) -> Result<Vec<Calibration>, StoreError>;
}
