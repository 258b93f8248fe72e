//! Options that select models, for commands that execute runs.

use clap::Args;
use url::Url;

use crate::model::config::{ModelConfig, Provider};
use crate::model::{MAX_FURTHER_JUDGES, OwnModels};
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

    #[command(flatten)]
    pub judge: JudgeEndpoint,
}

#[derive(Clone, Debug, Default, Args)]
pub struct JudgeEndpoint {
    /// Endpoint of the model that judges, instead of the configured judges. Its API key comes from
    /// TOUCHSTONE_JUDGE_API_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "URL", requires = "judge_model", value_parser = address)]
    pub judge_url: Vec<Url>,

    /// Model name at --judge-url. Repeat it for several judges at one endpoint, or with a
    /// --judge-url each
    #[arg(long, value_name = "NAME", requires = "judge_url")]
    pub judge_model: Vec<String>,

    /// Protocol of every --judge-url, or of each: openai or anthropic [default: openai]
    #[arg(long, value_name = "PROVIDER", requires = "judge_url", value_parser = provider)]
    pub judge_provider: Vec<Provider>,
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
            model: named.map(|(url, model)| endpoint(provider, url, model)),
            ..self.judge.config()
        }
    }
}

impl JudgeEndpoint {
    /// The judges that are named. One endpoint can serve several of them.
    pub fn config(&self) -> Endpoints {
        let (urls, models) = (&self.judge_url, &self.judge_model);
        let providers = &self.judge_provider;
        let at = |index: usize| match urls.as_slice() {
            [only] => Some(only),
            several => several.get(index),
        };
        let provider = |index: usize| match providers.as_slice() {
            [only] => *only,
            several => several.get(index).copied().unwrap_or(Provider::Openai),
        };
        let named = models.iter().enumerate();
        let named = named.filter_map(|(index, model)| {
            Some(keyed(JUDGE_KEY, provider(index), at(index)?, model))
        });
        let mut named = named.collect::<Vec<_>>().into_iter();
        let fits = |count: usize| count <= 1 || count == models.len();
        let fault = match (fits(urls.len()), fits(providers.len())) {
            _ if models.len() > MAX_FURTHER_JUDGES + 1 => Some("there are at most 9 judges"),
            (false, _) => Some("--judge-url is given once, or as often as --judge-model"),
            (_, false) => Some("--judge-provider is given once, or as often as --judge-model"),
            _ => None,
        };
        Endpoints {
            model: None,
            judge: named.next(),
            further_judges: named.collect(),
            fault,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    /// Serves all model classes.
    pub model: Option<ModelConfig>,
    pub judge: Option<ModelConfig>,
    /// The judges beside it.
    pub further_judges: Vec<ModelConfig>,
    /// Why the flags do not fit together.
    pub fault: Option<&'static str>,
}

impl Endpoints {
    /// The command-line flags that select these endpoints.
    fn flags(&self) -> String {
        let named = |entry: &ModelConfig, [url, name, provider]: [&str; 3], speaks: bool| {
            let spoken = match speaks {
                true => format!(" {provider} {}", entry.provider.as_str()),
                false => String::new(),
            };
            match (&entry.base_url, &entry.model) {
                (Some(address), Some(model)) => {
                    let (address, model) = (quoted(address.as_str()), quoted(model));
                    format!(" {url} {address} {name} {model}{spoken}")
                }
                _ => String::new(),
            }
        };
        let is_other = |entry: &ModelConfig| entry.provider != Provider::Openai;
        let model = self.model.iter().map(|entry| {
            let flags = ["--model-url", "--model", "--model-provider"];
            named(entry, flags, is_other(entry))
        });
        let judges = || self.judge.iter().chain(&self.further_judges);
        // Providers are named for every judge, or for none.
        let speaks = judges().any(is_other);
        let judges = judges().map(|entry| {
            let flags = ["--judge-url", "--judge-model", "--judge-provider"];
            named(entry, flags, speaks)
        });
        model.chain(judges).collect()
    }
}

/// The configured models, for messages about them.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredModels {
    pub models: Vec<ModelConfig>,
    pub judge: Option<ModelConfig>,
    /// The judges beside it.
    pub further_judges: Vec<ModelConfig>,
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
                true => {
                    let mut judges = configured.judge.iter().chain(&configured.further_judges);
                    judges
                        .find(|it| self.is_of(it))
                        .or(configured.judge.as_ref())
                }
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
    if let Some(fault) = endpoints.fault {
        return Err(Failure::usage(fault.to_owned()));
    }
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
