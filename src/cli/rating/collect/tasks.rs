//! Task logs as evidence: one row a task, as JSON lines or CSV, made into the events of that task.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::source::{Placed, Source};
use crate::cli::exit::{Exit, Failure};
use crate::cli::files;

/// Stands for task logs on the command line, and for where they are looked for.
pub const NAME: &str = "task_logs";
/// Bytes of a file.
const MAX_FILE: u64 = 256 << 20;
/// Errors of a task, as many as a list of an event holds.
const MOST_ERRORS: u64 = 500;

/// Members of a row that go into the completion as they are.
const COMPLETION: [&str; 11] = [
    "autonomy_level",
    "complexity_level",
    "cost_usd",
    "domain",
    "human_intervention",
    "learning_eligible",
    "milestone_fraction",
    "quality_score",
    "review_checklist",
    "task_group",
    "tools_used",
];
/// The same of the assignment.
const ASSIGNMENT: [&str; 6] = [
    "autonomy_level",
    "baseline_seconds",
    "complexity_level",
    "domain",
    "learning_eligible",
    "task_group",
];

/// Opens a file of task logs; without one those called `task_logs` in the working folder.
pub fn open(file: Option<&Path>) -> Result<Source, Failure> {
    let files = match file {
        Some(file) => vec![file.to_owned()],
        None => usual(),
    };
    if files.is_empty() {
        let message = "there is no task_logs.jsonl, task_logs.csv or task_logs/ with such files";
        return Err(Failure::usage(message).or_try("--file FILE"));
    }
    let mut placed = Vec::new();
    for file in &files {
        let octets = files::read(file, MAX_FILE).map_err(|failure| Failure {
            exit: Exit::Negative,
            ..failure
        })?;
        placed.extend(rows(&octets));
    }
    let name = files.into_iter().next().unwrap_or_default();
    Ok(Source::of(name, placed))
}

fn usual() -> Vec<PathBuf> {
    let is_log = |file: &PathBuf| {
        let extension = file.extension().and_then(|it| it.to_str());
        matches!(extension, Some("jsonl" | "csv")) && file.is_file()
    };
    let mut found: Vec<PathBuf> = ["task_logs.jsonl", "task_logs.csv"]
        .into_iter()
        .map(PathBuf::from)
        .collect();
    if let Ok(entries) = std::fs::read_dir(NAME) {
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        found.append(&mut files);
    }
    found.retain(is_log);
    found
}

/// A row with its line, or why it cannot be read.
type Row = (usize, Result<Map<String, Value>, String>);

/// The events of a file, each with the line of its row.
fn rows(octets: &[u8]) -> Vec<Placed> {
    let is_json = octets.trim_ascii_start().first() == Some(&b'{');
    let rows: Vec<Row> = if is_json {
        let lines = (1..).zip(octets.split(|octet| *octet == b'\n'));
        let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
        lines
            .map(|(at, line)| {
                let row = serde_json::from_slice(line);
                (at, row.map_err(|fault| format!("no JSON object: {fault}")))
            })
            .collect()
    } else {
        table(octets)
    };
    let mut placed = Vec::new();
    for (line, row) in rows {
        let place = |event: Result<Value, String>| Placed {
            line,
            octets: event.as_ref().map_or(0, |it| it.to_string().len()),
            event,
        };
        match row.and_then(|row| events(&row)) {
            Ok(events) => placed.extend(events.into_iter().map(|it| place(Ok(it)))),
            Err(fault) => placed.push(place(Err(fault))),
        }
    }
    placed
}

/// Rows of CSV by the names of its header. An empty cell says nothing.
fn table(octets: &[u8]) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(octets);
    let header = match reader.headers() {
        Ok(header) => header.clone(),
        Err(fault) => return vec![(1, Err(fault.to_string()))],
    };
    let mut rows = Vec::new();
    for (place, record) in (2_usize..).zip(reader.records()) {
        let record = match record {
            Ok(record) => record,
            Err(fault) => {
                rows.push((place, Err(fault.to_string())));
                continue;
            }
        };
        let line = record.position().and_then(|it| it.line().try_into().ok());
        let cells = header.iter().map(str::trim).zip(record.iter());
        let cells = cells.filter(|(_, cell)| !cell.trim().is_empty());
        let row = cells.map(|(name, cell)| (name.to_owned(), value(name, cell.trim())));
        rows.push((line.unwrap_or(place), Ok(row.collect())));
    }
    rows
}

/// A cell: numbers, booleans and JSON as such, anything else as text.
fn value(name: &str, cell: &str) -> Value {
    match name {
        "task_id" | "agent" | "agent_id" | "domain" | "task_group" => json!(cell),
        _ => serde_json::from_str(cell).unwrap_or_else(|_| json!(cell)),
    }
}

/// The events of a task.
fn events(row: &Map<String, Value>) -> Result<Vec<Value>, String> {
    let task = match row.get("task_id") {
        Some(Value::String(task)) if !task.is_empty() => task,
        _ => return Err("`task_id` is missing".to_owned()),
    };
    let assigned = moment(row, "assigned_at")?;
    let completed = moment(row, "completed_at")?;
    let agent = row.get("agent_id").or_else(|| row.get("agent"));
    let event = |kind: &str, at: Timestamp, mut data: Map<String, Value>| {
        data.insert("task_id".to_owned(), json!(task));
        let mut event = json!({"type": kind, "timestamp": at, "data": data});
        if let (Some(agent), Some(members)) = (agent, event.as_object_mut()) {
            members.insert("agent_id".to_owned(), agent.clone());
        }
        event
    };
    let copied = |names: &[&str]| -> Map<String, Value> {
        let there = names.iter().filter_map(|name| row.get_key_value(*name));
        there.map(|(name, it)| (name.clone(), it.clone())).collect()
    };
    let mut events = Vec::new();
    // An assignment says what a task is, and takes both of these.
    let is_described = row.contains_key("complexity_level") && row.contains_key("domain");
    if let Some(at) = assigned.filter(|_| is_described) {
        let mut data = copied(&ASSIGNMENT);
        data.insert("assigned_at".to_owned(), json!(at));
        events.push(event("task_assigned", at, data));
    }
    if let Some(at) = completed {
        let mut data = copied(&COMPLETION);
        let status = row.get("completion_status").or_else(|| row.get("status"));
        let status = status.ok_or("`completion_status` is missing")?;
        data.insert("completion_status".to_owned(), status.clone());
        let seconds = match (row.get("time_to_complete_seconds"), assigned) {
            (Some(seconds), _) => seconds.clone(),
            (None, Some(assigned)) => json!(at.duration_since(assigned).as_secs_f64()),
            (None, None) => {
                return Err("`time_to_complete_seconds` or `assigned_at` is missing".to_owned());
            }
        };
        data.insert("time_to_complete_seconds".to_owned(), seconds);
        let revisions = row.get("revision_count").cloned();
        data.insert("revision_count".to_owned(), revisions.unwrap_or(json!(0)));
        data.insert("errors".to_owned(), errors(row.get("errors"))?);
        events.push(event("task_completed", at, data));
    }
    match events.is_empty() {
        true => Err("`completed_at` is missing, and so is `assigned_at` with `complexity_level` and `domain`".to_owned()),
        false => Ok(events),
    }
}

/// The errors of a task: a list as events have it, or how many there were.
fn errors(said: Option<&Value>) -> Result<Value, String> {
    match said {
        None => Ok(json!([])),
        Some(Value::Array(errors)) => Ok(json!(errors)),
        Some(other) => {
            let many = other.as_u64().filter(|many| *many <= MOST_ERRORS);
            let many = many.ok_or("`errors` must be a list, or a number of at most 500")?;
            Ok((0..many).map(|_| json!({"severity": "major"})).collect())
        }
    }
}

fn moment(row: &Map<String, Value>, name: &str) -> Result<Option<Timestamp>, String> {
    match row.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let moment = value.as_str().and_then(|text| text.parse().ok());
            let wrong = || format!("`{name}` must be a moment such as 2026-04-16T12:00:00Z");
            moment.map(Some).ok_or_else(wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_becomes_an_assignment_and_a_completion_in_either_form() {
        let csv =
            b"task_id,assigned_at,completed_at,status,complexity_level,domain,errors,task_group\n\
            7,2026-04-16T12:00:00Z,2026-04-16T12:05:00Z,accepted,2,code,1,\n";
        let json = br#"{"task_id": "7", "assigned_at": "2026-04-16T12:00:00Z", "completed_at": "2026-04-16T12:05:00Z",
            "completion_status": "accepted", "complexity_level": 2, "domain": "code", "errors": [{"severity": "major"}]}"#;
        let json: Vec<u8> = json.iter().copied().filter(|it| *it != b'\n').collect();
        let read = |octets: &[u8]| -> Vec<Value> {
            rows(octets)
                .into_iter()
                .map(|it| it.event.unwrap())
                .collect()
        };
        let events = read(csv);
        assert_eq!(events, read(&json));
        assert_eq!(
            events[0],
            json!({"type": "task_assigned", "timestamp": "2026-04-16T12:00:00Z", "data": {"task_id": "7",
                "assigned_at": "2026-04-16T12:00:00Z", "complexity_level": 2, "domain": "code"}})
        );
        assert_eq!(events[1]["data"]["time_to_complete_seconds"], 300.0);
        assert_eq!(events[1]["data"]["errors"], json!([{"severity": "major"}]));
    }

    #[test]
    fn what_a_row_lacks_is_said_with_its_line() {
        let found = rows(b"task_id,completed_at\nt1,2026-04-16T12:05:00Z\nt2,yesterday\nt3,\n");
        let told: Vec<(usize, String)> = found
            .into_iter()
            .map(|it| (it.line, it.event.unwrap_err()))
            .collect();
        assert_eq!(
            told.iter().map(|it| it.0).collect::<Vec<usize>>(),
            [2, 3, 4]
        );
        assert!(told[0].1.contains("`completion_status`"), "{told:?}");
        assert!(told[1].1.contains("`completed_at` must be"), "{told:?}");
        assert!(told[2].1.contains("`assigned_at`"), "{told:?}");
    }
}
