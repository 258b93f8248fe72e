//! `touchstone rating organization policy`: which ratings are reviewed, and when agents are
//! reassessed.

use axum::http::Method;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::cli::manage::organization::{Which, path};
use crate::cli::manage::{get, send, show};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::terminal::Terminal;

const SETTINGS: [&str; 3] = [
    "review_policy",
    "reassessment_interval_days",
    "reassessment_days_before_expiry",
];

pub(super) const EXAMPLES: &str = "\
Without options, the command shows the policy. A scheduled assessment has the same type as the
agent's latest rating and repeats its stress test, if there was one. Agents without a rating are
not reassessed. Webhooks receive `reassessment.ordered` or `reassessment.failed`.

Exit codes: 0 shown or set, 2 bad input or refused, 3 could not complete.

Examples:
  touchstone rating organization policy
  touchstone rating organization policy --review always
  touchstone rating organization policy --reassess-every 90
  touchstone rating organization policy --reassess-before-expiry 14";

#[derive(Debug, Args)]
#[group(skip)]
pub struct Policy {
    #[command(flatten)]
    which: Which,
    /// Ratings that need a review before a badge is issued
    #[arg(long, value_name = "RATINGS")]
    review: Option<Review>,
    /// Reassess an agent this many days after its latest rating, 1 to 3650; `off` for never
    #[arg(long, value_name = "DAYS", value_parser = days)]
    reassess_every: Option<Days>,
    /// Reassess an agent this many days before its badge expires; `off` for never
    #[arg(long, value_name = "DAYS", value_parser = days)]
    reassess_before_expiry: Option<Days>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Review {
    /// Ratings with an unusually large score change
    Anomalies,
    /// Every rating
    Always,
}

/// A number of days; `None` for never.
#[derive(Clone, Copy, Debug)]
struct Days(Option<u32>);

fn days(text: &str) -> Result<Days, String> {
    match text {
        "off" => Ok(Days(None)),
        text => text
            .parse()
            .map(|days| Days(Some(days)))
            .map_err(|_| "must be a number of days, or `off`".to_owned()),
    }
}

pub async fn run(client: &Client, terminal: &Terminal, policy: &Policy) -> Result<(), Failure> {
    let path = format!("{}/config", path(client, &policy.which).await?);
    let mut body = Map::new();
    if let Some(review) = policy.review {
        let name = match review {
            Review::Anomalies => "anomalies",
            Review::Always => "always",
        };
        body.insert("review_policy".to_owned(), json!(name));
    }
    let schedule = [
        ("reassessment_interval_days", policy.reassess_every),
        (
            "reassessment_days_before_expiry",
            policy.reassess_before_expiry,
        ),
    ];
    for (name, days) in schedule {
        if let Some(Days(days)) = days {
            body.insert(name.to_owned(), json!(days));
        }
    }
    let config: Value = if body.is_empty() {
        get(client, &path).await?
    } else {
        send(client, Method::PATCH, &path, &Value::Object(body)).await?
    };
    let shown = SETTINGS.into_iter().map(|name| {
        let value = config.get(name).cloned().unwrap_or_default();
        (name.to_owned(), value)
    });
    show(terminal, Value::Object(shown.collect()));
    Ok(())
}
