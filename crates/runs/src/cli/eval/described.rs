//! `touchstone eval --prompt FILE --cases FILE`: an agent described by flags, evaluated as local
//! work.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::cli::eval::case_options::CaseOptions;
use crate::cli::suite::import::folder::Folder;
use crate::cli::suite::read_octets;
use crate::cli::suite::scoring::found_beside;
use crate::rules::eval::import::pack::instructions;
use crate::rules::eval::import::{
    Fault, Format, Identity, Imported, Options, PROVIDERS, Recognition, Source, convert, recognize,
};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::shell::quoted;
use touchstone_packs::cli::folder::write_new;
use touchstone_packs::rules::build::Files;
use touchstone_packs::rules::build::template::{PromptAgent, prompt_pack};

/// Maximum size of a prompt.
const MAX_PROMPT_BYTES: usize = 1 << 20;
/// What helps if a file of cases is not understood.
const NAME_THE_COLUMNS: &str = "name the columns with --input COLUMN and --expected COLUMN, or the \
    format with --format FORMAT; docs/importing.md lists the formats";
/// The id of the suite that is made of a file of cases.
pub(crate) const CASES_SUITE: &str = "private.local.evals.cases";
/// The prompt of an agent that is a command and has no prompt.
const NO_PROMPT: &str = "Answer the request.";

#[derive(Clone, Debug, Default, Args)]
pub struct DescribedAgent {
    /// System prompt of the agent, as text. With --cases, instead of a suite or folder
    #[arg(
        long,
        value_name = "FILE",
        requires = "cases",
        conflicts_with = "subject"
    )]
    prompt: Option<PathBuf>,

    /// Cases of the agent: a suite, or a file that `suite import` accepts (CSV, JSON lines, YAML).
    /// With --prompt or --agent-command, instead of a suite or folder
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subject", "agent", "suite"])]
    cases: Option<PathBuf>,

    #[command(flatten)]
    options: CaseOptions,

    /// Write the agent and its cases to a new pack folder, and evaluate that
    #[arg(long, value_name = "DIR", requires = "cases")]
    save: Option<PathBuf>,

    /// Prompt of the cases' own configuration, by its index.
    #[arg(skip)]
    own_prompt: Option<usize>,

    /// Whether content that cannot be imported was reported before.
    #[arg(skip)]
    is_reported: bool,
}

/// The files of an agent described by flags.
pub(super) struct Described {
    pub files: Files,
    pub cases: PathBuf,
}

impl DescribedAgent {
    /// Without a pack folder.
    pub(super) fn of(
        prompt: Option<PathBuf>,
        cases: Option<PathBuf>,
        options: CaseOptions,
    ) -> Self {
        Self {
            prompt,
            cases,
            options,
            ..Self::default()
        }
    }

    /// With a prompt of the cases' own configuration.
    pub(super) fn with_own_prompt(self, index: Option<usize>) -> Self {
        Self {
            own_prompt: index,
            ..self
        }
    }

    /// Without reports of content that cannot be imported.
    pub(super) fn reported(self, is_reported: bool) -> Self {
        Self {
            is_reported,
            ..self
        }
    }

    /// The file of cases, if the agent has no prompt file, and how it is read.
    pub(super) fn cases_alone(&self) -> Option<(&Path, &CaseOptions)> {
        let cases = self.cases.as_deref().filter(|_| self.prompt.is_none())?;
        Some((cases, &self.options))
    }

    pub(super) const fn has_cases(&self) -> bool {
        self.cases.is_some()
    }

    /// The files that the description consists of.
    pub fn sources(&self) -> Vec<&Path> {
        let sources = [&self.prompt, &self.cases];
        sources
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect()
    }

    /// The folder to write the agent to.
    pub fn folder(&self) -> Option<&Path> {
        self.save.as_deref()
    }

    /// Reads the description; `None` if there is none. `by_command` says that a command answers.
    ///
    /// # Errors
    /// A file cannot be read or converted, or nothing answers.
    pub(super) fn read(
        &self,
        context: &Context<'_>,
        by_command: bool,
    ) -> Result<Option<Described>, Failure> {
        let Some(cases) = &self.cases else {
            return Ok(None);
        };
        let has_prompt = self.prompt.is_some() || self.own_prompt.is_some();
        if !has_prompt && !by_command {
            return Err(Failure::usage("--cases needs an agent")
                .or_try("add --prompt FILE, or --agent-command COMMAND"));
        }
        let mut imported = imported(context, cases, &self.options, !self.is_reported)?;
        // The agent is described by the command, or is one of the configuration.
        let agents = std::mem::take(&mut imported.agents);
        let own = self.own_prompt.and_then(|index| agents.get(index));
        let prompt = match (&self.prompt, own) {
            (Some(file), _) => text(file)?,
            (None, Some(agent)) => instructions(agent),
            (None, None) => NO_PROMPT.to_owned(),
        };
        let Imported {
            suite,
            scoring,
            tools,
            ..
        } = imported;
        let named = self.prompt.as_deref().unwrap_or(cases);
        let stem = named.file_stem().unwrap_or_default().to_string_lossy();
        let agent = PromptAgent {
            name: own.map_or(&stem, |agent| &agent.label),
            prompt: &prompt,
            answers_object: answers_are_objects(&suite),
            suite,
            scoring,
            tools: &tools,
        };
        let files = prompt_pack(agent)
            .map_err(|cause| Failure::not_done("internal_error", cause.to_string()))?;
        Ok(Some(Described {
            files,
            cases: cases.clone(),
        }))
    }

    /// Writes the folder, if one is given.
    ///
    /// # Errors
    /// The folder is not empty or cannot be written.
    pub(super) fn save(&self, context: &Context<'_>, files: &Files) -> Result<(), Failure> {
        let Some(folder) = &self.save else {
            return Ok(());
        };
        write_new(folder, files)?;
        let shown = folder.display();
        context.terminal().note(&format!(
            "{shown}: {} files; evaluate them with {} eval {shown}",
            files.len(),
            context.program()
        ));
        Ok(())
    }

    /// How to keep the agent, for readers who evaluated it without a folder. `flags` select its
    /// model.
    pub fn next_step(&self, context: &Context<'_>, flags: &str) -> Option<String> {
        self.cases.as_ref().filter(|_| self.save.is_none())?;
        Some(format!(
            "keep this agent as a pack folder: {} eval {}{flags} --save my-agent",
            context.program(),
            self.words()
        ))
    }

    /// The arguments of `eval` that describe the agent.
    pub(super) fn words(&self) -> String {
        let files = [("--prompt", &self.prompt), ("--cases", &self.cases)];
        let files = files.iter().filter_map(|(flag, file)| {
            let file = file.as_ref()?.to_string_lossy();
            Some(format!("{flag} {}", quoted(&file)))
        });
        let options = self.options.given();
        let options = options.map(|(flag, value)| format!("{flag} {}", quoted(&value)));
        files.chain(options).collect::<Vec<_>>().join(" ")
    }
}

fn text(file: &Path) -> Result<String, Failure> {
    let bytes = read_octets(file)?;
    let shown = file.display();
    if bytes.len() > MAX_PROMPT_BYTES {
        return Err(Failure::bad_input(
            "prompt_too_large",
            format!("{shown} has {} bytes", bytes.len()),
        )
        .or_try(format!("shorten it to at most {MAX_PROMPT_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::bad_input("prompt_not_text", format!("{shown} is not UTF-8 text"))
            .or_try("save the prompt as UTF-8")
    })?;
    if text.trim().is_empty() {
        return Err(
            Failure::bad_input("prompt_empty", format!("{shown} is empty"))
                .or_try("write the agent's instructions in it"),
        );
    }
    Ok(text)
}

/// The cases as a suite, with a scoring document if the suite cannot say everything. `reports` says
/// that content that cannot be imported is shown.
pub(super) fn imported(
    context: &Context<'_>,
    file: &Path,
    options: &CaseOptions,
    reports: bool,
) -> Result<Imported, Failure> {
    let bytes = read_octets(file)?;
    let columns = options.columns();
    let Some(format) = format_of(file, &bytes, options)? else {
        return own_suite(context, file, &bytes, reports);
    };
    let identity = Identity {
        suite_id: CASES_SUITE.to_owned(),
        version: "0.1.0".to_owned(),
        target_agent_id: None,
        pass_score: options.pass_score,
    };
    let files = Folder::of(file, None)?;
    let source = Source {
        bytes: &bytes,
        files: &files,
    };
    let conversion = Options {
        format,
        strategy: options.strategy(),
        columns: &columns,
        identity: &identity,
    };
    let imported =
        convert(&source, &conversion).map_err(|fault| not_imported(context, file, &fault))?;
    let losses = imported.losses.iter().filter(|_| reports);
    // Flags or the configuration's own providers choose the model.
    for loss in losses.filter(|loss| loss.first != PROVIDERS) {
        let times = match loss.count {
            1 => String::new(),
            n => format!(", {n} times"),
        };
        context.terminal().note(&format!(
            "not imported: {} ({}{times})",
            loss.what, loss.first
        ));
    }
    Ok(imported)
}

/// The format of the file; `None` for a suite.
fn format_of(file: &Path, bytes: &[u8], options: &CaseOptions) -> Result<Option<Format>, Failure> {
    if options.format.is_some() {
        return Ok(options.format);
    }
    let shown = file.display();
    match recognize(bytes, &options.columns()) {
        Recognition::Format(found) => Ok(Some(found.format)),
        Recognition::Suite => match options.given().next() {
            Some((flag, _)) => Err(Failure::usage(format!(
                "{flag} applies only to files of other tools, and {shown} is a suite"
            ))
            .or_try(format!("omit {flag}, or change the value in the file"))),
            None => Ok(None),
        },
        Recognition::Unknown(reason) => Err(Failure::bad_input(
            "cases_unknown_format",
            format!("{shown}: {reason}"),
        )
        .or_try(NAME_THE_COLUMNS)),
    }
}

/// A file that is a suite, with the scoring document beside it.
fn own_suite(
    context: &Context<'_>,
    file: &Path,
    bytes: &[u8],
    reports: bool,
) -> Result<Imported, Failure> {
    let shown = file.display();
    let suite = touchstone_kit::json::parse(bytes).map_err(|cause| {
        Failure::bad_input("cases_unknown_format", format!("{shown}: {cause}")).or_try(format!(
            "check it with {} suite lint {}",
            context.program(),
            quoted(&file.to_string_lossy())
        ))
    })?;
    let scoring = found_beside(context, file, &suite, reports)?;
    Ok(Imported {
        scoring,
        ..Imported::of_suite(suite)
    })
}

fn not_imported(context: &Context<'_>, file: &Path, fault: &Fault) -> Failure {
    let shown = file.display();
    let remedy = match fault {
        Fault::Format { .. } => NAME_THE_COLUMNS.to_owned(),
        // The reason that concerns most tasks.
        Fault::NoTasks(losses) => losses
            .iter()
            .rev()
            .max_by_key(|loss| loss.left_out.len())
            .map_or_else(
                || "check that the file has tasks".to_owned(),
                |loss| format!("check {}: {}", loss.first, loss.what),
            ),
        Fault::NoSuite(_) => format!(
            "see what can be imported with {} suite import {} --out suite.json",
            context.program(),
            quoted(&file.to_string_lossy())
        ),
    };
    Failure::bad_input("not_imported", format!("{shown}: {fault}")).or_try(remedy)
}

/// Whether every expected answer is a JSON object, which an agent is then asked for.
fn answers_are_objects(suite: &Value) -> bool {
    let tasks = suite.get("tasks").and_then(Value::as_array);
    let is_object = |task: &Value| {
        let is = |at: &str| task.pointer(at);
        is("/expected/match/strategy").and_then(Value::as_str) == Some("json-match")
            && is("/expected/match/value").is_some_and(Value::is_object)
    };
    tasks.is_some_and(|tasks| !tasks.is_empty() && tasks.iter().all(is_object))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::objects(&[("json-match", json!({"a": 1})), ("json-match", json!({}))], true)]
    #[case::one_text(&[("json-match", json!({"a": 1})), ("exact", json!("a"))], false)]
    #[case::a_list(&[("json-match", json!([1]))], false)]
    #[case::contains(&[("contains", json!({"a": 1}))], false)]
    #[case::none(&[], false)]
    fn an_object_is_asked_for_only_if_every_answer_is_one(
        #[case] answers: &[(&str, Value)],
        #[case] expected: bool,
    ) {
        let task = |(strategy, value): &(&str, Value)| json!({"expected": {"kind": "golden", "match": {"strategy": strategy, "value": value}}});
        let tasks: Vec<Value> = answers.iter().map(task).collect();
        assert_eq!(answers_are_objects(&json!({"tasks": tasks})), expected);
    }
}
