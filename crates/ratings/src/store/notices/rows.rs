//! Conversions between domain types and columns.

use crate::ports::notices::{
    DeliveryRecord, DeliveryState, DueDelivery, NoticeClaim, NoticeWebhook, SealedSecrets,
};
use crate::ports::organizations::OrganizationNumber;
use crate::rules::notice::Topic;
use crate::rules::notice::schedule::{DisabledReason, EndpointHealth};
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::{Column, column};
use touchstone_host::store::sql;
use touchstone_host::store::sql::{FromColumn as _, FromRow};

pub(super) fn at(name: &'static str) -> Column {
    column("rating_webhook", name)
}

pub(super) fn of_delivery(name: &'static str) -> Column {
    column("rating_delivery", name)
}

pub(super) fn topics(events: &str) -> Result<Vec<Topic>, StoreError> {
    let names: Vec<String> = at("events").document(events)?;
    let topics = names.iter().map(|name| Topic::parse(name));
    let topics: Option<Vec<Topic>> = topics.collect();
    topics.ok_or_else(|| at("events").inconsistent())
}

pub(super) type Row = (
    i64,
    String,
    String,
    String,
    String,
    String,
    Option<String>,
    Option<i64>,
    i64,
    Option<i64>,
    Option<i64>,
    Option<String>,
);

/// The columns of [`Row`], then the fence of the claim.
pub(super) struct Claimed(Row, i64);

impl FromRow for Claimed {
    fn from_row(row: &sql::Row<'_>) -> Result<Self, sqlx::Error> {
        Ok(Self(Row::from_row(row)?, i64::from_column(row, 12)?))
    }
}

pub(super) fn record_of(row: Row) -> Result<NoticeWebhook, StoreError> {
    let (organization, id, url, events, current, fingerprint, previous, until, ..) = row;
    let (.., created_at, failing_since, disabled_at, disabled) = row;
    let time = |name| move |micros| at(name).time(micros);
    let previous = match (previous, until) {
        (Some(secret), Some(until)) => Some((secret, at("previous_until").time(until)?)),
        _ => None,
    };
    let disabled = match (disabled, disabled_at) {
        (Some(why), Some(since)) => {
            let why = DisabledReason::parse(&why).ok_or_else(|| at("disabled").inconsistent())?;
            Some((why, at("disabled_at").time(since)?))
        }
        _ => None,
    };
    Ok(NoticeWebhook {
        organization: OrganizationNumber(organization),
        id,
        url: url.parse().map_err(|_| at("url").inconsistent())?,
        events: topics(&events)?,
        secrets: SealedSecrets {
            current,
            fingerprint,
            previous,
        },
        created_at: at("created_at").time(created_at)?,
        health: EndpointHealth {
            failing_since: failing_since.map(time("failing_since")).transpose()?,
            disabled,
        },
    })
}

pub(super) fn claim_of(row: Claimed) -> Result<NoticeClaim, StoreError> {
    let Claimed(webhook, fence) = row;
    Ok(NoticeClaim {
        webhook: record_of(webhook)?,
        fence: Fence(fence),
    })
}

pub(super) type DeliveryRow = (
    String,
    String,
    String,
    String,
    i64,
    Option<i64>,
    Option<i64>,
    Option<String>,
    i64,
);

pub(super) fn delivery_of(row: DeliveryRow) -> Result<DeliveryRecord, StoreError> {
    let (id, message, topic, state, attempts, due_at, attempted_at, outcome, created_at) = row;
    let time = |name| move |micros| of_delivery(name).time(micros);
    let last = match (attempted_at, outcome) {
        (Some(when), Some(outcome)) => Some((of_delivery("attempted_at").time(when)?, outcome)),
        _ => None,
    };
    Ok(DeliveryRecord {
        id,
        message,
        topic: Topic::parse(&topic)
            .ok_or_else(|| column("rating_notice", "topic").inconsistent())?,
        state: DeliveryState::parse(&state).ok_or_else(|| of_delivery("state").inconsistent())?,
        attempts: of_delivery("attempts").number(attempts)?,
        due_at: due_at.map(time("due_at")).transpose()?,
        last,
        created_at: of_delivery("created_at").time(created_at)?,
    })
}

pub(super) fn due_of(row: (String, String, String, i64)) -> Result<DueDelivery, StoreError> {
    let (id, message, body, attempts) = row;
    Ok(DueDelivery {
        id,
        message,
        body,
        attempts: of_delivery("attempts").number(attempts)?,
    })
}
