//! `touchstone rating collect`: record evidence from files, from a person, or from a host's own
//! eval runs.

pub mod manual;
pub mod memory;
pub mod runs;
pub mod source;
pub mod tasks;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::Method;
use clap::Args;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::collect::source::{Source, SourceEvent};
use crate::cli::{API, agents, moment, with_ok, with_remedy};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::retry::retry_until_answered;
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::render::words::plain;
use touchstone_runs::cli::progress::Counted;

/// Events per batch, the API's maximum.
const BATCH: usize = 1000;
/// Maximum size of a batch in bytes, well below a host's request limit.
const BATCH_OCTETS: usize = 4 << 20;
/// Number of refusals that are listed; the rest are only counted.
const MAX_LISTED: usize = 1000;
/// The same without `--json`.
const MAX_PRINTED: usize = 20;

const EXAMPLES: &str = "\
--source host records the host's own eval runs as evidence, each run once: runs of enrolled agents
whose suite has an assessment profile. Assessments do this automatically. To read a file called
`host`, write ./host.

--source task_logs records logs with one task per row, as JSON Lines or as CSV with a header. It
reads the file of --file, or else task_logs.jsonl, task_logs.csv, and the .jsonl and .csv files in
task_logs/. docs/ratings.md lists the columns.

--source memory_files records tasks that an agent notes in Markdown files. It reads the file or
folder of --file, or else memory_files/. docs/ratings.md describes the format of these notes.

--source manual records the event described by --event, --at and --set.

--source FILE records events from JSON Lines, from a JSON array, or from the member `events` of a
JSON object. docs/ratings.md describes their format. An event refers to its agent by name or id. An
event without `id` gets an id from its content and position, so collecting the same file again,
even with more lines, records nothing twice.

Exit codes: 0 all recorded, 1 some or all refused (with line numbers), 2 bad input, 3
could not complete.

Examples:
  touchstone rating collect --source events.jsonl
  touchstone rating collect --source host --agent triage
  touchstone rating collect triage --source task_logs --from 2026-03-17
  touchstone rating collect triage --source task_logs --file march.csv
  touchstone rating collect triage --source memory_files --file ~/.triage/memory
  touchstone rating collect triage --source manual --event task_revised \\
    --at 2026-04-16T12:00:00Z --set task_id=T-17 --set revision_number=1 \\
    --set reason_code=minor --set changes=null
  touchstone rating collect triage --source events.json --from 2026-04-01
  jq -c '.[]' export.json | touchstone rating collect --source - --json";

/// Record evidence about agents from files or from the host's own eval runs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Name or id of the agent for events without an agent; with --source host, collect only this
    /// agent's eval runs
    #[arg(value_name = "AGENT", conflicts_with = "agent")]
    of: Option<String>,
    /// Source of the events: a file, `-` for stdin, `host` for the host's eval runs, `task_logs`
    /// for task logs, `memory_files` for an agent's notes, `manual` for one event
    #[arg(long, value_name = "FILE|host|task_logs|memory_files|manual")]
    source: PathBuf,
    /// Log file for --source task_logs, or file or folder of notes for --source memory_files
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    manual: manual::Entry,
    /// Skip events before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
    /// Same as AGENT
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Collected {
    /// Accepted events, including those recorded earlier.
    accepted: u64,
    /// Number of newly recorded ones; `None` if the host does not report it.
    new: Option<u64>,
    rejected: u64,
    /// Events older than --from.
    left_out: u64,
    /// The first refused events.
    errors: Vec<Refused>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Refused {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Arc<str>>,
    line: usize,
    error: String,
}

/// The kinds of `--source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Host,
    TaskLogs,
    MemoryFiles,
    Manual,
}

impl Arguments {
    fn kind(&self) -> Kind {
        match self.source.to_str() {
            Some("host") => Kind::Host,
            Some(tasks::NAME) => Kind::TaskLogs,
            Some(memory::NAME) => Kind::MemoryFiles,
            Some(manual::NAME) => Kind::Manual,
            _ => Kind::File,
        }
    }

    fn open(&self) -> Result<Source, Failure> {
        let kind = self.kind();
        if self.file.is_some() && !matches!(kind, Kind::TaskLogs | Kind::MemoryFiles) {
            let message = "--file applies only to --source task_logs and --source memory_files";
            return Err(Failure::usage(message).or_try("use --source FILE"));
        }
        if kind != Kind::Manual && self.manual.is_given() {
            let message = "--event, --at and --set apply only to --source manual";
            return Err(Failure::usage(message).or_try("add --source manual"));
        }
        match kind {
            Kind::TaskLogs => tasks::open(self.file.as_deref()),
            Kind::MemoryFiles => memory::open(self.file.as_deref()),
            Kind::Manual => self.manual.open(),
            Kind::File | Kind::Host => Source::open(&self.source),
        }
    }

    fn agent(&self) -> Option<&str> {
        self.of.as_deref().or(self.agent.as_deref())
    }
}

impl Collected {
    fn refuse(&mut self, (file, line): Location, error: String) {
        self.rejected += 1;
        if self.errors.len() < MAX_LISTED {
            self.errors.push(Refused { file, line, error });
        }
    }
}

/// The place of an event: the file, if there are several, and the line.
type Location = (Option<Arc<str>>, usize);

/// Events to send together.
#[derive(Default)]
struct Batch {
    places: Vec<Location>,
    events: Vec<Value>,
    octets: usize,
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let mut source = match arguments.kind() {
        Kind::Host if arguments.file.is_none() && !arguments.manual.is_given() => {
            return runs::collect(context, arguments).await;
        }
        _ => arguments.open()?,
    };
    let session = context.write().await?;
    let terminal = context.terminal();
    let mut collected = Collected::default();
    let outcome = collect(
        session.client(),
        terminal,
        &mut source,
        arguments,
        &mut collected,
    );
    outcome.await.map_err(|failure| {
        let failure = with_remedy(context, failure);
        if collected.accepted == 0 {
            return failure;
        }
        failure
            .with("accepted", collected.accepted)
            .or_try("collect again: recorded events are not recorded twice")
    })?;
    show(terminal, &collected);
    Ok(match collected.rejected {
        0 => Exit::Good,
        _ => Exit::Negative,
    })
}

async fn collect(
    client: &Client,
    terminal: &Terminal,
    source: &mut Source,
    arguments: &Arguments,
    collected: &mut Collected,
) -> Result<(), Failure> {
    let resolver = AgentResolver::of(client, arguments.agent()).await?;
    let bar = match terminal.bars().then(|| source.len()).flatten() {
        Some(all) => Counted::new(terminal, all),
        None => Counted::open(terminal),
    };
    let (mut batch, mut ordinal) = (Batch::default(), 0_u64);
    // Events of task logs, memory files and people are identified by content, not by position.
    let is_placed = arguments.kind() == Kind::File;
    while let Some(SourceEvent {
        file,
        line,
        octets,
        event,
    }) = source.next()?
    {
        ordinal += 1;
        let mut event = match event {
            Ok(event) => event,
            Err(fault) => {
                collected.refuse((file, line), fault);
                continue;
            }
        };
        if is_before(&event, arguments.from) {
            collected.left_out += 1;
            continue;
        }
        resolver.assign_agent(&mut event);
        with_id(&mut event, if is_placed { ordinal } else { 0 });
        if batch.events.len() == BATCH || batch.octets + octets > BATCH_OCTETS {
            send(client, std::mem::take(&mut batch), collected).await?;
            bar.reach(ordinal, format!("{} recorded", collected.accepted));
        }
        batch.places.push((file, line));
        batch.events.push(event);
        batch.octets += octets;
    }
    send(client, batch, collected).await?;
    bar.clear();
    Ok(())
}

/// Assigns agents to events.
struct AgentResolver {
    /// Agent ids by name.
    known: HashMap<String, String>,
    /// Agent of events that name none.
    otherwise: Option<String>,
}

impl AgentResolver {
    async fn of(client: &Client, named: Option<&str>) -> Result<Self, Failure> {
        let otherwise = match named {
            Some(named) => Some(crate::cli::agent(client, named).await?.id),
            None => None,
        };
        let known = agents(client).await?.into_iter();
        Ok(Self {
            known: known.map(|it| (it.name, it.id)).collect(),
            otherwise,
        })
    }

    /// Replaces the agent's name by its id, if it is known; the host refuses unknown ones.
    fn assign_agent(&self, event: &mut Value) {
        let Value::Object(members) = event else {
            return;
        };
        let id = match members.get("agent_id") {
            None => self.otherwise.as_ref(),
            Some(Value::String(named)) => self.known.get(named),
            Some(_) => None,
        };
        if let Some(id) = id {
            members.insert("agent_id".to_owned(), json!(id));
        }
    }
}

/// Gives an event without id an id from its content and position: two equal events in one file are
/// different.
fn with_id(event: &mut Value, ordinal: u64) {
    let content = format!("{ordinal}:{event}");
    if let Value::Object(members) = event
        && !members.contains_key("id")
    {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, content.as_bytes());
        members.insert("id".to_owned(), json!(id));
    }
}

/// Whether an event is older than `from`. The host refuses events without a time.
fn is_before(event: &Value, from: Option<Timestamp>) -> bool {
    let happened = event.get("timestamp").and_then(Value::as_str);
    let happened = happened.and_then(|text| text.parse::<Timestamp>().ok());
    happened.zip(from).is_some_and(|(at, from)| at < from)
}

#[derive(Deserialize)]
struct Answer {
    accepted: u64,
    #[serde(default)]
    new: Option<u64>,
    errors: Vec<Indexed>,
}

#[derive(Deserialize)]
struct Indexed {
    index: usize,
    error: String,
}

async fn send(client: &Client, batch: Batch, collected: &mut Collected) -> Result<(), Failure> {
    if batch.events.is_empty() {
        return Ok(());
    }
    let key = Uuid::now_v7().to_string();
    let path = format!("{API}/events/batch");
    let body = json!({"events": batch.events});
    let answered = retry_until_answered(|| {
        let call = Call::new(Method::POST, &path).header("idempotency-key", &key);
        client.call::<Value>(call.json(&body))
    });
    let answer = match answered.await {
        Ok(answer) => answer,
        // If no event is valid, the refusal lists an error for each.
        Err(failure) if failure.details.contains_key("errors") => Value::Object(failure.details),
        Err(failure) => return Err(failure),
    };
    let answer: Answer =
        serde_json::from_value(answer).map_err(|fault| Failure::unexpected(&fault))?;
    collected.accepted += answer.accepted;
    if let Some(new) = answer.new {
        collected.new = Some(collected.new.unwrap_or_default() + new);
    }
    for Indexed { index, error } in answer.errors {
        let place = batch.places.get(index).cloned().unwrap_or_default();
        collected.refuse(place, error);
    }
    Ok(())
}

fn show(terminal: &Terminal, collected: &Collected) {
    if terminal.json() {
        terminal.document(&with_ok(collected, collected.rejected == 0));
        return;
    }
    for refused in collected.errors.iter().take(MAX_PRINTED) {
        let place = match &refused.file {
            Some(file) => format!("{}, line {}", plain(file), refused.line),
            None => format!("line {}", refused.line),
        };
        terminal.note(&format!("{place}: {}", plain(&refused.error)));
    }
    let more = collected.rejected.saturating_sub(MAX_PRINTED as u64);
    if more > 0 {
        terminal.note(&format!(
            "… and {more} more; --json lists up to {MAX_LISTED}"
        ));
    }
    let mut parts = vec![format!("{} recorded", collected.accepted)];
    for (many, what) in [
        (collected.rejected, "refused"),
        (collected.left_out, "skipped as older"),
    ] {
        if many > 0 {
            parts.push(format!("{many} {what}"));
        }
    }
    terminal.print(&parts.join(", "));
    if let Some(new) = collected.new.filter(|new| *new < collected.accepted) {
        let known = collected.accepted - new;
        terminal.note(&format!("{new} new, {known} already recorded"));
    }
}
