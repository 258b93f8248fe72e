//! Agents that are rated (AAAF S16): enrolled, their evidence collected, assessed. Over the same API as anybody else.
//!
//! Exit codes are the framework's: 0, 1 for an error, 3 for evidence that does not suffice; bad usage is 2 as everywhere.

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

/// Where the API is.
pub(super) const API: &str = "/api/v1";
/// Records of a page.
const PAGE: u8 = 200;
/// Names that are told to somebody who misspelt one.
const NAMES_TOLD: usize = 8;

/// An agent, as far as commands need to know it.
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

/// A list of the API, page by page.
struct Pages<'a> {
    client: &'a Client,
    path: String,
    cursor: Option<String>,
    ended: bool,
}

impl<'a> Pages<'a> {
    /// Of `list`, with these conditions: `name=value`, of letters that need no escaping.
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

    /// The next page; none after the last.
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

/// The agents of the organization that are not archived, a page at a time.
fn active(client: &Client) -> Pages<'_> {
    Pages::new(client, "agents", &["status=active".to_owned()])
}

/// All of them.
async fn agents(client: &Client) -> Result<Vec<Agent>, Failure> {
    let (mut pages, mut all) = (active(client), Vec::new());
    while let Some(mut page) = pages.next::<Agent>().await? {
        all.append(&mut page);
    }
    Ok(all)
}

/// The agent of this name or id.
async fn agent(client: &Client, named: &str) -> Result<Agent, Failure> {
    if Uuid::try_parse(named).is_ok() {
        let path = format!("{API}/agents/{named}");
        match persistently(|| client.get(&path)).await {
            // An agent may be called like anything.
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
        format!("no agent is called {}", plain(named).trim()),
    );
    Err(match others.as_slice() {
        [] => failure.or_try("touchstone enroll NAME"),
        _ => failure.or_try(format!(
            "one of those there are, such as {}, or `touchstone enroll` another one",
            others.join(", ")
        )),
    })
}

/// The assessment of this id, or the last rating of the agent of this name or id.
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

/// How much of the evidence that a rating needs is there.
async fn progress(client: &Client, agent: &str) -> Result<CollectionProgress, Failure> {
    let path = format!("{API}/agents/{agent}/progress");
    persistently(|| client.get(&path)).await
}

/// Nobody goes on with what was asked for.
fn nobody_else() -> Failure {
    Failure::usage(
        "--no-wait needs a host that goes on with it; this process is the only one there is",
    )
    .or_try("leave it out, or name a host by --server")
}

/// There is no rating.
fn unrated(agent: &Agent) -> Failure {
    let name = plain(&agent.name);
    let failure = Failure::not_done(
        Insufficient::CODE,
        format!("there is no rating of {name} yet"),
    );
    failure.or_try(format!("touchstone assess {name}"))
}

/// A failure with the framework's exit codes.
pub(super) fn told(context: &Context<'_>, mut failure: Failure) -> Failure {
    failure.exit = match (&*failure.code, failure.exit) {
        (Insufficient::CODE, _) => Exit::NotDone,
        ("usage", exit) => exit,
        _ => Exit::Negative,
    };
    if failure.code == "FORBIDDEN" && context.is_embedded() {
        // In the data folder everything is allowed to whoever has it, once there is an organization.
        failure.remedy = Some("touchstone enroll NAME".to_owned());
    }
    failure
}

/// A moment, or the first one of a day.
fn moment(text: &str) -> Result<Timestamp, String> {
    let day = || text.parse::<jiff::civil::Date>().ok();
    let first = |day: jiff::civil::Date| day.to_zoned(jiff::tz::TimeZone::UTC).ok();
    text.parse()
        .ok()
        .or_else(|| day().and_then(first).map(|zoned| zoned.timestamp()))
        .ok_or_else(|| {
            "write a moment such as 2026-04-16T12:00:00Z, or a day such as 2026-04-16".to_owned()
        })
}
