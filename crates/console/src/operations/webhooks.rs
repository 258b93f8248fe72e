//! Webhook subscriptions to the events of runs.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::ConsoleApi;
use crate::operations::WEBHOOKS;
use crate::page::answer::{html, see_other, segment};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_host::render::words::plain;
use touchstone_kit::ids::WebhookId;
use touchstone_kit::webhook::{ENDINGS, SCHEME_STANDARD, SCHEME_V1};
use touchstone_openwop::wire::Major;
use touchstone_runs::ports::webhooks::WebhookRecord;

#[derive(Template)]
#[template(path = "operations/webhooks.html")]
struct Page {
    chrome: Chrome,
    rows: Vec<Row>,
    endings: [&'static str; 3],
}

pub struct Row {
    pub id: String,
    pub href: String,
    pub url: String,
    pub events: Vec<String>,
    pub tags: Vec<String>,
    pub state: Badge,
    pub failures: String,
    fingerprint: String,
    /// Until when the previous secret signs too.
    overlap: Option<Time>,
    /// Until when no delivery is attempted.
    pub open_until: Option<Time>,
    is_standard: bool,
    pub created: Time,
}

impl Row {
    pub fn of(webhook: &WebhookRecord, now: Timestamp) -> Self {
        let circuit = &webhook.circuit;
        let secrets = &webhook.secrets;
        let previous = secrets.overlapping(now).and(secrets.previous.as_ref());
        let recent = circuit.recent_failures(now);
        Self {
            id: webhook.id.to_string(),
            href: format!("{WEBHOOKS}/{}", segment(webhook.id.as_str())),
            url: plain(webhook.url.as_str()),
            events: webhook.events.iter().map(|it| plain(it)).collect(),
            tags: webhook.tags.iter().map(|it| plain(it)).collect(),
            state: match circuit.state(now) {
                "active" => Badge::good("Active"),
                "open" => Badge::warn("Paused after failures"),
                _ => Badge::bad("Stopped after failures"),
            },
            failures: match recent {
                0 => String::new(),
                _ => format!(
                    "{recent} recent failures, {} in a row",
                    circuit.consecutive_failures()
                ),
            },
            fingerprint: secrets.current.fingerprint(),
            overlap: previous.map(|(_, until)| (*until).into()),
            open_until: circuit.open_until(now).map(Time::from),
            is_standard: webhook.standard,
            created: webhook.created_at.into(),
        }
    }
}

/// `GET /console/webhooks`.
pub async fn page(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let found = api.runs.webhooks.list(visit.tenant()).await?;
    let now = api.host.clock.now();
    html(&Page {
        chrome: visit.chrome(Section::Webhooks),
        rows: found.iter().map(|it| Row::of(it, now)).collect(),
        endings: ENDINGS,
    })
}

/// The secret of a new subscription; no other page shows it.
#[derive(Template)]
#[template(path = "operations/new-webhook.html")]
struct New {
    chrome: Chrome,
    list: (&'static str, &'static str),
    url: String,
    secret: String,
}

/// `POST /console/webhooks`.
pub async fn register(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let url = form.required("url")?;
    let mut events: Vec<&str> = form.all("event").collect();
    events.extend(words(form.get("events")));
    let tags: Vec<&str> = words(form.get("tags")).collect();
    let mut body = json!({"url": url, "events": events, "tags": tags});
    if let (Some(secret), Some(members)) = (form.get("secret"), body.as_object_mut()) {
        let schemes = json!([SCHEME_V1, SCHEME_STANDARD]);
        members.insert("secret".to_owned(), Value::from(secret.trim()));
        members.insert("signatureAlgorithms".to_owned(), schemes);
    }
    let webhooks = &api.runs.webhooks;
    let new = webhooks.register(&visit.caller, &body, Major::V1).await?;
    match &new.secret {
        Some(secret) => html(&New {
            chrome: visit.chrome(Section::Webhooks),
            list: (WEBHOOKS, "Webhooks"),
            url: plain(new.webhook.url.as_str()),
            secret: secret.expose().to_owned(),
        }),
        None => Ok(see_other(&format!("{WEBHOOKS}?done=webhook-registered"))),
    }
}

/// Words between spaces and commas.
fn words(text: Option<&str>) -> impl Iterator<Item = &str> {
    let text = text.unwrap_or_default();
    text.split([' ', ',', '\n', '\r'])
        .filter(|word| !word.is_empty())
}

/// `POST /console/webhooks/{webhookId}/rotate`.
pub async fn rotate(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    form: Form,
) -> Answer {
    let id = WebhookId::from(path.get("webhookId"));
    let body = json!({"secret": form.required("secret")?});
    let webhooks = &api.runs.webhooks;
    webhooks.rotate(&visit.caller, None, &id, &body).await?;
    Ok(see_other(&format!("{WEBHOOKS}?done=webhook-rotated")))
}

/// `POST /console/webhooks/{webhookId}/remove`.
pub async fn remove(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let id = WebhookId::from(path.get("webhookId"));
    api.runs.webhooks.remove(&visit.caller, None, &id).await?;
    Ok(see_other(&format!("{WEBHOOKS}?done=webhook-removed")))
}
