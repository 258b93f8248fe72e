//! What happened during a task, read from its part of the log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use touchstone_kit::money::NanoUsd;
use touchstone_openwop::events::{AssertionReason, AttachedFile, Event, ToolStatus};

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
        /// Absent if the price is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<NanoUsd>,
        /// Whether the judge made it.
        by_judge: bool,
        /// Whether the simulated user made it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_user: bool,
        /// Whether it was a call of the embedding model.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_embeddings: bool,
        /// Whether the answer came from the cache of model answers, and so cost nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        from_cache: bool,
    },
    /// A reply of the judge or of the simulated user did not have the requested form.
    ReplyRejected { by: String, reply: String },
    /// Files were sent with the input.
    Attached { files: Vec<AttachedFile> },
    /// The agent answered one message of the user.
    TurnAnswered { turn: u32, answer: Value },
    /// The user said more, or opened the conversation.
    UserSaid { turn: u32, text: String },
    /// The simulated user ended the conversation.
    UserStopped { reason: String, note: String },
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
    /// The reasons for decisions about its assertions.
    pub assertion_reasons: Vec<AssertionReason>,
    /// Whether the run that executed the task was deleted, with its content.
    pub content_deleted: bool,
    /// Whether events are missing, because there are too many or one cannot be read.
    pub is_incomplete: bool,
    /// Size of the events that were added.
    pub bytes: usize,
    /// Whether the invocation ended, so that later model calls are the judge's.
    pub ended: bool,
    /// Whether the agent has answered and the user is next, so that model calls are those of the
    /// simulated user.
    pub user_is_next: bool,
}

impl TaskLog {
    /// The log of a task whose content was deleted.
    pub fn deleted() -> Self {
        Self {
            content_deleted: true,
            ..Self::default()
        }
    }

    /// Removes what is left of deleted content. What happened and when stays.
    pub fn drop_content(&mut self) {
        self.content_deleted = true;
        self.answer = None;
        self.reasons.clear();
        self.assertion_reasons.clear();
    }

    /// Adds the next event of the task, of this size in bytes. Beyond `most` bytes, only what
    /// restarts the transcript, the answer and the judge's reasons are added.
    pub fn add(&mut self, at: Timestamp, event: &Event, bytes: usize, most: usize) {
        let is_needed = matches!(
            event,
            Event::AgentInvocationStarted(_)
                | Event::AgentInvocationCompleted(_)
                | Event::AgentDecided(_)
                | Event::JudgeReasoned(_)
                | Event::AssertionsReasoned(_)
        );
        if self.bytes + bytes > most && !is_needed {
            self.is_incomplete = true;
            return;
        }
        if let Event::AgentInvocationStarted(started) = event
            && !started.is_of_worker()
        {
            // An attempt that was cut off does not count.
            *self = Self::default();
        }
        match event {
            Event::AgentInvocationCompleted(_) => self.ended = true,
            Event::TurnAnswered(_) | Event::UserOpens(_) => self.user_is_next = true,
            Event::UserSaid(_) | Event::UserStopped(_) => self.user_is_next = false,
            Event::AgentDecided(decided) => self.answer = Some(decided.decision.clone()),
            Event::AnswerCached(_) => self.mark_cached(),
            Event::JudgeReasoned(judge) => self.reasons.clone_from(&judge.reasons),
            Event::AssertionsReasoned(it) => self.assertion_reasons.clone_from(&it.reasons),
            _ => {}
        }
        self.bytes += bytes;
        if let Some(step) = self.step(event) {
            self.entries.push(Entry { at, step });
        }
    }

    /// The last model call was answered from the cache.
    fn mark_cached(&mut self) {
        let last = self.entries.iter_mut().rev().map(|entry| &mut entry.step);
        for step in last {
            if let Step::ModelCalled { from_cache, .. } = step {
                *from_cache = true;
                return;
            }
        }
    }

    /// Marks the calls of the embedding model, which follow the invocation like those of the judge.
    pub fn mark_embeddings(&mut self, embeddings: &str) {
        for entry in &mut self.entries {
            if let Step::ModelCalled {
                model,
                by_judge,
                by_embeddings,
                ..
            } = &mut entry.step
                && *by_judge
                && model == embeddings
            {
                (*by_judge, *by_embeddings) = (false, true);
            }
        }
    }

    /// Whether the last turn has this answer.
    fn is_answered(&self, decision: &Value) -> bool {
        let last = self
            .entries
            .iter()
            .rev()
            .find_map(|entry| match &entry.step {
                Step::TurnAnswered { answer, .. } => Some(Some(answer)),
                Step::UserSaid { .. } => Some(None),
                _ => None,
            });
        last.flatten() == Some(decision)
    }

    fn step(&self, event: &Event) -> Option<Step> {
        Some(match event {
            Event::AgentInvocationStarted(started) => Step::Started {
                model: started.resolved_model.clone(),
                provider: started.resolved_provider.clone(),
            },
            Event::AgentReasoned(reasoned) => Step::Said {
                text: reasoned.reasoning.clone(),
            },
            Event::AgentToolCalled(called) => Step::ToolCalled {
                tool: called.tool_name.clone(),
                call_id: called.call_id.clone(),
                arguments: called.inputs.clone(),
            },
            Event::AgentToolReturned(returned) => Step::ToolReturned {
                tool: returned.tool_name.clone(),
                call_id: returned.call_id.clone(),
                status: returned.status,
                result: returned.outcome.clone(),
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
                by_user: self.user_is_next && !self.ended,
                by_embeddings: false,
                from_cache: false,
            },
            Event::ReplyRejected(rejected) => Step::ReplyRejected {
                by: rejected.by.clone(),
                reply: rejected.reply.clone(),
            },
            Event::TaskAttached(attached) => Step::Attached {
                files: attached.files.clone(),
            },
            Event::TurnAnswered(turn) => Step::TurnAnswered {
                turn: turn.turn,
                answer: turn.answer.clone(),
            },
            Event::UserSaid(said) => Step::UserSaid {
                turn: said.turn,
                text: said.text.clone(),
            },
            Event::UserStopped(stopped) => Step::UserStopped {
                reason: stopped.reason.clone(),
                note: stopped.note.clone(),
            },
            // The answer of the last turn.
            Event::AgentDecided(decided) if self.is_answered(&decided.decision) => return None,
            Event::AgentDecided(decided) => Step::Answered {
                answer: decided.decision.clone(),
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
            log.add(Timestamp::UNIX_EPOCH, event, 1, usize::MAX);
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
    fn calls_of_the_embedding_model_and_answers_from_the_cache_are_marked() {
        let completed = event(
            "agent.invocation.completed",
            json!({"invocationId": "inv_1", "agentId": "a", "outcome": "completed"}),
        );
        let cached = event("touchstone.answer.cached", json!({}));
        let rejected = event(
            "touchstone.reply.rejected",
            json!({"by": "judge", "reply": "hm"}),
        );
        let mut log = log_of(&[usage(), completed, usage(), cached, rejected]);
        log.mark_embeddings("m");
        let calls: Vec<[bool; 3]> = log
            .entries
            .iter()
            .filter_map(|entry| match entry.step {
                Step::ModelCalled {
                    by_judge,
                    by_embeddings,
                    from_cache,
                    ..
                } => Some([by_judge, by_embeddings, from_cache]),
                _ => None,
            })
            .collect();
        assert_eq!(calls, [[false, false, false], [false, true, true]]);
        assert!(matches!(&log.entries[2].step, Step::ReplyRejected { reply, .. } if reply == "hm"));
    }

    #[test]
    fn an_answer_that_looks_like_a_mask_is_shown_as_it_is() {
        let log = log_of(&[started("openai"), decided(json!("[REDACTED]"))]);
        assert_eq!(log.answer, Some(json!("[REDACTED]")));
        assert!(!log.content_deleted);
    }

    #[test]
    fn a_long_transcript_still_has_its_answer() {
        let mut log = TaskLog::default();
        let events = [started("openai"), usage(), usage(), decided(json!("Ann"))];
        for event in &events {
            log.add(Timestamp::UNIX_EPOCH, event, 10, 20);
        }
        assert_eq!((log.entries.len(), log.is_incomplete), (3, true));
        assert_eq!(log.answer, Some(json!("Ann")));
    }

    #[test]
    fn a_new_attempt_has_room_for_its_own_transcript() {
        let mut log = TaskLog::default();
        let events = [
            started("openai"),
            usage(),
            usage(),
            started("openai"),
            usage(),
        ];
        for event in &events {
            log.add(Timestamp::UNIX_EPOCH, event, 10, 20);
        }
        assert_eq!((log.entries.len(), log.is_incomplete), (2, false));
    }
}
