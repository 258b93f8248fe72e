//! Watching a run to its end: progress, cancel, scorecard, files, verdict.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::client::Client;
use super::context::{Context, Session};
use super::exit::{Exit, Failure};
use super::progress::Progress;
use super::run::exit_of;
use super::terminal::Terminal;
use crate::domain::eval::report::{EvalReport, Verdict};
use crate::domain::eval::statistics::Statistics;
use crate::domain::statistics::GateVerdict;
use crate::render::github::annotations;
use crate::render::junit::junit;
use crate::render::markdown::markdown;
use crate::render::scorecard::scorecard;

/// How long the host may gather events into one frame.
const BUFFER: Duration = Duration::from_millis(100);
/// Names the file that GitHub Actions shows beside a step.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";
/// What GitHub takes of one step is 1 MiB.
const MOST_SUMMARY_OCTETS: usize = 1_000_000;

/// What to make of the result beside the scorecard.
#[derive(Clone, Debug, Default, Args)]
pub struct Outputs {
    /// Write the result as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Write the result as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// On GitHub Actions: add the result to the step's summary, and annotate what did not pass [default: where
    /// GITHUB_STEP_SUMMARY is set]
    #[arg(long, overrides_with = "no_github")]
    github: bool,

    /// Leave the step's summary alone
    #[arg(long, overrides_with = "github")]
    no_github: bool,

    /// Exit 0 when the score reaches the pass score, even if its confidence interval includes lower scores
    #[arg(long)]
    lenient: bool,
}

impl Outputs {
    /// Finds out before the run, not after it, that a file has no folder to lie in.
    ///
    /// # Errors
    /// Names the folder.
    pub fn check(&self) -> Result<(), Failure> {
        self.step_summary()?;
        for file in [&self.junit, &self.markdown].into_iter().flatten() {
            if file.is_dir() {
                return Err(Failure::bad_input(
                    "is_a_folder",
                    format!("{} is a folder", file.display()),
                )
                .or_try("name a file in it"));
            }
            let folder = file
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder
                && !folder.is_dir()
            {
                return Err(Failure::bad_input(
                    "no_such_folder",
                    format!("there is no folder {}", folder.display()),
                )
                .or_try(format!("mkdir -p {}", folder.display())));
            }
        }
        Ok(())
    }

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.junit.is_none() && self.markdown.is_none() && !self.github
    }

    /// The same without what is done unasked: for looking at a run that has ended before.
    #[must_use]
    pub fn as_asked(&self) -> Self {
        Self {
            no_github: !self.github,
            ..self.clone()
        }
    }

    /// Where GitHub Actions wants the summary of this step.
    fn step_summary(&self) -> Result<Option<PathBuf>, Failure> {
        if self.no_github {
            return Ok(None);
        }
        let set = std::env::var_os(STEP_SUMMARY).filter(|file| !file.is_empty());
        if set.is_none() && self.github {
            return Err(Failure::usage(format!(
                "--github needs {STEP_SUMMARY}, which GitHub Actions sets"
            ))
            .or_try("--markdown FILE"));
        }
        Ok(set.map(PathBuf::from))
    }

    fn write(
        &self,
        terminal: &Terminal,
        report: &EvalReport,
        baseline: Option<&EvalReport>,
    ) -> Result<(), Failure> {
        let save = |file: &PathBuf, text: String| {
            std::fs::write(file, text).map_err(|cause| {
                Failure::not_done(
                    "file_not_written",
                    format!("{} cannot be written: {cause}", file.display()),
                )
            })
        };
        if let Some(file) = &self.junit {
            let text = junit(report)
                .map_err(|cause| Failure::not_done("file_not_written", cause.to_string()))?;
            save(file, text)?;
        }
        if let Some(file) = &self.markdown {
            save(file, markdown(report, baseline))?;
        }
        if let Some(file) = self.step_summary()? {
            for annotation in annotations(report) {
                // Read from either stream; on this one it is in nobody's way.
                terminal.note(&annotation);
            }
            let summary = within(markdown(report, baseline), MOST_SUMMARY_OCTETS);
            std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&file)
                .and_then(|mut file| file.write_all(summary.as_bytes()))
                .map_err(|cause| {
                    Failure::not_done(
                        "file_not_written",
                        format!("{} cannot be written: {cause}", file.display()),
                    )
                    .or_try("--no-github")
                })?;
        }
        Ok(())
    }
}

/// What fits, in whole lines: GitHub shows nothing of a summary that is too large.
fn within(mut text: String, most: usize) -> String {
    const CUT: &str = "\n_The rest is too long for a summary; `touchstone run show` has it._\n";
    if text.len() > most {
        let end = text.floor_char_boundary(most - CUT.len());
        text.truncate(end);
        let line = text.rfind('\n').map_or(0, |at| at + 1);
        text.truncate(line);
        text.push_str(CUT);
    }
    text
}

/// The answer to a created run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// The run.
    pub run_id: String,
}

/// Follows a run to its end and shows its result.
///
/// # Errors
/// The run could not be followed, or a file not be written.
pub async fn watch(
    context: &Context<'_>,
    session: &Session,
    run: &str,
    outputs: &Outputs,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    if !context.terminal().json() {
        context.terminal().note(&format!("run {run}"));
        // What is known from the beginning is said at the beginning; the result shows it again.
        if let Ok(report) = fetch(session.client(), run).await {
            for note in &report.notes {
                context.terminal().note(&format!("note: {note}"));
            }
        }
    }
    let report = follow(context, session.client(), run, "", &mut interrupts).await?;
    show(context, session, &report, outputs).await
}

/// Ctrl-C, and SIGTERM, with which pipelines end their jobs.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Takes both over from now on.
    ///
    /// # Errors
    /// Signals cannot be handled here.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|cause| {
                Failure::not_done("no_signals", format!("signals cannot be handled: {cause}"))
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Follows a run to its end; `label` says which one, where there are several. Ctrl-C cancels the run; a second one leaves it to itself.
///
/// # Errors
/// The run could not be followed.
pub async fn follow(
    context: &Context<'_>,
    client: &Client,
    run: &str,
    label: &str,
    interrupts: &mut Interrupts,
) -> Result<EvalReport, Failure> {
    let progress = Progress::new(context.terminal(), label);
    let mut cancelled = false;
    {
        let mut events = std::pin::pin!(client.events(run, progress.stream(), BUFFER, 0));
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => progress.take(&event?),
                    None => break,
                },
                () = interrupts.next() => {
                    if cancelled {
                        progress.clear();
                        return Err(left_alone(context, run));
                    }
                    cancelled = true;
                    progress.say("cancelling; press Ctrl-C again to leave the run to itself");
                    let path = format!("/v1/runs/{run}/cancel");
                    let _: Value = client.post(&path, &json!({"reason": "interrupted"})).await?;
                }
            }
        }
    }
    progress.clear();
    fetch(client, run).await
}

/// The report of a run.
///
/// # Errors
/// The host's answer.
pub async fn fetch(client: &Client, run: &str) -> Result<EvalReport, Failure> {
    client
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await
}

/// Shows a report, writes the files, and gives the verdict as an exit code.
///
/// # Errors
/// A file could not be written.
pub async fn show(
    context: &Context<'_>,
    session: &Session,
    report: &EvalReport,
    outputs: &Outputs,
) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let baseline = match &report.summary.regression {
        // The delta is a recorded fact; only the list of flips needs the other run, which may be gone.
        Some(regression) => fetch(session.client(), regression.baseline_run_id.as_str())
            .await
            .ok(),
        None => None,
    };
    // The result of a paid run is shown first: a file that cannot be written must not hide it.
    if terminal.json() {
        terminal.document(report);
    } else {
        terminal.print(&scorecard(report, baseline.as_ref(), terminal.style()));
        if terminal.interactive() {
            terminal.print(&next_steps(context, session, report));
        } else if report.verdict == Verdict::Inconclusive && report.oasis.is_none() {
            let command = retry(context, session, report);
            terminal.note(&format!("judge only what was not judged: {command}"));
        }
    }
    outputs.write(terminal, report, baseline.as_ref())?;
    // An OASIS verdict is not an estimate.
    if report.verdict != Verdict::Pass || report.oasis.is_some() || outputs.lenient {
        return Ok(report.verdict.into());
    }
    let path = format!("/v1/host/touchstone/runs/{}/statistics", report.run_id);
    let found: Statistics = session.client().get(&path).await?;
    if found.gate.verdict != GateVerdict::Pass {
        terminal.note(&format!(
            "the score reaches {:.2}, but that is not shown: {}; run more tasks, or accept the score with --lenient",
            found.gate.threshold,
            found.gate.reasons.join("; ")
        ));
    }
    Ok(exit_of(found.gate.verdict))
}

fn retry(context: &Context<'_>, session: &Session, report: &EvalReport) -> String {
    let (program, flags) = (context.program(), session.model_flags());
    format!("{program} run retry {}{flags}", report.run_id)
}

fn next_steps(context: &Context<'_>, session: &Session, report: &EvalReport) -> String {
    let ink = context.terminal().ink();
    let program = context.program();
    let run = &report.run_id;
    let mut steps = vec![(
        "every recorded event",
        format!("{program} run events {run}"),
    )];
    match report.verdict {
        // An OASIS evaluation is one piece.
        Verdict::Inconclusive if report.oasis.is_some() => {}
        Verdict::Inconclusive => steps.insert(
            0,
            (
                "judge only what was not judged",
                retry(context, session, report),
            ),
        ),
        Verdict::Pass => steps.push((
            "compare a later version with this run",
            format!(
                "{program} eval {}@{} --agent {} --baseline {run}{}",
                report.suite.suite_id,
                report.suite.version,
                report.agent.agent_id,
                session.model_flags()
            ),
        )),
        Verdict::Fail | Verdict::Pending => {}
    }
    let mut text = String::new();
    for (what, command) in steps {
        text.push_str(&format!(
            "{}\n  {}\n",
            ink.faint(what),
            ink.command(&command)
        ));
    }
    text
}

fn left_alone(context: &Context<'_>, run: &str) -> Failure {
    Failure::new(
        Exit::Inconclusive,
        "interrupted",
        format!("left run {run} before it ended"),
    )
    .or_try(format!("{} run show {run}", context.program()))
}
