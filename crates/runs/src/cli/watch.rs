//! Follows a run to its end: progress, cancellation, scorecard, files, verdict.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::compare::baseline_file::{BaselineFile, FileComparison};
use crate::cli::next_steps::{lower_score, main_step, next_steps};
use crate::cli::output::{Draft, check_output, not_written};
use crate::cli::progress::Progress;
use crate::cli::results::{NotWritten, RunReport};
use crate::cli::run::tasks::show_main_failures;
use crate::cli::sarif::{local_files, named_files};
use crate::render::document::RunDocument;
use crate::render::document::json::ReportJson;
use crate::render::document::list::JsonForm;
use crate::render::flips::Flips;
use crate::render::github::{MOST_OF_A_LEVEL, annotations};
use crate::render::junit::Junit;
use crate::render::markdown::Markdown;
use crate::render::sarif::Sarif;
use crate::render::scorecard::Scorecard;
use crate::rules::eval::report::{EvalReport, RunTotals, TaskOutcome, Verdict};
use crate::rules::eval::statistics::Statistics;
use crate::rules::eval::statistics::decision::{account_for_chance, disregard_chance};
use crate::rules::eval::statistics::unshown::remedy;
use crate::rules::kind::Kinds;
use touchstone_agents::cli::{ConfiguredModels, EndpointFault, Role};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::terminal::{Printer, Terminal};

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

    async fn write(
        &self,
        terminal: &Terminal,
        client: &Client,
        shown: &Shown<'_>,
    ) -> Result<(), Failure> {
        let (report, totals) = (shown.report, &shown.report.totals);
        if let Some(file) = &self.junit {
            write_document(client, report, &mut Junit::new(totals), file).await?;
        }
        if let Some(file) = &self.markdown {
            let mut draft = Draft::empty();
            let written = shown.write_markdown(client, &mut draft).await;
            written.map_err(NotWritten::of_draft)?;
            draft.save(file)?;
        }
        if let Some(file) = &self.sarif {
            let tasks = match &self.suite_file {
                Some(suite) => named_files(suite)?,
                None => local_files(&self.work, &totals.suite.suite_id),
            };
            write_document(client, report, &mut Sarif::new(totals, &tasks, &[]), file).await?;
        }
        if let Some(file) = self.step_summary()? {
            let failed = report.first(client, TaskOutcome::Failed, MOST_OF_A_LEVEL);
            let failed = failed.await?;
            let unjudged = report.first(client, TaskOutcome::Unjudged, MOST_OF_A_LEVEL);
            for annotation in annotations(totals, &failed, &unjudged.await?) {
                // GitHub reads annotations from both streams; stdout is for the result.
                terminal.note(&annotation);
            }
            let mut start = Start::default();
            let written = shown.write_markdown(client, &mut start).await;
            written.map_err(NotWritten::of_draft)?;
            let text = String::from_utf8_lossy(&start.bytes).into_owned();
            let summary = truncate(text, MAX_SUMMARY_BYTES);
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

/// The content of the documents about a run.
struct Shown<'a> {
    report: &'a RunReport,
    /// Those of the run alone.
    statistics: &'a Statistics,
    flips: Option<&'a Flips>,
    compared: Option<&'a FileComparison>,
}

impl Shown<'_> {
    async fn write_markdown(
        &self,
        client: &Client,
        out: &mut (impl Write + Send),
    ) -> Result<(), NotWritten> {
        let mut document = Markdown::new(&self.report.totals, self.statistics, self.flips);
        self.report.write(client, &mut document, out).await?;
        if let Some(compared) = self.compared {
            write!(out, "\n{}", compared.markdown())?;
        }
        Ok(out.flush()?)
    }
}

/// Writes a document about a run to a file, which keeps its earlier content if the host fails.
///
/// # Errors
/// The host's error response, or the file cannot be written.
pub(crate) async fn write_document(
    client: &Client,
    report: &RunReport,
    document: &mut dyn RunDocument,
    file: &Path,
) -> Result<(), Failure> {
    drafted(client, report, document).await?.save(file)
}

/// Writes a document about a run to stdout. JSON is printed only if it is complete: a program could
/// not read a half that an error document follows.
///
/// # Errors
/// The host's error response, or stdout cannot be written.
pub(crate) async fn print_document(
    mut out: Printer,
    client: &Client,
    report: &RunReport,
    document: &mut dyn RunDocument,
) -> Result<(), Failure> {
    let written = if out.is_json() {
        let draft = drafted(client, report, document).await?;
        draft.copy_to(&mut out).map_err(NotWritten::Output)
    } else {
        report.write(client, document, &mut out).await
    };
    // The error follows a part of a text on a line of its own.
    let finished = out.finish();
    match written.and_then(|()| Ok(finished?)) {
        Ok(()) => Ok(()),
        Err(NotWritten::Host(failure)) => Err(failure),
        // The reader wants no more, as with `head`.
        Err(NotWritten::Output(cause)) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(NotWritten::Output(cause)) => Err(not_written(Path::new("stdout"), &cause)),
    }
}

async fn drafted(
    client: &Client,
    report: &RunReport,
    document: &mut dyn RunDocument,
) -> Result<Draft, Failure> {
    let mut draft = Draft::empty();
    let written = report.write(client, document, &mut draft).await;
    written.map_err(NotWritten::of_draft)?;
    Ok(draft)
}

/// The start of a document: a little more than the step summary can have.
#[derive(Default)]
struct Start {
    bytes: Vec<u8>,
}

impl Write for Start {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (MAX_SUMMARY_BYTES + 1).saturating_sub(self.bytes.len());
        let kept = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.bytes.extend_from_slice(kept);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
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

/// The member that follows those of the report if its run is compared with a file.
#[derive(Serialize)]
struct Compared<'a> {
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
) -> Result<RunReport, Failure> {
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
    follow_events(context, session.client(), run, "", interrupts).await?;
    RunReport::fetch(session.client(), run).await
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

/// Follows a run to its end, and returns its report with all tasks; `label` distinguishes several
/// runs. Ctrl-C cancels the run; a second Ctrl-C leaves it running.
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

/// The report of a run with all tasks.
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
/// The host's error response, or a file could not be written.
pub async fn show(
    context: &Context<'_>,
    session: &Session,
    kinds: Kinds,
    report: &RunReport,
    outputs: &Outputs,
) -> Result<Exit, Failure> {
    show_beside(context, session, kinds, report, outputs, None).await
}

/// As [`show`], with the comparison of the run with a file, if there is one. The comparison does not
/// change the verdict, which is about the run alone.
///
/// # Errors
/// As for [`show`]; the run and the file have no task in common, which is reported after everything
/// else.
pub async fn show_beside(
    context: &Context<'_>,
    session: &Session,
    kinds: Kinds,
    report: &RunReport,
    outputs: &Outputs,
    file: Option<&BaselineFile>,
) -> Result<Exit, Failure> {
    let client = session.client();
    let (found, fault) = match file {
        None => (None, None),
        Some(file) => match file.compared(client, report).await {
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
    report: &RunReport,
    outputs: &Outputs,
    compared: Option<&FileComparison>,
) -> Result<Exit, Failure> {
    let (terminal, client) = (context.terminal(), session.client());
    let report = &*with_verdict(client, kinds, report, outputs).await?;
    let totals = &report.totals;
    // The tasks of a kind cannot be retried separately.
    let is_plain = !kinds.are_in(totals);
    if terminal.json() {
        // Show the result of a paid run first: a file that cannot be written must not hide it.
        let document = match compared {
            Some(comparison) => {
                ReportJson::extended(totals, &Compared { comparison }, JsonForm::Indented)
            }
            None => ReportJson::new(totals, JsonForm::Indented),
        };
        let mut document = document.map_err(|cause| Failure::unexpected(&cause))?;
        print_document(terminal.printer(), client, report, &mut document).await?;
        if outputs.step_summary()?.is_none() && outputs.files().next().is_none() {
            return exit_of(context, session, totals, outputs).await;
        }
    }
    let baseline = match &totals.summary.regression {
        // The delta is recorded; only the list of changed tasks needs the baseline, which may be
        // deleted.
        Some(regression) => RunReport::fetch(client, regression.baseline_run_id.as_str())
            .await
            .ok(),
        None => None,
    };
    let statistics = report.own_statistics(client, baseline.as_ref()).await?;
    let flips = match &baseline {
        Some(baseline) => noted(
            terminal,
            "tasks that changed since the baseline",
            report.flips(client, baseline).await,
        ),
        None => None,
    };
    if !terminal.json() {
        let mut scorecard = Scorecard::new(totals, &statistics, flips.as_ref(), terminal.style());
        print_document(terminal.printer(), client, report, &mut scorecard).await?;
        if let Some(compared) = compared {
            terminal.print(&format!(
                "\nagainst the baseline\n{}",
                compared.text(terminal.style())
            ));
        }
        let faults = endpoint_faults(context, session, report).await;
        for note in noted(terminal, "faults of endpoints", faults).unwrap_or_default() {
            terminal.note(&note);
        }
        if terminal.interactive() {
            // Elsewhere the output may be a log, which never has task content.
            show_main_failures(context, client, report).await;
            let again = outputs.again.as_deref();
            terminal.print(&next_steps(context, session, totals, is_plain, again));
        } else if let Some(step) = main_step(context, session, totals, is_plain) {
            terminal.note(&step);
        }
    }
    let shown = Shown {
        report,
        statistics: &statistics,
        flips: flips.as_ref(),
        compared,
    };
    outputs.write(terminal, client, &shown).await?;
    exit_of(context, session, totals, outputs).await
}

/// A part of the result without which the rest is complete; if the host failed, a note that it is
/// missing. The verdict must not depend on it.
pub(crate) fn noted<T>(terminal: &Terminal, part: &str, found: Result<T, Failure>) -> Option<T> {
    if let Err(failure) = &found {
        terminal.note(&format!("{part} are not shown: {failure}"));
    }
    found.ok()
}

/// The verdict as an exit code; notes how to pass, if only chance prevents it.
async fn exit_of(
    context: &Context<'_>,
    session: &Session,
    report: &RunTotals,
    outputs: &Outputs,
) -> Result<Exit, Failure> {
    if report.verdict != report.lenient_verdict() {
        let found = fetch_statistics(session.client(), report.run_id.as_str()).await?;
        let lower = lower_score(context, session, report, outputs.again.as_deref());
        if let Some(remedy) = remedy(&found.gate, &lower, "--lenient") {
            context.terminal().note(&format!("to pass: {remedy}"));
        }
    }
    Ok(report.verdict.into())
}

/// The report with the verdict that the command exits with.
async fn with_verdict<'a>(
    client: &Client,
    kinds: Kinds,
    report: &'a RunReport,
    outputs: &Outputs,
) -> Result<Cow<'a, RunReport>, Failure> {
    let mut report = Cow::Borrowed(report);
    let totals = &report.totals;
    if outputs.lenient {
        if totals.verdict != totals.lenient_verdict() {
            disregard_chance(&mut report.to_mut().totals);
        }
    } else if totals.lenient_verdict.is_none() && totals.verdict == Verdict::Pass {
        // A host of an earlier version.
        let found = fetch_statistics(client, totals.run_id.as_str()).await?;
        account_for_chance(kinds, &mut report.to_mut().totals, &found);
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
async fn endpoint_faults(
    context: &Context<'_>,
    session: &Session,
    report: &RunReport,
) -> Result<Vec<String>, Failure> {
    if !context.is_embedded() || report.has_only_passed() {
        return Ok(Vec::new());
    }
    let mut reasons: BTreeSet<String> = BTreeSet::new();
    let mut pages = report.pages(session.client());
    while let Some(page) = pages.next().await? {
        let found = page.iter().filter_map(|(_, task)| task.reason.as_ref());
        reasons.extend(found.cloned());
    }
    let report = &report.totals;
    if report.is_by_command() && reasons.contains("malformed_reply") {
        return Ok(vec![MALFORMED_LINE.to_owned()]);
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
    Ok(faults)
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
