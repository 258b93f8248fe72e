//! The form that makes a transition.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value, json};

use crate::api::ConsoleApi;
use crate::deployments::agent_page;
use crate::deployments::step::Fields;
use crate::deployments::words::done;
use crate::page::answer::see_other;
use crate::page::form::Form;
use crate::page::visit::Visit;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::AgentId;
use touchstone_openwop::deployment::TransitionKind;

/// `POST /console/deployments/{agentId}/transition`. A refusal leads back to the page that shows
/// the conditions.
pub async fn send(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    parameters: PathParameters,
    form: Form,
) -> Answer {
    let agent = AgentId::from(parameters.get("agentId"));
    let kind = TransitionKind::parse(form.required("transition")?)
        .ok_or_else(|| Problem::validation("transition", "there is no such transition"))?;
    let text = |name: &str| form.get(name).unwrap_or_default().to_owned();
    let fields = Fields {
        version: form.required("version")?.to_owned(),
        channel: text("channel"),
        percent: text("percent"),
        run: text("run"),
    };
    let reason = form.required("reason")?;
    let mut body = fields.body(kind, Some(reason))?;
    // Sent twice, a promotion must not take two steps.
    if let (TransitionKind::Promote, Some(to)) = (kind, form.get("toState")) {
        body.insert("toState".to_owned(), json!(to));
    }
    let body = Value::Object(body);
    let deployments = &api.deployments.deployments;
    let moved = deployments.transition(&visit.caller, &agent, &body, None);
    let place = agent_page(agent.as_str());
    let problem = match moved.await {
        Ok(_) => return Ok(see_other(&format!("{place}?done={}", done(kind)))),
        Err(problem) => problem,
    };
    let Some(unmet) = problem.details.get("unmet").and_then(Value::as_array) else {
        return Err(problem.into());
    };
    let asked = |it: &Value| it["condition"] == "approval-pending";
    let run = problem.details.get("runId").and_then(Value::as_str);
    let result = match unmet.iter().all(asked) {
        true => ("done", "approval-asked"),
        false => ("refused", run.unwrap_or_default()),
    };
    let page = match kind {
        TransitionKind::Promote => "promote",
        _ => "change",
    };
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("version", fields.version.as_str()),
            ("transition", kind.as_str()),
            ("channel", fields.channel.as_str()),
            ("percent", fields.percent.as_str()),
            ("run", fields.run.as_str()),
            result,
        ])
        .finish();
    Ok(see_other(&format!("{place}/{page}?{query}")))
}
