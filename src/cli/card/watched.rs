//! `touchstone card watch`, `unwatch`, `watched` and `history`: cards that a host looks at again and again.

use axum::http::Method;
use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::cli::client::Call;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::options::address;
use crate::domain::card::history::{AlertBelow, Look};
use crate::domain::card::points::Points;
use crate::render::{Ink, plain};

const API: &str = "/v1/host/touchstone/agent-cards";

/// Which card, and how often.
#[derive(Debug, Args)]
pub struct Watch {
    /// Where the card is, or whose it is
    #[arg(value_name = "URL", value_parser = address)]
    url: Url,
    /// Look at it every so many hours
    #[arg(long, value_name = "N", default_value_t = 24)]
    every_hours: u32,
    /// Ask the agent, too
    #[arg(long)]
    live: bool,
    /// Tell when compliance is below this, 0 to 100; 0 for never
    #[arg(long, value_name = "N", default_value = "80")]
    alert_compliance: Points,
    /// Tell when trust is below this
    #[arg(long, value_name = "N", default_value = "70")]
    alert_trust: Points,
    /// Tell when availability is below this, with --live
    #[arg(long, value_name = "N", default_value = "40")]
    alert_availability: Points,
}

/// Which card.
#[derive(Debug, Args)]
pub struct Which {
    /// Where the card is, or whose it is
    #[arg(value_name = "URL", value_parser = address)]
    url: Url,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Watched {
    url: String,
    every_hours: u32,
    live: bool,
    created_at: Timestamp,
    due_at: Timestamp,
    alerts: bool,
    #[serde(default)]
    alert_below: AlertBelow,
}

#[derive(Deserialize, Serialize)]
struct Listed {
    watches: Vec<Watched>,
}

#[derive(Deserialize, Serialize)]
struct History {
    url: String,
    looks: Vec<Look>,
}

/// Has the host look.
pub async fn watch(context: &Context<'_>, arguments: &Watch) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let asked = json!({
        "url": arguments.url.as_str(), "everyHours": arguments.every_hours, "live": arguments.live,
        "alertBelow": AlertBelow {
            compliance: arguments.alert_compliance,
            trust: arguments.alert_trust,
            availability: arguments.alert_availability,
        },
    });
    let path = format!("{API}/watches");
    let watched: Watched = session.client().post(&path, &asked).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&watched);
    } else {
        terminal.print(&line(&watched));
    }
    if !watched.alerts {
        terminal.note("nobody is told of drops: the tenant has no organization (docs/webhooks.md)");
    }
    if context.is_embedded() {
        terminal.note("nobody looks unless the host runs: touchstone serve");
    }
    Ok(Exit::Good)
}

/// Has it look no more.
pub async fn unwatch(context: &Context<'_>, arguments: &Which) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let path = named("watches", &arguments.url);
    let _: Value = session
        .client()
        .call(Call::new(Method::DELETE, &path))
        .await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"url": arguments.url.as_str(), "removed": true}));
    } else {
        terminal.print(&format!("{} is not watched any more", arguments.url));
    }
    Ok(Exit::Good)
}

/// What is looked at.
pub async fn watched(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let listed: Listed = session.client().get(&format!("{API}/watches")).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&listed);
        return Ok(Exit::Good);
    }
    if listed.watches.is_empty() {
        terminal.note("no card is watched; `touchstone card watch URL` has one watched");
    }
    for watched in &listed.watches {
        terminal.print(&line(watched));
    }
    Ok(Exit::Good)
}

/// What was seen.
pub async fn history(context: &Context<'_>, arguments: &Which) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let path = format!("{}&limit=100", named("history", &arguments.url));
    let history: History = session.client().get(&path).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&history);
        return Ok(Exit::Good);
    }
    if history.looks.is_empty() {
        terminal.note(
            "nobody has looked at this card yet; `touchstone card watch URL` has one watched",
        );
    }
    for look in &history.looks {
        terminal.print(&told(look, terminal.ink()));
    }
    Ok(Exit::Good)
}

fn named(what: &str, url: &Url) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("url", url.as_str())
        .finish();
    format!("{API}/{what}?{query}")
}

fn line(watched: &Watched) -> String {
    let hours = match watched.every_hours {
        1 => "hour".to_owned(),
        several => format!("{several} hours"),
    };
    format!(
        "{}  every {hours}{}, next {}",
        plain(&watched.url),
        if watched.live { ", live" } else { "" },
        watched.due_at
    )
}

fn told(look: &Look, ink: Ink) -> String {
    let Some(scores) = &look.scores else {
        let fault = look.fault.as_deref().unwrap_or("there was no card");
        return format!("{}  {}", look.scored_at, ink.bad(&plain(fault)));
    };
    let availability = match &scores.availability {
        Some(found) => format!("{} {}", found.total, found.rating.label()),
        None => "not tested".to_owned(),
    };
    let ready = if scores.production_ready {
        ink.good("ready")
    } else {
        ink.doubtful("not ready")
    };
    let (compliance, trust) = (&scores.compliance, &scores.trust);
    format!(
        "{}  compliance {} {}, trust {} {}, availability {availability}  {ready}",
        look.scored_at,
        compliance.total,
        compliance.rating.label(),
        trust.total,
        trust.rating.label(),
    )
}
