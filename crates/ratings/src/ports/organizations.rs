//! Store access to organizations.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::rules::organization::{Auditor, Status};
use touchstone_kit::ids::TenantId;

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
