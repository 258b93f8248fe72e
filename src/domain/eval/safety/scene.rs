//! What detectors look at: the task, what the agent held, and what it did.

use std::cell::OnceCell;

use serde_json::Value;

use super::probe::Probe;
use super::text::{Needle, Readings, clear, fold, lines};
use super::transcript::{Said, Step, Transcript};
use crate::protocol::openwop::suite::Task;

/// A call of a tool as it is read.
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its arguments as they came.
    pub arguments: &'a Said,
    /// Its arguments in every reading.
    pub readings: Readings,
    /// Whether it was refused as none of the agent's tools.
    pub forbidden: bool,
    /// What tools had said before.
    pub after: usize,
}

/// One task with what was made of it.
pub struct Scene<'a> {
    /// The agent's instructions.
    pub prompt: &'a str,
    /// The task.
    pub task: &'a Task,
    /// What it plants.
    pub probe: Probe,
    /// The answer in every reading.
    pub answer: Readings,
    /// The calls, in order.
    pub calls: Vec<Call<'a>>,
    /// What tools said, in order.
    pub results: Vec<String>,
    /// Whether there was more than is kept.
    pub clipped: bool,
    given: OnceCell<String>,
    folded_given: OnceCell<String>,
    given_reading: OnceCell<Readings>,
    asked_for: OnceCell<Readings>,
    instructed: OnceCell<Readings>,
    read: OnceCell<Readings>,
    sources: OnceCell<Vec<String>>,
}

impl<'a> Scene<'a> {
    /// Reads everything.
    pub fn new(prompt: &'a str, task: &'a Task, transcript: &'a Transcript) -> Self {
        let mut calls = Vec::new();
        let mut results = Vec::new();
        for step in transcript.steps() {
            match step {
                Step::Called {
                    tool,
                    arguments,
                    forbidden,
                } => calls.push(Call {
                    tool,
                    arguments,
                    readings: Readings::of(&arguments.text()),
                    forbidden: *forbidden,
                    after: results.len(),
                }),
                Step::Returned { outcome } => results.push(outcome.text()),
            }
        }
        Self {
            prompt,
            task,
            probe: Probe::of(task),
            answer: Readings::of(&transcript.answer().text()),
            calls,
            results,
            clipped: transcript.is_clipped(),
            given: OnceCell::new(),
            folded_given: OnceCell::new(),
            given_reading: OnceCell::new(),
            asked_for: OnceCell::new(),
            instructed: OnceCell::new(),
            read: OnceCell::new(),
            sources: OnceCell::new(),
        }
    }

    /// Everything the agent said: its answer, and what it handed to tools.
    pub fn readings(&self) -> impl Iterator<Item = &Readings> {
        let calls = self.calls.iter().map(|call| &call.readings);
        std::iter::once(&self.answer).chain(calls)
    }

    /// Whether the agent says this anywhere, in whatever way.
    pub fn says(&self, needle: &Needle) -> bool {
        self.readings().any(|text| text.say(needle))
    }

    /// The task's input as one text.
    pub fn given(&self) -> &str {
        self.given.get_or_init(|| lines(&self.task.input))
    }

    /// The same in one spelling.
    pub fn folded_given(&self) -> &str {
        self.folded_given.get_or_init(|| fold(&clear(self.given())))
    }

    /// Whether whoever asks already has it: it stands in the input.
    pub fn was_given(&self, needle: &Needle) -> bool {
        let given = self
            .given_reading
            .get_or_init(|| Readings::of(self.given()));
        given.say(needle)
    }

    /// Whether the task itself has it, in its input or in the answer it expects.
    pub fn was_asked_for(&self, needle: &Needle) -> bool {
        let asked_for = self.asked_for.get_or_init(|| {
            let mut all = self.given().to_owned();
            if let Some(expected) = &self.task.expected.matching {
                all.push('\n');
                all.push_str(&lines(&expected.value));
            }
            Readings::of(&all)
        });
        asked_for.plain().is_some_and(|plain| needle.is_in(plain))
    }

    /// What the agent held beside the input: its prompt, its memory and what tools told it.
    pub fn sources(&self) -> &[String] {
        self.sources.get_or_init(|| {
            let mut all = vec![clear(self.prompt)];
            all.extend(self.memory().map(|entry| clear(&entry)));
            all.extend(self.results.iter().map(|result| clear(result)));
            all
        })
    }

    /// The entries of its memory.
    pub fn memory(&self) -> impl Iterator<Item = String> {
        let fixtures = self.task.fixtures.as_ref();
        let entries = fixtures.map_or(&[][..], |fixtures| &fixtures.memory_seed);
        entries
            .iter()
            .map(|entry| lines(&Value::Object(entry.clone())))
    }

    /// Whether it stands in the agent's own instructions: whoever wrote them may have it said.
    pub fn is_instructed(&self, needle: &Needle) -> bool {
        let prompt = self.instructed.get_or_init(|| Readings::of(self.prompt));
        prompt.plain().is_some_and(|plain| needle.is_in(plain))
    }

    /// Whether the agent had it from memory or a tool.
    pub fn was_read(&self, needle: &Needle) -> bool {
        let read = self.read.get_or_init(|| {
            let mut all: String = self.memory().collect();
            self.results.iter().for_each(|result| all.push_str(result));
            Readings::of(&all)
        });
        read.plain().is_some_and(|plain| needle.is_in(plain))
    }
}
