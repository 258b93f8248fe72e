//! `touchstone oasis preflight`: check whether a provider meets a profile's contract (OASIS.md
//! section 3), without a run.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::{profiles, summary};
use crate::rules::refusal::RefusalItem;
use crate::rules::run::events::RequirementAnswer;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;

pub const EXAMPLES: &str = "\
Exit codes: 0 the provider meets the contract, 1 it does not (gaps are printed), 2 bad input,
3 no host.

Examples:
  touchstone oasis preflight --tier 1
  touchstone oasis preflight --profile oasis-profile-front-desk@0.1.0 --tier 2 \\
    --provider lab";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Profile [default: the only installed one]
    #[arg(long, value_name = "ID[@VERSION]")]
    profile: Option<String>,
    /// Complexity tier to check for, 1 to 3
    #[arg(long, value_name = "TIER", value_parser = clap::value_parser!(u8).range(1..=3))]
    tier: u8,
    /// Provider, by its name in the host's configuration [default: the only one]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct Answered {
    satisfied: bool,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    provider: Value,
    requirements: Vec<RequirementAnswer>,
    gaps: Vec<RefusalItem>,
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let client = session.client();
    let available = profiles::ask(client).await?;
    let chosen = available.choose(arguments.profile.as_deref(), None)?;
    let provider = available.provider(arguments.provider.as_deref())?;
    let asked = json!({
        "profile": chosen.profile, "profileVersion": chosen.version, "tier": arguments.tier, "provider": provider,
    });
    let answered: Answered = client.post(&profiles::path("preflight"), &asked).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&answered);
    } else {
        let colors = terminal.colors();
        let (mark, verb) = match answered.satisfied {
            true => (colors.good("✓"), "meets"),
            false => (colors.bad("✗"), "does not meet"),
        };
        let (profile, tier) = (&chosen.profile, arguments.tier);
        terminal.print(&format!(
            "{mark} {} {verb} the contract of {} {} at tier {tier}",
            plain(&provider),
            plain(profile),
            plain(&chosen.version)
        ));
        terminal.print(&summary::requirements(&answered.requirements, colors));
        if !answered.gaps.is_empty() {
            terminal.print(&summary::items("gaps", &answered.gaps, colors));
        }
    }
    Ok(if answered.satisfied {
        Exit::Good
    } else {
        Exit::Negative
    })
}
