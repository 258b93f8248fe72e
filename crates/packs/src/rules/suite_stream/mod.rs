//! Suites as streams: a header, which is the document without its tasks, and then one task after
//! another. Nothing here holds more than a chunk of tasks.
//!
//! The canonical text of a suite is the canonical texts of its tasks between two parts of its
//! header, so the digest of the whole document can be computed task by task.

pub mod chunk;
pub mod reader;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use touchstone_kit::integrity;
use touchstone_kit::json::{canonical_text, value_of};

/// The member of a suite that its header does not have.
pub const TASKS: &str = "tasks";

/// The parts of a suite's canonical text around its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteFrame {
    head: String,
    tail: String,
}

impl SuiteFrame {
    /// The frame of a header that has members on both sides of `tasks`, as every valid suite has:
    /// `modes` and `version`.
    pub fn of(header: &Map<String, Value>) -> Self {
        let part = |is_before: bool| {
            let members = header
                .iter()
                .filter(|(name, _)| name.as_str() != TASKS && (name.as_str() < TASKS) == is_before);
            let members: Map<String, Value> = members
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            canonical_text(&value_of(&members))
        };
        let (before, after) = (part(true), part(false));
        let before = before.strip_suffix('}').unwrap_or(&before);
        let after = after.strip_prefix('{').unwrap_or(&after);
        Self {
            head: format!("{before},\"{TASKS}\":["),
            tail: format!("],{after}"),
        }
    }

    pub fn head(&self) -> &str {
        &self.head
    }

    pub fn tail(&self) -> &str {
        &self.tail
    }
}

/// Computes the digest of a suite's canonical text task by task.
#[derive(Clone, Debug)]
pub struct SuiteHasher {
    hasher: Sha256,
    tasks: u64,
    bytes: u64,
}

impl SuiteHasher {
    pub fn new(frame: &SuiteFrame) -> Self {
        let mut started = Self {
            hasher: Sha256::new(),
            tasks: 0,
            bytes: 0,
        };
        started.add(&frame.head);
        started
    }

    /// Adds the canonical text of the next task.
    pub fn task(&mut self, canonical: &str) {
        if self.tasks > 0 {
            self.add(",");
        }
        self.add(canonical);
        self.tasks += 1;
    }

    pub fn tasks(&self) -> u64 {
        self.tasks
    }

    /// Length of the text so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest of the document, as [`integrity::of`], and its length in bytes.
    pub fn finish(mut self, frame: &SuiteFrame) -> (String, u64) {
        self.add(&frame.tail);
        let digest = integrity::of_digest(&self.hasher.finalize().into());
        (digest, self.bytes)
    }

    fn add(&mut self, text: &str) {
        self.hasher.update(text.as_bytes());
        self.bytes += text.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::plain(json!({"suiteId": "a.evals.b", "version": "1.0.0", "modes": ["golden"]}), 3)]
    #[case::one_task(json!({"suiteId": "a.evals.b", "version": "1.0.0", "modes": ["golden"]}), 1)]
    #[case::every_member(
        json!({"suiteId": "a.evals.b", "version": "1.0.0", "modes": ["rubric"], "allowedModels": [],
               "targetAgentId": "x.y", "thresholds": {"passScore": 0.5}}),
        2
    )]
    fn the_digest_of_a_stream_is_the_digest_of_the_document(
        #[case] header: Value,
        #[case] count: usize,
    ) {
        let task = |at: usize| json!({"taskId": format!("t{at}"), "input": {"b": "\"tasks\":[]", "a": 1.0}});
        let tasks: Vec<Value> = (0..count).map(task).collect();
        let mut document = header.clone();
        document[TASKS] = json!(tasks);
        let canonical = canonical_text(&document);

        let frame = SuiteFrame::of(header.as_object().unwrap());
        let mut hasher = SuiteHasher::new(&frame);
        let mut text = frame.head().to_owned();
        for (at, task) in tasks.iter().enumerate() {
            hasher.task(&canonical_text(task));
            text.push_str(if at > 0 { "," } else { "" });
            text.push_str(&canonical_text(task));
        }
        text.push_str(frame.tail());
        assert_eq!(text, canonical);
        assert_eq!(
            hasher.finish(&frame),
            (integrity::of(canonical.as_bytes()), canonical.len() as u64)
        );
    }
}
