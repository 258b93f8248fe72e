//! `touchstone card`: agent cards, before their agents are let near anything.

mod rank;
mod score;
mod watched;

use clap::Subcommand;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::reach::Reach;

/// Look at agent cards (A2A)
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone card score agent-card.json\n  touchstone card score https://agents.example --live\n  touchstone card rank a.json https://agents.example\n  touchstone card watch https://agents.example --every-hours 6 --live\n  touchstone card history https://agents.example"
)]
pub enum Command {
    /// Score a card on three axes: spec compliance, trust, availability
    #[command(visible_alias = "validate", after_help = score::EXAMPLES)]
    Score(Box<score::Arguments>),
    /// Rank several cards by the weighted mean of their scores
    #[command(after_help = rank::EXAMPLES)]
    Rank(rank::Arguments),
    /// Have the host look at a card again and again, and tell when a score drops to a lower band or below a threshold
    #[command(
        after_help = "Who is told: webhooks of the tenant's organization that take agent_card.score_dropped or\nagent_card.below_threshold. A threshold is told of when it is crossed, and at the first look.\n\nExit codes: 0 watched, 2 the URL is refused, 3 no host.\n\nExamples:\n  touchstone card watch https://agents.example --every-hours 6 --live\n  touchstone card watch https://agents.example --alert-trust 80 --alert-compliance 95"
    )]
    Watch(watched::Watch),
    /// Have it look no more; what it has seen stays
    #[command(
        after_help = "Exit codes: 0 not watched any more, 2 it was not watched, 3 no host.\n\nExamples:\n  touchstone card unwatch https://agents.example"
    )]
    Unwatch(watched::Which),
    /// List the cards that are watched
    #[command(after_help = "Examples:\n  touchstone card watched")]
    Watched,
    /// What a card has scored at the host, newest first
    #[command(after_help = "Examples:\n  touchstone card history https://agents.example")]
    History(watched::Which),
}

impl Command {
    /// What the command works on.
    pub const fn reach(&self) -> Reach {
        match self {
            Self::Score(_) | Self::Rank(_) => Reach::FilesByRules,
            Self::Watch(_) | Self::Unwatch(_) | Self::Watched | Self::History(_) => Reach::Host,
        }
    }
}

/// Runs the command.
pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Score(arguments) => score::run(context, &arguments).await,
        Command::Rank(arguments) => rank::run(context, &arguments).await,
        Command::Watch(arguments) => watched::watch(context, &arguments).await,
        Command::Unwatch(arguments) => watched::unwatch(context, &arguments).await,
        Command::Watched => watched::watched(context).await,
        Command::History(arguments) => watched::history(context, &arguments).await,
    }
}
