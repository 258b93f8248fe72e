//! Creating packs: keys, starter folder, lint, archive, signature.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use crate::cli::folder;
use crate::cli::shown;
use crate::config::PackSettings;
use crate::rules::Refusal;
use crate::rules::archive;
use crate::rules::archive::Archive;
use crate::rules::build;
use crate::rules::build::Files;
use crate::rules::build::lint::{Finding, Severity, lint, lint_whole};
use crate::rules::build::template::new_pack;
use crate::rules::contents;
use crate::rules::contents::PackContents;
use crate::rules::format::PackFormat;
use crate::rules::manifest;
use crate::rules::name::PackId;
use crate::rules::verify::SigningMethod;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::system::SystemIds;
use touchstone_kit::integrity;
use touchstone_kit::keys::SecretKey;

#[derive(Debug, Args)]
pub struct Keygen {
    /// Private key file to write; the public key is written next to it as .pub
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Key id under which hosts list the key as trusted
    #[arg(long, value_name = "ID", value_parser = key_id)]
    key_id: String,
}

#[derive(Debug, Args)]
pub struct Init {
    /// Folder to create
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Pack name, such as vendor.acme.triage
    #[arg(long, value_name = "NAME")]
    name: String,
}

#[derive(Debug, Args)]
pub struct Lint {
    /// Folder of the pack
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Debug, Args)]
pub struct Build {
    /// Folder of the pack
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Archive to write [default: NAME-VERSION.tgz]
    #[arg(long, value_name = "FILE.tgz", value_parser = archive_name)]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// The whole archive
    Ed25519,
    /// Only pack.json, like most published packs
    Manual,
}

#[derive(Debug, Args)]
pub struct Sign {
    /// Folder of the pack, or an archive
    #[arg(value_name = "DIR|FILE.tgz")]
    pack: PathBuf,
    // Same name and type as the global API key option, which it replaces: this command contacts no
    // host.
    /// Private key file, PEM
    #[arg(long, value_name = "FILE")]
    key: SecretString,
    /// Key id under which hosts list the key as trusted
    #[arg(long, value_name = "ID", value_parser = key_id)]
    key_id: String,
    /// Content that the signature covers
    #[arg(long, value_enum, default_value = "ed25519")]
    method: Method,
    /// Archive to write [default: the archive itself, or NAME-VERSION.tgz]
    #[arg(long, value_name = "FILE.tgz", value_parser = archive_name)]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Inspect {
    /// Archive to inspect
    #[arg(value_name = "FILE.tgz")]
    archive: PathBuf,
}

fn key_id(text: &str) -> Result<String, String> {
    let sound = (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if sound {
        Ok(text.to_owned())
    } else {
        Err("use letters, digits, `.`, `_` and `-`".to_owned())
    }
}

fn archive_name(text: &str) -> Result<PathBuf, String> {
    if text.ends_with(".tgz") {
        Ok(PathBuf::from(text))
    } else {
        Err("must end in .tgz".to_owned())
    }
}

pub fn keygen(terminal: &Terminal, arguments: &Keygen) -> Result<Exit, Failure> {
    let key = SecretKey::from_random(SystemIds.secret());
    let public = folder::companion(&arguments.out, "pub");
    if public == arguments.out {
        return Err(
            Failure::usage("--out names the private key file and must not end in .pub")
                .or_try("use a name such as acme.pem"),
        );
    }
    folder::write_key(
        &arguments.out,
        &key.to_pem(),
        &public,
        &key.public().to_pem(),
    )?;
    if terminal.json() {
        terminal.document(&json!({
            "keyId": arguments.key_id, "privateKey": arguments.out, "publicKey": public,
            "publicKeyBase64": key.public().to_base64(),
        }));
    } else {
        terminal.print(&format!(
            "private key  {}  (keep it secret)\npublic key   {}",
            arguments.out.display(),
            public.display()
        ));
        let (id, secret, public) = (&arguments.key_id, arguments.out.display(), public.display());
        terminal.note(&format!(
            "sign:   touchstone pack sign DIR --key {secret} --key-id {id}\n\
             trust:  touchstone pack install FILE.tgz --trust-key {id}={public}:vendor.acme.*\n        \
             with your namespace instead of vendor.acme.*; or permanently in touchstone.toml:\n\n\
             [[packs.keys]]\nkey_id = \"{id}\"\npublic_key = \"{}\"\nnamespaces = [\"vendor.acme.*\"]",
            key.public().to_base64()
        ));
    }
    Ok(Exit::Good)
}

pub fn init(terminal: &Terminal, arguments: &Init) -> Result<Exit, Failure> {
    let files = new_pack(&arguments.name).ok_or_else(|| {
        Failure::usage(format!("{} is not a valid pack name", arguments.name))
            .or_try("use SCOPE.ORGANIZATION.NAME in lower case, such as vendor.acme.triage")
    })?;
    folder::write_new(&arguments.folder, &files)?;
    if terminal.json() {
        let names: Vec<&String> = files.keys().collect();
        terminal.document(&json!({"folder": arguments.folder, "files": names}));
    } else {
        let folder = arguments.folder.display();
        terminal.print(&format!("{folder}: {} files", files.len()));
        terminal.note(&format!("next: touchstone pack lint {folder}"));
    }
    Ok(Exit::Good)
}

pub fn lint_folder(
    context: &Context<'_>,
    format: PackFormat,
    arguments: &Lint,
) -> Result<Exit, Failure> {
    let files = folder::read(&arguments.folder)?;
    let findings = lint_whole(
        &files,
        &context.settings::<PackSettings>()?.policy().host,
        format,
    );
    let sound = findings
        .iter()
        .all(|finding| finding.severity != Severity::Error);
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"ok": sound, "findings": findings}));
    } else {
        show_findings(terminal, &findings);
        if sound {
            terminal.print(&format!("{}: no errors", arguments.folder.display()));
        }
    }
    Ok(if sound { Exit::Good } else { Exit::Negative })
}

fn show_findings(terminal: &Terminal, findings: &[Finding]) {
    for finding in findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let file = finding
            .file
            .as_ref()
            .map(|file| match (finding.line, finding.column) {
                (Some(line), Some(column)) => format!("{file}:{line}:{column}: "),
                _ => format!("{file}: "),
            })
            .unwrap_or_default();
        terminal.note(&format!("{severity}: {file}{}", finding.reason));
    }
}

pub fn build_archive(
    context: &Context<'_>,
    format: PackFormat,
    arguments: &Build,
) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let files = folder::read(&arguments.folder)?;
    let findings = lint(
        &files,
        &context.settings::<PackSettings>()?.policy().host,
        format,
    );
    if findings
        .iter()
        .any(|finding| finding.severity == Severity::Error)
    {
        if terminal.json() {
            terminal.document(&json!({"ok": false, "findings": findings}));
        } else {
            show_findings(terminal, &findings);
        }
        return Ok(Exit::Negative);
    }
    let built = build::build(&files).and_then(|tgz| Ok((identity(&files)?, tgz)));
    let (id, tgz) = match built {
        Ok(built) => built,
        Err(refusal) => return Ok(shown::refused(terminal, &refusal)),
    };
    let out = arguments.out.clone().unwrap_or_else(|| usual_name(&id));
    let signature = folder::companion(&out, "sig");
    if signature.exists() {
        return Err(Failure::bad_input(
            "would_break_a_signature",
            format!(
                "overwriting would invalidate {}, the signature of {}",
                signature.display(),
                out.display()
            ),
        )
        .or_try("use --out with another name, or `touchstone pack sign`, which builds and signs"));
    }
    folder::write(&out, &tgz)?;
    let digest = integrity::of(&tgz);
    if terminal.json() {
        terminal.document(&json!({"ok": true, "archive": out, "integrity": digest}));
    } else {
        terminal.print(&format!("{}  {id}  {digest}", out.display()));
        terminal.note("the archive is unsigned; sign it with `touchstone pack sign`");
    }
    Ok(Exit::Good)
}

fn identity(files: &Files) -> Result<PackId, Refusal> {
    let octets = files
        .get(archive::MANIFEST)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let manifest = manifest::read(octets)?;
    PackId::new(&manifest.name, &manifest.version).ok_or_else(|| {
        Refusal::new(
            touchstone_kit::error::ErrorCode::InvalidManifest,
            crate::rules::Stage::Manifest,
            "has no valid name or version",
        )
    })
}

fn usual_name(id: &PackId) -> PathBuf {
    PathBuf::from(format!("{}-{}.tgz", id.name, id.version))
}

pub fn sign(terminal: &Terminal, arguments: &Sign) -> Result<Exit, Failure> {
    let key_file = Path::new(arguments.key.expose_secret());
    let pem =
        std::fs::read_to_string(key_file).map_err(|cause| folder::unreadable(key_file, cause))?;
    let key = SecretKey::from_pem(&pem).map_err(|fault| {
        let file = key_file.display();
        Failure::bad_input("no_private_key", format!("{file} {fault}"))
            .or_try("create one with touchstone pack keygen --out acme.pem --key-id acme-1")
    })?;
    let files = match files_of(&arguments.pack)? {
        Ok(files) => files,
        Err(refusal) => return Ok(shown::refused(terminal, &refusal)),
    };
    let method = match arguments.method {
        Method::Ed25519 => SigningMethod::Ed25519,
        Method::Manual => SigningMethod::Manual,
    };
    let signed = match build::sign(&files, method, &key, &arguments.key_id) {
        Ok(signed) => signed,
        Err(refusal) => return Ok(shown::refused(terminal, &refusal)),
    };
    let itself = (!arguments.pack.is_dir()).then(|| arguments.pack.clone());
    let out = arguments
        .out
        .clone()
        .or(itself)
        .unwrap_or_else(|| usual_name(&signed.id));
    let (signature, served) = (
        folder::companion(&out, "sig"),
        folder::companion(&out, "json"),
    );
    folder::write(&out, &signed.tgz)?;
    folder::write(&signature, &signed.signature)?;
    folder::write(&served, &signed.served)?;
    if terminal.json() {
        terminal.document(&json!({
            "ok": true, "pack": signed.id.to_string(), "archive": out, "signature": signature, "served": served,
            "keyId": arguments.key_id, "integrity": integrity::of(&signed.tgz),
        }));
    } else {
        terminal.print(&format!("{}  {}", out.display(), signed.id));
        terminal.print(&format!("{}\n{}", signature.display(), served.display()));
        terminal
            .note("keep the three files together: archive, signature, and manifest for a registry");
    }
    Ok(Exit::Good)
}

fn files_of(pack: &Path) -> Result<Result<Files, Refusal>, Failure> {
    if pack.is_dir() {
        return folder::read(pack).map(Ok);
    }
    let archive = archive::read(&folder::read_archive(pack)?);
    Ok(archive.map(|archive| {
        archive
            .files
            .into_iter()
            .map(|(name, octets)| (name, octets.to_vec()))
            .collect()
    }))
}

pub fn inspect(
    terminal: &Terminal,
    format: PackFormat,
    arguments: &Inspect,
) -> Result<Exit, Failure> {
    let tgz = folder::read_archive(&arguments.archive)?;
    let read = archive::read(&tgz)
        .and_then(|archive| contents::inspect(archive.clone(), format).map(|pack| (archive, pack)));
    let (archive, pack) = match read {
        Ok(read) => read,
        Err(refusal) => return Ok(shown::refused(terminal, &refusal)),
    };
    let document = inspected(&tgz, &archive, &pack);
    if terminal.json() {
        terminal.document(&document);
        return Ok(Exit::Good);
    }
    terminal.print(&format!("{}@{}", pack.manifest.name, pack.manifest.version));
    terminal.print(&format!("  integrity  {}", integrity::of(&tgz)));
    for agent in &pack.agents {
        let manifest = &agent.manifest;
        terminal.print(&format!(
            "  agent      {} ({})",
            manifest.agent_id, manifest.model_class
        ));
    }
    for suite in &pack.suites {
        let tasks = suite.suite().tasks.len();
        terminal.print(&format!(
            "  suite      {} ({tasks} tasks)",
            suite.suite().reference()
        ));
    }
    if !pack.manifest.dependencies.is_empty() {
        let named = shown::dependencies(&pack.manifest.dependencies);
        terminal.print(&format!("  depends    on {named}"));
    }
    for (name, octets) in &archive.files {
        terminal.print(&format!("  {:>9}  {name}", octets.len()));
    }
    terminal.note("not verified; use `touchstone pack verify`");
    Ok(Exit::Good)
}

fn inspected(tgz: &[u8], archive: &Archive, pack: &PackContents) -> Value {
    let files: Vec<Value> = archive
        .files
        .iter()
        .map(|(name, octets)| json!({"name": name, "size": octets.len(), "digest": integrity::of(octets)}))
        .collect();
    let suites: Vec<Value> = pack
        .suites
        .iter()
        .map(|suite| {
            json!({"reference": suite.suite().reference(), "file": suite.file, "digest": suite.digest,
                   "taskCount": suite.suite().tasks.len()})
        })
        .collect();
    json!({
        "verified": false, "integrity": integrity::of(tgz), "manifest": pack.manifest, "suites": suites,
        "degraded": pack.degraded, "warnings": pack.warnings, "files": files,
    })
}
