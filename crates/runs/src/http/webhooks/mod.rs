//! Webhook subscriptions (OpenWOP webhooks).

pub mod list;
pub mod register;
pub mod rotate_secret;
pub mod unregister;

use serde_json::{Value, json};

use crate::ports::webhooks::WebhookRecord;
use touchstone_host::http::extract::PathParameters;
use touchstone_kit::ids::WebhookId;
use touchstone_kit::webhook::{SCHEME_STANDARD, SCHEME_V1};

/// The public view of a subscription, without its secret.
pub fn shown(webhook: &WebhookRecord) -> Value {
    let schemes: &[&str] = if webhook.standard {
        &[SCHEME_V1, SCHEME_STANDARD]
    } else {
        &[SCHEME_V1]
    };
    json!({
        "webhookId": webhook.id,
        "url": webhook.url.as_str(),
        "events": webhook.events,
        "tags": webhook.tags,
        "signatureAlgorithms": schemes,
        "secretFingerprint": webhook.secrets.current.fingerprint(),
        "createdAt": webhook.created_at,
    })
}

fn webhook_id(path: &PathParameters) -> WebhookId {
    path.get("webhookId").into()
}
