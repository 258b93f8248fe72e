//! `touchstone card score`: the three scores of a card, and whether they are enough.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use url::Url;

use crate::app;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::files;
use crate::domain::card::points::Points;
use crate::domain::card::signature::Endpoint;
use crate::domain::card::{Blocker, Scorecard, Shortfall, Thresholds};
use crate::ports::Clock as _;
use crate::render::card as shown;
use crate::service::cards::{Asking, Cards, Fetched, Unfetched};
use crate::system::SystemClock;

/// Octets of a file that are read: more than a card may have, so that one that is too long is told so.
const MAX_OCTETS: u64 = 16 << 20;

pub const EXAMPLES: &str = "\
A URL without a path is an agent's: its card is fetched from the well-known place. With --live
the agent is asked, which costs it one test message for each interface; without, only the key
sets that signatures name are fetched. Internal addresses are refused, but for those of
--allow-private and `agent_cards.private_targets`. A card is ready for production from
compliance 95 and trust 60, and, if the agent is asked, availability 80.

Exit codes: 0 ready for production and no threshold missed, 1 not, 2 bad input, 3 the card could
not be fetched. With --thresholds-only the named thresholds alone decide.

Examples:
  touchstone card score agent-card.json
  touchstone card score https://agents.example --live
  touchstone card score agent-card.json --min-compliance 100 --min-trust 80
  touchstone card score agent-card.json --report card.html
  touchstone card validate https://agents.example --detailed-scores --test-live
  touchstone card score http://127.0.0.1:9999 --live --allow-private 127.0.0.1:9999
  touchstone card score - --offline --min-compliance 90 --thresholds-only --json";

/// Which card, and what is enough.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The card, JSON: a file, a URL, or `-` for stdin
    #[arg(value_name = "FILE|URL")]
    card: String,
    /// Ask the agent, too: its endpoint, its interfaces, its provider's site
    #[arg(long, visible_alias = "test-live")]
    live: bool,
    /// Accepted for commands written for the scoring guide: the scores are always detailed
    #[arg(long = "detailed-scores")]
    _detailed_scores: bool,
    /// Ask nobody: a signature whose key is not trusted here is unverifiable
    #[arg(long, conflicts_with = "live")]
    offline: bool,
    /// A place in a private network that may be asked; repeat for more
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "offline")]
    allow_private: Vec<Endpoint>,
    /// The least compliance, 0 to 100
    #[arg(long, value_name = "N")]
    min_compliance: Option<Points>,
    /// The least trust
    #[arg(long, value_name = "N")]
    min_trust: Option<Points>,
    /// The least availability
    #[arg(long, value_name = "N", requires = "live")]
    min_availability: Option<Points>,
    /// Write the scores as one page of HTML
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Let --min-compliance, --min-trust and --min-availability alone decide, and not whether the card is ready for production
    #[arg(long)]
    thresholds_only: bool,
}

impl Arguments {
    const fn asking(&self) -> Asking {
        match (self.offline, self.live) {
            (true, _) => Asking::Nobody,
            (false, true) => Asking::Agent,
            (false, false) => Asking::KeySets,
        }
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds {
            compliance: self.min_compliance.unwrap_or_default(),
            trust: self.min_trust.unwrap_or_default(),
            availability: self.min_availability.unwrap_or_default(),
        }
    }

    /// The named thresholds that are missed. A card that cannot be read has no availability, which is less than any.
    fn missed(&self, scorecard: &Scorecard) -> Vec<Shortfall> {
        let mut missed = scorecard.below(&self.thresholds());
        if let (Some(least), None) = (self.min_availability, scorecard.availability.total) {
            missed.push(Shortfall {
                blocker: Blocker::Availability,
                value: Points::default(),
                least,
            });
        }
        missed
    }

    fn names_a_threshold(&self) -> bool {
        let named = [self.min_compliance, self.min_trust, self.min_availability];
        named.iter().any(Option::is_some)
    }
}

/// The scores, with the thresholds that are missed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(flatten)]
    scorecard: &'a Scorecard,
    #[serde(skip_serializing_if = "<[Shortfall]>::is_empty")]
    below_thresholds: &'a [Shortfall],
}

/// What scores cards, and may ask at these places too.
pub(super) fn reaching(context: &Context<'_>, allowed: &[Endpoint]) -> Result<Cards, Failure> {
    let mut settings = context.config()?.agent_cards;
    let named = allowed.iter().map(Endpoint::to_string);
    settings.private_targets.extend(named);
    app::cards(&settings).map_err(|fault| Failure::bad_input("configuration", fault.to_string()))
}

/// Runs the command.
pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.thresholds_only && !arguments.names_a_threshold() {
        return Err(
            Failure::usage("--thresholds-only, and no threshold is named")
                .or_try("add --min-compliance, --min-trust or --min-availability"),
        );
    }
    if let Some(file) = &arguments.report {
        let extension = file.extension().map(|it| it.to_ascii_lowercase());
        if !extension.is_some_and(|it| it == "html" || it == "htm") {
            return Err(
                Failure::usage(format!("--report writes HTML, got {}", file.display()))
                    .or_try("end the name in .html; --json prints the scores as JSON"),
            );
        }
    }
    let cards = reaching(context, &arguments.allow_private)?;
    let terminal = context.terminal();
    if arguments.live && terminal.bars() {
        terminal.note("asking the agent; that takes a minute at most");
    }
    let fetched = fetched(&cards, &arguments.card, arguments.asking()).await?;
    let fetched = fetched.map_err(|fault| unfetched(&fault))?;
    let scorecard = cards.score(fetched, arguments.asking()).await;
    let below = arguments.missed(&scorecard);
    if let Some(file) = &arguments.report {
        let unwritten = |cause: String| {
            let text = format!("{} cannot be written: {cause}", file.display());
            Failure::not_done("file_not_written", text).or_try("name another file")
        };
        let page = shown::page(&arguments.card, &scorecard, &below, SystemClock.now());
        let page = page.map_err(|cause| unwritten(cause.to_string()))?;
        std::fs::write(file, page).map_err(|cause| unwritten(cause.to_string()))?;
        terminal.note(&format!("report written to {}", file.display()));
    }
    if terminal.json() {
        terminal.document(&Document {
            scorecard: &scorecard,
            below_thresholds: &below,
        });
    } else {
        terminal.print(&shown::card(
            &arguments.card,
            &scorecard,
            &below,
            terminal.style(),
        ));
    }
    let enough = below.is_empty() && (arguments.thresholds_only || scorecard.production_ready);
    Ok(if enough { Exit::Good } else { Exit::Negative })
}

/// The URL a card is named by, unless it is a file.
fn url_of(card: &str) -> Result<Option<Url>, Failure> {
    let lower = card.to_ascii_lowercase();
    if !lower.starts_with("http://") && !lower.starts_with("https://") {
        return Ok(None);
    }
    let bad = |_| Failure::usage("the card's URL cannot be read").or_try("https://HOST/PATH");
    card.parse().map(Some).map_err(bad)
}

/// A card by its name, or why there is none, for which the caller finds words.
pub(super) async fn fetched(
    cards: &Cards,
    card: &str,
    asking: Asking,
) -> Result<Result<Fetched, Unfetched>, Failure> {
    if let Some(url) = url_of(card)? {
        if asking == Asking::Nobody {
            return Err(Failure::usage("--offline, and the card is at a URL")
                .or_try("name a file, or leave out --offline"));
        }
        return Ok(cards.fetch(&url).await);
    }
    let file = Path::new(card);
    let octets = if file == Path::new("-") {
        files::read_stdin(MAX_OCTETS)
    } else {
        files::read(file, MAX_OCTETS)
    };
    octets.map(|octets| Ok(Fetched::at_hand(octets)))
}

fn unfetched(fault: &Unfetched) -> Failure {
    let text = fault.to_string();
    let failure = match fault {
        Unfetched::Unusable => Failure::bad_input("bad_url", text),
        Unfetched::Refused => Failure::bad_input("address_blocked", text),
        _ => Failure::not_done("card_not_fetched", text),
    };
    failure.or_try(fault.remedy())
}
