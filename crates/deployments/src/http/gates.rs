//! Promotion policies: list, set, remove, and check a gate without changing anything.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use semver::Version;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::DeploymentsApi;
use crate::promotion::{PolicyScope, PromotionPolicy, ScopedPolicy};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, Query, closed};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::undescribed;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{AgentId, RunId};

/// `GET /v1/host/touchstone/gates`.
pub async fn list(
    State(state): State<Arc<DeploymentsApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let policies = state.gates.policies(&caller.tenant).await?;
    let shown = json!({"policies": policies, "default": PromotionPolicy::default()});
    json(StatusCode::OK, &shown)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Set {
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    channel: Option<String>,
    policy: PromotionPolicy,
}

/// `POST /v1/host/touchstone/gates`.
pub async fn set(
    State(state): State<Arc<DeploymentsApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let Set {
        agent_id,
        channel,
        policy,
    } = read(&body)?;
    let policy = ScopedPolicy {
        scope: PolicyScope { agent_id, channel },
        policy: state.gates.complete(policy)?,
    };
    let (gates, setter) = (state.gates.clone(), caller.clone());
    let endpoint = "POST /v1/host/touchstone/gates".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        gates.set(&setter, &policy).await?;
        Ok(Done::new(StatusCode::OK, json!(policy)))
    })
    .await
}

/// `DELETE /v1/host/touchstone/gates`.
pub async fn remove(
    State(state): State<Arc<DeploymentsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    IdempotencyKey(key): IdempotencyKey,
) -> Answer {
    let scope = PolicyScope {
        agent_id: query.get("agentId").map(str::to_owned),
        channel: query.get("channel").map(str::to_owned),
    };
    let (gates, remover) = (state.gates.clone(), caller.clone());
    let endpoint = "DELETE /v1/host/touchstone/gates".to_owned();
    let body = json!(scope);
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        gates.remove(&remover, &scope).await?;
        Ok(Done::new(StatusCode::OK, json!({"removed": true})))
    })
    .await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Ask {
    agent_id: String,
    version: String,
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    canary_percent: Option<u8>,
    #[serde(default)]
    eval_run_id: Option<String>,
}

/// `POST /v1/host/touchstone/gates/check`. Changes nothing, so it needs no `Idempotency-Key`.
pub async fn check(
    State(state): State<Arc<DeploymentsApi>>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Answer {
    let ask: Ask = read(&body)?;
    let version = Version::parse(&ask.version).map_err(|_| {
        Problem::validation("version", "`version` must be a version such as `1.2.0`")
    })?;
    if ask.canary_percent.is_some_and(|percent| percent > 100) {
        return Err(Problem::validation(
            "canaryPercent",
            "`canaryPercent` must be an integer from 0 to 100",
        )
        .into());
    }
    let found = state
        .gates
        .check(
            &caller,
            &AgentId::from(ask.agent_id),
            &version,
            (ask.channel.as_deref(), ask.canary_percent),
            ask.eval_run_id.map(RunId::from),
        )
        .await?;
    json(StatusCode::OK, &found)
}

/// Objects of these bodies. serde would accept an array in place of one, with the members in order.
const OBJECTS: &[&str] = &[
    "",
    "/policy/eval",
    "/policy/approval",
    "/policy/approval/override",
];

/// Reads a body. Only the conditions of features may hold unknown members.
fn read<T: for<'de> Deserialize<'de>>(body: &Value) -> Result<T, Problem> {
    let is_array = |place: &&&str| body.pointer(place).is_some_and(Value::is_array);
    match OBJECTS.iter().find(is_array) {
        Some(place) => Err(undescribed(
            &place.trim_start_matches('/').replace('/', "."),
        )),
        None => closed(body),
    }
}
