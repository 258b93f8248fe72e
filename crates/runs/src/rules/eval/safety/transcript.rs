//! The transcript of one invocation, built from its events, as input for detectors. It is never
//! recorded or shown; only the events are.

use serde_json::Value;

use super::text::{each_text, push_line};
use touchstone_openwop::events::{Event, ToolStatus};

/// Source of a text. Each source has its own size limit, so that none displaces another.
#[derive(Clone, Copy)]
enum Source {
    Answer,
    Arguments,
    Results,
}

impl Source {
    /// Maximum number of bytes kept of one invocation.
    const fn max_bytes(self) -> usize {
        match self {
            Self::Answer => 256 * 1024,
            Self::Arguments => 128 * 1024,
            Self::Results => 512 * 1024,
        }
    }
}

/// Texts of one message, with the names of their members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedTexts(Vec<(String, String)>);

impl NamedTexts {
    /// Every string with the name of its member, which may be empty.
    pub fn leaves(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// All strings as one text, one per line.
    pub fn text(&self) -> String {
        let mut all = String::new();
        for (name, text) in &self.0 {
            push_line(&mut all, name, text);
        }
        all
    }
}

/// One step of an invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The agent called a tool.
    Called {
        tool: String,
        arguments: NamedTexts,
        /// Whether it was refused because the tool is not on the allowlist.
        forbidden: bool,
    },
    /// A tool returned a result.
    Returned {
        /// The result.
        outcome: NamedTexts,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// All answers of a conversation.
    answer: NamedTexts,
    last_answer: NamedTexts,
    /// The recorded answer of the last turn.
    answered: Option<Value>,
    /// Texts beside the input that the author of the suite gave the agent.
    given: Vec<String>,
    steps: Vec<Step>,
    calls: Vec<(String, usize)>,
    used_bytes: [usize; 3],
    clipped: bool,
    has_workers: bool,
}

impl Transcript {
    /// An empty transcript of a task with these texts beside its input.
    pub fn given(given: Vec<String>) -> Self {
        Self {
            given,
            ..Self::default()
        }
    }

    /// Texts beside the input that the author of the suite gave the agent.
    pub fn given_texts(&self) -> &[String] {
        &self.given
    }

    /// Adds an event. A new start of the invocation clears the transcript.
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::AgentInvocationStarted(started) if !started.is_of_worker() => {
                *self = Self::given(std::mem::take(&mut self.given));
            }
            Event::AgentInvocationStarted(_) => self.has_workers = true,
            Event::AgentToolCalled(called) => {
                self.called(&called.tool_name, &called.call_id, called.inputs.as_ref());
            }
            Event::AgentToolReturned(returned) => {
                let outcome = returned.outcome.as_ref();
                self.returned(&returned.call_id, returned.status, outcome);
            }
            Event::TurnAnswered(turn) => {
                self.answered(&turn.answer);
                self.answered = Some(turn.answer.clone());
            }
            // The last turn's answer is the decision.
            Event::AgentDecided(decided) if self.answered.as_ref() == Some(&decided.decision) => {}
            Event::AgentDecided(decided) => self.answered(&decided.decision),
            _ => {}
        }
    }

    /// Adds a tool call.
    pub fn called(&mut self, tool: &str, call_id: &str, arguments: Option<&Value>) {
        let arguments = arguments.map(|arguments| self.keep(Source::Arguments, arguments));
        self.calls.push((call_id.to_owned(), self.steps.len()));
        self.steps.push(Step::Called {
            tool: tool.to_owned(),
            arguments: arguments.unwrap_or_default(),
            forbidden: false,
        });
    }

    /// Adds the result of a tool call.
    pub fn returned(&mut self, call_id: &str, status: ToolStatus, outcome: Option<&Value>) {
        let of_call = self.calls.iter().rfind(|(id, _)| id == call_id);
        let call = of_call.and_then(|(_, at)| self.steps.get_mut(*at));
        if let Some(Step::Called { forbidden, .. }) = call {
            *forbidden = status == ToolStatus::Forbidden;
        }
        if let Some(outcome) = outcome {
            let outcome = self.keep(Source::Results, outcome);
            self.steps.push(Step::Returned { outcome });
        }
    }

    /// Adds an answer. Every answer of a conversation is examined.
    pub fn answered(&mut self, answer: &Value) {
        self.last_answer = self.keep(Source::Answer, answer);
        self.answer.0.extend(self.last_answer.0.iter().cloned());
    }

    /// All answers, or the texts in place of them.
    pub fn answer(&self) -> &NamedTexts {
        &self.answer
    }

    /// The final answer, or the text in place of one.
    pub fn last_answer(&self) -> &NamedTexts {
        &self.last_answer
    }

    /// The steps before the answer, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether scripted workers were called; what they received is not recorded.
    pub fn has_workers(&self) -> bool {
        self.has_workers
    }

    /// Whether there was more text than is kept.
    pub fn is_clipped(&self) -> bool {
        self.clipped
    }

    fn keep(&mut self, source: Source, value: &Value) -> NamedTexts {
        let [answer, arguments, results] = &mut self.used_bytes;
        let used = match source {
            Source::Answer => answer,
            Source::Arguments => arguments,
            Source::Results => results,
        };
        let mut kept = Vec::new();
        each_text(value, "", &mut |name, text| {
            let left = source.max_bytes().checked_sub(*used + name.len());
            let end = text.floor_char_boundary(left.unwrap_or(0).min(text.len()));
            self.clipped |= left.is_none() || end < text.len();
            *used += name.len() + end;
            let text = text.get(..end).unwrap_or_default();
            if left.is_some() && !(name.is_empty() && text.is_empty()) {
                kept.push((name.to_owned(), text.to_owned()));
            }
        });
        NamedTexts(kept)
    }
}
