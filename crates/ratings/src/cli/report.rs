//! `touchstone rating report`: write a report on the rating of one agent or of all agents.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::{Agent, Pages, active, agent, get, progress, unrated, with_ok, write};
use crate::render::dimensions::Dimensions;
use crate::render::report::{
    AgentInfo, AgentSummary, Badge, Format, HISTORY, RatingSnapshot, RenderError, Report, Summary,
};
use crate::render::view::AssessmentView;
use crate::rules::Axis;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::files;
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;

const EXAMPLES: &str = "\
The report shows the latest rating of an agent: a chart of both axes, every dimension with its
sample size, unassessed dimensions with the reason, changes, the badge, earlier ratings, and the
mapping to standards. An HTML report is one file without scripts or external resources. For the
result of a single eval run, use `touchstone run show`.

Exit codes: 0 written, 2 bad input, 3 could not complete, 4 no rating yet.

Examples:
  touchstone rating report triage
  touchstone rating report triage --output triage.html
  touchstone rating report triage --output reports/
  touchstone rating report --summary --sort capability --output ratings.html
  touchstone rating report triage --json";

/// Write a report on the rating of one agent or of all agents
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Agent, by name or id
    #[arg(value_name = "AGENT", required_unless_present = "summary")]
    agent: Option<String>,
    /// Report on all enrolled agents instead of one
    #[arg(long, conflicts_with = "agent")]
    summary: bool,
    /// Order of agents with --summary: by name, or by the score on an axis, best first [default:
    /// order of enrollment]
    #[arg(long, value_name = "ORDER", conflicts_with = "agent")]
    sort: Option<Sort>,
    /// Output file, or `-` for stdout; a folder (ending in `/`) gets a Markdown and an HTML file
    /// unless --format selects one of them
    #[arg(long, short, value_name = "FILE|FOLDER/", default_value = "-")]
    output: PathBuf,
    /// Format [default: by file extension; Markdown on stdout]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Form>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    Html,
    Markdown,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    Name,
    Performance,
    Capability,
}

impl Sort {
    /// Sorts agents; those without a rating are last.
    fn apply(self, agents: &mut [AgentSummary]) {
        let best = |axis: Axis| {
            move |line: &AgentSummary| {
                let score = line.now.as_ref().map(|now| now.axis(axis).score);
                std::cmp::Reverse(score)
            }
        };
        match self {
            Self::Name => agents.sort_by(|one, other| one.agent.name.cmp(&other.agent.name)),
            Self::Performance => agents.sort_by_key(best(Axis::Performance)),
            Self::Capability => agents.sort_by_key(best(Axis::Capability)),
        }
    }
}

impl Arguments {
    fn is_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    fn is_folder(&self) -> bool {
        let named = self.output.as_os_str().as_encoded_bytes().ends_with(b"/");
        !self.is_stdout() && (named || self.output.is_dir())
    }

    fn form(&self) -> Result<Format, Failure> {
        let extension = self.output.extension().and_then(|it| it.to_str());
        let extension = extension.map(str::to_ascii_lowercase);
        match (self.format, extension.as_deref()) {
            (Some(Form::Html), _) | (None, Some("html" | "htm")) => Ok(Format::Html),
            (Some(Form::Markdown), _) | (None, Some("md" | "markdown")) => Ok(Format::Markdown),
            (None, _) if self.is_stdout() => Ok(Format::Markdown),
            (None, _) => Err(Failure::usage(format!(
                "cannot determine the report format from the file name {}",
                self.output.display()
            ))
            .or_try("use the extension .html or .md, or add --format")),
        }
    }
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.is_folder() {
        return into_folder(context, arguments).await;
    }
    let form = arguments.form()?;
    let session = context.read().await?;
    let terminal = context.terminal();
    let client = session.client();
    let written = match &arguments.agent {
        Some(named) => report(client, named).await.and_then(|report| {
            let text = report.write(form).map_err(no_page)?;
            Ok((text, json!(report)))
        }),
        None => summary(client, arguments.sort).await.and_then(|summary| {
            let text = summary.write(form).map_err(no_page)?;
            Ok((text, json!(summary)))
        }),
    };
    let (text, facts) = written?;
    deliver(terminal, arguments, &text, facts)?;
    Ok(Exit::Good)
}

/// Writes the report in each format into a folder, named after the agent.
async fn into_folder(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let client = session.client();
    let forms = match arguments.format {
        Some(Form::Html) => vec![(Format::Html, "html")],
        Some(Form::Markdown) => vec![(Format::Markdown, "md")],
        None => vec![(Format::Markdown, "md"), (Format::Html, "html")],
    };
    let mut texts = Vec::new();
    let (name, mut facts) = match &arguments.agent {
        Some(named) => {
            let report = report(client, named).await?;
            for (form, extension) in forms {
                texts.push((extension, report.write(form).map_err(no_page)?));
            }
            (file_name(&report.agent.name), json!(report))
        }
        None => {
            let summary = summary(client, arguments.sort).await?;
            for (form, extension) in forms {
                texts.push((extension, summary.write(form).map_err(no_page)?));
            }
            ("summary".to_owned(), json!(summary))
        }
    };
    let folder = files::folder(&arguments.output)?;
    let mut outputs = Vec::new();
    for (extension, text) in texts {
        let file = folder.join(format!("{name}.{extension}"));
        write(&file, text.as_bytes())?;
        outputs.push(file);
    }
    let terminal = context.terminal();
    if terminal.json() {
        if let Value::Object(members) = &mut facts {
            members.insert("outputs".to_owned(), json!(outputs));
        }
        terminal.document(&with_ok(facts, true));
    } else {
        for file in outputs {
            terminal.note(&format!("written to {}", file.display()));
        }
    }
    Ok(Exit::Good)
}

/// The agent's name as a safe file name, without path separators.
fn file_name(name: &str) -> String {
    const MAX_CHARS: usize = 100;
    let plain = |c: char| {
        let keeps = c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        if keeps { c } else { '-' }
    };
    let name: String = name.chars().take(MAX_CHARS).map(plain).collect();
    match name.trim_start_matches('.') {
        "" => "agent".to_owned(),
        name => name.to_owned(),
    }
}

fn no_page(fault: RenderError) -> Failure {
    Failure::not_done("report_failed", fault.to_string())
}

fn deliver(
    terminal: &Terminal,
    arguments: &Arguments,
    text: &str,
    facts: Value,
) -> Result<(), Failure> {
    let file = &arguments.output;
    if !arguments.is_stdout() {
        if let Some(parent) = file.parent().filter(|it| !it.as_os_str().is_empty()) {
            files::folder(parent)?;
        }
        write(file, text.as_bytes())?;
    }
    if terminal.json() {
        terminal.document(&with_ok(facts, true));
    } else if arguments.is_stdout() {
        terminal.print(text);
    } else {
        terminal.note(&format!("written to {}", file.display()));
    }
    Ok(())
}

/// Earlier assessments of an agent.
#[derive(Default)]
pub(super) struct RatingHistory {
    /// The latest rating.
    pub last: Option<AssessmentView>,
    /// Earlier ratings, up to the list's limit.
    before: Vec<RatingSnapshot>,
    /// The latest failed assessment since.
    failed: Option<AssessmentView>,
}

impl RatingHistory {
    pub async fn of(client: &Client, agent: &Agent) -> Result<Self, Failure> {
        let mut history = Self::default();
        let mut pages = Pages::new(client, "assessments", &[format!("agent_id={}", agent.id)]);
        while let Some(page) = pages.next::<AssessmentView>().await? {
            page.into_iter().for_each(|it| history.take(it, true));
        }
        Ok(history)
    }

    /// Adds an assessment of the agent; call in the order of requests.
    fn take(&mut self, assessed: AssessmentView, with_history: bool) {
        if assessed.error.is_some() {
            self.failed = Some(assessed);
            return;
        }
        if RatingSnapshot::of(&assessed).is_none() {
            return;
        }
        self.failed = None;
        let before = self.last.replace(assessed);
        if with_history && let Some(before) = before.as_ref().and_then(RatingSnapshot::of) {
            if self.before.len() == HISTORY {
                self.before.remove(0);
            }
            self.before.push(before);
        }
    }
}

async fn report(client: &Client, named: &str) -> Result<Report, Failure> {
    let agent = agent(client, named).await?;
    let document: Value = get(client, &format!("agents/{}", agent.id)).await?;
    let organization = organization(client, &document).await?;
    let subject: AgentInfo =
        serde_json::from_value(document).map_err(|fault| Failure::unexpected(&fault))?;
    let history = RatingHistory::of(client, &agent).await?;
    let assessment = history.last.ok_or_else(|| unrated(&agent))?;
    let now = RatingSnapshot::of(&assessment).ok_or_else(|| unrated(&agent))?;
    let badge = match &assessment.badge_id {
        Some(badge) => Some(get::<Badge>(client, &format!("badges/{badge}/verify")).await?),
        None => None,
    };
    Ok(Report {
        made_at: SystemClock.now(),
        organization,
        agent: subject,
        assessment,
        now,
        badge,
        history: history.before,
        failed_since: history.failed,
    })
}

async fn summary(client: &Client, sort: Option<Sort>) -> Result<Summary, Failure> {
    let (mut agents, mut organization_name) = (Vec::new(), None);
    let mut pages = active(client);
    while let Some(page) = pages.next::<Value>().await? {
        for document in page {
            if agents.is_empty() {
                organization_name = organization(client, &document).await?;
            }
            let subject: AgentInfo =
                serde_json::from_value(document).map_err(|fault| Failure::unexpected(&fault))?;
            agents.push(subject);
        }
    }
    if agents.is_empty() {
        return Err(Failure::bad_input("NOT_FOUND", "no agents are enrolled")
            .or_try("enroll one with touchstone rating enroll NAME"));
    }
    let mut pasts: HashMap<String, RatingHistory> = HashMap::new();
    let mut pages = Pages::new(client, "assessments", &[]);
    while let Some(page) = pages.next::<AssessmentView>().await? {
        for assessed in page {
            let history = pasts.entry(assessed.agent_id.clone()).or_default();
            history.take(assessed, false);
        }
    }
    let mut lines = Vec::new();
    for agent in agents {
        let history = pasts.remove(&agent.id).unwrap_or_default();
        let failed = history.failed.and_then(|it| it.error);
        let progress = match progress(client, &agent.id).await {
            Ok(progress) => Some(progress),
            // The key lacks the scope, or there is more evidence than a host counts.
            Err(failure) if matches!(&*failure.code, "FORBIDDEN" | "INVALID_REQUEST") => None,
            Err(failure) => return Err(failure),
        };
        lines.push(AgentSummary {
            now: history.last.as_ref().and_then(RatingSnapshot::of),
            review_required: history.last.is_some_and(|it| it.review_required),
            failed_since: failed.map(|fault| fault.message),
            progress,
            agent,
        });
    }
    if let Some(sort) = sort {
        sort.apply(&mut lines);
    }
    let found: Dimensions = get(client, "dimensions").await?;
    Ok(Summary {
        made_at: SystemClock.now(),
        organization: organization_name,
        agents: lines,
        dimensions: found.dimensions,
    })
}

/// The name of the agent's organization, if the key may read it.
async fn organization(client: &Client, agent: &Value) -> Result<Option<String>, Failure> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let Some(id) = agent.get("organization_id").and_then(Value::as_str) else {
        return Ok(None);
    };
    match get::<Named>(client, &format!("organizations/{id}")).await {
        Ok(named) => Ok(Some(named.name)),
        Err(failure) if failure.code == "FORBIDDEN" => Ok(None),
        Err(failure) => Err(failure),
    }
}
