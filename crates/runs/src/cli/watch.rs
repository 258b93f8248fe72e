//! Follows a run to its end: progress, cancellation, scorecard, files, verdict.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::compare::baseline_file::{BaselineFile, FileComparison};
use crate::cli::next_steps::{lower_score, main_step, next_steps};
use crate::cli::output::{check_output, not_written, write_file};
use crate::cli::progress::Progress;
use crate::cli::run::tasks::show_main_failures;
use crate::cli::sarif::{local_files, named_files};
use crate::render::github::annotations;
use crate::render::junit::junit;
use crate::render::markdown::markdown;
use crate::render::sarif::sarif;
use crate::render::scorecard::scorecard;
use crate::rules::eval::report::{EvalReport, RunTotals, Verdict};
use crate::rules::eval::statistics::Statistics;
use crate::rules::eval::statistics::decision::{account_for_chance, disregard_chance};
use crate::rules::eval::statistics::unshown::remedy;
use crate::rules::kind::Kinds;
use touchstone_agents::cli::{ConfiguredModels, EndpointFault, Role};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::terminal::Terminal;

/// How long the host may batch events into one frame.
const BUFFER: Duration = Duration::from_millis(100);
/// Environment variable with the file that GitHub Actions shows as the step summary.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";
/// GitHub accepts at most 1 MiB per step.
const MAX_SUMMARY_BYTES: usize = 1_000_000;

/// What to check if a command's answer cannot be read.
const MALFORMED_LINE: &str = "the agent's command wrote a line that is not an answer to a question: print one \
    JSON object per line with the `id` of the question, a number, such as {\"id\": 0, \"output\": \"…\"}, and \
    everything else on standard error (docs/agent-commands.md)";
/// How often progress is reported where it cannot be drawn.
const REPORT_PERIOD: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default, Args)]
pub struct Outputs {
    /// JUnit XML file to write the result to
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Markdown file to write the result to
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// SARIF 2.1.0 file to write safety findings and tasks that did not pass to, without their
    /// content
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,

    /// Suite file that the locations in the SARIF file refer to [default: the suite of FOLDER, or
    /// the file of --cases]
    #[arg(long, value_name = "FILE", requires = "sarif")]
    suite_file: Option<PathBuf>,

    /// Add the result to the GitHub Actions step summary, and annotate tasks that did not pass
    /// [default: if GITHUB_STEP_SUMMARY is set]
    #[arg(long, overrides_with = "no_github")]
    github: bool,

    /// Do not write the step summary
    #[arg(long, overrides_with = "github")]
    no_github: bool,

    /// Exit with 0 if the score reaches the pass score, even if its confidence interval includes
    /// lower scores
    #[arg(long)]
    lenient: bool,

    /// The arguments of the `eval` command that made the run, without models, if there is one.
    #[arg(skip)]
    pub(crate) again: Option<String>,

    /// The local work that is evaluated: a folder, or the file of cases.
    #[arg(skip)]
    pub(crate) work: Vec<PathBuf>,
}

impl Outputs {
    /// Checks before the run that the files can be written in their folders.
    ///
    /// # Errors
    /// A folder does not exist, or a file is a folder.
    pub fn check(&self) -> Result<(), Failure> {
        self.step_summary()?;
        for file in self.files() {
            check_output(file)?;
        }
        if let Some(suite) = &self.suite_file {
            named_files(suite)?;
        }
        Ok(())
    }

    /// The files to write.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.junit, &self.markdown, &self.sarif]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }

    pub fn is_empty(&self) -> bool {
        self.files().next().is_none() && !self.github
    }

    /// The outputs without automatic ones, for showing a run that ended earlier.
    #[must_use]
    pub fn as_asked(&self) -> Self {
        Self {
            no_github: !self.github,
            ..self.clone()
        }
    }

    /// The step summary file of GitHub Actions.
    fn step_summary(&self) -> Result<Option<PathBuf>, Failure> {
        if self.no_github {
            return Ok(None);
        }
        let set = std::env::var_os(STEP_SUMMARY).filter(|file| !file.is_empty());
        if set.is_none() && self.github {
            return Err(Failure::usage(format!(
                "--github needs the variable {STEP_SUMMARY}, which GitHub Actions sets"
            ))
            .or_try("use --markdown FILE"));
        }
        Ok(set.map(PathBuf::from))
    }

    fn write(
        &self,
        terminal: &Terminal,
        report: &EvalReport,
        baseline: Option<&EvalReport>,
        compared: Option<&FileComparison>,
    ) -> Result<(), Failure> {
        let markdown = || {
            let mut text = markdown(report, baseline);
            if let Some(compared) = compared {
                text.push('\n');
                text.push_str(&compared.markdown());
            }
            text
        };
        if let Some(file) = &self.junit {
            let text = junit(report)
                .map_err(|cause| Failure::not_done("file_not_written", cause.to_string()))?;
            write_file(file, &text)?;
        }
        if let Some(file) = &self.markdown {
            write_file(file, &markdown())?;
        }
        if let Some(file) = &self.sarif {
            let tasks = match &self.suite_file {
                Some(suite) => named_files(suite)?,
                None => local_files(&self.work, &report.suite.suite_id),
            };
            write_file(file, &format!("{:#}\n", sarif(report, &tasks, &[])))?;
        }
        if let Some(file) = self.step_summary()? {
            for annotation in annotations(report) {
                // GitHub reads annotations from both streams; stdout is for the result.
                terminal.note(&annotation);
            }
            let summary = truncate(markdown(), MAX_SUMMARY_BYTES);
            std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&file)
                .and_then(|mut file| file.write_all(summary.as_bytes()))
                .map_err(|cause| not_written(&file, &cause).or_try("add --no-github"))?;
        }
        Ok(())
    }
}

/// Truncates the text at whole lines: GitHub does not show a summary that is too large.
fn truncate(mut text: String, most: usize) -> String {
    const CUT: &str = "\n_Truncated. `touchstone run show` prints everything._\n";
    if text.len() > most {
        let end = text.floor_char_boundary(most - CUT.len());
        text.truncate(end);
        let line = text.rfind('\n').map_or(0, |at| at + 1);
        text.truncate(line);
        text.push_str(CUT);
    }
    text
}

/// A report with the comparison of its run with a file.
#[derive(Serialize)]
struct WithComparison<'a> {
    #[serde(flatten)]
    report: &'a EvalReport,
    comparison: &'a FileComparison,
}

/// The answer to a created run.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    pub run_id: String,
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass | Verdict::Pending => Self::Good,
            Verdict::Fail => Self::Negative,
            Verdict::Inconclusive => Self::Inconclusive,
        }
    }
}

/// Follows a run to its end and shows its result.
///
/// # Errors
/// The run could not be followed, or a file could not be written.
pub async fn watch(
    context: &Context<'_>,
    session: &Session,
    kinds: Kinds,
    run: &str,
    outputs: &Outputs,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let report = follow_to_end(context, session, run, &mut interrupts).await?;
    show(context, session, kinds, &report, outputs).await
}

/// As [`watch`], and compares the run with a file, if there is one.
///
/// # Errors
/// As [`watch`] and [`show_beside`].
pub async fn watch_beside(
    context: &Context<'_>,
    session: &Session,
    kinds: Kinds,
    run: &str,
    outputs: &Outputs,
    file: Option<&BaselineFile>,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let report = follow_to_end(context, session, run, &mut interrupts).await?;
    show_beside(context, session, kinds, &report, outputs, file).await
}

/// Follows a run to its end, and returns its report.
///
/// # Errors
/// The run could not be followed.
pub async fn follow_to_end(
    context: &Context<'_>,
    session: &Session,
    run: &str,
    interrupts: &mut Interrupts,
) -> Result<EvalReport, Failure> {
    if !context.terminal().json() {
        context.terminal().note(&format!("run {run}"));
        // Where the result goes elsewhere, notes that are known at the start are printed too.
        if !context.terminal().interactive()
            && let Ok(report) = fetch_totals(session.client(), run).await
        {
            for note in &report.notes {
                context.terminal().note(&format!("note: {note}"));
            }
        }
    }
    follow(context, session.client(), run, "", interrupts).await
}

/// Ctrl-C and SIGTERM; CI pipelines end their jobs with the latter.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Handles both signals from now on.
    ///
    /// # Errors
    /// The signal handlers cannot be installed.
    pub fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|cause| {
                Failure::not_done(
                    "no_signals",
                    format!("could not install signal handlers: {cause}"),
                )
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Follows a run to its end; `label` distinguishes several runs. Ctrl-C cancels the run; a second
/// Ctrl-C leaves it running.
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
    follow_events(context, client, run, label, interrupts).await?;
    fetch(client, run).await
}

/// As [`follow`], without the report.
///
/// # Errors
/// The run could not be followed.
pub async fn follow_events(
    context: &Context<'_>,
    client: &Client,
    run: &str,
    label: &str,
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    let progress = Progress::new(context.terminal(), label);
    let mut cancelled = false;
    let mut reports = tokio::time::interval(REPORT_PERIOD);
    reports.tick().await;
    {
        let mut events = std::pin::pin!(client.events(run, progress.stream(), BUFFER, 0));
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => progress.apply(&event?),
                    None => break,
                },
                _ = reports.tick() => {
                    if let Some(line) = progress.reported() {
                        context.terminal().note(&line);
                    }
                }
                () = interrupts.next() => {
                    if cancelled {
                        progress.clear();
                        return Err(stopped_waiting(context, run));
                    }
                    cancelled = true;
                    progress.say("cancelling; press Ctrl-C again to stop waiting");
                    let path = format!("/v1/runs/{run}/cancel");
                    let _: Value = client.post(&path, &json!({"reason": "interrupted"})).await?;
                }
            }
        }
    }
    progress.clear();
    Ok(())
}

/// The report of a run.
///
/// # Errors
/// The host's error response.
pub async fn fetch(client: &Client, run: &str) -> Result<EvalReport, Failure> {
    client
        .get(&format!("/v1/host/touchstone/runs/{run}/report"))
        .await
}

/// The report of a run without its tasks, which is small, whatever their number.
///
/// # Errors
/// The host's error response.
pub async fn fetch_totals(client: &Client, run: &str) -> Result<RunTotals, Failure> {
    let path = format!("/v1/host/touchstone/runs/{run}/report?tasks=none");
    // A host of an earlier version answers with the whole report.
    let report: EvalReport = client.get(&path).await?;
    Ok(report.totals())
}

/// Shows a report, writes the files, and returns the verdict as an exit code.
///
/// # Errors
/// A file could not be written.
pub async fn show(
    context: &Context<'_>,
    session: &Session,
    kinds: Kinds,
    report: &EvalReport,
    outputs: &Outputs,
) -> Result<Exit, Failure> {
    show_beside(context, session, kinds, report, outputs, None).await
}

/// As [`show`], with the comparison of the run with a file, if there is one. The comparison does not
/// change the verdict, which is about the run alone.
///
/// # Errors
/// A file could not be written; the run and the file have no task in common, which is reported after
/// everything else.
pub async fn show_beside(
    context: &Context<'_>,
    session: &Session,
    kinds: Kinds,
    report: &EvalReport,
    outputs: &Outputs,
    file: Option<&BaselineFile>,
) -> Result<Exit, Failure> {
    let (found, fault) = match file {
        None => (None, None),
        Some(file) => match file.compared(session.client(), report).await {
            Ok(found) => (Some(found), None),
            Err(fault) => (None, Some(fault)),
        },
    };
    let exit = show_all(context, session, kinds, report, outputs, found.as_ref()).await?;
    fault.map_or(Ok(exit), Err)
}

async fn show_all(
    context: &Context<'_>,
    session: &Session,
    kinds: Kinds,
    report: &EvalReport,
    outputs: &Outputs,
    compared: Option<&FileComparison>,
) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let report = &*with_verdict(session.client(), kinds, report, outputs).await?;
    let totals = &report.totals();
    // The tasks of a kind cannot be retried separately.
    let is_plain = !kinds.are_in(report);
    let baseline = match &report.summary.regression {
        // The delta is recorded; only the list of changed tasks needs the baseline, which may be
        // deleted.
        Some(regression) => fetch(session.client(), regression.baseline_run_id.as_str())
            .await
            .ok(),
        None => None,
    };
    // Show the result of a paid run first: a file that cannot be written must not hide it.
    if terminal.json() {
        match compared {
            Some(comparison) => terminal.document(&WithComparison { report, comparison }),
            None => terminal.document(report),
        }
    } else {
        terminal.print(&scorecard(report, baseline.as_ref(), terminal.style()));
        if let Some(compared) = compared {
            terminal.print(&format!(
                "\nagainst the baseline\n{}",
                compared.text(terminal.style())
            ));
        }
        for note in endpoint_faults(context, session, report) {
            terminal.note(&note);
        }
        if terminal.interactive() {
            // Elsewhere the output may be a log, which never has task content.
            show_main_failures(context, session.client(), report).await;
            let again = outputs.again.as_deref();
            terminal.print(&next_steps(context, session, totals, is_plain, again));
        } else if let Some(step) = main_step(context, session, totals, is_plain) {
            terminal.note(&step);
        }
    }
    outputs.write(terminal, report, baseline.as_ref(), compared)?;
    if report.verdict != report.lenient_verdict() {
        let found = fetch_statistics(session.client(), report.run_id.as_str()).await?;
        let lower = lower_score(context, session, totals, outputs.again.as_deref());
        if let Some(remedy) = remedy(&found.gate, &lower, "--lenient") {
            terminal.note(&format!("to pass: {remedy}"));
        }
    }
    Ok(report.verdict.into())
}

/// The report with the verdict that the command exits with.
async fn with_verdict<'a>(
    client: &Client,
    kinds: Kinds,
    report: &'a EvalReport,
    outputs: &Outputs,
) -> Result<Cow<'a, EvalReport>, Failure> {
    // A report of many tasks is large, so it is copied only if it changes.
    let mut report = Cow::Borrowed(report);
    if outputs.lenient {
        if report.verdict != report.lenient_verdict() {
            disregard_chance(report.to_mut());
        }
    } else if report.lenient_verdict.is_none() && report.verdict == Verdict::Pass {
        // A host of an earlier version.
        let found = fetch_statistics(client, report.run_id.as_str()).await?;
        account_for_chance(kinds, report.to_mut(), &found);
    }
    Ok(report)
}

async fn fetch_statistics(client: &Client, run: &str) -> Result<Statistics, Failure> {
    client
        .get(&format!("/v1/host/touchstone/runs/{run}/statistics"))
        .await
}

/// What to check about endpoints and commands that gave no answer. Only the embedded host has the
/// keys of this machine.
fn endpoint_faults(context: &Context<'_>, session: &Session, report: &EvalReport) -> Vec<String> {
    if !context.is_embedded() {
        return Vec::new();
    }
    let reasons: BTreeSet<&str> = report
        .tasks
        .iter()
        .filter_map(|task| task.reason.as_deref())
        .collect();
    if report.is_by_command() && reasons.contains("malformed_reply") {
        return vec![MALFORMED_LINE.to_owned()];
    }
    let configured: ConfiguredModels = context.settings().unwrap_or_default();
    let agent = report.evaluated.as_ref().map(|it| {
        let url = it.endpoint.as_ref().and_then(|it| it.url.as_deref());
        (it.provider.as_str(), it.model.as_str(), url)
    });
    let judge = report.judge.as_ref();
    let judge = judge.map(|it| (it.provider.as_str(), it.model.as_str(), None));
    let user = report.simulated_user.as_ref();
    let user = user.map(|it| (it.model.provider.as_str(), it.model.model.as_str(), None));
    let mut faults = Vec::new();
    for (role, prefix, endpoint) in [
        (Role::Agent, "", agent),
        (Role::Judge, "judge_", judge),
        (Role::User, "user_", user),
    ] {
        let Some((provider, model, url)) = endpoint else {
            continue;
        };
        let labels = reasons.iter().filter_map(|it| it.strip_prefix(prefix));
        for reason in labels.filter(|label| EndpointFault::is_reason(label)) {
            let fault = EndpointFault {
                provider,
                model,
                url,
                role,
                reason,
            };
            faults.push(fault.explained(session.model_flags(), &configured));
        }
    }
    faults
}

fn stopped_waiting(context: &Context<'_>, run: &str) -> Failure {
    Failure::new(
        Exit::Inconclusive,
        "interrupted",
        format!("stopped waiting for run {run} before it ended"),
    )
    .or_try(format!(
        "check it with {} run show {run}",
        context.program()
    ))
}
