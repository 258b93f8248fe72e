//! `touchstone run report`: the result of a run as a page for people who approve it.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::output::write_file;
use crate::cli::run::run_id;
use crate::cli::run::tasks::not_passed;
use crate::cli::watch::fetch;
use crate::render::report_page::{ReportPage, report_page};
use crate::rules::eval::comparison::RunComparison;
use crate::rules::eval::statistics::Statistics;
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
    #[arg(long, value_name = "FILE")]
    html: PathBuf,

    /// Compare with this run [default: the run's own baseline]
    #[arg(long, value_name = "RUN", value_parser = run_id)]
    pub(super) baseline: Option<String>,

    /// Include inputs, answers and transcripts of tasks that did not pass
    #[arg(long)]
    with_content: bool,
}

pub async fn run(context: &Context<'_>, arguments: &Report) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let client = session.client();
    let run = &arguments.run;
    let report = fetch(client, run).await?;
    let runs = "/v1/host/touchstone/runs";
    let statistics: Statistics = client.get(&format!("{runs}/{run}/statistics")).await?;
    let own = report.summary.regression.as_ref();
    let comparison: Option<RunComparison> = match (&arguments.baseline, own) {
        (Some(baseline), _) => Some(
            client
                .get(&format!("{runs}/{run}/comparison?baseline={baseline}"))
                .await?,
        ),
        // It may be deleted.
        (None, Some(own)) => {
            let baseline = &own.baseline_run_id;
            let found = client
                .get(&format!("{runs}/{run}/comparison?baseline={baseline}"))
                .await;
            if let Err(failure) = &found {
                let note = format!("the page has no comparison with {baseline}: {failure}");
                context.terminal().note(&note);
            }
            found.ok()
        }
        (None, None) => None,
    };
    let content = match arguments.with_content {
        true => Some(not_passed(client, run, MAX_TASKS).await?),
        false => None,
    };
    let html = report_page(ReportPage {
        report: &report,
        statistics: &statistics,
        comparison: comparison.as_ref(),
        content: content.as_deref(),
        made_at: SystemClock.now(),
    })
    .map_err(|cause| Failure::not_done("page_not_made", cause.to_string()))?;
    if arguments.html == Path::new("-") {
        context.terminal().octets(html.as_bytes());
        return Ok(Exit::Good);
    }
    write_file(&arguments.html, &html)?;
    let with = match arguments.with_content {
        true => " with task content",
        false => "",
    };
    let note = format!("wrote the report{with} to {}", arguments.html.display());
    context.terminal().note(&note);
    Ok(Exit::Good)
}
