//! How much of the AAAF API one key may ask for, and how agents that run elsewhere may be reached.

use std::collections::BTreeSet;

use secrecy::SecretString;
use serde::Deserialize;

use super::Error;
use crate::agent::model::{Credential, NamedCommand, ReachSettings};
use crate::domain::aaaf::place::{NoPlace, Place};
use crate::domain::card::signature::{Allowed, Endpoint};
use crate::domain::ids::TenantId;
use crate::domain::run::reached_by::place;

/// What one key may ask for (0: no limit), what badges say of the host, and how agents that run elsewhere may be reached.
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
    /// How stress tests may reach agents that run elsewhere.
    pub reach: ReachConfig,
}

/// How agents that run elsewhere may be reached, beside https to public addresses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReachConfig {
    /// Places in private networks that enrolments may name, each a host with its port: `10.1.0.7:8443`.
    pub private_targets: Vec<String>,
    /// Credentials that enrolments may name.
    pub credentials: Vec<CredentialConfig>,
    /// Commands that enrolments may name. Nothing else is executed.
    pub commands: Vec<CommandConfig>,
}

/// A credential for agents of one origin.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialConfig {
    /// What enrolments call it.
    pub name: String,
    /// The only origin it is sent to, such as `https://agents.acme.example`.
    pub origin: String,
    /// The environment variable that holds the bearer token. The token itself never stands in a file.
    pub api_key_env: String,
    /// Tenants whose enrolments may name it.
    pub tenants: Vec<String>,
}

/// A command that answers for an agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// What enrolments call it.
    pub name: String,
    /// The command line, for `sh -c`.
    pub command: SecretString,
    /// Tenants whose enrolments may name it.
    pub tenants: Vec<String>,
}

impl Default for AaafSettings {
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

impl ReachConfig {
    /// What the operator allows. Tokens are read from the environment through `environment`, now and never again.
    ///
    /// # Errors
    /// [`Error`] naming the field.
    pub fn settings(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ReachSettings, Error> {
        distinct("credentials", self.credentials.iter().map(|it| &it.name))?;
        distinct("commands", self.commands.iter().map(|it| &it.name))?;
        let mut private_targets = Vec::new();
        for text in &self.private_targets {
            let target = text.parse::<Endpoint>().map_err(|fault| {
                Error::Unusable(format!("`aaaf.reach.private_targets`, `{text}`: {fault}"))
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
        Ok(ReachSettings {
            private_targets: Allowed::of(private_targets),
            credentials,
            commands: commands.collect(),
        })
    }
}

fn tenants(names: &[String]) -> Vec<TenantId> {
    names.iter().map(|it| TenantId::from(it.as_str())).collect()
}

/// Refuses names that an enrolment cannot have, or that two entries have.
fn distinct<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !(1..=LONGEST_NAME).contains(&name.chars().count()) {
            return Err(wrong(list, index, "name", "must be 1 to 64 characters"));
        }
        if !seen.insert(name) {
            return Err(wrong(list, index, "name", "is that of an earlier entry"));
        }
    }
    Ok(())
}

fn wrong(list: &str, index: usize, field: &str, rule: &str) -> Error {
    Error::Unusable(format!("`aaaf.reach.{list}[{index}].{field}` {rule}"))
}

/// Characters of a name at most.
const LONGEST_NAME: usize = 64;
