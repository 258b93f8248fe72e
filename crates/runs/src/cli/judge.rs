//! `touchstone judge`: calibrate the rubric judge against people's scores.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use axum::http::Method;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::eval::amount;
use crate::cli::output::print_result;
use crate::cli::progress::Counted;
use crate::rules::eval::rubric::attempt::{Attempt, Status};
use crate::rules::eval::rubric::calibration::{Calibration, MIN_AGREEMENT, Sample, shortfall};
use crate::rules::eval::suite_rules::SuiteRef;
use touchstone_agents::cli::{JudgeEndpoint, work_with};
use touchstone_agents::model::OwnModels;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::retry::{LOOK_EVERY, LOOK_FIRST, retry_until_answered};
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::render::words::{usd, usd_or_unknown};
use touchstone_kit::ids::TaskId;

const PATH: &str = "/v1/host/touchstone/judge/calibrations";
const EXAMPLES: &str = "\
Each line of FILE is a sample scored by people, on any scale:
  {\"item\": \"s-1\", \"task\": \"complaint\", \"output\": \"We are sorry …\", \"human\": [4, 5]}
`task` is optional if the suite has only one rubric. A .csv file has the columns item, output, human and optionally
task, and one row per score.

The calibration stops before it exceeds --max-cost-usd. On a host it continues if this command
is interrupted.

Exit codes: 0 the agreement satisfies a gate, 1 it does not, 2 bad input, 3 could not complete.

Examples:
  touchstone judge calibrate scored.jsonl --suite vendor.acme.evals.tone@1.0.0
  touchstone judge calibrate scored.jsonl --suite vendor.acme.evals.tone@1.0.0 \\
    --judge-url http://127.0.0.1:11434/v1 --judge-model qwen2.5";

/// Calibrate the rubric judge against people's scores
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone judge calibrate scored.jsonl --suite vendor.acme.evals.tone@1.0.0\n  touchstone judge list"
)]
pub enum Command {
    /// Let the judge score samples that people have scored, and measure the agreement
    #[command(after_help = EXAMPLES)]
    Calibrate(Calibrate),
    /// Wait for a calibration that is running on a host, and show its result
    #[command(
        after_help = "Examples:\n  touchstone --server https://host judge follow calibration_0192"
    )]
    Follow {
        /// Calibration id
        #[arg(value_name = "CALIBRATION")]
        calibration: String,
    },
    /// List calibrated judges
    #[command(after_help = "Examples:\n  touchstone judge list")]
    List,
}

#[derive(Debug, Args)]
pub struct Calibrate {
    /// Samples: JSON Lines, or CSV (.csv)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Suite whose rubrics to apply
    #[arg(long, value_name = "SUITE@VERSION", value_parser = suite)]
    suite: String,
    /// Accept fewer than 100 samples; gates do not accept the result
    #[arg(long)]
    allow_few: bool,
    /// Maximum cost of the calibration in USD [default: 5, or the host's limit for a run]
    #[arg(long, value_name = "USD", value_parser = amount, allow_negative_numbers = true)]
    max_cost_usd: Option<f64>,
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

pub async fn run(context: &Context<'_>, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Calibrate(arguments) => calibrate(context, &arguments).await,
        Command::Follow { calibration } => {
            let session = context.read().await?;
            let attempt = fetch(session.client(), &calibration).await?;
            let ended = follow(session.client(), context.terminal(), attempt).await?;
            verdict(context.terminal(), ended)
        }
        Command::List => list(context).await,
    }
}

async fn calibrate(context: &Context<'_>, arguments: &Calibrate) -> Result<Exit, Failure> {
    let samples = read(&arguments.file)?;
    let mut body =
        json!({"suite": arguments.suite, "samples": samples, "allowFew": arguments.allow_few});
    if let (Some(most), Some(members)) = (arguments.max_cost_usd, body.as_object_mut()) {
        members.insert("maxCostUsd".to_owned(), most.into());
    }
    let endpoints = arguments.judge.config();
    let session = work_with(context, endpoints, OwnModels::default()).await?;
    let outcome = start_and_follow(context, session.client(), &body).await;
    session.close().await;
    verdict(context.terminal(), outcome?)
}

/// Starts the calibration and waits for its end.
async fn start_and_follow(
    context: &Context<'_>,
    client: &Client,
    body: &Value,
) -> Result<Attempt, Failure> {
    // If the answer is lost, the request is repeated with its idempotency key, so it runs and is
    // paid for once.
    let key = Uuid::now_v7().to_string();
    let begun = retry_until_answered(|| {
        let call = Call::new(Method::POST, PATH).header("idempotency-key", &key);
        client.call(call.json(body))
    });
    let begun: Attempt = begun.await?;
    if !context.is_embedded() {
        context.terminal().note(&format!(
            "{} has started and costs at most {}; if interrupted, run {} judge follow {}",
            begun.calibration_id,
            usd(begun.max_cost_usd),
            context.program(),
            begun.calibration_id,
        ));
    }
    follow(client, context.terminal(), begun).await
}

/// Shows progress until the calibration has ended.
async fn follow(
    client: &Client,
    terminal: &Terminal,
    mut attempt: Attempt,
) -> Result<Attempt, Failure> {
    let bar = Counted::new(terminal, attempt.samples as u64);
    let mut pause = LOOK_FIRST;
    while attempt.status == Status::Running {
        let (spent, most) = (usd_or_unknown(attempt.cost_usd), usd(attempt.max_cost_usd));
        bar.reach(attempt.judged as u64, format!("{spent} of {most}"));
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY);
        let fetched = fetch(client, &attempt.calibration_id).await;
        attempt = fetched.inspect_err(|_| bar.clear())?;
    }
    bar.clear();
    Ok(attempt)
}

async fn fetch(client: &Client, calibration: &str) -> Result<Attempt, Failure> {
    let path = format!("{PATH}/{calibration}");
    retry_until_answered(|| client.get(&path)).await
}

fn verdict(terminal: &Terminal, attempt: Attempt) -> Result<Exit, Failure> {
    let Some(found) = attempt.calibration else {
        let failure = attempt.failure.map_or_else(
            || Failure::not_done("unexpected_answer", "the ended calibration has no result"),
            Failure::reported,
        );
        if !terminal.json() {
            terminal.note(&format!(
                "{} of {} samples were scored, at a cost of {}",
                attempt.judged,
                attempt.samples,
                usd_or_unknown(attempt.cost_usd),
            ));
        }
        let failure = failure
            .with("judged", attempt.judged)
            .with("samples", attempt.samples);
        return Err(match attempt.cost_usd {
            Some(cost) => failure.with("costUsd", cost.usd()),
            None => failure,
        });
    };
    print_result(terminal, &found, || line(&found));
    let doubted = shortfall(Some(&found), MIN_AGREEMENT, found.calibrated_at);
    if let Some(shortfall) = &doubted {
        terminal.note(&format!(
            "gates reject this judge by default, because it {shortfall}"
        ));
    }
    Ok(match doubted {
        None => Exit::Good,
        Some(_) => Exit::Negative,
    })
}

async fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
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
        usd_or_unknown(found.cost_usd),
        found.valid_until.to_string(),
    )
}

fn read(file: &Path) -> Result<Vec<Sample>, Failure> {
    let name = file.display();
    let bytes = std::fs::read(file).map_err(|cause| {
        Failure::bad_input("unreadable", format!("could not read {name}: {cause}"))
            .or_try("name a file that exists and that this user can read")
    })?;
    let is_table = file
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("csv"));
    let samples = if is_table {
        table(&bytes)
    } else {
        lines(&bytes)
    };
    samples.map_err(|cause| Failure::bad_input("no_sample", format!("{name}, {cause}")))
}

fn lines(bytes: &[u8]) -> Result<Vec<Sample>, String> {
    let lines = (1..).zip(bytes.split(|octet| *octet == b'\n'));
    lines
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .map(|(number, line)| {
            serde_json::from_slice(line).map_err(|cause| format!("line {number}: {cause}"))
        })
        .collect()
}

/// A CSV row; rows with the same item are scores of the same answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    item: String,
    #[serde(default)]
    task: Option<TaskId>,
    output: String,
    human: f64,
}

/// Samples of a CSV table with a header row.
fn table(bytes: &[u8]) -> Result<Vec<Sample>, String> {
    // Spreadsheets start a file with a byte order mark.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::Headers)
        .from_reader(bytes);
    let mut samples: Vec<Sample> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    // Row 1 is the header.
    for (number, row) in (2..).zip(reader.deserialize()) {
        let row: Row = row.map_err(|cause| format!("row {number}: {cause}"))?;
        let output = Value::String(row.output);
        let known = places
            .get(&row.item)
            .and_then(|place| samples.get_mut(*place));
        match known {
            Some(sample) if sample.output != output || sample.task != row.task => {
                return Err(format!(
                    "row {number}: item {:?} has a different `output` or `task` than in an earlier row",
                    row.item
                ));
            }
            Some(sample) => sample.human.push(row.human),
            None => {
                places.insert(row.item.clone(), samples.len());
                samples.push(Sample {
                    item: row.item,
                    task: row.task,
                    output,
                    human: vec![row.human],
                    tool_results: None,
                    baseline: None,
                });
            }
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_of_one_item_are_its_scores() {
        let text = "\u{feff}item, output,human\ns-1,\"Sorry, we\n\"\"hear\"\" you\",4\ns-2,No.,1\ns-1,\"Sorry, we\n\"\"hear\"\" you\",5\n";
        let found = json!(table(text.as_bytes()).unwrap());
        let expected = json!([
            {"item": "s-1", "output": "Sorry, we\n\"hear\" you", "human": [4.0, 5.0]},
            {"item": "s-2", "output": "No.", "human": [1.0]},
        ]);
        assert_eq!(found, expected);
        let with_task = table(b"item,task,output,human\ns-1,complaint,x,0.5\n").unwrap();
        assert_eq!(json!(with_task[0].task), json!("complaint"));
    }

    #[rstest]
    #[case::no_number("item,output,human\na,x,good\n", "row 2")]
    #[case::no_column("item,output\na,x\n", "human")]
    #[case::a_column_too_many("item,output,human,rater\na,x,1,ann\n", "rater")]
    #[case::two_answers("item,output,human\na,x,1\na,y,2\n", "row 3: item \"a\"")]
    fn malformed_sample_tables_are_rejected(#[case] text: &str, #[case] named: &str) {
        let fault = table(text.as_bytes()).unwrap_err();
        assert!(fault.contains(named), "{fault}");
    }
}
