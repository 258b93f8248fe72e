//! `touchstone run statistics`: confidence intervals and significance of scores.

use clap::Args;

use crate::cli::run::run_id;
use crate::render::statistics::statistics;
use crate::rules::eval::statistics::Statistics;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::statistics::GateVerdict;

#[derive(Debug, Args)]
pub struct Which {
    /// Run id
    #[arg(value_name = "RUN", value_parser = run_id)]
    run: String,
}

pub async fn run(context: &Context<'_>, arguments: &Which) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let path = format!("/v1/host/touchstone/runs/{}/statistics", arguments.run);
    let found: Statistics = session.client().get(&path).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&found);
    } else {
        terminal.print(&statistics(&found, terminal.ink()));
    }
    Ok(exit_of(found.gate.verdict))
}

pub fn exit_of(verdict: GateVerdict) -> Exit {
    match verdict {
        GateVerdict::Pass => Exit::Good,
        GateVerdict::Fail => Exit::Negative,
        GateVerdict::Inconclusive => Exit::Inconclusive,
    }
}
