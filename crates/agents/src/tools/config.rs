//! The `[[tools.mcp]]` entries of the configuration.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::Deserialize;
use url::Url;

use crate::model::config::optional_url;
use crate::rules::Declared;
use crate::tools::Error;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolSettings {
    /// Servers on the Model Context Protocol.
    pub mcp: Vec<McpConfig>,
}

/// One server, and the tools that agents may call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpConfig {
    /// The server's name in messages.
    pub name: String,
    /// The program to start and its arguments, without a shell; excludes `url`.
    #[serde(default)]
    pub command: Vec<String>,
    /// `command`: names of environment variables to pass on, in addition to those every program
    /// needs.
    #[serde(default)]
    pub env: Vec<String>,
    /// `command`: the file that its standard error is appended to; discarded if unset.
    #[serde(default)]
    pub stderr: Option<PathBuf>,
    /// URL of a server with streamable HTTP.
    #[serde(default, deserialize_with = "optional_url")]
    pub url: Option<Url>,
    /// `url`: the environment variable that holds the bearer token.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// Timeout of the start and of each call, in seconds.
    #[serde(default = "default_timeout")]
    pub timeout_s: f64,
    /// Maximum size of a result in bytes.
    #[serde(default = "default_result")]
    pub max_result_bytes: usize,
    /// Maximum calls in flight.
    #[serde(default = "default_concurrency")]
    pub max_concurrency: usize,
    /// The tools that agents may call.
    pub tools: Vec<McpTool>,
}

/// A tool that agents may call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpTool {
    /// Its name in allowlists, `<scope>:<tool-id>`.
    pub tool: String,
    /// Its name on the server; default: the tool id.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether it only reads or has side effects.
    pub effects: Declared,
    /// Whether it may be called despite side effects.
    #[serde(default)]
    pub allow_side_effects: bool,
}

impl McpTool {
    /// Its name on the server.
    pub fn at_server(&self) -> &str {
        let id = self.tool.split_once(':').map_or("", |(_, id)| id);
        self.name.as_deref().unwrap_or(id)
    }
}

const fn default_timeout() -> f64 {
    30.0
}
const fn default_result() -> usize {
    256 << 10
}
const fn default_concurrency() -> usize {
    8
}

/// Maximum size in bytes of a server's message; larger than a result, because a quoted result takes
/// more bytes.
pub(super) const LARGEST_MESSAGE: usize = 16 << 20;
const LARGEST_RESULT: usize = LARGEST_MESSAGE / 2;

/// Checks rules that the types do not express.
///
/// # Errors
/// The first field with an invalid value.
pub(super) fn check(servers: &[McpConfig]) -> Result<(), Error> {
    let mut names = HashSet::new();
    let mut tools = HashSet::new();
    for (index, server) in servers.iter().enumerate() {
        let invalid = |field: &str, problem: &str| {
            Err(Error::Invalid {
                index,
                field: field.to_owned(),
                problem: problem.to_owned(),
            })
        };
        if server.name.is_empty() || !names.insert(&server.name) {
            return invalid(
                "name",
                "must not be empty or repeat the name of an earlier entry",
            );
        }
        match (&server.url, server.command.first()) {
            (None, None) => return invalid("command", "or `url` is missing: give one of them"),
            (Some(_), Some(_)) => {
                return invalid("command", "and `url` exclude each other; remove one");
            }
            (Some(_), None) if !server.env.is_empty() || server.stderr.is_some() => {
                return invalid("env", "and `stderr` apply only to `command`; remove them");
            }
            (None, Some(program)) if program.is_empty() => {
                return invalid("command", "must begin with a program");
            }
            (None, Some(_)) if server.api_key_env.is_some() => {
                return invalid(
                    "api_key_env",
                    "applies only to `url`; to pass the variable to `command`, list it in `env`",
                );
            }
            _ => {}
        }
        if !(0.001..=3600.0).contains(&server.timeout_s) {
            return invalid("timeout_s", "must be between 0.001 and 3600 seconds");
        }
        if !(1..=LARGEST_RESULT).contains(&server.max_result_bytes) {
            return invalid("max_result_bytes", "must be between 1 and 8388608");
        }
        if !(1..=1024).contains(&server.max_concurrency) {
            return invalid("max_concurrency", "must be between 1 and 1024");
        }
        if server.tools.is_empty() {
            return invalid(
                "tools",
                "must name at least one tool; other tools are never called",
            );
        }
        for (place, tool) in server.tools.iter().enumerate() {
            let field = format!("tools[{place}].tool");
            if tool
                .tool
                .split_once(':')
                .is_none_or(|(scope, id)| scope.is_empty() || id.is_empty())
            {
                return invalid(
                    &field,
                    "must be `<scope>:<tool-id>`, as in agents' allowlists",
                );
            }
            if !tools.insert(&tool.tool) {
                return invalid(&field, "occurs twice; keep one of them");
            }
        }
    }
    Ok(())
}
