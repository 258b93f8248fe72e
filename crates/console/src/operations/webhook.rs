//! One webhook: its last deliveries, sending one again, and the events that were given up.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use crate::api::ConsoleApi;
use crate::operations::WEBHOOKS;
use crate::operations::webhooks::Row;
use crate::page::answer::{html, see_other, segment};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::text::{Time, latency};
use crate::page::visit::Visit;
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::WebhookId;
use touchstone_runs::ports::webhooks::{DeadLetter, DeliveryRecord, DeliveryState, GivenUp};

/// Deliveries of a page.
const DELIVERIES: usize = 50;
/// Given-up events of a page. The command and the API list all.
const DEAD_LETTERS: usize = 20;
/// Larger than every number of a delivery.
const MAX_NUMBER: u64 = 1 << 53;

#[derive(Template)]
#[template(path = "operations/webhook.html")]
struct Page {
    chrome: Chrome,
    row: Row,
    deliveries: Vec<Attempt>,
    is_first: bool,
    next: Option<String>,
    given_up: Vec<Letter>,
    has_more_given_up: bool,
}

/// An event that was given up.
struct Letter {
    at: Time,
    event: String,
    run: String,
    why: String,
}

impl Letter {
    fn of(letter: &DeadLetter) -> Self {
        let status = letter.last_status;
        let last = status.map_or(String::new(), |it| format!(", the last with HTTP {it}"));
        Self {
            at: letter.dead_lettered_at.into(),
            event: plain(&letter.event_type),
            run: letter.run_id.to_string(),
            why: match letter.reason {
                GivenUp::RetriesExhausted => format!("attempts: {}{last}", letter.attempts),
                GivenUp::PayloadUnprojectable => {
                    "the event has no form in the subscription's version of OpenWOP".to_owned()
                }
            },
        }
    }
}

struct Attempt {
    replay: String,
    number: u64,
    at: Time,
    event: String,
    run: String,
    sequence: u64,
    state: Badge,
    took: String,
    attempts: u32,
    is_replay: bool,
}

impl Attempt {
    fn of(record: &DeliveryRecord, href: &str) -> Self {
        let status = record.status.map(|status| format!("HTTP {status}"));
        let why = record.error.as_deref().map(reason);
        let why = status.or(why).unwrap_or_default();
        Self {
            replay: format!("{href}/deliveries/{}/replay", record.number),
            number: record.number,
            at: record.at.into(),
            event: plain(&record.event_type),
            run: record.run_id.to_string(),
            sequence: record.sequence,
            state: match record.state {
                DeliveryState::Delivered => Badge::good(format!("Delivered, {why}")),
                DeliveryState::Failed => Badge::bad(format!("Failed, {why}")),
                DeliveryState::Refused => Badge::bad(format!("Not sent, {why}")),
            },
            took: latency(Some(record.took_ms)),
            attempts: record.attempts,
            is_replay: record.replay,
        }
    }
}

/// A label of a failed request in words.
pub fn reason(label: &str) -> String {
    if let Some(status) = label.strip_prefix("status_") {
        return format!("HTTP {}", plain(status));
    }
    let text = match label {
        "timeout" => "no answer in time",
        "connect" => "no connection",
        "dns" => "the name has no address",
        "tls" => "no secure connection",
        "reset" => "the connection was closed",
        "redirect" => "the answer was a redirect",
        "not_http" => "the answer was not HTTP",
        "address_not_allowed" | "blocked_address" => "the address is not allowed",
        other => return plain(other),
    };
    text.to_owned()
}

fn address(id: &WebhookId) -> String {
    format!("{WEBHOOKS}/{}", segment(id.as_str()))
}

/// `GET /console/webhooks/{webhookId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    query: Query,
) -> Answer {
    let id = WebhookId::from(path.get("webhookId"));
    let before = query.filled().whole("before", 1, MAX_NUMBER)?;
    let webhooks = &api.runs.webhooks;
    let webhook = webhooks.webhook(&visit.caller, &id).await?;
    let found = webhooks.deliveries(&visit.caller, &id, before, DELIVERIES);
    let found = found.await?;
    let letters = webhooks.dead_letters(&visit.caller, &id, None, DEAD_LETTERS);
    let letters = letters.await?;
    let href = address(&id);
    let shown = found.deliveries.iter();
    html(&Page {
        chrome: visit.chrome(Section::Webhooks),
        row: Row::of(&webhook, api.host.clock.now()),
        deliveries: shown.map(|it| Attempt::of(it, &href)).collect(),
        is_first: before.is_none(),
        next: found.next.map(|next| format!("{href}?before={next}")),
        given_up: letters.letters.iter().map(Letter::of).collect(),
        has_more_given_up: letters.next.is_some(),
    })
}

/// `POST /console/webhooks/{webhookId}/deliveries/{number}/replay`.
pub async fn replay(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let id = WebhookId::from(path.get("webhookId"));
    let number = path.get("number").parse();
    let number = number.map_err(|_| Problem::new(ErrorCode::NotFound, "no such delivery"))?;
    let made = api.runs.webhooks.replay(&visit.caller, &id, number).await?;
    let done = match made.state {
        DeliveryState::Delivered => "delivery-sent",
        DeliveryState::Failed | DeliveryState::Refused => "delivery-failed",
    };
    Ok(see_other(&format!("{}?done={done}", address(&id))))
}
