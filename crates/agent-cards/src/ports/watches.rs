//! Results of agent card checks, and watched cards.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rules::history::{AlertBelow, CardScoring};
use touchstone_kit::ids::TenantId;
use touchstone_ratings::ports::organizations::OrganizationNumber;
use touchstone_ratings::rules::notice::Notice;

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
pub struct WatchNotice<'a> {
    /// The organization that receives it.
    pub organization: OrganizationNumber,
    /// Computes the notices from the last check, the last one with scores and the last live one,
    /// newest first. Of two concurrent checks of a card, the second sees the first.
    pub notices: &'a (dyn Fn(&[CardScoring]) -> Vec<Notice> + Send + Sync),
}
