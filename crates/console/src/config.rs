//! Settings of the console.

use jiff::SignedDuration;
use serde::Deserialize;

use crate::session::oidc::config::OidcConfig;
use touchstone_host::service::sessions::SessionLimits;

/// Longest possible session, in hours.
const MAX_HOURS: i64 = 7 * 24;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsoleConfig {
    /// Whether the host serves the console.
    pub enabled: bool,
    /// Whether the console opens without a key to a browser on the same machine, as long as the
    /// host has no key.
    pub open_on_loopback: bool,
    /// A session without a request ends after this time.
    pub idle_minutes: i64,
    /// Every session ends after this time.
    pub session_hours: i64,
    /// The OpenID provider at which people sign in.
    pub oidc: Option<OidcConfig>,
}

/// A setting of the host as it is in force, for people to read. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its place in the configuration, such as `limits.max_tasks_per_suite`.
    pub name: String,
    pub value: String,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            open_on_loopback: true,
            idle_minutes: 30,
            session_hours: 12,
            oidc: None,
        }
    }
}

impl ConsoleConfig {
    /// Whether browsers on the same machine need no key while the host has none.
    pub fn opens_without_key(&self) -> bool {
        self.enabled && self.open_on_loopback && self.oidc.is_none()
    }

    /// # Errors
    /// A text that names the setting and its bounds.
    pub fn session_limits(&self) -> Result<SessionLimits, String> {
        let within = |name: &str, value: i64, most: i64| match value {
            value if (1..=most).contains(&value) => Ok(value),
            value => Err(format!(
                "`console.{name}` is {value}; use a number from 1 to {most}"
            )),
        };
        let hours = within("session_hours", self.session_hours, MAX_HOURS)?;
        let minutes = within("idle_minutes", self.idle_minutes, hours * 60)?;
        Ok(SessionLimits {
            idle: SignedDuration::from_mins(minutes),
            absolute: SignedDuration::from_hours(hours),
            ..SessionLimits::default()
        })
    }
}
