//! Management commands of `touchstone rating`: progress, reviews, appeals, the organization, its
//! weights and taxonomy, webhooks.

pub mod appeal;
pub mod baselines;
pub mod dimensions;
pub mod organization;
pub mod policy;
pub mod progress;
pub mod review;
pub mod webhook;
pub mod weights;

use axum::http::Method;
use clap::Subcommand;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::{API, get, with_ok};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::retry::retry_until_answered;
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::render::words::plain;

// Part of `rating::Command`, whose help applies.
#[derive(Debug, Subcommand)]
pub enum Command {
    Progress(progress::Arguments),
    Dimensions(dimensions::Arguments),
    Baselines(baselines::Arguments),
    Review(review::Arguments),
    #[command(subcommand)]
    Appeal(appeal::Command),
    #[command(subcommand)]
    Organization(organization::Command),
    #[command(subcommand)]
    Weights(weights::Command),
    #[command(subcommand)]
    Taxonomy(weights::Taxonomy),
    #[command(subcommand)]
    Webhook(webhook::Command),
}

pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    let reads = matches!(
        command,
        Command::Review(_) | Command::Progress(_) | Command::Dimensions(_) | Command::Appeal(_)
    );
    let session = match reads {
        true => context.read().await?,
        false => context.write().await?,
    };
    let (client, terminal) = (session.client(), context.terminal());
    let done = match command {
        Command::Review(arguments) => review::run(context, client, &arguments).await,
        Command::Baselines(arguments) => baselines::run(client, terminal, &arguments).await,
        Command::Progress(arguments) => progress::run(client, terminal, &arguments).await,
        Command::Dimensions(arguments) => dimensions::run(client, terminal, &arguments).await,
        Command::Appeal(command) => appeal::run(client, terminal, &command).await,
        Command::Organization(command) => organization::run(client, terminal, &command).await,
        Command::Weights(command) => weights::run(client, terminal, &command).await,
        Command::Taxonomy(command) => weights::taxonomy(client, terminal, &command).await,
        Command::Webhook(command) => webhook::run(client, terminal, &command).await,
    };
    done.map(|()| Exit::Good)
}

/// Sends a document, once even if the answer is lost.
async fn send<T: DeserializeOwned>(
    client: &Client,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<T, Failure> {
    let key = Uuid::now_v7().to_string();
    let path = format!("{API}/{path}");
    retry_until_answered(|| {
        let call = Call::new(method.clone(), &path).header("idempotency-key", &key);
        client.call(call.json(body))
    })
    .await
}

async fn all(client: &Client, list: &str) -> Result<Vec<Value>, Failure> {
    let mut pages = crate::cli::Pages::new(client, list, &[]);
    let mut all = Vec::new();
    while let Some(mut page) = pages.next().await? {
        all.append(&mut page);
    }
    Ok(all)
}

/// Prints a document: with `ok` as JSON, or one line per member that has a value.
fn show(terminal: &Terminal, document: Value) {
    if terminal.json() {
        terminal.document(&with_ok(document, true));
        return;
    }
    let Value::Object(members) = &document else {
        return;
    };
    let width = members.keys().map(String::len).max().unwrap_or_default();
    for (name, value) in members {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => plain(text),
            other => plain(&other.to_string()),
        };
        terminal.print(&format!("{name:<width$}  {text}"));
    }
}

/// Prints a list: one line per record, with the given members.
fn list(terminal: &Terminal, records: &[Value], members: &[&str], none: &str) {
    if terminal.json() {
        terminal.document(&json!({"ok": true, "data": records}));
        return;
    }
    if records.is_empty() {
        terminal.note(none);
    }
    for record in records {
        let shown = members.iter().filter_map(|name| match record.get(*name)? {
            Value::Null => None,
            Value::String(text) => Some(plain(text)),
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                Some(plain(&items.join(" ")))
            }
            other => Some(plain(&other.to_string())),
        });
        terminal.print(&shown.collect::<Vec<String>>().join("  "));
    }
}
