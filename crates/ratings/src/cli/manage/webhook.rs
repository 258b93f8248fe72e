//! `touchstone rating webhook`: webhooks for events of ratings and badges.

use axum::http::Method;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use crate::cli::manage::{all, list, send, show};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::options::address;
use touchstone_host::cli::terminal::Terminal;

/// Manage webhooks for events of ratings and badges
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone rating webhook add https://ci.example.com/hook\n  touchstone rating webhook list"
)]
pub enum Command {
    /// Subscribe an endpoint; its secret is shown once
    #[command(
        after_help = "Exit codes: 0 subscribed, 2 bad input or refused, 3 could not complete.\n\nExamples:\n  touchstone rating webhook add https://ci.example.com/hook\n  touchstone rating webhook add https://ci.example.com/hook \\\n    --event assessment.completed --event badge.expiring"
    )]
    Add(Add),
    /// List subscriptions
    #[command(after_help = "Examples:\n  touchstone rating webhook list --json")]
    List,
    /// Delete a subscription
    #[command(
        after_help = "Examples:\n  touchstone rating webhook remove 0199c0de-0000-7000-8000-000000000004"
    )]
    Remove(Which),
    /// Replace the secret of a subscription; the old one stays valid for another day
    #[command(
        after_help = "Examples:\n  touchstone rating webhook rotate 0199c0de-0000-7000-8000-000000000004"
    )]
    Rotate(Which),
    /// Enable a subscription that was disabled after failed deliveries
    #[command(
        after_help = "Examples:\n  touchstone rating webhook enable 0199c0de-0000-7000-8000-000000000004"
    )]
    Enable(Which),
}

#[derive(Debug, Args)]
pub struct Add {
    /// HTTPS URL of the endpoint, at a public address
    #[arg(value_name = "URL", value_parser = address)]
    url: Url,
    /// Event type; repeat the option for several [default: all]
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Which {
    /// Subscription id, as shown by `rating webhook list`
    #[arg(value_name = "ID")]
    id: Uuid,
}

pub async fn run(client: &Client, terminal: &Terminal, command: &Command) -> Result<(), Failure> {
    let nothing = json!({});
    let shown: Value = match command {
        Command::Add(Add { url, events }) => {
            let mut body = json!({"url": url.as_str()});
            if let (false, Some(members)) = (events.is_empty(), body.as_object_mut()) {
                members.insert("events".to_owned(), json!(events));
            }
            send(client, Method::POST, "webhooks", &body).await?
        }
        Command::List => {
            let found = all(client, "webhooks").await?;
            let members = ["id", "url", "status", "events"];
            list(terminal, &found, &members, "no rating webhooks");
            return Ok(());
        }
        Command::Remove(Which { id }) => {
            let path = format!("webhooks/{id}");
            let _: Value = send(client, Method::DELETE, &path, &nothing).await?;
            json!({"id": id, "removed": true})
        }
        Command::Rotate(Which { id }) => {
            let path = format!("webhooks/{id}/rotate-secret");
            send(client, Method::POST, &path, &nothing).await?
        }
        Command::Enable(Which { id }) => {
            let path = format!("webhooks/{id}/enable");
            send(client, Method::POST, &path, &nothing).await?
        }
    };
    show(terminal, shown);
    Ok(())
}
