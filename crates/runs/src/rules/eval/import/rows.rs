//! Rows of a dataset in any notation: JSON, JSON lines, comma-separated values, or Parquet.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::draft::short;
use super::parquet;
use super::source::text;
use super::table;
use touchstone_kit::json;

/// Members that hold the rows of an exported document.
const WRAPPERS: [&str; 8] = [
    "samples",
    "data",
    "events",
    "items",
    "goldens",
    "rows",
    "test_cases",
    "examples",
];
/// Maximum number of columns in a message.
const MAX_NAMED: usize = 12;

/// One row and its place in the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub place: String,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// Names of the columns: of the header, or the members of the first rows.
    pub columns: Vec<String>,
    /// How the rows are written, for messages.
    pub notation: &'static str,
}

impl Rows {
    /// Parses a document.
    ///
    /// # Errors
    /// The problem and its line.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if parquet::is_parquet(bytes) {
            return parquet::read(bytes);
        }
        let text = text(bytes)?;
        match text.trim_start().chars().next() {
            None => Err("it is empty".to_owned()),
            Some('{' | '[') => Self::read_json(text),
            Some(_) => Self::read_table(text),
        }
    }

    fn read_table(text: &str) -> Result<Self, String> {
        let table = table::read(text.as_bytes())?;
        let columns = table.names().to_vec();
        let rows = table.objects().into_iter().enumerate();
        Ok(Self {
            // The header is the first row.
            rows: rows
                .map(|(index, value)| Row {
                    place: format!("row {}", index + 2),
                    value,
                })
                .collect(),
            columns,
            notation: "CSV",
        })
    }

    fn read_json(text: &str) -> Result<Self, String> {
        let whole = match json::parse(text.as_bytes()) {
            Ok(whole) => whole,
            Err(fault) => {
                let mut lines = text.lines().filter(|line| !line.trim().is_empty());
                let first = lines.next().unwrap_or_default();
                return match json::parse(first.as_bytes()) {
                    Ok(_) => Self::read_lines(text),
                    Err(of_line) if lines.next().is_none() => Err(format!("it {of_line}")),
                    Err(of_line) => Err(format!(
                        "it {fault}; as JSON lines, its first line {of_line}"
                    )),
                };
            }
        };
        let values = match whole {
            Value::Array(values) => values,
            Value::Object(mut members) => match unwrap(&mut members) {
                Some(values) => values,
                None => vec![Value::Object(members)],
            },
            _ => return Err("it contains no objects".to_owned()),
        };
        let rows = values.into_iter().enumerate();
        let rows = rows.map(|(index, value)| Row {
            place: format!("sample {}", index + 1),
            value,
        });
        Ok(Self::of(rows.collect(), "JSON"))
    }

    fn read_lines(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate();
        let rows: Vec<Row> = lines
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(number, line)| {
                let place = format!("line {}", number + 1);
                match json::parse(line.as_bytes()) {
                    Ok(value) => Ok(Row { place, value }),
                    Err(fault) => Err(format!(
                        "{place} {} at column {}",
                        described(&fault),
                        fault.column
                    )),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self::of(rows, "JSON lines"))
    }

    fn of(rows: Vec<Row>, notation: &'static str) -> Self {
        let mut seen = BTreeSet::new();
        let columns = rows
            .iter()
            .take(100)
            .filter_map(|row| row.value.as_object())
            .flat_map(Map::keys)
            .filter(|name| seen.insert((*name).clone()))
            .cloned()
            .collect();
        Self {
            rows,
            columns,
            notation,
        }
    }

    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|known| known == name)
    }

    /// The columns, for a message.
    pub fn named_columns(&self) -> String {
        named(&self.columns)
    }
}

/// The fault without its position.
fn described(fault: &json::Error) -> String {
    let words = fault.to_string();
    let end = words.find(" (line").unwrap_or(words.len());
    words.get(..end).unwrap_or_default().to_owned()
}

/// Names for a message: shortened, and only the first ones of many.
pub fn named(names: &[String]) -> String {
    let mut shown: Vec<String> = names
        .iter()
        .take(MAX_NAMED)
        .map(|name| short(name).into_owned())
        .collect();
    if let more @ 1.. = names.len().saturating_sub(MAX_NAMED) {
        shown.push(format!("and {more} more"));
    }
    match shown.is_empty() {
        true => "none".to_owned(),
        false => shown.join(", "),
    }
}

/// The rows of an exported document, which wraps them in one member.
fn unwrap(members: &mut Map<String, Value>) -> Option<Vec<Value>> {
    // A sample can have a member of the same name, and so do logs of Inspect.
    if ["input", "inputs", "prompt", "question", "eval"]
        .iter()
        .any(|name| members.contains_key(*name))
    {
        return None;
    }
    let name = WRAPPERS
        .into_iter()
        .find(|name| members.get(*name).is_some_and(Value::is_array))?;
    let Some(Value::Array(values)) = members.remove(name) else {
        return None;
    };
    // The dataset viewer of Hugging Face wraps every row once more.
    let values = values.into_iter().map(|value| match value {
        Value::Object(mut row) if row.contains_key("row_idx") => {
            row.remove("row").unwrap_or(Value::Object(row))
        }
        value => value,
    });
    Some(values.collect())
}

/// Takes a column of a row: a member, or a path of members separated by dots. A null or empty
/// column is absent.
pub fn take(row: &mut Map<String, Value>, column: &str) -> Option<Value> {
    let found = match row.remove(column) {
        Some(value) => Some(value),
        None => {
            let (first, rest) = column.split_once('.')?;
            match row.get_mut(first)? {
                Value::Object(inner) => {
                    let found = take(inner, rest);
                    if inner.is_empty() {
                        row.remove(first);
                    }
                    found
                }
                // A cell of a table with a JSON object.
                Value::String(cell) => {
                    let Ok(Value::Object(mut inner)) = json::parse(cell.as_bytes()) else {
                        return None;
                    };
                    let found = take(&mut inner, rest);
                    row.insert(first.to_owned(), Value::Object(inner));
                    found
                }
                _ => None,
            }
        }
    };
    found.filter(|value| !value.is_null())
}
