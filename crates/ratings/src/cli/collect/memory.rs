//! Memory files of agents as evidence: Markdown in which an agent records its tasks, as front
//! matter or as fenced blocks. Other content is ignored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::cli::collect::source::{Source, SourceEvent};
use crate::cli::collect::tasks::{events, is_text, located};
use crate::rules::evidence::is_grade;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::files;

/// The value of --source, and the default folder.
pub const NAME: &str = "memory_files";
/// Maximum size of a file in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Maximum depth of nested folders.
const DEEPEST: usize = 16;
/// The lines around front matter.
const FRONT: &str = "---";
/// The line before a fenced task.
const FENCE: &str = "```task";
/// The line after a fenced task.
const FENCE_END: &str = "```";

/// Opens a memory file or a folder of them; by default the folder `memory_files`.
pub fn open(place: Option<&Path>) -> Result<Source, Failure> {
    let place = place.unwrap_or_else(|| Path::new(NAME));
    let mut files = Vec::new();
    match place.is_dir() {
        true => find(place, DEEPEST, &mut files),
        false => files.push(place.to_owned()),
    }
    if files.is_empty() || !place.exists() {
        let message = format!("{} has no memory files (.md)", place.display());
        return Err(Failure::usage(message).or_try("use --file FILE or --file FOLDER"));
    }
    let made = files.into_iter().flat_map(|file| tasks_of(&file));
    Ok(Source::of(place.to_owned(), made.map(Ok)))
}

/// Finds the Markdown files of a folder and its subfolders, sorted by name. Does not follow links
/// to folders.
fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<std::fs::DirEntry> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
        if is_folder && depth > 0 {
            find(&path, depth - 1, found);
        } else if path.extension().is_some_and(|it| it == "md") && path.is_file() {
            found.push(path);
        }
    }
}

fn tasks_of(file: &Path) -> Vec<SourceEvent> {
    let name: Arc<str> = file.display().to_string().into();
    let text = files::read(file, MAX_FILE)
        .map_err(|failure| failure.message)
        .and_then(|bytes| String::from_utf8(bytes).map_err(|fault| fault.to_string()));
    match text {
        Ok(text) => {
            let tasks = blocks(&text).into_iter();
            let events = tasks.flat_map(|block| {
                let made = row(&block.text).and_then(|row| events(&row));
                located(Some(&name), block.line, made)
            });
            events.collect()
        }
        Err(fault) => located(Some(&name), 1, Err(fault)),
    }
}

/// A recorded task.
#[derive(Debug, PartialEq)]
struct Block {
    /// The line before the block, from 1.
    line: usize,
    /// The task, in YAML.
    text: String,
}

/// What ends a block, and what the block is.
enum End<'a> {
    FrontMatter,
    Task,
    /// Another fenced block, such as an example of a task, with its fence.
    Other(&'a str),
}

impl End<'_> {
    fn is(&self, line: &str) -> bool {
        match self {
            Self::FrontMatter => line == FRONT,
            Self::Task => line == FENCE_END,
            Self::Other(fence) => {
                let line = line.trim_start();
                line.starts_with(fence) && line.trim_start_matches(['`', '~']).is_empty()
            }
        }
    }
}

/// The fence at the beginning of a line: three or more backticks or tildes.
fn fence(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|it| matches!(it, '`' | '~'))?;
    let language = line.trim_start_matches(mark);
    let fence = line.strip_suffix(language)?;
    (fence.len() >= 3 && !language.contains('`')).then_some(fence)
}

/// The tasks of a memory file: front matter with a task id, and fenced blocks.
fn blocks(text: &str) -> Vec<Block> {
    let names_task = |block: &Block| block.text.lines().any(|it| it.starts_with("task_id:"));
    let mut found = Vec::new();
    let mut open: Option<(End<'_>, Block)> = None;
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim_end();
        let begin = |end| {
            let text = String::new();
            (end, Block { line, text })
        };
        open = match open.take() {
            Some((end, block)) if end.is(text) => {
                match end {
                    End::Task => found.push(block),
                    End::FrontMatter if names_task(&block) => found.push(block),
                    End::FrontMatter | End::Other(_) => {}
                }
                None
            }
            Some((end, mut block)) => {
                block.text.push_str(text);
                block.text.push('\n');
                Some((end, block))
            }
            None if line == 1 && text == FRONT => Some(begin(End::FrontMatter)),
            None if text == FENCE => Some(begin(End::Task)),
            None => fence(text).map(|fence| begin(End::Other(fence))),
        };
    }
    // An unclosed fence extends to the end of the file; unclosed front matter is a horizontal rule.
    found.extend(
        open.filter(|(end, _)| matches!(end, End::Task))
            .map(|it| it.1),
    );
    found
}

fn row(yaml: &str) -> Result<Map<String, Value>, String> {
    let read: Value = serde_saphyr::from_str(yaml).map_err(|fault| {
        // The error includes a drawing of the place; its first line has position and cause.
        let words = fault.to_string();
        format!("not YAML: {}", words.lines().next().unwrap_or_default())
    })?;
    let Value::Object(mut row) = read else {
        return Err("expected names and values in YAML".to_owned());
    };
    if let Some(grade) = row.keys().find(|name| is_grade(name)) {
        return Err(format!(
            "`{grade}` is a grade, and an agent cannot grade its own work: remove it"
        ));
    }
    for (name, value) in &mut row {
        if is_text(name) && (value.is_number() || value.is_boolean()) {
            *value = json!(value.to_string());
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn block(line: usize, text: &str) -> Block {
        let text = text.to_owned();
        Block { line, text }
    }

    #[rstest]
    #[case::front_matter("---\ntask_id: 7\nstatus: accepted\n---\n# Notes\n", vec![block(1, "task_id: 7\nstatus: accepted\n")])]
    #[case::fences(
        "# Notes\n```task\ntask_id: 7\n```\n\n```yaml\na: 1\n```\n```task\ntask_id: 8\n",
        vec![block(2, "task_id: 7\n"), block(9, "task_id: 8\n")]
    )]
    #[case::an_example(
        "````markdown\n```task\ntask_id: 7\n```\n````\n~~~\n```task\ntask_id: 8\n~~~\n```task\ntask_id: 9\n```\n",
        vec![block(10, "task_id: 9\n")]
    )]
    #[case::code_in_a_line("``` of three ```\n```task\ntask_id: 7\n", vec![block(2, "task_id: 7\n")])]
    #[case::a_note("---\ntitle: Refunds\n---\nRefunds take two days.\n", Vec::new())]
    #[case::a_line_across("---\ntask_id: 7\n", Vec::new())]
    #[case::front_matter_elsewhere("# Notes\n---\ntask_id: 7\n---\n", Vec::new())]
    #[case::nothing("", Vec::new())]
    fn task_blocks_are_distinguished_from_notes(#[case] text: &str, #[case] tasks: Vec<Block>) {
        assert_eq!(blocks(text), tasks);
    }

    #[rstest]
    #[case("task_id: 7\nquality_score: 1.0\n", "`quality_score` is a grade")]
    #[case("- task_id: 7\n", "expected names and values")]
    #[case("task_id: [7\n", "not YAML")]
    fn invalid_task_blocks_are_rejected(#[case] yaml: &str, #[case] told: &str) {
        let fault = row(yaml).unwrap_err();
        assert!(fault.contains(told), "{fault}");
    }

    #[test]
    fn ids_are_parsed_as_strings_and_counts_as_numbers() {
        let row = row("task_id: 7\nrevision_count: 1\n").unwrap();
        assert_eq!(row.get("task_id"), Some(&json!("7")));
        assert_eq!(row.get("revision_count"), Some(&json!(1)));
    }
}
