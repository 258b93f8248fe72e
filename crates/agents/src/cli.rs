//! Options that select models, for commands that execute runs.

use clap::Args;
use url::Url;

use crate::model::OwnModels;
use crate::model::config::{ModelConfig, Provider};
use touchstone_host::cli::context::{Context, Purpose, Session, Start};
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::options::address;
use touchstone_host::cli::shell::quoted;

/// Environment variable with the API key for `--model-url`; the fallback is the provider's usual
/// variable.
const MODEL_KEY: &str = "TOUCHSTONE_MODEL_API_KEY";

const JUDGE_KEY: &str = "TOUCHSTONE_JUDGE_API_KEY";

#[derive(Clone, Debug, Default, Args)]
pub struct ModelEndpoint {
    /// Endpoint that serves all model classes, instead of the configured ones. Its API key comes
    /// from TOUCHSTONE_MODEL_API_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "URL", requires = "model", value_parser = address)]
    pub model_url: Option<Url>,

    /// Model name at --model-url
    #[arg(long, value_name = "NAME", requires = "model_url")]
    pub model: Option<String>,

    /// Protocol of --model-url: openai or anthropic [default: openai]
    #[arg(long, value_name = "PROVIDER", requires = "model_url", value_parser = provider)]
    pub model_provider: Option<Provider>,

    /// Where the API key comes from.
    #[arg(skip)]
    pub key: EndpointKey,

    #[command(flatten)]
    pub judge: JudgeEndpoint,
}

/// Where the API key of a model endpoint comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EndpointKey {
    /// TOUCHSTONE_MODEL_API_KEY, else the usual variable of the provider.
    #[default]
    Usual,
    /// Only this environment variable.
    Variable(String),
    /// No key is sent.
    None,
}

#[derive(Clone, Debug, Default, Args)]
pub struct JudgeEndpoint {
    /// Endpoint of the model that judges rubrics, instead of the configured judge. Its API key
    /// comes from TOUCHSTONE_JUDGE_API_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "URL", requires = "judge_model", value_parser = address)]
    pub judge_url: Option<Url>,

    /// Model name at --judge-url
    #[arg(long, value_name = "NAME", requires = "judge_url")]
    pub judge_model: Option<String>,

    /// Protocol of --judge-url: openai or anthropic [default: openai]
    #[arg(long, value_name = "PROVIDER", requires = "judge_url", value_parser = provider)]
    pub judge_provider: Option<Provider>,
}

/// Parses the name of a provider of models.
///
/// # Errors
/// It is not `openai` or `anthropic`.
pub fn provider(name: &str) -> Result<Provider, String> {
    [Provider::Openai, Provider::Anthropic]
        .into_iter()
        .find(|provider| provider.as_str() == name)
        .ok_or_else(|| "must be openai or anthropic".to_owned())
}

impl ModelEndpoint {
    pub fn config(&self) -> Endpoints {
        let provider = self.model_provider.unwrap_or(Provider::Openai);
        let named = self.model_url.as_ref().zip(self.model.as_ref());
        Endpoints {
            model: named.map(|(url, model)| match &self.key {
                EndpointKey::Usual => endpoint(provider, url, model),
                EndpointKey::Variable(name) => ModelConfig {
                    api_key_env: Some(name.clone()),
                    ..ModelConfig::remote(provider, url.clone(), model)
                },
                EndpointKey::None => ModelConfig::remote(provider, url.clone(), model),
            }),
            judge: self.judge.config(),
        }
    }
}

impl JudgeEndpoint {
    pub fn config(&self) -> Option<ModelConfig> {
        let (url, model) = self.judge_url.as_ref().zip(self.judge_model.as_ref())?;
        let provider = self.judge_provider.unwrap_or(Provider::Openai);
        Some(keyed(JUDGE_KEY, provider, url, model))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    /// Serves all model classes.
    pub model: Option<ModelConfig>,
    pub judge: Option<ModelConfig>,
}

impl Endpoints {
    /// The command-line flags that select these endpoints.
    fn flags(&self) -> String {
        let named = |entry: &Option<ModelConfig>, [url, name, provider]: [&str; 3]| {
            let Some(entry) = entry else {
                return String::new();
            };
            let spoken = match entry.provider {
                Provider::Openai => String::new(),
                other => format!(" {provider} {}", other.as_str()),
            };
            match (&entry.base_url, &entry.model) {
                (Some(address), Some(model)) => {
                    let (address, model) = (quoted(address.as_str()), quoted(model));
                    format!(" {url} {address} {name} {model}{spoken}")
                }
                _ => String::new(),
            }
        };
        let model = named(&self.model, ["--model-url", "--model", "--model-provider"]);
        let judge = ["--judge-url", "--judge-model", "--judge-provider"];
        model + &named(&self.judge, judge)
    }
}

/// The configured models, for messages about them.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredModels {
    pub models: Vec<ModelConfig>,
    pub judge: Option<ModelConfig>,
}

/// A model endpoint that answered 401.
#[derive(Clone, Copy, Debug)]
pub struct RejectedKey<'a> {
    pub provider: &'a str,
    pub model: &'a str,
    pub url: Option<&'a str>,
    /// Whether it is the judge's.
    pub of_judge: bool,
}

impl RejectedKey<'_> {
    /// Says which endpoint refused the key, and where the key comes from. `flags` are those of the
    /// command that selected the model.
    pub fn explained(self, flags: &str, configured: &ConfiguredModels) -> String {
        let (flag, own) = match self.of_judge {
            true => ("--judge-url", JUDGE_KEY),
            false => ("--model-url", MODEL_KEY),
        };
        let remedy = if flags.contains(flag) {
            let usual = match self.provider {
                "anthropic" => "ANTHROPIC_API_KEY",
                _ => "OPENAI_API_KEY",
            };
            match [own, usual].into_iter().find(is_set) {
                Some(variable) => format!("check the API key in {variable}"),
                None => format!("set its API key in {own} or {usual}"),
            }
        } else {
            let entry = match self.of_judge {
                true => configured.judge.as_ref(),
                false => configured.models.iter().find(|it| self.is_of(it)),
            };
            match entry.and_then(|it| it.api_key_env.as_deref()) {
                Some(variable) if is_set(&variable) => {
                    format!("check the API key in {variable}")
                }
                Some(variable) => format!("set its API key in {variable}"),
                None => "set api_key_env of the model in the configuration".to_owned(),
            }
        };
        let url = self.url.unwrap_or("the endpoint");
        format!("{url} answered 401 for model {}: {remedy}", self.model)
    }

    fn is_of(self, entry: &ModelConfig) -> bool {
        let base = entry.base_url.as_ref().map(Url::as_str);
        let base = base.map(|base| base.trim_end_matches('/'));
        entry.model.as_deref() == Some(self.model)
            && base.is_none_or(|base| self.url.is_none_or(|url| url.starts_with(base)))
    }
}

fn is_set(name: &&str) -> bool {
    std::env::var_os(name).is_some_and(|key| !key.is_empty())
}

/// Configuration entry of an endpoint that serves all model classes.
pub fn endpoint(provider: Provider, url: &Url, model: &str) -> ModelConfig {
    keyed(MODEL_KEY, provider, url, model)
}

fn keyed(own: &str, provider: Provider, url: &Url, model: &str) -> ModelConfig {
    let usual = match provider {
        Provider::Anthropic => "ANTHROPIC_API_KEY",
        Provider::A2a | Provider::Openai | Provider::Openwop | Provider::Scripted => {
            "OPENAI_API_KEY"
        }
    };
    ModelConfig {
        api_key_env: [own, usual].into_iter().find(is_set).map(str::to_owned),
        ..ModelConfig::remote(provider, url.clone(), model)
    }
}

/// A client for executing runs on these models. `own` are this command's own models.
///
/// # Errors
/// As [`Context::open`]; a model endpoint is given for a remote host.
pub async fn work_with(
    context: &Context<'_>,
    endpoints: Endpoints,
    own: OwnModels,
) -> Result<Session, Failure> {
    if !context.is_embedded() {
        for (named, flag, setting) in [
            (&endpoints.model, "--model-url", "[[models]]"),
            (&endpoints.judge, "--judge-url", "[judge]"),
        ] {
            if named.is_some() {
                return Err(Failure::usage(format!(
                    "{flag} works only with the embedded host: the operator of a host configures its models"
                ))
                .or_try(format!(
                    "omit --server, or set {setting} in the host's configuration"
                )));
            }
        }
    }
    let mut model_flags = endpoints.flags();
    if let Some(command) = &own.agent_command {
        model_flags.push_str(&format!(" --agent-command {}", quoted(command)));
    }
    let start = Start::new(Purpose::Runs).with(endpoints).with(own);
    Ok(context.open(start).await?.with_model_flags(model_flags))
}
