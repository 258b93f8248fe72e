//! `touchstone card score`: the three scores of a card, and whether they suffice.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use url::Url;

use crate::config::AgentCardSettings;
use crate::render as shown;
use crate::rules::points::Points;
use crate::rules::{Blocker, Scorecard, Shortfall, Thresholds};
use crate::service::fetch::{Fetched, Unfetched};
use crate::service::{Cards, ContactPolicy};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::files;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;
use touchstone_kit::network::Endpoint;

/// Maximum number of bytes read from a file. Above the size limit of a card, so that the scorer
/// reports a card that is too large.
const MAX_OCTETS: u64 = 16 << 20;

pub const EXAMPLES: &str = "\
For a URL without a path, the card is fetched from the well-known location. With --live the
agent is probed, which costs one test message per interface; otherwise only the key sets that
signatures refer to are fetched. Private addresses are refused, except those of --allow-private
and `agent_cards.private_targets`. A card is ready for production from compliance 95 and trust
60 and, if the agent is probed, availability 80.

Exit codes: 0 ready for production and all thresholds reached, 1 not, 2 bad input, 3 the card
could not be fetched. With --thresholds-only, only the given thresholds decide.

Examples:
  touchstone card score agent-card.json
  touchstone card score https://agents.example --live
  touchstone card score agent-card.json --min-compliance 100 --min-trust 80
  touchstone card score agent-card.json --report card.html
  touchstone card validate https://agents.example --detailed-scores --test-live
  touchstone card score http://127.0.0.1:9999 --live \\
    --allow-private 127.0.0.1:9999
  touchstone card score - --offline --min-compliance 90 --thresholds-only --json";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Card: JSON file, URL, or `-` for stdin
    #[arg(value_name = "FILE|URL")]
    card: String,
    /// Probe the agent too: endpoint, interfaces and provider site
    #[arg(long, visible_alias = "test-live")]
    live: bool,
    /// Ignored, for compatibility with the scoring guide: scores are always detailed
    #[arg(long = "detailed-scores")]
    _detailed_scores: bool,
    /// Make no network requests; signatures by keys that are not trusted locally are unverifiable
    #[arg(long, conflicts_with = "live")]
    offline: bool,
    /// Private network address that may be contacted; repeat for several
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "offline")]
    allow_private: Vec<Endpoint>,
    /// Minimum compliance score, 0 to 100
    #[arg(long, value_name = "N")]
    min_compliance: Option<Points>,
    /// Minimum trust score, 0 to 100
    #[arg(long, value_name = "N")]
    min_trust: Option<Points>,
    /// Minimum availability score, 0 to 100
    #[arg(long, value_name = "N", requires = "live")]
    min_availability: Option<Points>,
    /// HTML file to write the report to
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Decide only by --min-compliance, --min-trust and --min-availability, not by readiness for
    /// production
    #[arg(long)]
    thresholds_only: bool,
}

impl Arguments {
    const fn contact_policy(&self) -> ContactPolicy {
        match (self.offline, self.live) {
            (true, _) => ContactPolicy::Offline,
            (false, true) => ContactPolicy::Agent,
            (false, false) => ContactPolicy::KeySets,
        }
    }

    fn thresholds(&self) -> Thresholds {
        Thresholds {
            compliance: self.min_compliance.unwrap_or_default(),
            trust: self.min_trust.unwrap_or_default(),
            availability: self.min_availability.unwrap_or_default(),
        }
    }

    /// The thresholds that are missed. An invalid card has no availability, which misses any
    /// threshold.
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    #[serde(flatten)]
    scorecard: &'a Scorecard,
    #[serde(skip_serializing_if = "<[Shortfall]>::is_empty")]
    below_thresholds: &'a [Shortfall],
}

/// The card scorer, which may also contact these private addresses.
pub(super) fn reaching(context: &Context<'_>, allowed: &[Endpoint]) -> Result<Cards, Failure> {
    let mut settings = context.settings::<AgentCardSettings>()?;
    let named = allowed.iter().map(Endpoint::to_string);
    settings.private_targets.extend(named);
    let cards = settings.cards();
    cards.map_err(|fault| Failure::bad_input("configuration", fault.to_string()))
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.thresholds_only && !arguments.names_a_threshold() {
        return Err(Failure::usage("--thresholds-only needs a threshold")
            .or_try("add --min-compliance, --min-trust or --min-availability"));
    }
    if let Some(file) = &arguments.report {
        let extension = file.extension().map(|it| it.to_ascii_lowercase());
        if !extension.is_some_and(|it| it == "html" || it == "htm") {
            return Err(
                Failure::usage(format!("--report writes HTML, got {}", file.display()))
                    .or_try("use the extension .html, or --json to print the scores as JSON"),
            );
        }
    }
    let cards = reaching(context, &arguments.allow_private)?;
    let terminal = context.terminal();
    if arguments.live && terminal.bars() {
        terminal.note("probing the agent; this takes up to a minute");
    }
    let fetched = fetched(&cards, &arguments.card, arguments.contact_policy()).await?;
    let fetched = fetched.map_err(|fault| unfetched(&fault))?;
    let scorecard = cards.score(fetched, arguments.contact_policy()).await;
    let below = arguments.missed(&scorecard);
    if let Some(file) = &arguments.report {
        let unwritten = |cause: String| {
            let text = format!("could not write {}: {cause}", file.display());
            Failure::not_done("file_not_written", text).or_try("choose another file")
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

/// The URL of a card argument; `None` for a file.
fn url_of(card: &str) -> Result<Option<Url>, Failure> {
    let lower = card.to_ascii_lowercase();
    if !lower.starts_with("http://") && !lower.starts_with("https://") {
        return Ok(None);
    }
    let bad = |_| Failure::usage("the card's URL is invalid").or_try("use https://HOST/PATH");
    card.parse().map(Some).map_err(bad)
}

/// Fetches or reads a card; the inner error is the reason for its absence, worded by the caller.
pub(super) async fn fetched(
    cards: &Cards,
    card: &str,
    contact: ContactPolicy,
) -> Result<Result<Fetched, Unfetched>, Failure> {
    if let Some(url) = url_of(card)? {
        if contact == ContactPolicy::Offline {
            return Err(Failure::usage("--offline cannot fetch a card from a URL")
                .or_try("use a file, or omit --offline"));
        }
        return Ok(cards.fetch(&url).await);
    }
    let file = Path::new(card);
    let bytes = if file == Path::new("-") {
        files::read_stdin(MAX_OCTETS)
    } else {
        files::read(file, MAX_OCTETS)
    };
    bytes.map(|bytes| Ok(Fetched::at_hand(bytes)))
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
