//! `touchstone run list`: the runs of the tenant, newest first.

use std::collections::BTreeSet;

use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use url::form_urlencoded::Serializer;

use crate::render::run_list::run_list;
use crate::rules::eval::report::Verdict;
use crate::rules::run::fold::RunStatus;
use crate::rules::run::listing::{RunKind, RunListing};
use crate::rules::run::search::{MAX_WORD_CHARS, MAX_WORDS, Search};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;
use touchstone_kit::near::did_you_mean;

const PATH: &str = "/v1/host/touchstone/runs";
/// Maximum number of rows requested at a time.
const PAGE: u32 = 200;

#[derive(Debug, Args)]
pub struct List {
    /// Up to 4 words, each a part of the name of the suite, agent, model or a tag, or the start of
    /// a run id
    #[arg(long, value_name = "WORDS", value_parser = search)]
    search: Option<String>,
    /// Suite, of any version or of this one
    #[arg(long, value_name = "SUITE[@VERSION]")]
    suite: Option<String>,
    /// Agent, of any version or of this one
    #[arg(long, value_name = "AGENT[@VERSION]")]
    agent: Option<String>,
    /// Version of the agent
    #[arg(long, value_name = "VERSION")]
    agent_version: Option<String>,
    /// Name of the agent's model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Verdict: pass, fail or inconclusive
    #[arg(long, value_name = "VERDICT", value_parser = verdict)]
    verdict: Option<Verdict>,
    /// Status, such as running, completed or waiting-input
    #[arg(long, value_name = "STATUS", value_parser = status)]
    status: Option<RunStatus>,
    /// Tag of the run
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Kind: eval, workflow or journal (decisions that the host records) [default: all]
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<RunKind>,
    /// Earliest time of creation: a time, a date (UTC), or how long ago, such as 30m, 12h or 7d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Time before which the runs were created, like --since
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Maximum number of runs, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Where to continue: the cursor that the previous list printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// A page of the list.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    pub runs: Vec<RunListing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

pub async fn run(context: &Context<'_>, arguments: &List) -> Result<Exit, Failure> {
    let asked = conditions(arguments);
    let terminal = context.terminal();
    let session = context.read().await?;
    let cursor = arguments.cursor.clone();
    let listed = fetch(session.client(), &asked, arguments.limit, cursor).await;
    let listed = listed.map_err(|failure| Failure {
        message: failure.message.replace("`cursor`", "--cursor"),
        ..failure
    })?;
    if terminal.json() {
        terminal.document(&listed);
        return Ok(Exit::Good);
    }
    if listed.runs.is_empty() {
        let note = no_match(context, session.client(), &asked).await?;
        terminal.note(&note);
        return Ok(Exit::Good);
    }
    terminal.print(&run_list(&listed.runs, SystemClock.now(), terminal.style()));
    if let Some(cursor) = &listed.next_cursor {
        terminal.note(&format!(
            "there are more runs: repeat the command with --cursor {cursor}, or raise --limit"
        ));
    }
    Ok(Exit::Good)
}

/// Why no run is listed: similar names, if a condition has a value that no recent run has.
async fn no_match(
    context: &Context<'_>,
    client: &Client,
    asked: &[Condition],
) -> Result<String, Failure> {
    let recent = match asked.is_empty() {
        true => Vec::new(),
        false => fetch(client, &[], PAGE, None).await?.runs,
    };
    if recent.is_empty() {
        return Ok(no_runs_yet(context));
    }
    let near = asked
        .iter()
        .find_map(|(condition, value)| similar(condition, value, &recent));
    let near = near.map_or_else(String::new, |near| format!("; {near}"));
    let program = context.program();
    Ok(format!(
        "no run matches{near}; list all runs with {program} run list"
    ))
}

/// A question with the names that are similar to the value of a condition; `None` if a run has it,
/// or there are none.
fn similar(condition: &str, value: &str, runs: &[RunListing]) -> Option<String> {
    let of = |run: &RunListing| -> Vec<String> {
        let subject = &run.subject;
        match condition {
            "suiteId" => subject.suite.iter().map(|it| it.suite_id.clone()).collect(),
            "agentId" => subject
                .agent
                .iter()
                .map(|it| it.agent_id.to_string())
                .collect(),
            "model" => subject.model.iter().map(|it| it.model.clone()).collect(),
            "tag" => run.tags.clone(),
            _ => Vec::new(),
        }
    };
    let known: BTreeSet<String> = runs.iter().flat_map(of).collect();
    if known.contains(value) {
        return None;
    }
    did_you_mean(value, known.iter().map(String::as_str))
}

/// The next step on a machine without runs.
pub fn no_runs_yet(context: &Context<'_>) -> String {
    let program = context.program();
    format!("no runs yet; start one with {program} eval, or see an example with {program} demo")
}

/// A condition of the list: the name of its parameter, and its value.
pub type Condition = (&'static str, String);

fn conditions(arguments: &List) -> Vec<Condition> {
    let versioned = |text: &Option<String>| match text.as_deref().map(|it| it.split_once('@')) {
        Some(Some((id, version))) => (Some(id.to_owned()), Some(version.to_owned())),
        Some(None) => (text.clone(), None),
        None => (None, None),
    };
    let (suite, suite_version) = versioned(&arguments.suite);
    let (agent, agent_version) = versioned(&arguments.agent);
    let all = [
        ("q", arguments.search.clone()),
        ("suiteId", suite),
        ("suiteVersion", suite_version),
        ("agentId", agent),
        (
            "agentVersion",
            arguments.agent_version.clone().or(agent_version),
        ),
        ("model", arguments.model.clone()),
        (
            "verdict",
            arguments.verdict.map(|it| it.as_str().to_owned()),
        ),
        ("status", arguments.status.map(|it| it.as_str().to_owned())),
        ("tag", arguments.tag.clone()),
        ("kind", arguments.kind.map(|it| it.as_str().to_owned())),
        ("since", arguments.since.map(|it| it.to_string())),
        ("until", arguments.until.map(|it| it.to_string())),
    ];
    let given = |(name, value): (&'static str, Option<String>)| Some((name, value?));
    all.into_iter().filter_map(given).collect()
}

/// Up to `limit` runs that meet the conditions, newest first.
///
/// # Errors
/// The host's error response.
pub async fn fetch(
    client: &Client,
    conditions: &[Condition],
    limit: u32,
    mut cursor: Option<String>,
) -> Result<Page, Failure> {
    let mut listed = Page::default();
    loop {
        let missing = usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .saturating_sub(listed.runs.len());
        let mut query = Serializer::new(String::new());
        query.extend_pairs(conditions.iter().map(|(name, value)| (*name, value)));
        let page = missing.min(PAGE as usize);
        query.append_pair("limit", &page.to_string());
        if let Some(cursor) = &cursor {
            query.append_pair("cursor", cursor);
        }
        let found: Page = client.get(&format!("{PATH}?{}", query.finish())).await?;
        listed.runs.extend(found.runs);
        listed.next_cursor.clone_from(&found.next_cursor);
        if found.next_cursor.is_none() || missing <= page {
            return Ok(listed);
        }
        cursor = found.next_cursor;
    }
}

fn one_of<T: Copy>(
    text: &str,
    known: impl IntoIterator<Item = (&'static str, T)>,
) -> Result<T, String> {
    let known: Vec<(&str, T)> = known.into_iter().collect();
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("must be one of {}", names.join(", "))
    })
}

fn search(text: &str) -> Result<String, String> {
    match Search::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!(
            "must have at most {MAX_WORDS} words of at most {MAX_WORD_CHARS} characters, one of them a run id"
        )),
    }
}

fn verdict(text: &str) -> Result<Verdict, String> {
    let known = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive];
    one_of(text, known.map(|it| (it.as_str(), it)))
}

fn status(text: &str) -> Result<RunStatus, String> {
    one_of(text, RunStatus::ALL.map(|it| (it.as_str(), it)))
}

fn kind(text: &str) -> Result<RunKind, String> {
    one_of(text, RunKind::ALL.map(|it| (it.as_str(), it)))
}

fn moment(text: &str) -> Result<Timestamp, String> {
    read_moment(text, SystemClock.now()).ok_or_else(|| {
        "must be a time such as 2026-11-24T09:00:00Z, a date such as 2026-11-24, or how long ago, \
         such as 30m, 12h or 7d"
            .to_owned()
    })
}

fn read_moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    if let Ok(date) = text.parse::<Date>() {
        return Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp());
    }
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    let number = text.strip_suffix(unit)?;
    let number: u32 = number
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| number.parse().ok())??;
    let ago = SignedDuration::from_secs(i64::from(number).checked_mul(seconds)?);
    now.checked_sub(ago).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2026-11-24T09:00:00Z", Some("2026-11-24T09:00:00Z"))]
    #[case("2026-11-24T10:00:00+01:00", Some("2026-11-24T09:00:00Z"))]
    #[case("2026-11-20", Some("2026-11-20T00:00:00Z"))]
    #[case("30m", Some("2026-11-24T11:30:00Z"))]
    #[case("12h", Some("2026-11-24T00:00:00Z"))]
    #[case("7d", Some("2026-11-17T12:00:00Z"))]
    #[case("yesterday", None)]
    #[case("-1d", None)]
    #[case("d", None)]
    #[case("", None)]
    #[case("4294967295d", None)]
    fn moments_are_times_dates_or_how_long_ago(#[case] text: &str, #[case] read: Option<&str>) {
        let now = "2026-11-24T12:00:00Z".parse().unwrap();
        assert_eq!(
            read_moment(text, now),
            read.map(|time| time.parse().unwrap())
        );
    }
}
