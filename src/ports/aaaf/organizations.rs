//! Organizations.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::domain::aaaf::organization::{Auditor, Status};
use crate::domain::audit::Decision;
use crate::domain::ids::TenantId;
use crate::ports::{KeyRecord, StoreError};

/// What the store calls an organization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrganizationNumber(pub i64);

/// An organization.
#[derive(Clone, Debug, PartialEq)]
pub struct OrganizationRecord {
    /// What the store calls it; given when it is added.
    pub number: OrganizationNumber,
    /// A UUID.
    pub id: String,
    /// The tenant it is the face of.
    pub tenant: TenantId,
    /// What it is called.
    pub name: String,
    /// What may still be done in its name.
    pub status: Status,
    /// Whether its badges are shown to its own members only.
    pub private_badges: bool,
    /// Third-party auditors, each of another tenant.
    pub auditors: Vec<Auditor>,
    /// How its agents are assessed, as far as that is not the usual way.
    pub config: Map<String, Value>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// Grows with every change.
    pub revision: i64,
}

/// Organizations.
#[async_trait]
pub trait Organizations: Send + Sync {
    /// Adds one with its first key, and records the decision; [`StoreError::Exists`] if its tenant has one.
    async fn add_organization(
        &self,
        organization: &OrganizationRecord,
        key: &KeyRecord,
        decision: &Decision,
    ) -> Result<(), StoreError>;
    /// The one of this id, whosever it is.
    async fn organization(&self, id: &str) -> Result<Option<OrganizationRecord>, StoreError>;
    /// The one the store calls so.
    async fn organization_numbered(
        &self,
        number: OrganizationNumber,
    ) -> Result<Option<OrganizationRecord>, StoreError>;
    /// The one of this tenant.
    async fn organization_of(
        &self,
        tenant: &TenantId,
    ) -> Result<Option<OrganizationRecord>, StoreError>;
    /// Replaces what may change of one, and records the decision; its revision is that of the record that was read,
    /// [`StoreError::Stale`] if it has changed since.
    async fn change_organization(
        &self,
        organization: &OrganizationRecord,
        decision: &Decision,
    ) -> Result<(), StoreError>;
}
