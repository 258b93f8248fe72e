//! Which global options apply to which command. An option that would be ignored is refused: the
//! user of `serve --server URL` expects it to have an effect.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::cli::exit::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandTarget {
    /// A host: that of `--server`, or one in the data folder.
    Host,
    /// The same, after checking files by the configured pack rules.
    HostByRules,
    /// This machine's store, whether it is served or not.
    Store,
    /// This machine's store, which the command serves.
    Serving,
    /// Files, checked by the configured pack rules.
    FilesByRules,
    /// Files.
    Files,
    /// Files; `--key` names the key to sign or verify with.
    Signing,
    /// The same; the configuration names the place of the files.
    SigningByRules,
    /// A temporary host.
    Demo,
    /// What the configuration names, without a store.
    Configured,
}

/// The option ids, their flags and environment variables.
pub const OPTIONS: [(&str, &str, Option<&str>); 5] = [
    ("server", "--server", Some("TOUCHSTONE_SERVER")),
    ("key", "--key", Some("TOUCHSTONE_KEY")),
    ("data", "--data", None),
    ("database_url", "--database-url", None),
    ("config", "--config", Some("TOUCHSTONE_CONFIG")),
];

impl CommandTarget {
    /// Whether an option applies to the command; `remote` if `--server` is given.
    fn understands(self, option: &str, remote: bool) -> bool {
        match (option, self) {
            ("server", Self::Host | Self::HostByRules) => true,
            ("key", Self::Host | Self::HostByRules) => remote,
            ("key", Self::Signing | Self::SigningByRules) => true,
            ("data" | "database_url", Self::Host | Self::HostByRules) => !remote,
            ("data" | "database_url", Self::Store | Self::Serving) => true,
            ("config", Self::Host) => !remote,
            (
                "config",
                Self::HostByRules
                | Self::Store
                | Self::Serving
                | Self::FilesByRules
                | Self::SigningByRules
                | Self::Configured,
            ) => true,
            _ => false,
        }
    }

    /// Whether a server from the environment is as wrong as one on the command line: the user might
    /// believe that the command acts on that server.
    const fn is_here_only(self) -> bool {
        matches!(
            self,
            Self::Store | Self::Serving | Self::Demo | Self::Configured
        )
    }

    /// Why the option does not apply, and what to do.
    fn because(self, option: &str) -> (&'static str, &'static str) {
        match (self, option) {
            (Self::Host | Self::HostByRules, "key") => {
                ("it needs --server", "add --server, or omit --key")
            }
            (Self::Host | Self::HostByRules, "data" | "database_url") => (
                "with --server, the host has its own store",
                "omit it, or omit --server and unset TOUCHSTONE_SERVER",
            ),
            (Self::Host | Self::HostByRules, _) => (
                "with --server, the host has its own configuration",
                "omit it, or omit --server and unset TOUCHSTONE_SERVER",
            ),
            (Self::Store, _) => (
                "the store, its keys and its files are managed on the host itself, not over the network",
                "run this on the host with its --data or --database-url, without --server",
            ),
            (Self::Serving, "server") => (
                "a host serves its own store",
                "omit it; --listen sets the address",
            ),
            (Self::Serving, _) => (
                "a host's keys are in its store",
                "omit it; `touchstone key create` creates keys",
            ),
            (Self::Demo, "data" | "database_url") => (
                "the demo uses its own folder",
                "omit it; --keep keeps that folder",
            ),
            (Self::Demo, _) => ("the demo starts its own host", "omit it"),
            (Self::Configured, _) => ("the command has no store and calls no host", "omit it"),
            (Self::FilesByRules | Self::Files | Self::Signing | Self::SigningByRules, _) => {
                ("the command only reads files", "omit it")
            }
        }
    }
}

/// Refuses options that the command would ignore. Environment variables may be meant for other
/// commands and are accepted.
///
/// # Errors
/// The first such option, and what to do.
pub fn check(target: CommandTarget, matches: &ArgMatches) -> Result<(), Failure> {
    let remote = matches.value_source("server").is_some();
    for (id, flag, variable) in OPTIONS {
        let told = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => flag,
            Some(ValueSource::EnvVariable) if id == "server" && target.is_here_only() => {
                variable.unwrap_or(flag)
            }
            _ => continue,
        };
        if target.understands(id, remote) {
            continue;
        }
        let (why, instead) = target.because(id);
        let failure = Failure::usage(format!(
            "{told} does not apply to `{}`: {why}",
            name(matches)
        ));
        return Err(match variable.filter(|variable| *variable == told) {
            Some(variable) => failure.or_try(format!("unset {variable}")),
            None => failure.or_try(instead),
        });
    }
    Ok(())
}

/// The command as typed.
fn name(matches: &ArgMatches) -> String {
    let mut name = "touchstone".to_owned();
    let mut at = matches;
    while let Some((subcommand, below)) = at.subcommand() {
        name.push(' ');
        name.push_str(subcommand);
        at = below;
    }
    name
}
