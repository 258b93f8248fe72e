//! The command line: one file per subcommand.
//!
//! Every command that reads runs, suites or packs calls the HTTP API through one
//! [`Client`](touchstone_host::cli::client::Client): that of the host named by `--server`, or of a
//! host built in this process over the data folder. Both use the same code path. The `render`
//! module of a feature renders its output; [`Exit`] lists the exit codes.

pub mod attest;
pub mod backup;
pub mod cluster;
pub mod demo;
pub mod doctor;
pub mod embedded;
pub mod gate;
pub mod health;
pub mod key;
pub mod restore;
pub mod serve;
pub mod shell;
pub mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cli::embedded::AppHost;
use crate::kinds::{KINDS, PACK_FORMAT};
use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::options::Global;
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::otlp::{self, span};
use touchstone_host::telemetry::{LogFormat, init_logs};
use touchstone_kit::headers::trace_context::TraceContext;

const ABOUT: &str =
    "Is this agent good enough to deploy? Evaluates OpenWOP agent packs and hosts the runs.";

const AFTER_HELP: &str = "\
Exit codes:
    0  good: done, and the verdict, if any, is positive
    1  the verdict is negative
    2  bad input or usage
    3  could not complete: an infrastructure error
    4  inconclusive: some tasks are unjudged, or there are too few tasks for a verdict or rating

Aliases: enroll, collect, assess, stress-test, report and badge, as the AAAF specification prints
them, for `rating enroll` and so on; verify for `attest verify`.

Examples:
  touchstone demo                     run a complete evaluation in seconds
  touchstone eval vendor.acme.evals.triage@1.0.0 \\
    --agent vendor.acme.triage.default
  touchstone serve --listen 127.0.0.1:7800
  touchstone --server http://127.0.0.1:7800 run show run_0199c0de";

#[derive(Debug, Parser)]
#[command(name = "touchstone", version, about = ABOUT, after_help = AFTER_HELP, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    Eval(Box<touchstone_runs::cli::eval::Arguments>),
    Matrix(Box<touchstone_runs::cli::eval::matrix::Matrix>),
    Compare(touchstone_runs::cli::compare::Arguments),
    #[command(subcommand)]
    Run(Box<touchstone_runs::cli::run::Command>),
    #[command(subcommand)]
    Archive(touchstone_runs::cli::archive::Command),
    #[command(subcommand)]
    Pack(touchstone_packs::cli::Command),
    #[command(subcommand)]
    Suite(touchstone_runs::cli::suite::Command),
    #[command(subcommand)]
    Judge(touchstone_runs::cli::judge::Command),
    #[command(subcommand)]
    Model(touchstone_agents::cli::prices::Command),
    #[command(subcommand)]
    Gate(gate::Command),
    #[command(subcommand)]
    Deploy(touchstone_deployments::cli::deploy::Command),
    #[command(subcommand)]
    Rating(touchstone_ratings::cli::Command),
    #[command(flatten)]
    RatingAlias(touchstone_ratings::cli::Alias),
    Attest(attest::Arguments),
    // The earlier name of `attest verify`.
    #[command(hide = true)]
    Verify(attest::verify::Arguments),
    #[command(subcommand)]
    Card(touchstone_agent_cards::cli::Command),
    #[command(subcommand)]
    Oasis(touchstone_oasis::cli::Command),
    #[command(subcommand)]
    Audit(touchstone_host::cli::audit::Command),
    #[command(subcommand)]
    Key(key::Command),
    #[command(subcommand)]
    Webhook(touchstone_runs::cli::webhook::Command),
    Serve(serve::Arguments),
    Worker(worker::Arguments),
    #[command(subcommand)]
    Cluster(cluster::Command),
    Health(health::Arguments),
    Doctor(doctor::Arguments),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    Completions(shell::Completions),
    Man(shell::Man),
}

impl Command {
    fn target(&self) -> CommandTarget {
        match self {
            Self::Demo(_) => CommandTarget::Demo,
            Self::Serve(_) => CommandTarget::Serving,
            Self::Worker(_) => CommandTarget::Configured,
            Self::Key(_) | Self::Doctor(_) | Self::Backup(_) | Self::Restore(_) => {
                CommandTarget::Store
            }
            Self::Verify(_) => CommandTarget::Signing,
            Self::Attest(arguments) => arguments.target(),
            Self::Archive(command) => command.target(),
            Self::Model(command) => command.target(),
            Self::Pack(command) => command.target(),
            Self::Suite(command) => command.target(),
            Self::Rating(command) => command.target(),
            Self::RatingAlias(alias) => alias.target(),
            Self::Card(command) => command.target(),
            Self::Oasis(command) => command.target(),
            Self::Completions(_) | Self::Man(_) => CommandTarget::Files,
            _ => CommandTarget::Host,
        }
    }
}

/// Runs the command line and returns the documented exit code.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let (cli, matches) = match parsed(arguments) {
        Ok(parsed) => parsed,
        Err(error) => return unparsed(&error, json),
    };
    let terminal = Terminal::new(cli.global.json, cli.global.no_color);
    let sensible = touchstone_host::cli::command_target::check(cli.command.target(), &matches);
    let outcome = sensible.and_then(|()| runtime()).and_then(|runtime| {
        let outcome = runtime.block_on(async {
            let outcome = span::within(caller(&cli.command), dispatch(cli, &terminal)).await;
            otlp::shutdown().await;
            outcome
        });
        // Work that is still running has no client waiting for it; its leases are released or
        // expire.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            terminal.failure(&failure);
            failure.exit.into()
        }
    }
}

/// The trace that the command belongs to, as the environment names it: its runs continue the trace.
/// The requests that a host serves have traces of their own.
fn caller(command: &Command) -> Option<span::Place> {
    if matches!(command, Command::Serve(_) | Command::Worker(_)) {
        return None;
    }
    let parent = std::env::var("TRACEPARENT").ok()?;
    let state = std::env::var("TRACESTATE").ok();
    TraceContext::parse(&parent, state.as_deref()).map(span::forwarding)
}

/// The parsed command line, with clap's matches: only they distinguish arguments from environment
/// variables.
fn parsed(arguments: Vec<OsString>) -> Result<(Cli, ArgMatches), clap::Error> {
    let mut command = Cli::command();
    for (option, _, variable) in touchstone_host::cli::command_target::OPTIONS {
        // An environment variable set to the empty string counts as unset.
        let empty = |name: &str| std::env::var_os(name).is_some_and(|value| value.is_empty());
        if variable.is_some_and(empty) {
            command = command.mut_arg(option, |argument| argument.env(None));
        }
    }
    let matches = command.try_get_matches_from(arguments)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))?;
    Ok((cli, matches))
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|cause| {
            Failure::not_done(
                "runtime_failed",
                format!("could not start the async runtime: {cause}"),
            )
        })
}

async fn dispatch(cli: Cli, terminal: &Terminal) -> Result<Exit, Failure> {
    if !matches!(cli.command, Command::Serve(_) | Command::Worker(_)) {
        init_logs(LogFormat::Text, "error");
    }
    let context = Context::new(cli.global, terminal, &AppHost);
    match cli.command {
        Command::Demo(arguments) => demo::run(&context, arguments).await,
        Command::Eval(arguments) => {
            let read = attest::baseline;
            touchstone_runs::cli::eval::run(&context, KINDS, PACK_FORMAT, read, *arguments).await
        }
        Command::Matrix(arguments) => {
            touchstone_runs::cli::eval::matrix::run(&context, PACK_FORMAT, *arguments).await
        }
        Command::Compare(arguments) => {
            touchstone_runs::cli::compare::run(&context, attest::baseline, arguments).await
        }
        Command::Run(command) => touchstone_runs::cli::run::run(&context, KINDS, *command).await,
        Command::Archive(command) => {
            touchstone_runs::cli::archive::run(&context, KINDS, command).await
        }
        Command::Pack(command) => touchstone_packs::cli::run(&context, PACK_FORMAT, command).await,
        Command::Suite(command) => touchstone_runs::cli::suite::run(&context, KINDS, command).await,
        Command::Judge(command) => touchstone_runs::cli::judge::run(&context, command).await,
        Command::Model(command) => touchstone_agents::cli::prices::run(&context, &command),
        Command::Gate(command) => gate::run(&context, command).await,
        Command::Deploy(command) => {
            touchstone_deployments::cli::deploy::run(&context, command).await
        }
        Command::Rating(command) => touchstone_ratings::cli::run(&context, command).await,
        Command::RatingAlias(alias) => touchstone_ratings::cli::run(&context, alias.into()).await,
        Command::Attest(arguments) => attest::run(&context, arguments).await,
        Command::Verify(arguments) => attest::verify::run(&context, &arguments),
        Command::Card(command) => touchstone_agent_cards::cli::run(&context, command).await,
        Command::Oasis(command) => touchstone_oasis::cli::run(&context, command).await,
        Command::Audit(command) => touchstone_host::cli::audit::run(&context, command).await,
        Command::Key(command) => key::run(&context, command).await,
        Command::Webhook(command) => touchstone_runs::cli::webhook::run(&context, command).await,
        Command::Serve(arguments) => serve::run(&context, arguments).await,
        Command::Worker(arguments) => worker::run(&context, arguments).await,
        Command::Cluster(command) => cluster::run(&context, command).await,
        Command::Health(arguments) => health::run(&context, arguments).await,
        Command::Doctor(arguments) => doctor::run(&context, arguments).await,
        Command::Backup(arguments) => backup::run(&context, arguments).await,
        Command::Restore(arguments) => restore::run(&context, arguments).await,
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
    }
}

/// Prints help, version or a usage error. With `--json`, a usage error is an error document like
/// any other.
fn unparsed(error: &clap::Error, json: bool) -> ExitCode {
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if json && !asked_for {
        let text = error.to_string();
        let message = text.lines().next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let failure = Failure::usage(message.to_owned()).or_try("touchstone --help");
        Terminal::new(true, true).failure(&failure);
        return Exit::BadInput.into();
    }
    // Printing fails only when the terminal is closed; nothing can be done about that.
    let _ = error.print();
    if asked_for {
        Exit::Good.into()
    } else {
        Exit::BadInput.into()
    }
}
