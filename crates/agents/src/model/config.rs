//! The `[[models]]` entries of the configuration, and `[judge]`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use url::Url;

use crate::model::MAX_FURTHER_JUDGES;
use crate::rules::prices::ModelPrice;
use crate::rules::worker_labels::WorkerLabels;
use touchstone_openwop::suite::ModelClass;

/// One model endpoint and the class of agents it serves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// The class of agents it serves; `*` for all classes that no other entry names.
    pub class: ClassSelector,
    /// The adapter for the endpoint.
    pub provider: Provider,
    /// `openai` and `anthropic`: the base URL of the API, such as `http://127.0.0.1:9000/v1`;
    /// `a2a`: the `url` of the agent's card; `openwop`: the host, before `/v1`.
    #[serde(default, deserialize_with = "optional_url")]
    pub base_url: Option<Url>,
    /// The model's name at the endpoint; for `openwop`, the workflow; for `scripted` and `a2a`, the
    /// name shown (default: the provider).
    #[serde(default)]
    pub model: Option<String>,
    /// All but `scripted`: the environment variable that holds the API key. The key itself is never
    /// in a file.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Price per million input tokens in USD. If only one of the two prices is set, the other one
    /// is 0; if none is, `[[prices]]` or the list price of the vendor applies.
    #[serde(default)]
    pub input_usd_per_mtok: Option<f64>,
    /// Price per million output tokens in USD.
    #[serde(default)]
    pub output_usd_per_mtok: Option<f64>,
    /// Maximum calls in flight, over all entries with the same `base_url` (the smallest number
    /// applies).
    #[serde(default = "default_concurrency")]
    pub max_concurrency: u32,
    /// Maximum calls per minute in this process, over all entries with the same `base_url` (the
    /// smallest number applies).
    #[serde(default)]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Timeout of one attempt in seconds.
    #[serde(default = "default_timeout")]
    pub timeout_s: f64,
    /// `openai` and `anthropic`: whether answers are streamed. `timeout_s` then applies to each
    /// piece.
    #[serde(default)]
    pub stream: bool,
    /// Maximum attempts of one call, including the first.
    #[serde(default = "default_attempts")]
    pub max_attempts: u32,
    /// `scripted`: the file with the answers.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// `[[models]]`: the labels that workers need for tasks of this model.
    #[serde(default)]
    pub worker_labels: WorkerLabels,
}

/// Parses a URL without quoting it in the error.
///
/// # Errors
/// The text is not a URL.
pub fn optional_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    // The parser's message does not quote the text, which may contain a password.
    text.map(|text| text.parse().map_err(serde::de::Error::custom))
        .transpose()
}

const fn default_concurrency() -> u32 {
    64
}
const fn default_timeout() -> f64 {
    60.0
}
const fn default_attempts() -> u32 {
    3
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// A remote agent on the A2A protocol.
    A2a,
    /// The Anthropic messages wire.
    Anthropic,
    /// The OpenAI chat-completions wire.
    Openai,
    /// A workflow of another OpenWOP host.
    Openwop,
    /// Answers from a file.
    Scripted,
}

impl Provider {
    /// The name in the configuration and in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::A2a => "a2a",
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
            Self::Openwop => "openwop",
            Self::Scripted => "scripted",
        }
    }
}

/// All classes that no other entry names.
pub const ANY: &str = "*";

/// A model class, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ClassSelector {
    Class(ModelClass),
    /// `*`.
    Any,
}

impl TryFrom<String> for ClassSelector {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name == ANY {
            return Ok(Self::Any);
        }
        ModelClass::parse(&name).map(Self::Class).ok_or_else(|| {
            let known = ModelClass::ALL.map(ModelClass::as_str).join(", ");
            format!("class must be `*` or one of {known}")
        })
    }
}

/// Reads `[judge]`: an entry like those of `[[models]]`, but without a class.
///
/// # Errors
/// As for an entry, and if it names a class.
pub fn judge<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ModelConfig>, D::Error> {
    without_class(deserializer, "judge", "a judge")
}

/// Reads `[simulated_user]`, as [`judge`].
///
/// # Errors
/// As [`judge`].
pub fn simulated_user<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ModelConfig>, D::Error> {
    without_class(deserializer, "simulated_user", "a simulated user")
}

fn without_class<'de, D: Deserializer<'de>>(
    deserializer: D,
    section: &str,
    role: &str,
) -> Result<Option<ModelConfig>, D::Error> {
    use serde::de::Error as _;
    const CLASS: &str = "class";
    let Some(mut entry) = Option::<Map<String, Value>>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if entry.contains_key(CLASS) {
        return Err(D::Error::custom(format_args!(
            "{section}.class: {role} is not limited to a class of agents; leave `class` out"
        )));
    }
    entry.insert(CLASS.to_owned(), Value::from("*"));
    let read = ModelConfig::deserialize(Value::Object(entry));
    read.map(Some)
        .map_err(|cause| D::Error::custom(format_args!("{section}: {cause}")))
}

/// Reads `[[judges]]`: entries like `[judge]`.
///
/// # Errors
/// As for `[judge]`, and if there are too many.
pub fn judges<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ModelConfig>, D::Error> {
    use serde::de::Error as _;
    let entries = Vec::<Value>::deserialize(deserializer)?;
    if entries.len() > MAX_FURTHER_JUDGES {
        return Err(D::Error::custom(format_args!(
            "judges: has more than {MAX_FURTHER_JUDGES} entries"
        )));
    }
    let read = |(index, entry): (usize, Value)| {
        let read = judge(entry).map_err(|cause| {
            let cause = cause.to_string();
            let cause = cause.replacen("judge", &format!("judges[{index}]"), 1);
            D::Error::custom(cause)
        })?;
        read.ok_or_else(|| D::Error::custom(format_args!("judges[{index}]: is empty")))
    };
    entries.into_iter().enumerate().map(read).collect()
}

/// Reads `[embeddings]`: an entry like those of `[[models]]`, but without class, and on the OpenAI
/// wire.
///
/// # Errors
/// As for an entry, and if it names a class or another provider.
pub fn embeddings<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ModelConfig>, D::Error> {
    use serde::de::Error as _;
    let Some(mut entry) = Option::<Map<String, Value>>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if entry.contains_key("class") {
        return Err(D::Error::custom(
            "embeddings.class: an embedding model is not limited to a class of agents; leave \
             `class` out",
        ));
    }
    entry.insert("class".to_owned(), Value::from("*"));
    let provider = entry
        .entry("provider")
        .or_insert_with(|| Value::from(Provider::Openai.as_str()));
    if *provider != Provider::Openai.as_str() {
        return Err(D::Error::custom(
            "embeddings.provider must be \"openai\": embeddings are asked for on the OpenAI wire",
        ));
    }
    let read = ModelConfig::deserialize(Value::Object(entry));
    read.map(Some)
        .map_err(|cause| D::Error::custom(format_args!("embeddings: {cause}")))
}

impl ModelConfig {
    /// An endpoint on the OpenAI wire for every class, with default limits.
    pub fn openai(base_url: Url, model: impl Into<String>) -> Self {
        Self::remote(Provider::Openai, base_url, model)
    }

    /// An endpoint over HTTP for every class, with default limits.
    pub fn remote(provider: Provider, base_url: Url, model: impl Into<String>) -> Self {
        Self {
            base_url: Some(base_url),
            model: Some(model.into()),
            ..Self::of(provider)
        }
    }

    pub fn scripted(file: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(file.into()),
            ..Self::of(Provider::Scripted)
        }
    }

    /// The entry with this price.
    #[must_use]
    pub fn priced(self, input_usd_per_mtok: f64, output_usd_per_mtok: f64) -> Self {
        Self {
            input_usd_per_mtok: Some(input_usd_per_mtok),
            output_usd_per_mtok: Some(output_usd_per_mtok),
            ..self
        }
    }

    /// The price of its own settings.
    pub fn own_price(&self) -> Option<ModelPrice> {
        let (input, output) = (self.input_usd_per_mtok, self.output_usd_per_mtok);
        (input.is_some() || output.is_some())
            .then(|| ModelPrice::configured(input.unwrap_or_default(), output.unwrap_or_default()))
    }

    fn of(provider: Provider) -> Self {
        Self {
            class: ClassSelector::Any,
            provider,
            base_url: None,
            model: None,
            api_key_env: None,
            input_usd_per_mtok: None,
            output_usd_per_mtok: None,
            max_concurrency: default_concurrency(),
            requests_per_minute: None,
            timeout_s: default_timeout(),
            stream: false,
            max_attempts: default_attempts(),
            file: None,
            worker_labels: WorkerLabels::default(),
        }
    }
}
