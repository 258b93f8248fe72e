//! Agents that run elsewhere, as their organizations name them; stress tests call them.
//!
//! A URL comes with a request, so it may only lead to public addresses over https, or to an address
//! that the operator allows. A credential is only sent to the origin that the operator bound it to.
//! A command is one of the operator's. Each is for certain tenants; for other tenants the name does
//! not exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use secrecy::{ExposeSecret as _, SecretString};
use url::{Origin, Url};

use crate::model::a2a::A2aAgent;
use crate::model::command::CommandModel;
use crate::model::config::{ModelConfig, Provider};
use crate::model::endpoint::{Access, Error};
use crate::model::entries::{endpoint_pin, info, permits_of};
use crate::model::openwop::OpenWopAgent;
use crate::ports::model::{Model, ModelBinding, Permits, UnusableTransport};
use crate::rules::EndpointPin;
use crate::rules::reached_by::{ReachedBy, place};
use crate::rules::worker_labels::WorkerLabels;
use touchstone_host::net::address::AddressScope;
use touchstone_host::ports::clock::Clock;
use touchstone_kit::ids::TenantId;
use touchstone_kit::network::{Allowed, Endpoint};

/// Timeout of one attempt in seconds: an agent may take longer than a model.
const TIMEOUT_S: f64 = 300.0;
/// Maximum calls in flight per agent.
const CONCURRENCY: u32 = 8;

/// The operator's settings.
#[derive(Clone, Debug, Default)]
pub struct ExternalAgentSettings {
    /// Addresses in private networks that may be named.
    pub private_targets: Allowed,
    /// Credentials that may be named.
    pub credentials: Vec<Credential>,
    /// Commands that may be named.
    pub commands: Vec<NamedCommand>,
}

/// A credential of the operator.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The name that enrollments use.
    pub name: String,
    /// The only origin that the credential is sent to.
    pub origin: Origin,
    /// The bearer token.
    pub key: SecretString,
    /// Tenants that may name it.
    pub tenants: Vec<TenantId>,
}

/// A command of the operator.
#[derive(Clone, Debug)]
pub struct NamedCommand {
    /// The name that enrollments use.
    pub name: String,
    /// The command line, for the shell. It may contain secrets.
    pub command: SecretString,
    /// Tenants that may name it.
    pub tenants: Vec<TenantId>,
}

/// Agents that run elsewhere.
pub struct ExternalAgents {
    settings: ExternalAgentSettings,
    clock: Arc<dyn Clock>,
    /// Agents in use by runs. The runs share one client or process, which ends with the last run.
    held: Mutex<HashMap<(TenantId, ReachedBy), WeakBinding>>,
}

struct WeakBinding {
    model: Weak<dyn Model>,
    permits: Weak<dyn Permits>,
    endpoint: Option<EndpointPin>,
}

impl WeakBinding {
    fn of(binding: &ModelBinding) -> Self {
        Self {
            model: Arc::downgrade(&binding.model),
            permits: Arc::downgrade(&binding.permits),
            endpoint: binding.endpoint.clone(),
        }
    }

    fn binding(&self) -> Option<ModelBinding> {
        Some(ModelBinding {
            model: self.model.upgrade()?,
            permits: self.permits.upgrade()?,
            endpoint: self.endpoint.clone(),
            worker_labels: WorkerLabels::default(),
        })
    }
}

impl ExternalAgents {
    pub fn new(settings: ExternalAgentSettings, clock: Arc<dyn Clock>) -> Self {
        Self {
            settings,
            clock,
            held: Mutex::default(),
        }
    }

    /// An agent, reached as this tenant names it.
    ///
    /// # Errors
    /// The operator does not allow it.
    pub fn reach(
        &self,
        tenant: &TenantId,
        transport: &ReachedBy,
    ) -> Result<ModelBinding, UnusableTransport> {
        let key = (tenant.clone(), transport.clone());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(binding) = held.get(&key).and_then(WeakBinding::binding) {
            return Ok(binding);
        }
        let binding = self.connect(tenant, transport)?;
        held.retain(|_, it| it.model.strong_count() > 0);
        held.insert(key, WeakBinding::of(&binding));
        Ok(binding)
    }

    fn connect(
        &self,
        tenant: &TenantId,
        transport: &ReachedBy,
    ) -> Result<ModelBinding, UnusableTransport> {
        let (provider, url, name, credential) = match transport {
            ReachedBy::Command { command } => return self.start(tenant, command),
            ReachedBy::A2a { url, credential } => {
                (Provider::A2a, url, Provider::A2a.as_str(), credential)
            }
            ReachedBy::Openwop {
                url,
                workflow,
                credential,
            } => (Provider::Openwop, url, workflow.as_str(), credential),
        };
        let unusable = |reason| UnusableTransport {
            field: "url",
            reason,
        };
        let url = place(url).ok_or(unusable("is not an http or https URL"))?;
        let reach = self.reach_of(&url).map_err(unusable)?;
        let key = match credential {
            None => None,
            Some(name) => Some(self.credential(tenant, name, &url)?),
        };
        let config = bound(ModelConfig::remote(provider, url.clone(), name));
        let access = Access {
            url,
            key,
            info: info(
                &config,
                provider.as_str(),
                name.to_owned(),
                config.own_price(),
            ),
            clock: self.clock.clone(),
            reach,
        };
        let connected = match transport {
            ReachedBy::Openwop { .. } => {
                OpenWopAgent::new(access).map(|it| Arc::new(it) as Arc<dyn Model>)
            }
            _ => A2aAgent::new(access).map(|it| Arc::new(it) as Arc<dyn Model>),
        };
        let model: Arc<dyn Model> = connected.map_err(|cause| match cause {
            Error::Net(_) => unusable("cannot be connected to"),
            Error::Key => UnusableTransport {
                field: "credential",
                reason: "names a credential with characters that a header cannot contain; ask \
                    the operator to correct it",
            },
        })?;
        Ok(ModelBinding {
            model,
            permits: permits_of(&config),
            endpoint: Some(endpoint_pin(&config, None)),
            worker_labels: WorkerLabels::default(),
        })
    }

    fn start(&self, tenant: &TenantId, name: &str) -> Result<ModelBinding, UnusableTransport> {
        let mut commands = self.settings.commands.iter();
        let found = commands.find(|it| it.name == name && it.tenants.contains(tenant));
        let command = found.ok_or(UnusableTransport {
            field: "command",
            reason: "must name a command that the operator has configured for this tenant (`[[ratings.reach.commands]]`)",
        })?;
        let model = CommandModel::new(command.command.expose_secret());
        let endpoint = Some(model.endpoint());
        let permits = crate::model::permits(model.info().max_concurrency);
        Ok(ModelBinding {
            model: Arc::new(model),
            permits,
            endpoint,
            worker_labels: WorkerLabels::default(),
        })
    }

    /// The addresses that a URL may lead to.
    fn reach_of(&self, url: &Url) -> Result<AddressScope, &'static str> {
        let allowed = &self.settings.private_targets;
        if Endpoint::of(url).is_some_and(|it| allowed.contains(&it)) {
            return Ok(AddressScope::Opened);
        }
        if allowed.forbids(url) {
            return Err(
                "points to a private, local or reserved address that the operator has not \
                allowed (`ratings.reach.private_targets`)",
            );
        }
        match url.scheme() {
            "https" => Ok(AddressScope::Public),
            _ => Err(
                "must be an https URL: plain http is only for addresses that the operator \
                has allowed",
            ),
        }
    }

    fn credential(
        &self,
        tenant: &TenantId,
        name: &str,
        url: &Url,
    ) -> Result<SecretString, UnusableTransport> {
        let mut credentials = self.settings.credentials.iter();
        let found = credentials
            .find(|it| it.name == name && it.tenants.contains(tenant) && it.origin == url.origin());
        found.map(|it| it.key.clone()).ok_or(UnusableTransport {
            field: "credential",
            reason: "must name a credential that the operator has configured for this tenant and origin (`[[ratings.reach.credentials]]`)",
        })
    }
}

fn bound(config: ModelConfig) -> ModelConfig {
    ModelConfig {
        timeout_s: TIMEOUT_S,
        max_concurrency: CONCURRENCY,
        ..config
    }
}
