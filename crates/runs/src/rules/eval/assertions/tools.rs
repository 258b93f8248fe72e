//! Assertions about the tools that the agent called. A tool was called if a fixture or a live tool
//! answered; the mere attempt counts only against `tool-not-called`.

use serde_json::Value;

use super::{Finding, clipped, shown};
use crate::rules::eval::matching;
use crate::rules::eval::scoring_document::checks::{
    ArgumentsMatch, ToolCalled, ToolNotCalled, ToolsCalledInOrder,
};

#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    pub call_id: String,
    pub tool: String,
    pub arguments: Option<Value>,
    /// Whether a fixture or a live tool answered, if only with an error. Calls that the host refused
    /// were not answered.
    pub is_answered: bool,
}

impl ToolCall {
    /// A call without an answer so far.
    pub fn new(call_id: &str, tool: &str, arguments: Option<&Value>) -> Self {
        Self {
            call_id: call_id.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.cloned(),
            is_answered: false,
        }
    }
}

/// Marks the call with this id as answered. Some models repeat ids; the last open one counts.
pub fn mark_answered(calls: &mut [ToolCall], call_id: &str) {
    let is_open = |call: &&mut ToolCall| call.call_id == call_id && !call.is_answered;
    if let Some(call) = calls.iter_mut().rev().find(is_open) {
        call.is_answered = true;
    }
}

pub(super) fn called(it: &ToolCalled, calls: &[ToolCall]) -> Finding {
    let start = match &it.after {
        None => Some(0),
        Some(after) => calls
            .iter()
            .position(|call| call.is_answered && call.tool == *after)
            .map(|at| at + 1),
    };
    let counted = start
        .and_then(|start| calls.get(start..))
        .unwrap_or_default();
    let matching = counted
        .iter()
        .filter(|call| call.is_answered)
        .filter(|call| is_call(call, &it.name, it.arguments.as_ref(), it.arguments_match))
        .count();
    let min = it.min.unwrap_or(1) as usize;
    let holds = matching >= min && it.max.is_none_or(|max| matching <= max as usize);
    let times = match (it.min, it.max) {
        (None, None) => String::new(),
        (_, None) => format!(" at least {min} times"),
        (_, Some(max)) => format!(" {min} to {max} times"),
    };
    let after = it
        .after
        .as_ref()
        .map_or_else(String::new, |after| format!(" after {after}"));
    let expected = format!(
        "calls {}{after}{times}",
        wanted(&it.name, it.arguments.as_ref())
    );
    Finding::new(holds, expected, Some(listed(calls, it.arguments.is_some())))
}

pub(super) fn not_called(it: &ToolNotCalled, calls: &[ToolCall]) -> Finding {
    let holds = !calls
        .iter()
        .any(|call| is_call(call, &it.name, it.arguments.as_ref(), it.arguments_match));
    let expected = format!("does not call {}", wanted(&it.name, it.arguments.as_ref()));
    Finding::new(holds, expected, Some(listed(calls, it.arguments.is_some())))
}

pub(super) fn in_order(it: &ToolsCalledInOrder, calls: &[ToolCall]) -> Finding {
    let mut rest = calls.iter().filter(|call| call.is_answered);
    let holds = if it.exact {
        rest.map(|call| &call.tool).eq(&it.names)
    } else {
        it.names
            .iter()
            .all(|name| rest.any(|call| call.tool == *name))
    };
    let only = if it.exact { " and nothing else" } else { "" };
    let expected = format!("calls {}{only}, in this order", it.names.join(", "));
    Finding::new(holds, clipped(&expected), Some(listed(calls, false)))
}

fn is_call(call: &ToolCall, name: &str, wanted: Option<&Value>, how: ArgumentsMatch) -> bool {
    let arguments = call.arguments.as_ref().unwrap_or(&Value::Null);
    call.tool == name
        && wanted.is_none_or(|wanted| match how {
            ArgumentsMatch::Equal => matching::equal(arguments, wanted),
            ArgumentsMatch::Subset => has(arguments, wanted),
        })
}

/// Whether every wanted member is there; other values must be equal.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| found.get(name).is_some_and(|found| has(found, wanted))),
        _ => matching::equal(found, wanted),
    }
}

fn wanted(name: &str, arguments: Option<&Value>) -> String {
    match arguments {
        Some(arguments) => format!("{name} with {}", shown(arguments)),
        None => name.to_owned(),
    }
}

fn listed(calls: &[ToolCall], with_arguments: bool) -> String {
    let call = |call: &ToolCall| {
        let name = match &call.arguments {
            Some(arguments) if with_arguments => format!("{} {}", call.tool, shown(arguments)),
            _ => call.tool.clone(),
        };
        match call.is_answered {
            true => name,
            false => format!("{name} (not answered)"),
        }
    };
    let calls: Vec<String> = calls.iter().take(20).map(call).collect();
    match calls.as_slice() {
        [] => "no calls".to_owned(),
        calls => clipped(&calls.join(", ")),
    }
}
