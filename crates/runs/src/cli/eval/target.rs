//! The agent and the suite of an evaluation: installed ones, or local work that is installed first.

use std::path::{Path, PathBuf};

use crate::cli::eval::described::DescribedAgent;
use crate::cli::eval::folder;
use crate::cli::eval::folder::LocalReferences;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;
use touchstone_packs::cli::local::install_files;
use touchstone_packs::rules::format::PackFormat;

/// What to evaluate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// `suiteId@version`.
    Suite(String),
    Folder(PathBuf),
}

/// A suite has a version, and no `/` in its id.
pub(super) fn subject(text: &str) -> Result<Subject, String> {
    let path = Path::new(text);
    if path.is_dir() || text.contains('/') || !text.contains('@') {
        return Ok(Subject::Folder(path.to_owned()));
    }
    super::suite(text).map(Subject::Suite)
}

/// The selection by the command line, before local work is installed.
pub(super) struct Selected<'a> {
    pub subject: Option<&'a Subject>,
    pub described: &'a DescribedAgent,
    pub agent: Option<&'a str>,
    pub suite: Option<&'a str>,
    /// Whether a command answers for the agent.
    pub by_command: bool,
}

/// The references that a run request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Id, with or without version.
    pub agent: String,
    /// Id and version.
    pub suite: String,
}

impl From<LocalReferences> for Target {
    fn from(local: LocalReferences) -> Self {
        Self {
            agent: local.agent,
            suite: local.suite,
        }
    }
}

impl Selected<'_> {
    /// Checks that something is selected.
    ///
    /// # Errors
    /// Neither a suite, a folder nor cases are named.
    pub fn check(&self) -> Result<(), Failure> {
        if self.subject.is_some() || self.described.has_cases() {
            return Ok(());
        }
        Err(nothing_named(self.by_command))
    }

    /// Whether it is local work, not installed by the user.
    pub const fn is_local(&self) -> bool {
        !matches!(self.subject, Some(Subject::Suite(_)))
    }

    /// The files and folders that it consists of.
    pub fn sources(&self) -> Vec<&Path> {
        match self.subject {
            Some(Subject::Folder(folder)) => vec![folder],
            Some(Subject::Suite(_)) => Vec::new(),
            None => self.described.sources(),
        }
    }

    /// Installs local work, and names agent and suite.
    ///
    /// # Errors
    /// A choice is missing or unknown, or local work is not valid.
    pub async fn resolve(
        &self,
        context: &Context<'_>,
        format: PackFormat,
    ) -> Result<Target, Failure> {
        if self.is_local() && !context.is_embedded() {
            return Err(Failure::usage(
                "a folder, or an agent described by flags, can only be evaluated by the embedded host",
            )
            .or_try("omit --server, or install the pack on the host"));
        }
        match self.subject {
            Some(Subject::Suite(_)) if self.suite.is_some() => {
                Err(Failure::usage("--suite chooses a suite of a FOLDER").or_try("omit --suite"))
            }
            Some(Subject::Suite(suite)) => {
                let agent = self.agent.ok_or_else(|| no_agent(context))?;
                Ok(Target {
                    agent: agent.to_owned(),
                    suite: suite.clone(),
                })
            }
            Some(Subject::Folder(path)) => {
                let local = folder::install(context, format, path, self.agent, self.suite);
                local.await.map(Target::from)
            }
            None => {
                let described = self.described.read(context, self.by_command)?;
                let described = described.ok_or_else(|| nothing_named(self.by_command))?;
                self.described.save(context, &described.files)?;
                let path = self.described.folder().unwrap_or(&described.cases);
                let facts = install_files(context, format, path, &described.files).await?;
                folder::references(path, &facts, None, None).map(Target::from)
            }
        }
    }
}

fn nothing_named(by_command: bool) -> Failure {
    let remedy = match by_command {
        true => {
            "add --cases FILE with inputs and expected answers, or name a FOLDER or SUITE@VERSION"
        }
        false => {
            "name a FOLDER or SUITE@VERSION, or use --cases FILE with --prompt FILE or \
             --agent-command COMMAND"
        }
    };
    Failure::usage("nothing to evaluate is named").or_try(remedy)
}

fn no_agent(context: &Context<'_>) -> Failure {
    Failure::usage("--agent is missing").or_try(format!(
        "list agents with {} pack list, and add --agent AGENT",
        context.program()
    ))
}
