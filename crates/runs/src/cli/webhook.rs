//! `touchstone webhook`: manage signed webhooks.

use std::io::Read as _;
use std::path::PathBuf;

use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::cli::output::print_result;
use crate::ports::webhooks::{DeadLetter, DeliveryRecord, DeliveryState};
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::options::address;
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::render::words::plain;
use touchstone_host::system::SystemIds;
use touchstone_kit::webhook::schedule::MAX_DEAD_LETTERS;
use touchstone_kit::webhook::{SCHEME_STANDARD, SCHEME_V1};

/// Default event types: the ends of runs.
const DEFAULT_EVENTS: [&str; 3] = ["run.completed", "run.failed", "run.cancelled"];
/// Maximum size of a secret's file in bytes.
const MAX_SECRET: u64 = 4096;

/// Manage signed webhooks
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone webhook add https://ci.example.com/hook\n  touchstone webhook list\n  touchstone webhook remove wh_0199c0de"
)]
pub enum Command {
    /// Subscribe an endpoint; only its secret goes to stdout, and it is never shown again
    #[command(
        after_help = "Exit codes: 0 subscribed, 2 the URL or the endpoint was refused, 3 no host.\n\nExamples:\n  touchstone webhook add https://ci.example.com/hook\n  touchstone webhook add https://ci.example.com/hook --event eval.completed \\\n    --tag nightly\n  touchstone webhook add https://ci.example.com/hook --standard"
    )]
    Add(Add),
    /// List subscriptions and their delivery failures
    #[command(
        after_help = "Examples:\n  touchstone webhook list\n  touchstone webhook list --json"
    )]
    List,
    /// List the last deliveries of a subscription, newest first
    #[command(
        after_help = "Exit codes: 0 listed, 2 no such subscription, 3 no host.\n\nExamples:\n  touchstone webhook deliveries wh_0199c0de\n  touchstone webhook deliveries wh_0199c0de --limit 200 --json"
    )]
    Deliveries(Deliveries),
    /// List the events that the host gave up to deliver to a subscription, newest first
    #[command(
        after_help = "Exit codes: 0 listed, 2 no such subscription, 3 no host.\n\nExamples:\n  touchstone webhook dead-letters wh_0199c0de\n  touchstone webhook dead-letters wh_0199c0de --limit 100 --json"
    )]
    DeadLetters(DeadLetters),
    /// Send the event of a delivery again, with the same message id
    #[command(
        after_help = "Exit codes: 0 delivered, 1 the endpoint did not accept it, 2 no such delivery or its\nrun was deleted, 3 no host.\n\nExamples:\n  touchstone webhook replay wh_0199c0de 41"
    )]
    Replay(Replay),
    /// Delete a subscription
    #[command(
        after_help = "Exit codes: 0 deleted, 2 no such subscription, 3 no host.\n\nExamples:\n  touchstone webhook remove wh_0199c0de"
    )]
    Remove(Remove),
    /// Replace the secret of a `--standard` subscription; the old one also signs for another day
    #[command(
        after_help = "Exit codes: 0 replaced, 2 no such subscription or one without --standard, 3 no host.\n\nExamples:\n  touchstone webhook rotate wh_0199c0de\n  touchstone webhook rotate wh_0199c0de --secret-file new.secret"
    )]
    Rotate(Rotate),
}

#[derive(Debug, Args)]
pub struct Add {
    /// Endpoint URL: https, at a public address
    #[arg(value_name = "URL", value_parser = address)]
    url: Url,
    /// Event type; repeat for several [default: run.completed, run.failed, run.cancelled]
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    /// Only runs with this tag; repeat to match any of several
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Also sign as specified by Standard Webhooks; the endpoint must answer a challenge first
    #[arg(long)]
    standard: bool,
    /// File with the secret, `-` for stdin [default: create one]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Remove {
    /// Subscription id, as shown by `webhook list`
    #[arg(value_name = "ID")]
    id: String,
}

#[derive(Debug, Args)]
pub struct Rotate {
    /// Subscription id, as shown by `webhook list`
    #[arg(value_name = "ID")]
    id: String,
    /// File with the new secret, `-` for stdin [default: create one]
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Deliveries {
    /// Subscription id, as shown by `webhook list`
    #[arg(value_name = "ID")]
    id: String,
    /// Maximum number of deliveries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=200))]
    limit: u64,
}

#[derive(Debug, Args)]
pub struct DeadLetters {
    /// Subscription id, as shown by `webhook list`
    #[arg(value_name = "ID")]
    id: String,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=MAX_DEAD_LETTERS))]
    limit: u64,
}

#[derive(Debug, Args)]
pub struct Replay {
    /// Subscription id, as shown by `webhook list`
    #[arg(value_name = "ID")]
    id: String,
    /// Number of the delivery, as shown by `webhook deliveries`
    #[arg(value_name = "NUMBER")]
    number: u64,
}

#[derive(Deserialize)]
struct Delivered {
    deliveries: Vec<DeliveryRecord>,
}

#[derive(Deserialize)]
struct GivenUp {
    deliveries: Vec<DeadLetter>,
}

#[derive(Deserialize)]
struct Listed {
    webhooks: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    webhook_id: String,
    url: String,
    events: Vec<String>,
    state: String,
    recent_failures: u64,
    secret_fingerprint: String,
}

pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(arguments) => add(context, arguments).await,
        Command::List => list(context).await,
        Command::Deliveries(arguments) => deliveries(context, &arguments).await,
        Command::DeadLetters(arguments) => dead_letters(context, &arguments).await,
        Command::Replay(arguments) => replay(context, &arguments).await,
        Command::Remove(arguments) => remove(context, &arguments.id).await,
        Command::Rotate(arguments) => rotate(context, arguments).await,
    }
}

async fn add(context: &Context<'_>, arguments: Add) -> Result<Exit, Failure> {
    let mut events = arguments.events;
    if events.is_empty() {
        events = DEFAULT_EVENTS.map(str::to_owned).to_vec();
    }
    let secret = match &arguments.secret_file {
        Some(file) => Some(read_secret(file)?),
        None => arguments.standard.then(standard_secret),
    };
    let mut body = json!({
        "url": arguments.url.as_str(),
        "events": events,
        "tags": arguments.tags,
        "secret": secret,
    });
    if let (true, Some(members)) = (arguments.standard, body.as_object_mut()) {
        members.insert(
            "signatureAlgorithms".to_owned(),
            json!([SCHEME_V1, SCHEME_STANDARD]),
        );
    }
    let session = context.write().await?;
    let created: Value = session.client().post("/v1/webhooks", &body).await?;
    let terminal = context.terminal();
    // The host does not return a secret that was created or read here.
    let secret = created
        .get("secret")
        .and_then(Value::as_str)
        .or(secret.as_deref());
    if terminal.json() {
        let mut shown = created.clone();
        if let (Some(members), Some(secret)) = (shown.as_object_mut(), secret) {
            members.insert("secret".to_owned(), json!(secret));
        }
        terminal.document(&json!({"ok": true, "webhook": shown}));
        return Ok(Exit::Good);
    }
    let id = created.get("webhookId").and_then(Value::as_str);
    terminal.note(&format!(
        "{} sends events to {}: {}; store its secret now, it is not shown again",
        id.unwrap_or_default(),
        arguments.url,
        events.join(", ")
    ));
    terminal.print(secret.unwrap_or_default());
    Ok(Exit::Good)
}

async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let listed: Listed = session.client().get("/v1/host/touchstone/webhooks").await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"webhooks": listed.webhooks}));
        return Ok(Exit::Good);
    }
    if listed.webhooks.is_empty() {
        terminal.note("no webhooks; create one with `touchstone webhook add URL`");
    }
    for webhook in listed.webhooks {
        let shown: Shown =
            serde_json::from_value(webhook).map_err(|cause| Failure::unexpected(&cause))?;
        let failures = match shown.recent_failures {
            0 => String::new(),
            1 => ", 1 failure in 7 days".to_owned(),
            several => format!(", {several} failures in 7 days"),
        };
        terminal.print(&format!(
            "{}  {}  {}{failures}  {}  secret {}",
            shown.webhook_id,
            shown.url,
            shown.state,
            shown.events.join(" "),
            shown.secret_fingerprint,
        ));
    }
    Ok(Exit::Good)
}

async fn deliveries(context: &Context<'_>, arguments: &Deliveries) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let (path, limit) = (deliveries_path(&arguments.id), arguments.limit);
    let listed: Delivered = session
        .client()
        .get(&format!("{path}?limit={limit}"))
        .await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"deliveries": listed.deliveries}));
        return Ok(Exit::Good);
    }
    if listed.deliveries.is_empty() {
        terminal.note("no deliveries yet");
    }
    for delivery in &listed.deliveries {
        terminal.print(&line(delivery));
    }
    Ok(Exit::Good)
}

async fn dead_letters(context: &Context<'_>, arguments: &DeadLetters) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!(
        "{}/dead-letters?limit={}",
        host_path(&arguments.id),
        arguments.limit
    );
    let listed: GivenUp = session.client().get(&path).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"deliveries": listed.deliveries}));
        return Ok(Exit::Good);
    }
    if listed.deliveries.is_empty() {
        terminal.note("no dead letters");
    }
    for letter in &listed.deliveries {
        terminal.print(&dead_line(letter));
    }
    Ok(Exit::Good)
}

fn dead_line(letter: &DeadLetter) -> String {
    let status = letter.last_status.map(|it| format!(" {it}"));
    format!(
        "{}  {}{}  attempts {}  {} {} {}",
        letter.dead_lettered_at,
        letter.reason.as_str(),
        status.unwrap_or_default(),
        letter.attempts,
        letter.run_id,
        letter.event_id,
        plain(&letter.event_type),
    )
}

async fn replay(context: &Context<'_>, arguments: &Replay) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = deliveries_path(&arguments.id);
    let path = format!("{path}/{}/replay", arguments.number);
    let made: DeliveryRecord = session.client().post(&path, &json!({})).await?;
    print_result(context.terminal(), &json!(made), || line(&made));
    Ok(match made.state {
        DeliveryState::Delivered => Exit::Good,
        DeliveryState::Failed | DeliveryState::Refused => Exit::Negative,
    })
}

fn line(delivery: &DeliveryRecord) -> String {
    let status = delivery.status.map(|status| status.to_string());
    let outcome = status.as_ref().or(delivery.error.as_ref());
    let attempts = match delivery.attempts {
        1 => String::new(),
        several => format!("  attempt {several}"),
    };
    format!(
        "{}  {}  {} {}  {} ms  {} #{} {}{attempts}",
        delivery.number,
        delivery.at,
        delivery.state.as_str(),
        outcome.map_or("", String::as_str),
        delivery.took_ms,
        delivery.run_id,
        delivery.sequence,
        plain(&delivery.event_type),
    )
}

async fn remove(context: &Context<'_>, id: &str) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let call = Call::new(Method::DELETE, &path(id));
    let _: Value = session.client().call(call).await?;
    let terminal = context.terminal();
    let removed = json!({"webhookId": id, "removed": true});
    print_result(terminal, &removed, || format!("{id} removed"));
    Ok(Exit::Good)
}

async fn rotate(context: &Context<'_>, arguments: Rotate) -> Result<Exit, Failure> {
    let secret = match &arguments.secret_file {
        Some(file) => read_secret(file)?,
        None => standard_secret(),
    };
    let session = context.read().await?;
    let rotated: Value = session
        .client()
        .post(
            &format!("{}/rotate-secret", path(&arguments.id)),
            &json!({"secret": secret}),
        )
        .await?;
    let terminal = context.terminal();
    let until = rotated.get("previousSecretExpiresAt");
    if terminal.json() {
        terminal.document(&json!({
            "webhookId": arguments.id,
            "secret": secret,
            "rotatedAt": rotated.get("rotatedAt"),
            "previousSecretExpiresAt": until,
        }));
        return Ok(Exit::Good);
    }
    terminal.note(&format!(
        "{} has a new secret; the previous one also signs until {}",
        arguments.id,
        until.and_then(Value::as_str).unwrap_or_default()
    ));
    terminal.print(&secret);
    Ok(Exit::Good)
}

/// The path of a subscription. The id is encoded, so that it stays one path segment.
fn path(id: &str) -> String {
    let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("/v1/webhooks/{}", id.replace('+', "%20"))
}

/// The path of what only this host says about a subscription.
fn host_path(id: &str) -> String {
    path(id).replacen("/v1/", "/v1/host/touchstone/", 1)
}

/// The path of a subscription's deliveries.
fn deliveries_path(id: &str) -> String {
    format!("{}/deliveries", host_path(id))
}

/// Creates a secret in the form of Standard Webhooks.
fn standard_secret() -> String {
    format!("whsec_{}", STANDARD.encode(SystemIds.secret()))
}

fn read_secret(file: &std::path::Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().take(MAX_SECRET).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX_SECRET).read_to_string(&mut text))
    };
    read.map_err(|cause| {
        Failure::bad_input(
            "unreadable",
            format!("could not read {}: {cause}", file.display()),
        )
        .or_try("name a file that exists and that this user can read")
    })?;
    Ok(text.trim().to_owned())
}
