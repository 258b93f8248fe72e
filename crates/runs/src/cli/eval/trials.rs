//! `touchstone eval --trials`: run a suite several times and pool the results.

use serde_json::{Value, json};

use crate::cli::eval::target::Target;
use crate::cli::eval::{Arguments, post, resolved_request};
use crate::cli::output::print_result;
use crate::cli::results::RunReport;
use crate::cli::run::statistics::exit_of;
use crate::cli::run::tasks::show_main_failures;
use crate::cli::watch::{Interrupts, fetch_totals, follow_events, noted};
use crate::render::statistics::statistics;
use crate::render::words::score;
use crate::rules::eval::report::{RunTotals, Verdict};
use crate::rules::eval::statistics::Statistics;
use crate::rules::run::fold::RunStatus;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::render::colors::Colors;
use touchstone_host::system::SystemIds;
use touchstone_kit::statistics::GateVerdict;

/// Starts the runs of an experiment, follows them one after the other, and prints the pooled
/// statistics.
pub(super) async fn run(
    context: &Context<'_>,
    session: &Session,
    arguments: &Arguments,
    target: &Target,
    trials: u32,
) -> Result<Exit, Failure> {
    let (client, terminal) = (session.client(), context.terminal());
    let mut interrupts = Interrupts::listen()?;
    let Experiment { experiment, runs } =
        start_all(context, session, arguments, target, trials).await?;
    if !terminal.json() {
        terminal.note(&format!("experiment {experiment}"));
    }
    let shown = |n: usize, report: &RunTotals| {
        if !terminal.json() {
            terminal.print(&line(n, report));
        }
    };
    let reports = follow_all(context, client, &runs, &mut interrupts, shown).await?;
    let first = runs.first().map(String::as_str).unwrap_or_default();
    let path = format!("/v1/host/touchstone/runs/{first}/statistics");
    let found: Statistics = client.get(&path).await?;
    let document = json!({"experimentId": experiment, "runIds": runs, "statistics": found});
    print_result(terminal, &document, || {
        format!("\n{}", statistics(&found, terminal.colors()))
    });
    if !terminal.json() {
        if terminal.interactive()
            && let Some(report) = reports
                .iter()
                .find(|it| it.lenient_verdict() != Verdict::Pass)
        {
            terminal.print("\n");
            let report = RunReport::fetch(client, report.run_id.as_str()).await;
            if let Some(report) = noted(terminal, "failed tasks", report) {
                show_main_failures(context, client, &report).await;
            }
        }
        terminal.print(&format!("{}\n", verdict(&found, terminal.colors())));
    }
    Ok(exit_of(found.gate.verdict))
}

/// The runs of an experiment.
pub(super) struct Experiment {
    pub experiment: String,
    pub runs: Vec<String>,
}

/// Creates the runs of an experiment.
///
/// # Errors
/// The host's error response.
pub(super) async fn start_all(
    context: &Context<'_>,
    session: &Session,
    arguments: &Arguments,
    target: &Target,
    trials: u32,
) -> Result<Experiment, Failure> {
    let client = session.client();
    let experiment = SystemIds.mint("exp");
    let mut runs = Vec::new();
    let request = resolved_request(context, client, arguments, target).await?;
    for index in 1..=trials {
        let mut body = request.clone();
        if let Some(configurable) = body.get_mut("configurable") {
            configurable["trial"] =
                json!({"experimentId": experiment, "index": index, "of": trials});
        }
        let started = post(context, client, target, &body).await?;
        runs.push(started.run_id);
    }
    Ok(Experiment { experiment, runs })
}

/// Follows the runs one after the other. An interrupt cancels all of them.
///
/// # Errors
/// The host's error response.
pub(super) async fn follow_all(
    context: &Context<'_>,
    client: &Client,
    runs: &[String],
    interrupts: &mut Interrupts,
    ended: impl Fn(usize, &RunTotals),
) -> Result<Vec<RunTotals>, Failure> {
    let mut reports = Vec::with_capacity(runs.len());
    let mut cancelled = false;
    for (n, run) in runs.iter().enumerate() {
        if cancelled {
            // Cancelling one trial cancels the experiment.
            let path = format!("/v1/runs/{run}/cancel");
            let _: Value = client
                .post(&path, &json!({"reason": "interrupted"}))
                .await?;
        }
        let label = format!("trial {} of {}  ", n + 1, runs.len());
        follow_events(context, client, run, &label, interrupts).await?;
        let report = fetch_totals(client, run).await?;
        cancelled |= report.status == RunStatus::Cancelled.as_str();
        ended(n + 1, &report);
        reports.push(report);
    }
    Ok(reports)
}

/// The verdict over all trials, on one line.
fn verdict(found: &Statistics, colors: Colors) -> String {
    let word = match found.gate.verdict {
        GateVerdict::Pass => colors.good("PASS"),
        GateVerdict::Fail => colors.bad("FAIL"),
        GateVerdict::Inconclusive => colors.doubtful("INCONCLUSIVE"),
    };
    match found.gate.reasons.as_slice() {
        [] => colors.strong(&word),
        reasons => format!("{}: {}", colors.strong(&word), reasons.join("; ")),
    }
}

fn line(n: usize, report: &RunTotals) -> String {
    let summary = &report.summary;
    format!(
        "trial {n:<3} {:<5}  {} of {} passed  {}",
        score(report),
        summary.passed_count,
        summary.task_count,
        report.run_id
    )
}
