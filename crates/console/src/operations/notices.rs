//! Webhooks that get the notices of ratings, and their deliveries.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use serde_json::json;

use crate::api::ConsoleApi;
use crate::operations::NOTICES;
use crate::operations::webhook::reason;
use crate::page::answer::{html, see_other, segment};
use crate::page::badge::Badge;
use crate::page::chrome::{Chrome, Section};
use crate::page::form::Form;
use crate::page::text::Time;
use crate::page::visit::Visit;
use crate::ratings::{membership, no_organization};
use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::{PathParameters, Query};
use touchstone_host::render::words::plain;
use touchstone_kit::webhook::Secret;
use touchstone_ratings::http::page::Page as ListPage;
use touchstone_ratings::ports::Position;
use touchstone_ratings::ports::notices::{DeliveryRecord, DeliveryState, NoticeWebhook};
use touchstone_ratings::rules::notice::schedule::DisabledReason;
use touchstone_ratings::rules::notice::{Registration, Topic};

/// More than an organization can have.
const WEBHOOKS: u32 = 100;

#[derive(Template)]
#[template(path = "operations/notices.html")]
struct Listing {
    chrome: Chrome,
    rows: Vec<Row>,
    topics: Vec<(&'static str, &'static str)>,
}

struct Row {
    id: String,
    href: String,
    url: String,
    state: Badge,
    is_disabled: bool,
    failing: Option<Time>,
    topics: String,
    fingerprint: String,
    overlap: Option<Time>,
    created: Time,
}

impl Row {
    fn of(webhook: &NoticeWebhook) -> Self {
        let disabled = webhook.health.disabled;
        let topics: Vec<&str> = webhook.events.iter().map(|it| topic(*it)).collect();
        Self {
            href: address(&webhook.id),
            url: plain(webhook.url.as_str()),
            state: match disabled {
                None if webhook.health.failing_since.is_some() => Badge::warn("Failing"),
                None => Badge::good("Active"),
                Some((DisabledReason::Gone, _)) => Badge::bad("Disabled, the address is gone"),
                Some((DisabledReason::Failing, _)) => Badge::bad("Disabled after failures"),
            },
            is_disabled: disabled.is_some(),
            failing: webhook.health.failing_since.map(Time::from),
            topics: match topics.len() == Topic::ALL.len() {
                true => "all notices".to_owned(),
                false => topics.join(", "),
            },
            fingerprint: webhook.secrets.fingerprint.clone(),
            overlap: webhook.secrets.previous.as_ref().map(|it| it.1.into()),
            created: webhook.created_at.into(),
            id: webhook.id.clone(),
        }
    }
}

fn address(id: &str) -> String {
    format!("{NOTICES}/{}", segment(id))
}

const fn topic(topic: Topic) -> &'static str {
    match topic {
        Topic::AssessmentStarted => "assessment started",
        Topic::AssessmentCompleted => "assessment completed",
        Topic::AssessmentFailed => "assessment failed",
        Topic::BadgeExpiring => "badge expires soon",
        Topic::BadgeExpired => "badge expired",
        Topic::AppealFiled => "appeal filed",
        Topic::AppealResolved => "appeal decided",
        Topic::EvidenceThresholdReached => "enough new evidence",
        Topic::ReassessmentOrdered => "reassessment requested",
        Topic::ReassessmentFailed => "reassessment failed",
        Topic::AgentCardScoreDropped => "score of an agent card dropped",
        Topic::AgentCardBelowThreshold => "score of an agent card too low",
    }
}

/// `GET /console/notices`.
pub async fn list(State(api): State<Arc<ConsoleApi>>, visit: Visit) -> Answer {
    let Some(member) = membership(&api, &visit).await? else {
        return no_organization(&visit);
    };
    let found = api
        .ratings
        .ratings
        .webhooks(&member, None, WEBHOOKS)
        .await?;
    html(&Listing {
        chrome: visit.chrome(Section::Webhooks),
        rows: found.iter().map(Row::of).collect(),
        topics: Topic::ALL
            .iter()
            .map(|it| (it.as_str(), topic(*it)))
            .collect(),
    })
}

/// A new secret; no other page shows it.
#[derive(Template)]
#[template(path = "operations/new-webhook.html")]
struct New {
    chrome: Chrome,
    list: (&'static str, &'static str),
    url: String,
    secret: String,
}

fn show_once(visit: &Visit, webhook: &NoticeWebhook, secret: &Secret) -> Answer {
    let mut chrome = visit.chrome(Section::Webhooks);
    // The page of the answer cannot be opened again.
    chrome.place = NOTICES.to_owned();
    html(&New {
        chrome,
        list: (NOTICES, "Rating notices"),
        url: plain(webhook.url.as_str()),
        secret: secret.expose().to_owned(),
    })
}

/// `POST /console/notices`.
pub async fn create(State(api): State<Arc<ConsoleApi>>, visit: Visit, form: Form) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = ratings.member(visit.caller.clone(), true).await?;
    let events: Vec<&str> = form.all("event").collect();
    let asked = Registration::parse(&json!({"url": form.required("url")?, "events": events}))?;
    let new = ratings.create_webhook(&member, asked).await?;
    show_once(&visit, &new.webhook, &new.secret)
}

#[derive(Template)]
#[template(path = "operations/notice.html")]
struct Page {
    chrome: Chrome,
    row: Row,
    deliveries: Vec<Delivery>,
    is_first: bool,
    next: Option<String>,
}

struct Delivery {
    again: String,
    at: Time,
    topic: &'static str,
    state: Badge,
    attempts: u32,
    last: Option<(Time, String)>,
    due: Option<Time>,
    is_pending: bool,
}

impl Delivery {
    fn of(record: &DeliveryRecord, href: &str) -> Self {
        let last = record.last.as_ref();
        Self {
            again: format!("{href}/deliveries/{}/redeliver", segment(&record.id)),
            at: record.created_at.into(),
            topic: topic(record.topic),
            state: match record.state {
                DeliveryState::Pending => Badge::info("Waiting"),
                DeliveryState::Delivered => Badge::good("Delivered"),
                DeliveryState::Failed => Badge::bad("Failed"),
            },
            attempts: record.attempts,
            last: last.map(|(at, outcome)| ((*at).into(), reason(outcome))),
            due: record.due_at.map(Time::from),
            is_pending: record.state == DeliveryState::Pending,
        }
    }
}

/// `GET /console/notices/{noticeId}`.
pub async fn page(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
    query: Query,
) -> Answer {
    let Some(member) = membership(&api, &visit).await? else {
        return no_organization(&visit);
    };
    let ratings = &api.ratings.ratings;
    let webhook = ratings.webhook(&member, path.get("noticeId")).await?;
    let page = ListPage::<Position>::of(&query)?;
    let (after, limit) = (page.after.as_ref(), page.fetch_limit());
    let found = ratings
        .deliveries(&member, &webhook.id, after, limit)
        .await?;
    let href = address(&webhook.id);
    let (shown, next) = page.split(found, DeliveryRecord::position);
    html(&Page {
        chrome: visit.chrome(Section::Webhooks),
        row: Row::of(&webhook),
        deliveries: shown.iter().map(|it| Delivery::of(it, &href)).collect(),
        is_first: page.after.is_none(),
        next: next.map(|next| format!("{href}?cursor={next}")),
    })
}

/// `POST /console/notices/{noticeId}/deliveries/{deliveryId}/redeliver`.
pub async fn redeliver(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = ratings.member(visit.caller.clone(), true).await?;
    let (id, delivery) = (path.get("noticeId"), path.get("deliveryId"));
    ratings.redeliver(&member, id, delivery).await?;
    Ok(done(id, "notice-redelivered"))
}

/// `POST /console/notices/{noticeId}/enable`.
pub async fn enable(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = ratings.member(visit.caller.clone(), true).await?;
    let id = path.get("noticeId");
    ratings.enable_webhook(&member, id).await?;
    Ok(done(id, "notice-enabled"))
}

/// `POST /console/notices/{noticeId}/rotate`.
pub async fn rotate(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = ratings.member(visit.caller.clone(), true).await?;
    let new = ratings
        .rotate_webhook(&member, path.get("noticeId"))
        .await?;
    show_once(&visit, &new.webhook, &new.secret)
}

/// `POST /console/notices/{noticeId}/remove`.
pub async fn remove(
    State(api): State<Arc<ConsoleApi>>,
    visit: Visit,
    path: PathParameters,
) -> Answer {
    let ratings = &api.ratings.ratings;
    let member = ratings.member(visit.caller.clone(), true).await?;
    ratings
        .remove_webhook(&member, path.get("noticeId"))
        .await?;
    Ok(see_other(&format!("{NOTICES}?done=notice-removed")))
}

fn done(id: &str, name: &str) -> axum::response::Response {
    see_other(&format!("{}?done={name}", address(id)))
}
