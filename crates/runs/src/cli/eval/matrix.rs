//! `touchstone matrix`: several models, prompts or agent versions over the same tasks.

use std::path::PathBuf;

use clap::Args;
use url::Url;

use crate::cli::eval::described::DescribedAgent;
use crate::cli::eval::selection::SelectionOptions;
use crate::cli::eval::start;
use crate::cli::eval::target::{Subject, subject};
use crate::cli::output::{print_result, write_file};
use crate::cli::watch::{Interrupts, follow};
use crate::render;
use crate::rules::eval::matrix::{Variant, matrix};
use crate::rules::eval::report::EvalReport;
use crate::rules::run::fold::RunStatus;
use touchstone_agents::cli::{JudgeEndpoint, ModelEndpoint, provider};
use touchstone_agents::model::Provider;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::options::address;
use touchstone_packs::rules::format::PackFormat;

/// Maximum number of variants: all pairs of them are compared.
const MAX_VARIANTS: usize = 24;

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
    --model large-1=http://127.0.0.1:9001/v1 --limit 20";

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

    /// System prompt, with --cases; repeat to compare several
    #[arg(
        long = "prompt",
        value_name = "FILE",
        requires = "cases",
        conflicts_with = "subject"
    )]
    prompts: Vec<PathBuf>,

    /// Cases for --prompt: a suite, or a file that `suite import` accepts
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subject", "agents"], requires = "prompts")]
    cases: Option<PathBuf>,

    /// Model name at --model-url, or NAME=URL; repeat to compare several
    #[arg(long = "model", value_name = "NAME[=URL]", value_parser = model_choice)]
    models: Vec<ModelChoice>,

    /// Endpoint of the models without a URL of their own. Its API key comes from
    /// TOUCHSTONE_MODEL_API_KEY, else OPENAI_API_KEY or ANTHROPIC_API_KEY
    #[arg(long, value_name = "URL", requires = "models", value_parser = address)]
    model_url: Option<Url>,

    /// Protocol of the models: openai or anthropic [default: openai]
    #[arg(long, value_name = "PROVIDER", requires = "models", value_parser = provider)]
    model_provider: Option<Provider>,

    #[command(flatten)]
    judge: JudgeEndpoint,

    #[command(flatten)]
    selection: SelectionOptions,

    /// Maximum number of tasks in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,

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
}

/// A model, with its endpoint if it has one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelChoice {
    name: String,
    url: Option<Url>,
}

fn model_choice(text: &str) -> Result<ModelChoice, String> {
    let (name, url) = match text.split_once('=') {
        Some((name, url)) => (name, Some(address(url)?)),
        None => (text, None),
    };
    if name.is_empty() {
        return Err("must begin with the name of a model".to_owned());
    }
    Ok(ModelChoice {
        name: name.to_owned(),
        url,
    })
}

/// A combination to run.
#[derive(Debug)]
struct Combination {
    name: String,
    arguments: super::Arguments,
}

impl Matrix {
    /// Every combination, named by what distinguishes it.
    fn combinations(&self) -> Result<Vec<Combination>, Failure> {
        let without_url = self.models.iter().find(|model| model.url.is_none());
        if let (Some(model), None) = (without_url, &self.model_url) {
            return Err(
                Failure::usage(format!("model {} has no endpoint", model.name)).or_try(format!(
                    "add --model-url URL, or use --model {}=URL",
                    model.name
                )),
            );
        }
        let agents = choices(&self.agents);
        let prompts = choices(&self.prompts);
        let models = choices(&self.models);
        let count = agents.len() * prompts.len() * models.len();
        if !(2..=MAX_VARIANTS).contains(&count) {
            return Err(Failure::usage(format!(
                "a matrix compares 2 to {MAX_VARIANTS} variants, and this has {count}"
            ))
            .or_try("repeat --model, --prompt or --agent; evaluate a single variant with eval"));
        }
        let mut combinations = Vec::with_capacity(count);
        for agent in &agents {
            for prompt in &prompts {
                for model in &models {
                    let parts = [
                        agent.filter(|_| agents.len() > 1).cloned(),
                        prompt
                            .filter(|_| prompts.len() > 1)
                            .map(|file| file.display().to_string()),
                        model
                            .filter(|_| models.len() > 1)
                            .map(|model| model.name.clone()),
                    ];
                    let parts: Vec<String> = parts.into_iter().flatten().collect();
                    combinations.push(Combination {
                        name: parts.join(", "),
                        arguments: self.arguments(*agent, *prompt, *model),
                    });
                }
            }
        }
        number_equal_names(&mut combinations);
        Ok(combinations)
    }

    fn arguments(
        &self,
        agent: Option<&String>,
        prompt: Option<&PathBuf>,
        model: Option<&ModelChoice>,
    ) -> super::Arguments {
        let url = |model: &ModelChoice| model.url.clone().or_else(|| self.model_url.clone());
        super::Arguments {
            subject: self.subject.clone(),
            described: DescribedAgent::of(prompt.cloned(), self.cases.clone()),
            agent: agent.cloned(),
            model: ModelEndpoint {
                model_url: model.and_then(url),
                model: model.map(|model| model.name.clone()),
                model_provider: self.model_provider,
                judge: self.judge.clone(),
            },
            selection: self.selection.clone(),
            concurrency: self.concurrency,
            max_cost_usd: self.max_cost_usd,
            any_target: self.any_target,
            no_cache: self.no_cache,
            ..super::Arguments::default()
        }
    }
}

/// The given values, or one absent value.
fn choices<T>(values: &[T]) -> Vec<Option<&T>> {
    match values {
        [] => vec![None],
        values => values.iter().map(Some).collect(),
    }
}

/// Two endpoints may serve a model of the same name.
fn number_equal_names(combinations: &mut [Combination]) {
    let names: Vec<String> = combinations.iter().map(|it| it.name.clone()).collect();
    for (n, combination) in combinations.iter_mut().enumerate() {
        let equal = names
            .iter()
            .take(n)
            .filter(|name| **name == combination.name);
        let earlier = equal.count();
        if earlier > 0 {
            combination.name = format!("{} ({})", combination.name, earlier + 1);
        }
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
    let combinations = arguments.combinations()?;
    let mut interrupts = Interrupts::listen()?;
    let mut reports: Vec<(String, EvalReport)> = Vec::with_capacity(combinations.len());
    let count = combinations.len();
    for (n, combination) in combinations.into_iter().enumerate() {
        let Combination { name, arguments } = combination;
        if !context.terminal().json() {
            context
                .terminal()
                .note(&format!("{} of {count}: {name}", n + 1));
        }
        let report = evaluate(context, format, &arguments, &mut interrupts).await?;
        if report.status == RunStatus::Cancelled.as_str() {
            return Err(
                Failure::new(Exit::NotDone, "interrupted", "the matrix was interrupted")
                    .or_try("run the command again; answers of local work are in the cache"),
            );
        }
        reports.push((name, report));
    }
    let variants: Vec<Variant<'_>> = reports
        .iter()
        .map(|(name, report)| Variant {
            name,
            report,
            further: &[],
        })
        .collect();
    let found = matrix(&variants);
    let terminal = context.terminal();
    print_result(terminal, &found, || {
        render::matrix::matrix(&found, terminal.style())
    });
    if let Some(file) = &arguments.markdown {
        write_file(file, &render::matrix::markdown(&found))?;
    }
    Ok(match reports.iter().all(|(_, report)| report.is_judged()) {
        true => Exit::Good,
        false => Exit::Inconclusive,
    })
}

async fn evaluate(
    context: &Context<'_>,
    format: PackFormat,
    arguments: &super::Arguments,
    interrupts: &mut Interrupts,
) -> Result<EvalReport, Failure> {
    let target = arguments.selected().resolve(context, format).await?;
    let session = arguments.open(context, None).await?;
    let outcome = async {
        let started = start(context, &session, arguments, &target).await?;
        follow(context, session.client(), &started.run_id, "", interrupts).await
    }
    .await;
    session.close().await;
    outcome
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        matrix: Matrix,
    }

    fn names(line: &str) -> Result<Vec<String>, Failure> {
        let line = Line::try_parse_from(line.split(' ')).unwrap();
        let combinations = line.matrix.combinations()?;
        Ok(combinations.into_iter().map(|it| it.name).collect())
    }

    #[rstest]
    #[case::models("matrix dir/ --model-url http://h/v1 --model a --model b", &["a", "b"])]
    #[case::endpoints("matrix dir/ --model a=http://h/v1 --model a=http://i/v1", &["a", "a (2)"])]
    #[case::prompts(
        "matrix --prompt p.md --prompt q.md --cases c.csv --model-url http://h/v1 --model a --model b",
        &["p.md, a", "p.md, b", "q.md, a", "q.md, b"]
    )]
    #[case::versions("matrix v.a.evals.s@1.0.0 --agent x@1.0.0 --agent x@1.1.0", &["x@1.0.0", "x@1.1.0"])]
    fn every_combination_is_named_by_what_distinguishes_it(
        #[case] line: &str,
        #[case] expected: &[&str],
    ) {
        assert_eq!(names(line).unwrap(), expected);
    }

    #[rstest]
    #[case::one("matrix dir/ --model-url http://h/v1 --model a", "2 to 24 variants")]
    #[case::no_endpoint("matrix dir/ --model a --model b", "has no endpoint")]
    fn a_matrix_that_cannot_be_compared_is_refused(#[case] line: &str, #[case] part: &str) {
        let failure = names(line).unwrap_err();
        assert!(failure.message.contains(part), "{failure:?}");
        assert!(failure.remedy.is_some());
    }

    #[test]
    fn each_model_keeps_its_endpoint() {
        let line = "matrix dir/ --model-url http://h/v1 --model a --model b=http://i/v1";
        let line = Line::try_parse_from(line.split(' ')).unwrap();
        let urls: Vec<String> = line
            .matrix
            .combinations()
            .unwrap()
            .into_iter()
            .map(|it| it.arguments.model.model_url.unwrap().to_string())
            .collect();
        assert_eq!(urls, ["http://h/v1", "http://i/v1"]);
    }
}
