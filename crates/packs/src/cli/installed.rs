//! Installing, listing and removing a host's packs.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use jiff::Unit;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::cli::judge::{Judged, Judges, Source, judge, read_lockfile, unusable_lockfile};
use crate::cli::{folder, shown};
use crate::config::PackSettings;
use crate::rules::format::PackFormat;
use crate::rules::inventory::PackFacts;
use crate::rules::name::PackId;
use crate::rules::{Refusal, lockfile};
use crate::service::packs::{Actor, Candidate, Packs};
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::{Context, Purpose, Start};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;
use touchstone_kit::error::ErrorCode;

#[derive(Debug, Args)]
pub struct Install {
    #[command(flatten)]
    source: Source,
    /// Pin the installed pack in --lockfile, which is created if it does not exist
    #[arg(long, requires = "lockfile")]
    pin: bool,
}

#[derive(Debug, Args)]
pub struct Remove {
    /// Installed pack
    #[arg(value_name = "NAME@VERSION")]
    pack: String,
}

/// `pack install`: verified here, and again by the host of --server.
pub async fn install(
    context: &Context<'_>,
    format: PackFormat,
    arguments: &Install,
) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let path = arguments.source.lockfile.as_deref();
    let judged = match judge_pinned(context, format, arguments).await? {
        Ok(judged) => judged,
        Err(refusal) => return Ok(shown::refused(terminal, &refusal)),
    };
    let facts = if context.server().is_some() {
        match upload(context, &judged).await {
            Ok(facts) => facts,
            Err(failure) => return shown::answered(terminal, failure),
        }
    } else {
        // The command's own lockfile satisfies a host that accepts only pinned packs.
        let lockfile = match path {
            Some(path) if arguments.pin => existing(path)?.map(|_| path),
            path => path,
        };
        install_here(context, lockfile, &judged.candidate).await?
    };
    if let Some(path) = path.filter(|_| arguments.pin) {
        let before = existing(path)?.and_then(|bytes| lockfile::parse(&bytes).ok());
        let now = SystemClock.now();
        let now = now.round(Unit::Second).unwrap_or(now).to_string();
        let next = lockfile::pin(before.as_ref(), judged.candidate.pack.pin.clone(), &now);
        folder::write(path, lockfile::write(&next).as_bytes())?;
    }
    shown::pack(terminal, "installed", &facts);
    Ok(Exit::Good)
}

/// Installs in the embedded host, with this lockfile unless one is configured. The command has
/// verified the pack by its own options, which the API does not know.
async fn install_here(
    context: &Context<'_>,
    lockfile: Option<&Path>,
    candidate: &Candidate,
) -> Result<PackFacts, Failure> {
    let mut settings: PackSettings = context.settings()?;
    let configured = settings.lockfile.take();
    settings.lockfile = configured.or_else(|| lockfile.map(Path::to_owned));
    let start = Start::new(Purpose::Records).with(settings);
    let session = context.open(start).await?;
    let packs = session.service::<Arc<Packs>>().ok_or_else(|| {
        Failure::not_done("internal_error", "the embedded host has no pack service")
    })?;
    Ok(packs.install(&Actor::local(), candidate).await?)
}

/// Verifies by the lockfile; with `--pin`, the pack may be missing from it.
async fn judge_pinned(
    context: &Context<'_>,
    format: PackFormat,
    arguments: &Install,
) -> Result<Result<Judged, Refusal>, Failure> {
    let (source, path) = (&arguments.source, arguments.source.lockfile.as_deref());
    let lock = match path.filter(|_| arguments.pin) {
        Some(path) => existing(path)?,
        None => read_lockfile(path)?,
    };
    let judges = match context.server() {
        Some(_) => Judges::There,
        None => Judges::Here,
    };
    match judge(context, format, source, lock, judges).await? {
        Err(refusal) if arguments.pin && refusal.code == ErrorCode::PackLockfileIncomplete => {
            judge(context, format, source, None, judges).await
        }
        judged => Ok(judged),
    }
}

/// The bytes of the lockfile; `None` if `--pin` has yet to create it.
fn existing(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(unusable_lockfile(path, &cause)),
    }
}

async fn upload(context: &Context<'_>, judged: &Judged) -> Result<PackFacts, Failure> {
    let parts = [
        ("tarball", Some(judged.candidate.tgz.as_ref())),
        ("served", judged.served.as_deref()),
        ("signature", judged.signature.as_deref()),
    ];
    let body: Map<String, Value> = parts
        .into_iter()
        .filter_map(|(name, bytes)| Some((name.to_owned(), STANDARD.encode(bytes?).into())))
        .collect();
    let session = context.write().await?;
    session
        .client()
        .post("/v1/host/touchstone/packs", &Value::Object(body))
        .await
}

#[derive(Deserialize)]
struct Listed {
    packs: Vec<PackFacts>,
}

pub async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let listed: Listed = session.client().get("/v1/host/touchstone/packs").await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"packs": listed.packs}));
        return Ok(Exit::Good);
    }
    if listed.packs.is_empty() {
        terminal.note("no packs; install one with `touchstone pack install FILE.tgz`");
    }
    for pack in &listed.packs {
        terminal.print(&shown::summary(pack).join("\n"));
    }
    Ok(Exit::Good)
}

pub async fn remove(context: &Context<'_>, arguments: &Remove) -> Result<Exit, Failure> {
    let id = PackId::parse(&arguments.pack).ok_or_else(|| {
        Failure::usage(format!("{} is not NAME@VERSION", arguments.pack))
            .or_try(format!("run {} pack list", context.program()))
    })?;
    let session = context.read().await?;
    let path = format!(
        "/v1/host/touchstone/packs/{}/{}",
        id.name,
        path_segment(&id)
    );
    let _: Value = session
        .client()
        .call(Call::new(Method::DELETE, &path))
        .await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"removed": id.to_string()}));
    } else {
        terminal.print(&format!("{id} removed"));
    }
    Ok(Exit::Good)
}

/// The version as a path segment: `+` is encoded, because some decoders read it as a space.
fn path_segment(id: &PackId) -> String {
    id.version.to_string().replace('+', "%2B")
}
