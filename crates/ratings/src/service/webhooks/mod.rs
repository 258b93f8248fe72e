//! Webhooks of organizations (AAAF S13): created, rotated, deleted, enabled, and their deliveries.
//! The [deliverer](deliveries) makes the deliveries.

pub mod deliveries;
pub mod lag;

use jiff::Timestamp;
use tracing::info;

use crate::ports::Position;
use crate::ports::notices::{DeliveryRecord, NoticeWebhook, Redelivery, SealedSecrets};
use crate::rules::notice::Registration;
use crate::rules::notice::schedule::EndpointHealth;
use crate::service::{Member, Ratings, changed_concurrently, is_id, not_found};
use crate::store;
use touchstone_host::audit::Decision;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_host::store::audit::record_alone;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::sealing::owner;
use touchstone_kit::webhook::Secret;
use touchstone_runs::ports::webhooks::DeliveryError;
use touchstone_runs::service::webhooks::OVERLAP;

/// Maximum number of webhooks of an organization.
const MAX_WEBHOOKS: u32 = 50;

/// A webhook with a new secret, which is shown only now.
#[derive(Debug)]
pub struct WebhookWithSecret {
    pub webhook: NoticeWebhook,
    pub secret: Secret,
}

impl Ratings {
    /// Creates a webhook.
    ///
    /// # Errors
    /// `webhook_url_rejected`; `conflict` at the organization's limit of webhooks.
    pub async fn create_webhook(
        &self,
        member: &Member,
        registration: Registration,
    ) -> Result<WebhookWithSecret, Problem> {
        self.notifier
            .admit(&registration.url)
            .await
            .map_err(|cause| {
                let reason = match cause {
                    DeliveryError::Refused(reason) => reason,
                    DeliveryError::Failed(_) => "the URL cannot receive deliveries",
                };
                Problem::new(ErrorCode::WebhookUrlRejected, reason).with("field", "url")
            })?;
        let id = self.fresh_id();
        let (secret, current) = self.fresh_secret(&id)?;
        let webhook = NoticeWebhook {
            organization: member.organization.number,
            id,
            url: registration.url,
            events: registration.events,
            secrets: SealedSecrets {
                current,
                fingerprint: secret.fingerprint(),
                previous: None,
            },
            created_at: self.clock.now(),
            health: EndpointHealth::default(),
        };
        let added = store::notices::add_notice_webhook(&self.store, &webhook, MAX_WEBHOOKS).await;
        if !added.map_err(|cause| internal(&cause))? {
            let message = format!(
                "the organization already has {MAX_WEBHOOKS} webhooks; remove one \
                first"
            );
            return Err(Problem::new(ErrorCode::Conflict, message).with("limit", MAX_WEBHOOKS));
        }
        info!(
            webhook_id = webhook.id,
            secret = webhook.secrets.fingerprint,
            "a webhook of an organization was created"
        );
        // The path of an address may hold a secret.
        let place = webhook.url.origin().ascii_serialization();
        let reasons = vec![format!("address: {place}")];
        self.note(member, "notices:create", &webhook.id, reasons)
            .await?;
        Ok(WebhookWithSecret { webhook, secret })
    }

    /// A webhook of the organization.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn webhook(&self, member: &Member, id: &str) -> Result<NoticeWebhook, Problem> {
        if !is_id(id) {
            return Err(not_found("webhook"));
        }
        let organization = member.organization.number;
        let found = store::notices::notice_webhook(&self.store, organization, id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        found.ok_or_else(|| not_found("webhook"))
    }

    /// Webhooks of the organization, in the order of creation.
    ///
    /// # Errors
    /// The store failed.
    pub async fn webhooks(
        &self,
        member: &Member,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<NoticeWebhook>, Problem> {
        let organization = member.organization.number;
        let found = store::notices::notice_webhooks(&self.store, organization, after, limit);
        found.await.map_err(|cause| internal(&cause))
    }

    /// Deletes a webhook and its deliveries. An attempt in progress may still arrive.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn remove_webhook(&self, member: &Member, id: &str) -> Result<(), Problem> {
        let webhook = self.webhook(member, id).await?;
        let removed =
            store::notices::remove_notice_webhook(&self.store, webhook.organization, id).await;
        match removed.map_err(|cause| internal(&cause))? {
            true => self.note(member, "notices:remove", id, Vec::new()).await,
            false => Err(not_found("webhook")),
        }
    }

    /// Gives a webhook a new secret. The previous secret keeps signing for a day; the one before
    /// that stops at once.
    ///
    /// # Errors
    /// `not_found`; `conflict` if it was rotated concurrently.
    pub async fn rotate_webhook(
        &self,
        member: &Member,
        id: &str,
    ) -> Result<WebhookWithSecret, Problem> {
        let mut webhook = self.webhook(member, id).await?;
        let (secret, current) = self.fresh_secret(id)?;
        let until = self.clock.now().checked_add(OVERLAP);
        let before = webhook.secrets.current.clone();
        let secrets = SealedSecrets {
            current,
            fingerprint: secret.fingerprint(),
            previous: Some((before, until.unwrap_or(Timestamp::MAX))),
        };
        match store::notices::rotate_notice_webhook(&self.store, &webhook, &secrets).await {
            Ok(()) => {}
            Err(StoreError::Stale) => return Err(changed_concurrently("webhook")),
            Err(cause) => return Err(internal(&cause)),
        }
        info!(
            webhook_id = id,
            secret = secrets.fingerprint,
            "the secret of a webhook was rotated"
        );
        let reasons = vec![format!("secret: {}", secrets.fingerprint)];
        self.note(member, "notices:rotate", id, reasons).await?;
        webhook.secrets = secrets;
        Ok(WebhookWithSecret { webhook, secret })
    }

    /// Enables a disabled webhook.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn enable_webhook(
        &self,
        member: &Member,
        id: &str,
    ) -> Result<NoticeWebhook, Problem> {
        let webhook = self.webhook(member, id).await?;
        let enabled =
            store::notices::enable_notice_webhook(&self.store, webhook.organization, id).await;
        if !enabled.map_err(|cause| internal(&cause))? {
            return Err(not_found("webhook"));
        }
        self.note(member, "notices:enable", id, Vec::new()).await?;
        self.webhook(member, id).await
    }

    /// Deliveries to a webhook, in the order of their messages.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn deliveries(
        &self,
        member: &Member,
        id: &str,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<DeliveryRecord>, Problem> {
        let organization = self.webhook(member, id).await?.organization;
        let found = store::notices::deliveries(&self.store, organization, id, after, limit);
        found.await.map_err(|cause| internal(&cause))
    }

    /// Makes a delivery due again, under the unchanged id of its message.
    ///
    /// # Errors
    /// `not_found`; `conflict` while the webhook is disabled.
    pub async fn redeliver(
        &self,
        member: &Member,
        id: &str,
        delivery: &str,
    ) -> Result<DeliveryRecord, Problem> {
        let organization = self.webhook(member, id).await?.organization;
        if !is_id(delivery) {
            return Err(not_found("delivery"));
        }
        let now = self.clock.now();
        let again = store::notices::redeliver(&self.store, organization, id, delivery, now).await;
        match again.map_err(|cause| internal(&cause))? {
            Redelivery::Due(delivery) => {
                self.store.notify_work().await;
                let reasons = vec![format!("delivery: {}", delivery.id)];
                self.note(member, "notices:redeliver", id, reasons).await?;
                Ok(delivery)
            }
            Redelivery::Unknown => Err(not_found("delivery")),
            Redelivery::Disabled => Err(Problem::new(
                ErrorCode::Conflict,
                "this webhook is disabled; enable it first with `POST \
                /api/v1/webhooks/{id}/enable`",
            )),
        }
    }

    /// Records in the audit log of the organization what a member did to a webhook.
    async fn note(
        &self,
        member: &Member,
        action: &str,
        id: &str,
        reasons: Vec<String>,
    ) -> Result<(), Problem> {
        let (now, principal) = (self.clock.now(), &member.caller.principal);
        let decision = Decision::done(now, principal, action, id.to_owned()).because(reasons);
        let noted = record_alone(&self.store, &member.organization.tenant, &decision).await;
        noted.map_err(|cause| internal(&cause))
    }

    /// A new secret, in plain text and encrypted.
    fn fresh_secret(&self, id: &str) -> Result<(Secret, String), Problem> {
        let secret = Secret::minted_standard(self.ids.secret());
        let owner = owner::notice_webhook(id);
        let sealed = self.vault.seal(&owner, secret.expose().as_bytes());
        let sealed = sealed.map_err(|cause| internal(&cause))?;
        Ok((secret, sealed))
    }
}
