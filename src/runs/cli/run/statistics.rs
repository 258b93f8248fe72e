//! `touchstone run statistics`: confidence intervals and significance of scores.

use clap::Args;

use crate::host::cli::context::Context;
use crate::host::cli::exit::{Exit, Failure};
use crate::runs::cli::run::run_id;
use crate::runs::render::statistics::statistics;
use touchstone_kit::statistics::GateVerdict;
use touchstone_runs::rules::eval::statistics::Statistics;

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
