//! `touchstone run report`: the result of a run as a page for people who approve it, or as SARIF.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::output::write_file;
use crate::cli::results::RunReport;
use crate::cli::run::run_id;
use crate::cli::run::tasks::not_passed;
use crate::cli::sarif::named_files;
use crate::cli::saved::SavedResponse;
use crate::cli::watch::{print_document, write_document};
use crate::render::report_page::failures::{FirstTasks, LISTED};
use crate::render::report_page::{ReportPage, report_page};
use crate::render::sarif::Sarif;
use crate::rules::eval::comparison::ShortComparison;
use crate::rules::eval::report::TaskOutcome;
use crate::rules::eval::statistics::Statistics;
use crate::rules::eval::task_details::TaskDetails;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;

use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;

/// Maximum number of tasks whose content is on the page.
const MAX_TASKS: usize = 200;

#[derive(Debug, Args)]
pub struct Report {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,

    /// File to write the page to; `-` prints it
    #[arg(long, value_name = "FILE", required_unless_present = "sarif")]
    html: Option<PathBuf>,

    /// File to write safety findings and tasks that did not pass to, as SARIF 2.1.0; `-` prints it
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,

    /// Suite file that the locations in the SARIF file refer to
    #[arg(long, value_name = "FILE", requires = "sarif")]
    suite_file: Option<PathBuf>,

    /// Compare with this run [default: the run's own baseline]
    #[arg(long, value_name = "RUN", value_parser = run_id, requires = "html")]
    pub(super) baseline: Option<String>,

    /// Include inputs, answers and transcripts of tasks that did not pass
    #[arg(long)]
    with_content: bool,
}

pub async fn run(context: &Context<'_>, arguments: &Report) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let client = session.client();
    let run = &arguments.run;
    let report = RunReport::fetch(client, run).await?;
    let content = match arguments.with_content {
        true => Some(not_passed(client, run, MAX_TASKS).await?),
        false => None,
    };
    if let Some(file) = &arguments.sarif {
        let tasks = match &arguments.suite_file {
            Some(suite) => named_files(suite)?,
            None => Vec::new(),
        };
        let content = content.as_deref().unwrap_or_default();
        let mut document = Sarif::new(&report.totals, &tasks, content);
        if is_stdout(file) {
            let out = context.terminal().json_printer();
            print_document(out, client, &report, &mut document).await?;
        } else {
            write_document(client, &report, &mut document, file).await?;
            note_written(context, file, arguments);
        }
    }
    let Some(html) = &arguments.html else {
        return Ok(Exit::Good);
    };
    let page = page(context, client, arguments, &report, content.as_deref()).await?;
    write(context, html, &page, arguments)?;
    Ok(Exit::Good)
}

async fn page(
    context: &Context<'_>,
    client: &Client,
    arguments: &Report,
    report: &RunReport,
    content: Option<&[TaskDetails]>,
) -> Result<String, Failure> {
    let run = &arguments.run;
    let runs = "/v1/host/touchstone/runs";
    let statistics: Statistics = client.get(&format!("{runs}/{run}/statistics")).await?;
    let own = report.totals.summary.regression.as_ref();
    let compared = async |baseline: &str| {
        let path = format!("{runs}/{run}/comparison?baseline={baseline}");
        SavedResponse::get(client, &path).await?.parse()
    };
    let comparison: Option<ShortComparison> = match (&arguments.baseline, own) {
        (Some(baseline), _) => Some(compared(baseline).await?),
        // It may be deleted.
        (None, Some(own)) => {
            let baseline = &own.baseline_run_id;
            let found = compared(baseline.as_str()).await;
            if let Err(failure) = &found {
                let note = format!("the page has no comparison with {baseline}: {failure}");
                context.terminal().note(&note);
            }
            found.ok()
        }
        (None, None) => None,
    };
    let mut tasks = FirstTasks::default();
    for (outcome, first) in [
        (TaskOutcome::Failed, &mut tasks.failed),
        (TaskOutcome::Unjudged, &mut tasks.unjudged),
        (TaskOutcome::Passed, &mut tasks.passed),
    ] {
        *first = report.first(client, outcome, LISTED).await?;
    }
    report_page(ReportPage {
        report: &report.totals,
        figures: &report.figures(client).await?,
        tasks: &tasks,
        statistics: &statistics,
        comparison: comparison.as_ref(),
        content,
        made_at: SystemClock.now(),
    })
    .map_err(|cause| Failure::not_done("page_not_made", cause.to_string()))
}

fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

fn write(
    context: &Context<'_>,
    file: &Path,
    text: &str,
    arguments: &Report,
) -> Result<(), Failure> {
    if is_stdout(file) {
        context.terminal().octets(text.as_bytes());
        return Ok(());
    }
    write_file(file, text)?;
    note_written(context, file, arguments);
    Ok(())
}

fn note_written(context: &Context<'_>, file: &Path, arguments: &Report) {
    let with = match arguments.with_content {
        true => " with task content",
        false => "",
    };
    let note = format!("wrote the report{with} to {}", file.display());
    context.terminal().note(&note);
}
