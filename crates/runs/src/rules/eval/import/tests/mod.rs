mod configurations;
mod datasets;
mod promptfoo;
mod properties;
mod recognition;
mod traces;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

fn identity() -> Identity {
    Identity {
        suite_id: "vendor.acme.evals.x".to_owned(),
        version: "1.0.0".to_owned(),
        target_agent_id: None,
        pass_score: None,
    }
}

/// Files in memory. A pattern matches by its parts around one `*`.
#[derive(Default)]
struct Memory(BTreeMap<&'static str, &'static str>);

impl Memory {
    fn of<const N: usize>(files: [(&'static str, &'static str); N]) -> Self {
        Self(files.into_iter().collect())
    }
}

impl Files for Memory {
    fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let file = self.0.get(name).ok_or("it does not exist")?;
        Ok(file.as_bytes().to_vec())
    }

    fn matching(&self, pattern: &str) -> Result<Vec<String>, String> {
        let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
        let names = self.0.keys();
        Ok(names
            .filter(|name| name.starts_with(start) && name.ends_with(end))
            .map(|name| (*name).to_owned())
            .collect())
    }
}

fn converted(bytes: &[u8], format: Format, strategy: MatchStrategy) -> Result<Imported, Fault> {
    convert_with(&Source::alone(bytes), format, strategy, &Columns::default())
}

fn convert_with(
    source: &Source<'_>,
    format: Format,
    strategy: MatchStrategy,
    columns: &Columns,
) -> Result<Imported, Fault> {
    let options = Options {
        format,
        strategy,
        columns,
        identity: &identity(),
    };
    convert(source, &options)
}

fn imported(text: &str, format: Format) -> Imported {
    converted(text.as_bytes(), format, MatchStrategy::Exact).unwrap()
}

fn imported_with(text: &str, format: Format, files: &Memory) -> Imported {
    let source = Source {
        bytes: text.as_bytes(),
        files,
    };
    convert_with(&source, format, MatchStrategy::Exact, &Columns::default()).unwrap()
}

/// Every task as id, input and expectation.
fn tasks(imported: &Imported) -> Vec<(String, Value, Value)> {
    let tasks = imported.suite["tasks"].as_array().unwrap();
    tasks
        .iter()
        .map(|task| {
            let id = task["taskId"].as_str().unwrap().to_owned();
            (id, task["input"].clone(), task["expected"].clone())
        })
        .collect()
}

/// The assertions of a task in the scoring document.
fn assertions(imported: &Imported, task: &str) -> Value {
    let scoring = imported.scoring.as_ref().unwrap();
    scoring["tasks"][task]["assertions"].clone()
}

fn tags(imported: &Imported, task: &str) -> Value {
    let scoring = imported.scoring.as_ref();
    scoring.map_or(Value::Null, |it| it["tasks"][task]["tags"].clone())
}

fn lost(imported: &Imported) -> Vec<(&str, usize, &str)> {
    let losses = imported.losses.iter();
    losses
        .map(|loss| (loss.what.as_str(), loss.count, loss.first.as_str()))
        .collect()
}

/// Each of the words is part of a loss.
#[track_caller]
fn assert_lost(imported: &Imported, words: &[&str]) {
    let what: Vec<&str> = imported.losses.iter().map(|it| it.what.as_str()).collect();
    for word in words {
        assert!(what.iter().any(|it| it.contains(word)), "{word}: {what:#?}");
    }
}

fn exact(value: &str) -> Value {
    json!({"kind": "golden", "match": {"strategy": "exact", "value": value}})
}

fn contains(value: &str) -> Value {
    json!({"kind": "golden", "match": {"strategy": "contains", "value": value}})
}

fn of_structure(value: Value) -> Value {
    json!({"kind": "golden", "match": {"strategy": "json-match", "value": value}})
}
