//! `touchstone card`: agent cards, before their agents are let near anything.

mod score;

use clap::Subcommand;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::reach::Reach;

/// Look at agent cards (A2A)
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone card score agent-card.json\n  touchstone card score https://agents.example --live"
)]
pub enum Command {
    /// Score a card on three axes: spec compliance, trust, availability
    #[command(after_help = score::EXAMPLES)]
    Score(Box<score::Arguments>),
}

impl Command {
    /// What the command works on.
    pub const fn reach(&self) -> Reach {
        match self {
            Self::Score(_) => Reach::FilesByRules,
        }
    }
}

/// Runs the command.
pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Score(arguments) => score::run(context, &arguments).await,
    }
}
