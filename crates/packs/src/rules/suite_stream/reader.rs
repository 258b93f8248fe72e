//! Reads a suite line by line: the header, then one task a line. Memory holds a chunk of tasks and a
//! number for each task id.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::chunk::{Chunk, Packer};
use super::{SuiteFrame, SuiteHasher, TASKS};
use crate::rules::format::ReadStreamed;
use touchstone_kit::json;
use touchstone_openwop::suite::{AgentEvalSuite, SuiteFault};

/// Maximum length of a streamed suite in bytes.
pub const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum length of the first line in bytes. Each task is checked together with it.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Maximum number of tasks. The numbers of their ids take up to 57 MB while they are collected.
const MAX_TASKS: u64 = 3_000_000;
/// How deep a task is in the document of its suite.
const TASK_DEPTH: usize = 2;

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineFaults {
    /// From 1.
    pub line: usize,
    /// Pointers are those into the whole document.
    pub faults: Vec<SuiteFault>,
}

/// A suite whose lines have ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadSuite {
    /// The suite without its tasks.
    pub header: AgentEvalSuite,
    /// The canonical text of the document without its tasks.
    pub text: String,
    /// `sha256-<base64>` of the whole document.
    pub digest: String,
    pub task_count: u64,
    /// Length of the whole document.
    pub bytes: u64,
    /// The last tasks.
    pub last: Option<Chunk>,
}

/// Reads the lines of a suite.
pub struct SuiteReader {
    check: ReadStreamed,
    /// Number of lines so far.
    line: usize,
    suite: Option<OpenSuite>,
}

struct OpenSuite {
    header: AgentEvalSuite,
    /// The header with one task, which the next task replaces.
    checked: Value,
    text: String,
    frame: SuiteFrame,
    hasher: SuiteHasher,
    packer: Packer,
    /// The first bytes of the SHA-256 of each task id.
    ids: HashSet<u64>,
}

impl SuiteReader {
    /// `check` has the rules for a header with one task.
    pub fn new(check: ReadStreamed) -> Self {
        Self {
            check,
            line: 0,
            suite: None,
        }
    }

    /// Takes the next line. Empty lines are skipped. Returns a chunk of tasks when one is full.
    ///
    /// # Errors
    /// Everything that is wrong with the line.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Chunk>, LineFaults> {
        self.line += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let depth = match &self.suite {
            Some(_) => TASK_DEPTH,
            None if line.len() > MAX_HEADER_BYTES => {
                let reason = format!(
                    "has {} bytes, and the first line may have {MAX_HEADER_BYTES}; send the suite without its `tasks` as the first line",
                    line.len()
                );
                return Err(self.fault("", &reason));
            }
            None => 0,
        };
        let value = json::parse_part(line, depth).map_err(|error| {
            let error = json::Error {
                line: self.line,
                ..error
            };
            self.fault("", &error.to_string())
        })?;
        let (check, number) = (self.check, self.line);
        let at_line = |faults| LineFaults {
            line: number,
            faults,
        };
        match &mut self.suite {
            Some(suite) => suite.task(check, value).map_err(at_line),
            None => {
                self.suite = Some(OpenSuite::of(check, value).map_err(at_line)?);
                Ok(None)
            }
        }
    }

    /// The suite without its tasks, once its line was read.
    pub fn header(&self) -> Option<&AgentEvalSuite> {
        self.suite.as_ref().map(|suite| &suite.header)
    }

    /// # Errors
    /// The suite has no tasks.
    pub fn finish(self) -> Result<ReadSuite, LineFaults> {
        match self.suite {
            Some(mut suite) if suite.hasher.tasks() > 0 => {
                let task_count = suite.hasher.tasks();
                let (digest, bytes) = suite.hasher.finish(&suite.frame);
                Ok(ReadSuite {
                    header: suite.header,
                    text: suite.text,
                    digest,
                    task_count,
                    bytes,
                    last: suite.packer.take(),
                })
            }
            Some(_) => Err(self.fault(
                "/tasks",
                "must have at least 1 items; send one task a line after the first line",
            )),
            None => Err(self.fault(
                "",
                "has no lines; send the suite without its `tasks` as the first line, then one task a line",
            )),
        }
    }

    fn fault(&self, pointer: &str, reason: &str) -> LineFaults {
        LineFaults {
            line: self.line,
            faults: vec![SuiteFault::new(pointer, reason)],
        }
    }
}

impl OpenSuite {
    fn of(check: ReadStreamed, header: Value) -> Result<Self, Vec<SuiteFault>> {
        let fault = |pointer: &str, reason: &str| vec![SuiteFault::new(pointer, reason)];
        let Value::Object(header) = header else {
            return Err(fault(
                "",
                "must be an object: the suite without its `tasks`",
            ));
        };
        if header.contains_key(TASKS) {
            let reason = "does not belong into the first line; send each task as a line of its own, or the whole document as `application/json`";
            return Err(fault("/tasks", reason));
        }
        let checked = with_task(&header, placeholder());
        let parsed = check(&checked)?;
        let frame = SuiteFrame::of(&header);
        Ok(Self {
            header: AgentEvalSuite {
                tasks: Vec::new(),
                ..parsed
            },
            checked,
            text: json::canonical_text(&Value::Object(header)),
            hasher: SuiteHasher::new(&frame),
            frame,
            packer: Packer::default(),
            ids: HashSet::new(),
        })
    }

    fn task(&mut self, check: ReadStreamed, task: Value) -> Result<Option<Chunk>, Vec<SuiteFault>> {
        let place = format!("/tasks/{}", self.hasher.tasks());
        if self.hasher.tasks() >= MAX_TASKS {
            let reason = format!("is beyond the {MAX_TASKS} tasks of a suite; split the suite");
            return Err(vec![SuiteFault::new(place, reason)]);
        }
        let canonical = json::canonical_text(&task);
        if let Some(slot) = self.checked.pointer_mut("/tasks/0") {
            *slot = task;
        }
        let checked = check(&self.checked).map_err(|faults| {
            let moved = |fault: SuiteFault| match fault.pointer.strip_prefix("/tasks/0") {
                Some(rest) => SuiteFault::new(format!("{place}{rest}"), fault.reason),
                None => fault,
            };
            faults.into_iter().map(moved).collect::<Vec<_>>()
        })?;
        let id = checked.tasks.first().map(|task| &task.task_id);
        if !id.is_some_and(|id| self.ids.insert(number_of(id.as_str()))) {
            return Err(vec![SuiteFault::new(
                format!("{place}/taskId"),
                "is used by an earlier task; task ids are unique in a suite",
            )]);
        }
        self.hasher.task(&canonical);
        if self.hasher.bytes() > MAX_BYTES {
            let reason = format!("makes the suite larger than {MAX_BYTES} bytes; split the suite");
            return Err(vec![SuiteFault::new(place, reason)]);
        }
        Ok(self.packer.push(&canonical))
    }
}

/// A valid task, with which a header is checked.
fn placeholder() -> Value {
    json!({"taskId": "t", "input": null,
           "expected": {"kind": "golden", "match": {"strategy": "exact", "value": ""}}})
}

fn with_task(header: &Map<String, Value>, task: Value) -> Value {
    let mut document = header.clone();
    document.insert(TASKS.to_owned(), Value::Array(vec![task]));
    Value::Object(document)
}

/// Two ids of a suite have the same number only if someone searched for them.
fn number_of(id: &str) -> u64 {
    let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
    let first = digest.first_chunk();
    first.map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(suite: &Value) -> Result<AgentEvalSuite, Vec<SuiteFault>> {
        serde_json::from_value(suite.clone())
            .map_err(|cause| vec![SuiteFault::new("", cause.to_string())])
    }

    fn header() -> Value {
        json!({"suiteId": "a.b.evals.c", "version": "1.0.0", "modes": ["golden"]})
    }

    #[test]
    fn a_task_may_be_as_deep_as_in_the_document() {
        for (levels, is_read) in [(61, true), (62, false)] {
            let nested = (0..levels).fold(Value::Null, |inner, _| json!([inner]));
            let mut task = placeholder();
            task["input"] = nested;
            let document = with_task(header().as_object().unwrap(), task.clone());
            let whole = json::parse(document.to_string().as_bytes());
            assert_eq!(whole.is_ok(), is_read, "{levels}");
            let mut reader = SuiteReader::new(check);
            reader.line(header().to_string().as_bytes()).unwrap();
            let read = reader.line(task.to_string().as_bytes());
            assert_eq!(read.is_ok(), is_read, "{levels}: {read:?}");
        }
    }

    #[test]
    fn a_long_first_line_is_refused_with_its_length() {
        let mut long = header();
        long["allowedModels"] = json!(["x".repeat(MAX_HEADER_BYTES)]);
        let text = long.to_string();
        let refused = SuiteReader::new(check).line(text.as_bytes()).unwrap_err();
        assert_eq!(refused.line, 1);
        let reason = &refused.faults[0].reason;
        assert!(reason.contains(&text.len().to_string()), "{reason}");
        assert!(reason.contains("65536"), "{reason}");
    }

    #[test]
    fn the_header_is_known_once_its_line_was_read() {
        let mut reader = SuiteReader::new(check);
        assert!(reader.line(b"  ").unwrap().is_none() && reader.header().is_none());
        reader.line(header().to_string().as_bytes()).unwrap();
        assert_eq!(reader.header().unwrap().suite_id, "a.b.evals.c");
        // A long task is not a long first line.
        let mut task = placeholder();
        task["input"] = json!("x".repeat(MAX_HEADER_BYTES));
        assert!(reader.line(task.to_string().as_bytes()).is_ok());
    }
}
