//! `touchstone rating`: enroll agents, collect evidence, assess, report and certify, through the
//! public API. [`Alias`] has the command names that the AAAF specification prints.

pub mod assess;
pub mod badge;
mod collect;
pub mod enroll;
pub mod manage;
pub mod report;
pub mod score;
pub mod stress_test;

use std::path::Path;

use clap::{Subcommand, ValueEnum};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::render::progress::CollectionProgress;
use crate::render::view::AssessmentView;
use crate::rules::{Dimension, Insufficient};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::retry::retry_until_answered;
use touchstone_host::render::words::plain;

const API: &str = "/api/v1";
/// Records per page.
const PAGE: u8 = 200;
/// Number of existing names listed in the error for an unknown name.
const MAX_NAMES: usize = 8;

/// Rate agents from evidence of their work: enroll, assess, report, badges, reviews, appeals
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone rating enroll triage --domain customer_support --tool search\n  touchstone rating collect --source events.jsonl\n  touchstone rating assess triage\n  touchstone rating report triage --output triage.html"
)]
pub enum Command {
    Enroll(enroll::Arguments),
    Collect(collect::Arguments),
    Assess(assess::Arguments),
    StressTest(stress_test::Arguments),
    Report(report::Arguments),
    Badge(badge::Arguments),
    Score(Box<score::Arguments>),
    #[command(flatten)]
    Manage(manage::Command),
}

// Hidden top-level commands: the names that the AAAF specification prints, and `aaaf score`.
#[derive(Debug, Subcommand)]
pub enum Alias {
    #[command(hide = true)]
    Enroll(enroll::Arguments),
    #[command(hide = true)]
    Collect(collect::Arguments),
    #[command(hide = true)]
    Assess(assess::Arguments),
    #[command(hide = true)]
    StressTest(stress_test::Arguments),
    #[command(hide = true)]
    Report(report::Arguments),
    #[command(hide = true)]
    Badge(badge::Arguments),
    #[command(hide = true, subcommand)]
    Aaaf(Aaaf),
}

/// Alias of `touchstone rating score`
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  touchstone rating score events.jsonl")]
pub enum Aaaf {
    Score(Box<score::Arguments>),
}

impl Command {
    pub const fn target(&self) -> CommandTarget {
        match self {
            Self::Badge(arguments) => arguments.target(),
            Self::Score(_) => CommandTarget::FilesByRules,
            _ => CommandTarget::Host,
        }
    }
}

impl Alias {
    pub const fn target(&self) -> CommandTarget {
        match self {
            Self::Badge(arguments) => arguments.target(),
            Self::Aaaf(Aaaf::Score(_)) => CommandTarget::FilesByRules,
            _ => CommandTarget::Host,
        }
    }
}

impl From<Alias> for Command {
    fn from(alias: Alias) -> Self {
        match alias {
            Alias::Enroll(arguments) => Self::Enroll(arguments),
            Alias::Collect(arguments) => Self::Collect(arguments),
            Alias::Assess(arguments) => Self::Assess(arguments),
            Alias::StressTest(arguments) => Self::StressTest(arguments),
            Alias::Report(arguments) => Self::Report(arguments),
            Alias::Badge(arguments) => Self::Badge(arguments),
            Alias::Aaaf(Aaaf::Score(arguments)) => Self::Score(arguments),
        }
    }
}

pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    let exit = match command {
        Command::Enroll(arguments) => enroll::run(context, &arguments).await,
        Command::Assess(arguments) => assess::run(context, &arguments).await,
        Command::StressTest(arguments) => stress_test::run(context, &arguments).await,
        Command::Report(arguments) => report::run(context, &arguments).await,
        Command::Badge(arguments) => badge::run(context, &arguments).await,
        Command::Collect(arguments) => return collect::run(context, &arguments).await,
        Command::Score(arguments) => return score::run(context, &arguments),
        Command::Manage(command) => return manage::run(context, command).await,
    };
    exit.map_err(|failure| with_remedy(context, failure))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum AssessmentType {
    Full,
    PassiveOnly,
    StressTestOnly,
}

impl AssessmentType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::PassiveOnly => "passive_only",
            Self::StressTestOnly => "stress_test_only",
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Agent {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

/// A paginated list of the API.
struct Pages<'a> {
    client: &'a Client,
    path: String,
    cursor: Option<String>,
    ended: bool,
}

impl<'a> Pages<'a> {
    /// Pages of `list` with the filters `name=value`, which must not need escaping.
    fn new(client: &'a Client, list: &str, conditions: &[String]) -> Self {
        let mut path = format!("{API}/{list}?limit={PAGE}");
        for condition in conditions {
            path = format!("{path}&{condition}");
        }
        Self {
            client,
            path,
            cursor: None,
            ended: false,
        }
    }

    /// The next page; `None` after the last.
    async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Vec<T>>, Failure> {
        if self.ended {
            return Ok(None);
        }
        let path = match &self.cursor {
            Some(cursor) => format!("{}&cursor={cursor}", self.path),
            None => self.path.clone(),
        };
        let page: Page<T> = retry_until_answered(|| self.client.get(&path)).await?;
        self.ended = page.next_cursor.is_none();
        self.cursor = page.next_cursor;
        Ok(Some(page.data))
    }
}

/// Pages of the organization's active agents.
fn active(client: &Client) -> Pages<'_> {
    Pages::new(client, "agents", &["status=active".to_owned()])
}

async fn agents(client: &Client) -> Result<Vec<Agent>, Failure> {
    let (mut pages, mut all) = (active(client), Vec::new());
    while let Some(mut page) = pages.next::<Agent>().await? {
        all.append(&mut page);
    }
    Ok(all)
}

/// Finds an agent by name or id.
async fn agent(client: &Client, named: &str) -> Result<Agent, Failure> {
    if Uuid::try_parse(named).is_ok() {
        match get(client, &format!("agents/{named}")).await {
            // The text may also be a name that looks like an id.
            Err(failure) if failure.code == "NOT_FOUND" => {}
            found => return found,
        }
    }
    let (mut pages, mut others) = (active(client), Vec::new());
    while let Some(page) = pages.next::<Agent>().await? {
        for agent in page {
            if agent.name == named {
                return Ok(agent);
            }
            if others.len() < MAX_NAMES {
                others.push(plain(&agent.name));
            }
        }
    }
    let failure = Failure::bad_input(
        "NOT_FOUND",
        format!("agent {} not found", plain(named).trim()),
    );
    Err(match others.as_slice() {
        [] => failure.or_try("enroll it with touchstone rating enroll NAME"),
        _ => failure.or_try(format!(
            "use an enrolled agent such as {}, or `touchstone rating enroll` a new one",
            others.join(", ")
        )),
    })
}

/// The assessment with this id, or the latest rating of the agent with this name or id.
async fn assessment(client: &Client, named: &str) -> Result<AssessmentView, Failure> {
    if Uuid::try_parse(named).is_ok() {
        match get(client, &format!("assessments/{named}")).await {
            Err(failure) if failure.code == "NOT_FOUND" => {}
            found => return found,
        }
    }
    let agent = agent(client, named).await?;
    let history = report::RatingHistory::of(client, &agent).await?;
    history.last.ok_or_else(|| unrated(&agent))
}

/// How much evidence is collected towards a rating.
async fn progress(client: &Client, agent: &str) -> Result<CollectionProgress, Failure> {
    get(client, &format!("agents/{agent}/progress")).await
}

/// Loads a document of the API by its path below the version.
async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Failure> {
    let path = format!("{API}/{path}");
    retry_until_answered(|| client.get(&path)).await
}

/// A document with the member `ok`.
fn with_ok(document: impl Serialize, ok: bool) -> Value {
    let mut document = json!(document);
    if let Value::Object(members) = &mut document {
        members.insert("ok".to_owned(), json!(ok));
    }
    document
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(file, bytes).map_err(|cause| {
        let message = format!("could not write {}: {cause}", file.display());
        Failure::not_done("file_not_written", message).or_try("choose another file with --output")
    })
}

fn no_wait_needs_host() -> Failure {
    Failure::usage("--no-wait needs a separate host: this process would end before the assessment")
        .or_try("omit it, or use a host with --server")
}

fn unrated(agent: &Agent) -> Failure {
    let name = plain(&agent.name);
    let failure = Failure::inconclusive(Insufficient::CODE, format!("{name} has no rating yet"));
    failure.or_try(format!("assess it with touchstone rating assess {name}"))
}

/// Adds the remedy for a data folder that has no organization yet.
fn with_remedy(context: &Context<'_>, mut failure: Failure) -> Failure {
    if failure.code == "FORBIDDEN" && context.is_embedded() {
        // The owner of a data folder may do everything once there is an organization.
        failure.remedy = Some("enroll an agent with touchstone rating enroll NAME".to_owned());
    }
    failure
}

/// Parses the name or short name of a dimension.
fn dimension(name: &str) -> Result<Dimension, String> {
    Dimension::named(name).ok_or_else(|| {
        let all = Dimension::PERFORMANCE.iter().chain(&Dimension::CAPABILITY);
        let names: Vec<String> = all
            .map(|it| match it.short() {
                short if short == it.as_str() => short.to_owned(),
                short => format!("{short} ({it})"),
            })
            .collect();
        format!("must be one of {}", names.join(", "))
    })
}

/// Parses a timestamp, or a day as its first moment in UTC.
fn moment(text: &str) -> Result<Timestamp, String> {
    // `parse` would also take a time without an offset, and drop it.
    let day = || jiff::civil::Date::strptime("%Y-%m-%d", text).ok();
    let first = |day: jiff::civil::Date| day.to_zoned(jiff::tz::TimeZone::UTC).ok();
    text.parse()
        .ok()
        .or_else(|| day().and_then(first).map(|zoned| zoned.timestamp()))
        .ok_or_else(|| {
            "must be a timestamp such as 2026-04-16T12:00:00Z, or a day such as 2026-04-16"
                .to_owned()
        })
}
