//! `touchstone rating dimensions`: compare dimensions across all agents.

use clap::Args;
use serde_json::json;

use crate::cli::manage::{get, show};
use crate::render::dimensions;
use crate::render::dimensions::Dimensions;
use crate::rules::Dimension;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::terminal::Terminal;

const EXAMPLES: &str = "\
Lists the scores of every active agent's latest rating by dimension. Dimensions are sorted by mean
score and agents by score, lowest first.

Exit codes: 0 shown, 2 bad input, 3 could not complete.

Examples:
  touchstone rating dimensions
  touchstone rating dimensions --dimension accuracy --json";

/// Compare the scores of all agents in each dimension, lowest first
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Show only this dimension
    #[arg(long, value_name = "DIMENSION", value_parser = crate::cli::dimension)]
    dimension: Option<Dimension>,
}

pub async fn run(
    client: &Client,
    terminal: &Terminal,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let mut found: Dimensions = get(client, "dimensions").await?;
    if let Some(only) = arguments.dimension {
        found.dimensions.retain(|it| it.dimension == only);
    }
    if terminal.json() {
        show(terminal, json!(found));
        return Ok(());
    }
    let text = dimensions::dimensions(&found, terminal.style());
    terminal.print(text.trim_end());
    Ok(())
}
