//! `touchstone eval FOLDER`: evaluates a pack folder without version, signature or installation.

use std::path::Path;

use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;
use touchstone_kit::near::did_you_mean;
use touchstone_packs::cli::local::install_folder;
use touchstone_packs::rules::format::PackFormat;
use touchstone_packs::rules::inventory::PackFacts;

/// Folders that are looked at for a similar name.
const MAX_FOLDERS: usize = 1000;

/// The references of a folder's agent and suite, as runs use them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LocalReferences {
    pub agent: String,
    pub suite: String,
}

/// Installs the current content of the folder and chooses an agent and a suite.
///
/// # Errors
/// The folder is not a valid pack, or a choice is missing or unknown.
pub(super) async fn install(
    context: &Context<'_>,
    format: PackFormat,
    path: &Path,
    agent: Option<&str>,
    suite: Option<&str>,
) -> Result<LocalReferences, Failure> {
    if !path.is_dir() {
        let near = similar(path).map_or_else(String::new, |near| format!("; {near}"));
        return Err(Failure::usage(format!(
            "{} is neither a folder nor a suite with its version{near}",
            path.display()
        ))
        .or_try(format!(
            "list suites with {} suite list, and use SUITE@VERSION",
            context.program()
        )));
    }
    let facts = install_folder(context, format, path).await?;
    references(path, &facts, agent, suite)
}

/// A folder beside this path with a similar name.
fn similar(path: &Path) -> Option<String> {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?;
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.take(MAX_FOLDERS).collect();
    did_you_mean(
        path.file_name()?.to_str()?,
        names.iter().map(String::as_str),
    )
}

/// The references of an installed pack's agent and suite.
///
/// # Errors
/// A choice is missing or unknown.
pub(super) fn references(
    path: &Path,
    facts: &PackFacts,
    agent: Option<&str>,
    suite: Option<&str>,
) -> Result<LocalReferences, Failure> {
    let agents: Vec<String> = facts
        .agents
        .iter()
        .map(|it| it.agent_id.to_string())
        .collect();
    let suites: Vec<String> = facts.suites.iter().map(|it| it.reference.clone()).collect();
    let agent = chosen(path, "agent", "--agent", &agents, agent)?;
    Ok(LocalReferences {
        agent: format!("{agent}@{}", facts.version),
        suite: chosen(path, "suite", "--suite", &suites, suite)?,
    })
}

/// The reference with this id, or the only one.
fn chosen(
    path: &Path,
    what: &str,
    flag: &str,
    all: &[String],
    id: Option<&str>,
) -> Result<String, Failure> {
    let id_of = |reference: &str| match reference.split_once('@') {
        Some((id, _)) => id.to_owned(),
        None => reference.to_owned(),
    };
    let ids = || {
        all.iter()
            .map(|it| id_of(it))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let folder = path.display();
    match (id, all) {
        (_, []) => Err(Failure::bad_input(
            "nothing_to_evaluate",
            format!("{folder} has no {what}"),
        )
        .or_try("add one; docs/evaluate-your-agent.md describes the files of a pack")),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(
            Failure::usage(format!("{folder} has several {what}s: {}", ids()))
                .or_try(format!("choose one with {flag}")),
        ),
        (Some(id), _) => {
            let found = all.iter().find(|reference| id_of(reference) == id);
            found.cloned().ok_or_else(|| {
                Failure::usage(format!("{folder} has no {what} `{id}`"))
                    .or_try(format!("use {flag} with one of: {}", ids()))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::only(&["a.x@1.0.0"], None, Ok("a.x@1.0.0"))]
    #[case::by_id(&["a.x@1.0.0", "a.y@1.0.0"], Some("a.y"), Ok("a.y@1.0.0"))]
    #[case::several(&["a.x@1.0.0", "a.y@1.0.0"], None, Err("has several suites: a.x, a.y"))]
    #[case::unknown(&["a.x@1.0.0"], Some("a.z"), Err("has no suite `a.z`"))]
    #[case::none(&[], None, Err("has no suite"))]
    fn a_suite_is_chosen_by_id_unless_it_is_the_only_one(
        #[case] all: &[&str],
        #[case] id: Option<&str>,
        #[case] expected: Result<&str, &str>,
    ) {
        let all: Vec<String> = all.iter().map(|it| (*it).to_owned()).collect();
        let found = chosen(Path::new("my-agent"), "suite", "--suite", &all, id);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(failure), Err(part)) => assert!(failure.message.contains(part), "{failure:?}"),
            (found, _) => panic!("{found:?}"),
        }
    }
}
