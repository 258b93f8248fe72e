//! `touchstone enroll`: have an agent rated from now on.

use axum::http::Method;
use clap::Args;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{API, agent, told};
use crate::app::LOCAL_TENANT;
use crate::cli::client::{Call, Client};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::render::plain;

const EXAMPLES: &str = "\
The first domain is the agent's primary one. The data folder gets its organization with the first agent; on a host its
operator has made one.

Exit codes: 0 enrolled, 1 not, 2 bad usage.

Examples:
  touchstone enroll triage --domain customer_support --tool search --tool reply
  touchstone enroll triage --domains code,research --tools grep,edit
  touchstone enroll triage --openwop-agent vendor.acme.triage.default@1.1.0
  touchstone enroll desk --a2a https://desk.acme.example/a2a --credential desk
  touchstone enroll desk --openwop-host https://host.example --workflow desk
  touchstone enroll desk --command desk --update
  touchstone enroll triage --agent-version 1.1.0 --update
  touchstone --server https://host enroll triage --json";

/// Have an agent rated from now on
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What it is called; an organization has one agent of a name
    #[arg(value_name = "NAME")]
    name: String,
    /// The installed agent it stands for: eval runs of it are evidence, and gates find its rating
    #[arg(long, value_name = "AGENT[@VERSION]")]
    openwop_agent: Option<String>,
    /// Address of the A2A agent that stress tests call: the `url` of its card
    #[arg(long, value_name = "URL", conflicts_with_all = ["openwop_agent", "openwop_host", "command"])]
    a2a: Option<String>,
    /// OpenWOP host that stress tests create runs on, without `/v1`
    #[arg(long, value_name = "URL", requires = "workflow", conflicts_with_all = ["openwop_agent", "command"])]
    openwop_host: Option<String>,
    /// Workflow of --openwop-host that answers
    #[arg(long, value_name = "WORKFLOW", requires = "openwop_host")]
    workflow: Option<String>,
    /// Command that stress tests run: the name of a command in the host's configuration
    #[arg(long, value_name = "NAME", conflicts_with = "openwop_agent")]
    command: Option<String>,
    /// Credential for --a2a or --openwop-host: the name of a credential in the host's configuration
    #[arg(long, value_name = "NAME", conflicts_with_all = ["openwop_agent", "command"])]
    credential: Option<String>,
    /// A domain it claims, the primary one first; repeat for several, or separate them with commas
    #[arg(
        long = "domain",
        visible_alias = "domains",
        value_name = "DOMAIN",
        value_delimiter = ','
    )]
    domains: Vec<String>,
    /// A tool it works with; repeat for several, or separate them with commas
    #[arg(
        long = "tool",
        visible_alias = "tools",
        value_name = "TOOL",
        value_delimiter = ','
    )]
    tools: Vec<String>,
    /// Which version of it is rated
    #[arg(long, value_name = "VERSION")]
    agent_version: Option<String>,
    /// Id of an API key that the agent holds, so that what it records is known to be its own; repeat for several
    #[arg(long = "agent-key", value_name = "KEY_ID")]
    agent_keys: Vec<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Change what it says of itself if it is enrolled already
    #[arg(long)]
    update: bool,
    /// What the data folder's organization is called; it signs badges [default: Local]
    #[arg(long, value_name = "NAME")]
    organization: Option<String>,
}

impl Arguments {
    /// What the agent says of itself; what is not said stays as it is.
    fn said(&self) -> Map<String, Value> {
        let mut said = Map::new();
        let lists = [
            ("domains", &self.domains),
            ("tools", &self.tools),
            ("keys", &self.agent_keys),
        ];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            said.insert(name.to_owned(), json!(list));
        }
        let texts = [
            ("openwop_agent", &self.openwop_agent),
            ("version", &self.agent_version),
            ("description", &self.description),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                said.insert(name.to_owned(), json!(text));
            }
        }
        // An agent runs on the host or elsewhere: naming one takes the other away.
        match self.reached_by() {
            Some(way) => {
                said.insert("reached_by".to_owned(), way);
                said.insert("openwop_agent".to_owned(), json!(""));
            }
            None if self.openwop_agent.is_some() => {
                said.insert("reached_by".to_owned(), Value::Null);
            }
            None => {}
        }
        said
    }

    /// How the agent is reached, if it runs elsewhere.
    fn reached_by(&self) -> Option<Value> {
        let mut way = match (&self.a2a, &self.openwop_host, &self.command) {
            (Some(url), ..) => json!({"transport": "a2a", "url": url}),
            (_, Some(url), _) => {
                json!({"transport": "openwop", "url": url, "workflow": self.workflow})
            }
            (_, _, Some(command)) => json!({"transport": "command", "command": command}),
            _ => return None,
        };
        if let (Some(members), Some(credential)) = (way.as_object_mut(), &self.credential) {
            members.insert("credential".to_owned(), json!(credential));
        }
        Some(way)
    }
}

/// Runs the command.
pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.credential.is_some() && arguments.reached_by().is_none() {
        return Err(Failure::usage("--credential needs an address")
            .or_try("--a2a URL, or --openwop-host URL --workflow WORKFLOW"));
    }
    if arguments.organization.is_some() && !context.is_embedded() {
        return Err(Failure::usage(
            "--organization names that of a data folder; a host's operator makes those of a host",
        )
        .or_try("leave it out"));
    }
    let session = context.look().await?;
    let enrolled = enroll(context, session.client(), arguments).await;
    let mut agent = enrolled.map_err(|failure| told(context, failure))?;
    let terminal = context.terminal();
    if terminal.json() {
        agent.insert("ok".to_owned(), json!(true));
        terminal.document(&agent);
        return Ok(Exit::Good);
    }
    let text = |name: &str| plain(agent.get(name).and_then(Value::as_str).unwrap_or("?"));
    terminal.print(&format!(
        "{} is enrolled as {}",
        terminal.ink().strong(&text("name")),
        text("id")
    ));
    terminal.note(&format!(
        "next: {} collect --source events.jsonl",
        context.program()
    ));
    Ok(Exit::Good)
}

async fn enroll(
    context: &Context<'_>,
    client: &Client,
    arguments: &Arguments,
) -> Result<Map<String, Value>, Failure> {
    let mut body = arguments.said();
    body.insert("name".to_owned(), json!(arguments.name));
    let body = Value::Object(body);
    let mut answer = add(client, &body).await;
    if matches!(&answer, Err(failure) if failure.code == "FORBIDDEN") && context.is_embedded() {
        let name = arguments.organization.as_deref().unwrap_or("Local");
        let organization = json!({"name": name, "tenant": LOCAL_TENANT});
        let path = format!("{API}/organizations");
        // Its key goes with the answer: in this folder nobody needs one.
        match client.post::<Value>(&path, &organization).await {
            Ok(_) => answer = add(client, &body).await,
            // There is one, which may not do this now: the first answer says why.
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

/// Changes the one that is there, if that is wanted.
async fn change(
    client: &Client,
    arguments: &Arguments,
    refused: Failure,
) -> Result<Map<String, Value>, Failure> {
    if !arguments.update {
        return Err(refused.or_try("another name, or --update to change what it says of itself"));
    }
    let there = agent(client, &arguments.name).await?;
    let call = Call::new(Method::PATCH, &format!("{API}/agents/{}", there.id));
    client
        .call(call.json(&Value::Object(arguments.said())))
        .await
}
