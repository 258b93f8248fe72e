//! Finding a pack, choosing whom to trust, and verifying it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use url::Url;

use crate::cli::folder::unreadable;
use crate::cli::shown;
use crate::config::PackSettings;
use crate::ports::PackSource;
use crate::registry::directory::DirectoryRegistry;
use crate::registry::file::{PackFile, read_pack_file};
use crate::registry::http::HttpRegistry;
use crate::rules::format::PackFormat;
use crate::rules::manifest::capabilities::PeerPolicy;
use crate::rules::name::Namespaces;
use crate::rules::verify::{Fetched, Policy, Trust, TrustMode, verify as verify_pack};
use crate::rules::{Refusal, inventory, lockfile};
use crate::service::download;
use crate::service::download::PackRequest;
use crate::service::packs::Candidate;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::config::Error;
use touchstone_host::net;
use touchstone_host::net::Client;
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::pack::Lockfile;

#[derive(Debug, Args)]
pub struct Source {
    /// Archive, or pack in the registry: NAME, NAME@VERSION or NAME@RANGE
    #[arg(value_name = "FILE.tgz|NAME@VERSION")]
    pub pack: String,
    /// Folder or URL of the registry. The keys it lists are trusted for the pack names it lists
    /// with them
    #[arg(long, value_name = "DIR|URL")]
    pub registry: Option<String>,
    /// Accept only packs pinned in this lockfile and, if configured, in `packs.lockfile`
    #[arg(long, value_name = "FILE")]
    pub lockfile: Option<PathBuf>,
    /// Trust this public key for packs in these namespaces, or for all packs; replaces what the
    /// registry lists for the key
    #[arg(long, value_name = "KEYID=FILE[:NAMESPACE,...]", value_parser = pinned_key)]
    pub trust_key: Vec<PinnedKey>,
    /// Trust mode: verified, allowlist, pinned or open [default: as configured, else verified]
    #[arg(long, value_name = "MODE", value_parser = trust_mode)]
    pub trust: Option<TrustMode>,
    /// Accept a yanked version, for example to inspect it
    #[arg(long)]
    pub allow_yanked: bool,
    /// Require a signature that covers the whole archive
    #[arg(long)]
    pub require_full_coverage: bool,
    /// How to handle capabilities that this host lacks [default: as configured, else degrade]
    #[arg(long, value_name = "degrade|strict", value_parser = peer_policy)]
    pub peers: Option<PeerPolicy>,
}

impl Source {
    fn says_whom_to_trust(&self) -> bool {
        self.trust.is_some()
            || self.registry.is_some()
            || self.lockfile.is_some()
            || !self.trust_key.is_empty()
    }
}

/// Where trust in a pack is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judges {
    /// This command.
    Here,
    /// A host, by its own configuration, after this command.
    There,
}

#[derive(Clone, Debug)]
pub struct PinnedKey {
    key_id: String,
    file: PathBuf,
    namespaces: Namespaces,
}

fn pinned_key(text: &str) -> Result<PinnedKey, String> {
    let (key_id, rest) = text
        .split_once('=')
        .filter(|(key_id, file)| !key_id.is_empty() && !file.is_empty())
        .ok_or("must be KEYID=FILE[:NAMESPACE,...], such as acme-1=acme.pub:vendor.acme.*")?;
    // The text after the last colon is a list of names if it looks like one, else part of the path.
    let names = |list: &str| {
        list.contains('.')
            && list
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-*,".contains(&b))
    };
    let (file, namespaces) = match rest.rsplit_once(':').filter(|(_, list)| names(list)) {
        Some((file, list)) => (
            file,
            Namespaces::These(list.split(',').map(str::to_owned).collect()),
        ),
        None => (rest, Namespaces::Any),
    };
    Ok(PinnedKey {
        key_id: key_id.to_owned(),
        file: PathBuf::from(file),
        namespaces,
    })
}

fn trust_mode(text: &str) -> Result<TrustMode, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "must be verified, allowlist, pinned or open".to_owned())
}

fn peer_policy(text: &str) -> Result<PeerPolicy, String> {
    serde_json::from_value(text.into()).map_err(|_| "must be degrade or strict".to_owned())
}

/// A verified pack, with its companion files for an upload.
pub struct Judged {
    /// The pack, with its archive.
    pub candidate: Candidate,
    /// The manifest as a registry serves it.
    pub served: Option<Vec<u8>>,
    pub signature: Option<Vec<u8>>,
}

pub async fn verify(
    context: &Context<'_>,
    format: PackFormat,
    source: &Source,
) -> Result<Exit, Failure> {
    let lock = read_lockfile(source.lockfile.as_deref())?;
    match judge(context, format, source, lock, Judges::Here).await? {
        Ok(judged) => {
            let facts = inventory::facts(&judged.candidate.pack);
            shown::pack(context.terminal(), "valid:", &facts);
            Ok(Exit::Good)
        }
        Err(refusal) => Ok(shown::refused(context.terminal(), &refusal)),
    }
}

/// The bytes of the lockfile.
///
/// # Errors
/// The file cannot be read.
pub fn read_lockfile(path: Option<&Path>) -> Result<Option<Vec<u8>>, Failure> {
    path.map(|path| std::fs::read(path).map_err(|cause| unusable_lockfile(path, &cause)))
        .transpose()
}

/// The failure for an unreadable lockfile named on the command line.
pub fn unusable_lockfile(path: &Path, cause: &std::io::Error) -> Failure {
    Failure::bad_input(
        "unreadable",
        format!("could not read `--lockfile` {}: {cause}", path.display()),
    )
    .or_try("use an existing lockfile; `pack install --pin` creates one")
}

/// Finds a pack and verifies it. The outer error is the command's, the inner one the pack's.
///
/// # Errors
/// Wrong usage, unreadable files, invalid settings.
pub async fn judge(
    context: &Context<'_>,
    format: PackFormat,
    source: &Source,
    lock: Option<Vec<u8>>,
    judges: Judges,
) -> Result<Result<Judged, Refusal>, Failure> {
    let (trust, policy) = rules(context, source, judges)?;
    let lock = match lock.map(|octets| lockfile::parse(&octets)).transpose() {
        Ok(lock) => lock,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let configured = match judges {
        Judges::Here => configured_lock(context, source)?,
        Judges::There => None,
    };
    let locks: Vec<&Lockfile> = lock.iter().chain(&configured).collect();
    let registry = source.registry.as_deref().map(open_registry).transpose()?;
    let path = Path::new(&source.pack);
    if source.pack.ends_with(".tgz") || path.is_file() {
        let file = read_pack_file(path)
            .await
            .map_err(|cause| unreadable(path, cause))?;
        return Ok(judge_file(file, registry.as_deref(), trust, &policy, &locks, format).await);
    }
    let request: PackRequest = source.pack.parse().map_err(|reason| {
        Failure::usage(format!(
            "{} is neither an archive nor a pack name: {reason}",
            source.pack
        ))
        .or_try("use a .tgz file, or NAME@VERSION with --registry")
    })?;
    let Some(registry) = registry else {
        return Err(
            Failure::usage("a pack name can only be resolved with a registry")
                .or_try("add --registry with a folder or URL"),
        );
    };
    let choosing = locks.first().copied();
    let fetched = match download::fetch(registry.as_ref(), &request, &trust, choosing).await {
        Ok(fetched) => fetched,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let verified = by_all(&locks, |lock| fetched.verify(&policy, lock, format));
    Ok(verified.map(|pack| Judged {
        candidate: Candidate {
            pack,
            tgz: fetched.tgz.clone(),
        },
        served: Some(fetched.served.to_vec()),
        signature: fetched.signature.as_ref().map(|octets| octets.to_vec()),
    }))
}

/// The configured lockfile, as a host would apply it; `None` if `--lockfile` names the same file.
fn configured_lock(context: &Context<'_>, source: &Source) -> Result<Option<Lockfile>, Failure> {
    let settings = context.settings::<PackSettings>()?;
    let Some(path) = &settings.lockfile else {
        return Ok(None);
    };
    if source
        .lockfile
        .as_deref()
        .is_some_and(|named| is_same(named, path))
    {
        return Ok(None);
    }
    settings
        .read_lockfile()
        .map_err(|cause| Failure::bad_input("configuration", cause.to_string()))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    one == other || real(one).is_some_and(|one| Some(one) == real(other))
}

/// Verifies by every active lockfile; without any, once.
fn by_all<T>(
    locks: &[&Lockfile],
    verify: impl Fn(Option<&Lockfile>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let Some((last, others)) = locks.split_last() else {
        return verify(None);
    };
    for lock in others {
        verify(Some(lock))?;
    }
    verify(Some(last))
}

async fn judge_file(
    file: PackFile,
    registry: Option<&dyn PackSource>,
    mut trust: Trust,
    policy: &Policy,
    locks: &[&Lockfile],
    format: PackFormat,
) -> Result<Judged, Refusal> {
    if let Some(registry) = registry {
        download::list_keys(registry, &mut trust).await?;
    }
    let fetched = Fetched {
        served: file.served.as_deref(),
        tgz: &file.tgz,
        signature: file.signature.as_deref(),
    };
    let pack = by_all(locks, |lock| {
        verify_pack(None, fetched, &trust, policy, lock, format)
    })?;
    Ok(Judged {
        candidate: Candidate {
            pack,
            tgz: file.tgz.clone(),
        },
        served: file.served.map(|octets| octets.to_vec()),
        signature: file.signature.map(|octets| octets.to_vec()),
    })
}

/// Trust and policy: the configuration, overridden by the command line. If this command trusts no
/// key, a remote host checks the signature; everything else is still checked here.
fn rules(
    context: &Context<'_>,
    source: &Source,
    judges: Judges,
) -> Result<(Trust, Policy), Failure> {
    let settings = context.settings::<PackSettings>()?;
    let unusable = |cause: Error| Failure::bad_input("configuration", cause.to_string());
    let mut trust = settings.trust().map_err(unusable)?;
    trust.registry_keys = source.registry.is_some();
    if judges == Judges::There && trust.keys.is_empty() && !source.says_whom_to_trust() {
        trust.mode = TrustMode::Open;
    }
    if let Some(mode) = source.trust {
        trust.mode = mode;
    }
    for pin in &source.trust_key {
        let text =
            std::fs::read_to_string(&pin.file).map_err(|cause| unreadable(&pin.file, cause))?;
        let key = PublicKey::from_text(&text).map_err(|fault| {
            Failure::bad_input("no_public_key", format!("{} {fault}", pin.file.display()))
        })?;
        trust
            .keys
            .pin(pin.key_id.clone(), key, pin.namespaces.clone());
    }
    let mut policy = settings.policy();
    policy.allow_yanked |= source.allow_yanked;
    policy.require_full_coverage |= source.require_full_coverage;
    if let Some(peers) = source.peers {
        policy.host.peers = peers;
    }
    Ok((trust, policy))
}

fn open_registry(text: &str) -> Result<Box<dyn PackSource>, Failure> {
    let Some(url) = Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
    else {
        return Ok(Box::new(DirectoryRegistry::new(text)));
    };
    let client = Client::new(net::Policy::registry(&url))
        .map_err(|cause| Failure::not_done("no_client", cause.to_string()))?;
    Ok(Box::new(HttpRegistry::new(Arc::new(client), url)))
}
