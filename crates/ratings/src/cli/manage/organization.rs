//! `touchstone rating organization`: the organization that rates agents, and its badges.

use axum::http::Method;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::cli::active;
use crate::cli::manage::{get, policy, send, show};
use crate::rules::organization::Auditor;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::terminal::Terminal;

/// Create, show and update the organization that rates agents
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone rating organization show\n  touchstone rating organization change --name 'Acme'"
)]
pub enum Command {
    /// Create an organization; its first API key is shown once (scope organizations:write)
    #[command(
        after_help = "Exit codes: 0 created, 2 bad input or refused, 3 could not complete.\n\nExamples:\n  touchstone rating organization create Acme\n  touchstone rating organization create Acme --tenant acme --json"
    )]
    Create(Create),
    /// Show an organization
    #[command(
        after_help = "Examples:\n  touchstone rating organization show\n  touchstone rating organization show 0199c0de-0000-7000-8000-000000000003 \\\n    --json"
    )]
    Show(Which),
    /// Update the name, status, auditors or badge visibility
    #[command(after_help = CHANGE)]
    Change(Change),
    /// Show and set the review and reassessment policy
    #[command(after_help = policy::EXAMPLES)]
    Policy(policy::Policy),
}

const CHANGE: &str = "\
A third-party auditor is a principal of another tenant. With the scopes assessments:read and
assessments:review, its key can read and review the ratings of organizations that list it
(`touchstone rating review --organization ID`). The key gives no other access.

Exit codes: 0 changed, 2 bad input or refused, 3 could not complete.

Examples:
  touchstone rating organization change --name Acme
  touchstone rating organization change --badges private
  touchstone rating organization change --auditor auditors-ltd/kim
  touchstone rating organization change --no-auditors";

#[derive(Debug, Args)]
pub struct Create {
    /// Name of the organization, as shown on its badges
    #[arg(value_name = "NAME")]
    name: String,
    /// Tenant whose agents the organization rates [default: a new tenant]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
}

#[derive(Debug, Default, Args)]
pub struct Which {
    /// Organization id [default: the organization of the enrolled agents]
    #[arg(value_name = "ID")]
    id: Option<Uuid>,
}

#[derive(Debug, Args)]
#[group(skip)]
pub struct Change {
    #[command(flatten)]
    which: Which,
    /// New name
    #[arg(long, value_name = "NAME", required_unless_present_any = ["status", "badges", "auditors", "no_auditors"])]
    name: Option<String>,
    /// New status; host operator only
    #[arg(long, value_name = "STATUS")]
    status: Option<Status>,
    /// Visibility of badges
    #[arg(long, value_name = "VISIBILITY")]
    badges: Option<Visibility>,
    /// Third-party auditor, replacing the present ones; repeat the option for several, at most 20
    #[arg(long = "auditor", value_name = "TENANT/PRINCIPAL", value_parser = auditor)]
    auditors: Vec<Auditor>,
    /// Remove all auditors
    #[arg(long, conflicts_with = "auditors")]
    no_auditors: bool,
}

fn auditor(text: &str) -> Result<Auditor, String> {
    let named = text.split_once('/');
    let named = named.filter(|(tenant, principal)| !tenant.is_empty() && !principal.is_empty());
    let (tenant, principal) =
        named.ok_or_else(|| "must be TENANT/PRINCIPAL, such as auditors-ltd/kim".to_owned())?;
    Ok(Auditor {
        tenant: tenant.into(),
        principal: principal.to_owned(),
    })
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Active,
    Suspended,
    Archived,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Visibility {
    Public,
    Private,
}

pub async fn run(client: &Client, terminal: &Terminal, command: &Command) -> Result<(), Failure> {
    let shown: Value = match command {
        Command::Policy(arguments) => return policy::run(client, terminal, arguments).await,
        Command::Create(arguments) => {
            let mut body = Map::from_iter([("name".to_owned(), json!(arguments.name))]);
            if let Some(tenant) = &arguments.tenant {
                body.insert("tenant".to_owned(), json!(tenant));
            }
            let body = Value::Object(body);
            send(client, Method::POST, "organizations", &body).await?
        }
        Command::Show(which) => get(client, &path(client, which).await?).await?,
        Command::Change(arguments) => {
            let mut body = Map::new();
            let status = arguments.status.map(|it| match it {
                Status::Active => "active",
                Status::Suspended => "suspended",
                Status::Archived => "archived",
            });
            let badges = arguments.badges.map(|it| match it {
                Visibility::Public => "public",
                Visibility::Private => "private",
            });
            let texts = [
                ("name", arguments.name.as_deref()),
                ("status", status),
                ("badges", badges),
            ];
            for (name, text) in texts {
                if let Some(text) = text {
                    body.insert(name.to_owned(), json!(text));
                }
            }
            if arguments.no_auditors || !arguments.auditors.is_empty() {
                body.insert("auditors".to_owned(), json!(arguments.auditors));
            }
            let path = path(client, &arguments.which).await?;
            send(client, Method::PATCH, &path, &Value::Object(body)).await?
        }
    };
    show(terminal, shown);
    Ok(())
}

/// API path of the organization: by default that of the agents visible to the key.
pub(super) async fn path(client: &Client, which: &Which) -> Result<String, Failure> {
    if let Some(id) = which.id {
        return Ok(format!("organizations/{id}"));
    }
    let first = active(client).next::<Value>().await?.unwrap_or_default();
    let id = first
        .first()
        .and_then(|agent| agent.get("organization_id")?.as_str());
    match id {
        Some(id) => Ok(format!("organizations/{id}")),
        None => Err(
            Failure::usage("cannot determine the organization: no agents are enrolled")
                .or_try("give the organization's id, or `touchstone rating enroll NAME` first"),
        ),
    }
}
