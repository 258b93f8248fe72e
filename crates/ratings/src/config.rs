//! Settings of the AAAF API: limits per key, and access to agents that run elsewhere.

use std::collections::BTreeSet;

use secrecy::SecretString;
use serde::Deserialize;

use crate::http::rates::RatingRates;
use crate::rules::badge::host_url::{HostUrl, InvalidHostUrl};
use touchstone_agents::model::external_agents::{Credential, ExternalAgentSettings, NamedCommand};
use touchstone_agents::rules::reached_by::place;
use touchstone_host::config::Error;
use touchstone_kit::ids::TenantId;
use touchstone_kit::network::{Allowed, Endpoint};

/// Limits per key (0: no limit), the host's URL in badges, and access to agents that run elsewhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RatingSettings {
    pub requests_per_minute_per_key: u32,
    pub events_per_minute_per_key: u32,
    pub assessments_per_hour_per_key: u32,
    /// Public URL of the host for badge verification. If unset, badges name the address that the
    /// host listens on.
    pub public_url: Option<String>,
    pub reach: ReachConfig,
}

/// How agents that run elsewhere may be reached, in addition to https to public addresses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReachConfig {
    /// Addresses in private networks that enrollments may name, each a host with a port:
    /// `10.1.0.7:8443`.
    pub private_targets: Vec<String>,
    /// Credentials that enrollments may name.
    pub credentials: Vec<CredentialConfig>,
    /// Commands that enrollments may name. No other command is executed.
    pub commands: Vec<CommandConfig>,
}

/// A credential for agents of one origin.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialConfig {
    /// The name that enrollments use.
    pub name: String,
    /// The only origin that the credential is sent to, such as `https://agents.acme.example`.
    pub origin: String,
    /// The environment variable that holds the bearer token. The token itself is never in a file.
    pub api_key_env: String,
    /// Tenants whose enrollments may name the credential.
    pub tenants: Vec<String>,
}

/// A command that answers for an agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// The name that enrollments use.
    pub name: String,
    /// The command line, for `sh -c`.
    pub command: SecretString,
    /// Tenants whose enrollments may name the command.
    pub tenants: Vec<String>,
}

impl Default for RatingSettings {
    fn default() -> Self {
        Self {
            requests_per_minute_per_key: 600,
            events_per_minute_per_key: 6000,
            assessments_per_hour_per_key: 10,
            public_url: None,
            reach: ReachConfig::default(),
        }
    }
}

impl RatingSettings {
    pub fn rates(&self) -> RatingRates {
        RatingRates {
            requests_per_minute: self.requests_per_minute_per_key,
            events_per_minute: self.events_per_minute_per_key,
            assessments_per_hour: self.assessments_per_hour_per_key,
        }
    }

    /// The public URL of a host that listens on `listen`, for badge verification.
    ///
    /// # Errors
    /// `public_url` is not an address that badges can name.
    pub fn host_url(&self, listen: &str) -> Result<HostUrl, InvalidHostUrl> {
        match &self.public_url {
            Some(address) => HostUrl::public(address),
            None => Ok(HostUrl::listening(listen)),
        }
    }
}

impl ReachConfig {
    /// The parsed settings. Reads tokens from the environment through `environment` once, during
    /// this call.
    ///
    /// # Errors
    /// [`Error`] naming the field.
    pub fn settings(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ExternalAgentSettings, Error> {
        distinct("credentials", self.credentials.iter().map(|it| &it.name))?;
        distinct("commands", self.commands.iter().map(|it| &it.name))?;
        let mut private_targets = Vec::new();
        for text in &self.private_targets {
            let target = text.parse::<Endpoint>().map_err(|fault| {
                Error::Unusable(format!(
                    "`ratings.reach.private_targets`, `{text}`: {fault}"
                ))
            })?;
            private_targets.push(target);
        }
        let mut credentials = Vec::new();
        for (index, it) in self.credentials.iter().enumerate() {
            let wrong = |field: &str, rule: &str| wrong("credentials", index, field, rule);
            let url = place(&it.origin).filter(|url| url.path() == "/");
            let url = url.ok_or_else(|| {
                let rule = "must be an http or https origin, such as https://agents.example:8443";
                wrong("origin", rule)
            })?;
            let name = &it.api_key_env;
            let key = environment(name).filter(|key| !key.is_empty());
            let key = key.ok_or_else(|| {
                let rule = format!("names the environment variable {name}, which is not set");
                wrong("api_key_env", &rule)
            })?;
            credentials.push(Credential {
                name: it.name.clone(),
                origin: url.origin(),
                key: key.into(),
                tenants: tenants(&it.tenants),
            });
        }
        let commands = self.commands.iter().map(|it| NamedCommand {
            name: it.name.clone(),
            command: it.command.clone(),
            tenants: tenants(&it.tenants),
        });
        Ok(ExternalAgentSettings {
            private_targets: Allowed::of(private_targets),
            credentials,
            commands: commands.collect(),
        })
    }
}

fn tenants(names: &[String]) -> Vec<TenantId> {
    names.iter().map(|it| TenantId::from(it.as_str())).collect()
}

/// Refuses names that are too short or too long for an enrollment, and duplicates.
fn distinct<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !(1..=MAX_NAME).contains(&name.chars().count()) {
            return Err(wrong(list, index, "name", "must be 1 to 64 characters"));
        }
        if !seen.insert(name) {
            return Err(wrong(
                list,
                index,
                "name",
                "repeats the name of an earlier entry",
            ));
        }
    }
    Ok(())
}

fn wrong(list: &str, index: usize, field: &str, rule: &str) -> Error {
    Error::Unusable(format!("`ratings.reach.{list}[{index}].{field}` {rule}"))
}

/// Maximum characters of a name.
const MAX_NAME: usize = 64;
