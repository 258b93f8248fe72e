//! Task logs as evidence: one task per row, as JSON Lines or CSV, converted to the events of that
//! task while reading.

use std::io::{Chain, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::cli::collect::source::{
    Lines, Reader, Source, SourceEvent, Start, unreadable, unusable,
};
use touchstone_host::cli::exit::Failure;

/// The value of --source, and the base name of the default files.
pub const NAME: &str = "task_logs";
/// Maximum size of a CSV row in bytes, not counting buffered input.
const MAX_ROW: usize = 1 << 20;
/// Maximum number of errors of a task, as in an event.
const MAX_ERRORS: u64 = 500;

/// Members of a row that are copied to the completion event.
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
/// Members of a row that are copied to the assignment event.
const ASSIGNMENT: [&str; 6] = [
    "autonomy_level",
    "baseline_seconds",
    "complexity_level",
    "domain",
    "learning_eligible",
    "task_group",
];

/// Opens a file of task logs; by default the files called `task_logs` in the working folder.
pub fn open(file: Option<&Path>) -> Result<Source, Failure> {
    let files = match file {
        Some(file) => vec![file.to_owned()],
        None => default_files(),
    };
    if files.is_empty() {
        let message = "no task_logs.jsonl, task_logs.csv or task_logs/ with such files found";
        return Err(Failure::usage(message).or_try("use --file FILE"));
    }
    let name = files.first().cloned().unwrap_or_default();
    let logs = Logs {
        several: files.len() > 1,
        files: files.into_iter(),
        open: None,
    };
    Ok(Source::of(name, logs))
}

fn default_files() -> Vec<PathBuf> {
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

/// Several files, one after the other.
struct Logs {
    several: bool,
    files: std::vec::IntoIter<PathBuf>,
    open: Option<Log>,
}

impl Iterator for Logs {
    type Item = Result<SourceEvent, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(log) = &mut self.open {
                match log.next() {
                    Ok(None) => self.open = None,
                    located => return located.transpose(),
                }
            }
            let file = self.files.next()?;
            match Log::of(&file, self.several) {
                Ok(log) => self.open = Some(log),
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}

struct Log {
    /// Name of the file, if there are several.
    file: Option<Arc<str>>,
    rows: Rows,
    /// Remaining events of the last row.
    ready: std::vec::IntoIter<SourceEvent>,
}

impl Log {
    fn of(file: &Path, several: bool) -> Result<Self, Failure> {
        Ok(Self {
            file: several.then(|| file.display().to_string().into()),
            rows: Rows::of(file)?,
            ready: Vec::new().into_iter(),
        })
    }

    /// The next event with the line of its row; `None` after the last.
    fn next(&mut self) -> Result<Option<SourceEvent>, Failure> {
        loop {
            if let Some(located) = self.ready.next() {
                return Ok(Some(located));
            }
            let Some((line, row)) = self.rows.next()? else {
                return Ok(None);
            };
            let made = row.and_then(|row| events(&row));
            self.ready = located(self.file.as_ref(), line, made).into_iter();
        }
    }
}

/// Events with their place, or the error in their place.
pub fn located(
    file: Option<&Arc<str>>,
    line: usize,
    made: Result<Vec<Value>, String>,
) -> Vec<SourceEvent> {
    let place = |event: Result<Value, String>| SourceEvent {
        file: file.cloned(),
        line,
        octets: event.as_ref().map_or(0, |it| it.to_string().len()),
        event,
    };
    match made {
        Ok(events) => events.into_iter().map(|it| place(Ok(it))).collect(),
        Err(fault) => vec![place(Err(fault))],
    }
}

/// A row with its line, or why it cannot be read.
type Row = (usize, Result<Map<String, Value>, String>);

enum Rows {
    Lines(Lines),
    Table(Box<Table>),
}

impl Rows {
    fn of(file: &Path) -> Result<Self, Failure> {
        let start = Start::of(file)?;
        Ok(match start.first.trim_ascii_start().first() {
            Some(b'{') => Self::Lines(Lines::of(file, start)),
            _ => Self::Table(Box::new(Table::of(file, start)?)),
        })
    }

    fn next(&mut self) -> Result<Option<Row>, Failure> {
        let lines = match self {
            Self::Lines(lines) => lines,
            Self::Table(table) => return table.next(),
        };
        let row = |it: SourceEvent| {
            let object = it.event.and_then(|row| match row {
                Value::Object(row) => Ok(row),
                _ => Err("expected a JSON object".to_owned()),
            });
            (it.line, object)
        };
        Ok(lines.next()?.map(row))
    }
}

/// CSV rows, with members named by the header.
struct Table {
    name: PathBuf,
    reader: csv::Reader<Metered>,
    header: csv::StringRecord,
    /// Number of blank lines before the header.
    blank: usize,
}

impl Table {
    fn of(file: &Path, start: Start) -> Result<Self, Failure> {
        let mut reader = csv::Reader::from_reader(Metered {
            from: Cursor::new(start.first).chain(start.reader),
            octets: 0,
        });
        let header = reader.headers().cloned();
        let header = header.map_err(|fault| unusable(file, &format!("invalid header: {fault}")))?;
        Ok(Self {
            name: file.to_owned(),
            reader,
            header,
            blank: start.line.saturating_sub(1),
        })
    }

    fn next(&mut self) -> Result<Option<Row>, Failure> {
        self.reader.get_mut().octets = 0;
        let mut record = csv::StringRecord::new();
        let line = |position: Option<&csv::Position>| {
            let line = position.and_then(|it| usize::try_from(it.line()).ok());
            line.unwrap_or_default() + self.blank
        };
        Ok(match self.reader.read_record(&mut record) {
            Ok(false) => None,
            Ok(true) => {
                let row = cells(&self.header, &record);
                Some((line(record.position()), Ok(row)))
            }
            Err(fault) => match fault.kind() {
                csv::ErrorKind::Io(cause) => return Err(unreadable(&self.name, cause)),
                _ => Some((line(fault.position()), Err(fault.to_string()))),
            },
        })
    }
}

/// A row with members named by the header; empty cells are omitted.
fn cells(header: &csv::StringRecord, record: &csv::StringRecord) -> Map<String, Value> {
    let cells = header.iter().map(str::trim).zip(record.iter());
    let cells = cells.filter(|(_, cell)| !cell.trim().is_empty());
    cells
        .map(|(name, cell)| (name.to_owned(), value(name, cell.trim())))
        .collect()
}

/// A reader that fails if a row is too large, as after an unclosed quote.
struct Metered {
    from: Chain<Cursor<Vec<u8>>, Reader>,
    /// Bytes since the start of the row.
    octets: usize,
}

impl Read for Metered {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.octets > MAX_ROW {
            let fault = format!("a row is larger than {MAX_ROW} bytes: is a quote unclosed?");
            return Err(std::io::Error::other(fault));
        }
        let octets = self.from.read(buffer)?;
        self.octets += octets;
        Ok(octets)
    }
}

/// A cell's value: number, boolean or JSON, otherwise text.
pub fn value(name: &str, cell: &str) -> Value {
    match is_text(name) {
        true => json!(cell),
        false => serde_json::from_str(cell).unwrap_or_else(|_| json!(cell)),
    }
}

/// Whether a member is always text, whatever it looks like.
pub fn is_text(name: &str) -> bool {
    const TEXTS: [&str; 5] = ["task_id", "agent", "agent_id", "domain", "task_group"];
    TEXTS.contains(&name)
}

pub fn events(row: &Map<String, Value>) -> Result<Vec<Value>, String> {
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
    // A task_assigned event needs both.
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
        true => Err(
            "`completed_at` is missing; without it, `assigned_at`, `complexity_level` and `domain` are required"
                .to_owned(),
        ),
        false => Ok(events),
    }
}

/// The errors of a task: a list as in events, or their number.
fn errors(value: Option<&Value>) -> Result<Value, String> {
    match value {
        None => Ok(json!([])),
        Some(Value::Array(errors)) => Ok(json!(errors)),
        Some(other) => {
            let many = other.as_u64().filter(|many| *many <= MAX_ERRORS);
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
            let wrong = || format!("`{name}` must be a timestamp such as 2026-04-16T12:00:00Z");
            moment.map(Some).ok_or_else(wrong)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(octets: &[u8]) -> Result<Vec<SourceEvent>, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), octets).unwrap();
        let mut source = open(Some(file.path()))?;
        let mut all = Vec::new();
        while let Some(located) = source.next()? {
            all.push(located);
        }
        Ok(all)
    }

    #[test]
    fn a_row_becomes_an_assignment_and_a_completion_in_either_form() {
        let csv =
            b"task_id,assigned_at,completed_at,status,complexity_level,domain,errors,task_group\n\
            7,2026-04-16T12:00:00Z,2026-04-16T12:05:00Z,accepted,2,code,1,\n";
        let json = br#"{"task_id": "7", "assigned_at": "2026-04-16T12:00:00Z", "completed_at": "2026-04-16T12:05:00Z",
            "completion_status": "accepted", "complexity_level": 2, "domain": "code", "errors": [{"severity": "major"}]}"#;
        let json: Vec<u8> = json.iter().copied().filter(|it| *it != b'\n').collect();
        let read = |octets: &[u8]| -> Vec<Value> {
            all(octets)
                .unwrap()
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
    fn missing_values_are_reported_with_the_line_of_the_row() {
        let found =
            all(b"\ntask_id,completed_at\nt1,2026-04-16T12:05:00Z\nt2,yesterday\nt3,\nt4\n");
        let errors_by_line: Vec<(usize, String)> = found
            .unwrap()
            .into_iter()
            .map(|it| (it.line, it.event.unwrap_err()))
            .collect();
        assert_eq!(
            errors_by_line.iter().map(|it| it.0).collect::<Vec<usize>>(),
            [3, 4, 5, 6]
        );
        assert!(
            errors_by_line[0].1.contains("`completion_status`"),
            "{errors_by_line:?}"
        );
        assert!(
            errors_by_line[1].1.contains("`completed_at` must be"),
            "{errors_by_line:?}"
        );
        assert!(
            errors_by_line[2].1.contains("`assigned_at`"),
            "{errors_by_line:?}"
        );
    }

    #[test]
    fn a_quote_that_nothing_closes_does_not_take_the_rest_of_the_file_into_memory() {
        let rest = "t2,2026-04-16T12:05:00Z\n".repeat(60_000);
        let log = format!("task_id,completed_at\nt1,\"open\n{rest}");
        let failure = all(log.as_bytes()).unwrap_err();
        assert!(
            failure.message.contains("is a quote unclosed?"),
            "{failure}"
        );
    }
}
