//! `touchstone matrix`: several models, prompts or agent versions over the same tasks.

mod combinations;

use std::path::PathBuf;

use clap::Args;
use url::Url;

use self::combinations::{
    Combination, CommandChoice, ModelChoice, PriceChoice, combinations, command_choice,
    model_choice, price_choice,
};
use crate::cli::eval::case_options::CaseOptions;
use crate::cli::eval::configuration::Configuration;
use crate::cli::eval::selection::SelectionOptions;
use crate::cli::eval::start;
use crate::cli::eval::target::{Subject, subject};
use crate::cli::eval::trials::{follow_all, start_all};
use crate::cli::output::{check_output, print_result, write_file};
use crate::cli::results::RunReport;
use crate::cli::watch::{Interrupts, follow_events};
use crate::render;
use crate::render::matrix_page::{MatrixPage, matrix_page};
use crate::rules::eval::matrix::{Variant, matrix};
use crate::rules::eval::report::RunTotals;
use crate::rules::eval::statistics::ListedRun;
use crate::rules::run::fold::RunStatus;
use touchstone_agents::cli::{
    AssertOptions, EmbeddingsEndpoint, JudgeEndpoint, TokenPriceOption, UserEndpoint, provider,
};
use touchstone_agents::model::Provider;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::options::address;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;
use touchstone_packs::rules::format::PackFormat;

const EXAMPLES: &str = "\
Runs every combination, one after the other, and compares all pairs over the same tasks. A
difference is called beyond chance only if it is significant after Holm's adjustment for the number
of pairs. Exit codes: 0 every task was judged, 2 bad input, 3 could not complete, 4 some tasks are
unjudged.

Examples:
  touchstone matrix my-agent --model-url http://127.0.0.1:11434/v1 --model llama3.2 --model qwen2.5
  touchstone matrix --prompt short.md --prompt long.md --cases cases.csv \\
    --model-url http://127.0.0.1:11434/v1 --model llama3.2 --markdown matrix.md
  touchstone matrix vendor.acme.evals.triage@1.0.0 --agent vendor.acme.triage.default@1.0.0 \\
    --agent vendor.acme.triage.default@1.1.0
  touchstone matrix my-agent --model small-1=http://127.0.0.1:9000/v1 \\
    --model large-1=http://127.0.0.1:9001/v1 --limit 20
  touchstone matrix --cases promptfooconfig.yaml --html matrix.html
  touchstone matrix --cases cases.csv --trials 5 --agent-command old=./agent-1.py \\
    --agent-command new=./agent-2.py";

/// Compare several models, prompts or agent versions over the same tasks
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Matrix {
    /// Installed suite, by id and exact version; or a pack folder
    #[arg(value_name = "SUITE@VERSION|FOLDER", value_parser = subject, required_unless_present = "cases")]
    subject: Option<Subject>,

    /// Agent; repeat to compare several versions or agents
    #[arg(long = "agent", value_name = "AGENT[@VERSION]")]
    agents: Vec<String>,

    /// System prompt, with --cases; repeat to compare several [default: the prompts of --cases, if
    /// it is a configuration of promptfoo]
    #[arg(
        long = "prompt",
        value_name = "FILE",
        requires = "cases",
        conflicts_with = "subject"
    )]
    prompts: Vec<PathBuf>,

    /// Cases: a suite, or a file that `suite import` accepts. Prompts and providers of a
    /// promptfoo configuration are compared too, unless options name others
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subject", "agents"])]
    cases: Option<PathBuf>,

    #[command(flatten)]
    case_options: CaseOptions,

    /// Model name at --model-url, or NAME=URL; repeat to compare several
    #[arg(long = "model", value_name = "NAME[=URL]", value_parser = model_choice)]
    models: Vec<ModelChoice>,

    /// Command that acts as the agent instead of a model, with a name for the table; repeat to
    /// compare several
    #[arg(long = "agent-command", value_name = "[NAME=]COMMAND", value_parser = command_choice)]
    commands: Vec<CommandChoice>,

    /// Endpoint of the models without a URL of their own. Its API key comes from
    /// TOUCHSTONE_MODEL_API_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "URL", requires = "models", value_parser = address)]
    model_url: Option<Url>,

    /// Protocol of the models: openai or anthropic [default: openai]
    #[arg(long, value_name = "PROVIDER", requires = "models", value_parser = provider)]
    model_provider: Option<Provider>,

    /// Price of a model or command, in USD per million input and output tokens; without NAME, of
    /// all others [default: the vendor's list price, or the price in the configuration]
    #[arg(long = "model-price", value_name = "[NAME=]INPUT,OUTPUT", value_parser = price_choice)]
    model_prices: Vec<PriceChoice>,

    #[command(flatten)]
    judge: JudgeEndpoint,

    #[command(flatten)]
    embeddings: EmbeddingsEndpoint,

    #[command(flatten)]
    assertions: AssertOptions,

    #[command(flatten)]
    user: UserEndpoint,

    #[command(flatten)]
    selection: SelectionOptions,

    /// Maximum number of tasks in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,

    /// Number of runs of every combination, 1 to 100; results are pooled
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    trials: Option<u32>,

    /// Maximum cost of each run in USD
    #[arg(long, value_name = "X", value_parser = super::amount, allow_negative_numbers = true)]
    max_cost_usd: Option<f64>,

    /// Run the suite even if it targets another agent
    #[arg(long)]
    any_target: bool,

    /// Call the models for every request instead of reusing answers of earlier local work
    #[arg(long)]
    no_cache: bool,

    /// Markdown file to write the result to
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// HTML file to write the result to: one page without scripts and without task content
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Matrix {
    fn price_of(&self, model: &str) -> Option<TokenPriceOption> {
        let of = |name: Option<&str>| {
            let mut prices = self.model_prices.iter();
            prices.find(|it| it.name.as_deref() == name)
        };
        of(Some(model)).or_else(|| of(None)).map(|it| it.price)
    }

    /// Whether the configuration in --cases chooses the models.
    fn uses_providers(&self) -> bool {
        self.prompts.is_empty() && self.models.is_empty() && self.commands.is_empty()
    }
}

/// Runs every combination and shows the comparison.
///
/// # Errors
/// A combination cannot be run.
pub async fn run(
    context: &Context<'_>,
    format: PackFormat,
    arguments: Matrix,
) -> Result<Exit, Failure> {
    if !arguments.commands.is_empty() && !context.is_embedded() {
        return Err(super::commands_are_local());
    }
    for file in [&arguments.markdown, &arguments.html].into_iter().flatten() {
        check_output(file)?;
    }
    let configuration = match &arguments.cases {
        Some(file) => Configuration::read(context, file, &arguments.case_options)?,
        None => Configuration::default(),
    };
    let providers = match &arguments.cases {
        Some(file) if arguments.uses_providers() => configuration.callable(context, file)?,
        _ => Vec::new(),
    };
    let combinations = combinations(&arguments, &configuration.prompts, &providers)?;
    let mut interrupts = Interrupts::listen()?;
    let mut reports: Vec<(String, Vec<ListedRun>)> = Vec::with_capacity(combinations.len());
    let count = combinations.len();
    for (n, combination) in combinations.into_iter().enumerate() {
        let Combination {
            name,
            mut arguments,
        } = combination;
        arguments.described = arguments.described.reported(n > 0);
        if !context.terminal().json() {
            context
                .terminal()
                .note(&format!("{} of {count}: {name}", n + 1));
        }
        let evaluated = evaluate(context, format, &arguments, &mut interrupts).await?;
        if evaluated
            .iter()
            .any(|it| it.run.report.status == RunStatus::Cancelled.as_str())
        {
            return Err(
                Failure::new(Exit::NotDone, "interrupted", "the matrix was interrupted")
                    .or_try("run the command again; answers of local work are in the cache"),
            );
        }
        reports.push((name, evaluated));
    }
    let variants: Vec<Variant<'_>> = reports
        .iter()
        .filter_map(|(name, reports)| {
            let (first, further) = reports.split_first()?;
            Some(Variant {
                name,
                first,
                further,
            })
        })
        .collect();
    show(context, &arguments, &variants)
}

/// Prints the result and writes the files.
fn show(
    context: &Context<'_>,
    arguments: &Matrix,
    variants: &[Variant<'_>],
) -> Result<Exit, Failure> {
    let found = matrix(variants);
    let terminal = context.terminal();
    print_result(terminal, &found, || {
        render::matrix::matrix(&found, terminal.style())
    });
    if let Some(file) = &arguments.markdown {
        write_file(file, &render::matrix::markdown(&found))?;
    }
    if let Some(file) = &arguments.html {
        let page = MatrixPage {
            found: &found,
            reports: &variants
                .iter()
                .map(|it| &it.first.run.report)
                .collect::<Vec<_>>(),
            made_at: SystemClock.now(),
        };
        let html = matrix_page(page)
            .map_err(|cause| Failure::not_done("page_not_made", cause.to_string()))?;
        write_file(file, &html)?;
        terminal.note(&format!("wrote the comparison to {}", file.display()));
    }
    let mut reports = variants.iter().flat_map(Variant::reports);
    Ok(match reports.all(RunTotals::is_judged) {
        true => Exit::Good,
        false => Exit::Inconclusive,
    })
}

/// The run of a combination, or the runs of its trials.
async fn evaluate(
    context: &Context<'_>,
    format: PackFormat,
    arguments: &super::Arguments,
    interrupts: &mut Interrupts,
) -> Result<Vec<ListedRun>, Failure> {
    let target = arguments.selected().resolve(context, format).await?;
    let session = arguments.open(context, None).await?;
    let outcome = async {
        let client = session.client();
        let runs = if let Some(trials @ 2..) = arguments.trials {
            let started = start_all(context, &session, arguments, &target, trials).await?;
            follow_all(context, client, &started.runs, interrupts, |_, _| {}).await?;
            started.runs
        } else {
            let started = start(context, &session, arguments, &target).await?;
            follow_events(context, client, &started.run_id, "", interrupts).await?;
            vec![started.run_id]
        };
        let mut listed = Vec::with_capacity(runs.len());
        for run in &runs {
            let report = RunReport::fetch(client, run).await?;
            listed.push(report.listed(client).await?);
        }
        Ok(listed)
    }
    .await;
    session.close().await;
    outcome
}
