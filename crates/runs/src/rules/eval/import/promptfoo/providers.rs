//! Providers of a configuration: the endpoints that Touchstone can call in the same way.
//!
//! A configuration never chooses where an API key is sent: a key goes only to the address that is
//! listed here for it. An address in the configuration is used only on this machine, without a key.

use serde_json::{Map, Value};
use url::Url;

use crate::rules::eval::import::draft::short;
use touchstone_agents::model::Provider;

/// Maximum number of providers.
const MAX_PROVIDERS: usize = 100;

/// A provider of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderDraft {
    /// Its label, or else its id.
    pub name: String,
    /// Its endpoint, or why it has none that Touchstone can call.
    pub endpoint: Result<ProviderEndpoint, String>,
    /// Names of settings that are not used.
    pub unused: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderEndpoint {
    pub protocol: Provider,
    pub url: Url,
    pub model: String,
    /// The environment variable with the API key, if the endpoint needs one.
    pub key_variable: Option<&'static str>,
}

/// A service: the first part of the provider's id, the middle parts that select chat, the protocol,
/// the address, and the variable with the API key.
struct Service {
    name: &'static str,
    kinds: &'static [&'static str],
    protocol: Provider,
    url: &'static str,
    key: Option<&'static str>,
}

const fn service(name: &'static str, url: &'static str, key: &'static str) -> Service {
    Service {
        name,
        kinds: &["chat"],
        protocol: Provider::Openai,
        url,
        key: Some(key),
    }
}

const SERVICES: [Service; 10] = [
    Service {
        kinds: &["chat", "responses"],
        ..service("openai", "https://api.openai.com/v1", "OPENAI_API_KEY")
    },
    Service {
        kinds: &["messages"],
        protocol: Provider::Anthropic,
        ..service(
            "anthropic",
            "https://api.anthropic.com/v1",
            "ANTHROPIC_API_KEY",
        )
    },
    Service {
        kinds: &["chat", "completion"],
        key: None,
        ..service("ollama", "http://127.0.0.1:11434/v1", "")
    },
    service(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
    ),
    service("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    service("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    service(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
    ),
    service(
        "togetherai",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
    ),
    service("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    service("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
];

/// Other kinds of models, which do not chat.
const OTHER_KINDS: [&str; 9] = [
    "embedding",
    "embeddings",
    "moderation",
    "image",
    "realtime",
    "assistant",
    "transcription",
    "speech",
    "agents",
];

/// Reads the providers: one or a list of ids, objects with an `id`, or objects by id.
pub fn read(providers: &Value) -> Vec<ProviderDraft> {
    let items = match providers {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    items
        .iter()
        .filter_map(provider)
        .take(MAX_PROVIDERS)
        .collect()
}

fn provider(item: &Value) -> Option<ProviderDraft> {
    match item {
        Value::String(id) => Some(of(id, &Map::new())),
        Value::Object(members) => match members.get("id").and_then(Value::as_str) {
            Some(id) => Some(of(id, members)),
            None => {
                let (id, members) = members.iter().next()?;
                Some(of(id, members.as_object().unwrap_or(&Map::new())))
            }
        },
        _ => None,
    }
}

fn of(id: &str, members: &Map<String, Value>) -> ProviderDraft {
    let none = Map::new();
    let config = members.get("config").and_then(Value::as_object);
    let config = config.unwrap_or(&none);
    let label = members.get("label").and_then(Value::as_str);
    let name = label.filter(|label| !label.trim().is_empty()).unwrap_or(id);
    let other_members = members
        .iter()
        .filter(|(name, value)| {
            !matches!(name.as_str(), "id" | "label" | "config") && !value.is_null()
        })
        .map(|(name, _)| short(name).into_owned());
    let settings = config
        .keys()
        .filter(|name| !matches!(name.as_str(), "apiBaseUrl" | "apiHost"))
        .map(|name| format!("config.{}", short(name)));
    ProviderDraft {
        name: short(name).into_owned(),
        endpoint: endpoint(id, config),
        unused: other_members.chain(settings).take(12).collect(),
    }
}

fn endpoint(id: &str, config: &Map<String, Value>) -> Result<ProviderEndpoint, String> {
    let mut parts = id.splitn(3, ':');
    let (first, second, third) = (parts.next(), parts.next(), parts.next());
    let service = SERVICES.iter().find(|it| Some(it.name) == first);
    let (Some(service), Some(second)) = (service, second) else {
        return Err(
            "is not a service that Touchstone knows the address of; choose a model with \
             --model NAME=URL, or run a program with --agent-command"
                .to_owned(),
        );
    };
    let model = match third {
        Some(model) if service.kinds.contains(&second) => model.to_owned(),
        _ if OTHER_KINDS.contains(&second) => {
            return Err(format!("is of the kind `{second}`, which does not chat"));
        }
        // Names of models may contain colons, as those of Ollama do.
        Some(rest) => format!("{second}:{rest}"),
        None => second.to_owned(),
    };
    if model.trim().is_empty() || service.kinds.contains(&model.as_str()) {
        return Err("does not name a model".to_owned());
    }
    let own = ["apiBaseUrl", "apiHost"]
        .into_iter()
        .find_map(|name| config.get(name));
    let (url, key_variable) = match own {
        None => (service.url.to_owned(), service.key),
        Some(Value::String(url)) if is_on_this_machine(url) => (url.clone(), None),
        Some(_) => {
            return Err(format!(
                "has another address than the service, to which an API key could be sent; if you \
                 trust it, use --model {}=URL",
                short(&model)
            ));
        }
    };
    let url =
        Url::parse(&url).map_err(|cause| format!("has an address that is not a URL: {cause}"))?;
    Ok(ProviderEndpoint {
        protocol: service.protocol,
        url,
        model,
        key_variable,
    })
}

fn is_on_this_machine(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && match url.host() {
                Some(url::Host::Domain(name)) => name == "localhost",
                Some(url::Host::Ipv4(address)) => address.is_loopback(),
                Some(url::Host::Ipv6(address)) => address.is_loopback(),
                None => false,
            }
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn one(provider: Value) -> ProviderDraft {
        read(&json!([provider])).remove(0)
    }

    #[rstest]
    #[case(
        "openai:gpt-4o-mini",
        "https://api.openai.com/v1",
        "gpt-4o-mini",
        Some("OPENAI_API_KEY")
    )]
    #[case(
        "openai:chat:gpt-4o",
        "https://api.openai.com/v1",
        "gpt-4o",
        Some("OPENAI_API_KEY")
    )]
    #[case(
        "anthropic:messages:claude-haiku",
        "https://api.anthropic.com/v1",
        "claude-haiku",
        Some("ANTHROPIC_API_KEY")
    )]
    #[case("ollama:chat:llama3.2", "http://127.0.0.1:11434/v1", "llama3.2", None)]
    #[case("ollama:qwen2.5:7b", "http://127.0.0.1:11434/v1", "qwen2.5:7b", None)]
    #[case(
        "openrouter:meta/llama",
        "https://openrouter.ai/api/v1",
        "meta/llama",
        Some("OPENROUTER_API_KEY")
    )]
    fn known_services_have_an_endpoint(
        #[case] id: &str,
        #[case] url: &str,
        #[case] model: &str,
        #[case] key: Option<&str>,
    ) {
        let found = one(json!(id));
        assert_eq!(found.name, id);
        let endpoint = found.endpoint.unwrap();
        assert_eq!(endpoint.url.as_str(), url);
        assert_eq!(
            (endpoint.model.as_str(), endpoint.key_variable),
            (model, key)
        );
    }

    #[rstest]
    #[case("python:provider.py", "is not a service")]
    #[case("file://providers.yaml", "is not a service")]
    #[case("https://example.com/generate", "is not a service")]
    #[case("openai", "is not a service")]
    #[case("openai:chat", "does not name a model")]
    #[case("openai:embedding:text-embedding-3-small", "does not chat")]
    #[case("openai:", "does not name a model")]
    fn other_providers_are_named_with_a_reason(#[case] id: &str, #[case] reason: &str) {
        let fault = one(json!(id)).endpoint.unwrap_err();
        assert!(fault.contains(reason), "{fault}");
    }

    #[test]
    fn an_address_in_the_configuration_never_gets_a_key() {
        let own = |url: &str| {
            let config = json!({"apiBaseUrl": url, "apiKeyEnvar": "AWS_SECRET_ACCESS_KEY"});
            one(json!({"id": "openai:chat:m", "config": config}))
        };
        let local = own("http://127.0.0.1:8000/v1");
        assert_eq!(local.unused, ["config.apiKeyEnvar"]);
        assert_eq!(local.endpoint.unwrap().key_variable, None);
        for url in [
            "https://example.com/v1",
            "http://127.0.0.1.example.com/v1",
            "file:///etc",
        ] {
            let fault = own(url).endpoint.unwrap_err();
            assert!(fault.contains("--model m=URL"), "{fault}");
        }
    }

    #[test]
    fn labels_settings_and_the_notation_by_id_are_read() {
        let found = one(
            json!({"id": "openai:gpt-4o", "label": "large", "config": {"temperature": 0}, "prompts": ["a"]}),
        );
        assert_eq!(found.name, "large");
        assert_eq!(found.unused, ["prompts", "config.temperature"]);
        let found = one(json!({"openai:gpt-4o": {"config": {"max_tokens": 5}}}));
        assert_eq!(found.name, "openai:gpt-4o");
        assert_eq!(found.unused, ["config.max_tokens"]);
        assert!(read(&json!([3, null])).is_empty());
    }
}
