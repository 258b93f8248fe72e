//! Whether the configured endpoints answer. One `GET` each, which costs nothing: no model is called.

use std::time::Duration;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::join_all;
use serde::Deserialize;
use url::Url;

use crate::app;
use crate::cli::doctor::finding::{Area, Finding};
use crate::cli::doctor::settings::entries;
use crate::config::Config;
use touchstone_agents::model::config::{ModelConfig, Provider};
use touchstone_host::net::{self, Answer, Client, Policy};

const AREA: Area = Area::Endpoints;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Models that a warning names.
const MAX_NAMED: usize = 5;

/// An endpoint to ask.
struct Probe {
    /// The setting with the address, such as `models[0].base_url`.
    setting: String,
    url: Url,
    headers: HeaderMap,
    /// The setting that names the variable of the key, and the variable.
    key: Option<(String, String)>,
    /// The model that the list of models should contain.
    model: Option<String>,
}

/// Asks every endpoint of the configuration.
pub async fn check(config: &Config, found: &mut Vec<Finding>) {
    let mut probes = Vec::new();
    for (name, entry) in entries(config) {
        match of_model(&name, entry) {
            Ok(probe) => probes.extend(probe),
            Err(finding) => found.push(finding),
        }
    }
    probes.extend(others(config, found));
    let client = match Client::new(Policy::model(TIMEOUT, 1)) {
        Ok(client) => client,
        Err(cause) => {
            let remedy = "check the certificates of this machine";
            found.push(Finding::failure(AREA, cause.to_string(), remedy));
            return;
        }
    };
    let asked = probes.iter().map(|probe| async {
        let answer = client.get(&probe.url, &probe.headers).await;
        judged(probe, answer)
    });
    found.extend(join_all(asked).await);
}

/// The key in an environment variable.
fn key_of(setting: &str, variable: &str) -> Result<HeaderValue, Finding> {
    let text = std::env::var(variable).unwrap_or_default();
    if text.is_empty() {
        return Err(Finding::failure(
            AREA,
            format!("`{setting}` names the environment variable {variable}, which is not set"),
            format!("set {variable} to the API key in the environment of the host"),
        ));
    }
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        Finding::failure(
            AREA,
            format!("the value of {variable} (`{setting}`) is not an API key: it has characters that a header cannot contain"),
            format!("set {variable} to the API key, without line breaks"),
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn bearer(key: &HeaderValue) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", key.as_bytes()].concat()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn of_model(name: &str, entry: &ModelConfig) -> Result<Option<Probe>, Finding> {
    let setting = format!("{name}.base_url");
    let Some(base_url) = &entry.base_url else {
        return match entry.provider {
            Provider::Scripted => scripted(name, entry).map(|()| None),
            provider => Err(Finding::failure(
                AREA,
                format!(
                    "`{setting}` is missing: provider \"{}\" needs it",
                    provider.as_str()
                ),
                format!("set `{setting}`; docs/providers.md has examples"),
            )),
        };
    };
    let mut headers = HeaderMap::new();
    let mut key = None;
    if let Some(variable) = &entry.api_key_env {
        let setting = format!("{name}.api_key_env");
        let value = key_of(&setting, variable)?;
        match entry.provider {
            Provider::Anthropic => {
                headers.insert(HeaderName::from_static("x-api-key"), value);
            }
            _ => headers.extend(bearer(&value).map(|value| (AUTHORIZATION, value))),
        }
        key = Some((setting, variable.clone()));
    }
    if entry.provider == Provider::Anthropic {
        let name = HeaderName::from_static("anthropic-version");
        headers.insert(name, HeaderValue::from_static("2023-06-01"));
    }
    let lists_models = matches!(entry.provider, Provider::Anthropic | Provider::Openai);
    let url = match entry.provider {
        Provider::A2a => at_root(base_url, "/.well-known/agent-card.json"),
        Provider::Openwop => below(base_url, &[".well-known", "openwop"]),
        _ => below(base_url, &["models"]),
    };
    Ok(Some(Probe {
        setting,
        url,
        headers,
        key,
        model: entry.model.clone().filter(|_| lists_models),
    }))
}

fn scripted(name: &str, entry: &ModelConfig) -> Result<(), Finding> {
    let failure = |text: String| {
        let remedy = format!("correct `{name}.file`; docs/scripted-models.md has examples");
        Finding::failure(AREA, text, remedy)
    };
    let Some(file) = &entry.file else {
        return Err(failure(format!("`{name}.file` is missing")));
    };
    match std::fs::metadata(file) {
        Ok(_) => Ok(()),
        Err(cause) => Err(failure(format!(
            "`{name}.file` {} could not be read: {cause}",
            file.display()
        ))),
    }
}

/// Endpoints besides those of models.
fn others(config: &Config, found: &mut Vec<Finding>) -> Vec<Probe> {
    let mut probes = Vec::new();
    let mut add = |setting: String, url: Url, key: Option<(String, &String)>| {
        found.extend(key.and_then(|(setting, variable)| key_of(&setting, variable).err()));
        probes.push(Probe {
            setting,
            url,
            headers: HeaderMap::new(),
            key: None,
            model: None,
        });
    };
    let mut unusable = Vec::new();
    let mut parsed = |setting: &str, text: &str| {
        text.parse::<Url>()
            .map_err(|cause| unusable.push((setting.to_owned(), cause)))
            .ok()
    };
    let oidc = config.console.oidc.as_ref();
    if let Some(oidc) = oidc.filter(|_| config.console.enabled)
        && let Some(issuer) = parsed("console.oidc.issuer", &oidc.issuer)
    {
        let variable = oidc.client_secret_env.as_ref();
        let key = variable.map(|it| ("console.oidc.client_secret_env".to_owned(), it));
        let url = below(&issuer, &[".well-known", "openid-configuration"]);
        add("console.oidc.issuer".to_owned(), url, key);
    }
    for provider in &config.oasis.providers {
        let setting = format!("oasis.providers.{}", provider.name);
        if let Some(url) = parsed(&format!("{setting}.url"), &provider.url) {
            let variable = provider.api_key_env.as_ref();
            let key = variable.map(|it| (format!("{setting}.api_key_env"), it));
            add(format!("{setting}.url"), url, key);
        }
    }
    for server in &config.tools.mcp {
        let setting = format!("tools.mcp.{}", server.name);
        if let Some(url) = &server.url {
            let variable = server.api_key_env.as_ref();
            let key = variable.map(|it| (format!("{setting}.api_key_env"), it));
            add(format!("{setting}.url"), url.clone(), key);
        }
    }
    found.extend(unusable.into_iter().map(|(setting, cause)| {
        let text = format!("`{setting}` is not a URL: {cause}");
        Finding::failure(AREA, text, format!("correct `{setting}`"))
    }));
    probes
}

fn below(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

fn at_root(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(None);
    url
}

fn judged(probe: &Probe, answer: Result<Answer, net::Error>) -> Finding {
    let Probe { setting, key, .. } = probe;
    let place = app::shown(&probe.url);
    let answer = match answer {
        Ok(answer) => answer,
        Err(cause) => {
            return Finding::failure(
                AREA,
                format!("`{setting}`: {place}: {cause}"),
                format!("start the endpoint, or correct `{setting}`"),
            );
        }
    };
    match (answer.status, key) {
        (401 | 403, Some((setting, variable))) => Finding::failure(
            AREA,
            format!(
                "`{setting}`: {place} refuses the key in {variable} with status {}",
                answer.status
            ),
            format!("set {variable} to a valid API key in the environment of the host"),
        ),
        (401 | 403, None) if probe.model.is_some() => Finding::failure(
            AREA,
            format!(
                "`{setting}`: {place} needs an API key: it answers {}",
                answer.status
            ),
            "set `api_key_env` of the entry to the variable that holds the key",
        ),
        (500..=599, _) => Finding::warning(
            AREA,
            format!("`{setting}`: {place} answers {}", answer.status),
            "look at the log of the endpoint, and run this again",
        ),
        (200, _) => match unlisted(probe, &answer) {
            Some((model, listed)) => Finding::warning(
                AREA,
                format!("`{setting}`: {place} does not list the model `{model}`"),
                format!("set `model` of the entry to one that the endpoint lists: {listed}"),
            ),
            None => Finding::ok(AREA, format!("`{setting}`: {place} answers")),
        },
        (status, _) => Finding::ok(
            AREA,
            format!("`{setting}`: {place} answers (status {status})"),
        ),
    }
}

/// The model that is not in the endpoint's list of models, and models that are.
fn unlisted<'a>(probe: &'a Probe, answer: &Answer) -> Option<(&'a str, String)> {
    #[derive(Deserialize)]
    struct Models {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let model = probe.model.as_deref()?;
    let models: Models = serde_json::from_slice(&answer.body).ok()?;
    // Ollama accepts a name without its tag.
    let is_it = |id: &str| id == model || id.split(':').next() == Some(model);
    if models.data.is_empty() || models.data.iter().any(|it| is_it(&it.id)) {
        return None;
    }
    let named = models.data.iter().take(MAX_NAMED);
    let named: Vec<&str> = named.map(|it| it.id.as_str()).collect();
    let more = if models.data.len() > MAX_NAMED {
        ", …"
    } else {
        ""
    };
    Some((model, format!("{}{more}", named.join(", "))))
}
