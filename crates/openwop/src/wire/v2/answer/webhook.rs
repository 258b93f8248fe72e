//! Answers about webhook subscriptions.

use serde_json::Value;

use super::{Closed, each};
use crate::wire::id::bound;
use crate::wire::v2::names;
use crate::wire::v2::translation::{Context, Unprojectable};

/// A new subscription. A secret that the caller sent is not repeated: its member is empty, because
/// the published client requires it.
pub fn registered(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut made = Closed::of("WebhookRegistered", body)?;
    let id = made.bind(context, "webhookId")?;
    made.put("subscriptionId", bound(context.tenant, &id));
    made.keep(&["url", "createdAt"])?;
    let secret = made.take("secret").unwrap_or_else(|| "".into());
    made.put("secret", secret);
    let names = made.list("events")?;
    let names = each(names, |name| event_type(&name))?;
    made.put("eventTypes", names);
    made.keep_any(&["signatureAlgorithms"]);
    Ok(made.done())
}

pub fn rotated(body: Value) -> Result<Value, Unprojectable> {
    let mut rotated = Closed::of("WebhookSecretRotated", body)?;
    rotated.keep(&["rotatedAt", "previousSecretExpiresAt"])?;
    Ok(rotated.done())
}

/// Deliveries that were given up. They name an event, and have nothing of its content.
pub fn dead_letters(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut page = Closed::of("WebhookDeadLetters", body)?;
    let deliveries = page.list("deliveries")?;
    page.put(
        "deliveries",
        each(deliveries, |one| delivery(context, one))?,
    );
    page.keep_any(&["nextCursor"]);
    Ok(page.done())
}

fn delivery(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut delivery = Closed::of("WebhookDeadLetter", body)?;
    for id in ["deliveryId", "webhookId", "runId"] {
        delivery.bind(context, id)?;
    }
    delivery.keep(&[
        "eventId",
        "attempts",
        "deadLetteredAt",
        "expiresAt",
        "reason",
    ])?;
    let kind = delivery.needed("eventType")?;
    delivery.put("eventType", event_type(&kind)?);
    delivery.keep_any(&["lastStatus"]);
    Ok(delivery.done())
}

/// The name of a stored event type.
fn event_type(stored: &Value) -> Result<Value, Unprojectable> {
    let name = stored.as_str().and_then(names::projected);
    name.map(Value::from).ok_or_else(|| Unprojectable {
        of: "EventType".to_owned(),
        keys: stored.as_str().map(str::to_owned).into_iter().collect(),
    })
}
