//! `touchstone judge`: compare the judge of rubrics with people.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::context::{Context, Endpoints, JudgeEndpoint};
use super::exit::{Exit, Failure};
use crate::domain::eval::rubric::calibration::{Calibration, MIN_AGREEMENT, Sample, doubt};
use crate::domain::eval::suite_rules::SuiteRef;
use crate::render::usd;

const PATH: &str = "/v1/host/touchstone/judge/calibrations";
const EXAMPLES: &str = "\
A line of FILE is a sample that people have scored, on any scale:
  {\"item\": \"s-1\", \"task\": \"complaint\", \"output\": \"We are sorry …\", \"human\": [4, 5]}
`task` may be left out where the suite has one rubric.

Exit codes: 0 good enough for a gate, 1 not, 2 bad input, 3 not carried out.

Examples:
  touchstone judge calibrate scored.jsonl --suite vendor.acme.evals.tone@1.0.0
  touchstone judge calibrate scored.jsonl --suite vendor.acme.evals.tone@1.0.0 \\
    --judge-url http://127.0.0.1:11434/v1 --judge-model qwen2.5";

/// Compare the judge of rubrics with people
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone judge calibrate scored.jsonl --suite vendor.acme.evals.tone@1.0.0\n  touchstone judge list"
)]
pub enum Command {
    /// Have the judge judge what people have scored, and tell how well they agree
    #[command(after_help = EXAMPLES)]
    Calibrate(Calibrate),
    /// List the judges that were compared with people
    #[command(after_help = "Examples:\n  touchstone judge list")]
    List,
}

/// What to compare.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// The samples, JSON Lines
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The suite whose rubrics are applied
    #[arg(long, value_name = "SUITE@VERSION", value_parser = suite)]
    suite: String,
    /// Accept fewer than 100 samples, for a first look; no gate does
    #[arg(long)]
    allow_few: bool,
    #[command(flatten)]
    judge: JudgeEndpoint,
}

fn suite(text: &str) -> Result<String, String> {
    text.parse::<SuiteRef>()
        .map(|suite| suite.to_string())
        .map_err(|fault| fault.to_string())
}

#[derive(Deserialize, Serialize)]
struct Listed {
    calibrations: Vec<Calibration>,
}

/// Runs the command.
pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Calibrate(arguments) => calibrate(context, &arguments).await,
        Command::List => list(context).await,
    }
}

async fn calibrate(context: &Context<'_>, arguments: &Calibrate) -> Result<Exit, Failure> {
    let samples = read(&arguments.file)?;
    let body =
        json!({"suite": arguments.suite, "samples": samples, "allowFew": arguments.allow_few});
    let session = context
        .work(Endpoints {
            judge: arguments.judge.config(),
            ..Endpoints::default()
        })
        .await?;
    let outcome: Result<Calibration, Failure> = session.client().post(PATH, &body).await;
    session.close().await;
    let found = outcome?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&found);
    } else {
        terminal.print(&line(&found));
    }
    let doubted = doubt(Some(&found), MIN_AGREEMENT, found.calibrated_at);
    if let Some(doubt) = &doubted {
        terminal.note(&format!(
            "no gate relies on this judge by default: it {doubt}"
        ));
    }
    Ok(match doubted {
        None => Exit::Good,
        Some(_) => Exit::Negative,
    })
}

async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.look().await?;
    let listed: Listed = session.client().get(PATH).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&listed);
    } else {
        for found in &listed.calibrations {
            terminal.print(&line(found));
        }
    }
    Ok(Exit::Good)
}

fn line(found: &Calibration) -> String {
    let interval = found.interval.map_or_else(String::new, |bounds| {
        format!(" (95 %: {:.3} to {:.3})", bounds.low, bounds.high)
    });
    format!(
        "{} on {}: spearman {:.3}{interval}, n {}, ties {} of the judge and {} of people, cost {}, until {:.10}",
        found.judge.model.model,
        found.suite,
        found.spearman,
        found.samples,
        found.ties.judge,
        found.ties.human,
        usd(found.cost_usd),
        found.valid_until.to_string(),
    )
}

fn read(file: &PathBuf) -> Result<Vec<Sample>, Failure> {
    let unreadable = |cause: std::io::Error| {
        let file = file.display();
        Failure::bad_input("unreadable", format!("{file} cannot be read: {cause}"))
    };
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let mut samples = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(opened).lines()) {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let sample = serde_json::from_str(&line).map_err(|cause| {
            Failure::bad_input(
                "no_sample",
                format!("{}, line {number}: {cause}", file.display()),
            )
        })?;
        samples.push(sample);
    }
    Ok(samples)
}
