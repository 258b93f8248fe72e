//! Context and parts for the tests of translations.

use serde_json::{Value, json};

use super::translation::{Context, Parts};

pub const TENANT: &str = "acme";

pub fn context() -> Context<'static> {
    Context {
        tenant: TENANT,
        recorded_fixtures: true,
        parts: Parts {
            subject,
            run_code,
            interrupt_key: str::to_owned,
            event_type: |name| {
                Some(name)
                    .filter(|name| *name != "acme.unknown")
                    .map(event_type)
            },
            stored_event_type,
            workflow: |id| id.replace('@', ":"),
            stored_workflow: |id| match id.rsplit_once(':') {
                Some((suite, version)) => Some(format!("{suite}@{version}")),
                None => Some(id.to_owned()).filter(|id| !id.contains('~')),
            },
        },
    }
}

fn subject(tenant: &str, principal: &str, is_old: bool) -> Value {
    let issuer = match is_old {
        true => "urn:openwop:legacy",
        false => "urn:touchstone:api-key",
    };
    json!({"issuer": issuer, "subjectId": format!("subject-of-{principal}"), "tenant": tenant,
        "lane": "api-key", "kind": "user"})
}

fn run_code(code: &str) -> &str {
    match code {
        "mock_provider_error" | "node_failed" => "internal_error",
        "conflict" => "version_conflict",
        _ => code,
    }
}

fn event_type(name: &str) -> &str {
    match name {
        "agent.toolCalled" => "agent.tool-called",
        _ => name,
    }
}

fn stored_event_type(name: &str) -> Option<&str> {
    match name {
        "agent.tool-called" => Some("agent.toolCalled"),
        "run.completed" | "run.failed" => Some(name),
        _ => None,
    }
}
