//! `touchstone eval --watch`: evaluates local work again whenever its files change.
//!
//! Every change starts a run over all selected tasks. What the change does not affect is answered
//! from the cache of model answers: a task is executed again only if its requests are new. Answers
//! of a program are reused for as long as its folder does not change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::cli::compare::baseline_file::BaselineFile;
use crate::cli::eval::{Arguments, start};
use crate::cli::results::RunReport;
use crate::cli::suite::scoring::beside;
use crate::cli::watch::{Interrupts, follow_to_end, noted, show_beside};
use crate::render::change::change;
use crate::rules::kind::Kinds;
use crate::rules::run::fold::RunStatus;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::system::SystemIds;
use touchstone_kit::integrity;
use touchstone_packs::rules::format::PackFormat;

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_millis(300);
/// Files of a folder that are looked at.
const MAX_FILES: usize = 10_000;
/// Folders of compiled files that running a program creates.
const COMPILED: &str = "__pycache__";
/// Clears a terminal, and moves the cursor to its start.
const CLEAR: &str = "\u{1b}[2J\u{1b}[3J\u{1b}[H";

/// When each file was last changed, and its size.
type Stamps = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Evaluates until Ctrl-C; returns the last verdict.
///
/// # Errors
/// There is nothing to watch, or signals cannot be handled.
pub(super) async fn run(
    context: &Context<'_>,
    kinds: Kinds,
    format: PackFormat,
    arguments: &Arguments,
    file: Option<&BaselineFile>,
) -> Result<Exit, Failure> {
    let sources = sources(arguments)?;
    let terminal = context.terminal();
    let mut interrupts = Interrupts::listen()?;
    let mut previous: Option<RunReport> = None;
    let watch = SystemIds.mint("watch");
    loop {
        let seen = stamps(&sources);
        let program = program(arguments).map(|state| format!("{watch}:{state}"));
        if terminal.interactive() {
            terminal.print(CLEAR);
        }
        let cycle = Cycle {
            arguments,
            file,
            program,
            previous: previous.as_ref(),
        };
        let exit = match once(context, kinds, format, cycle, &mut interrupts).await {
            Ok((report, exit)) => {
                if is_cancelled(&report) {
                    return Ok(exit);
                }
                previous = Some(report);
                exit
            }
            Err(failure) => {
                terminal.failure(&failure);
                failure.exit
            }
        };
        terminal.note("waiting for changes; press Ctrl-C to end");
        tokio::select! {
            () = changed(&sources, seen) => {}
            () = interrupts.next() => return Ok(exit),
        }
    }
}

/// What a run between two changes evaluates.
struct Cycle<'a> {
    arguments: &'a Arguments,
    file: Option<&'a BaselineFile>,
    /// The state of the agent's program.
    program: Option<String>,
    previous: Option<&'a RunReport>,
}

fn is_cancelled(report: &RunReport) -> bool {
    report.totals.status == RunStatus::Cancelled.as_str()
}

/// One run, to its end.
async fn once(
    context: &Context<'_>,
    kinds: Kinds,
    format: PackFormat,
    cycle: Cycle<'_>,
    interrupts: &mut Interrupts,
) -> Result<(RunReport, Exit), Failure> {
    let Cycle {
        arguments,
        file,
        program,
        previous,
    } = cycle;
    let terminal = context.terminal();
    let target = arguments.selected().resolve(context, format).await?;
    let session = arguments.open_reusing(context, None, program).await?;
    let outcome = async {
        let started = start(context, &session, arguments, &target).await?;
        let report = follow_to_end(context, &session, &started.run_id, interrupts).await?;
        let outputs = &arguments.outputs;
        let exit = show_beside(context, &session, kinds, &report, outputs, file).await?;
        if let Some(previous) = previous.filter(|_| !terminal.json() && !is_cancelled(&report)) {
            let found = report.flips(session.client(), previous).await;
            if let Some(found) = noted(terminal, "changes since the previous run", found) {
                let (earlier, later) = (&previous.totals, &report.totals);
                terminal.print(&change(earlier, later, &found, terminal.colors()));
            }
        }
        Ok((report, exit))
    }
    .await;
    session.close().await;
    outcome
}

/// The files and folders whose changes start a run: the local work, and the files that the agent's
/// command names.
fn sources(arguments: &Arguments) -> Result<Vec<PathBuf>, Failure> {
    let mut sources: Vec<PathBuf> = arguments
        .selected()
        .sources()
        .into_iter()
        .map(Path::to_owned)
        .collect();
    if sources.is_empty() {
        return Err(
            Failure::usage("--watch needs files, and an installed suite never changes")
                .or_try("name a pack folder, or use --prompt FILE --cases FILE"),
        );
    }
    let scoring: Vec<PathBuf> = sources.iter().filter_map(|it| beside(it)).collect();
    sources.extend(scoring);
    sources.extend(named_by_command(arguments));
    Ok(sources)
}

/// The files that the agent's command names.
fn named_by_command(arguments: &Arguments) -> Vec<PathBuf> {
    let command = arguments.agent_command.iter();
    let words = command.flat_map(|command| command.split_whitespace());
    let files = words.map(PathBuf::from);
    files.filter(|word| word.is_file()).collect()
}

/// The state of the agent's program: of the files that its command names, and of everything else in
/// their folders apart from the evaluated work and the written files. `None` if the command names no file, or the folders
/// have too many.
fn program(arguments: &Arguments) -> Option<String> {
    let files = named_by_command(arguments);
    let folders = files.iter().map(|file| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    });
    let mut found = stamps(&folders.collect::<Vec<_>>());
    if files.is_empty() || found.len() >= MAX_FILES {
        return None;
    }
    let canonical = |path: &Path| path.canonicalize().ok();
    let own: Vec<PathBuf> = files.iter().filter_map(|file| canonical(file)).collect();
    let selected = arguments.selected();
    let work = selected.sources().into_iter();
    let work = work.flat_map(|it| [Some(it.to_owned()), beside(it)]);
    let written = arguments.outputs.files().map(|it| Some(it.to_owned()));
    // A folder of work that contains the program is a part of the program.
    let apart: Vec<PathBuf> = work
        .chain(written)
        .flatten()
        .filter_map(|path| canonical(&path))
        .filter(|path| !own.iter().any(|file| file.starts_with(path)))
        .collect();
    found.retain(|path, _| {
        canonical(path).is_none_or(|path| !apart.iter().any(|it| path.starts_with(it)))
    });
    found.extend(stamps(&files));
    Some(integrity::of(format!("{found:?}").as_bytes()))
}

/// Returns once the files differ from those seen, and no longer change.
async fn changed(sources: &[PathBuf], seen: Stamps) {
    let mut last = seen.clone();
    loop {
        tokio::time::sleep(PERIOD).await;
        let now = stamps(sources);
        if now != seen && now == last {
            return;
        }
        last = now;
    }
}

fn stamps(sources: &[PathBuf]) -> Stamps {
    let mut stamps = Stamps::new();
    let mut todo = sources.to_vec();
    while let Some(path) = todo.pop() {
        if stamps.len() >= MAX_FILES {
            break;
        }
        // A file that an editor replaces is missing for a moment.
        let Ok(facts) = fs::metadata(&path) else {
            continue;
        };
        if facts.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            todo.extend(
                entries
                    .map(|entry| entry.path())
                    .filter(|path| !is_hidden(path)),
            );
        } else {
            stamps.insert(path, (facts.modified().ok(), facts.len()));
        }
    }
    stamps
}

/// Editors and interpreters keep their own files there.
fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".") || name == COMPILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_noticed_once_it_is_complete() {
        let folder = std::env::temp_dir().join(format!("touchstone-watch-{}", std::process::id()));
        fs::create_dir_all(folder.join("prompts")).unwrap();
        fs::write(folder.join("prompts/agent.md"), "one").unwrap();
        let sources = [folder.clone()];
        let seen = stamps(&sources);
        assert_eq!(seen.len(), 1);
        fs::write(folder.join(".swap"), "editor").unwrap();
        assert_eq!(stamps(&sources), seen);
        let unchanged = tokio::time::timeout(PERIOD * 4, changed(&sources, seen.clone()));
        assert!(unchanged.await.is_err());
        fs::write(folder.join("prompts/agent.md"), "longer").unwrap();
        let noticed = tokio::time::timeout(PERIOD * 4, changed(&sources, seen));
        noticed.await.unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
