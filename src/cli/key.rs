//! `touchstone key`: API keys of a host, managed in its store, whether the host is running or not.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::app;
use crate::cli::embedded;
use crate::cli::embedded::started;
use touchstone_host::access::Scope;
use touchstone_host::access::{Roles, is_role_name};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure, with_causes};
use touchstone_host::cli::files;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::keys::KeyRecord;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::keys::{AdoptError, Issue, KeyState, Keys, RotateError};
use touchstone_host::system::SystemClock;
use touchstone_kit::ids::{KeyId, TenantId};

/// Maximum size of a file with a key, in bytes.
const MAX_KEY_OCTETS: u64 = 4096;

/// Default scopes: those that evaluating agents needs.
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
  touchstone key create --tenant ops --scope organizations:write \\
    --scope metrics:read
  touchstone key create --tenant ci --scope all --test
  touchstone key create --tenant acme --scope all \\
    --from-file /run/secrets/touchstone/key";

fn create_help() -> String {
    let scopes: Vec<&str> = Scope::within_tenant().map(Scope::as_str).collect();
    let operator: Vec<&str> = Scope::OPERATOR.iter().map(|scope| scope.as_str()).collect();
    let by_name: Vec<&str> = Scope::BY_NAME.iter().map(|scope| scope.as_str()).collect();
    let usual: Vec<&str> = USUAL_SCOPES.iter().map(|scope| scope.as_str()).collect();
    format!(
        "Scopes:  {}\nOperator scopes, which apply to all tenants and are not part of `all`: {}\nNot part of `all` either: {}\nDefault: {}\n\n{CREATE_EXAMPLES}",
        scopes.join(" "),
        operator.join(" "),
        by_name.join(" "),
        usual.join(" ")
    )
}

/// Create, list, rotate and revoke API keys
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone key create --tenant acme\n  touchstone key list\n  touchstone key rotate 3f9c2ab81d4e5f60a7b8 --overlap 24h\n  touchstone key revoke 3f9c2ab81d4e5f60a7b8\n  touchstone key rotate-host"
)]
pub enum Command {
    /// Create a key; only the key goes to stdout, and it is never shown again
    #[command(after_help = create_help())]
    Create(Create),
    /// List keys, without their secrets
    #[command(after_help = "Examples:\n  touchstone key list\n  touchstone key list --tenant acme")]
    List(List),
    /// Replace the secret of a key; only the new key goes to stdout, and the old secret stays valid
    /// for a while
    #[command(
        after_help = "The secret replaced by an earlier rotation becomes invalid at once. Scopes, roles and id do not change.\n\nExamples:\n  touchstone key rotate 3f9c2ab81d4e5f60a7b8\n  touchstone key rotate 3f9c2ab81d4e5f60a7b8 --overlap 1h --expires-in 90d\n  touchstone key rotate 3f9c2ab81d4e5f60a7b8 --overlap 0s"
    )]
    Rotate(Rotate),
    /// Replace the host key, which encrypts stored secrets
    #[command(
        name = "rotate-host",
        after_help = "Creates a key, encrypts every stored secret with it, and removes the old key from secrets.key_file (default: secrets.pem in the data folder). Both keys work until then: run the command again if it was interrupted. Hosts on other machines use copies of the file: stop them first, then copy the new file and start them.\n\nExamples:\n  touchstone key rotate-host\n  touchstone key rotate-host --data /var/lib/touchstone"
    )]
    RotateHost,
    /// Revoke a key at once
    #[command(after_help = "Examples:\n  touchstone key revoke 3f9c2ab81d4e5f60a7b8")]
    Revoke(Revoke),
}

#[derive(Debug, Args)]
pub struct Create {
    /// Tenant of the key; tenants cannot access each other's data
    #[arg(long, value_name = "T", value_parser = tenant)]
    tenant: String,
    /// Scope of the key; repeat for several, `all` for every scope within the tenant [default: the
    /// scopes for evaluating agents]
    #[arg(long = "scope", value_name = "S", value_parser = scopes)]
    scopes: Vec<Vec<Scope>>,
    /// Role of the key, as defined by `[[roles]]` in the configuration; repeat for several
    #[arg(long = "role", value_name = "R", value_parser = role)]
    roles: Vec<String>,
    /// Principal of the key: a person's name, the id of an enrolled agent, or the identity of a
    /// model grader [default: the key's id]
    #[arg(long, value_name = "P", value_parser = principal)]
    principal: Option<String>,
    /// Create a test key: it begins with hk_test_ and may use mock providers
    #[arg(long, conflicts_with = "from_file")]
    test: bool,
    /// File with the text of the key, tsk_ID_SECRET, for keys from a secret store; nothing changes if
    /// a key with this id exists
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Time until the key expires, such as 90d or 12h [default: never]
    #[arg(long, value_name = "TIME", value_parser = span)]
    expires_in: Option<SignedDuration>,
}

#[derive(Debug, Args)]
pub struct Rotate {
    /// Key id, as shown by `key list`
    #[arg(value_name = "ID")]
    id: String,
    /// How long the old secret stays valid, such as 24h; 0s for not at all
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span_or_none)]
    overlap: SignedDuration,
    /// New time until the key expires, such as 90d [default: unchanged]
    #[arg(long, value_name = "TIME", value_parser = span)]
    expires_in: Option<SignedDuration>,
}

#[derive(Debug, Args)]
pub struct List {
    /// Tenant whose keys to list [default: all]
    #[arg(long, value_name = "T", value_parser = tenant)]
    tenant: Option<String>,
}

#[derive(Debug, Args)]
pub struct Revoke {
    /// Key id, as shown by `key list`
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
    // A grader's identity contains a digest.
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
        Err("a role name must have 1 to 64 characters of a-z, 0-9, `.`, `_` and `-`".to_owned())
    }
}

/// Parses a time such as `90d`, `12h` or `1h 30m`, at most a hundred years.
fn span_or_none(text: &str) -> Result<SignedDuration, String> {
    let most = SignedDuration::from_hours(24 * 36_500);
    text.parse::<Span>()
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .ok()
        .filter(|span| !span.is_negative() && *span <= most)
        .ok_or_else(|| "must be a time such as 90d, 12h or 30m".to_owned())
}

fn span(text: &str) -> Result<SignedDuration, String> {
    span_or_none(text).and_then(|span| {
        if span.is_zero() {
            Err("must be longer than zero".to_owned())
        } else {
            Ok(span)
        }
    })
}

fn from_now(span: SignedDuration) -> Result<Timestamp, Failure> {
    // The precision of the store.
    SystemClock
        .now()
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
        return Err(format!("must be one of all, {}", known.join(", ")));
    }
    Ok(named)
}

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
    let app = embedded::app(context.global()).await?;
    let mut scopes: Vec<Scope> = arguments.scopes.concat();
    if scopes.is_empty() && arguments.roles.is_empty() {
        scopes = USUAL_SCOPES.to_vec();
    }
    scopes.sort_unstable();
    scopes.dedup();
    refuse_unknown(app.keys().roles(), &arguments.roles)?;
    let expires_at = arguments.expires_in.map(from_now).transpose()?;
    let issue = Issue {
        tenant: TenantId::from(arguments.tenant.as_str()),
        scopes: scopes.clone(),
        roles: arguments.roles.clone(),
        principal: arguments.principal.clone(),
        test: arguments.test,
        expires_at,
    };
    let terminal = context.terminal();
    if let Some(file) = &arguments.from_file {
        let (id, created) = adopt(app.keys(), issue, file).await?;
        if terminal.json() {
            terminal.document(&json!({"id": id, "created": created}));
        } else if created {
            terminal.print(&format!("key {id} of tenant {} created", arguments.tenant));
        } else {
            terminal.print(&format!("key {id} exists; nothing was changed"));
        }
        return Ok(Exit::Good);
    }
    let key = app.keys().issue(issue).await.map_err(failed)?;
    let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
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
            "{}key {} of tenant {}, scopes {}; store it now, it is not shown again",
            if arguments.test { "test " } else { "" },
            key.id,
            arguments.tenant,
            may.trim_start()
        ));
        terminal.print(key.text.expose_secret());
    }
    Ok(Exit::Good)
}

/// Creates the key whose text is in a file, unless there is one with its id.
async fn adopt(keys: &Keys, issue: Issue, file: &Path) -> Result<(KeyId, bool), Failure> {
    let text = files::read(file, MAX_KEY_OCTETS)?;
    let text = SecretString::from(String::from_utf8_lossy(&text).trim().to_owned());
    keys.adopt(issue, &text).await.map_err(|cause| match cause {
        // Not what was found: it may be a secret.
        AdoptError::Form => Failure::bad_input(
            "invalid_key",
            format!("the text in {} {cause}", file.display()),
        )
        .or_try("generate one: echo \"tsk_$(openssl rand -hex 10)_$(openssl rand -hex 32)\""),
        AdoptError::Store(cause) => failed(cause),
    })
}

/// Refuses undefined roles: they would grant nothing, which is probably a mistake.
fn refuse_unknown(known: &Roles, roles: &[String]) -> Result<(), Failure> {
    let Some(unknown) = roles.iter().find(|role| !known.knows(role)) else {
        return Ok(());
    };
    Err(
        Failure::bad_input("unknown_role", format!("role `{unknown}` is not defined"))
            .or_try("define it as [[roles]] in the configuration"),
    )
}

async fn rotate(context: &Context<'_>, arguments: Rotate) -> Result<Exit, Failure> {
    let app = embedded::app(context.global()).await?;
    let id = KeyId::from(arguments.id.as_str());
    let previous_until = from_now(arguments.overlap)?;
    let expires_at = arguments.expires_in.map(from_now).transpose()?;
    let rotated = app.keys().rotate(&id, previous_until, expires_at).await;
    let key = rotated.map_err(|cause| match cause {
        RotateError::NoSuchKey => Failure::bad_input("not_found", format!("{id}: {cause}"))
            .or_try(format!("{} key list", context.program())),
        RotateError::Expired => Failure::bad_input("key_expired", format!("{id}: {cause}"))
            .or_try("set a new expiry with --expires-in, such as --expires-in 90d"),
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
            "key {id} has a new secret; the old one is valid until {previous_until}"
        ));
        terminal.print(key.text.expose_secret());
    }
    Ok(Exit::Good)
}

async fn rotate_host(context: &Context<'_>) -> Result<Exit, Failure> {
    let rotated = started(app::rotate_host_key(&embedded::config(context.global())?).await)?;
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
    let tenant = arguments.tenant.as_deref().map(TenantId::from);
    // Reading creates no store.
    let keys = match app::has_store(&embedded::config(context.global())?) {
        true => {
            let app = embedded::app(context.global()).await?;
            app.keys().list(tenant.as_ref()).await.map_err(failed)?
        }
        false => Vec::new(),
    };
    let terminal = context.terminal();
    if terminal.json() {
        let keys: Vec<Value> = keys.iter().map(document).collect();
        terminal.document(&json!({"keys": keys}));
        return Ok(Exit::Good);
    }
    if keys.is_empty() {
        terminal.note("no keys; create one with `touchstone key create --tenant T`");
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
    let app = embedded::app(context.global()).await?;
    let id = KeyId::from(arguments.id.as_str());
    if !app.keys().revoke(&id).await.map_err(failed)? {
        return Err(
            Failure::bad_input("not_found", format!("key {} not found", arguments.id))
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
    KeyState::of(key, SystemClock.now()).as_str()
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
