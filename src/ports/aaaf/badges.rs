//! Badges, what signs them, and the lists that revoke them.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{AgentNumber, OrganizationNumber, OrganizationRecord};
use crate::domain::aaaf::badge::{Badge, RevocationReason};
use crate::domain::audit::Decision;
use crate::domain::pack::keys::PublicKey;
use crate::ports::StoreError;

/// What became of a badge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadgeState {
    /// It waits for a person.
    Withheld,
    /// A person decided against it.
    Rejected,
    /// It was issued.
    Issued,
    /// It was issued and taken back.
    Revoked,
}

impl BadgeState {
    const ALL: &'static [Self] = &[Self::Withheld, Self::Rejected, Self::Issued, Self::Revoked];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Withheld => "withheld",
            Self::Rejected => "rejected",
            Self::Issued => "issued",
            Self::Revoked => "revoked",
        }
    }

    /// Whether it can be seen: it was issued once.
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Issued | Self::Revoked)
    }

    /// The state with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }
}

/// What a badge was issued with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The signed credential, as it is served.
    pub credential: String,
    /// The list that says whether it is revoked.
    pub status_list: StatusListNumber,
    /// Its bit in it.
    pub status_index: u32,
}

/// That a badge was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// Why.
    pub reason: RevocationReason,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A badge: a revision of what an assessment certifies.
#[derive(Clone, Debug, PartialEq)]
pub struct BadgeRecord {
    /// Whose.
    pub organization: OrganizationNumber,
    /// What the store calls the agent.
    pub agent: AgentNumber,
    /// Counts from 1 within an assessment.
    pub revision: u32,
    /// What became of it.
    pub state: BadgeState,
    /// What it says. Its id is the badge's.
    pub badge: Badge,
    /// What it was issued with; `None` for one that was not.
    pub issued: Option<Issued>,
    /// How it was taken back.
    pub revocation: Option<Revocation>,
    /// When there first was something to issue.
    pub created_at: Timestamp,
}

/// How the newest revision of an assessment's badge stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadgeStanding {
    /// Its id.
    pub id: String,
    /// What became of it.
    pub state: BadgeState,
}

/// What the store calls a status list; part of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatusListNumber(pub i64);

/// A status list: of one issuer, at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusListRecord {
    /// Its number.
    pub number: StatusListNumber,
    /// Whose.
    pub organization: OrganizationNumber,
    /// The DID that issues it, and everything on it.
    pub issuer: String,
    /// Where the host was reached when it was made: what was issued then names that address.
    pub base_url: String,
    /// Grows with every revocation.
    pub changes: i64,
}

/// A key an organization signs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerKeyRecord {
    /// The half anybody may know.
    pub public: PublicKey,
    /// The other one, sealed.
    pub sealed: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When another one took its place.
    pub retired_at: Option<Timestamp>,
    /// Whether it fell into other hands: nothing it signed is believed.
    pub compromised: bool,
}

/// The end of a key.
#[derive(Clone, Copy, Debug)]
pub struct Retirement<'a> {
    /// Whose it is.
    pub organization: &'a OrganizationRecord,
    /// The key.
    pub key: &'a PublicKey,
    /// What takes its place, of the current one; one that is retired has been followed already.
    pub successor: Option<&'a IssuerKeyRecord>,
    /// How everything it signed is taken back, if it fell into other hands.
    pub compromised: Option<&'a Revocation>,
    /// When.
    pub at: Timestamp,
}

/// Badges of organizations. They are added and approved with their assessments.
#[async_trait]
pub trait Badges: Send + Sync {
    /// The keys of an organization, the oldest first.
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
    /// Ends a key, with everything that follows from it, and records the decision; how many badges were taken back.
    /// [`StoreError::Stale`] if it is another kind of key by now.
    async fn retire_issuer_key(
        &self,
        retirement: &Retirement<'_>,
        decision: &Decision,
    ) -> Result<u64, StoreError>;
    /// The list of an issuer at an address that has room, made if need be: fewer than `room` of its bits are given out.
    async fn open_status_list(
        &self,
        organization: OrganizationNumber,
        issuer: &str,
        base_url: &str,
        room: u32,
        now: Timestamp,
    ) -> Result<StatusListRecord, StoreError>;
    /// A list, whosever it is.
    async fn status_list(
        &self,
        number: StatusListNumber,
    ) -> Result<Option<StatusListRecord>, StoreError>;
    /// The bits of a list that stand for what was revoked.
    async fn revoked_bits(&self, number: StatusListNumber) -> Result<Vec<u32>, StoreError>;
    /// A badge with its organization, whosever it is.
    async fn badge(
        &self,
        id: &str,
    ) -> Result<Option<(BadgeRecord, OrganizationRecord)>, StoreError>;
    /// The newest badge of an assessment with its organization, whosever it is.
    async fn newest_badge(
        &self,
        assessment: &str,
    ) -> Result<Option<(BadgeRecord, OrganizationRecord)>, StoreError>;
    /// The newest revision of an assessment's badge.
    async fn badge_of(
        &self,
        organization: OrganizationNumber,
        assessment: &str,
    ) -> Result<Option<BadgeRecord>, StoreError>;
    /// Takes an issued badge back, and records the decision; [`StoreError::Stale`] if it is no issued one any more.
    async fn revoke_badge(
        &self,
        badge: &BadgeRecord,
        revocation: &Revocation,
        organization: &OrganizationRecord,
        decision: &Decision,
    ) -> Result<(), StoreError>;
}
