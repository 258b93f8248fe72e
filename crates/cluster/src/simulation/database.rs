//! The database: a lease on the run with a fencing token, and the log of the run. Every event is
//! checked when it is appended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use touchstone_agents::budget::Spending;
use touchstone_agents::ports::agent::InvocationEnd;
use touchstone_kit::ids::EventId;
use touchstone_openwop::events::{Event, InvocationOutcome};

use crate::service::owner::WORKER_LOST;
use crate::simulation::schedule::{Millis, Schedule};
use crate::simulation::world::{Call, Granted};

/// How long a lease on the run lasts.
pub const LEASE: Millis = 5_000;

#[derive(Clone, Debug)]
pub enum Entry {
    Event {
        task: String,
        id: EventId,
        cause: Option<EventId>,
        event: Event,
    },
    Scored {
        task: String,
        end: InvocationEnd,
    },
}

/// Another host has taken over the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fenced;

pub struct Database {
    fence: u64,
    leased_until: Millis,
    max_tokens: Option<u64>,
    spent: Spending,
    pub tasks: BTreeMap<String, TaskLog>,
    invocations: BTreeSet<String>,
    used: BTreeSet<u64>,
}

/// The log of one task.
#[derive(Debug, Default)]
pub struct TaskLog {
    pub calls: u32,
    open: Option<Attempt>,
    /// The last attempt, if it came to its end.
    decided: Option<Attempt>,
    pub attempts: u32,
    pub lost: u32,
    pub end: Option<InvocationEnd>,
}

#[derive(Clone, Debug, Default)]
struct Attempt {
    invocation: String,
    /// The ids of its events.
    events: Vec<EventId>,
    /// Its model calls.
    calls: Vec<u64>,
    decision: Option<Value>,
}

/// The kind of the next event of an attempt at a task with this many calls.
fn expected(calls: u32, position: usize) -> &'static str {
    const TURN: [&str; 3] = ["provider.usage", "agent.toolCalled", "agent.toolReturned"];
    let tool_turns = 3 * (calls as usize - 1);
    match position.checked_sub(1 + tool_turns) {
        Some(0) => "provider.usage",
        Some(1) => "agent.decided",
        Some(_) => "agent.invocation.completed",
        None if position == 0 => "agent.invocation.started",
        None => TURN[(position - 1) % 3],
    }
}

impl Database {
    pub fn new(schedule: &Schedule) -> Self {
        let tasks = schedule.tasks.iter().enumerate().map(|(number, calls)| {
            let log = TaskLog {
                calls: *calls,
                ..TaskLog::default()
            };
            (format!("t{number}"), log)
        });
        Self {
            fence: 0,
            leased_until: 0,
            max_tokens: schedule.max_tokens,
            spent: Spending::default(),
            tasks: tasks.collect(),
            invocations: BTreeSet::new(),
            used: BTreeSet::new(),
        }
    }

    /// Claims the run if its lease has expired. Returns the fencing token.
    pub fn claim(&mut self, now: Millis) -> Option<u64> {
        if now < self.leased_until || self.is_ended() {
            return None;
        }
        self.fence += 1;
        self.leased_until = now + LEASE;
        Some(self.fence)
    }

    pub fn renew(&mut self, fence: u64, now: Millis) -> Result<(), Fenced> {
        if fence != self.fence {
            return Err(Fenced);
        }
        self.leased_until = now + LEASE;
        Ok(())
    }

    /// Gives the run back, so that another host can claim it.
    pub fn release(&mut self, fence: u64) {
        if fence == self.fence {
            self.leased_until = 0;
        }
    }

    pub fn is_ended(&self) -> bool {
        self.tasks.values().all(|task| task.end.is_some())
    }

    pub const fn fence(&self) -> u64 {
        self.fence
    }

    pub const fn spent(&self) -> Spending {
        self.spent
    }

    /// The tasks without a score.
    pub fn open_tasks(&self) -> Vec<(String, u32)> {
        let open = self.tasks.iter().filter(|(_, task)| task.end.is_none());
        open.map(|(id, task)| (id.clone(), task.calls)).collect()
    }

    /// The invocation of a task that has started and not completed.
    pub fn open_invocation(&self, task: &str) -> Option<String> {
        let open = self.tasks[task].open.as_ref();
        open.map(|attempt| attempt.invocation.clone())
    }

    /// Appends to the log.
    ///
    /// # Errors
    /// [`Fenced`].
    pub fn append(
        &mut self,
        fence: u64,
        entries: Vec<Entry>,
        calls: &[Call],
        grants: &[Granted],
    ) -> Result<Vec<String>, Fenced> {
        if fence != self.fence {
            return Err(Fenced);
        }
        let mut problems = Vec::new();
        for entry in entries {
            let described = entry.clone();
            let checked = match entry {
                Entry::Event {
                    task,
                    id,
                    cause,
                    event,
                } => self.event(&task, id, cause, event, calls, grants),
                Entry::Scored { task, end } => self.scored(&task, end),
            };
            if let Err(problem) = checked {
                problems.push(format!("{problem}: {described:?}"));
            }
        }
        Ok(problems)
    }

    fn event(
        &mut self,
        task_id: &str,
        id: EventId,
        cause: Option<EventId>,
        event: Event,
        calls: &[Call],
        grants: &[Granted],
    ) -> Result<(), &'static str> {
        let task = self.tasks.get_mut(task_id).ok_or("unknown task")?;
        if task.end.is_some() {
            return Err("the task is scored already");
        }
        if let Event::AgentInvocationStarted(it) = &event {
            if task.open.is_some() {
                return Err("an attempt starts while another is open");
            }
            if !self.invocations.insert(it.invocation_id.clone()) {
                return Err("an attempt starts twice");
            }
            task.attempts += 1;
            task.decided = None;
            task.open = Some(Attempt {
                invocation: it.invocation_id.clone(),
                events: vec![id],
                ..Attempt::default()
            });
            return Ok(());
        }
        let Some(attempt) = &mut task.open else {
            return Err("a fact without an open attempt");
        };
        if cause.is_some_and(|cause| !attempt.events.contains(&cause)) {
            return Err("the cause is not of the attempt");
        }
        let next = expected(task.calls, attempt.events.len());
        let may_end = match &event {
            // The budget is exhausted.
            Event::AgentDecided(it) => it.decision.is_null(),
            Event::AgentInvocationCompleted(it) => it.outcome == InvocationOutcome::Failed,
            _ => false,
        };
        if event.kind() != next && !may_end {
            return Err("a fact is missing, repeated or out of order");
        }
        let ends_early = event.kind() != next;
        attempt.events.push(id);
        match event {
            Event::ProviderUsage(usage) => {
                let number = usage.cache_read_tokens.ok_or("a call without a number")?;
                let index = usize::try_from(number).map_err(|_| "an unknown call")?;
                let call = calls.get(index).ok_or("an unknown call")?;
                let mut granted = grants.iter();
                let granted = granted
                    .find(|it| it.invocation == attempt.invocation)
                    .ok_or("an attempt that no worker was granted")?;
                if call.task != task_id || call.worker != granted.worker || call.at < granted.at {
                    return Err("a call of another attempt");
                }
                if !self.used.insert(number) {
                    return Err("a call is recorded twice");
                }
                attempt.calls.push(number);
                self.spent.tokens += usage.total_tokens;
                // Calls of hosts in succession: each leaves at most one call over the limit.
                if self
                    .max_tokens
                    .is_some_and(|most| self.spent.tokens.saturating_sub(usage.total_tokens) > most)
                {
                    return Err("a call after the budget was exhausted");
                }
            }
            Event::AgentToolCalled(it)
                if Some(&it.call_id)
                    != attempt.calls.last().map(|it| format!("call_{it}")).as_ref() =>
            {
                return Err("a tool call of another attempt");
            }
            Event::AgentDecided(it) if !it.decision.is_null() => {
                attempt.decision = Some(it.decision);
            }
            Event::AgentInvocationCompleted(it) => {
                if it.invocation_id != attempt.invocation {
                    return Err("another attempt is completed");
                }
                match attempt.decision.is_some() {
                    true => task.decided = task.open.take(),
                    false => {
                        task.lost += u32::from(ends_early);
                        task.open = None;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn scored(&mut self, task: &str, end: InvocationEnd) -> Result<(), &'static str> {
        let task = self.tasks.get_mut(task).ok_or("unknown task")?;
        if task.end.is_some() {
            return Err("the task is scored twice");
        }
        if task.open.is_some() {
            return Err("the task is scored while an attempt is open");
        }
        match &end {
            InvocationEnd::Decided { output } => {
                let decided = task.decided.as_ref().ok_or("a score without a decision")?;
                let last = decided.calls.last().map(|it| format!("answer {it}"));
                if decided.decision.as_ref() != Some(output) || output.as_str() != last.as_deref() {
                    return Err("the score of another attempt");
                }
                if decided.calls.len() != task.calls as usize {
                    return Err("a decision after too few calls");
                }
            }
            InvocationEnd::Unjudged { reason } => match &**reason {
                WORKER_LOST => {}
                "budget_exhausted" if self.max_tokens.is_some() => {}
                _ => return Err("an unexpected end"),
            },
            InvocationEnd::Failed { .. } => return Err("an unexpected end"),
        }
        task.end = Some(end);
        Ok(())
    }
}
