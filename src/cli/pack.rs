//! `touchstone pack`: make, sign, check and install agent packs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::context::Context;
use super::exit::{Exit, Failure};

/// Make, sign, check and install agent packs
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone pack init triage --name vendor.acme.triage\n  touchstone pack build triage --out triage.tgz\n  touchstone pack install triage.tgz"
)]
pub enum Command {
    /// Make an Ed25519 signing key
    #[command(after_help = "Examples:\n  touchstone pack keygen --out acme.pem --key-id acme-1")]
    Keygen(Keygen),
    /// Start a pack: manifest, prompt, schemas and a first suite
    #[command(after_help = "Examples:\n  touchstone pack init triage --name vendor.acme.triage")]
    Init(Init),
    /// Check a pack's folder
    #[command(after_help = "Examples:\n  touchstone pack lint triage")]
    Lint(Lint),
    /// Build the archive, the same octets every time
    #[command(after_help = "Examples:\n  touchstone pack build triage --out triage.tgz")]
    Build(Build),
    /// Sign an archive
    #[command(
        after_help = "Examples:\n  touchstone pack sign triage.tgz --key acme.pem --key-id acme-1\n  touchstone pack sign triage.tgz --method manual --key acme.pem --key-id acme-1"
    )]
    Sign(Sign),
    /// Show what is in an archive
    #[command(after_help = "Examples:\n  touchstone pack inspect triage.tgz")]
    Inspect(Inspect),
    /// Check everything that install checks; install nothing
    #[command(
        after_help = "Exit codes: 0 sound, 1 refused, 2 bad usage, 3 could not be checked.\n\nExamples:\n  touchstone pack verify triage.tgz\n  touchstone pack verify vendor.acme.triage@1.0.0 --registry https://packs.example\n  touchstone --json pack verify triage.tgz --lockfile pack-lock.json"
    )]
    Verify(Source),
    /// Verify a pack and install it
    #[command(
        after_help = "Examples:\n  touchstone pack install triage.tgz\n  touchstone pack install vendor.acme.triage@1.0.0 --registry ./registry --lockfile pack-lock.json"
    )]
    Install(Source),
    /// List installed packs
    #[command(after_help = "Examples:\n  touchstone pack list")]
    List,
    /// Remove an installed pack; its runs stay
    #[command(after_help = "Examples:\n  touchstone pack remove vendor.acme.triage@1.0.0")]
    Remove(Remove),
}

/// Where the key goes.
#[derive(Debug, Args)]
pub struct Keygen {
    /// File for the private key; the public key goes beside it as .pub
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Id under which the key is trusted
    #[arg(long, value_name = "ID")]
    pub key_id: String,
}

/// Where and as what to start.
#[derive(Debug, Args)]
pub struct Init {
    /// Folder to make
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Name of the pack, such as vendor.acme.triage
    #[arg(long, value_name = "NAME")]
    pub name: String,
}

/// A pack's folder.
#[derive(Debug, Args)]
pub struct Lint {
    /// The pack's folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// A pack's folder and the archive to write.
#[derive(Debug, Args)]
pub struct Build {
    /// The pack's folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The archive to write [default: NAME-VERSION.tgz]
    #[arg(long, value_name = "FILE.tgz")]
    pub out: Option<PathBuf>,
}

/// What a signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// The whole archive, beside it as .sig
    Ed25519,
    /// Only pack.json, inside the archive, as published packs have it
    Manual,
}

/// What to sign, and with what.
#[derive(Debug, Args)]
pub struct Sign {
    /// The archive
    #[arg(value_name = "FILE.tgz")]
    pub archive: PathBuf,
    /// The private key, PEM
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Id under which the key is trusted
    #[arg(long, value_name = "ID")]
    pub key_id: String,
    /// What the signature covers
    #[arg(long, value_enum, default_value = "ed25519")]
    pub method: Method,
}

/// An archive.
#[derive(Debug, Args)]
pub struct Inspect {
    /// The archive
    #[arg(value_name = "FILE.tgz")]
    pub archive: PathBuf,
}

/// A pack, from a file or a registry.
#[derive(Debug, Args)]
pub struct Source {
    /// An archive, or a pack of the registry
    #[arg(value_name = "FILE.tgz|NAME@VERSION")]
    pub pack: String,
    /// Registry: a folder or an address
    #[arg(long, value_name = "DIR|URL")]
    pub registry: Option<String>,
    /// Only what this lockfile pins
    #[arg(long, value_name = "FILE")]
    pub lockfile: Option<PathBuf>,
}

/// An installed pack.
#[derive(Debug, Args)]
pub struct Remove {
    /// The installed pack
    #[arg(value_name = "NAME@VERSION")]
    pub pack: String,
}

/// Runs the command.
pub async fn run(_context: &Context<'_>, _command: Command) -> Result<Exit, Failure> {
    Err(Failure::not_done(
        "not_built",
        "pack commands are not part of this build",
    ))
}
