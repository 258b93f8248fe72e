//! Logs of Inspect: the samples of an evaluation, as one JSON document or as a zip archive
//! (`.eval`) with one file per sample.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{Cursor, Read as _};

use serde_json::{Map, Value};

use super::{Columns, inspect};
use crate::rules::eval::import::draft::Draft;
use crate::rules::eval::import::rows::{Row, Rows};
use touchstone_kit::json;

/// Maximum number of files in an archive.
const MAX_FILES: usize = 200_000;
/// Maximum size in bytes of all samples of an archive, unpacked.
const MAX_OCTETS: u64 = 512 << 20;
/// The file of an archive with everything but the samples.
const HEADER: &str = "header.json";
/// First bytes of a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// Members of a sample that describe the evaluated run, not the question.
const OF_THE_RUN: [&str; 24] = [
    "epoch",
    "output",
    "messages",
    "scores",
    "store",
    "events",
    "events_data",
    "timelines",
    "model_usage",
    "role_usage",
    "started_at",
    "completed_at",
    "total_time",
    "working_time",
    "uuid",
    "invalidation",
    "error",
    "error_retries",
    "attachments",
    "limit",
    "completed",
    "message_count",
    "retries",
    "summary",
];

/// Whether the bytes are a zip archive.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(ZIP)
}

/// Whether a document is a log.
pub fn is_log(document: &Value) -> bool {
    document.get("eval").is_some_and(Value::is_object)
        && (document.get("samples").is_some() || document.get("status").is_some())
}

/// A log.
#[derive(Clone, Debug)]
pub struct InspectLog {
    /// Its members other than the samples, if they could be read.
    pub header: Value,
    pub samples: Vec<Value>,
}

/// Reads a log.
///
/// # Errors
/// The document is not a log, or has no samples.
pub fn read(bytes: &[u8]) -> Result<InspectLog, String> {
    if is_archive(bytes) {
        return from_archive(bytes);
    }
    let mut log = json::parse(bytes).map_err(|fault| format!("it {fault}"))?;
    if !is_log(&log) {
        return Err("it has no `eval` and `samples`".to_owned());
    }
    match log.get_mut("samples").map(Value::take) {
        Some(Value::Array(samples)) => Ok(InspectLog {
            header: log,
            samples,
        }),
        _ => Err("its `samples` are missing; the log was saved without them".to_owned()),
    }
}

/// Where a sample is, counted from 0.
pub fn place(index: usize) -> String {
    format!("sample {}", index + 1)
}

/// Converts the samples of a log.
///
/// # Errors
/// The document is not a log.
pub fn convert(bytes: &[u8], columns: &Columns, draft: &mut Draft) -> Result<(), String> {
    let samples = read(bytes)?.samples;
    let mut seen = HashSet::new();
    let mut rows = Vec::new();
    for (index, mut value) in samples.into_iter().enumerate() {
        let place = place(index);
        // Every epoch repeats the sample.
        if let Some(id) = value.get("id").filter(|id| !id.is_null())
            && !seen.insert(id.to_string())
        {
            draft.report_loss(
                &place,
                "a further epoch of a sample; use --trials of `eval`",
            );
            continue;
        }
        if let Value::Object(sample) = &mut value {
            drop_run(sample, &place, draft);
        }
        rows.push(Row { place, value });
    }
    let rows = Rows {
        rows,
        columns: Vec::new(),
        notation: "JSON",
    };
    inspect::convert(rows, columns, draft);
    Ok(())
}

fn drop_run(sample: &mut Map<String, Value>, place: &str, draft: &mut Draft) {
    let before = sample.len();
    sample.retain(|name, _| !OF_THE_RUN.contains(&name.as_str()));
    if sample.len() < before {
        draft.report_loss(
            place,
            "the results of the evaluated run (output, messages, scores, usage): only the question \
             and its target become a task",
        );
    }
    sample.retain(|_, value| !is_empty(value));
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

fn from_archive(bytes: &[u8]) -> Result<InspectLog, String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes))
        .map_err(|fault| format!("the archive cannot be read: {fault}"))?;
    if archive.len() > MAX_FILES {
        return Err(format!("the archive has more than {MAX_FILES} files"));
    }
    let mut names: Vec<String> = archive
        .file_names()
        .filter_map(Result::ok)
        .filter(|name| name.starts_with("samples/") && name.ends_with(".json"))
        .map(Cow::into_owned)
        .collect();
    if names.is_empty() {
        return Err("the archive has no files samples/*.json".to_owned());
    }
    names.sort();
    let mut left = MAX_OCTETS;
    let mut header = Value::Null;
    let mut samples = Vec::new();
    let has_header = archive.index_for_name(HEADER).is_some();
    let header_name = has_header.then(|| HEADER.to_owned());
    for name in header_name.into_iter().chain(names) {
        let shown: String = name.chars().take(80).collect();
        let file = archive.by_name(&name).map_err(|fault| {
            format!(
                "{shown} cannot be unpacked: {fault}; convert the log with `inspect log convert --to json`"
            )
        })?;
        let mut text = Vec::new();
        file.take(left + 1)
            .read_to_end(&mut text)
            .map_err(|fault| format!("{shown} cannot be unpacked: {fault}"))?;
        left = left
            .checked_sub(text.len() as u64)
            .ok_or_else(|| format!("its samples have more than {MAX_OCTETS} bytes"))?;
        let value = json::parse(&text).map_err(|fault| format!("{shown} {fault}"))?;
        match name == HEADER {
            true => header = value,
            false => samples.push(value),
        }
    }
    Ok(InspectLog { header, samples })
}
