//! How a remote agent is reached: over A2A, as a workflow of another OpenWOP host, or as a command
//! of this host.
//!
//! Requests contain URLs, but only names of credentials and commands: their values are in the
//! operator's configuration.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::endpoint::COMMAND_PROVIDER;
use touchstone_kit::error::Problem;
use touchstone_kit::fields::{Fields, Nulls};

const FIELD: &str = "reached_by";
const A2A: &str = "a2a";
const OPENWOP: &str = "openwop";
const MAX_URL: usize = 2048;
const MAX_WORKFLOW: usize = 256;
const MAX_NAME: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "lowercase")]
pub enum ReachedBy {
    /// An agent that speaks A2A.
    A2a {
        /// The `url` of its agent card.
        url: String,
        /// Name of a credential in the host's configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credential: Option<String>,
    },
    /// A workflow of another OpenWOP host.
    Openwop {
        /// Base URL of the host, without `/v1`.
        url: String,
        workflow: String,
        /// Name of a credential in the host's configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        credential: Option<String>,
    },
    Command {
        /// Name of a command in the host's configuration.
        command: String,
    },
}

impl ReachedBy {
    /// Parses the member `reached_by` of an enrollment.
    ///
    /// # Errors
    /// `validation_error` that names the field.
    pub fn parse(value: &Value) -> Result<Self, Problem> {
        let transport = value.get("transport").and_then(Value::as_str);
        let known: &[&str] = match transport {
            Some(OPENWOP) => &["transport", "url", "workflow", "credential"],
            Some(COMMAND_PROVIDER) => &["transport", "command"],
            _ => &["transport", "url", "credential"],
        };
        let fields = Fields::closed(value, FIELD, known, Nulls::Wrong)?;
        let required = |name: &'static str, most: usize| -> Result<String, Problem> {
            let text = fields.text_of(name, 1..=most)?;
            text.map(str::to_owned)
                .ok_or_else(|| fields.invalid(name, "is required"))
        };
        let credential = || -> Result<Option<String>, Problem> {
            let name = fields.text_of("credential", 1..=MAX_NAME)?;
            Ok(name.map(str::to_owned))
        };
        let url = || -> Result<String, Problem> {
            let url = required("url", MAX_URL)?;
            let rule = "must be an http or https URL without credentials, query or fragment";
            match place(&url) {
                Some(_) => Ok(url),
                None => Err(fields.invalid("url", rule)),
            }
        };
        match transport {
            Some(A2A) => Ok(Self::A2a {
                url: url()?,
                credential: credential()?,
            }),
            Some(OPENWOP) => Ok(Self::Openwop {
                url: url()?,
                workflow: required("workflow", MAX_WORKFLOW)?,
                credential: credential()?,
            }),
            Some(COMMAND_PROVIDER) => Ok(Self::Command {
                command: required("command", MAX_NAME)?,
            }),
            _ => Err(fields.invalid("transport", "must be a2a, openwop or command")),
        }
    }

    /// The provider name in runs of the agent.
    pub const fn provider(&self) -> &'static str {
        match self {
            Self::A2a { .. } => A2A,
            Self::Openwop { .. } => OPENWOP,
            Self::Command { .. } => COMMAND_PROVIDER,
        }
    }

    /// Whether the agent uses its own tools and workers, so that it is offered none of this host.
    pub fn is_remote(&self) -> bool {
        is_remote_provider(self.provider())
    }
}

/// Whether a provider of this name is a remote agent.
pub fn is_remote_provider(name: &str) -> bool {
    matches!(name, A2A | OPENWOP)
}

/// Parses a URL that contains no secret. Errors do not repeat an invalid URL, because it may
/// contain one.
pub fn place(text: &str) -> Option<Url> {
    let url: Url = text.parse().ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.host().is_some()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    plain.then_some(url)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"transport": "a2a", "url": "https://desk.example/a2a"}))]
    #[case(json!({"transport": "a2a", "url": "https://desk.example/a2a", "credential": "desk"}))]
    #[case(json!({"transport": "openwop", "url": "https://host.example", "workflow": "triage"}))]
    #[case(json!({"transport": "command", "command": "clerk"}))]
    fn a_valid_transport_is_parsed_and_serialized_unchanged(#[case] way: Value) {
        let read = ReachedBy::parse(&way).unwrap();
        assert_eq!(read.provider(), way["transport"]);
        assert_eq!(json!(read), way);
        assert_eq!(serde_json::from_value::<ReachedBy>(way).unwrap(), read);
    }

    #[rstest]
    #[case(json!("a2a"), "reached_by")]
    #[case(json!({"url": "https://desk.example"}), "reached_by.transport")]
    #[case(json!({"transport": "smtp"}), "reached_by.transport")]
    #[case(json!({"transport": "a2a"}), "reached_by.url")]
    #[case(json!({"transport": "a2a", "url": "desk.example"}), "reached_by.url")]
    #[case(json!({"transport": "a2a", "url": "file:///etc/passwd"}), "reached_by.url")]
    #[case(json!({"transport": "a2a", "url": "https://user:secret@desk.example"}), "reached_by.url")]
    #[case(json!({"transport": "a2a", "url": "https://desk.example?token=secret"}), "reached_by.url")]
    #[case(json!({"transport": "a2a", "url": "https://desk.example", "workflow": "x"}), "reached_by.workflow")]
    #[case(json!({"transport": "openwop", "url": "https://host.example"}), "reached_by.workflow")]
    #[case(json!({"transport": "command"}), "reached_by.command")]
    #[case(json!({"transport": "command", "command": "clerk", "url": "https://x.example"}), "reached_by.url")]
    fn an_invalid_transport_is_rejected_by_field(#[case] way: Value, #[case] field: &str) {
        let refused = ReachedBy::parse(&way).unwrap_err();
        assert_eq!(refused.details["field"], field);
        assert!(!refused.message.contains("secret"), "{}", refused.message);
    }
}
