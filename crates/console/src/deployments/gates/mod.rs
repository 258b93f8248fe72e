//! The policies of gates: which conditions a version must meet before it serves.

mod fields;

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::{Value, json};

use crate::api::ConsoleApi;
use crate::deployments::gates::fields::{Choice, Section as FormSection, policy, sections};
use crate::deployments::words::kind;
use crate::page::answer::{html, see_other, segment};
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::visit::Visit;
use touchstone_deployments::promotion::{PolicyScope, PromotionPolicy, ScopedPolicy};
use touchstone_deployments::service::gates::Gates;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::Query;
use touchstone_host::render::words::plain;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;

const GATES: &str = "/console/gates";

#[derive(Template)]
#[template(path = "deployments/gates.html")]
struct Page {
    chrome: Chrome,
    policies: Vec<Policy>,
    usual: Vec<Kind>,
    may_set: bool,
}

struct Policy {
    /// The values of its scope, as a form sends them.
    agent: String,
    channel: String,
    applies_to: String,
    edit: String,
    kinds: Vec<Kind>,
}

/// The conditions of one kind.
struct Kind {
    name: String,
    requirements: Vec<String>,
}

fn kinds(gates: &Gates, policy: &PromotionPolicy) -> Result<Vec<Kind>, Problem> {
    let mut all: Vec<Kind> = Vec::new();
    for (of, requirement) in gates.explain(policy)? {
        let name = kind(&of);
        let requirement = plain(&requirement);
        match all.last_mut().filter(|last| last.name == name) {
            Some(last) => last.requirements.push(requirement),
            None => all.push(Kind {
                name: name.to_owned(),
                requirements: vec![requirement],
            }),
        }
    }
    Ok(all)
}

fn applies_to(scope: &PolicyScope) -> String {
    let agent = scope.agent_id.as_deref().map(plain);
    let channel = scope.channel.as_deref().map(plain);
    match (agent, channel) {
        (Some(agent), Some(channel)) => format!("{agent} on channel {channel}"),
        (Some(agent), None) => format!("{agent} on every channel"),
        (None, Some(channel)) => format!("Every agent on channel {channel}"),
        (None, None) => "Every agent on every channel".to_owned(),
    }
}

/// `GET /console/gates`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let gates = &api.deployments.gates;
    let mut policies = Vec::new();
    for set in gates.policies(visit.tenant()).await? {
        let agent = set.scope.agent_id.clone().unwrap_or_default();
        let channel = set.scope.channel.clone().unwrap_or_default();
        policies.push(Policy {
            applies_to: applies_to(&set.scope),
            edit: format!(
                "{GATES}/edit?agentId={}&channel={}",
                segment(&agent),
                segment(&channel)
            ),
            kinds: kinds(gates, &set.policy)?,
            agent,
            channel,
        });
    }
    html(&Page {
        chrome: visit.chrome(Section::Deployments),
        policies,
        usual: kinds(gates, &PromotionPolicy::default())?,
        may_set: visit.may(Scope::GatesWrite),
    })
}

#[derive(Template)]
#[template(path = "deployments/gate.html")]
struct Edit {
    chrome: Chrome,
    /// `None` for a new policy, whose scope the form asks for.
    applies_to: Option<String>,
    agent: String,
    channel: String,
    channels: Vec<Choice>,
    sections: Vec<FormSection>,
}

/// `GET /console/gates/edit`.
pub async fn edit(State(api): State<Arc<ConsoleApi>>, visit: Visit, query: Query) -> Answer {
    let query = query.filled();
    let gates = &api.deployments.gates;
    let text = |name: &str| query.get(name).map(str::to_owned);
    let scope = PolicyScope {
        agent_id: text("agentId"),
        channel: text("channel"),
    };
    let set = policy_for(gates, &visit, &scope).await?;
    let channels = gates.channels().iter().map(|it| Choice {
        value: it.as_str().to_owned(),
        label: it.as_str().to_owned(),
        is_chosen: Some(it.as_str()) == scope.channel.as_deref(),
    });
    let roles: Vec<String> = gates.roles().map(str::to_owned).collect();
    let shown = set.clone().unwrap_or_default();
    let shown = serde_json::to_value(shown).map_err(|cause| internal(&cause))?;
    html(&Edit {
        chrome: visit.chrome(Section::Deployments),
        applies_to: set.map(|_| applies_to(&scope)),
        channels: channels.collect(),
        sections: sections(&shown, &roles),
        agent: scope.agent_id.unwrap_or_default(),
        channel: scope.channel.unwrap_or_default(),
    })
}

/// The policy that is set for exactly this scope.
async fn policy_for(
    gates: &Gates,
    visit: &Visit,
    scope: &PolicyScope,
) -> Result<Option<PromotionPolicy>, Problem> {
    let policies = gates.policies(visit.tenant()).await?.into_iter();
    let mut own = policies.filter(|set| set.scope == *scope);
    Ok(own.next().map(|set| set.policy))
}

fn scope_of(form: &Form) -> PolicyScope {
    let text = |name: &str| {
        let text = form.get(name).map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    PolicyScope {
        agent_id: text("agentId"),
        channel: text("channel"),
    }
}

/// `POST /console/gates`.
pub async fn set(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let gates = &api.deployments.gates;
    let scope = scope_of(&form);
    let before = match form.get("changes") {
        Some(_) => policy_for(gates, &visit, &scope).await?,
        None => None,
    };
    let before: Value = before.map_or_else(|| json!({}), |policy| json!(policy));
    // Conditions are kept as text, so the document is read as text.
    let asked = policy(&form, before)?.to_string();
    let read: PromotionPolicy = serde_json::from_str(&asked).map_err(|cause| {
        Problem::validation("policy", format!("the policy is not valid: {cause}"))
    })?;
    let policy = gates.complete(read)?;
    gates
        .set(&visit.caller, &ScopedPolicy { scope, policy })
        .await?;
    Ok(see_other(&format!("{GATES}?done=gate-set")))
}

/// `POST /console/gates/remove`.
pub async fn remove(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let gates = &api.deployments.gates;
    gates.remove(&visit.caller, &scope_of(&form)).await?;
    Ok(see_other(&format!("{GATES}?done=gate-removed")))
}
