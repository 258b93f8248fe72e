//! Store access to badges, issuer keys and status lists.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AgentNumber, OrganizationNumber, OrganizationRecord};
use crate::domain::aaaf::badge::{Badge, RevocationReason};
use crate::domain::audit::Decision;
use crate::domain::pack::keys::PublicKey;
use crate::ports::StoreError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadgeState {
    /// Waiting for a review.
    Withheld,
    /// A reviewer decided against it.
    Rejected,
    Issued,
    Revoked,
}

impl BadgeState {
    const ALL: &'static [Self] = &[Self::Withheld, Self::Rejected, Self::Issued, Self::Revoked];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Withheld => "withheld",
            Self::Rejected => "rejected",
            Self::Issued => "issued",
            Self::Revoked => "revoked",
        }
    }

    /// Whether the badge may be shown: it was issued at some time.
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Issued | Self::Revoked)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

/// The credential of an issued badge and its status list entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The signed credential, as it is served.
    pub credential: String,
    /// The status list that states whether the badge is revoked.
    pub status_list: StatusListNumber,
    /// The index of the badge's bit in the list.
    pub status_index: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    pub reason: RevocationReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub by: String,
    pub at: Timestamp,
}

/// One revision of the badge of an assessment.
#[derive(Clone, Debug, PartialEq)]
pub struct BadgeRecord {
    pub organization: OrganizationNumber,
    pub agent: AgentNumber,
    /// Counts from 1 within an assessment.
    pub revision: u32,
    pub state: BadgeState,
    /// The content; its id is the id of the badge.
    pub badge: Badge,
    /// `None` if the badge was never issued.
    pub issued: Option<Issued>,
    pub revocation: Option<Revocation>,
    /// When the assessment first had something to issue.
    pub created_at: Timestamp,
}

/// The state of the newest revision of an assessment's badge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadgeStanding {
    pub id: String,
    pub state: BadgeState,
}

/// The store's key of a status list; part of the list's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatusListNumber(pub i64);

/// A status list, which has one issuer and one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusListRecord {
    pub number: StatusListNumber,
    pub organization: OrganizationNumber,
    /// The DID that issues the list and every credential on it.
    pub issuer: String,
    /// The base URL of the host when the list was created; its credentials name addresses under it.
    pub base_url: String,
    /// Increases with every revocation.
    pub changes: i64,
}

/// A signing key of an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerKeyRecord {
    /// The public key.
    pub public: PublicKey,
    /// The secret key, encrypted.
    pub sealed: String,
    pub created_at: Timestamp,
    /// When another key replaced it.
    pub retired_at: Option<Timestamp>,
    /// Whether the secret key was exposed; then no signature by it is trusted.
    pub compromised: bool,
}

/// The retirement of a key.
#[derive(Clone, Copy, Debug)]
pub struct Retirement<'a> {
    pub organization: &'a OrganizationRecord,
    pub key: &'a PublicKey,
    /// The key that replaces the current one; `None` if the key was already retired and has a
    /// successor.
    pub successor: Option<&'a IssuerKeyRecord>,
    /// How to revoke everything the key signed, if it is compromised.
    pub compromised: Option<&'a Revocation>,
    pub at: Timestamp,
}

/// Badges of organizations. They are added and approved together with their assessments.
#[async_trait]
pub trait Badges: Send + Sync {
    /// The keys of an organization, oldest first.
    async fn issuer_keys(
        &self,
        organization: OrganizationNumber,
    ) -> Result<Vec<IssuerKeyRecord>, StoreError>;
    /// Adds the current key; [`StoreError::Exists`] if there is one.
    async fn add_issuer_key(
        &self,
        organization: OrganizationNumber,
        key: &IssuerKeyRecord,
    ) -> Result<(), StoreError>;
    /// Retires a key with all consequences and writes the audit entry. Returns the number of
    /// revoked badges. [`StoreError::Stale`] if the state of the key has changed.
    async fn retire_issuer_key(
        &self,
        retirement: &Retirement<'_>,
        decision: &Decision,
    ) -> Result<u64, StoreError>;
    /// A status list of this issuer and address in which fewer than `room` bits are taken; created
    /// if necessary.
    async fn open_status_list(
        &self,
        organization: OrganizationNumber,
        issuer: &str,
        base_url: &str,
        room: u32,
        now: Timestamp,
    ) -> Result<StatusListRecord, StoreError>;
    /// The list of this number, in any organization.
    async fn status_list(
        &self,
        number: StatusListNumber,
    ) -> Result<Option<StatusListRecord>, StoreError>;
    /// The indexes of the revoked bits of a list.
    async fn revoked_bits(&self, number: StatusListNumber) -> Result<Vec<u32>, StoreError>;
    /// A badge with its organization, in any organization.
    async fn badge(
        &self,
        id: &str,
    ) -> Result<Option<(BadgeRecord, OrganizationRecord)>, StoreError>;
    /// The newest badge of an assessment with its organization, in any organization.
    async fn newest_badge(
        &self,
        assessment: &str,
    ) -> Result<Option<(BadgeRecord, OrganizationRecord)>, StoreError>;
    async fn badge_of(
        &self,
        organization: OrganizationNumber,
        assessment: &str,
    ) -> Result<Option<BadgeRecord>, StoreError>;
    /// Revokes an issued badge and writes the audit entry; [`StoreError::Stale`] if the badge is
    /// not issued any more.
    async fn revoke_badge(
        &self,
        badge: &BadgeRecord,
        revocation: &Revocation,
        organization: &OrganizationRecord,
        decision: &Decision,
    ) -> Result<(), StoreError>;
}
