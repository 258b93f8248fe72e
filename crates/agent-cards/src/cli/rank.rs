//! `touchstone card rank`: rank cards by one weighted score.

use clap::Args;
use futures_util::future::join_all;

use crate::cli::score::{fetched, reaching};
use crate::render as shown;
use crate::rules::ranking::{Ranking, Weights};
use crate::service::ContactPolicy;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::network::Endpoint;

/// Maximum number of cards.
const MOST: usize = 100;
/// Maximum number of cards fetched and scored at the same time.
const AT_ONCE: usize = 8;

pub const EXAMPLES: &str = "\
The score is the weighted mean of compliance, trust and availability. Without --live, an agent
has no availability, which counts as 0: use --live, or give availability no weight. Equal scores
share a rank.

Exit codes: 0 every card is ranked, 2 bad input, 3 no card could be fetched, 4 some cards could
not be fetched.

Examples:
  touchstone card rank https://one.example https://two.example --live
  touchstone card rank a.json b.json c.json --weights compliance=1,trust=1
  touchstone card rank a.json https://two.example --json";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Cards: JSON files and URLs
    #[arg(value_name = "FILE|URL", required = true)]
    cards: Vec<String>,
    /// Weight of each dimension, 0 to 100; dimensions that are not listed have weight 0 [default:
    /// compliance=0.3,trust=0.5,availability=0.2]
    #[arg(long, value_name = "DIMENSION=N,…")]
    weights: Option<Weights>,
    /// Probe the agents too: endpoints, interfaces and provider sites
    #[arg(long)]
    live: bool,
    /// Make no network requests; signatures by keys that are not trusted locally are unverifiable
    #[arg(long, conflicts_with = "live")]
    offline: bool,
    /// Private network address that may be contacted; repeat for several
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "offline")]
    allow_private: Vec<Endpoint>,
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.cards.len() > MOST {
        return Err(Failure::usage(format!(
            "at most {MOST} cards can be ranked together, got {}",
            arguments.cards.len()
        )));
    }
    let contact = match (arguments.offline, arguments.live) {
        (true, _) => ContactPolicy::Offline,
        (false, true) => ContactPolicy::Agent,
        (false, false) => ContactPolicy::KeySets,
    };
    let cards = reaching(context, &arguments.allow_private)?;
    let terminal = context.terminal();
    if arguments.live && terminal.bars() {
        terminal.note("probing the agents; this takes up to a minute for every eight");
    }
    let mut candidates = Vec::new();
    for some in arguments.cards.chunks(AT_ONCE) {
        let cards = &cards;
        let scored = some.iter().map(|card| async move {
            let scored = match fetched(cards, card, contact).await? {
                Ok(fetched) => Ok(cards.score(fetched, contact).await),
                Err(fault) => Err(format!("{fault}; {}", fault.remedy())),
            };
            Ok::<_, Failure>(scored)
        });
        for (card, scored) in some.iter().zip(join_all(scored).await) {
            candidates.push((card.clone(), scored?));
        }
    }
    let ranking = Ranking::of(arguments.weights.unwrap_or_default(), candidates);
    if let ([], [first, ..]) = (&*ranking.ranking, &*ranking.unranked) {
        let text = format!("no card could be fetched; {}: {}", first.card, first.fault);
        return Err(Failure::not_done("card_not_fetched", text));
    }
    if terminal.json() {
        terminal.document(&ranking);
    } else {
        terminal.print(&shown::ranking(&ranking, terminal.style()));
    }
    Ok(if ranking.unranked.is_empty() {
        Exit::Good
    } else {
        Exit::Inconclusive
    })
}
