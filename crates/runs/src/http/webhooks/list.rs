//! `GET /v1/host/touchstone/webhooks`: the tenant's webhook subscriptions and the state of their
//! deliveries.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::RunsApi;
use crate::http::webhooks::shown;
use crate::ports::webhooks::WebhookRecord;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::service::access::Caller;

/// `GET /v1/host/touchstone/webhooks`.
pub async fn list(
    State(state): State<Arc<RunsApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let now = state.host.clock.now();
    let webhooks = state.webhooks.list(&caller.tenant).await?;
    let listed: Vec<Value> = webhooks
        .iter()
        .map(|webhook| with_circuit(webhook, now))
        .collect();
    json(StatusCode::OK, &json!({"webhooks": listed}))
}

fn with_circuit(webhook: &WebhookRecord, now: Timestamp) -> Value {
    let circuit = &webhook.circuit;
    let mut shown = shown(webhook);
    if let Some(members) = shown.as_object_mut() {
        members.insert("state".to_owned(), json!(circuit.state(now)));
        members.insert(
            "consecutiveFailures".to_owned(),
            json!(circuit.consecutive_failures()),
        );
        members.insert(
            "recentFailures".to_owned(),
            json!(circuit.recent_failures(now)),
        );
        if let Some(until) = circuit.open_until(now) {
            members.insert("openUntil".to_owned(), json!(until));
        }
        if let Some((_, until)) = &webhook.secrets.previous
            && webhook.secrets.overlapping(now).is_some()
        {
            members.insert("previousSecretExpiresAt".to_owned(), json!(until));
        }
    }
    shown
}
