//! `touchstone rating stress-test`: run the host's stress tests against an agent, and wait for the
//! rating.

use clap::Args;
use serde_json::json;

use crate::cli::agent;
use crate::cli::assess::{request_assessment, show_requested, wait_for_result};
use crate::rules::Dimension;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Runs the host's stress-test suites against AGENT and rates it by the results alone. `touchstone
rating enroll` sets how they reach the agent: --openwop-agent, --a2a, --openwop-host or --command.
The assessment lists the tests that cannot run for this agent, with reasons. The tasks call the
agent's model and may cost money.

Exit codes: 0 rated, 2 bad input, 3 could not complete, 4 insufficient evidence.

Examples:
  touchstone rating stress-test triage --dimension delegation
  touchstone rating stress-test triage --json";

/// Run the host's stress tests against an agent
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Agent, by name or id
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Run only the test of this capability dimension; the minimum number of tasks does not
    /// apply, and there is no tier
    #[arg(long, value_name = "DIMENSION", value_parser = crate::cli::dimension)]
    dimension: Option<Dimension>,
    /// Request the stress test from the host and return without waiting for the result
    #[arg(long)]
    no_wait: bool,
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.no_wait && context.is_embedded() {
        return Err(crate::cli::no_wait_needs_host());
    }
    let session = context.assess().await?;
    let outcome = test(context, session.client(), arguments).await;
    session.close().await;
    outcome
}

async fn test(
    context: &Context<'_>,
    client: &Client,
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let agent = agent(client, &arguments.agent).await?;
    let order = match arguments.dimension {
        Some(dimension) => json!({"dimension": dimension}),
        None => json!({}),
    };
    let ordered =
        request_assessment(client, &format!("agents/{}/stress-test", agent.id), &order).await?;
    if arguments.no_wait {
        return show_requested(context.terminal(), &ordered);
    }
    wait_for_result(context.terminal(), client, &agent, &ordered).await
}
