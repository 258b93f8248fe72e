//! Store access to badges, issuer keys and status lists.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ports::agents::AgentNumber;
use crate::ports::organizations::{OrganizationNumber, OrganizationRecord};
use crate::rules::badge::{Badge, RevocationReason};
use touchstone_kit::keys::PublicKey;

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
pub struct BadgeSummary {
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
