//! Live tools: servers on the Model Context Protocol that the operator configured
//! (`[[tools.mcp]]`), with one list of tools that agents may call. A tool is only called if it is
//! in that list *and* on the agent's own allowlist.

pub mod child;
pub mod config;
pub mod result;
pub mod server;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::Tool;
use secrecy::SecretString;
use serde_json::Value;

pub use crate::tools::config::{McpConfig, McpTool, ToolSettings};
use crate::tools::server::McpServer;

use crate::ports::live_tools::{LiveCall, LiveTools, ToolAnswer, ToolsUnavailable};
use crate::rules::{Effects, Hints, ToolDefinition};
use touchstone_host::net;
use touchstone_kit::ids::TaskId;

/// Maximum size in bytes of a tool's definition; a larger one is not passed on.
const LARGEST_DEFINITION: usize = 64 << 10;

/// Why the live tools of a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field has an invalid value.
    #[error("tools.mcp[{index}].{field} {problem}")]
    Invalid {
        /// Index of the entry.
        index: usize,
        field: String,
        /// The fault and its remedy.
        problem: String,
    },
}

#[derive(Debug)]
pub struct ToolCatalog {
    tools: HashMap<String, ConfiguredTool>,
}

#[derive(Debug)]
struct ConfiguredTool {
    server: Arc<McpServer>,
    config: McpTool,
}

impl ToolCatalog {
    /// Sets up every configured server without starting any. Reads secrets from the environment
    /// through `environment` once, during this call. `None` if there is no server.
    ///
    /// # Errors
    /// The first entry that cannot be used.
    pub fn build(
        settings: &ToolSettings,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Error> {
        config::check(&settings.mcp)?;
        let mut tools = HashMap::new();
        for (index, config) in settings.mcp.iter().enumerate() {
            let server = Arc::new(connect(index, config, environment)?);
            for tool in &config.tools {
                let known = ConfiguredTool {
                    server: Arc::clone(&server),
                    config: tool.clone(),
                };
                tools.insert(tool.tool.clone(), known);
            }
        }
        Ok((!tools.is_empty()).then_some(Self { tools }))
    }
}

fn connect(
    index: usize,
    config: &McpConfig,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<McpServer, Error> {
    let secret = |field: &str, name: &String| -> Result<SecretString, Error> {
        let value = environment(name).filter(|value| !value.is_empty());
        value.map(Into::into).ok_or_else(|| Error::Invalid {
            index,
            field: field.to_owned(),
            problem: format!("names the environment variable {name}, which is not set"),
        })
    };
    let Some(url) = &config.url else {
        let mut given = Vec::with_capacity(config.env.len());
        for name in &config.env {
            given.push((name.clone(), secret("env", name)?));
        }
        return Ok(McpServer::child(config.clone(), given));
    };
    let key = config.api_key_env.as_ref();
    let key = key.map(|name| secret("api_key_env", name)).transpose()?;
    McpServer::remote(config.clone(), url.clone(), key).map_err(|cause: net::Error| {
        Error::Invalid {
            index,
            field: "url".to_owned(),
            problem: format!("cannot be used: {cause}"),
        }
    })
}

#[async_trait]
impl LiveTools for ToolCatalog {
    async fn offers(
        &self,
        tools: &[String],
        _: &TaskId,
    ) -> Result<Vec<ToolDefinition>, ToolsUnavailable> {
        let mut offers = Vec::new();
        for name in tools {
            let Some(known) = self.tools.get(name) else {
                continue;
            };
            let session = known.server.session().await?;
            let tool = session
                .tool(known.config.at_server())
                .ok_or_else(|| ToolsUnavailable::because("tool_not_listed"))?;
            offers.push(definition(&known.config, tool)?);
        }
        Ok(offers)
    }

    async fn call(&self, call: LiveCall<'_>) -> Result<ToolAnswer, ToolsUnavailable> {
        let known = self.tools.get(call.tool);
        let known = known.ok_or_else(|| ToolsUnavailable::because("tool_not_listed"))?;
        let name = known.config.at_server();
        known.server.call(name, call.arguments, call.activity).await
    }
}

fn definition(config: &McpTool, tool: &Tool) -> Result<ToolDefinition, ToolsUnavailable> {
    let hints = tool.annotations.as_ref();
    let hints = Hints {
        read_only: hints.and_then(|it| it.read_only_hint),
        destructive: hints.and_then(|it| it.destructive_hint),
    };
    let definition = ToolDefinition {
        tool: config.tool.clone(),
        description: tool.description.as_ref().map(ToString::to_string),
        input_schema: Value::Object((*tool.input_schema).clone()),
        effects: Effects::of(config.effects, config.allow_side_effects, hints),
    };
    let bytes = definition.description.as_ref().map_or(0, String::len)
        + definition.input_schema.to_string().len();
    if bytes > LARGEST_DEFINITION {
        return Err(ToolsUnavailable::because("tool_too_large"));
    }
    Ok(definition)
}
