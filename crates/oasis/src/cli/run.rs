//! `touchstone oasis run`: run an evaluation and print its verdict.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::report;
use crate::cli::report::Form;
use crate::cli::request::Terms;
use crate::cli::{profiles, summary};
use crate::rules::refusal::Refusal;
use crate::rules::report::Report;
use crate::rules::verdict::Status;
use touchstone_agents::cli::{ModelEndpoint, work_with};
use touchstone_agents::model::OwnModels;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;
use touchstone_runs::cli::watch::{Interrupts, Started, fetch_totals, follow_events};
use touchstone_runs::rules::eval::report::RunTotals;

pub const EXAMPLES: &str = "\
The profile comes from the suite's pack, the provider from the host's configuration, and the
agent with its configuration from the agent's pack (docs/oasis.md). Outcomes are verified on the
provider's observations, never on the agent's own statements.

Exit codes: 0 safe, complete (or --allow-incomplete) and at or above the suite's pass score, 1
not, 2 bad input, 3 could not complete, 4 inconclusive: refused, or the provider failed.

Examples:
  touchstone oasis run vendor.acme.evals.desk@1.0.0 vendor.acme.clerk.default --tier 1 \\
    --provider lab --evaluator Acme
  touchstone oasis run vendor.acme.evals.desk@1.0.0 vendor.acme.clerk.default@1.2.0 --tier 2 \\
    --report report.html --report report.json
  touchstone oasis run vendor.acme.evals.desk@1.0.0 vendor.acme.clerk.default --tier 1 \\
    --mutations 20 --seed 7 --red-team probes.yaml";

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    terms: Terms,

    #[command(flatten)]
    model: ModelEndpoint,

    /// Command that acts as the agent instead of a model, exchanging one JSON document per line
    #[arg(long, value_name = "COMMAND", conflicts_with = "model_url")]
    agent_command: Option<String>,

    /// Report file to write; its extension sets the format: .html, .md, .json or .yaml. Repeat for
    /// several
    #[arg(long = "report", value_name = "FILE")]
    reports: Vec<PathBuf>,
}

impl Arguments {
    /// The report files with their formats.
    fn outputs(&self) -> Result<Vec<(&PathBuf, Form)>, Failure> {
        self.reports.iter().map(output).collect()
    }

    /// Refuses options that have no effect.
    fn check(&self, context: &Context<'_>) -> Result<(), Failure> {
        if !self.model.judge.judge_url.is_empty() {
            return Err(Failure::usage(
                "--judge-url does not apply: no model judges an OASIS evaluation",
            )
            .or_try("omit it"));
        }
        if self.model.embeddings.embeddings_url.is_some() {
            return Err(Failure::usage(
                "--embeddings-url does not apply: an OASIS evaluation has no assertions",
            )
            .or_try("omit it"));
        }
        if self.model.user.user_url.is_some() {
            return Err(Failure::usage(
                "--user-url does not apply: an OASIS evaluation has no simulated users",
            )
            .or_try("omit it"));
        }
        if self.agent_command.is_some() && !context.is_embedded() {
            return Err(Failure::usage(
                "--agent-command works only with the embedded host: no other host executes commands",
            )
            .or_try("omit --server"));
        }
        Ok(())
    }
}

/// Checks the format and folder of a report file before the run, not after it.
fn output(file: &PathBuf) -> Result<(&PathBuf, Form), Failure> {
    let form = Form::of(file)?;
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    match folder.filter(|it| !it.is_dir()) {
        None => Ok((file, form)),
        Some(folder) => Err(Failure::bad_input(
            "no_such_folder",
            format!("folder {} does not exist", folder.display()),
        )
        .or_try(format!("mkdir -p {}", folder.display()))),
    }
}

pub async fn run(context: &Context<'_>, arguments: Arguments) -> Result<Exit, Failure> {
    let outputs = arguments.outputs()?;
    arguments.check(context)?;
    let own = OwnModels {
        agent_command: arguments.agent_command.clone(),
        ..OwnModels::default()
    };
    let session = work_with(context, arguments.model.config(), own).await?;
    let outcome = evaluate(context, &session, &arguments.terms, &outputs).await;
    session.close().await;
    outcome
}

async fn evaluate(
    context: &Context<'_>,
    session: &Session,
    terms: &Terms,
    outputs: &[(&PathBuf, Form)],
) -> Result<Exit, Failure> {
    let (client, terminal) = (session.client(), context.terminal());
    let mut interrupts = Interrupts::listen()?;
    let available = profiles::ask(client).await?;
    let chosen = available.choose(terms.profile.as_deref(), Some(&terms.suite))?;
    let provider = available.provider(terms.provider.as_deref())?;
    let body = terms.body(&chosen, &provider)?;
    let started: Started = client
        .post("/v1/runs", &body)
        .await
        .map_err(|failure| advised(context, failure))?;
    let run = started.run_id.as_str();
    if !terminal.json() {
        terminal.note(&format!("run {run}"));
    }
    follow_events(context, client, run, "", &mut interrupts).await?;
    let eval = fetch_totals(client, run).await?;
    match concluded(client, run).await? {
        Concluded::Verdict(report) => {
            // Show the result of a paid run first: a file that cannot be written must not hide it.
            show(context, run, &eval, &report);
            for (file, form) in outputs {
                report::write(file, &report::fetch(client, run, *form).await?)?;
                terminal.note(&format!("report written to {}", file.display()));
            }
            Ok(eval.verdict.into())
        }
        Concluded::Refused(refusal) => {
            show_refusal(context, run, &eval, refusal.as_ref());
            if !outputs.is_empty() {
                terminal.note("no report, because the evaluation has no verdict");
            }
            Ok(Exit::Inconclusive)
        }
    }
}

enum Concluded {
    Verdict(Box<Report>),
    /// Without a verdict, and for a refusal, the reason.
    Refused(Option<Refusal>),
}

async fn concluded(client: &Client, run: &str) -> Result<Concluded, Failure> {
    let bytes = match report::fetch(client, run, Form::Json).await {
        Ok(bytes) => bytes,
        Err(failure) if failure.code == "oasis_no_verdict" => {
            let refusal = failure.details.get("refusal").cloned();
            let refusal = refusal.map(serde_json::from_value).transpose();
            return Ok(Concluded::Refused(
                refusal.map_err(|cause| Failure::unexpected(&cause))?,
            ));
        }
        Err(failure) => return Err(failure),
    };
    let report = serde_json::from_slice(&bytes).map_err(|cause| Failure::unexpected(&cause))?;
    Ok(Concluded::Verdict(report))
}

/// Adds a remedy to a refused request.
fn advised(context: &Context<'_>, failure: Failure) -> Failure {
    let program = context.program();
    let field = failure.details.get("field").and_then(Value::as_str);
    let remedy = match field {
        _ if failure.remedy.is_some() => return failure,
        Some("evalSuiteRef") => {
            format!(
                "list profiles with {program} oasis profiles, and agents with {program} pack list"
            )
        }
        Some("configurable.oasis.evaluator") => {
            "use --evaluator WHO, or set oasis.evaluator in the host's configuration".to_owned()
        }
        Some(field) if field.starts_with("configurable.oasis") => {
            format!("see {program} oasis profiles")
        }
        _ => return failure,
    };
    failure.or_try(remedy)
}

fn show(context: &Context<'_>, run: &str, eval: &RunTotals, report: &Report) {
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "runId": run, "verdict": eval.verdict, "reasons": eval.reasons, "report": report,
        }));
        return;
    }
    terminal.print(&summary::report(report, terminal.colors()));
    // A verdict other than PASS already explains why the run does not pass.
    let safe = report.header.verdict == Status::Pass;
    for reason in eval.reasons.iter().filter(|_| safe) {
        let why = format!("the run does not pass: {}", plain(reason));
        terminal.print(&terminal.colors().bad(&why));
    }
    if terminal.interactive() {
        let program = context.program();
        let command = format!("{program} oasis report {run} --output report.html");
        terminal.print(&format!(
            "\n{}\n  {}",
            terminal.colors().faint("write the full report"),
            terminal.colors().command(&command)
        ));
    }
}

fn show_refusal(context: &Context<'_>, run: &str, eval: &RunTotals, refusal: Option<&Refusal>) {
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "runId": run, "verdict": eval.verdict, "reasons": eval.reasons, "refusal": refusal,
        }));
        return;
    }
    let colors = terminal.colors();
    match refusal {
        Some(refusal) => {
            let title = colors.doubtful(&format!("NO VERDICT: {}", refusal.code.as_str()));
            terminal.print(&summary::items(&title, &refusal.items, colors));
        }
        None => {
            let status = plain(&eval.status);
            terminal.print(&colors.doubtful(&format!("NO VERDICT: the run is {status}")));
            for reason in &eval.reasons {
                terminal.print(&format!("  {}", plain(reason)));
            }
        }
    }
}
