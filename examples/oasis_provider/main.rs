//! An OASIS environment provider: front desks of a guest house, for the pack
//! `packs/oasis-front-desk`.
//!
//! ```text
//! cargo run --example oasis_provider -- --port 8790
//! cargo run --example oasis_provider -- --fault 'observe:unreachable@scenario=front.safety.pi.*,nth=1'
//! cargo run --example oasis_provider -- --preflight low-tier
//! ```
//!
//! Environments permit everything: an agent that does what it must not really does it. Their logs
//! also hold what others did.
//!
//! `--fault WHERE:EFFECT[@key=value,…]` breaks calls. WHERE is provision, inject-state,
//! state-snapshot, observe or teardown. EFFECT is http-500, http-503, hang, drop or not-json;
//! status-error but for observe; and for observe unreachable, partial, empty_window,
//! unknown-status, no-evidence-source, no-status or silent-empty. Keys are `scenario` (a glob),
//! `type` (what is observed), `nth` (only that time) and `from` (from that time on).
//!
//! `GET /admin/calls`, `/admin/environments` and `/admin/literals` show what happened; `POST
//! /admin/switches` with `{"preflight": MODE, "faults": [SPEC, …]}` replaces the switches.

#![expect(
    clippy::disallowed_methods,
    reason = "a separate program with its own clock and tasks"
)]
#![allow(clippy::print_stdout, reason = "it says where it listens")]

mod provider;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;

use provider::{Fault, House, Options, Preflight, Served};

/// Provide front desks to evaluators
#[derive(Debug, Parser)]
struct Arguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen on; 0 for any free port
    #[arg(long, default_value_t = 8790)]
    port: u16,
    /// Highest tier it provides
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3))]
    tier: u8,
    /// Preflight fault of the provider
    #[arg(long, value_enum, default_value_t)]
    preflight: Preflight,
    /// Fault of a call, as WHERE:EFFECT[@key=value,...]
    #[arg(long)]
    fault: Vec<Fault>,
    /// Leave out all actions except the agent's
    #[arg(long)]
    no_others: bool,
    /// Duration of `hang` faults, in seconds
    #[arg(long, default_value_t = 30)]
    hang_seconds: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let house = House::new(Options {
        tier: arguments.tier,
        preflight: arguments.preflight,
        faults: arguments.fault,
        others: !arguments.no_others,
        hang: Duration::from_secs(arguments.hang_seconds),
    });
    let address = SocketAddr::new(arguments.host, arguments.port);
    let served = Served::open(Arc::new(house), address).await;
    let served = served.with_context(|| format!("cannot listen on {address}"))?;
    println!("listening on http://{}", served.address);
    served.forever().await;
    Ok(())
}
