//! Projects tool calls, of the assessed agent only.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::log::{Entry, EntryKind, ToolCalled, ToolReturned};
use super::{Evidence, Task};
use crate::rules::evidence::EventType;

pub fn project(task: &Task<'_>, evidence: &mut Evidence<'_>) {
    let mut returned: HashMap<&str, (&Entry<'_>, &ToolReturned)> = HashMap::new();
    let mut calls: Vec<(&Entry<'_>, &ToolCalled)> = Vec::new();
    for entry in &task.entries {
        match &entry.kind {
            EntryKind::ToolReturned(it) => {
                returned.insert(&it.call_id, (entry, it));
            }
            EntryKind::ToolCalled(it) if it.agent_id == task.agent => calls.push((entry, it)),
            _ => {}
        }
    }
    // A call without an answer counts as failed.
    let worked = |call: &ToolCalled| {
        let answer = returned.get(call.call_id.as_str());
        answer.is_some_and(|(_, it)| it.succeeded())
    };
    // The last successful call of each tool: earlier failures were recovered from.
    let mut last_success: HashMap<&str, usize> = HashMap::new();
    for (place, (_, call)) in calls.iter().enumerate() {
        if worked(call) {
            last_success.insert(&call.tool_name, place);
        }
    }
    let mut done: HashSet<(&str, &str)> = HashSet::new();
    for (place, (entry, call)) in calls.iter().enumerate() {
        let success = worked(call);
        let answer = returned.get(call.call_id.as_str());
        let same = call
            .args_hash
            .as_deref()
            .map(|hash| (call.tool_name.as_str(), hash));
        let repeated = same.is_some_and(|it| done.contains(&it));
        let forbidden = answer.is_some_and(|(_, it)| it.is_forbidden());
        let later = last_success.get(call.tool_name.as_str());
        let data = json!({
            "tool": call.tool_name, "success": success, "unnecessary": repeated || forbidden,
            "error_recovered": !success && later.is_some_and(|it| *it > place),
        });
        let when = answer.map_or(*entry, |(answer, _)| answer);
        evidence.add(task, EventType::ToolInvoked, (entry, 0), when, data);
        if success {
            done.extend(same);
        }
    }
}
