//! `touchstone run diff`: compare two runs event by event.

use clap::Args;

use crate::cli::output::print_result;
use crate::cli::run::run_id;
use crate::render::diff::diff;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_openwop::diff::RunDiff;

#[derive(Debug, Args)]
pub struct Diff {
    /// First run, by its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "A", value_parser = run_id)]
    pub(super) a: String,
    /// Second run
    #[arg(value_name = "B", value_parser = run_id)]
    pub(super) b: String,
}

pub async fn run(context: &Context<'_>, arguments: &Diff) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!("/v1/runs/{}:diff?against={}", arguments.a, arguments.b);
    let found: RunDiff = session.client().get(&path).await?;
    let terminal = context.terminal();
    print_result(terminal, &found, || diff(&found, terminal.colors()));
    let same = found.diverged_at_seq.is_none() && found.state_diff.is_empty();
    Ok(if same { Exit::Good } else { Exit::Negative })
}
