//! `touchstone key`: API keys of a host, made where its store is, whether it runs or not.

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::context::{Context, Endpoints, started};
use super::exit::{Exit, Failure, with_causes};
use crate::app;
use crate::domain::access::{Roles, is_role_name};
use crate::domain::ids::{KeyId, TenantId};
use crate::ports::{KeyRecord, StoreError};
use crate::service::access::Scope;
use crate::service::keys::{Issue, KeyState, RotateError};

/// What a key may do when nothing is said: evaluate agents.
const USUAL_SCOPES: &[Scope] = &[
    Scope::ManifestRead,
    Scope::RunsCreate,
    Scope::RunsRead,
    Scope::RunsCancel,
    Scope::PacksInstall,
    Scope::SuitesWrite,
];

const CREATE_EXAMPLES: &str = "\
Examples:
  export TOUCHSTONE_KEY=$(touchstone key create --tenant acme)
  touchstone key create --tenant acme --scope runs:read --scope manifest:read
  touchstone key create --tenant acme --scope all --expires-in 90d
  touchstone key create --tenant acme --role release-manager --principal dana
  touchstone key create --tenant ops --scope organizations:write --scope metrics:read
  touchstone key create --tenant ci --scope all --test";

/// The scopes there are, and examples.
fn create_help() -> String {
    let scopes: Vec<&str> = Scope::within_tenant().map(Scope::as_str).collect();
    let operator: Vec<&str> = Scope::OPERATOR.iter().map(|scope| scope.as_str()).collect();
    let usual: Vec<&str> = USUAL_SCOPES.iter().map(|scope| scope.as_str()).collect();
    format!(
        "Scopes:  {}\nOperator scopes, which reach beyond the tenant and are not part of `all`: {}\nDefault: {}\n\n{CREATE_EXAMPLES}",
        scopes.join(" "),
        operator.join(" "),
        usual.join(" ")
    )
}

/// Make, list, rotate and revoke API keys
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone key create --tenant acme\n  touchstone key list\n  touchstone key rotate 3f9c2ab81d4e5f60a7b8 --overlap 24h\n  touchstone key revoke 3f9c2ab81d4e5f60a7b8\n  touchstone key rotate-host"
)]
pub enum Command {
    /// Make a key; it alone goes to stdout, and is never shown again
    #[command(after_help = create_help())]
    Create(Create),
    /// List keys, without their secrets
    #[command(after_help = "Examples:\n  touchstone key list\n  touchstone key list --tenant acme")]
    List(List),
    /// Give a key a new secret, which alone goes to stdout; the old one stays good for a while
    #[command(
        after_help = "A secret that an earlier rotation replaced ends at once. Scopes, roles and id stay.\n\nExamples:\n  touchstone key rotate 3f9c2ab81d4e5f60a7b8\n  touchstone key rotate 3f9c2ab81d4e5f60a7b8 --overlap 1h --expires-in 90d\n  touchstone key rotate 3f9c2ab81d4e5f60a7b8 --overlap 0s"
    )]
    Rotate(Rotate),
    /// Replace the host key, which secrets at rest are encrypted with
    #[command(
        name = "rotate-host",
        after_help = "Creates a key, encrypts every stored secret with it, and removes the old key from secrets.key_file (default: secrets.pem in the data folder). Until then both keys are usable: run the command again if it was interrupted. Hosts on other machines have copies of the file: stop them first, copy the new file, start them.\n\nExamples:\n  touchstone key rotate-host\n  touchstone key rotate-host --data /var/lib/touchstone"
    )]
    RotateHost,
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
    /// Scope of the key; repeat for several, `all` for every scope within the tenant [default: what evaluating agents needs]
    #[arg(long = "scope", value_name = "S", value_parser = scopes)]
    scopes: Vec<Vec<Scope>>,
    /// A role it holds, as `[[roles]]` of the configuration defines it; repeat for several
    #[arg(long = "role", value_name = "R", value_parser = role)]
    roles: Vec<String>,
    /// Who acts by it: a person's name, the id of an enrolled agent, or the identity of a model grader [default: the key's id]
    #[arg(long, value_name = "P", value_parser = principal)]
    principal: Option<String>,
    /// For tests only: begins with hk_test_, may use mock providers
    #[arg(long)]
    test: bool,
    /// When it ends by itself, such as 90d or 12h
    #[arg(long, value_name = "TIME", value_parser = span)]
    expires_in: Option<SignedDuration>,
}

/// Which key, and how.
#[derive(Debug, Args)]
pub struct Rotate {
    /// The key's id, as `key list` shows it
    #[arg(value_name = "ID")]
    id: String,
    /// How long the old secret stays good
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span_or_none)]
    overlap: SignedDuration,
    /// When the key ends by itself from now on [default: as before]
    #[arg(long, value_name = "TIME", value_parser = span)]
    expires_in: Option<SignedDuration>,
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
        Err("use 1 to 128 letters, digits, `.`, `_` and `-`".to_owned())
    }
}

fn principal(text: &str) -> Result<String, String> {
    // The identity of a grader has a digest in it.
    let is_grader = text.strip_prefix("sha256-").is_some_and(|digest| {
        (1..=64).contains(&digest.len())
            && digest
                .bytes()
                .all(|octet| octet.is_ascii_alphanumeric() || b"+/=".contains(&octet))
    });
    if is_grader {
        return Ok(text.to_owned());
    }
    tenant(text)
}

fn role(text: &str) -> Result<String, String> {
    if is_role_name(text) {
        Ok(text.to_owned())
    } else {
        Err("a role is named by 1 to 64 of a-z, 0-9, `.`, `_` and `-`".to_owned())
    }
}

/// A time such as `90d`, `12h` or `1h 30m`, of at most a hundred years.
fn span_or_none(text: &str) -> Result<SignedDuration, String> {
    let most = SignedDuration::from_hours(24 * 36_500);
    text.parse::<Span>()
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .ok()
        .filter(|span| !span.is_negative() && *span <= most)
        .ok_or_else(|| "give a time such as 90d, 12h or 30m".to_owned())
}

fn span(text: &str) -> Result<SignedDuration, String> {
    span_or_none(text).and_then(|span| {
        if span.is_zero() {
            Err("it would be over at once".to_owned())
        } else {
            Ok(span)
        }
    })
}

fn from_now(span: SignedDuration) -> Result<Timestamp, Failure> {
    // As precise as it is kept.
    Timestamp::now()
        .checked_add(span)
        .and_then(|end| Timestamp::from_microsecond(end.as_microsecond()))
        .map_err(|cause| Failure::usage(cause.to_string()))
}

fn scopes(text: &str) -> Result<Vec<Scope>, String> {
    if text == "all" {
        return Ok(Scope::within_tenant().collect());
    }
    let named = Scope::named(text);
    if named.is_empty() {
        let scopes = Scope::ALL.iter().map(|scope| scope.as_str());
        let known: Vec<&str> = scopes.chain(Scope::wildcards()).collect();
        return Err(format!("known are all, {}", known.join(", ")));
    }
    Ok(named)
}

/// Runs the command.
pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Create(arguments) => create(context, arguments).await,
        Command::List(arguments) => list(context, arguments).await,
        Command::Rotate(arguments) => rotate(context, arguments).await,
        Command::RotateHost => rotate_host(context).await,
        Command::Revoke(arguments) => revoke(context, arguments).await,
    }
}

async fn create(context: &Context<'_>, arguments: Create) -> Result<Exit, Failure> {
    let app = context.app(Endpoints::default()).await?;
    let mut scopes: Vec<Scope> = arguments.scopes.concat();
    if scopes.is_empty() && arguments.roles.is_empty() {
        scopes = USUAL_SCOPES.to_vec();
    }
    scopes.sort_unstable();
    scopes.dedup();
    refuse_unknown(app.keys().roles(), &arguments.roles)?;
    let expires_at = arguments.expires_in.map(from_now).transpose()?;
    let key = app
        .keys()
        .issue(Issue {
            tenant: TenantId::from(arguments.tenant.as_str()),
            scopes: scopes.clone(),
            roles: arguments.roles.clone(),
            principal: arguments.principal.clone(),
            test: arguments.test,
            expires_at,
        })
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
            "roles": arguments.roles,
            "principal": arguments.principal,
            "test": arguments.test,
            "expiresAt": expires_at,
        }));
    } else {
        let mut may = names.join(" ");
        for role in &arguments.roles {
            may = format!("{may} role:{role}");
        }
        terminal.note(&format!(
            "{}key {} of tenant {}, may {}; keep it, it is not shown again",
            if arguments.test { "test " } else { "" },
            key.id,
            arguments.tenant,
            may.trim_start()
        ));
        terminal.print(key.text.expose_secret());
    }
    Ok(Exit::Good)
}

/// A role nobody has defined would grant nothing, which is hardly meant.
fn refuse_unknown(known: &Roles, roles: &[String]) -> Result<(), Failure> {
    let Some(unknown) = roles.iter().find(|role| !known.knows(role)) else {
        return Ok(());
    };
    Err(
        Failure::bad_input("unknown_role", format!("there is no role `{unknown}` here"))
            .or_try("define it as [[roles]] in the configuration"),
    )
}

async fn rotate(context: &Context<'_>, arguments: Rotate) -> Result<Exit, Failure> {
    let app = context.app(Endpoints::default()).await?;
    let id = KeyId::from(arguments.id.as_str());
    let previous_until = from_now(arguments.overlap)?;
    let expires_at = arguments.expires_in.map(from_now).transpose()?;
    let rotated = app.keys().rotate(&id, previous_until, expires_at).await;
    let key = rotated.map_err(|cause| match cause {
        RotateError::NoSuchKey => Failure::bad_input("not_found", format!("{id}: {cause}"))
            .or_try(format!("{} key list", context.program())),
        RotateError::Expired => Failure::bad_input("key_expired", format!("{id}: {cause}"))
            .or_try("give it one by --expires-in, such as --expires-in 90d"),
        RotateError::Store(cause) => failed(cause),
    })?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "id": key.id,
            "key": key.text.expose_secret(),
            "previousUntil": previous_until,
            "expiresAt": expires_at,
        }));
    } else {
        terminal.note(&format!(
            "key {id} has a new secret; the old one is good until {previous_until}"
        ));
        terminal.print(key.text.expose_secret());
    }
    Ok(Exit::Good)
}

async fn rotate_host(context: &Context<'_>) -> Result<Exit, Failure> {
    let rotated = started(app::rotate_host_key(&context.config()?).await)?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "keyId": rotated.key_id,
            "keyFile": rotated.file,
            "reencrypted": rotated.reencrypted,
        }));
    } else {
        terminal.print(&format!(
            "{} rows encrypted with key {} in {}",
            rotated.reencrypted,
            rotated.key_id,
            rotated.file.display()
        ));
    }
    Ok(Exit::Good)
}

async fn list(context: &Context<'_>, arguments: List) -> Result<Exit, Failure> {
    let app = context.app(Endpoints::default()).await?;
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
        let roles: String = key.roles.iter().map(|r| format!(" role:{r}")).collect();
        terminal.print(&format!(
            "{}  {:<16}  {:<8}  {:<4}  {}",
            key.id,
            key.tenant,
            state(key),
            if key.test { "test" } else { "live" },
            format!("{}{roles}", key.scopes.join(" ")).trim_start()
        ));
    }
    Ok(Exit::Good)
}

async fn revoke(context: &Context<'_>, arguments: Revoke) -> Result<Exit, Failure> {
    let app = context.app(Endpoints::default()).await?;
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
    KeyState::of(key, Timestamp::now()).as_str()
}

fn document(key: &KeyRecord) -> Value {
    json!({
        "id": key.id,
        "tenant": key.tenant,
        "state": state(key),
        "test": key.test,
        "scopes": key.scopes,
        "roles": key.roles,
        "principal": key.principal,
        "createdAt": key.created_at,
        "expiresAt": key.expires_at,
        "revokedAt": key.revoked_at,
        "previousUntil": key.previous.as_ref().map(|previous| previous.valid_until),
    })
}

fn failed(cause: StoreError) -> Failure {
    Failure::not_done("store_failed", with_causes(&cause))
}
