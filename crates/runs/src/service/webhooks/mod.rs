//! Webhook subscriptions: register, list, rotate, remove (OpenWOP webhooks, RFC 0201). The
//! [dispatcher](dispatcher) delivers.

pub mod deliveries;
pub mod dispatcher;
mod message;
mod session;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::info;
use url::Url;

use crate::ports::webhooks::{DeliveryError, WebhookRecord};
use crate::store;
use crate::webhook_client::{DELIVER_WITHIN, WebhookClient};
use touchstone_host::audit::Decision;
use touchstone_host::background::spawn;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_host::store::audit::record_alone;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{TenantId, WebhookId};
use touchstone_kit::webhook::registration::{Registration, parse_rotation};
use touchstone_kit::webhook::{Circuit, Delivery, ENDINGS, SCHEME_STANDARD, Secret, Secrets};
use touchstone_openwop::wire::Major;

/// Maximum number of subscriptions per tenant.
const MOST: u32 = 100;
/// How long the previous secret signs after a rotation.
pub const OVERLAP: SignedDuration = SignedDuration::from_hours(24);
/// How long a removal waits for a replica that serves the subscription: for an attempt, and for the
/// store. A replica that was killed never says that it has stopped.
const STOP_WITHIN: Duration = DELIVER_WITHIN.saturating_add(Duration::from_secs(5));
const POLL_EVERY: Duration = Duration::from_millis(10);

/// A new subscription. Its secret is available only here.
#[derive(Debug)]
pub struct Registered {
    pub webhook: WebhookRecord,
    /// Its secret, unless the subscriber supplied it (RFC 0201 §B). Under OpenWOP v1, a subscription
    /// without Standard Webhooks shows that too.
    pub secret: Option<Secret>,
    /// `signatureAlgorithms`, if requested.
    pub schemes: Option<Vec<String>>,
}

/// The result of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// When the new secret started signing.
    pub at: Timestamp,
    /// When the previous secret stops signing.
    pub previous_until: Timestamp,
}

pub struct Webhooks {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    notifier: Arc<WebhookClient>,
}

impl Webhooks {
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        notifier: Arc<WebhookClient>,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            notifier,
        }
    }

    /// Creates a subscription, whose deliveries have the form of the major. With Standard Webhooks,
    /// the endpoint must agree first.
    ///
    /// # Errors
    /// `validation_error`, `forbidden`, `webhook_url_rejected`, `webhook_endpoint_unverified`;
    /// `conflict` if the tenant has the maximum number of subscriptions.
    pub async fn register(
        &self,
        caller: &Caller,
        body: &Value,
        major: Major,
    ) -> Result<Registered, Problem> {
        let asked = Registration::parse(body)?;
        own_tenant(caller, asked.tenant_id.as_deref())?;
        self.admit("url", &asked.url).await?;
        let standard = asked.is_standard();
        let is_shown = match major {
            Major::V1 => !standard,
            Major::V2 => asked.secret.is_none(),
        };
        let secret = match asked.secret {
            Some(secret) => secret,
            None => Secret::minted(self.ids.secret()),
        };
        let webhook = WebhookRecord {
            id: WebhookId::from(self.ids.mint("wh")),
            tenant: caller.tenant.clone(),
            url: asked.url,
            events: asked.events,
            tags: asked.tags,
            standard,
            contract: major,
            secrets: Secrets::of(secret.clone()),
            created_by: caller.key_id.to_string(),
            created_at: self.clock.now(),
            circuit: Circuit::default(),
        };
        if standard {
            self.verify(&webhook).await?;
        }
        let added = store::webhooks::create(&self.store, &webhook, MOST)
            .await
            .map_err(|cause| internal(&cause))?;
        if !added {
            return Err(Problem::new(
                ErrorCode::LimitReached,
                format!("this tenant already has {MOST} webhook subscriptions; remove one first"),
            )
            .with("limit", MOST));
        }
        info!(webhook_id = %webhook.id, secret = secret.fingerprint(), "webhook registered");
        // The path of an address may hold a secret.
        let place = webhook.url.origin().ascii_serialization();
        let reasons = vec![format!("address: {place}")];
        self.note(caller, "webhooks:register", &webhook.id, reasons)
            .await?;
        Ok(Registered {
            webhook,
            secret: is_shown.then_some(secret),
            schemes: asked.schemes,
        })
    }

    /// A subscription to the end of a single run, to be recorded with the run.
    ///
    /// # Errors
    /// `webhook_url_rejected`.
    pub async fn callback(&self, caller: &Caller, url: Url) -> Result<WebhookRecord, Problem> {
        self.admit("callbackUrl", &url).await?;
        Ok(WebhookRecord {
            id: WebhookId::from(self.ids.mint("wh")),
            tenant: caller.tenant.clone(),
            url,
            events: ENDINGS.map(str::to_owned).to_vec(),
            tags: Vec::new(),
            standard: false,
            contract: Major::V1,
            secrets: Secrets::of(Secret::minted(self.ids.secret())),
            created_by: caller.key_id.to_string(),
            created_at: self.clock.now(),
            circuit: Circuit::default(),
        })
    }

    async fn admit(&self, field: &str, url: &Url) -> Result<(), Problem> {
        self.notifier.admit(url).await.map_err(|cause| {
            let reason = match cause {
                DeliveryError::Refused(reason) => reason,
                DeliveryError::Failed(_) => "this host cannot send deliveries to the URL",
            };
            rejected(field, reason)
        })
    }

    /// All subscriptions of a tenant, oldest first.
    ///
    /// # Errors
    /// The store failed.
    pub async fn list(&self, tenant: &TenantId) -> Result<Vec<WebhookRecord>, Problem> {
        store::webhooks::list(&self.store, tenant)
            .await
            .map_err(|cause| internal(&cause))
    }

    /// Removes a subscription. Nothing is delivered afterwards.
    ///
    /// # Errors
    /// `forbidden` for another tenant's `tenantId`; `subscription_not_found`.
    ///
    /// # Cancel safety
    /// The removal continues.
    pub async fn remove(
        &self,
        caller: &Caller,
        tenant_id: Option<&str>,
        id: &WebhookId,
    ) -> Result<(), Problem> {
        own_tenant(caller, tenant_id)?;
        let (store, tenant, id) = (self.store.clone(), caller.tenant.clone(), id.clone());
        let named = id.clone();
        let removal = spawn("webhook removal", async move {
            remove(&store, &tenant, &named).await
        });
        let removed = removal.await.map_err(|cause| internal(&cause))?;
        let removed = removed.map_err(|cause| internal(&cause))?;
        let removed = removed.map_err(|cause| internal(&cause))?;
        let id = &id;
        match removed {
            true => self.note(caller, "webhooks:remove", id, Vec::new()).await,
            false => Err(not_found()),
        }
    }

    /// Replaces the secret; the previous one also signs for a day (RFC 0201 §E).
    ///
    /// # Errors
    /// `forbidden`, `subscription_not_found`; `validation_error` for a malformed secret, or a
    /// subscription whose scheme allows only one signature.
    pub async fn rotate(
        &self,
        caller: &Caller,
        tenant_id: Option<&str>,
        id: &WebhookId,
        body: &Value,
    ) -> Result<Rotated, Problem> {
        own_tenant(caller, tenant_id)?;
        let webhook = self.webhook(caller, id).await?;
        if !webhook.standard {
            return Err(Problem::validation(
                "signatureAlgorithms",
                format!(
                    "only secrets of subscriptions with `{SCHEME_STANDARD}` can be rotated; \
                     register a new subscription and remove this one"
                ),
            ));
        }
        let new = parse_rotation(body)?;
        let at = self.clock.now();
        let previous_until = at.checked_add(OVERLAP).unwrap_or(Timestamp::MAX);
        let known = webhook.secrets;
        let fingerprint = new.fingerprint();
        let secrets = known.clone().rotated(new, previous_until);
        let rotated =
            store::webhooks::replace_secrets(&self.store, &caller.tenant, id, &known, &secrets)
                .await
                .map_err(|cause| internal(&cause))?;
        if !rotated {
            return Err(Problem::new(
                ErrorCode::VersionConflict,
                "the subscription has changed since it was read; read it again and retry",
            ));
        }
        info!(webhook_id = %id, secret = fingerprint, "webhook secret rotated");
        let reasons = vec![format!("secret: {fingerprint}")];
        self.note(caller, "webhooks:rotate", id, reasons).await?;
        Ok(Rotated { at, previous_until })
    }

    /// Records in the audit log what a caller did to a subscription.
    async fn note(
        &self,
        caller: &Caller,
        action: &str,
        id: &WebhookId,
        reasons: Vec<String>,
    ) -> Result<(), Problem> {
        let now = self.clock.now();
        let decision = Decision::done(now, &caller.principal, action, id.to_string());
        let decision = decision.because(reasons);
        let noted = record_alone(&self.store, &caller.tenant, &decision).await;
        noted.map_err(|cause| internal(&cause))
    }

    /// Verifies that the endpoint wants deliveries: it must echo a challenge.
    async fn verify(&self, webhook: &WebhookRecord) -> Result<(), Problem> {
        let challenge = URL_SAFE_NO_PAD.encode(self.ids.secret());
        let request = Delivery::verification(
            &self.ids.mint("msg"),
            &challenge,
            &webhook.secrets,
            self.clock.now(),
        );
        let answer = self
            .notifier
            .request(&webhook.url, &request.headers, Bytes::from(request.body))
            .await;
        let agreed = match &answer {
            Ok(body) => serde_json::from_slice::<Value>(body).is_ok_and(|body| {
                body.get("challenge").and_then(Value::as_str) == Some(&challenge)
            }),
            Err(DeliveryError::Refused(reason)) => return Err(rejected("url", reason)),
            Err(DeliveryError::Failed(_)) => false,
        };
        if agreed {
            return Ok(());
        }
        Err(Problem::new(
            ErrorCode::WebhookEndpointUnverified,
            "the endpoint did not echo the challenge of the verification request; answer it with \
             200 and {\"challenge\": …}, then register again",
        )
        .with("field", "url"))
    }
}

/// Removes a subscription after the replica that serves it has stopped; `false` if it does not exist.
async fn remove(store: &Database, tenant: &TenantId, id: &WebhookId) -> Result<bool, StoreError> {
    let Some(mut is_served) = store::webhooks::stop(store, tenant, id).await? else {
        return Ok(false);
    };
    let give_up = Instant::now() + STOP_WITHIN;
    while is_served && Instant::now() < give_up {
        sleep(POLL_EVERY).await;
        is_served = store::webhooks::is_served(store, tenant, id).await?;
    }
    store::webhooks::remove(store, tenant, id).await
}

/// The key determines the tenant; a named tenant must be the same.
fn own_tenant(caller: &Caller, named: Option<&str>) -> Result<(), Problem> {
    match named {
        Some(tenant) if tenant != caller.tenant.as_str() => Err(Problem::new(
            ErrorCode::Forbidden,
            "`tenantId` is not the tenant of this key; leave it out",
        )
        .with("field", "tenantId")),
        _ => Ok(()),
    }
}

fn rejected(field: &str, reason: &'static str) -> Problem {
    Problem::new(ErrorCode::WebhookUrlRejected, reason).with("field", field)
}

fn not_found() -> Problem {
    Problem::new(
        ErrorCode::SubscriptionNotFound,
        "no such webhook subscription",
    )
}
