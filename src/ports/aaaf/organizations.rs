//! Store access to organizations.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::domain::aaaf::organization::{Auditor, Status};
use crate::domain::audit::Decision;
use crate::domain::ids::TenantId;
use crate::ports::{KeyRecord, StoreError};

/// The store's key of an organization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrganizationNumber(pub i64);

#[derive(Clone, Debug, PartialEq)]
pub struct OrganizationRecord {
    /// Assigned by the store when the organization is added.
    pub number: OrganizationNumber,
    pub id: String,
    /// The tenant that the organization represents.
    pub tenant: TenantId,
    pub name: String,
    /// Which operations are still allowed in the organization's name.
    pub status: Status,
    /// Whether only members of the organization may see its badges.
    pub private_badges: bool,
    /// Third-party auditors, each from another tenant.
    pub auditors: Vec<Auditor>,
    /// Settings that differ from the framework's defaults.
    pub config: Map<String, Value>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Increases with every change; used for optimistic locking.
    pub revision: i64,
}

#[async_trait]
pub trait Organizations: Send + Sync {
    /// Adds an organization with its first key and writes the audit entry; [`StoreError::Exists`]
    /// if the tenant already has one.
    async fn add_organization(
        &self,
        organization: &OrganizationRecord,
        key: &KeyRecord,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// The organization of this id, in any tenant.
    async fn organization(&self, id: &str) -> Result<Option<OrganizationRecord>, StoreError>;
    async fn organization_numbered(
        &self,
        number: OrganizationNumber,
    ) -> Result<Option<OrganizationRecord>, StoreError>;
    async fn organization_of(
        &self,
        tenant: &TenantId,
    ) -> Result<Option<OrganizationRecord>, StoreError>;
    /// Updates an organization and writes the audit entry. `revision` is that of the record that
    /// was read; [`StoreError::Stale`] if it has changed since.
    async fn change_organization(
        &self,
        organization: &OrganizationRecord,
        decision: &Decision,
    ) -> Result<(), StoreError>;
}
