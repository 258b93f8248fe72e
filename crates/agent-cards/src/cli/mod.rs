//! `touchstone card`: score and watch agent cards.

pub mod rank;
pub mod score;
pub mod watched;

use clap::Subcommand;

use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

/// Score, rank and watch agent cards (A2A)
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
    /// Have the host score a card at intervals, and alert when a score drops to a lower band or
    /// below a threshold
    #[command(
        after_help = "Alerts go to webhooks of the tenant's organization that subscribe to agent_card.score_dropped or agent_card.below_threshold. The latter is sent when a score crosses the threshold, and after the first check.\n\nExit codes: 0 watched, 2 the URL is refused, 3 no host.\n\nExamples:\n  touchstone card watch https://agents.example --every-hours 6 --live\n  touchstone card watch https://agents.example --alert-trust 80 \\\n    --alert-compliance 95"
    )]
    Watch(watched::Watch),
    /// Stop watching a card; its history remains
    #[command(
        after_help = "Exit codes: 0 stopped, 2 the card was not watched, 3 no host.\n\nExamples:\n  touchstone card unwatch https://agents.example"
    )]
    Unwatch(watched::CardAddress),
    /// List watched cards
    #[command(after_help = "Examples:\n  touchstone card watched")]
    Watched,
    /// List the scores recorded for a card, newest first
    #[command(after_help = "Examples:\n  touchstone card history https://agents.example")]
    History(watched::CardAddress),
}

impl Command {
    pub const fn target(&self) -> CommandTarget {
        match self {
            Self::Score(_) | Self::Rank(_) => CommandTarget::FilesByRules,
            Self::Watch(_) | Self::Unwatch(_) | Self::Watched | Self::History(_) => {
                CommandTarget::Host
            }
        }
    }
}

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
