//! Writes an imported suite to a file or a pack folder, and shows what was lost.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::output::{not_written, write_file};
use crate::cli::suite::Shown;
use crate::rules::eval::import::pack;
use crate::rules::eval::import::{Imported, Loss};
use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::shell::quoted;
use touchstone_host::cli::terminal::Terminal;

/// Number of skipped tasks that are listed without `--json`.
const NAMED: usize = 8;

/// An imported document on the terminal.
pub struct Output<'a> {
    pub terminal: &'a Terminal,
    pub program: &'a str,
    /// The explanation of the recognized format.
    pub read_as: Option<&'a str>,
}

impl Output<'_> {
    pub fn losses(&self, losses: &[Loss]) {
        for loss in losses {
            self.terminal
                .note(&format!("not imported: {} ({})", loss.what, places(loss)));
        }
    }

    pub fn not_all(&self, losses: &[Loss]) -> Exit {
        if self.terminal.json() {
            self.terminal.document(&json!({
                "ok": false,
                "error": {"code": "not_all_carried_over", "message": "some parts of the file cannot be imported"},
                "readAs": self.read_as,
                "notCarriedOver": losses,
            }));
        } else {
            self.losses(losses);
        }
        Exit::Negative
    }

    /// Writes the suite to a file, and its scoring document to `NAME.scoring.json`.
    pub fn suite(&self, file: &Path, imported: &Imported) -> Result<Exit, Failure> {
        write_file(file, &format!("{:#}\n", imported.suite))?;
        let scoring_file = file.with_extension("scoring.json");
        if let Some(scoring) = &imported.scoring {
            write_file(&scoring_file, &format!("{scoring:#}\n"))?;
        }
        let tasks = task_count(&imported.suite);
        if self.terminal.json() {
            self.terminal.document(&json!({
                "ok": true, "file": file, "suiteId": imported.suite.get("suiteId"),
                "version": imported.suite.get("version"), "taskCount": tasks,
                "scoringFile": imported.scoring.is_some().then_some(&scoring_file),
                "readAs": self.read_as, "notCarriedOver": imported.losses,
            }));
            return Ok(Exit::Good);
        }
        self.terminal
            .print(&format!("{}: {}", file.display(), counted(tasks, "task")));
        if let Some(scoring) = &imported.scoring {
            self.terminal.print(&format!(
                "{}: assertions of {}",
                scoring_file.display(),
                counted(scored_count(scoring), "task")
            ));
        }
        self.terminal.note(&format!(
            "next: {} suite lint {}",
            self.program,
            quoted(&file.to_string_lossy())
        ));
        Ok(Exit::Good)
    }

    /// Writes a pack folder with the suite and its agents.
    pub fn pack(&self, folder: &Path, force: bool, imported: &Imported) -> Result<Exit, Failure> {
        if folder.join("pack.json").exists() && !force {
            return Err(Failure::bad_input(
                "already_exists",
                format!("{} is a pack already", folder.display()),
            )
            .or_try("choose another folder with --out, or overwrite its files with --force"));
        }
        let files = pack::files(imported);
        for (name, bytes) in &files {
            let file = folder.join(name);
            let written = file
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&file, bytes));
            written.map_err(|cause| not_written(&file, &cause))?;
        }
        let suite_id = imported.suite.get("suiteId").and_then(Value::as_str);
        let agents = pack::agent_ids(imported, &pack::pack_name(suite_id.unwrap_or_default()));
        let tasks = task_count(&imported.suite);
        if self.terminal.json() {
            self.terminal.document(&json!({
                "ok": true, "folder": folder, "suiteId": suite_id,
                "version": imported.suite.get("version"), "taskCount": tasks, "agents": agents,
                "files": files.keys().collect::<Vec<_>>(),
                "readAs": self.read_as, "notCarriedOver": imported.losses,
            }));
            return Ok(Exit::Good);
        }
        let (agent_count, tasks) = (counted(agents.len(), "agent"), counted(tasks, "task"));
        self.terminal
            .print(&format!("{}: {agent_count}, {tasks}", folder.display()));
        self.terminal.note(&self.next(folder, &agents, imported));
        Ok(Exit::Good)
    }

    fn next(&self, folder: &Path, agents: &[String], imported: &Imported) -> String {
        let agent = match agents {
            [first, _, ..] => format!(" --agent {first}"),
            _ => String::new(),
        };
        format!(
            "next: {} eval {}{agent} --model-url URL --model MODEL{}",
            self.program,
            quoted(&folder.to_string_lossy()),
            further_models(imported)
        )
    }

    /// Reports an import into the host. If a pack already provides the document, it remains the
    /// pack's, signed or not.
    pub fn installed(&self, suite: &Shown, losses: &[Loss]) {
        if self.terminal.json() {
            self.terminal.document(
                &json!({"ok": true, "suite": suite, "readAs": self.read_as, "notCarriedOver": losses}),
            );
            return;
        }
        let reference = format!("{}@{}", suite.suite_id, suite.version);
        let tasks = counted(
            usize::try_from(suite.task_count).unwrap_or(usize::MAX),
            "task",
        );
        let Some(pack) = &suite.pack else {
            self.terminal
                .print(&format!("imported {reference}: {tasks}, unsigned"));
            return;
        };
        let signed = if suite.signed { "signed" } else { "unsigned" };
        self.terminal
            .print(&format!("{reference}: {tasks}, {signed}, from {pack}"));
        self.terminal.note(&format!(
            "{pack} already provides this suite; the unsigned import takes effect only if that \
             pack is removed"
        ));
    }
}

/// The flags of everything besides the agent's model that evaluates the tasks.
fn further_models(imported: &Imported) -> String {
    let modes = imported.suite.get("modes").and_then(Value::as_array);
    let has_rubrics = modes.is_some_and(|modes| modes.contains(&json!("rubric")));
    let scoring = imported.scoring.clone().map(serde_json::from_value);
    let scoring: Option<ScoringDocument> = scoring.and_then(Result::ok);
    let has = |wanted: &dyn Fn(&ScoringDocument) -> bool| scoring.as_ref().is_some_and(wanted);
    let flags = [
        (
            has_rubrics || has(&|it| it.has(Check::is_judged)),
            " --judge-url URL --judge-model JUDGE",
        ),
        (
            has(&|it| it.has(|check| matches!(check, Check::Similar(_)))),
            " --embeddings-url URL --embeddings-model EMBEDDINGS",
        ),
        (
            has(&|it| it.has(|check| matches!(check, Check::Command(_)))),
            " --assert-command COMMAND",
        ),
        (
            has(&ScoringDocument::has_simulated_user),
            " --user-url URL --user-model USER",
        ),
    ];
    let needed = flags.into_iter().filter(|(is_needed, _)| *is_needed);
    needed.map(|(_, flags)| flags).collect()
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn task_count(suite: &Value) -> usize {
    suite
        .get("tasks")
        .and_then(Value::as_array)
        .map_or(0, Vec::len)
}

fn scored_count(scoring: &Value) -> usize {
    let tasks = scoring.get("tasks").and_then(Value::as_object);
    tasks.map_or(0, serde_json::Map::len)
}

/// Where parts were lost: every skipped task, but only the first of other details.
fn places(loss: &Loss) -> String {
    let (named, more) = loss.left_out.split_at(loss.left_out.len().min(NAMED));
    match (named, more.len(), loss.count) {
        ([], _, 1) | ([_], _, 1) => loss.first.clone(),
        ([] | [_], _, n) => format!("{}, {n} times", loss.first),
        (_, 0, _) => named.join(", "),
        (_, more, _) => format!("{} and {more} more; --json lists all", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing(json!({"assertions": [{"type": "contains", "value": "a"}]}), "")]
    #[case::judge(
        json!({"assertions": [{"type": "closed-question", "question": "Polite?"}]}),
        " --judge-url URL --judge-model JUDGE"
    )]
    #[case::nested(
        json!({"assertions": [{"type": "any", "assertions": [
            {"type": "similar", "value": "a"}, {"type": "command", "name": "python"}]}]}),
        " --embeddings-url URL --embeddings-model EMBEDDINGS --assert-command COMMAND"
    )]
    #[case::user(
        json!({"conversation": {"user": {"goal": "wants a refund"}}}),
        " --user-url URL --user-model USER"
    )]
    fn the_next_command_has_the_flags_of_all_models(#[case] entry: Value, #[case] flags: &str) {
        let scoring = json!({"scoringVersion": 1, "suiteId": "a.b.evals.c", "tasks": {"t": entry}});
        let imported = Imported {
            scoring: Some(scoring),
            ..Imported::of_suite(json!({"modes": ["golden"]}))
        };
        assert_eq!(further_models(&imported), flags);
    }
}
