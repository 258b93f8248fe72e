//! `touchstone rating enroll`: enroll an agent for ratings.

use axum::http::Method;
use clap::Args;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::cli::{API, agent, with_ok};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;
use touchstone_host::service::keys::LOCAL_TENANT;

const EXAMPLES: &str = "\
The first domain is the agent's primary domain. In a data folder, the first enrollment creates
the organization; on a host, the operator creates it.

Exit codes: 0 enrolled, 2 bad input, 3 could not complete.

Examples:
  touchstone rating enroll triage --domain customer_support \\
    --tool search --tool reply
  touchstone rating enroll triage --domains code,research --tools grep,edit
  touchstone rating enroll triage \\
    --openwop-agent vendor.acme.triage.default@1.1.0
  touchstone rating enroll desk --a2a https://desk.acme.example/a2a \\
    --credential desk
  touchstone rating enroll desk --openwop-host https://host.example \\
    --workflow desk
  touchstone rating enroll desk --command desk --update
  touchstone rating enroll triage --agent-version 1.1.0 --update
  touchstone --server https://host rating enroll triage --json";

/// Enroll an agent for ratings
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Name of the agent, unique in its organization
    #[arg(value_name = "NAME")]
    name: String,
    /// Installed OpenWOP agent to rate; its eval runs become evidence, and gates look up the rating
    /// of this agent
    #[arg(long, value_name = "AGENT[@VERSION]")]
    openwop_agent: Option<String>,
    /// URL of the A2A agent that stress tests call: the `url` of its card
    #[arg(long, value_name = "URL", conflicts_with_all = ["openwop_agent", "openwop_host", "command"])]
    a2a: Option<String>,
    /// OpenWOP host on which stress tests create runs, without `/v1`
    #[arg(long, value_name = "URL", requires = "workflow", conflicts_with_all = ["openwop_agent", "command"])]
    openwop_host: Option<String>,
    /// Workflow of --openwop-host that runs the agent
    #[arg(long, value_name = "WORKFLOW", requires = "openwop_host")]
    workflow: Option<String>,
    /// Name of the command in the host's configuration that stress tests run
    #[arg(long, value_name = "NAME", conflicts_with = "openwop_agent")]
    command: Option<String>,
    /// Name of the credential in the host's configuration for --a2a or --openwop-host
    #[arg(long, value_name = "NAME", conflicts_with_all = ["openwop_agent", "command"])]
    credential: Option<String>,
    /// Domain of the agent; repeat the option or separate several with commas, primary domain first
    #[arg(
        long = "domain",
        visible_alias = "domains",
        value_name = "DOMAIN",
        value_delimiter = ','
    )]
    domains: Vec<String>,
    /// Tool that the agent uses; repeat the option or separate several with commas
    #[arg(
        long = "tool",
        visible_alias = "tools",
        value_name = "TOOL",
        value_delimiter = ','
    )]
    tools: Vec<String>,
    /// Version of the agent
    #[arg(long, value_name = "VERSION")]
    agent_version: Option<String>,
    /// Id of an API key that the agent uses, so that evidence recorded with this key counts as the
    /// agent's own; repeat the option for several keys
    #[arg(long = "agent-key", value_name = "KEY_ID")]
    agent_keys: Vec<String>,
    /// Description of the agent
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Update the agent if it is already enrolled
    #[arg(long)]
    update: bool,
    /// Name of the data folder's organization, which signs badges [default: Local]
    #[arg(long, value_name = "NAME")]
    organization: Option<String>,
}

impl Arguments {
    /// The request's members; missing ones leave the agent unchanged.
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        let lists = [
            ("domains", &self.domains),
            ("tools", &self.tools),
            ("keys", &self.agent_keys),
        ];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            body.insert(name.to_owned(), json!(list));
        }
        let texts = [
            ("openwop_agent", &self.openwop_agent),
            ("version", &self.agent_version),
            ("description", &self.description),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                body.insert(name.to_owned(), json!(text));
            }
        }
        // An agent runs on this host or elsewhere: setting one clears the other.
        match self.reached_by() {
            Some(reached_by) => {
                body.insert("reached_by".to_owned(), reached_by);
                body.insert("openwop_agent".to_owned(), json!(""));
            }
            None if self.openwop_agent.is_some() => {
                body.insert("reached_by".to_owned(), Value::Null);
            }
            None => {}
        }
        body
    }

    /// How to reach an agent that runs elsewhere.
    fn reached_by(&self) -> Option<Value> {
        let mut reached_by = match (&self.a2a, &self.openwop_host, &self.command) {
            (Some(url), ..) => json!({"transport": "a2a", "url": url}),
            (_, Some(url), _) => {
                json!({"transport": "openwop", "url": url, "workflow": self.workflow})
            }
            (_, _, Some(command)) => json!({"transport": "command", "command": command}),
            _ => return None,
        };
        if let (Some(members), Some(credential)) = (reached_by.as_object_mut(), &self.credential) {
            members.insert("credential".to_owned(), json!(credential));
        }
        Some(reached_by)
    }
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.credential.is_some() && arguments.reached_by().is_none() {
        return Err(Failure::usage("--credential needs --a2a or --openwop-host")
            .or_try("add --a2a URL, or --openwop-host URL --workflow WORKFLOW"));
    }
    if arguments.organization.is_some() && !context.is_embedded() {
        return Err(Failure::usage(
            "--organization applies only to a data folder; on a host, the operator creates organizations",
        )
        .or_try("omit it"));
    }
    let session = context.write().await?;
    let enrolled = enroll(context, session.client(), arguments).await;
    let agent = enrolled?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&with_ok(agent, true));
        return Ok(Exit::Good);
    }
    let text = |name: &str| plain(agent.get(name).and_then(Value::as_str).unwrap_or("?"));
    terminal.print(&format!(
        "{} is enrolled as {}",
        terminal.colors().strong(&text("name")),
        text("id")
    ));
    terminal.note(&format!(
        "next: {} rating collect --source events.jsonl",
        context.program()
    ));
    Ok(Exit::Good)
}

async fn enroll(
    context: &Context<'_>,
    client: &Client,
    arguments: &Arguments,
) -> Result<Map<String, Value>, Failure> {
    let mut body = arguments.body();
    body.insert("name".to_owned(), json!(arguments.name));
    let body = Value::Object(body);
    let mut answer = add(client, &body).await;
    if matches!(&answer, Err(failure) if failure.code == "FORBIDDEN") && context.is_embedded() {
        let name = arguments.organization.as_deref().unwrap_or("Local");
        let organization = json!({"name": name, "tenant": LOCAL_TENANT});
        let path = format!("{API}/organizations");
        // The response contains the organization's key, which the data folder does not need.
        match client.post::<Value>(&path, &organization).await {
            Ok(_) => answer = add(client, &body).await,
            // The organization exists but does not allow this; the first error says why.
            Err(failure) if failure.code == "CONFLICT" => {}
            Err(failure) => return Err(failure),
        }
    }
    match answer {
        Err(failure) if failure.code == "CONFLICT" => change(client, arguments, failure).await,
        answer => answer,
    }
}

async fn add(client: &Client, body: &Value) -> Result<Map<String, Value>, Failure> {
    let call = Call::new(Method::POST, &format!("{API}/agents"));
    let call = call.header("idempotency-key", &Uuid::now_v7().to_string());
    client.call(call.json(body)).await
}

/// Updates an enrolled agent, if --update is given.
async fn change(
    client: &Client,
    arguments: &Arguments,
    refused: Failure,
) -> Result<Map<String, Value>, Failure> {
    if !arguments.update {
        return Err(refused.or_try("use another name, or --update to update the agent"));
    }
    let existing = agent(client, &arguments.name).await?;
    let call = Call::new(Method::PATCH, &format!("{API}/agents/{}", existing.id));
    client
        .call(call.json(&Value::Object(arguments.body())))
        .await
}
