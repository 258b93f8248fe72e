//! The input of detectors: the task, the data the agent had, and its actions.

use std::cell::OnceCell;

use serde_json::Value;

use super::probe::Probe;
use super::text::{Needle, Readings, clear, fold, lines};
use super::transcript::{NamedTexts, Step, Transcript};
use touchstone_openwop::suite::Task;

/// A tool call.
pub struct Call<'a> {
    pub tool: &'a str,
    /// Its arguments, unchanged.
    pub arguments: &'a NamedTexts,
    /// Its arguments in every reading.
    pub readings: Readings,
    /// Whether it was refused because the tool is not on the allowlist.
    pub forbidden: bool,
    /// Number of tool results before the call.
    pub after: usize,
}

/// One task with the agent's actions.
pub struct DetectorInput<'a> {
    /// The agent's instructions.
    pub prompt: &'a str,
    pub task: &'a Task,
    /// The planted content.
    pub probe: Probe,
    /// The answer in every reading.
    pub answer: Readings,
    /// The calls, in order.
    pub calls: Vec<Call<'a>>,
    /// Tool results, in order.
    pub results: Vec<String>,
    /// Whether there was more text than the transcript keeps.
    pub clipped: bool,
    /// Texts beside the input that the author of the suite gave the agent.
    given_texts: &'a [String],
    given: OnceCell<String>,
    folded_given: OnceCell<String>,
    given_reading: OnceCell<Readings>,
    asked_for: OnceCell<Readings>,
    instructed: OnceCell<Readings>,
    read: OnceCell<Readings>,
    sources: OnceCell<Vec<String>>,
}

impl<'a> DetectorInput<'a> {
    /// Computes all readings.
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
            given_texts: transcript.given_texts(),
            given: OnceCell::new(),
            folded_given: OnceCell::new(),
            given_reading: OnceCell::new(),
            asked_for: OnceCell::new(),
            instructed: OnceCell::new(),
            read: OnceCell::new(),
            sources: OnceCell::new(),
        }
    }

    /// Everything the agent said: its answer and its tool arguments.
    pub fn readings(&self) -> impl Iterator<Item = &Readings> {
        let calls = self.calls.iter().map(|call| &call.readings);
        std::iter::once(&self.answer).chain(calls)
    }

    /// Whether the agent says this anywhere, in any reading.
    pub fn output_contains(&self, needle: &Needle) -> bool {
        self.readings().any(|text| text.contains(needle))
    }

    /// The task's input as one text.
    pub fn input_text(&self) -> &str {
        self.given.get_or_init(|| lines(&self.task.input))
    }

    /// The task's input, normalized.
    pub fn folded_input(&self) -> &str {
        self.folded_given
            .get_or_init(|| fold(&clear(self.input_text())))
    }

    /// Whether the task's input contains it, so that the caller already has it.
    pub fn input_contains(&self, needle: &Needle) -> bool {
        let given = self
            .given_reading
            .get_or_init(|| Readings::of(self.input_text()));
        given.contains(needle)
    }

    /// Whether the task's input, its conversation as the author wrote it, or its expected answer
    /// contains it. The words of a simulated user do not count, because it may repeat the agent's.
    pub fn task_mentions(&self, needle: &Needle) -> bool {
        let asked_for = self.asked_for.get_or_init(|| {
            let mut all = self.input_text().to_owned();
            for text in self.given_texts {
                all.push('\n');
                all.push_str(text);
            }
            if let Some(expected) = &self.task.expected.matching {
                all.push('\n');
                all.push_str(&lines(&expected.value));
            }
            Readings::of(&all)
        });
        asked_for.plain().is_some_and(|plain| needle.is_in(plain))
    }

    /// Texts the agent had in addition to the input: its prompt, its memory and tool results.
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

    /// Whether the agent's own instructions contain it; they may want it said.
    pub fn prompt_contains(&self, needle: &Needle) -> bool {
        let prompt = self.instructed.get_or_init(|| Readings::of(self.prompt));
        prompt.plain().is_some_and(|plain| needle.is_in(plain))
    }

    /// Whether the agent read it from memory or a tool.
    pub fn was_retrieved(&self, needle: &Needle) -> bool {
        let read = self.read.get_or_init(|| {
            let mut all: String = self.memory().collect();
            self.results.iter().for_each(|result| all.push_str(result));
            Readings::of(&all)
        });
        read.plain().is_some_and(|plain| needle.is_in(plain))
    }
}
