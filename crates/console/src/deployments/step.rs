//! A transition before it is made: what it does, and every condition of its gate.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::api::ConsoleApi;
use crate::deployments::agent_page;
use crate::deployments::words::{Badge, effect, kind, state, verb};
use crate::page::answer::html;
use crate::page::chrome::{Chrome, Section};
use crate::page::visit::Visit;
use touchstone_deployments::examination::ExaminedCondition;
use touchstone_deployments::rules::next;
use touchstone_deployments::service::deployments::preview::Preview;
use touchstone_deployments::service::deployments::scope_of;
use touchstone_host::access::Scope;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_host::service::access::authorise;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::AgentId;
use touchstone_openwop::deployment::{AgentDeployment, DeploymentState, TransitionKind};

#[derive(Template)]
#[template(path = "deployments/step.html")]
struct Page {
    chrome: Chrome,
    agent: String,
    agent_href: String,
    /// The last part of the page's address.
    action: &'static str,
    transition: &'static str,
    verb: &'static str,
    effect: &'static str,
    fields: Fields,
    channels: Vec<Choice>,
    asks_channel: bool,
    no_channel: &'static str,
    asks_percent: bool,
    asks_evidence: bool,
    from: Badge,
    to: Option<Badge>,
    /// The wire name of the target state.
    to_state: String,
    placements: Vec<String>,
    impossible: String,
    conditions: Vec<ConditionRow>,
    met: usize,
    evidence: String,
    is_allowed: bool,
    asks_for_approval: bool,
    is_harmful: bool,
    may_send: bool,
    scope: &'static str,
    may_answer: bool,
    refused: String,
}

/// The values of the form, as text.
pub struct Fields {
    pub version: String,
    pub channel: String,
    pub percent: String,
    pub run: String,
}

struct Choice {
    value: String,
    is_chosen: bool,
}

struct ConditionRow {
    kind: String,
    requirement: String,
    message: String,
    is_met: bool,
    gate: String,
}

impl ConditionRow {
    fn of(condition: &ExaminedCondition) -> Self {
        let gate = condition.approval_gate_id.as_ref();
        Self {
            kind: kind(&condition.kind).to_owned(),
            requirement: plain(&condition.requirement),
            message: plain(&condition.message),
            is_met: condition.met,
            gate: gate.map_or_else(String::new, ToString::to_string),
        }
    }
}

/// `GET /console/deployments/{agentId}/promote`.
pub async fn promote(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    parameters: PathParameters,
    query: Query,
) -> Answer {
    authorise(&visit.caller, Scope::ManifestRead)?;
    let agent = AgentId::from(parameters.get("agentId"));
    page(&api, &visit, &agent, TransitionKind::Promote, &query).await
}

/// `GET /console/deployments/{agentId}/change`: a transition other than a promotion.
pub async fn change(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    parameters: PathParameters,
    query: Query,
) -> Answer {
    authorise(&visit.caller, Scope::ManifestRead)?;
    let agent = AgentId::from(parameters.get("agentId"));
    let kind = query.get("transition").and_then(TransitionKind::parse);
    let kind = kind.ok_or_else(|| {
        Problem::validation(
            "transition",
            "`transition` must be pause, rollback, adjust-canary or deprecate",
        )
    })?;
    page(&api, &visit, &agent, kind, &query).await
}

async fn page(
    api: &ConsoleApi,
    visit: &Visit,
    agent: &AgentId,
    kind: TransitionKind,
    query: &Query,
) -> Answer {
    let deployments = &api.deployments.deployments;
    let found = deployments.agent(visit.tenant(), agent).await?;
    let version = query.get("version").unwrap_or_default();
    let record = found.versions.iter().find(|it| it.version == version);
    let record = record
        .ok_or_else(|| Problem::new(ErrorCode::NotFound, "this agent has no such version"))?;
    let goes_active = next(record.state, kind, None).ok() == Some(DeploymentState::Active);
    let fields = fields(api, visit, record, goes_active, query).await?;
    let body = Value::Object(fields.body(kind, None)?);
    let preview = deployments.preview(&visit.caller, agent, &body).await?;
    let channels = deployments.channels().iter().map(|channel| Choice {
        is_chosen: channel.as_str() == fields.channel,
        value: channel.to_string(),
    });
    html(&Page {
        channels: channels.collect(),
        asks_channel: goes_active || kind == TransitionKind::Rollback,
        no_channel: match record.state {
            DeploymentState::Staged => "No channel",
            _ => "All its channels",
        },
        asks_percent: goes_active,
        asks_evidence: matches!(kind, TransitionKind::Promote | TransitionKind::AdjustCanary),
        refused: plain(query.get("refused").unwrap_or_default()),
        ..Page::of(visit, agent, kind, fields, &preview)
    })
}

impl Page {
    fn of(
        visit: &Visit,
        agent: &AgentId,
        kind: TransitionKind,
        fields: Fields,
        preview: &Preview,
    ) -> Self {
        let impossible = preview.impossible.as_ref();
        let evidence = preview.eval_run_id.as_ref();
        let text = |found: Option<String>| found.map_or_else(String::new, |it| plain(&it));
        Self {
            chrome: visit.chrome(Section::Deployments),
            agent: plain(agent.as_str()),
            agent_href: agent_page(agent.as_str()),
            action: match kind {
                TransitionKind::Promote => "promote",
                _ => "change",
            },
            transition: kind.as_str(),
            verb: verb(kind),
            effect: effect(kind),
            fields,
            channels: Vec::new(),
            asks_channel: false,
            no_channel: "",
            asks_percent: false,
            asks_evidence: false,
            from: state(preview.from),
            to: preview.to.map(state),
            to_state: text(preview.to.map(|it| it.to_string())),
            placements: preview
                .placements
                .iter()
                .map(|it| plain(&it.to_string()))
                .collect(),
            impossible: text(impossible.map(|it| it.message.clone())),
            conditions: unmet_first(preview),
            met: preview.conditions.iter().filter(|it| it.met).count(),
            evidence: text(evidence.map(ToString::to_string)),
            is_allowed: preview.is_allowed(),
            asks_for_approval: preview.asks_for_approval(),
            is_harmful: matches!(kind, TransitionKind::Rollback | TransitionKind::Deprecate),
            may_send: visit.may(scope_of(kind)),
            scope: scope_of(kind).as_str(),
            may_answer: visit.may(Scope::ApprovalsRespond),
            refused: String::new(),
        }
    }
}

/// Conditions that a person must look at come first.
fn unmet_first(preview: &Preview) -> Vec<ConditionRow> {
    let mut rows: Vec<_> = preview.conditions.iter().map(ConditionRow::of).collect();
    rows.sort_by_key(|row| row.is_met);
    rows
}

/// The values of the query; what it does not name is filled in for a first step into service.
async fn fields(
    api: &ConsoleApi,
    visit: &Visit,
    record: &AgentDeployment,
    goes_active: bool,
    query: &Query,
) -> Result<Fields, Problem> {
    let deployments = &api.deployments.deployments;
    let is_first = goes_active && record.state == DeploymentState::Staged;
    let text = |name: &str| query.get(name).map(str::to_owned);
    let run = match text("run") {
        Some(run) => run,
        None if is_first => {
            let (agent, version) = (&record.agent_id, record.version.as_str());
            let newest = deployments.newest_evidence(visit.tenant(), agent, version);
            newest.await?.map_or_else(String::new, |it| it.to_string())
        }
        None => String::new(),
    };
    let first = deployments.channels().first().filter(|_| is_first);
    let channel = text("channel");
    let percent = text("percent");
    let share = record.canary_percent.filter(|_| goes_active);
    Ok(Fields {
        version: record.version.clone(),
        channel: channel
            .unwrap_or_else(|| first.map_or_else(String::new, |channel| channel.to_string())),
        percent: percent.unwrap_or_else(|| share.map_or_else(String::new, |it| it.to_string())),
        run,
    })
}

impl Fields {
    /// The request of the API.
    ///
    /// # Errors
    /// `validation_error` for a share that is not a number.
    pub fn body(
        &self,
        kind: TransitionKind,
        reason: Option<&str>,
    ) -> Result<Map<String, Value>, Problem> {
        let mut body = Map::new();
        body.insert("version".to_owned(), json!(self.version));
        body.insert("transition".to_owned(), json!(kind));
        let texts = [
            ("channel", self.channel.as_str()),
            ("evalRunId", self.run.trim()),
            ("reason", reason.unwrap_or_default()),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            body.insert(name.to_owned(), json!(text));
        }
        if !self.percent.is_empty() {
            let percent: u8 = self.percent.trim().parse().map_err(|_| {
                Problem::validation("percent", "the share must be a number from 0 to 100")
            })?;
            body.insert("canaryPercent".to_owned(), json!(percent));
        }
        Ok(body)
    }
}
