//! How much of the AAAF API one key may ask for.

use serde::Deserialize;

use crate::domain::aaaf::place::{NoPlace, Place};

/// What one key may ask for (0: no limit), and what badges say of the host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AaafSettings {
    /// Requests per minute.
    pub requests_per_minute_per_key: u32,
    /// Events per minute.
    pub events_per_minute_per_key: u32,
    /// Assessments per hour.
    pub assessments_per_hour_per_key: u32,
    /// Where the host is reached by those who verify badges; without it badges name the address it listens on.
    pub public_url: Option<String>,
}

impl Default for AaafSettings {
    fn default() -> Self {
        Self {
            requests_per_minute_per_key: 600,
            events_per_minute_per_key: 6000,
            assessments_per_hour_per_key: 10,
            public_url: None,
        }
    }
}

impl AaafSettings {
    /// Where a host that listens there is reached by those who verify its badges.
    ///
    /// # Errors
    /// `public_url` is no address that badges can name.
    pub fn place(&self, listen: &str) -> Result<Place, NoPlace> {
        match &self.public_url {
            Some(address) => Place::public(address),
            None => Ok(Place::listening(listen)),
        }
    }
}
