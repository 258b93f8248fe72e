//! Entries of the configuration, made into models.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use touchstone_host::net;
use touchstone_host::net::address::AddressScope;
use touchstone_kit::integrity;
use touchstone_kit::json::canonical_text;
use url::Url;

use super::a2a::A2aAgent;
use super::anthropic::AnthropicModel;
use super::config::{ModelConfig, Provider};
use super::endpoint::permits::EndpointPermits;
use super::endpoint::{Access, EndpointProtocol, Error as EndpointError, HttpModel};
use super::openai::OpenAiModel;
use super::openai::embeddings::EmbeddingModel;
use super::openwop::OpenWopAgent;
use super::scripted::ScriptedModel;
use super::scripted::script::Script;
use super::{ConfigEntry, Error, Setup};
use crate::call_metrics::CallMetrics;
use crate::calls::CallRole;
use crate::ports::model::{Model, ModelInfo, Permits};
use crate::rules::prices::{self, ModelPrice, is_price};
use crate::rules::{EndpointPin, RetryPolicy};

/// The model of an entry, and the digest of its script if it has one.
pub(super) fn connect(
    place: ConfigEntry,
    config: &ModelConfig,
    setup: Setup<'_>,
) -> Result<(Arc<dyn Model>, Option<String>), Error> {
    // Errors of an endpoint that never answered must be visible as an increase.
    CallMetrics::of(config.provider.as_str(), role_of(place));
    let model = match config.provider {
        Provider::A2a => remote(place, config, setup, A2aAgent::new)?,
        Provider::Anthropic => remote(place, config, setup, |access| {
            Ok(in_pieces(config, AnthropicModel::new(access)?))
        })?,
        Provider::Openai if place == ConfigEntry::Embeddings => {
            remote(place, config, setup, EmbeddingModel::new)?
        }
        Provider::Openai => remote(place, config, setup, |access| {
            Ok(in_pieces(config, OpenAiModel::new(access)?))
        })?,
        Provider::Openwop => remote(place, config, setup, OpenWopAgent::new)?,
        Provider::Scripted => {
            let (model, digest) = script(place, config)?;
            return Ok((model, Some(digest)));
        }
    };
    Ok((model, None))
}

fn role_of(place: ConfigEntry) -> CallRole {
    match place {
        ConfigEntry::Models(_) => CallRole::Agent,
        ConfigEntry::Judge | ConfigEntry::Judges(_) => CallRole::Judge,
        ConfigEntry::Embeddings => CallRole::Embeddings,
        ConfigEntry::User => CallRole::User,
    }
}

pub(super) fn permits(most: u32) -> Arc<dyn Permits> {
    Arc::new(EndpointPermits::new(most))
}

pub(super) fn permits_of(config: &ModelConfig) -> Arc<dyn Permits> {
    Arc::new(EndpointPermits::paced(
        config.max_concurrency,
        config.requests_per_minute,
    ))
}

/// The entry with the limits of its endpoint: the smallest numbers among the entries that share it.
pub(super) fn bounded<'a>(
    config: &ModelConfig,
    all: impl Iterator<Item = &'a ModelConfig>,
) -> ModelConfig {
    let place = shared_with(config);
    let mut bounded = config.clone();
    for other in all.filter(|other| place.is_some() && shared_with(other) == place) {
        bounded.max_concurrency = bounded.max_concurrency.min(other.max_concurrency);
        let rates = [bounded.requests_per_minute, other.requests_per_minute];
        bounded.requests_per_minute = rates.into_iter().flatten().min();
    }
    bounded
}

/// The key of entries that share their permits.
pub(super) fn shared_with(config: &ModelConfig) -> Option<String> {
    let url = config.base_url.as_ref()?;
    Some(url.as_str().trim_end_matches('/').to_owned())
}

pub(super) fn check(place: ConfigEntry, config: &ModelConfig) -> Result<(), Error> {
    let invalid = |field, problem: &str| {
        Err(Error::Invalid {
            place,
            field,
            problem: problem.to_owned(),
        })
    };
    for (field, price) in [
        ("input_usd_per_mtok", config.input_usd_per_mtok),
        ("output_usd_per_mtok", config.output_usd_per_mtok),
    ] {
        if price.is_some_and(|price| !is_price(price)) {
            return invalid(field, "must be a finite number of at least 0");
        }
    }
    if !(0.001..=86_400.0).contains(&config.timeout_s) {
        return invalid("timeout_s", "must be between 0.001 and 86400 seconds");
    }
    if !config.worker_labels.is_empty() && !matches!(place, ConfigEntry::Models(_)) {
        let problem =
            "applies only to `[[models]]` entries, whose tasks workers execute; remove it";
        return invalid("worker_labels", problem);
    }
    if config.max_concurrency == 0 {
        return invalid("max_concurrency", "must be at least 1");
    }
    if !(1..=10).contains(&config.max_attempts) {
        return invalid("max_attempts", "must be between 1 and 10");
    }
    let role = match place {
        ConfigEntry::Models(_) | ConfigEntry::Embeddings => None,
        ConfigEntry::Judge | ConfigEntry::Judges(_) => Some("a judge"),
        ConfigEntry::User => Some("a simulated user"),
    };
    if let Some(role) = role
        && matches!(config.provider, Provider::A2a | Provider::Openwop)
    {
        let problem = format!(
            "is a remote agent, which cannot be {role}; use \"anthropic\", \"openai\" or \
            \"scripted\""
        );
        return invalid("provider", &problem);
    }
    match config.provider {
        Provider::A2a | Provider::Anthropic | Provider::Openai | Provider::Openwop
            if config.file.is_some() =>
        {
            invalid("file", "applies only to provider \"scripted\"; remove it")
        }
        Provider::A2a | Provider::Openwop | Provider::Scripted if config.stream => invalid(
            "stream",
            "applies only to providers \"anthropic\" and \"openai\"; remove it",
        ),
        Provider::Scripted if config.base_url.is_some() => {
            invalid("base_url", "applies only to providers over HTTP; remove it")
        }
        Provider::Scripted if config.api_key_env.is_some() => invalid(
            "api_key_env",
            "applies only to providers over HTTP; remove it",
        ),
        _ => Ok(()),
    }
}

pub(super) fn info(
    config: &ModelConfig,
    provider: &str,
    model: String,
    price: Option<ModelPrice>,
) -> ModelInfo {
    ModelInfo {
        provider: provider.to_owned(),
        model,
        price,
        max_concurrency: config.max_concurrency,
        timeout: Duration::from_secs_f64(config.timeout_s),
        retry: RetryPolicy {
            attempts: config.max_attempts,
            ..RetryPolicy::default()
        },
    }
}

/// Streams answers if configured.
fn in_pieces<W: EndpointProtocol>(config: &ModelConfig, model: HttpModel<W>) -> HttpModel<W> {
    match config.stream {
        true => model.streaming(),
        false => model,
    }
}

fn remote<M: Model + 'static>(
    place: ConfigEntry,
    config: &ModelConfig,
    setup: Setup<'_>,
    connect: impl FnOnce(Access) -> Result<M, EndpointError>,
) -> Result<Arc<dyn Model>, Error> {
    let provider = config.provider.as_str();
    let missing = |field| Error::Missing {
        place,
        field,
        provider,
    };
    let base_url = config
        .base_url
        .as_ref()
        .ok_or_else(|| missing("base_url"))?;
    let model = match (&config.model, config.provider) {
        (Some(model), _) => model.clone(),
        // An A2A agent chooses its model itself.
        (None, Provider::A2a) => provider.to_owned(),
        (None, _) => return Err(missing("model")),
    };
    let price = config
        .own_price()
        .or_else(|| prices::price(setup.prices, base_url, &model));
    let key = match &config.api_key_env {
        None => None,
        Some(name) => Some(
            (setup.environment)(name)
                .filter(|key| !key.is_empty())
                .ok_or_else(|| Error::Invalid {
                    place,
                    field: "api_key_env",
                    problem: format!("names the environment variable {name}, which is not set"),
                })?,
        ),
    };
    let model = connect(Access {
        url: base_url.clone(),
        key: key.map(Into::into),
        info: info(config, provider, model, price),
        clock: setup.clock.clone(),
        reach: AddressScope::Private,
    })
    .map_err(|e| match e {
        EndpointError::Net(e @ net::Error::Setup(_)) => Error::Net(e),
        EndpointError::Net(e) => Error::Invalid {
            place,
            field: "base_url",
            problem: format!("cannot be used: {e}"),
        },
        EndpointError::Key => Error::Invalid {
            place,
            field: "api_key_env",
            problem: "names a variable whose value is not an API key: it has line breaks or \
                other characters that a header cannot contain"
                .to_owned(),
        },
    })?;
    Ok(Arc::new(model))
}

/// The identity of an endpoint: all settings that may affect its answers. Timeouts, attempts,
/// rates, concurrency and prices are left out, so that an operator can change them to finish a run,
/// and replicas may differ in them; keys are secrets. A script is pinned by its path and its
/// content.
pub(super) fn endpoint_pin(config: &ModelConfig, script: Option<&str>) -> EndpointPin {
    let url = config.base_url.as_ref().map(place_of);
    let document = json!({
        "recipe": ENDPOINT_RECIPE,
        "provider": config.provider.as_str(),
        "model": config.model,
        "url": url,
        "stream": config.stream,
        "file": config.file.as_ref().zip(script).map(|(path, digest)| json!({"path": path, "digest": digest})),
    });
    EndpointPin {
        url,
        digest: integrity::of(canonical_text(&document).as_bytes()),
    }
}

/// Separates these digests from all others.
const ENDPOINT_RECIPE: &str = "touchstone:endpoint:v1";

/// Origin and path; credentials and queries may contain secrets.
fn place_of(url: &Url) -> String {
    let mut place = url.clone();
    place.set_query(None);
    place.set_fragment(None);
    // Both fail only for a URL without a host, which has no credentials.
    let _ = place.set_username("");
    let _ = place.set_password(None);
    place.as_str().trim_end_matches('/').to_owned()
}

/// A scripted model, with the digest of its script.
fn script(place: ConfigEntry, config: &ModelConfig) -> Result<(Arc<dyn Model>, String), Error> {
    let provider = config.provider.as_str();
    let path = config.file.as_ref().ok_or(Error::Missing {
        place,
        field: "file",
        provider,
    })?;
    let text = std::fs::read(path).map_err(|source| Error::Unreadable {
        place,
        path: path.clone(),
        source,
    })?;
    let script = Script::parse(&text).map_err(|source| Error::Script { place, source })?;
    let name = config.model.clone().unwrap_or_else(|| provider.to_owned());
    let price = config.own_price().unwrap_or(ModelPrice::of_script());
    let info = info(config, provider, name, Some(price));
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(script, info));
    Ok((model, integrity::of(&text)))
}
