//! Options that select models, for commands that execute runs.

pub mod prices;

use clap::Args;
use url::Url;

use crate::assert_command::AssertionSettings;
use crate::model::config::{ModelConfig, Provider};
use crate::model::{MAX_FURTHER_JUDGES, OwnModels};
use crate::rules::prices::{ModelPrice, is_price};
use touchstone_host::cli::context::{Context, Purpose, Session, Start};
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::options::address;
use touchstone_host::cli::shell::quoted;

/// Environment variable with the API key for `--model-url`; the fallback is the provider's usual
/// variable.
const MODEL_KEY: &str = "TOUCHSTONE_MODEL_API_KEY";

const JUDGE_KEY: &str = "TOUCHSTONE_JUDGE_API_KEY";

const EMBEDDINGS_KEY: &str = "TOUCHSTONE_EMBEDDINGS_API_KEY";
const USER_KEY: &str = "TOUCHSTONE_USER_API_KEY";

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
    /// Price of --model, or of the tokens that --agent-command reports, in USD per million input
    /// and output tokens; 0,0 if they cost nothing [default: the price in the configuration, or the
    /// vendor's list price; unknown otherwise]
    #[arg(long, value_name = "INPUT,OUTPUT", value_parser = token_price)]
    pub model_price: Option<TokenPriceOption>,

    #[command(flatten)]
    pub judge: JudgeEndpoint,

    #[command(flatten)]
    pub embeddings: EmbeddingsEndpoint,

    #[command(flatten)]
    pub user: UserEndpoint,
}

/// A price on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPriceOption {
    /// USD per million input tokens.
    pub input: f64,
    /// USD per million output tokens.
    pub output: f64,
}

impl TokenPriceOption {
    fn flag(self, flag: &str) -> String {
        format!(" {flag} {},{}", self.input, self.output)
    }
}

/// Parses a price, such as `0.15,0.6`.
///
/// # Errors
/// It is not two amounts of at least 0.
pub fn token_price(text: &str) -> Result<TokenPriceOption, String> {
    let amount = |text: &str| text.trim().parse::<f64>().ok().filter(|it| is_price(*it));
    let both = text.split_once(',');
    let both = both.and_then(|(input, output)| amount(input).zip(amount(output)));
    both.map(|(input, output)| TokenPriceOption { input, output })
        .ok_or_else(|| {
            "must be two amounts in USD per million tokens of at least 0, such as 0.15,0.6"
                .to_owned()
        })
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

    /// Price of each --judge-model, as --model-price
    #[arg(long, value_name = "INPUT,OUTPUT", requires = "judge_url", value_parser = token_price)]
    pub judge_price: Vec<TokenPriceOption>,
}

#[derive(Clone, Debug, Default, Args)]
pub struct UserEndpoint {
    /// Endpoint of the model that plays simulated users, instead of the configured one. Its API key
    /// comes from TOUCHSTONE_USER_API_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "URL", requires = "user_model", value_parser = address)]
    pub user_url: Option<Url>,

    /// Model name at --user-url
    #[arg(long, value_name = "NAME", requires = "user_url")]
    pub user_model: Option<String>,

    /// Protocol of --user-url: openai or anthropic [default: openai]
    #[arg(long, value_name = "PROVIDER", requires = "user_url", value_parser = provider)]
    pub user_provider: Option<Provider>,

    /// Price of --user-model, as --model-price
    #[arg(long, value_name = "INPUT,OUTPUT", requires = "user_url", value_parser = token_price)]
    pub user_price: Option<TokenPriceOption>,
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

#[derive(Clone, Debug, Default, Args)]
pub struct EmbeddingsEndpoint {
    /// Endpoint of the embedding model for assertions of the type `similar`, on the OpenAI wire,
    /// instead of the configured one. Its API key comes from TOUCHSTONE_EMBEDDINGS_API_KEY, else
    /// OPENAI_API_KEY
    #[arg(long, value_name = "URL", requires = "embeddings_model", value_parser = address)]
    pub embeddings_url: Option<Url>,

    /// Model name at --embeddings-url
    #[arg(long, value_name = "NAME", requires = "embeddings_url")]
    pub embeddings_model: Option<String>,

    /// Price of --embeddings-model in USD per million tokens; 0 if they cost nothing [default: the
    /// vendor's list price; unknown otherwise]
    #[arg(long, value_name = "X", requires = "embeddings_url", value_parser = embeddings_price)]
    pub embeddings_price: Option<f64>,
}

fn embeddings_price(text: &str) -> Result<f64, String> {
    let amount = text.trim().parse::<f64>().ok();
    amount
        .filter(|it| is_price(*it))
        .ok_or_else(|| "must be an amount in USD per million tokens of at least 0".to_owned())
}

impl EmbeddingsEndpoint {
    fn config(&self) -> Option<ModelConfig> {
        let (url, model) = self
            .embeddings_url
            .as_ref()
            .zip(self.embeddings_model.as_ref())?;
        let entry = keyed(EMBEDDINGS_KEY, Provider::Openai, url, model);
        Some(match self.embeddings_price {
            Some(price) => entry.priced(price, 0.0),
            None => entry,
        })
    }
}

/// The command that decides assertions.
#[derive(Clone, Debug, Default, Args)]
pub struct AssertOptions {
    /// Command that decides assertions of the type `command`, exchanging one JSON document per
    /// line, instead of the configured one
    #[arg(long, value_name = "COMMAND")]
    pub assert_command: Option<String>,

    /// Maximum time for one answer of --assert-command, in seconds [default: 60]
    #[arg(long, value_name = "S", requires = "assert_command")]
    pub assert_timeout: Option<f64>,

    /// Maximum address space of each process of --assert-command, in MiB; 0: no limit
    /// [default: 4096]
    #[arg(long, value_name = "MIB", requires = "assert_command")]
    pub assert_memory: Option<u64>,
}

impl AssertOptions {
    /// The settings, if the options name a command.
    ///
    /// # Errors
    /// The command or a limit cannot be used.
    pub fn settings(&self) -> Result<Option<AssertionSettings>, Failure> {
        let Some(command) = &self.assert_command else {
            return Ok(None);
        };
        let usual = AssertionSettings::default();
        let settings = AssertionSettings {
            command: Some(command.clone()),
            timeout_s: self.assert_timeout.unwrap_or(usual.timeout_s),
            memory_mib: self.assert_memory.unwrap_or(usual.memory_mib),
        };
        settings.check().map_err(|(field, problem)| {
            let flag = match field {
                "timeout_s" => "--assert-timeout",
                "memory_mib" => "--assert-memory",
                _ => "--assert-command",
            };
            Failure::usage(format!("{flag} {problem}"))
        })?;
        Ok(Some(settings))
    }
}

impl ModelEndpoint {
    pub fn config(&self) -> Endpoints {
        let provider = self.model_provider.unwrap_or(Provider::Openai);
        let named = self.model_url.as_ref().zip(self.model.as_ref());
        Endpoints {
            model: named.map(|(url, model)| {
                let entry = match &self.key {
                    EndpointKey::Usual => endpoint(provider, url, model),
                    EndpointKey::Variable(name) => ModelConfig {
                        api_key_env: Some(name.clone()),
                        ..ModelConfig::remote(provider, url.clone(), model)
                    },
                    EndpointKey::None => ModelConfig::remote(provider, url.clone(), model),
                };
                priced(entry, self.model_price)
            }),
            price: self.model_price,
            embeddings: self.embeddings.config(),
            user: self.user.config(),
            ..self.judge.config()
        }
    }
}

impl JudgeEndpoint {
    /// The judges that are named. One endpoint can serve several of them.
    pub fn config(&self) -> Endpoints {
        let (urls, models) = (&self.judge_url, &self.judge_model);
        let (providers, prices) = (&self.judge_provider, &self.judge_price);
        let at = |index: usize| match urls.as_slice() {
            [only] => Some(only),
            several => several.get(index),
        };
        let provider = |index: usize| match providers.as_slice() {
            [only] => *only,
            several => several.get(index).copied().unwrap_or(Provider::Openai),
        };
        let price = |index: usize| match prices.as_slice() {
            [only] => Some(*only),
            several => several.get(index).copied(),
        };
        let named = models.iter().enumerate();
        let named = named.filter_map(|(index, model)| {
            let entry = keyed(JUDGE_KEY, provider(index), at(index)?, model);
            Some(priced(entry, price(index)))
        });
        let mut named = named.collect::<Vec<_>>().into_iter();
        let fits = |count: usize| count <= 1 || count == models.len();
        let fault = match (fits(urls.len()), fits(providers.len()), fits(prices.len())) {
            _ if models.len() > MAX_FURTHER_JUDGES + 1 => Some("there are at most 9 judges"),
            (false, _, _) => Some("--judge-url is given once, or as often as --judge-model"),
            (_, false, _) => Some("--judge-provider is given once, or as often as --judge-model"),
            (_, _, false) => Some("--judge-price is given once, or as often as --judge-model"),
            _ => None,
        };
        Endpoints {
            judge: named.next(),
            further_judges: named.collect(),
            fault,
            ..Endpoints::default()
        }
    }
}

impl UserEndpoint {
    pub fn config(&self) -> Option<ModelConfig> {
        let (url, model) = self.user_url.as_ref().zip(self.user_model.as_ref())?;
        let provider = self.user_provider.unwrap_or(Provider::Openai);
        Some(priced(
            keyed(USER_KEY, provider, url, model),
            self.user_price,
        ))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    /// Serves all model classes.
    pub model: Option<ModelConfig>,
    /// The price of that model, or of the command that answers instead.
    pub price: Option<TokenPriceOption>,
    pub judge: Option<ModelConfig>,
    /// The judges beside it.
    pub further_judges: Vec<ModelConfig>,
    /// Why the flags do not fit together.
    pub fault: Option<&'static str>,
    pub embeddings: Option<ModelConfig>,
    /// Plays simulated users.
    pub user: Option<ModelConfig>,
}

impl Endpoints {
    /// The command-line flags that select these endpoints.
    fn flags(&self) -> String {
        let named = |entry: &ModelConfig, [url, name, provider, price]: [&str; 4], speaks: bool| {
            let spoken = match speaks {
                true => format!(" {provider} {}", entry.provider.as_str()),
                false => String::new(),
            };
            match (&entry.base_url, &entry.model) {
                (Some(address), Some(model)) => {
                    let (address, model) = (quoted(address.as_str()), quoted(model));
                    let price = entry.own_price().map_or_else(String::new, |it| {
                        let (input, output) = (it.input_usd_per_mtok, it.output_usd_per_mtok);
                        TokenPriceOption { input, output }.flag(price)
                    });
                    format!(" {url} {address} {name} {model}{spoken}{price}")
                }
                _ => String::new(),
            }
        };
        let is_other = |entry: &ModelConfig| entry.provider != Provider::Openai;
        let model = self.model.iter().map(|entry| {
            let flags = [
                "--model-url",
                "--model",
                "--model-provider",
                "--model-price",
            ];
            named(entry, flags, is_other(entry))
        });
        let judges = || self.judge.iter().chain(&self.further_judges);
        // Providers are named for every judge, or for none.
        let speaks = judges().any(is_other);
        let judges = judges().map(|entry| {
            let flags = [
                "--judge-url",
                "--judge-model",
                "--judge-provider",
                "--judge-price",
            ];
            named(entry, flags, speaks)
        });
        let embeddings = self.embeddings.iter().filter_map(|entry| {
            let (url, model) = (entry.base_url.as_ref()?, entry.model.as_ref()?);
            let (url, model) = (quoted(url.as_str()), quoted(model));
            let price = entry.own_price().map_or_else(String::new, |price| {
                format!(" --embeddings-price {}", price.input_usd_per_mtok)
            });
            Some(format!(
                " --embeddings-url {url} --embeddings-model {model}{price}"
            ))
        });
        let user = self.user.iter().map(|entry| {
            let flags = [
                "--user-url",
                "--user-model",
                "--user-provider",
                "--user-price",
            ];
            named(entry, flags, is_other(entry))
        });
        model.chain(judges).chain(user).chain(embeddings).collect()
    }
}

/// The configured models, for messages about them.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredModels {
    pub models: Vec<ModelConfig>,
    pub judge: Option<ModelConfig>,
    /// The judges beside it.
    pub further_judges: Vec<ModelConfig>,
    pub user: Option<ModelConfig>,
}

/// The role of a model in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Agent,
    Judge,
    User,
}

/// A model endpoint that gave no answer, for a reason that its user can correct.
#[derive(Clone, Copy, Debug)]
pub struct EndpointFault<'a> {
    pub provider: &'a str,
    pub model: &'a str,
    pub url: Option<&'a str>,
    pub role: Role,
    /// The label without the role, such as `unauthorized`, `connect` or `status_500`.
    pub reason: &'a str,
}

impl EndpointFault<'_> {
    /// Says which endpoint failed and what to check. `flags` are those of the command that selected
    /// the model.
    pub fn explained(self, flags: &str, configured: &ConfiguredModels) -> String {
        let (flag, own) = match self.role {
            Role::Agent => ("--model-url", MODEL_KEY),
            Role::Judge => ("--judge-url", JUDGE_KEY),
            Role::User => ("--user-url", USER_KEY),
        };
        let entry = self.entry(configured);
        let of_entry = entry.and_then(|it| Some(it.base_url.as_ref()?.as_str()));
        let url = self.url.or_else(|| value_of(flags, flag)).or(of_entry);
        let (url, model) = (url.unwrap_or("the endpoint"), self.model);
        match self.reason {
            "unauthorized" => {
                let remedy = self.key_remedy(flags.contains(flag), own, entry);
                format!("{url} answered 401 for model {model}: {remedy}")
            }
            "forbidden" => format!(
                "{url} answered 403 for model {model}: check that the API key may use the model"
            ),
            "not_found" => format!(
                "{url} answered 404 for model {model}: check the URL and the name of the model"
            ),
            "connect" => format!(
                "{url} cannot be reached for model {model}: check the URL, and that the server runs"
            ),
            "dns" => format!("the host name in {url}, for model {model}, was not found"),
            "tls" => format!("the TLS connection to {url}, for model {model}, failed"),
            other => match other.strip_prefix("status_") {
                Some(status) => format!("{url} answered {status} for model {model}"),
                None => format!("{url} gave no answer for model {model}: {other}"),
            },
        }
    }

    /// Whether a reason is about the endpoint.
    pub fn is_reason(label: &str) -> bool {
        let known = [
            "unauthorized",
            "forbidden",
            "not_found",
            "connect",
            "dns",
            "tls",
        ];
        known.contains(&label) || label.starts_with("status_")
    }

    fn entry(self, configured: &ConfiguredModels) -> Option<&ModelConfig> {
        match self.role {
            Role::Agent => configured.models.iter().find(|it| self.is_of(it)),
            Role::Judge => {
                let mut judges = configured.judge.iter().chain(&configured.further_judges);
                judges
                    .find(|it| self.is_of(it))
                    .or(configured.judge.as_ref())
            }
            Role::User => configured.user.as_ref(),
        }
    }

    /// Where the API key comes from: `own` is the role's variable.
    fn key_remedy(self, by_flag: bool, own: &str, entry: Option<&ModelConfig>) -> String {
        if by_flag {
            let usual = match self.provider {
                "anthropic" => "ANTHROPIC_API_KEY",
                _ => "OPENAI_API_KEY",
            };
            return match [own, usual].into_iter().find(is_set) {
                Some(variable) => format!("check the API key in {variable}"),
                None => format!("set its API key in {own} or {usual}"),
            };
        }
        match entry.and_then(|it| it.api_key_env.as_deref()) {
            Some(variable) if is_set(&variable) => format!("check the API key in {variable}"),
            Some(variable) => format!("set its API key in {variable}"),
            None => "set api_key_env of the model in the configuration".to_owned(),
        }
    }

    fn is_of(self, entry: &ModelConfig) -> bool {
        let base = entry.base_url.as_ref().map(Url::as_str);
        let base = base.map(|base| base.trim_end_matches('/'));
        entry.model.as_deref() == Some(self.model)
            && base.is_none_or(|base| self.url.is_none_or(|url| url.starts_with(base)))
    }
}

/// The value of a flag on a command line, if it needs no quotes.
fn value_of<'a>(flags: &'a str, flag: &str) -> Option<&'a str> {
    let mut words = flags.split(' ').skip_while(|word| *word != flag);
    words.nth(1)
}

fn is_set(name: &&str) -> bool {
    std::env::var_os(name).is_some_and(|key| !key.is_empty())
}

/// Configuration entry of an endpoint that serves all model classes.
pub fn endpoint(provider: Provider, url: &Url, model: &str) -> ModelConfig {
    keyed(MODEL_KEY, provider, url, model)
}

fn priced(entry: ModelConfig, price: Option<TokenPriceOption>) -> ModelConfig {
    match price {
        Some(TokenPriceOption { input, output }) => entry.priced(input, output),
        None => entry,
    }
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
    mut own: OwnModels,
) -> Result<Session, Failure> {
    if let Some(fault) = endpoints.fault {
        return Err(Failure::usage(fault.to_owned()));
    }
    if !context.is_embedded() {
        for (named, flag, setting) in [
            (&endpoints.model, "--model-url", "[[models]]"),
            (&endpoints.judge, "--judge-url", "[judge]"),
            (&endpoints.embeddings, "--embeddings-url", "[embeddings]"),
            (&endpoints.user, "--user-url", "[simulated_user]"),
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
    if endpoints.price.is_some() && endpoints.model.is_none() && own.agent_command.is_none() {
        return Err(
            Failure::usage("--model-price needs --model-url or --agent-command")
                .or_try("set the price of a configured model in the configuration"),
        );
    }
    let mut model_flags = endpoints.flags();
    if let Some(command) = &own.agent_command {
        model_flags.push_str(&format!(" --agent-command {}", quoted(command)));
        if let Some(price) = endpoints.price {
            model_flags.push_str(&price.flag("--model-price"));
            own.agent_price = Some(ModelPrice::configured(price.input, price.output));
        }
    }
    if let Some(assertions) = &own.assertions
        && let Some(command) = &assertions.command
    {
        if !context.is_embedded() {
            return Err(Failure::usage(
                "--assert-command works only with the embedded host: the operator of a host configures its command",
            )
            .or_try("omit --server, or set [assertions] command in the host's configuration"));
        }
        model_flags.push_str(&format!(" --assert-command {}", quoted(command)));
    }
    let start = Start::new(Purpose::Runs).with(endpoints).with(own);
    Ok(context.open(start).await?.with_model_flags(model_flags))
}
