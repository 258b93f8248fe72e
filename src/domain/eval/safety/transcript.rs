//! What an agent did in one invocation, as its events tell it, for detectors to look at. It is never recorded or shown: the
//! events it is made of are.

use serde_json::Value;

use super::text::each_text;
use crate::protocol::openwop::events::{Event, ToolStatus};

/// Whose words something is. Each has room of its own, so that none of them crowds out another.
#[derive(Clone, Copy)]
enum Share {
    Answer,
    Arguments,
    Results,
}

impl Share {
    /// Octets of one invocation that are kept.
    const fn octets(self) -> usize {
        match self {
            Self::Answer => 256 * 1024,
            Self::Arguments => 128 * 1024,
            Self::Results => 512 * 1024,
        }
    }
}

/// Something that was said: texts with the names of the members they stand in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said(Vec<(String, String)>);

impl Said {
    /// Every text with the name of its member, which may be empty.
    pub fn leaves(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// All of it as one text, a line for each of its own.
    pub fn text(&self) -> String {
        let mut all = String::new();
        for (name, text) in &self.0 {
            if !name.is_empty() {
                all.push_str(name);
                all.push_str(": ");
            }
            all.push_str(text);
            all.push('\n');
        }
        all
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The agent called a tool.
    Called {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Said,
        /// Whether it was refused as none of the agent's tools.
        forbidden: bool,
    },
    /// A tool answered.
    Returned {
        /// What it said.
        outcome: Said,
    },
}

/// What an agent did in one invocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    answer: Said,
    steps: Vec<Step>,
    calls: Vec<(String, usize)>,
    octets: [usize; 3],
    clipped: bool,
    has_workers: bool,
}

impl Transcript {
    /// Takes note of an event. An invocation that begins anew is another one.
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::AgentInvocationStarted(started) if !started.is_of_worker() => {
                *self = Self::default();
            }
            Event::AgentInvocationStarted(_) => self.has_workers = true,
            Event::AgentToolCalled(called) => {
                let arguments = called
                    .inputs
                    .as_ref()
                    .map(|inputs| self.keep(Share::Arguments, inputs));
                self.calls.push((called.call_id.clone(), self.steps.len()));
                self.steps.push(Step::Called {
                    tool: called.tool_name.clone(),
                    arguments: arguments.unwrap_or_default(),
                    forbidden: false,
                });
            }
            Event::AgentToolReturned(returned) => {
                let of_call = self.calls.iter().rfind(|(id, _)| *id == returned.call_id);
                let call = of_call.and_then(|(_, at)| self.steps.get_mut(*at));
                if let Some(Step::Called { forbidden, .. }) = call {
                    *forbidden = returned.status == ToolStatus::Forbidden;
                }
                if let Some(outcome) = &returned.outcome {
                    let outcome = self.keep(Share::Results, outcome);
                    self.steps.push(Step::Returned { outcome });
                }
            }
            Event::AgentDecided(decided) => {
                self.answer = self.keep(Share::Answer, &decided.decision)
            }
            _ => {}
        }
    }

    /// What it answered in the end, or said instead.
    pub fn answer(&self) -> &Said {
        &self.answer
    }

    /// What happened before, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Whether something was handed to scripted workers: what it was is on no record.
    pub fn has_workers(&self) -> bool {
        self.has_workers
    }

    /// Whether there was more than is kept.
    pub fn is_clipped(&self) -> bool {
        self.clipped
    }

    fn keep(&mut self, share: Share, value: &Value) -> Said {
        let [answer, arguments, results] = &mut self.octets;
        let used = match share {
            Share::Answer => answer,
            Share::Arguments => arguments,
            Share::Results => results,
        };
        let mut kept = Vec::new();
        each_text(value, "", &mut |name, text| {
            let left = share.octets().checked_sub(*used + name.len());
            let end = text.floor_char_boundary(left.unwrap_or(0).min(text.len()));
            self.clipped |= left.is_none() || end < text.len();
            *used += name.len() + end;
            let text = text.get(..end).unwrap_or_default();
            if left.is_some() && !(name.is_empty() && text.is_empty()) {
                kept.push((name.to_owned(), text.to_owned()));
            }
        });
        Said(kept)
    }
}
