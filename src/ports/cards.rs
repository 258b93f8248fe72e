//! What agent cards came to, and which are looked at again by themselves.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::aaaf::OrganizationNumber;
use crate::domain::aaaf::notice::Notice;
use crate::domain::card::history::{AlertBelow, Look};
use crate::domain::ids::TenantId;

/// A card that is looked at again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardWatch {
    /// Where it is.
    pub url: String,
    /// How often, in hours.
    pub every_hours: u32,
    /// Whether its agent is asked, too.
    pub live: bool,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Below which totals somebody is told.
    #[serde(default)]
    pub alert_below: AlertBelow,
}

/// One that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueCard {
    /// Whose it is.
    pub tenant: TenantId,
    /// What is to be done.
    pub watch: CardWatch,
}

/// Who is told of a look, and what.
#[derive(Clone, Copy)]
pub struct Telling<'a> {
    /// Whom.
    pub organization: OrganizationNumber,
    /// What, given the newest look before, the newest with scores and the newest that asked, newest first. Of two looks at the
    /// same card at once the second one sees the first.
    pub notices: &'a (dyn Fn(&[Look]) -> Vec<Notice> + Send + Sync),
}

/// Looks at agent cards by tenant and URL.
#[async_trait]
pub trait CardLooks: Send + Sync {
    /// Keeps a look, with what somebody is told of it, or neither; whether anybody was told. Old looks make room for it, but not
    /// the newest with scores nor the newest that asked.
    async fn keep_card_look(
        &self,
        tenant: &TenantId,
        look: &Look,
        telling: Option<Telling<'_>>,
    ) -> Result<bool, StoreError>;
    /// The looks at a card, newest first.
    async fn card_looks(
        &self,
        tenant: &TenantId,
        url: &str,
        most: u32,
    ) -> Result<Vec<Look>, StoreError>;
    /// Watches a card from `due` on, in the place of how it was watched before; `false` if the tenant has `most` of others.
    async fn watch_card(
        &self,
        tenant: &TenantId,
        watch: &CardWatch,
        due: Timestamp,
        most: u32,
    ) -> Result<bool, StoreError>;
    /// Watches it no more; whether it was watched.
    async fn unwatch_card(&self, tenant: &TenantId, url: &str) -> Result<bool, StoreError>;
    /// The cards a tenant watches, by URL, and when each is due.
    async fn card_watches(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<(CardWatch, Timestamp)>, StoreError>;
    /// Cards that are due, of all tenants, those first that have waited longest.
    async fn due_cards(&self, now: Timestamp, most: u32) -> Result<Vec<DueCard>, StoreError>;
    /// Says when a card is due again, if it is still watched, and still due at `instead_of` if that is given.
    async fn card_due(
        &self,
        tenant: &TenantId,
        url: &str,
        due: Timestamp,
        instead_of: Option<Timestamp>,
    ) -> Result<(), StoreError>;
}
