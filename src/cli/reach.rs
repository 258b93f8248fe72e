//! Which of the options for every command mean something to which command. One that would be ignored is refused: whoever
//! writes `serve --server URL` expects something of it.

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::exit::Failure;

/// What a command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A host: that of `--server`, or one in the data folder.
    Host,
    /// The same, after a look at files by the configured rules of packs.
    HostByRules,
    /// This machine's store, whether it is served or not.
    Store,
    /// This machine's store, which it serves.
    Serving,
    /// Files, by the configured rules of packs.
    FilesByRules,
    /// Files.
    Files,
    /// Files, with a key to sign or verify with that `--key` names here.
    Signing,
    /// A host of its own, gone afterwards.
    Demo,
}

/// The options, by their ids, and where else a value may come from.
pub const OPTIONS: [(&str, &str, Option<&str>); 5] = [
    ("server", "--server", Some("TOUCHSTONE_SERVER")),
    ("key", "--key", Some("TOUCHSTONE_KEY")),
    ("data", "--data", None),
    ("database_url", "--database-url", None),
    ("config", "--config", Some("TOUCHSTONE_CONFIG")),
];

impl Reach {
    /// Whether an option means something to the command, given whether it is about the host of `--server`.
    fn understands(self, option: &str, remote: bool) -> bool {
        match (option, self) {
            ("server", Self::Host | Self::HostByRules) => true,
            ("key", Self::Host | Self::HostByRules) => remote,
            ("key", Self::Signing) => true,
            ("data" | "database_url", Self::Host | Self::HostByRules) => !remote,
            ("data" | "database_url", Self::Store | Self::Serving) => true,
            ("config", Self::Host) => !remote,
            ("config", Self::HostByRules | Self::Store | Self::Serving | Self::FilesByRules) => {
                true
            }
            _ => false,
        }
    }

    /// Whether a host named by the environment is as wrong as one named on the command line: what such a command does
    /// here, somebody may believe to be done there.
    const fn is_here_only(self) -> bool {
        matches!(self, Self::Store | Self::Serving | Self::Demo)
    }

    /// Why the option means nothing, and what to do.
    fn because(self, option: &str) -> (&'static str, &'static str) {
        match (self, option) {
            (Self::Host | Self::HostByRules, "key") => (
                "it is for a host, and none is named by --server",
                "add --server, or leave out --key",
            ),
            (Self::Host | Self::HostByRules, "data" | "database_url") => (
                "with --server, the host has its own store",
                "leave it out, or leave out --server and unset TOUCHSTONE_SERVER",
            ),
            (Self::Host | Self::HostByRules, _) => (
                "with --server, the host has its own configuration",
                "leave it out, or leave out --server and unset TOUCHSTONE_SERVER",
            ),
            (Self::Store, _) => (
                "keys are made where the host's store is, not over the network",
                "run this on the host with its --data or --database-url, without --server",
            ),
            (Self::Serving, "server") => (
                "a host serves its own store",
                "leave it out; --listen says where to serve",
            ),
            (Self::Serving, _) => (
                "a host's keys are in its store",
                "leave it out; `touchstone key create` makes one",
            ),
            (Self::Demo, "data" | "database_url") => (
                "the demo works in a folder of its own",
                "leave it out; --keep keeps that folder",
            ),
            (Self::Demo, _) => ("the demo starts a host of its own", "leave it out"),
            (Self::FilesByRules | Self::Files | Self::Signing, _) => {
                ("the command looks at files only", "leave it out")
            }
        }
    }
}

/// Refuses options that the command would ignore. What stands in the environment is meant for other commands, too, and is
/// no mistake.
///
/// # Errors
/// The first such option, and what to do about it.
pub fn check(reach: Reach, matches: &ArgMatches) -> Result<(), Failure> {
    let remote = matches.value_source("server").is_some();
    for (id, flag, variable) in OPTIONS {
        let told = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => flag,
            Some(ValueSource::EnvVariable) if id == "server" && reach.is_here_only() => {
                variable.unwrap_or(flag)
            }
            _ => continue,
        };
        if reach.understands(id, remote) {
            continue;
        }
        let (why, instead) = reach.because(id);
        let failure = Failure::usage(format!(
            "{told} means nothing to `{}`: {why}",
            name(matches)
        ));
        return Err(match variable.filter(|variable| *variable == told) {
            Some(variable) => failure.or_try(format!("unset {variable}")),
            None => failure.or_try(instead),
        });
    }
    Ok(())
}

/// The command as it is typed.
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
