//! One tool server on the Model Context Protocol, over standard input and output or streamable
//! HTTP.
//!
//! The session starts with the first call and is kept. After it ended or timed out, the next call
//! starts another one. If a start fails, no further start is attempted for a few seconds, so that a
//! dead server does not cost every task its whole timeout. The server gets no capabilities of the
//! host: no sampling, no roots, no elicitation.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, RequestMetaObject, Tool,
};
use rmcp::service::{
    ClientInitializeError, RoleClient, RunningService, ServiceError, ServiceExt as _,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout};

use crate::ports::live_tools::{ToolAnswer, ToolsUnavailable};
use crate::tools::child;
use crate::tools::config::{LARGEST_MESSAGE, McpConfig};
use crate::tools::result::{read, unavailable};
use touchstone_host::net;
use touchstone_host::net::Client;
use touchstone_host::otlp::span;

/// Delay after a failed start before the next one.
const REST: Duration = Duration::from_secs(5);
/// Maximum tools that a server may list; the rest is ignored.
const MOST_TOOLS: usize = 1000;
/// Maximum pages of the tool list.
const MOST_PAGES: usize = 50;
/// The member of a request's `_meta` with the call's effect id.
const ACTIVITY: &str = "touchstone/activityId";

type Service = RunningService<RoleClient, ClientConfig>;

pub struct McpServer {
    config: McpConfig,
    place: ServerEndpoint,
    timeout: Duration,
    calls: Semaphore,
    state: Mutex<State>,
}

impl std::fmt::Debug for McpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServer")
            .field("name", &self.config.name)
            .finish_non_exhaustive()
    }
}

enum ServerEndpoint {
    /// A child process with these environment variables.
    Child(Vec<(String, SecretString)>),
    /// A server at a URL.
    Remote {
        client: Box<Client>,
        url: url::Url,
        key: Option<SecretString>,
    },
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    failed: Option<(Instant, ToolsUnavailable)>,
}

/// A running session.
pub struct Session {
    service: Service,
    tools: HashMap<String, Tool>,
    /// Dropped after the service, which closes the server's input.
    _process: Option<child::Server>,
}

impl Session {
    /// The server's definition of a tool.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }
}

impl McpServer {
    /// A server as a child process.
    pub fn child(config: McpConfig, environment: Vec<(String, SecretString)>) -> Self {
        Self::at(config, ServerEndpoint::Child(environment))
    }

    /// A server at a URL.
    ///
    /// # Errors
    /// The URL cannot be used.
    pub fn remote(
        config: McpConfig,
        url: url::Url,
        key: Option<SecretString>,
    ) -> Result<Self, net::Error> {
        let timeout = Duration::from_secs_f64(config.timeout_s);
        let client = Client::new(net::Policy::model(timeout, config.max_concurrency))?;
        client.check(&url)?;
        let client = Box::new(client);
        Ok(Self::at(
            config,
            ServerEndpoint::Remote { client, url, key },
        ))
    }

    fn at(config: McpConfig, place: ServerEndpoint) -> Self {
        Self {
            timeout: Duration::from_secs_f64(config.timeout_s),
            calls: Semaphore::new(config.max_concurrency),
            state: Mutex::default(),
            config,
            place,
        }
    }

    /// Calls a tool, once.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn call(
        &self,
        name: &str,
        arguments: &Map<String, Value>,
        activity: &str,
    ) -> Result<ToolAnswer, ToolsUnavailable> {
        let _place = self
            .calls
            .acquire()
            .await
            .map_err(|_| ToolsUnavailable::because("tool_closed"))?;
        let session = self.session().await?;
        let mut meta = RequestMetaObject::new();
        meta.0.0.insert(ACTIVITY.to_owned(), activity.into());
        // Where the conventions for MCP put the trace context, over every transport.
        if let Some(context) = span::context() {
            let parent = context.traceparent();
            meta.0.0.insert("traceparent".to_owned(), parent.into());
            let state = context.state.map(|it| ("tracestate".to_owned(), it.into()));
            meta.0.0.extend(state);
        }
        let mut params =
            CallToolRequestParams::new(name.to_owned()).with_arguments(arguments.clone());
        params.meta = Some(meta);
        // A call that times out here is cancelled at the server.
        match timeout(self.timeout, session.service.call_tool_once(params)).await {
            Ok(answer) => {
                if answer
                    .as_ref()
                    .is_err_and(|error| !matches!(error, ServiceError::McpError(_)))
                {
                    self.forget(&session).await;
                }
                read(answer, self.config.max_result_bytes)
            }
            Err(_) => {
                self.forget(&session).await;
                Err(ToolsUnavailable::because("tool_timeout"))
            }
        }
    }

    /// The running session; starts one if needed.
    ///
    /// # Errors
    /// The session cannot be started, or its last start failed a moment ago.
    pub async fn session(&self) -> Result<Arc<Session>, ToolsUnavailable> {
        let mut state = self.state.lock().await;
        if let Some(session) = &state.session
            && !session.service.is_transport_closed()
        {
            return Ok(Arc::clone(session));
        }
        state.session = None;
        if let Some((at, why)) = &state.failed
            && at.elapsed() < REST
        {
            return Err(why.clone());
        }
        let begun = timeout(self.timeout, self.begin())
            .await
            .unwrap_or_else(|_| Err(ToolsUnavailable::because("tool_timeout")));
        match begun {
            Ok(session) => {
                let session = Arc::new(session);
                *state = State {
                    session: Some(Arc::clone(&session)),
                    failed: None,
                };
                Ok(session)
            }
            Err(why) => {
                tracing::warn!(
                    server = self.config.name,
                    reason = why.reason,
                    "a tool server could not be started"
                );
                state.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// Discards a session.
    async fn forget(&self, session: &Arc<Session>) {
        let mut state = self.state.lock().await;
        if state
            .session
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, session))
        {
            state.session = None;
        }
    }

    async fn begin(&self) -> Result<Session, ToolsUnavailable> {
        let us = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("touchstone", env!("CARGO_PKG_VERSION")),
        );
        let (service, process) = match &self.place {
            ServerEndpoint::Child(environment) => {
                let environment: Vec<(String, String)> = environment
                    .iter()
                    .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
                    .collect();
                let (process, stdout, stdin) = child::start(&self.config, &environment)
                    .map_err(|_| ToolsUnavailable::because("tool_not_started"))?;
                let transport =
                    AsyncRwTransport::new(stdout, stdin).with_max_line_length(LARGEST_MESSAGE);
                (us.serve(transport).await, Some(process))
            }
            ServerEndpoint::Remote { client, url, key } => {
                let client = client.lent(url).map_err(|cause| {
                    ToolsUnavailable::because(format!("tool_{}", cause.label()))
                })?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_concurrent_requests(self.config.max_concurrency)
                    .max_sse_event_size(LARGEST_MESSAGE);
                if let Some(key) = key {
                    config = config.auth_header(key.expose_secret());
                }
                let transport = StreamableHttpClientTransport::with_client(client, config);
                (us.serve(transport).await, None)
            }
        };
        let service = service.map_err(|error| not_begun(&error, process.is_some()))?;
        let tools = list(&service).await?;
        Ok(Session {
            service,
            tools,
            _process: process,
        })
    }
}

fn not_begun(error: &ClientInitializeError, child: bool) -> ToolsUnavailable {
    ToolsUnavailable::because(match error {
        // Whether the input or the output is closed first is random.
        ClientInitializeError::TransportError { .. } if child => "tool_closed",
        ClientInitializeError::JsonRpcError(_) => "tool_error",
        ClientInitializeError::ConnectionClosed(_) => "tool_closed",
        ClientInitializeError::TransportError { .. } => "tool_connect",
        _ => "tool_malformed",
    })
}

async fn list(service: &Service) -> Result<HashMap<String, Tool>, ToolsUnavailable> {
    let mut tools = HashMap::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = service
            .list_tools(Some(page))
            .await
            .map_err(|error| unavailable(&error))?;
        for tool in listed.tools.into_iter().take(MOST_TOOLS - tools.len()) {
            tools.insert(tool.name.to_string(), tool);
        }
        cursor = listed.next_cursor;
        if cursor.is_none() || tools.len() >= MOST_TOOLS {
            break;
        }
    }
    Ok(tools)
}
