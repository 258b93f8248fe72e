//! Model endpoints: the catalog of endpoints per class, and the adapters for them.

pub mod a2a;
pub mod answer_cache;
pub mod anthropic;
pub mod cassette;
pub mod command;
pub mod config;
pub mod endpoint;
mod entries;
pub mod external_agents;
pub mod openai;
pub mod openwop;
pub mod scripted;
pub mod wire;
pub mod worker_command;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use crate::assert_command::AssertCommand;
use crate::assert_command::AssertionSettings;
use crate::ports::model::{Model, ModelBinding, Models, Permits, ReplaySource, UnusableTransport};
use crate::rules::prices::{ModelPrice, PriceEntry};
use crate::rules::reached_by::ReachedBy;
use crate::rules::worker_labels::WorkerLabels;
use crate::rules::{COMMAND_PROVIDER, EndpointPin};
use touchstone_host::net;
use touchstone_host::ports::clock::Clock;
use touchstone_kit::ids::TenantId;
use touchstone_openwop::suite::ModelClass;

use crate::model::answer_cache::AnswerCache;
use crate::model::cassette::Cassette;
use crate::model::config::ANY;
pub use crate::model::config::{
    ClassSelector, ModelConfig, Provider, embeddings, judge, judges, optional_url, simulated_user,
};
pub use crate::model::endpoint::permits::{CIRCUIT_OPEN, EndpointPermits};
pub use crate::model::endpoint::{Access, Error as EndpointError};
use crate::model::entries::{bounded, check, endpoint_pin, permits, permits_of, shared_with};
pub use crate::model::external_agents::{
    Credential, ExternalAgentSettings, ExternalAgents, NamedCommand,
};

/// Why the models of a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field that the provider needs is missing.
    #[error("{place}.{field} is missing: provider \"{provider}\" needs it")]
    Missing {
        place: ConfigEntry,
        field: &'static str,
        provider: &'static str,
    },
    /// A field has an invalid value.
    #[error("{place}.{field} {problem}")]
    Invalid {
        place: ConfigEntry,
        field: &'static str,
        /// The fault and its remedy.
        problem: String,
    },
    /// Two entries serve the same class.
    #[error("{place}.class is served by an earlier entry; keep one of them")]
    ClassTwice { place: ConfigEntry },
    #[error("{place}.file {path} could not be read: {source}")]
    Unreadable {
        place: ConfigEntry,
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file is not a script.
    #[error("{place}.file is not a script: {source}")]
    Script {
        place: ConfigEntry,
        source: scripted::Error,
    },
    #[error(transparent)]
    Net(#[from] net::Error),
}

/// Replacements for the configured models, for one command only. Neither a configuration file nor a
/// request can set them.
#[derive(Clone, Debug, Default)]
pub struct OwnModels {
    pub cassette: Option<Cassette>,
    /// A command that answers for every agent.
    pub agent_command: Option<String>,
    /// The price of the tokens that the command reports.
    pub agent_price: Option<ModelPrice>,
    /// The command that decides assertions, instead of the configured one.
    pub assertions: Option<AssertionSettings>,
    /// Answers of earlier commands. Only for local work: a run that may use them is no evidence.
    pub answers: Option<Arc<AnswerCache>>,
}

/// The judge's section in the configuration, and its role on a cassette.
const JUDGE: &str = "judge";
/// Entries of `[[judges]]`.
pub const MAX_FURTHER_JUDGES: usize = 8;

/// The role of a further judge on a cassette.
fn further_role(index: usize) -> String {
    format!("{JUDGE}-{}", index + 2)
}
/// The same of the embedding model.
const EMBEDDINGS: &str = "embeddings";
/// The simulated user's section in the configuration, and its role on a cassette.
const USER: &str = "simulated_user";

/// The entry of an endpoint in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigEntry {
    /// Index in `[[models]]`, from 0.
    Models(usize),
    Judge,
    /// Index in `[[judges]]`, from 0.
    Judges(usize),
    Embeddings,
    User,
}

impl std::fmt::Display for ConfigEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Models(index) => write!(f, "models[{index}]"),
            Self::Judge => f.write_str(JUDGE),
            Self::Judges(index) => write!(f, "judges[{index}]"),
            Self::Embeddings => f.write_str(EMBEDDINGS),
            Self::User => f.write_str(USER),
        }
    }
}

/// The configured judges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judges<'a> {
    pub judge: Option<&'a ModelConfig>,
    /// Those beside it.
    pub further: &'a [ModelConfig],
}

/// The endpoint of each class, and those of judges, embeddings and simulated users.
#[derive(Clone, Default)]
pub struct ModelCatalog {
    by_class: HashMap<ModelClass, ModelBinding>,
    default: Option<ModelBinding>,
    judge: Option<ModelBinding>,
    further_judges: Vec<ModelBinding>,
    embeddings: Option<ModelBinding>,
    program: Option<Arc<AssertCommand>>,
    user: Option<ModelBinding>,
    replayed_from: Option<ReplaySource>,
    answer_cache: bool,
    external: Option<Arc<ExternalAgents>>,
}

/// The settings that all endpoints of a configuration share.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The environment variables, which hold API keys.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    pub clock: &'a Arc<dyn Clock>,
    /// The operator's prices, for entries without a price.
    pub prices: &'a [PriceEntry],
    /// The embedding model.
    pub embeddings: Option<&'a ModelConfig>,
    /// The model that plays simulated users.
    pub user: Option<&'a ModelConfig>,
}

impl Models for ModelCatalog {
    fn resolve(&self, class: ModelClass) -> Option<ModelBinding> {
        self.by_class.get(&class).or(self.default.as_ref()).cloned()
    }

    fn judge(&self) -> Option<ModelBinding> {
        self.judge.clone()
    }

    fn further_judges(&self) -> Vec<ModelBinding> {
        self.further_judges.clone()
    }

    fn embeddings(&self) -> Option<ModelBinding> {
        self.embeddings.clone()
    }

    fn assertion_program(&self) -> Option<Arc<AssertCommand>> {
        self.program.clone()
    }

    fn simulated_user(&self) -> Option<ModelBinding> {
        self.user.clone()
    }

    fn replayed_from(&self) -> Option<ReplaySource> {
        self.replayed_from.clone()
    }

    fn has_answer_cache(&self) -> bool {
        self.answer_cache
    }

    fn reach(
        &self,
        tenant: &TenantId,
        transport: &ReachedBy,
    ) -> Result<ModelBinding, UnusableTransport> {
        let external = self.external.as_ref().ok_or(UnusableTransport {
            field: "transport",
            reason: "cannot be used when a cassette or a command answers for all agents",
        })?;
        external.reach(tenant, transport)
    }
}

impl ModelCatalog {
    /// One model for every class, with its own permits.
    pub fn of(model: Arc<dyn Model>) -> Self {
        let permits = permits(model.info().max_concurrency);
        Self {
            default: Some(ModelBinding {
                model,
                permits,
                endpoint: None,
                worker_labels: WorkerLabels::default(),
            }),
            ..Self::default()
        }
    }

    /// Adds the program that decides assertions. A cassette does not replace it.
    #[must_use]
    pub fn asserting(self, program: Option<Arc<AssertCommand>>) -> Self {
        Self { program, ..self }
    }

    /// Adds agents that run elsewhere.
    #[must_use]
    pub fn reaching(self, external: ExternalAgents) -> Self {
        Self {
            external: Some(Arc::new(external)),
            ..self
        }
    }

    /// Uses one model at this endpoint for every class of agents; judge and simulated user stay.
    #[must_use]
    pub fn answered_by(self, model: Arc<dyn Model>, endpoint: EndpointPin) -> Self {
        let answering = Self::of(model);
        Self {
            judge: self.judge,
            further_judges: self.further_judges,
            embeddings: self.embeddings,
            user: self.user,
            default: answering.default.map(|binding| ModelBinding {
                endpoint: Some(endpoint),
                ..binding
            }),
            ..answering
        }
    }

    /// Answers calls of model endpoints from the cache where it can, those of the judge and of
    /// simulated users included. Agents behind other protocols keep a state of their own, so their
    /// answers are not cached; those of a program are if the cache knows its state.
    #[must_use]
    pub fn caching(mut self, cache: &Arc<AnswerCache>) -> Self {
        let bindings = self.by_class.values_mut();
        let bindings = bindings
            .chain(&mut self.default)
            .chain(&mut self.judge)
            .chain(&mut self.further_judges)
            .chain(&mut self.embeddings)
            .chain(&mut self.user);
        for binding in bindings {
            let info = binding.model.info();
            let is_model = [Provider::Anthropic, Provider::Openai]
                .iter()
                .any(|provider| provider.as_str() == info.provider);
            let endpoint = binding.endpoint.as_ref();
            let url = match info.provider.as_str() {
                COMMAND_PROVIDER => cache.program(),
                _ => endpoint
                    .and_then(|pin| pin.url.clone())
                    .filter(|_| is_model),
            };
            if let Some(url) = url {
                binding.model = cache.wrap(&url, Arc::clone(&binding.model));
                self.answer_cache = true;
            }
        }
        self
    }

    /// Records the models' calls on a cassette, or replaces the models by those of a cassette that
    /// is replayed.
    #[must_use]
    pub fn on(self, cassette: &Cassette) -> Self {
        match cassette {
            Cassette::Recording(recording) => {
                let listen = |role: &str, binding: ModelBinding| ModelBinding {
                    model: recording.listen(role, binding.model),
                    ..binding
                };
                Self {
                    by_class: self
                        .by_class
                        .into_iter()
                        .map(|(class, binding)| (class, listen(class.as_str(), binding)))
                        .collect(),
                    default: self.default.map(|binding| listen(ANY, binding)),
                    judge: self.judge.map(|binding| listen(JUDGE, binding)),
                    further_judges: self
                        .further_judges
                        .into_iter()
                        .enumerate()
                        .map(|(index, binding)| listen(&further_role(index), binding))
                        .collect(),
                    embeddings: self.embeddings.map(|binding| listen(EMBEDDINGS, binding)),
                    program: self.program,
                    user: self.user.map(|binding| listen(USER, binding)),
                    replayed_from: None,
                    answer_cache: self.answer_cache,
                    // Their calls would not be on the cassette.
                    external: None,
                }
            }
            Cassette::Replay(replay) => {
                let mut played = Self {
                    replayed_from: Some(replay.source().clone()),
                    ..Self::default()
                };
                let mut further: BTreeMap<usize, ModelBinding> = BTreeMap::new();
                for (role, model) in replay.models() {
                    let permits = permits(model.info().max_concurrency);
                    let endpoint = Some(EndpointPin {
                        url: None,
                        digest: replay.source().digest.clone(),
                    });
                    let binding = ModelBinding {
                        model,
                        permits,
                        endpoint,
                        worker_labels: WorkerLabels::default(),
                    };
                    match ModelClass::parse(&role) {
                        Some(class) => {
                            played.by_class.insert(class, binding);
                        }
                        None if role == ANY => played.default = Some(binding),
                        None if role == JUDGE => played.judge = Some(binding),
                        None if role == USER => played.user = Some(binding),
                        None if role == EMBEDDINGS => played.embeddings = Some(binding),
                        None => {
                            // Any other role is of a later version, which this version never
                            // calls.
                            let is_role = |index: &usize| further_role(*index) == role;
                            if let Some(index) = (0..MAX_FURTHER_JUDGES).find(is_role) {
                                further.insert(index, binding);
                            }
                        }
                    }
                }
                played.further_judges = further.into_values().collect();
                played
            }
        }
    }

    /// Sets up every configured endpoint. Reads keys from the environment once, during this call.
    ///
    /// # Errors
    /// The first entry that cannot be used.
    pub fn build(
        configs: &[ModelConfig],
        judges: Judges<'_>,
        setup: Setup<'_>,
    ) -> Result<Self, Error> {
        let Judges { judge, further } = judges;
        let mut catalog = Self::default();
        let mut shared: HashMap<String, Arc<dyn Permits>> = HashMap::new();
        let models = configs
            .iter()
            .enumerate()
            .map(|(index, config)| (ConfigEntry::Models(index), config));
        let judging = judge.map(|judge| (ConfigEntry::Judge, judge));
        let more = further.iter().enumerate();
        let more = more.map(|(index, config)| (ConfigEntry::Judges(index), config));
        let embedding = setup.embeddings.map(|it| (ConfigEntry::Embeddings, it));
        let user = setup.user.map(|it| (ConfigEntry::User, it));
        let judging = judging.into_iter().chain(more);
        for (place, config) in models.chain(judging).chain(embedding).chain(user) {
            check(place, config)?;
            let sharing = configs.iter().chain(judge).chain(further);
            let config = &bounded(config, sharing.chain(setup.embeddings).chain(setup.user));
            let (model, script_digest) = entries::connect(place, config, setup)?;
            let permits = match shared_with(config) {
                None => permits_of(config),
                Some(origin) => shared
                    .entry(origin)
                    .or_insert_with(|| permits_of(config))
                    .clone(),
            };
            let binding = ModelBinding {
                model,
                permits,
                endpoint: Some(endpoint_pin(config, script_digest.as_deref())),
                worker_labels: config.worker_labels.clone(),
            };
            let earlier = match (place, config.class) {
                (ConfigEntry::Judge, _) => catalog.judge.replace(binding),
                (ConfigEntry::Judges(_), _) => {
                    catalog.further_judges.push(binding);
                    None
                }
                (ConfigEntry::Embeddings, _) => catalog.embeddings.replace(binding),
                (ConfigEntry::User, _) => catalog.user.replace(binding),
                (_, ClassSelector::Class(class)) => catalog.by_class.insert(class, binding),
                (_, ClassSelector::Any) => catalog.default.replace(binding),
            };
            if earlier.is_some() {
                return Err(Error::ClassTwice { place });
            }
        }
        Ok(catalog)
    }
}
