//! The combinations of agents, prompts and models that a matrix runs.

use std::path::PathBuf;

use url::Url;

use super::Matrix;
use crate::cli::eval::Arguments;
use crate::cli::eval::configuration::model_endpoint;
use crate::cli::eval::described::DescribedAgent;
use crate::rules::eval::import::ProviderEndpoint;
use crate::rules::eval::import::pack::AgentDraft;
use touchstone_agents::cli::{ModelEndpoint, TokenPriceOption, token_price};
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::options::address;

/// Maximum number of variants: all pairs of them are compared.
const MAX_VARIANTS: usize = 24;
/// Maximum number of characters of a command that is the name of a variant.
const MAX_NAME_CHARS: usize = 40;

/// A model, with its endpoint if it has one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelChoice {
    name: String,
    url: Option<Url>,
}

pub(super) fn model_choice(text: &str) -> Result<ModelChoice, String> {
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

/// A price, with the name of its model unless it is the price of all others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PriceChoice {
    pub name: Option<String>,
    pub price: TokenPriceOption,
}

pub(super) fn price_choice(text: &str) -> Result<PriceChoice, String> {
    let (name, price) = match text.rsplit_once('=') {
        Some((name, price)) => (Some(name.to_owned()), price),
        None => (None, text),
    };
    let price = token_price(price)?;
    Ok(PriceChoice { name, price })
}

/// A command that acts as the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandChoice {
    name: String,
    command: String,
}

/// The name ends at the first `=`, unless it would be part of the command.
pub(super) fn command_choice(text: &str) -> Result<CommandChoice, String> {
    let is_name = |name: &str| !name.contains(|c: char| c.is_whitespace() || c == '/');
    let (name, command) = match text.split_once('=') {
        Some((name, command)) if is_name(name) => (name.to_owned(), command),
        _ => (text.trim().chars().take(MAX_NAME_CHARS).collect(), text),
    };
    if name.is_empty() || command.trim().is_empty() {
        return Err("must be a command, or NAME=COMMAND".to_owned());
    }
    Ok(CommandChoice {
        name,
        command: command.to_owned(),
    })
}

/// A combination to run.
#[derive(Debug)]
pub(super) struct Combination {
    pub name: String,
    pub arguments: Arguments,
}

/// A system prompt.
#[derive(Clone, Copy, Debug)]
enum PromptChoice<'a> {
    File(&'a PathBuf),
    /// Of the configuration in `--cases`: its index and label.
    Own(usize, &'a str),
}

impl PromptChoice<'_> {
    fn name(&self) -> String {
        match self {
            Self::File(file) => file.display().to_string(),
            Self::Own(_, label) => (*label).to_owned(),
        }
    }
}

/// What answers for the agent.
#[derive(Clone, Copy, Debug)]
enum Answerer<'a> {
    Model(&'a ModelChoice),
    Command(&'a CommandChoice),
    Provider(&'a str, &'a ProviderEndpoint),
}

impl Answerer<'_> {
    fn name(&self) -> String {
        match self {
            Self::Model(model) => model.name.clone(),
            Self::Command(command) => command.name.clone(),
            Self::Provider(name, _) => (*name).to_owned(),
        }
    }
}

/// Every combination, named by what distinguishes it. `own_prompts` and `providers` are those of
/// the configuration in `--cases`.
///
/// # Errors
/// A choice is missing, or there are too few or too many combinations.
pub(super) fn combinations(
    matrix: &Matrix,
    own_prompts: &[AgentDraft],
    providers: &[(&str, &ProviderEndpoint)],
) -> Result<Vec<Combination>, Failure> {
    let without_url = matrix.models.iter().find(|model| model.url.is_none());
    if let (Some(model), None) = (without_url, &matrix.model_url) {
        return Err(
            Failure::usage(format!("model {} has no endpoint", model.name)).or_try(format!(
                "add --model-url URL, or use --model {}=URL",
                model.name
            )),
        );
    }
    let agents = choices(matrix.agents.iter());
    let prompts = prompts(matrix, own_prompts)?;
    let models = matrix.models.iter().map(Answerer::Model);
    let commands = matrix.commands.iter().map(Answerer::Command);
    let own = providers
        .iter()
        .map(|(name, endpoint)| Answerer::Provider(name, endpoint));
    let answerers = choices(models.chain(commands).chain(own));
    let named = matrix
        .model_prices
        .iter()
        .filter_map(|it| it.name.as_deref());
    let known: Vec<String> = answerers.iter().flatten().map(|it| it.name()).collect();
    for name in named {
        if !known.iter().any(|it| it == name) {
            return Err(Failure::usage(format!(
                "--model-price names `{name}`, which is not compared"
            ))
            .or_try(format!("use one of: {}", known.join(", "))));
        }
    }
    let count = agents.len() * prompts.len() * answerers.len();
    // A configuration may have a single prompt and provider.
    let least = if own_prompts.is_empty() { 2 } else { 1 };
    if !(least..=MAX_VARIANTS).contains(&count) {
        return Err(Failure::usage(format!(
            "a matrix compares 2 to {MAX_VARIANTS} variants, and this has {count}"
        ))
        .or_try(match count {
            1 => "repeat --model, --prompt or --agent; evaluate a single variant with eval",
            _ => "choose fewer with --model, --prompt or --agent",
        }));
    }
    let mut combinations = Vec::with_capacity(count);
    for agent in &agents {
        for prompt in &prompts {
            for answerer in &answerers {
                let parts = [
                    agent.filter(|_| agents.len() > 1).cloned(),
                    prompt
                        .filter(|_| prompts.len() > 1)
                        .map(|prompt| prompt.name()),
                    answerer
                        .filter(|_| answerers.len() > 1 || count == 1)
                        .map(|answerer| answerer.name()),
                ];
                let parts: Vec<String> = parts.into_iter().flatten().collect();
                combinations.push(Combination {
                    name: match parts.is_empty() {
                        true => prompt.map_or_else(String::new, |prompt| prompt.name()),
                        false => parts.join(", "),
                    },
                    arguments: arguments(matrix, *agent, *prompt, *answerer),
                });
            }
        }
    }
    number_equal_names(&mut combinations);
    Ok(combinations)
}

/// The prompts of the command line, or else of the configuration.
fn prompts<'a>(
    matrix: &'a Matrix,
    own: &'a [AgentDraft],
) -> Result<Vec<Option<PromptChoice<'a>>>, Failure> {
    if !matrix.prompts.is_empty() {
        return Ok(choices(matrix.prompts.iter().map(PromptChoice::File)));
    }
    // A command has its own prompt.
    let own = own
        .iter()
        .enumerate()
        .filter(|_| matrix.commands.is_empty());
    let own = choices(own.map(|(index, prompt)| PromptChoice::Own(index, &prompt.label)));
    let is_missing = matches!(own.as_slice(), [None]);
    match matrix.cases.is_some() && is_missing && matrix.commands.is_empty() {
        true => Err(Failure::usage("--cases needs an agent")
            .or_try("add --prompt FILE, or --agent-command COMMAND")),
        false => Ok(own),
    }
}

fn arguments(
    matrix: &Matrix,
    agent: Option<&String>,
    prompt: Option<PromptChoice<'_>>,
    answerer: Option<Answerer<'_>>,
) -> Arguments {
    let (file, own) = match prompt {
        Some(PromptChoice::File(file)) => (Some(file.clone()), None),
        Some(PromptChoice::Own(index, _)) => (None, Some(index)),
        None => (None, None),
    };
    let model = match answerer {
        Some(Answerer::Provider(_, endpoint)) => model_endpoint(endpoint, matrix.judge.clone()),
        Some(Answerer::Model(model)) => ModelEndpoint {
            model_url: model.url.clone().or_else(|| matrix.model_url.clone()),
            model: Some(model.name.clone()),
            model_provider: matrix.model_provider,
            judge: matrix.judge.clone(),
            ..ModelEndpoint::default()
        },
        Some(Answerer::Command(_)) | None => ModelEndpoint {
            judge: matrix.judge.clone(),
            ..ModelEndpoint::default()
        },
    };
    let model = ModelEndpoint {
        model_price: answerer.and_then(|it| matrix.price_of(&it.name())),
        embeddings: matrix.embeddings.clone(),
        user: matrix.user.clone(),
        ..model
    };
    Arguments {
        subject: matrix.subject.clone(),
        described: DescribedAgent::of(file, matrix.cases.clone(), matrix.case_options.clone())
            .with_own_prompt(own),
        agent: agent.cloned(),
        agent_command: match answerer {
            Some(Answerer::Command(it)) => Some(it.command.clone()),
            _ => None,
        },
        model,
        selection: matrix.selection.clone(),
        concurrency: matrix.concurrency,
        trials: matrix.trials,
        max_cost_usd: matrix.max_cost_usd,
        any_target: matrix.any_target,
        no_cache: matrix.no_cache,
        assertions: matrix.assertions.clone(),
        ..Arguments::default()
    }
}

/// The given values, or one absent value.
fn choices<T>(values: impl Iterator<Item = T>) -> Vec<Option<T>> {
    let values: Vec<Option<T>> = values.map(Some).collect();
    match values.is_empty() {
        true => vec![None],
        false => values,
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
        let combinations = combinations(&line.matrix, &[], &[])?;
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
    #[case::unknown_price(
        "matrix dir/ --model-url http://h/v1 --model a --model b --model-price c=1,2",
        "names `c`"
    )]
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
        let urls: Vec<String> = combinations(&line.matrix, &[], &[])
            .unwrap()
            .into_iter()
            .map(|it| it.arguments.model.model_url.unwrap().to_string())
            .collect();
        assert_eq!(urls, ["http://h/v1", "http://i/v1"]);
    }

    #[rstest]
    #[case("old=./agent.py --fast", "old", "./agent.py --fast")]
    #[case(
        "./agent.py --mode=fast",
        "./agent.py --mode=fast",
        "./agent.py --mode=fast"
    )]
    #[case("agent", "agent", "agent")]
    fn a_command_may_have_a_name(#[case] text: &str, #[case] name: &str, #[case] command: &str) {
        let found = command_choice(text).unwrap();
        assert_eq!(
            (found.name.as_str(), found.command.as_str()),
            (name, command)
        );
    }

    #[rstest]
    #[case("")]
    #[case("=x")]
    #[case("x=")]
    fn a_command_without_name_or_text_is_refused(#[case] text: &str) {
        assert!(command_choice(text).is_err());
    }

    fn configured(line: &str, prompts: &[&str], ids: &[&str]) -> Result<Vec<String>, Failure> {
        let line = Line::try_parse_from(line.split(' ')).unwrap();
        let prompts: Vec<AgentDraft> = prompts
            .iter()
            .map(|label| AgentDraft {
                label: (*label).to_owned(),
                prompt: "Answer.".to_owned(),
            })
            .collect();
        let endpoint = ProviderEndpoint {
            protocol: touchstone_agents::model::Provider::Openai,
            url: "http://127.0.0.1:9/v1".parse().unwrap(),
            model: "m".to_owned(),
            key_variable: None,
        };
        let providers: Vec<(&str, &ProviderEndpoint)> =
            ids.iter().map(|id| (*id, &endpoint)).collect();
        let found = combinations(&line.matrix, &prompts, &providers)?;
        Ok(found.into_iter().map(|it| it.name).collect())
    }

    #[rstest]
    #[case::all("matrix --cases p.yaml", &["a", "b"], &["x", "y"], &["a, x", "a, y", "b, x", "b, y"])]
    #[case::one("matrix --cases p.yaml", &["a"], &["x"], &["x"])]
    #[case::models("matrix --cases p.yaml --model z=http://h/v1", &["a", "b"], &[], &["a", "b"])]
    #[case::commands("matrix --cases p.yaml --agent-command n=./a --agent-command ./b", &["a", "b"], &[], &["n", "./b"])]
    fn prompts_and_providers_of_a_configuration_are_combined(
        #[case] line: &str,
        #[case] prompts: &[&str],
        #[case] providers: &[&str],
        #[case] expected: &[&str],
    ) {
        assert_eq!(configured(line, prompts, providers).unwrap(), expected);
    }

    #[test]
    fn cases_without_prompts_need_an_agent() {
        let failure =
            configured("matrix --cases c.csv --model z=http://h/v1", &[], &[]).unwrap_err();
        assert!(failure.message.contains("needs an agent"), "{failure:?}");
    }
}
