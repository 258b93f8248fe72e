//! Judges compared with people.

use async_trait::async_trait;

use super::StoreError;
use crate::domain::audit::Decision;
use crate::domain::eval::rubric::calibration::Calibration;
use crate::domain::ids::TenantId;

/// The newest calibration of each judge a tenant has.
#[async_trait]
pub trait Calibrations: Send + Sync {
    /// Keeps one in the place of the judge's earlier one, with the audit entry, or neither.
    async fn keep_calibration(
        &self,
        tenant: &TenantId,
        calibration: &Calibration,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// That of a judge.
    async fn calibration(
        &self,
        tenant: &TenantId,
        identity: &str,
    ) -> Result<Option<Calibration>, StoreError>;
    /// All of them, by identity.
    async fn calibrations(&self, tenant: &TenantId) -> Result<Vec<Calibration>, StoreError>;
}
