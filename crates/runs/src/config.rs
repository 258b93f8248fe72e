//! Settings of webhooks.

use serde::Deserialize;

use touchstone_host::config::Error;
use touchstone_host::net::target::PrivateTarget;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// Addresses in private networks that subscriptions may name, also over plain http:
    /// `10.1.0.0/16`, `127.0.0.1:1024-65535`, `hooks.internal:8080`.
    pub private_targets: Vec<String>,
}

impl WebhookSettings {
    /// The parsed `private_targets`.
    ///
    /// # Errors
    /// [`Error`] naming the entry that cannot be parsed.
    pub fn targets(&self) -> Result<Vec<PrivateTarget>, Error> {
        let read = |text: &String| {
            text.parse().map_err(|fault| {
                Error::Unusable(format!("`webhooks.private_targets`, `{text}`: {fault}"))
            })
        };
        self.private_targets.iter().map(read).collect()
    }
}
