//! `touchstone cluster credentials`: the key and the permissions of a NATS user.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::cli::embedded;
use crate::cli::worker::{name, pool};
use touchstone_cluster::nats::keys::{self, KeyError};
use touchstone_cluster::rules::access::permissions::{Permissions, ServerUser};
use touchstone_cluster::rules::access::pools::Pool;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Prints a user for the list `users` in the configuration of a NATS server. If the file of --out
exists, its key is used. Otherwise the seed of a new key is written to it, and only you can read it.
The worker gets the file as `nkey_file`. With these permissions, a worker can take only tasks of its
pools, send messages only in its own name, and read only what is sent to it. For users with a JWT,
give them the same subjects.

Examples:
  touchstone cluster credentials --host
  touchstone cluster credentials --worker gpu-1
  touchstone cluster credentials --worker gpu-2 --pool acme --out keys/gpu-2.nk";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Name of the worker that gets the credentials, as in `touchstone worker --name`
    #[arg(long, value_name = "NAME", value_parser = name, required_unless_present = "host", conflicts_with = "host")]
    worker: Option<String>,

    /// Create the credentials of hosts. All replicas can have the same
    #[arg(long)]
    host: bool,

    /// Pool whose tasks the worker may take or the host offers; can be repeated [default: `shared` for workers; `shared` and `[[cluster.pools]]` of the configuration for hosts]
    #[arg(long = "pool", value_name = "POOL", value_parser = pool)]
    pools: Vec<Pool>,

    /// File with the seed of the key; its key is used if it exists, and created otherwise [default: NAME.nk, or host.nk]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(context: &Context<'_>, arguments: Arguments) -> Result<Exit, Failure> {
    let (name, permissions) = match &arguments.worker {
        Some(worker) => {
            let shared = vec![Pool::shared()];
            let pools = Some(arguments.pools).filter(|pools| !pools.is_empty());
            let permissions = Permissions::of_worker(worker, &pools.unwrap_or(shared));
            (worker.as_str(), permissions)
        }
        None => {
            let pools = match arguments.pools.is_empty() {
                true => embedded::config(context.global())?.cluster.pools.all(),
                false => arguments.pools,
            };
            ("host", Permissions::of_host(&pools))
        }
    };
    let file = arguments.out;
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{name}.nk")));
    let key = match keys::create(&file) {
        Err(KeyError::Exists(_)) => keys::public(&file).map_err(|fault| {
            Failure::bad_input("unreadable", fault.to_string())
                .or_try("name another file with --out, or remove it to create a key")
        })?,
        created => created.map_err(|fault| Failure::bad_input("unwritable", fault.to_string()))?,
    };
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "name": name, "publicKey": key, "keyFile": file, "permissions": permissions
        }));
        return Ok(Exit::Good);
    }
    let (key, permissions) = (&*key, &permissions);
    let user = ServerUser { key, permissions };
    terminal.print(&format!("# {name}\n{user}"));
    terminal.note(&format!(
        "add the user to `users` of the NATS server, and set `nkey_file` to {} (keep it secret)",
        file.display()
    ));
    Ok(Exit::Good)
}
