//! `touchstone run statistics`: confidence intervals and significance of scores.

use crate::cli::output::print_result;
use crate::cli::run::RunArgument;
use crate::render::statistics::statistics;
use crate::rules::eval::statistics::Statistics;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::statistics::GateVerdict;

pub async fn run(context: &Context<'_>, arguments: &RunArgument) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!("/v1/host/touchstone/runs/{}/statistics", arguments.run);
    let found: Statistics = session.client().get(&path).await?;
    let terminal = context.terminal();
    print_result(terminal, &found, || statistics(&found, terminal.colors()));
    Ok(exit_of(found.gate.verdict))
}

pub fn exit_of(verdict: GateVerdict) -> Exit {
    match verdict {
        GateVerdict::Pass => Exit::Good,
        GateVerdict::Fail => Exit::Negative,
        GateVerdict::Inconclusive => Exit::Inconclusive,
    }
}
