//! The run that an argument names: by its id, by a unique start of its id, or as the latest one.

use crate::cli::run::list::{Condition, fetch, no_runs_yet};
use crate::rules::eval::report::Verdict;
use crate::rules::run::listing::{RunKind, RunListing};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::near::did_you_mean;

/// The newest eval run.
pub const LATEST: &str = "latest";
/// The newest eval run that passed.
pub const LATEST_PASSED: &str = "latest-passed";

/// The start of every run id.
const START: &str = "run_";
/// Fewest characters after [`START`] that name a run.
const FEWEST: usize = 6;
/// Maximum number of runs that are listed for an ambiguous prefix.
const CANDIDATES: u32 = 5;
/// Number of recent runs that are searched for a similar id, or for one that is not void.
const RECENT: u32 = 200;

/// Length of the part after [`START`] in a whole id.
const WHOLE: usize = 32;

/// Replaces the names of runs by their ids. Whole ids are not looked up.
///
/// # Errors
/// As [`resolve`].
pub async fn resolve_all(context: &Context<'_>, names: Vec<&mut String>) -> Result<(), Failure> {
    if names.iter().all(|name| is_whole(name)) {
        return Ok(());
    }
    let session = context.read().await?;
    for name in names {
        if !is_whole(name) {
            *name = resolve(context, session.client(), name, &[]).await?;
        }
    }
    Ok(())
}

/// The failure of a command that names runs: if one of them does not exist, it says which, with a
/// similar id.
pub async fn explained(context: &Context<'_>, names: &[String], failure: Failure) -> Failure {
    if failure.code != ErrorCode::NotFound.as_str() {
        return unfinished(context, names, failure);
    }
    let look_up = async {
        let session = context.read().await?;
        for name in names {
            resolve(context, session.client(), name, &[]).await?;
        }
        Ok(())
    };
    match look_up.await {
        Err(Failure { exit, .. }) if exit != Exit::BadInput => failure,
        Err(explained) => explained,
        Ok(()) => failure,
    }
}

/// Adds the command that continues the run to a refusal because the run has not ended: its command
/// may have been killed.
fn unfinished(context: &Context<'_>, names: &[String], failure: Failure) -> Failure {
    let status = failure.details.get("runStatus");
    let status = status.and_then(serde_json::Value::as_str);
    let is_unfinished = match status {
        Some(status) => !matches!(status, "completed" | "failed" | "cancelled" | "paused"),
        None => failure.message.contains("has not ended"),
    };
    let named = names.iter().find(|it| failure.message.contains(*it));
    match named.or(names.last()) {
        Some(run) if context.is_embedded() && is_unfinished && failure.remedy.is_none() => failure
            .or_try(format!(
                "if its command was killed, continue it with {} run continue {run}",
                context.program()
            )),
        _ => failure,
    }
}

fn is_whole(name: &str) -> bool {
    let unique = name.strip_prefix(START);
    unique.is_some_and(|it| it.len() == WHOLE && it.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The id of the run that `name` names. `latest` and `latest-passed` are looked for among the runs
/// that meet the conditions.
///
/// # Errors
/// There is no such run, or there are several; the host's error response.
pub async fn resolve(
    context: &Context<'_>,
    client: &Client,
    name: &str,
    among: &[Condition],
) -> Result<String, Failure> {
    if matches!(name, LATEST | LATEST_PASSED) {
        return latest(context, client, name == LATEST_PASSED, among).await;
    }
    let by_prefix = [("idPrefix", name.to_owned())];
    let found = match fetch(client, &by_prefix, CANDIDATES + 1, None).await {
        Ok(page) => page.runs,
        // A key may have access to the run and not to the list, and an old host has no list.
        Err(failure) if failure.exit == Exit::BadInput => return Ok(name.to_owned()),
        Err(failure) => return Err(failure),
    };
    if found.iter().any(|run| run.run_id.as_str() == name) {
        return Ok(name.to_owned());
    }
    match found.as_slice() {
        [] => Err(unknown(context, client, name).await?),
        _ if is_too_short(name) => Err(Failure::bad_input(
            "run_id_too_short",
            format!("`{name}` is too short to name a run"),
        )
        .or_try(format!(
            "give at least {FEWEST} characters after `{START}`, or list runs with {} run list",
            context.program()
        ))),
        [only] => Ok(only.run_id.to_string()),
        several => Err(ambiguous(name, several)),
    }
}

fn is_too_short(name: &str) -> bool {
    let unique = name.strip_prefix(START).unwrap_or_default();
    unique.len() < FEWEST
}

async fn latest(
    context: &Context<'_>,
    client: &Client,
    passed: bool,
    among: &[Condition],
) -> Result<String, Failure> {
    let mut conditions = vec![("kind", RunKind::Eval.as_str().to_owned())];
    conditions.extend_from_slice(among);
    let found = match passed {
        true => newest_passed(client, &conditions).await?,
        false => fetch(client, &conditions, 1, None).await?.runs.pop(),
    };
    if let Some(run) = found {
        return Ok(run.run_id.to_string());
    }
    let what = if passed {
        "passed eval run"
    } else {
        "eval run"
    };
    let mut message = format!("there is no {what}");
    let spoken = |(name, value): &Condition| match *name {
        "suiteId" => Some(format!("of suite {value}")),
        "suiteVersion" => Some(format!("in version {value}")),
        "agentId" => Some(format!("of agent {value}")),
        "agentVersion" => Some(format!("in version {value}")),
        _ => None,
    };
    for part in among.iter().filter_map(spoken) {
        message.push(' ');
        message.push_str(&part);
    }
    Err(Failure::bad_input(ErrorCode::NotFound.as_str(), message)
        .or_try(format!("list runs with {} run list", context.program())))
}

/// The newest run whose score reaches the pass score and that is not void. Its verdict may be another
/// one, because a baseline need not be significant by itself.
async fn newest_passed(
    client: &Client,
    conditions: &[Condition],
) -> Result<Option<RunListing>, Failure> {
    let mut newest: Option<RunListing> = None;
    for verdict in [Verdict::Pass, Verdict::Inconclusive, Verdict::Fail] {
        let mut conditions = conditions.to_vec();
        conditions.push(("verdict", verdict.as_str().to_owned()));
        let found = fetch(client, &conditions, RECENT, None).await?;
        let passed = |run: &RunListing| run.lenient_verdict() == Some(Verdict::Pass) && !run.voided;
        let position = |run: &RunListing| (run.created_at, run.run_id.clone());
        newest = newest
            .into_iter()
            .chain(found.runs.into_iter().find(passed))
            .max_by_key(position);
    }
    Ok(newest)
}

fn ambiguous(name: &str, found: &[RunListing]) -> Failure {
    let shown = CANDIDATES as usize;
    let mut ids: Vec<&str> = found.iter().map(|run| run.run_id.as_str()).collect();
    let more = ids.len() > shown;
    ids.truncate(shown);
    let listed = ids.join(", ");
    let listed = if more {
        format!("{listed} and more")
    } else {
        listed
    };
    Failure::bad_input(
        "ambiguous_run_id",
        format!("`{name}` is the start of several run ids: {listed}"),
    )
    .or_try("add characters until only one of them is left")
    .with(
        "runIds",
        ids.iter()
            .map(|id| (*id).into())
            .collect::<Vec<serde_json::Value>>(),
    )
}

async fn unknown(context: &Context<'_>, client: &Client, name: &str) -> Result<Failure, Failure> {
    let recent = fetch(client, &[], RECENT, None).await?.runs;
    let ids = recent.iter().map(|run| run.run_id.as_str());
    let message = match did_you_mean(name, [LATEST, LATEST_PASSED].into_iter().chain(ids)) {
        Some(near) => format!("there is no run {name}; {near}"),
        None => format!("there is no run {name}"),
    };
    let remedy = match recent.is_empty() {
        true => no_runs_yet(context),
        false => format!("list runs with {} run list", context.program()),
    };
    Ok(Failure::bad_input(ErrorCode::NotFound.as_str(), message).or_try(remedy))
}
