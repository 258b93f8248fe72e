//! Settings of agent card scoring: trusted signers, and addresses in private networks that may be
//! contacted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use url::Host;

use crate::prober::CardProber;
use crate::rules::signature::{Jwk, KeySet, Keys, MAX_KEY_SET_OCTETS, MAX_KEYS};
use crate::service::Cards;
use touchstone_host::config::Error;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::network::{Allowed, Endpoint};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentCardSettings {
    /// A key set (RFC 7517) of keys trusted by their `kid`, which take precedence over key sets
    /// that signatures name.
    pub trusted_keys: Option<PathBuf>,
    /// Hosts whose key sets are accepted for agents of other hosts.
    pub trusted_issuers: Vec<String>,
    /// Addresses in private networks that cards may name, each a host with a port: `10.1.0.7:8443`,
    /// `agents.internal:8080`.
    pub private_targets: Vec<String>,
}

impl AgentCardSettings {
    /// The card scorer with these settings.
    ///
    /// # Errors
    /// A setting is not usable.
    pub fn cards(&self) -> Result<Cards, Error> {
        Ok(Cards::new(
            Arc::new(CardProber::new(self.allowed()?)),
            Arc::new(SystemClock),
            Arc::new(SystemIds),
            self.keys()?,
        ))
    }

    /// The keys and rules for verifying signatures, before any key set is fetched.
    ///
    /// # Errors
    /// [`Error`] naming the setting.
    pub fn keys(&self) -> Result<Keys, Error> {
        Ok(Keys {
            trust_store: self.trust_store()?,
            trusted_issuers: self.issuers()?,
            allowed: self.allowed()?,
            ..Keys::default()
        })
    }

    /// The private addresses that may be contacted.
    ///
    /// # Errors
    /// [`Error`] naming the entry that cannot be parsed.
    pub fn allowed(&self) -> Result<Allowed, Error> {
        let read = |text: &String| {
            text.parse::<Endpoint>().map_err(|fault| {
                Error::Unusable(format!("`agent_cards.private_targets`, `{text}`: {fault}"))
            })
        };
        let places: Vec<Endpoint> = self
            .private_targets
            .iter()
            .map(read)
            .collect::<Result<_, _>>()?;
        Ok(Allowed::of(places))
    }

    /// Hosts in the form of the URL Standard, for comparison.
    fn issuers(&self) -> Result<BTreeSet<String>, Error> {
        let read = |text: &String| match Host::parse(text) {
            Ok(host) if !text.contains('*') => Ok(host.to_string()),
            _ => Err(Error::Unusable(format!(
                "`agent_cards.trusted_issuers`, `{text}`: must be a host, such as keys.partner.example"
            ))),
        };
        self.trusted_issuers.iter().map(read).collect()
    }

    fn trust_store(&self) -> Result<BTreeMap<String, Jwk>, Error> {
        let Some(file) = &self.trusted_keys else {
            return Ok(BTreeMap::new());
        };
        let unusable = |what: &str| {
            Error::Unusable(format!(
                "`agent_cards.trusted_keys`, {}: {what}",
                file.display()
            ))
        };
        let bytes = std::fs::read(file)
            .map_err(|cause| unusable(&format!("could not be read: {cause}")))?;
        let set = KeySet::parse(&bytes).ok_or_else(|| {
            unusable(&format!(
                "is not a key set of at most {MAX_KEYS} keys and {MAX_KEY_SET_OCTETS} bytes; \
                write {{\"keys\": […]}}"
            ))
        })?;
        set.by_id()
            .ok_or_else(|| unusable("has a key without a unique `kid`; give every key its own"))
    }
}
