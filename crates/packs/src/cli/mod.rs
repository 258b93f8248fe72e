//! `touchstone pack`: create, sign, verify and install agent packs.

pub mod folder;
pub mod installed;
pub mod judge;
pub mod local;
pub mod make;
pub mod shown;

use clap::Subcommand;

use crate::rules::format::PackFormat;
use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

/// Create, sign, verify and install agent packs
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone pack init triage --name vendor.acme.triage\n  touchstone pack keygen --out acme.pem --key-id acme-1\n  touchstone pack sign triage --key acme.pem --key-id acme-1 --out triage.tgz\n  touchstone pack install triage.tgz --trust-key acme-1=acme.pub:vendor.acme.*"
)]
pub enum Command {
    /// Create an Ed25519 signing key
    #[command(after_help = "Examples:\n  touchstone pack keygen --out acme.pem --key-id acme-1")]
    Keygen(make::Keygen),
    /// Create a pack with manifest, prompt, schemas and an example suite
    #[command(after_help = "Examples:\n  touchstone pack init triage --name vendor.acme.triage")]
    Init(make::Init),
    /// Check a pack's folder for everything that install or an OASIS evaluation would refuse
    #[command(
        after_help = "Exit codes: 0 no errors, 1 errors, 2 bad usage.\n\nExamples:\n  touchstone pack lint triage"
    )]
    Lint(make::Lint),
    /// Build the archive reproducibly
    #[command(after_help = "Examples:\n  touchstone pack build triage --out triage.tgz")]
    Build(make::Build),
    /// Sign a folder or an archive; writes the archive, .sig and .json
    #[command(
        after_help = "Examples:\n  touchstone pack sign triage --key acme.pem --key-id acme-1\n  touchstone pack sign triage.tgz --method manual --key acme.pem --key-id acme-1"
    )]
    Sign(make::Sign),
    /// Show the contents of an archive without verifying it
    #[command(after_help = "Examples:\n  touchstone pack inspect triage.tgz")]
    Inspect(make::Inspect),
    /// Verify the signature and digest of a pack as install does, without installing it
    #[command(
        after_help = "Exit codes: 0 valid, 1 refused, 2 bad usage, 3 could not complete.\n\nExamples:\n  touchstone pack verify triage.tgz --trust-key acme-1=acme.pub:vendor.acme.*\n  touchstone pack verify vendor.acme.triage@1.0.0 \\\n    --registry https://packs.example\n  touchstone pack verify vendor.acme.triage@^1 --registry ./registry \\\n    --lockfile pack-lock.json --json"
    )]
    Verify(judge::Source),
    /// Verify a pack and install it
    #[command(
        after_help = "Exit codes: 0 installed, 1 refused, 2 bad usage, 3 could not complete.\n\nExamples:\n  touchstone pack install triage.tgz --trust-key acme-1=acme.pub:vendor.acme.*\n  touchstone pack install vendor.acme.triage@1.0.0 --registry ./registry \\\n    --lockfile pack-lock.json --pin"
    )]
    Install(installed::Install),
    /// List installed packs
    #[command(after_help = "Examples:\n  touchstone pack list")]
    List,
    /// Remove an installed pack; its runs remain
    #[command(after_help = "Examples:\n  touchstone pack remove vendor.acme.triage@1.0.0")]
    Remove(installed::Remove),
}

impl Command {
    pub fn target(&self) -> CommandTarget {
        match self {
            Self::Keygen(_) | Self::Init(_) | Self::Inspect(_) => CommandTarget::Files,
            Self::Lint(_) | Self::Build(_) | Self::Verify(_) => CommandTarget::FilesByRules,
            Self::Sign(_) => CommandTarget::Signing,
            Self::Install(_) => CommandTarget::HostByRules,
            Self::List | Self::Remove(_) => CommandTarget::Host,
        }
    }
}

/// Runs a command. `format` says what packs may contain.
pub async fn run(
    context: &Context<'_>,
    format: PackFormat,
    command: Command,
) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    match command {
        Command::Keygen(arguments) => make::keygen(terminal, &arguments),
        Command::Init(arguments) => make::init(terminal, &arguments),
        Command::Lint(arguments) => make::lint_folder(context, format, &arguments),
        Command::Build(arguments) => make::build_archive(context, format, &arguments),
        Command::Sign(arguments) => make::sign(terminal, &arguments),
        Command::Inspect(arguments) => make::inspect(terminal, format, &arguments),
        Command::Verify(arguments) => judge::verify(context, format, &arguments).await,
        Command::Install(arguments) => installed::install(context, format, &arguments).await,
        Command::List => installed::list(context).await,
        Command::Remove(arguments) => installed::remove(context, &arguments).await,
    }
}
