//! How much of the AAAF API one key may ask for.

use serde::Deserialize;

/// Numbers of one key; 0: no limit.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AaafSettings {
    /// Requests per minute.
    pub requests_per_minute_per_key: u32,
    /// Events per minute.
    pub events_per_minute_per_key: u32,
    /// Assessments per hour.
    pub assessments_per_hour_per_key: u32,
}

impl Default for AaafSettings {
    fn default() -> Self {
        Self {
            requests_per_minute_per_key: 600,
            events_per_minute_per_key: 6000,
            assessments_per_hour_per_key: 10,
        }
    }
}
