//! `touchstone key`: API keys of a host, made where its store is, whether it runs or not.

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::context::Context;
use super::exit::{Exit, Failure};
use crate::domain::ids::{KeyId, TenantId};
use crate::ports::{KeyRecord, StoreError};
use crate::service::access::Scope;

/// What a key may do when nothing is said: evaluate agents.
const USUAL_SCOPES: &[Scope] = &[
    Scope::ManifestRead,
    Scope::RunsCreate,
    Scope::RunsRead,
    Scope::RunsCancel,
    Scope::PacksInstall,
    Scope::SuitesWrite,
];

/// Make, list and revoke API keys
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone key create --tenant acme\n  touchstone key list\n  touchstone key revoke 3f9c2ab81d4e5f60a7b8"
)]
pub enum Command {
    /// Make a key; it alone goes to stdout, and is never shown again
    #[command(
        after_help = "Examples:\n  export TOUCHSTONE_KEY=$(touchstone key create --tenant acme)\n  touchstone key create --tenant acme --scope runs:read --scope manifest:read\n  touchstone key create --tenant acme --scope all --expires-in-days 90"
    )]
    Create(Create),
    /// List keys, without their secrets
    #[command(after_help = "Examples:\n  touchstone key list\n  touchstone key list --tenant acme")]
    List(List),
    /// Revoke a key, at once
    #[command(after_help = "Examples:\n  touchstone key revoke 3f9c2ab81d4e5f60a7b8")]
    Revoke(Revoke),
}

/// Whose key, and what it may do.
#[derive(Debug, Args)]
pub struct Create {
    /// Whose key it is; tenants never see each other
    #[arg(long, value_name = "T", value_parser = tenant)]
    tenant: String,
    /// What it may do; repeat for several, `all` for everything [default: what evaluating agents needs]
    #[arg(long = "scope", value_name = "S", value_parser = scopes)]
    scopes: Vec<Vec<Scope>>,
    /// When it ends by itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=36_500))]
    expires_in_days: Option<i64>,
}

/// Whose keys.
#[derive(Debug, Args)]
pub struct List {
    /// Only this tenant's
    #[arg(long, value_name = "T", value_parser = tenant)]
    tenant: Option<String>,
}

/// Which key.
#[derive(Debug, Args)]
pub struct Revoke {
    /// The key's id, as `key list` shows it
    #[arg(value_name = "ID")]
    id: String,
}

fn tenant(text: &str) -> Result<String, String> {
    let sound = (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|octet| octet.is_ascii_alphanumeric() || b"._-".contains(&octet));
    if sound {
        Ok(text.to_owned())
    } else {
        Err("a tenant is named by 1 to 128 letters, digits, `.`, `_` and `-`".to_owned())
    }
}

fn scopes(text: &str) -> Result<Vec<Scope>, String> {
    if text == "all" {
        return Ok(Scope::ALL.to_vec());
    }
    Scope::parse(text).map(|scope| vec![scope]).ok_or_else(|| {
        let known: Vec<&str> = Scope::ALL.iter().map(|scope| scope.as_str()).collect();
        format!("known are all, {}", known.join(", "))
    })
}

/// Runs the command.
pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    if context.server().is_some() {
        return Err(Failure::usage(
            "keys are made where the host's store is, not over the network",
        )
        .or_try("run this on the host with its --data or --database-url, without --server"));
    }
    match command {
        Command::Create(arguments) => create(context, arguments).await,
        Command::List(arguments) => list(context, arguments).await,
        Command::Revoke(arguments) => revoke(context, arguments).await,
    }
}

async fn create(context: &Context<'_>, arguments: Create) -> Result<Exit, Failure> {
    let app = context.app(None).await?;
    let mut scopes: Vec<Scope> = arguments.scopes.concat();
    if scopes.is_empty() {
        scopes = USUAL_SCOPES.to_vec();
    }
    scopes.sort_unstable();
    scopes.dedup();
    let expires_at = arguments
        .expires_in_days
        .map(|days| Timestamp::now().saturating_add(SignedDuration::from_hours(24 * days)))
        .transpose()
        .map_err(|cause| Failure::usage(format!("--expires-in-days: {cause}")))?;
    let tenant = TenantId::from(arguments.tenant.as_str());
    let key = app
        .keys()
        .create(&tenant, &scopes, expires_at)
        .await
        .map_err(failed)?;
    let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "id": key.id,
            "key": key.text.expose_secret(),
            "tenant": arguments.tenant,
            "scopes": names,
            "expiresAt": expires_at,
        }));
    } else {
        terminal.note(&format!(
            "key {} of tenant {}, may {}; keep it, it is not shown again",
            key.id,
            arguments.tenant,
            names.join(" ")
        ));
        terminal.print(key.text.expose_secret());
    }
    Ok(Exit::Good)
}

async fn list(context: &Context<'_>, arguments: List) -> Result<Exit, Failure> {
    let app = context.app(None).await?;
    let tenant = arguments.tenant.as_deref().map(TenantId::from);
    let keys = app.keys().list(tenant.as_ref()).await.map_err(failed)?;
    let terminal = context.terminal();
    if terminal.json() {
        let keys: Vec<Value> = keys.iter().map(document).collect();
        terminal.document(&json!({"keys": keys}));
        return Ok(Exit::Good);
    }
    if keys.is_empty() {
        terminal.note("no keys; `touchstone key create --tenant T` makes one");
    }
    for key in &keys {
        terminal.print(&format!(
            "{}  {:<16}  {:<8}  {}",
            key.id,
            key.tenant,
            state(key),
            key.scopes.join(" ")
        ));
    }
    Ok(Exit::Good)
}

async fn revoke(context: &Context<'_>, arguments: Revoke) -> Result<Exit, Failure> {
    let app = context.app(None).await?;
    let id = KeyId::from(arguments.id.as_str());
    if !app.keys().revoke(&id).await.map_err(failed)? {
        return Err(
            Failure::bad_input("not_found", format!("there is no key {}", arguments.id))
                .or_try(format!("{} key list", context.program())),
        );
    }
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"id": id, "revoked": true}));
    } else {
        terminal.print(&format!("{id} revoked"));
    }
    Ok(Exit::Good)
}

fn state(key: &KeyRecord) -> &'static str {
    match key {
        key if key.revoked_at.is_some() => "revoked",
        key if key.expires_at.is_some_and(|end| end <= Timestamp::now()) => "expired",
        _ => "active",
    }
}

fn document(key: &KeyRecord) -> Value {
    json!({
        "id": key.id,
        "tenant": key.tenant,
        "state": state(key),
        "scopes": key.scopes,
        "createdAt": key.created_at,
        "expiresAt": key.expires_at,
        "revokedAt": key.revoked_at,
    })
}

fn failed(cause: StoreError) -> Failure {
    Failure::not_done("store_failed", format!("{:#}", anyhow::Error::new(cause)))
}
