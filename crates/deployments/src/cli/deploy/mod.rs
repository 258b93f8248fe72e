//! `touchstone deploy`: list, promote, roll back and pause versions of an agent.

pub mod approve;

use axum::http::Method;
use clap::{Args, Subcommand};
use semver::Version;
use serde_json::{Map, Value, json};

use crate::promotion::ApprovalState;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::options::with_options;
use touchstone_kit::error::ErrorCode;
use touchstone_openwop::deployment::{AgentDeployment, DeploymentState, TransitionKind};
use touchstone_runs::cli::run::reference::resolve_all;
use touchstone_runs::cli::run::run_id;

/// Members of the requests, and the options that set them.
const OPTIONS: [(&str, &str); 3] = [
    ("evalRunId", "--eval-run"),
    ("canaryPercent", "--canary"),
    ("toState", "--to"),
];

const EXITS: &str = "Exit codes: 0 done, 1 the gate is not met or an approval is missing (reasons are printed), 2 bad input or not allowed, 3 could not complete.";

/// Promote, approve, pause and roll back versions of agents
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone deploy list vendor.acme.triage.default\n  touchstone deploy promote vendor.acme.triage.default@1.1.0\n  touchstone deploy rollback vendor.acme.triage.default@1.1.0 --reason drill"
)]
pub enum Command {
    /// List the versions of an agent with state, channels and traffic shares
    #[command(after_help = "Examples:\n  touchstone deploy list vendor.acme.triage.default")]
    List {
        /// Agent id
        #[arg(value_name = "AGENT", value_parser = agent_id)]
        agent: String,
    },
    /// Promote a version one step: draft, test, staged, active; or return it to service
    #[command(
        after_help = format!("{EXITS}\n\nExamples:\n  touchstone deploy promote vendor.acme.triage.default@1.1.0\n  touchstone deploy promote vendor.acme.triage.default@1.1.0 --channel stable \\\n    --canary 10 --eval-run run_0199c0de")
    )]
    Promote(Promote),
    /// Approve or reject a promotion that waits for approval
    #[command(
        after_help = "Examples:\n  touchstone deploy approve run_0199c0de\n  touchstone deploy approve run_0199c0de --reject\n  touchstone deploy approve run_0199c0de --override incident-17"
    )]
    Approve(approve::Approve),
    /// Pause a version: take it out of service temporarily
    #[command(
        after_help = format!("{EXITS}\n\nExamples:\n  touchstone deploy pause vendor.acme.triage.default@1.1.0 --reason incident-17")
    )]
    Pause(Target),
    /// Roll back a version: restore the version that it replaced
    #[command(
        after_help = format!("{EXITS}\n\nExamples:\n  touchstone deploy rollback vendor.acme.triage.default@1.1.0 \\\n    --reason incident-17")
    )]
    Rollback(Rollback),
    /// Deprecate a version: take it out of service permanently; callers pinned to it keep it
    #[command(
        after_help = format!("{EXITS}\n\nExamples:\n  touchstone deploy deprecate vendor.acme.triage.default@1.0.0")
    )]
    Deprecate(Target),
    /// Change a version's share of traffic
    #[command(
        after_help = format!("{EXITS}\n\nExamples:\n  touchstone deploy canary vendor.acme.triage.default@1.1.0 25")
    )]
    Canary(Canary),
}

#[derive(Clone, Debug)]
pub struct Subject {
    pub agent: String,
    pub version: Version,
}

pub fn subject(text: &str) -> Result<Subject, String> {
    let (agent, version) = text
        .split_once('@')
        .ok_or("must be AGENT@VERSION, such as vendor.acme.triage.default@1.0.0")?;
    Ok(Subject {
        agent: agent_id(agent)?,
        version: Version::parse(version)
            .map_err(|fault| format!("has an invalid version: {fault}"))?,
    })
}

/// Parses an agent id that is safe as a path segment.
pub fn agent_id(text: &str) -> Result<String, String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if text.contains('.') && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("must be an agent id, such as vendor.acme.triage.default".to_owned())
    }
}

#[derive(Debug, Args)]
pub struct Target {
    /// Agent and version
    #[arg(value_name = "AGENT@VERSION", value_parser = subject)]
    subject: Subject,
    /// Short label to record; must contain no secrets
    #[arg(long, value_name = "LABEL")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct Promote {
    #[command(flatten)]
    target: Target,
    /// State that the promotion must lead to; otherwise the command fails
    #[arg(long, value_name = "STATE", value_parser = state)]
    to: Option<DeploymentState>,
    /// Channel to promote to
    #[arg(long)]
    channel: Option<String>,
    /// Share of the channel's traffic in percent, 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    canary: Option<u8>,
    /// Eval run to use as evidence, by its id or a unique start of it, `latest` or `latest-passed`
    /// [default: the version's newest run]
    #[arg(long, value_name = "RUN", value_parser = run_id)]
    eval_run: Option<String>,
}

#[derive(Debug, Args)]
pub struct Rollback {
    #[command(flatten)]
    target: Target,
    /// Channel whose previous version to restore, if the version replaced different ones
    #[arg(long)]
    channel: Option<String>,
}

#[derive(Debug, Args)]
pub struct Canary {
    #[command(flatten)]
    target: Target,
    /// Share of traffic in percent, 0 to 100
    #[arg(value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    percent: u8,
    /// Channel to change [default: all of the version's channels]
    #[arg(long)]
    channel: Option<String>,
    /// Eval run that supports a larger share [default: the one used for promotion]
    #[arg(long, value_name = "RUN", value_parser = run_id)]
    eval_run: Option<String>,
}

fn state(text: &str) -> Result<DeploymentState, String> {
    DeploymentState::parse(text).ok_or_else(|| {
        let known: Vec<&str> = DeploymentState::ALL.iter().map(|s| s.as_str()).collect();
        format!("must be one of {}", known.join(", "))
    })
}

pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::List { agent } => list(context, &agent).await,
        Command::Promote(mut it) => {
            resolve_all(context, it.eval_run.iter_mut().collect()).await?;
            choose_evidence(context, &mut it).await?;
            let more = json!({"toState": it.to, "channel": it.channel, "canaryPercent": it.canary,
                "evalRunId": it.eval_run});
            transition(context, &it.target, TransitionKind::Promote, more).await
        }
        Command::Approve(it) => approve::run(context, it).await,
        Command::Pause(target) => {
            transition(context, &target, TransitionKind::Pause, json!({})).await
        }
        Command::Deprecate(target) => {
            transition(context, &target, TransitionKind::Deprecate, json!({})).await
        }
        Command::Rollback(it) => {
            let more = json!({"channel": it.channel});
            transition(context, &it.target, TransitionKind::Rollback, more).await
        }
        Command::Canary(mut it) => {
            resolve_all(context, it.eval_run.iter_mut().collect()).await?;
            let more = json!({"canaryPercent": it.percent, "channel": it.channel, "evalRunId": it.eval_run});
            transition(context, &it.target, TransitionKind::AdjustCanary, more).await
        }
    }
}

/// Chooses the run that `gate check` chooses if none is named: the newest of the version. A step
/// before service needs no evidence.
async fn choose_evidence(context: &Context<'_>, promote: &mut Promote) -> Result<(), Failure> {
    if promote.eval_run.is_some() {
        return Ok(());
    }
    let Subject { agent, version } = &promote.target.subject;
    let session = context.read().await?;
    let client = session.client();
    // A key may have access to the promotion only; a refused look-up leaves the choice to the host.
    let optional = |found: Result<Value, Failure>| match found {
        Err(failure) if failure.exit == Exit::BadInput => Ok(Value::Null),
        found => found,
    };
    let records = optional(client.get(&path(agent)).await)?;
    if records.is_null() {
        return Ok(());
    }
    let records: Vec<AgentDeployment> =
        serde_json::from_value(records).map_err(|cause| Failure::unexpected(&cause))?;
    let version = version.to_string();
    let record = records.iter().find(|it| it.version == version);
    let before_service = [DeploymentState::Draft, DeploymentState::Test];
    if record.is_none_or(|it| before_service.contains(&it.state)) {
        return Ok(());
    }
    let body = json!({"agentId": agent, "version": version, "channel": promote.channel,
        "canaryPercent": promote.canary});
    let checked = client.post("/v1/host/touchstone/gates/check", &body);
    let checked = optional(checked.await)?;
    let chosen = checked.get("evalRunId").and_then(Value::as_str);
    promote.eval_run = chosen.map(str::to_owned);
    if let Some(run) = chosen {
        let terminal = context.terminal();
        terminal.note(&format!(
            "evidence: {run}, the newest eval run of the version"
        ));
    }
    Ok(())
}

fn path(agent: &str) -> String {
    format!("/v1/agents/{agent}/deployments")
}

async fn list(context: &Context<'_>, agent: &str) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let records: Vec<AgentDeployment> = session.client().get(&path(agent)).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&records);
    } else {
        for record in &records {
            terminal.print(&line(record));
        }
    }
    Ok(Exit::Good)
}

async fn transition(
    context: &Context<'_>,
    target: &Target,
    transition: TransitionKind,
    more: Value,
) -> Result<Exit, Failure> {
    let mut body = json!({
        "version": target.subject.version,
        "transition": transition,
        "reason": target.reason,
    });
    if let (Some(members), Value::Object(more)) = (body.as_object_mut(), more) {
        members.extend(more);
        members.retain(|_, value| !value.is_null());
    }
    let session = context.write().await?;
    let call = Call::new(Method::POST, &path(&target.subject.agent)).json(&body);
    let moved: Result<AgentDeployment, Failure> = session.client().call(call).await;
    let record = moved.map_err(|mut failure| {
        failure.message = with_options(&failure.message, &OPTIONS);
        let gate = failure
            .details
            .get("approvalGateId")
            .and_then(Value::as_str);
        if let Some(gate) = gate.map(str::to_owned) {
            let open = is_open(&failure.details);
            let failure = Failure {
                exit: Exit::Negative,
                ..failure
            };
            if !open {
                // The approval is closed; the message says how to request a new one.
                return failure;
            }
            failure.or_try(format!(
                "have an authorized principal run {} deploy approve {gate}, then promote again",
                context.program()
            ))
        } else if failure.code == ErrorCode::EvalGateUnmet.as_str() {
            Failure {
                exit: Exit::Negative,
                ..failure
            }
            .or_try(format!(
                "run {} gate check {}@{} to see the conditions",
                context.program(),
                target.subject.agent,
                target.subject.version
            ))
        } else {
            failure
        }
    })?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&record);
    } else {
        terminal.print(&line(&record));
    }
    Ok(Exit::Good)
}

/// Whether the gate is still waiting for an approval.
fn is_open(details: &Map<String, Value>) -> bool {
    let unmet = details.get("unmet").and_then(Value::as_array);
    unmet.into_iter().flatten().any(|unmet| {
        unmet.get("condition").and_then(Value::as_str)
            == Some(ApprovalState::ApprovalPending.as_str())
    })
}

fn line(record: &AgentDeployment) -> String {
    let mut parts = vec![format!("{:<12} {:<11}", record.version, record.state)];
    if !record.channels.is_empty() {
        parts.push(format!("on {}", record.channels.join(", ")));
    }
    if let Some(percent) = record.canary_percent {
        parts.push(format!("{percent} %"));
    }
    if let Some(restored) = &record.rollback_pointer {
        parts.push(format!("replaced by {restored}"));
    }
    if let Some(run) = &record.eval_run_id {
        parts.push(format!("eval {run}"));
    }
    parts.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("vendor.acme.triage.default@1.0.0", true)]
    #[case("vendor.acme.triage.default@1.0.0-rc.1+b", true)]
    #[case("vendor.acme.triage.default", false)]
    #[case("vendor.acme.triage.default@stable", false)]
    #[case("plain@1.0.0", false)]
    #[case("a.b/../c@1.0.0", false)]
    fn a_version_of_an_agent_is_read_strictly(#[case] text: &str, #[case] sound: bool) {
        assert_eq!(subject(text).is_ok(), sound);
    }
}
