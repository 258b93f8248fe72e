//! Ratings of agents (AAAF S16): enrollment, evidence collection, assessment, through the public
//! API.
//!
//! Exit codes: 0, 1 for an error, 2 for bad usage, 4 for insufficient evidence.

pub mod assess;
pub mod collect;
pub mod enroll;
pub mod manage;
pub mod report;
pub mod stress_test;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::client::Client;
use super::context::Context;
use super::exit::{Exit, Failure};
use super::patience::persistently;
use crate::domain::aaaf::Insufficient;
use crate::render::plain;
use crate::render::rating::progress::CollectionProgress;
use crate::render::rating::view::Assessed;

pub(super) const API: &str = "/api/v1";
/// Records per page.
const PAGE: u8 = 200;
/// Number of existing names listed in the error for an unknown name.
const NAMES_TOLD: usize = 8;

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
        let page: Page<T> = persistently(|| self.client.get(&path)).await?;
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
        let path = format!("{API}/agents/{named}");
        match persistently(|| client.get(&path)).await {
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
            if others.len() < NAMES_TOLD {
                others.push(plain(&agent.name));
            }
        }
    }
    let failure = Failure::bad_input(
        "NOT_FOUND",
        format!("agent {} not found", plain(named).trim()),
    );
    Err(match others.as_slice() {
        [] => failure.or_try("enroll it with touchstone enroll NAME"),
        _ => failure.or_try(format!(
            "use an enrolled agent such as {}, or `touchstone enroll` a new one",
            others.join(", ")
        )),
    })
}

/// The assessment with this id, or the latest rating of the agent with this name or id.
pub(super) async fn assessment(client: &Client, named: &str) -> Result<Assessed, Failure> {
    if Uuid::try_parse(named).is_ok() {
        let path = format!("{API}/assessments/{named}");
        match persistently(|| client.get(&path)).await {
            Err(failure) if failure.code == "NOT_FOUND" => {}
            found => return found,
        }
    }
    let agent = agent(client, named).await?;
    let past = report::Past::of(client, &agent).await?;
    past.last.ok_or_else(|| unrated(&agent))
}

/// How much evidence is collected towards a rating.
async fn progress(client: &Client, agent: &str) -> Result<CollectionProgress, Failure> {
    let path = format!("{API}/agents/{agent}/progress");
    persistently(|| client.get(&path)).await
}

fn nobody_else() -> Failure {
    Failure::usage("--no-wait needs a separate host: this process would end before the assessment")
        .or_try("omit it, or use a host with --server")
}

fn unrated(agent: &Agent) -> Failure {
    let name = plain(&agent.name);
    let failure = Failure::inconclusive(Insufficient::CODE, format!("{name} has no rating yet"));
    failure.or_try(format!("assess it with touchstone assess {name}"))
}

/// Maps a failure to the exit codes of rating commands.
pub(super) fn told(context: &Context<'_>, mut failure: Failure) -> Failure {
    failure.exit = match (&*failure.code, failure.exit) {
        ("usage" | Insufficient::CODE, exit) => exit,
        _ => Exit::Negative,
    };
    if failure.code == "FORBIDDEN" && context.is_embedded() {
        // The owner of a data folder may do everything once there is an organization.
        failure.remedy = Some("enroll an agent with touchstone enroll NAME".to_owned());
    }
    failure
}

/// Parses a timestamp, or a day as its first moment in UTC.
fn moment(text: &str) -> Result<Timestamp, String> {
    let day = || text.parse::<jiff::civil::Date>().ok();
    let first = |day: jiff::civil::Date| day.to_zoned(jiff::tz::TimeZone::UTC).ok();
    text.parse()
        .ok()
        .or_else(|| day().and_then(first).map(|zoned| zoned.timestamp()))
        .ok_or_else(|| {
            "must be a timestamp such as 2026-04-16T12:00:00Z, or a day such as 2026-04-16"
                .to_owned()
        })
}
