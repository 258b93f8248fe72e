//! `touchstone rating review`: review a rating.

use axum::http::Method;
use clap::Args;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::cli::assessment;
use crate::cli::manage::{send, show};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;
use touchstone_host::service::keys::LOCAL;
use touchstone_host::service::keys::LOCAL_TENANT;

const EXAMPLES: &str = "\
The reviewer needs the scope assessments:review and must not be the principal who requested the
rating. On a host, use a key created with `touchstone key create --principal NAME`.

Commands in the data folder always act as the principal `local`, which cannot review a rating
that it requested: start `touchstone serve`, and review with --server and the key of another
principal.

A third-party auditor passes the organization's id with --organization and an assessment id as
ASSESSMENT.

Exit codes: 0 decided, 2 bad input or refused, 3 could not complete, 4 no rating yet.

Examples:
  touchstone rating review triage --approve
  touchstone rating review triage --reject --reason Unrepresentative";

/// Approve or reject a rating that waits for review
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub struct Arguments {
    /// Assessment id; or an agent's name or id, for its latest rating
    #[arg(value_name = "ASSESSMENT")]
    of: String,
    /// Approve the scores and issue the badge
    #[arg(long, required_unless_present = "reject", conflicts_with = "reject")]
    approve: bool,
    /// Reject the scores, so that no badge is issued
    #[arg(long, requires = "reason")]
    reject: bool,
    /// Reason for the decision; required for --reject
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Organization id, to review as its third-party auditor; ASSESSMENT must be an id
    #[arg(long, value_name = "ID")]
    organization: Option<Uuid>,
}

pub async fn run(
    context: &Context<'_>,
    client: &Client,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let terminal = context.terminal();
    let reviewed = match arguments.organization {
        Some(organization) => {
            let id: Uuid = arguments.of.parse().map_err(|_| {
                Failure::usage("with --organization, ASSESSMENT must be the id of an assessment")
            })?;
            format!("audits/{organization}/assessments/{id}")
        }
        None => {
            let assessed = assessment(client, &arguments.of).await?;
            format!("assessments/{}", assessed.id)
        }
    };
    let mut body = Map::new();
    let decision = if arguments.approve {
        "approve"
    } else {
        "reject"
    };
    body.insert("decision".to_owned(), json!(decision));
    if let Some(reason) = &arguments.reason {
        body.insert("reason".to_owned(), json!(reason));
    }
    let path = format!("{reviewed}/review");
    let sent = send(client, Method::POST, &path, &Value::Object(body)).await;
    let reviewed: Value = sent.map_err(|failure| refused(context, failure))?;
    if terminal.json() {
        show(terminal, reviewed);
    } else {
        let badge = reviewed.get("badge_state").and_then(Value::as_str);
        let id = reviewed.get("id").and_then(Value::as_str);
        terminal.print(&format!(
            "assessment {}: {decision}, badge {}",
            id.unwrap_or(&arguments.of),
            badge.unwrap_or("none")
        ));
    }
    Ok(())
}

/// Explains a refused review in a data folder, where every command has the same principal.
fn refused(context: &Context<'_>, failure: Failure) -> Failure {
    if failure.code != "FORBIDDEN" || !context.is_embedded() {
        return failure;
    }
    Failure {
        message: format!(
            "{}; commands in the data folder always act as the principal `{LOCAL}`",
            failure.message
        ),
        ..failure
    }
    .or_try(format!(
        "start `touchstone serve`, create a key with `touchstone key create --tenant {LOCAL_TENANT} \
        --scope all --principal NAME`, and review with --server URL and --key KEY"
    ))
}
