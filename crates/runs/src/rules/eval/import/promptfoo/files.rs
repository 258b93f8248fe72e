//! Files that a configuration refers to: test cases, variables, and their tables.

use serde_json::{Map, Value, json};

use super::csv_tests;
use crate::rules::eval::import::draft::{Draft, short};
use crate::rules::eval::import::rows::Rows;
use crate::rules::eval::import::source::{Files, document, has_extension, text};
use crate::rules::eval::import::table;

/// Maximum number of files that refer to each other.
const MAX_DEPTH: usize = 4;
const SCRIPTS: [&str; 9] = ["js", "cjs", "mjs", "ts", "cts", "mts", "py", "rb", "sh"];
/// Files that are not text.
const BINARY: [&str; 9] = [
    "xlsx", "xls", "pdf", "png", "jpg", "jpeg", "gif", "webp", "wav",
];

/// Whether a file is a program, perhaps with the name of a function.
pub fn is_script(name: &str) -> bool {
    let file = name.strip_prefix("file://").unwrap_or(name);
    let file = match file.rsplit_once(':') {
        Some((file, function)) if !function.contains('/') => file,
        _ => file,
    };
    has_extension(file, &SCRIPTS)
}

/// Whether a text refers to something outside the document.
pub fn is_external(text: &str) -> bool {
    [
        "file://", "package:", "python:", "exec:", "http://", "https://",
    ]
    .iter()
    .any(|scheme| text.starts_with(scheme))
        && !text.contains(char::is_whitespace)
}

/// A file, or a pattern of files.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference<'a>(&'a str);

impl<'a> Reference<'a> {
    /// Parses a reference.
    ///
    /// # Errors
    /// The reference is not to a readable file; the text says to what.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        let name = text.strip_prefix("file://").unwrap_or(text);
        if is_script(name) {
            return Err("made by a script, which is not executed");
        }
        if text.contains("://") && !text.starts_with("file://") {
            return Err("on another host, which is not contacted");
        }
        if name.starts_with("package:") || name.starts_with("exec:") || name.starts_with("python:")
        {
            return Err("made by a program, which is not executed");
        }
        if has_extension(name.split('#').next().unwrap_or(name), &BINARY) {
            return Err("in a file that is not text");
        }
        Ok(Self(name))
    }

    /// The names of the files.
    ///
    /// # Errors
    /// No file matches.
    pub fn names(&self, files: &dyn Files) -> Result<Vec<String>, String> {
        let is_pattern = self.0.contains(['*', '?', '[']) || self.0.ends_with('/');
        let has_extension = self
            .0
            .rsplit('/')
            .next()
            .is_some_and(|file| file.contains('.'));
        if !is_pattern && has_extension {
            return Ok(vec![self.0.to_owned()]);
        }
        let names = files.matching(self.0)?;
        match names.is_empty() {
            true => Err(format!(
                "cannot be found: no file matches {}",
                short(self.0)
            )),
            false => Ok(names),
        }
    }
}

/// A test case and its place.
pub struct Located {
    pub place: String,
    pub test: Map<String, Value>,
}

/// Reads the test cases of `tests`: inline, in files, or a mixture.
pub fn tests(value: Value, place: &str, files: &dyn Files, draft: &mut Draft) -> Vec<Located> {
    let mut found = Vec::new();
    collect(value, place, files, draft, 0, &mut found);
    found
}

fn collect(
    value: Value,
    place: &str,
    files: &dyn Files,
    draft: &mut Draft,
    depth: usize,
    found: &mut Vec<Located>,
) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.into_iter().enumerate() {
                let place = format!("{place}[{index}]");
                match item {
                    Value::Array(_) => draft.skip(&place, "a test that is not a mapping"),
                    item => collect(item, &place, files, draft, depth, found),
                }
            }
        }
        Value::Object(test) => match test.get("path").and_then(Value::as_str) {
            Some(path) if !test.contains_key("vars") && !test.contains_key("assert") => {
                from_files(path, place, files, draft, depth, found);
            }
            _ => found.push(Located {
                place: named(place, &test),
                test,
            }),
        },
        Value::String(reference) => from_files(&reference, place, files, draft, depth, found),
        _ => draft.skip(place, "a test that is not a mapping"),
    }
}

/// The place with the test's own name.
fn named(place: &str, test: &Map<String, Value>) -> String {
    match test.get("description").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => format!("{place} ({})", short(name)),
        _ => place.to_owned(),
    }
}

fn from_files(
    reference: &str,
    place: &str,
    files: &dyn Files,
    draft: &mut Draft,
    depth: usize,
    found: &mut Vec<Located>,
) {
    if depth == MAX_DEPTH {
        draft.skip(place, "tests in files that refer to each other too deeply");
        return;
    }
    let names = match Reference::parse(reference) {
        Ok(reference) => reference.names(files),
        Err(reason) => {
            draft.skip(place, &format!("tests {reason}"));
            return;
        }
    };
    let names = match names {
        Ok(names) => names,
        Err(reason) => {
            draft.skip(place, &format!("tests in a file that {reason}"));
            return;
        }
    };
    for name in names {
        let shown = short(&name).into_owned();
        match files.read(&name).and_then(|bytes| content(&name, &bytes)) {
            Ok(Content::Tests(value)) => {
                collect(value, &shown, files, draft, depth + 1, found);
            }
            Ok(Content::Rows(rows)) => {
                for (row, test) in rows {
                    let place = named(&format!("{shown} {row}"), &test);
                    found.push(Located { place, test });
                }
            }
            Err(reason) => draft.skip(
                place,
                &format!("tests in {shown}, which cannot be read: {reason}"),
            ),
        }
    }
}

enum Content {
    Tests(Value),
    Rows(Vec<(String, Map<String, Value>)>),
}

fn content(name: &str, bytes: &[u8]) -> Result<Content, String> {
    if has_extension(name, &["csv"]) {
        let rows = table::read(bytes)?.objects().into_iter().enumerate();
        let tests = rows.filter_map(|(index, row)| match row {
            Value::Object(row) => Some((format!("row {}", index + 2), csv_tests::test(row))),
            _ => None,
        });
        return Ok(Content::Rows(tests.collect()));
    }
    if has_extension(name, &["jsonl"]) {
        let rows = Rows::read(bytes)?.rows.into_iter();
        let tests = rows.map(|row| match row.value {
            Value::Object(test) => Ok((row.place, test)),
            _ => Err(format!("{} is not an object", row.place)),
        });
        return Ok(Content::Rows(tests.collect::<Result<_, _>>()?));
    }
    document(bytes).map(Content::Tests)
}

/// Reads a mapping that is inline or in a file.
///
/// # Errors
/// Why it cannot be read.
pub fn mapping(value: Value, files: &dyn Files) -> Result<Map<String, Value>, String> {
    match value {
        Value::Object(members) => Ok(members),
        Value::String(reference) => {
            let reference = Reference::parse(&reference).map_err(|it| format!("it is {it}"))?;
            let mut merged = Map::new();
            for name in reference.names(files)? {
                match files.read(&name).and_then(|bytes| document(&bytes))? {
                    Value::Object(members) => merged.extend(members),
                    _ => return Err(format!("{} is not a mapping", short(&name))),
                }
            }
            Ok(merged)
        }
        _ => Err("it is not a mapping".to_owned()),
    }
}

/// Replaces a variable that refers to files by their content: one value per file.
///
/// # Errors
/// Why a file cannot be read.
pub fn variable(value: Value, files: &dyn Files) -> Result<Value, String> {
    let reference = match &value {
        Value::String(text) if is_external(text) && text.starts_with("file://") => text,
        _ => return Ok(value),
    };
    let reference = Reference::parse(reference).map_err(str::to_owned)?;
    let names = reference.names(files)?;
    let mut values = Vec::new();
    for name in names {
        let bytes = files
            .read(&name)
            .map_err(|reason| format!("in {}: {reason}", short(&name)))?;
        values.push(match has_extension(&name, &["json", "yaml", "yml"]) {
            true => json!(document(&bytes)?.to_string()),
            false => json!(text(&bytes)?.trim()),
        });
    }
    Ok(match values.len() {
        1 => values.remove(0),
        _ => Value::Array(values),
    })
}
