//! Results of agent card checks, and watched cards.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::aaaf::OrganizationNumber;
use crate::domain::aaaf::notice::Notice;
use crate::domain::card::history::{AlertBelow, Look};
use crate::domain::ids::TenantId;

/// A watched card: checked at an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardWatch {
    pub url: String,
    /// The interval in hours.
    pub every_hours: u32,
    /// Whether its agent is tested live, too.
    pub live: bool,
    pub created_at: Timestamp,
    /// The score thresholds below which the organization is alerted.
    #[serde(default)]
    pub alert_below: AlertBelow,
}

/// A watched card that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueCard {
    pub tenant: TenantId,
    pub watch: CardWatch,
}

/// A notice to be sent for a check.
#[derive(Clone, Copy)]
pub struct Telling<'a> {
    /// The organization that receives it.
    pub organization: OrganizationNumber,
    /// Computes the notices from the last check, the last one with scores and the last live one,
    /// newest first. Of two concurrent checks of a card, the second sees the first.
    pub notices: &'a (dyn Fn(&[Look]) -> Vec<Notice> + Send + Sync),
}

/// Results of agent card checks by tenant and URL.
#[async_trait]
pub trait CardLooks: Send + Sync {
    /// Stores a result together with its notices, or neither; returns whether there were notices.
    /// Old results are deleted, except the newest one with scores and the newest live one.
    async fn keep_card_look(
        &self,
        tenant: &TenantId,
        look: &Look,
        telling: Option<Telling<'_>>,
    ) -> Result<bool, StoreError>;
    /// The results of a card, newest first.
    async fn card_looks(
        &self,
        tenant: &TenantId,
        url: &str,
        most: u32,
    ) -> Result<Vec<Look>, StoreError>;
    /// Watches a card from `due` on, replacing an earlier watch of it; `false` if the tenant
    /// already watches `most` other cards.
    async fn watch_card(
        &self,
        tenant: &TenantId,
        watch: &CardWatch,
        due: Timestamp,
        most: u32,
    ) -> Result<bool, StoreError>;
    /// Stops watching a card; returns whether it was watched.
    async fn unwatch_card(&self, tenant: &TenantId, url: &str) -> Result<bool, StoreError>;
    /// The watched cards of a tenant, by URL, and when each is due.
    async fn card_watches(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<(CardWatch, Timestamp)>, StoreError>;
    /// Cards that are due, of all tenants, longest overdue first.
    async fn due_cards(&self, now: Timestamp, most: u32) -> Result<Vec<DueCard>, StoreError>;
    /// Sets when a card is due next, if it is still watched, and still due at `instead_of` if that
    /// is given.
    async fn card_due(
        &self,
        tenant: &TenantId,
        url: &str,
        due: Timestamp,
        instead_of: Option<Timestamp>,
    ) -> Result<(), StoreError>;
}
