//! Settings of OASIS evaluations: environment providers, and the operator's declarations about the
//! lab.

use std::collections::BTreeSet;
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use url::{Origin, Url};

use crate::net::ProviderAccess;
use touchstone_host::config::Error;

/// Maximum characters of a provider's name.
const LONGEST_NAME: usize = 64;
/// Upper limit in bytes for `max_response_bytes`; answers are held in memory.
const LARGEST_ANSWER: u64 = 64 << 20;
/// Minimum length of a bearer token in bytes. The host redacts the token from a provider's answers;
/// a shorter token would match member names and ordinary words.
const SHORTEST_TOKEN: usize = 8;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OasisSettings {
    /// The default evaluator for requests that name none.
    pub evaluator: Option<String>,
    /// The operator's description of the lab, used in reports for providers without their own.
    pub lab_framework: Option<String>,
    /// Environment providers. Requests name one of them and cannot supply an address.
    pub providers: Vec<OasisProviderConfig>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OasisProviderConfig {
    /// The name that requests use.
    pub name: String,
    /// Base URL; `/v1/…` is below it.
    pub url: String,
    /// The environment variable that holds the evaluator's bearer token. The token itself is never
    /// in a file.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Timeout of one call in seconds.
    #[serde(default = "default_timeout")]
    pub timeout_s: f64,
    /// Maximum size of an answer in bytes.
    #[serde(default = "default_answer")]
    pub max_response_bytes: u64,
    /// Origins that agents' endpoints may have, in addition to the origin of `url`.
    #[serde(default)]
    pub agent_origins: Vec<String>,
    /// Maximum difference between the provider's clock and the host's, in seconds.
    #[serde(default = "default_clock_tolerance")]
    pub clock_tolerance_s: f64,
    /// The operator's description of the provider's lab; overrides `oasis.lab_framework`.
    #[serde(default)]
    pub lab_framework: Option<String>,
}

const fn default_timeout() -> f64 {
    30.0
}
const fn default_answer() -> u64 {
    8 << 20
}
const fn default_clock_tolerance() -> f64 {
    60.0
}

impl OasisSettings {
    /// Checks rules that the types do not express.
    ///
    /// # Errors
    /// [`Error`] naming the field.
    pub fn check(&self) -> Result<(), Error> {
        for (field, text) in [
            ("evaluator", &self.evaluator),
            ("lab_framework", &self.lab_framework),
        ] {
            if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
                return Err(unusable(&format!(
                    "`oasis.{field}` must not be empty; leave it out"
                )));
            }
        }
        let mut names = BTreeSet::new();
        for (index, provider) in self.providers.iter().enumerate() {
            provider.access(index, None)?;
            if !names.insert(&provider.name) {
                return Err(wrong(index, "name", "repeats the name of an earlier entry"));
            }
        }
        Ok(())
    }

    /// Access data of the providers. Reads tokens from the environment through `environment` once,
    /// during this call.
    ///
    /// # Errors
    /// [`Error`] naming the field.
    pub fn accesses(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<ProviderAccess>, Error> {
        let access = |(index, provider): (usize, &OasisProviderConfig)| -> Result<_, Error> {
            let read = |name: &String| -> Result<SecretString, Error> {
                let token = environment(name).filter(|token| !token.is_empty());
                let token = token.ok_or_else(|| {
                    let rule = format!("names the environment variable {name}, which is not set");
                    wrong(index, "api_key_env", &rule)
                })?;
                if token.len() < SHORTEST_TOKEN {
                    let rule = format!(
                        "names the environment variable {name}, whose token must have at least {SHORTEST_TOKEN} bytes"
                    );
                    return Err(wrong(index, "api_key_env", &rule));
                }
                Ok(SecretString::from(token))
            };
            let token = provider.api_key_env.as_ref().map(read).transpose()?;
            let access = provider.access(index, token)?;
            Ok(ProviderAccess {
                lab_framework: access.lab_framework.or_else(|| self.lab_framework.clone()),
                ..access
            })
        };
        self.providers.iter().enumerate().map(access).collect()
    }
}

impl OasisProviderConfig {
    fn access(&self, index: usize, token: Option<SecretString>) -> Result<ProviderAccess, Error> {
        let bad = |field: &str, rule: &str| Err(wrong(index, field, rule));
        if !(1..=LONGEST_NAME).contains(&self.name.len())
            || !self
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        {
            return bad(
                "name",
                "must be 1 to 64 lower-case letters, digits and hyphens",
            );
        }
        let Some(url) = place(&self.url) else {
            return bad(
                "url",
                "must be an http or https address without credentials, query and fragment",
            );
        };
        if self.api_key_env.as_deref() == Some("") {
            return bad("api_key_env", "must not be empty; leave it out");
        }
        if !(0.001..=3600.0).contains(&self.timeout_s) {
            return bad("timeout_s", "must be between 0.001 and 3600 seconds");
        }
        if !(1..=LARGEST_ANSWER).contains(&self.max_response_bytes) {
            return bad("max_response_bytes", "must be between 1 and 67108864");
        }
        if !(0.0..=3600.0).contains(&self.clock_tolerance_s) {
            return bad("clock_tolerance_s", "must be between 0 and 3600 seconds");
        }
        if self
            .lab_framework
            .as_ref()
            .is_some_and(|it| it.trim().is_empty())
        {
            return bad("lab_framework", "must not be empty; leave it out");
        }
        let mut agent_origins = Vec::new();
        for (at, text) in self.agent_origins.iter().enumerate() {
            let Some(origin) = origin(text) else {
                return bad(
                    &format!("agent_origins[{at}]"),
                    "must be an http or https origin, such as https://desk.example:8443",
                );
            };
            agent_origins.push(origin);
        }
        Ok(ProviderAccess {
            name: self.name.clone(),
            url,
            token,
            timeout: Duration::from_secs_f64(self.timeout_s),
            max_response_bytes: self.max_response_bytes,
            clock_tolerance: Duration::from_secs_f64(self.clock_tolerance_s),
            agent_origins,
            lab_framework: self.lab_framework.clone(),
        })
    }
}

fn unusable(what: &str) -> Error {
    Error::Unusable(what.to_owned())
}

fn wrong(index: usize, field: &str, rule: &str) -> Error {
    unusable(&format!("`oasis.providers[{index}].{field}` {rule}"))
}

/// A provider's address. An invalid one is not repeated in messages, since it may contain a
/// password.
fn place(text: &str) -> Option<Url> {
    let url: Url = text.parse().ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    plain.then_some(url)
}

fn origin(text: &str) -> Option<Origin> {
    let url = place(text)?;
    (url.path() == "/").then(|| url.origin())
}
