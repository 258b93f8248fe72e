//! `touchstone demo`
use clap::Args;
use super::context::Context;
use super::exit::{Exit, Failure};
/// See a whole evaluation in a few seconds
#[derive(Debug, Args)]
pub struct Arguments {}
/// Runs the command.
pub async fn run(_context: &Context<'_>, _arguments: Arguments) -> Result<Exit, Failure> { Ok(Exit::Good) }
