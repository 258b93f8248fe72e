//! `touchstone doctor`: check the installation of a host.

mod archive;
mod cluster;
mod database;
mod endpoints;
mod finding;
mod keys;
mod machine;
mod settings;

use clap::Args;

use crate::cli::doctor::finding::{Area, Finding, Report};
use crate::cli::embedded;
use crate::config;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::shell::quoted;

const EXAMPLES: &str = "\
Checks the configuration, the database, the keys, the clock, the endpoints, the archive, the NATS
servers, the disk and the limits of this machine. It calls no model and prints no secret. It writes one row to test whether
the database accepts writes, and one small object to test whether runs can be archived. Without queues at
the NATS servers, it creates and deletes a stream. It reads the whole database file, so it takes a
while if that is large. Run it as the user of the host, with the host's environment; the host may be running.
Remedies name a database URL with a password as $TOUCHSTONE_DATABASE_URL.

Exit codes: 0 no failure, although there may be warnings; 1 at least one failure; 2 bad usage;
3 could not complete.

Examples:
  touchstone doctor
  touchstone doctor --json --data /var/lib/touchstone
  touchstone doctor --config /etc/touchstone/touchstone.toml";

/// Check the configuration, database, keys, endpoints and machine of a host
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {}

pub async fn run(context: &Context<'_>, _: Arguments) -> Result<Exit, Failure> {
    let mut found = Vec::new();
    ignored_variables(&mut found);
    match embedded::config(context.global()) {
        Ok(config) => {
            let program = context.program();
            found.push(Finding::ok(Area::Configuration, file(context)));
            found.extend(settings::contradictions(&config));
            machine::check(&config, &mut found);
            endpoints::check(&config, &mut found).await;
            archive::check(&config, &mut found).await;
            cluster::check(&config.cluster, &mut found).await;
            // Before the database is opened, which corrects permissions.
            let folder = folder(&config);
            found.extend(folder);
            let store = database::check(&config, &program, &mut found).await;
            keys::check(&config, store.as_deref(), &program, &mut found).await;
        }
        Err(failure) => found.push(Finding::failure(
            Area::Configuration,
            failure.message,
            failure.remedy.unwrap_or_default(),
        )),
    }
    let report = Report::new(found);
    let terminal = context.terminal();
    match terminal.json() {
        true => terminal.document(&report.document()),
        false => report.print(terminal),
    }
    Ok(match report.has_failures() {
        true => Exit::Negative,
        false => Exit::Good,
    })
}

fn file(context: &Context<'_>) -> String {
    match embedded::config_file(context.global()) {
        Some(file) => format!("{} is valid", file.display()),
        None => "no configuration file; the defaults apply".to_owned(),
    }
}

/// Variables that are named like settings but have no effect.
fn ignored_variables(found: &mut Vec<Finding>) {
    for name in config::ignored_variables(std::env::vars_os()) {
        found.push(Finding::warning(
            Area::Configuration,
            format!("the environment variable {name} has no effect: it is not a setting"),
            "correct its name; docs/configuration.md lists the variables",
        ));
    }
}

fn folder(config: &config::Config) -> Option<Finding> {
    let data = &config.data;
    touchstone_host::system::private_files::is_open_to_others(data).then(|| {
        Finding::warning(
            Area::Database,
            format!("other users can read the data folder {}", data.display()),
            format!("chmod 700 {}", quoted(&data.display().to_string())),
        )
    })
}
