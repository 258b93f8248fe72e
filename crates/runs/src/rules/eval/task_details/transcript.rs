//! What happened during a task, read from its part of the log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::run::bundle::REDACTED;
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{Event, ToolStatus};

/// One entry of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was recorded.
    pub at: Timestamp,
    #[serde(flatten)]
    pub step: Step,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "step",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Step {
    /// The agent started on a model.
    Started {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
    },
    /// Text that came with tool calls.
    Said { text: String },
    /// The agent called a tool.
    ToolCalled {
        tool: String,
        call_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
    },
    /// A fixture, a live tool or this host answered the call.
    ToolReturned {
        tool: String,
        call_id: String,
        status: ToolStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        /// Why the call failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The suite has no response for the called tool.
    FixtureMissing { tool: String },
    /// The agent handed part of the task to another agent.
    HandedOff {
        to: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A model call failed and was repeated.
    Retried { reason: String, wait_ms: u64 },
    /// A model call was paid for.
    ModelCalled {
        model: String,
        input_tokens: u64,
        output_tokens: u64,
        cost_usd: NanoUsd,
        /// Whether the judge made it.
        by_judge: bool,
    },
    /// The agent gave its answer.
    Answered { answer: Value },
}

/// A task's part of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskLog {
    /// The steps of the attempt that counts.
    pub entries: Vec<Entry>,
    /// The agent's answer, or the text in place of one.
    pub answer: Option<Value>,
    /// The judge's reason for each criterion, in the rubric's order.
    pub reasons: Vec<String>,
    /// Whether content was deleted from these events.
    pub content_deleted: bool,
    /// Whether further events were left out, because there are too many.
    pub truncated: bool,
    /// Size of its events.
    pub bytes: usize,
    /// Whether the invocation ended, so that later model calls are the judge's.
    pub ended: bool,
}

impl TaskLog {
    /// The log of a task whose content was deleted.
    pub fn deleted() -> Self {
        Self {
            content_deleted: true,
            ..Self::default()
        }
    }

    /// Adds the next event of the task.
    pub fn observe(&mut self, at: Timestamp, event: &Event) {
        if let Event::AgentInvocationStarted(started) = event
            && !started.is_of_worker()
        {
            // An attempt that was cut off does not count.
            *self = Self {
                bytes: self.bytes,
                ..Self::default()
            };
        }
        match event {
            Event::AgentInvocationCompleted(_) => self.ended = true,
            Event::AgentDecided(decided) => self.answer = self.kept(&decided.decision),
            Event::JudgeReasoned(judge) => {
                let reasons = judge.reasons.iter().filter(|reason| *reason != REDACTED);
                self.reasons = reasons.cloned().collect();
            }
            _ => {}
        }
        if let Some(step) = self.step(event) {
            self.entries.push(Entry { at, step });
        }
    }

    /// A recorded content; `None` if it was deleted.
    fn kept(&mut self, content: &Value) -> Option<Value> {
        let deleted = match content {
            Value::String(text) => text == REDACTED,
            Value::Array(elements) => matches!(elements.as_slice(), [only] if only == REDACTED),
            Value::Object(members) => {
                members.len() == 1 && members.get("redacted").is_some_and(|it| it == REDACTED)
            }
            _ => false,
        };
        self.content_deleted |= deleted;
        (!deleted).then(|| content.clone())
    }

    fn step(&mut self, event: &Event) -> Option<Step> {
        Some(match event {
            Event::AgentInvocationStarted(started) => Step::Started {
                model: started.resolved_model.clone(),
                provider: started.resolved_provider.clone(),
            },
            Event::AgentReasoned(reasoned) => {
                match self.kept(&reasoned.reasoning.clone().into())? {
                    Value::String(text) => Step::Said { text },
                    _ => return None,
                }
            }
            Event::AgentToolCalled(called) => Step::ToolCalled {
                tool: called.tool_name.clone(),
                call_id: called.call_id.clone(),
                arguments: called.inputs.as_ref().and_then(|inputs| self.kept(inputs)),
            },
            Event::AgentToolReturned(returned) => Step::ToolReturned {
                tool: returned.tool_name.clone(),
                call_id: returned.call_id.clone(),
                status: returned.status,
                result: returned
                    .outcome
                    .as_ref()
                    .and_then(|outcome| self.kept(outcome)),
                error: returned.error.as_ref().map(|error| error.message.clone()),
            },
            Event::FixtureMissing(missing) => Step::FixtureMissing {
                tool: missing.tool.clone(),
            },
            Event::AgentHandoff(handoff) => Step::HandedOff {
                to: handoff.to_agent_id.to_string(),
                reason: handoff.reason.clone(),
            },
            Event::ModelRetried(retried) => Step::Retried {
                reason: retried.reason.clone(),
                wait_ms: retried.wait_ms,
            },
            Event::ProviderUsage(usage) => Step::ModelCalled {
                model: usage.model.clone(),
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost_usd: usage.cost_estimate_usd,
                by_judge: self.ended,
            },
            Event::AgentDecided(decided) => Step::Answered {
                answer: self.kept(&decided.decision)?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, payload: Value) -> Event {
        Event::parse(kind, &payload.to_string()).unwrap().unwrap()
    }

    fn started(provider: &str) -> Event {
        event(
            "agent.invocation.started",
            json!({"invocationId": "inv_1", "agentId": "a", "source": "run-api",
                "resolvedModel": "m", "resolvedProvider": provider,
                "toolSurfaceCount": 1, "memoryBound": false}),
        )
    }

    fn decided(decision: Value) -> Event {
        event(
            "agent.decided",
            json!({"agentId": "a", "decision": decision}),
        )
    }

    fn usage() -> Event {
        event(
            "provider.usage",
            json!({"provider": "openai", "model": "m", "inputTokens": 3, "outputTokens": 2,
                "totalTokens": 5, "costEstimateUsd": 0.001, "currency": "USD"}),
        )
    }

    fn log_of(events: &[Event]) -> TaskLog {
        let mut log = TaskLog::default();
        for event in events {
            log.observe(Timestamp::UNIX_EPOCH, event);
        }
        log
    }

    #[test]
    fn tool_calls_show_arguments_and_results() {
        let log = log_of(&[
            started("openai"),
            event(
                "agent.toolCalled",
                json!({"agentId": "a", "toolName": "crm:find", "callId": "c1", "inputs": {"id": 7}}),
            ),
            event(
                "agent.toolReturned",
                json!({"agentId": "a", "toolName": "crm:find", "callId": "c1",
                    "outcome": {"name": "Ann"}, "status": "ok"}),
            ),
            decided(json!("Ann")),
        ]);
        let steps: Vec<&Step> = log.entries.iter().map(|entry| &entry.step).collect();
        assert_eq!(steps.len(), 4);
        assert!(
            matches!(steps[1], Step::ToolCalled { arguments: Some(it), .. } if *it == json!({"id": 7}))
        );
        assert!(
            matches!(steps[2], Step::ToolReturned { result: Some(it), .. } if *it == json!({"name": "Ann"}))
        );
        assert_eq!(log.answer, Some(json!("Ann")));
    }

    #[test]
    fn an_attempt_that_was_cut_off_is_not_shown() {
        let log = log_of(&[
            started("openai"),
            decided(json!("first")),
            started("openai"),
            decided(json!("second")),
        ]);
        assert_eq!(log.entries.len(), 2);
        assert_eq!(log.answer, Some(json!("second")));
    }

    #[test]
    fn the_start_of_a_worker_does_not_restart_the_transcript() {
        let log = log_of(&[
            started("openai"),
            started("scripted-worker"),
            decided(json!("done")),
        ]);
        assert_eq!(log.entries.len(), 3);
    }

    #[test]
    fn model_calls_after_the_end_of_the_invocation_are_the_judges() {
        let completed = event(
            "agent.invocation.completed",
            json!({"invocationId": "inv_1", "agentId": "a", "outcome": "completed"}),
        );
        let log = log_of(&[started("openai"), usage(), completed, usage()]);
        let by_judge: Vec<bool> = log
            .entries
            .iter()
            .filter_map(|entry| match entry.step {
                Step::ModelCalled { by_judge, .. } => Some(by_judge),
                _ => None,
            })
            .collect();
        assert_eq!(by_judge, [false, true]);
    }

    #[test]
    fn deleted_content_is_reported_as_deleted() {
        let log = log_of(&[started("openai"), decided(json!({"redacted": REDACTED}))]);
        assert!(log.content_deleted);
        assert_eq!(log.answer, None);
    }
}
