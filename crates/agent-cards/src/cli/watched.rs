//! `touchstone card watch`, `unwatch`, `watched` and `history`: cards that a host scores at
//! intervals.

use axum::http::Method;
use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::rules::history::{AlertBelow, CardScoring};
use crate::rules::points::Points;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::options::address;
use touchstone_host::render::colors::Colors;
use touchstone_host::render::words::plain;

const API: &str = "/v1/host/touchstone/agent-cards";

#[derive(Debug, Args)]
pub struct Watch {
    /// URL of the card or its agent
    #[arg(value_name = "URL", value_parser = address)]
    url: Url,
    /// Interval between checks in hours
    #[arg(long, value_name = "N", default_value_t = 24)]
    every_hours: u32,
    /// Probe the agent too
    #[arg(long)]
    live: bool,
    /// Alert when the compliance score is below this, 0 to 100; 0 for never
    #[arg(long, value_name = "N", default_value = "80")]
    alert_compliance: Points,
    /// Alert when the trust score is below this, 0 to 100; 0 for never
    #[arg(long, value_name = "N", default_value = "70")]
    alert_trust: Points,
    /// Alert when the availability score is below this, 0 to 100; needs --live
    #[arg(long, value_name = "N", default_value = "40")]
    alert_availability: Points,
}

#[derive(Debug, Args)]
pub struct CardAddress {
    /// URL of the card or its agent
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
    looks: Vec<CardScoring>,
}

pub async fn watch(context: &Context<'_>, arguments: &Watch) -> Result<Exit, Failure> {
    let session = context.write().await?;
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
        terminal
            .note("score-drop alerts are off: the tenant has no organization (docs/webhooks.md)");
    }
    if context.is_embedded() {
        terminal.note("cards are checked only while the host runs: touchstone serve");
    }
    Ok(Exit::Good)
}

pub async fn unwatch(context: &Context<'_>, arguments: &CardAddress) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = named("watches", &arguments.url);
    let _: Value = session
        .client()
        .call(Call::new(Method::DELETE, &path))
        .await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({"url": arguments.url.as_str(), "removed": true}));
    } else {
        terminal.print(&format!("stopped watching {}", arguments.url));
    }
    Ok(Exit::Good)
}

pub async fn watched(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let listed: Listed = session.client().get(&format!("{API}/watches")).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&listed);
        return Ok(Exit::Good);
    }
    if listed.watches.is_empty() {
        terminal.note("no watched cards; add one with `touchstone card watch URL`");
    }
    for watched in &listed.watches {
        terminal.print(&line(watched));
    }
    Ok(Exit::Good)
}

pub async fn history(context: &Context<'_>, arguments: &CardAddress) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let path = format!("{}&limit=100", named("history", &arguments.url));
    let history: History = session.client().get(&path).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&history);
        return Ok(Exit::Good);
    }
    if history.looks.is_empty() {
        terminal.note("no scores for this card; watch it with `touchstone card watch URL`");
    }
    for scoring in &history.looks {
        terminal.print(&scoring_line(scoring, terminal.colors()));
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

fn scoring_line(scoring: &CardScoring, colors: Colors) -> String {
    let Some(scores) = &scoring.scores else {
        let fault = scoring.fault.as_deref().unwrap_or("no card found");
        return format!("{}  {}", scoring.scored_at, colors.bad(&plain(fault)));
    };
    let availability = match &scores.availability {
        Some(found) => format!("{} {}", found.total, found.rating.label()),
        None => "not probed".to_owned(),
    };
    let ready = if scores.production_ready {
        colors.good("ready")
    } else {
        colors.doubtful("not ready")
    };
    let (compliance, trust) = (&scores.compliance, &scores.trust);
    format!(
        "{}  compliance {} {}, trust {} {}, availability {availability}  {ready}",
        scoring.scored_at,
        compliance.total,
        compliance.rating.label(),
        trust.total,
        trust.rating.label(),
    )
}
