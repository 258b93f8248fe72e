//! The keys that sign an organization's badges (AAAF S12): rotation, and revocation of everything a
//! compromised key signed.

use crate::credential::did::multibase;
use crate::ports::badges::{IssuerKeyRecord, Retirement, Revocation};
use crate::ports::organizations::OrganizationRecord;
use crate::rules::badge::RevocationReason;
use crate::service::{Ratings, changed_concurrently, is_operator};
use crate::store;
use touchstone_host::access::Scope;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::{Caller, authorise};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::keys::PublicKey;

/// A request to retire a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// The key to retire; `None` for the current one.
    pub key: Option<PublicKey>,
    /// Whether the key was exposed.
    pub compromised: bool,
}

/// The result of a rotation.
#[derive(Debug)]
pub struct Rotated {
    /// Every key of the organization, oldest first.
    pub keys: Vec<IssuerKeyRecord>,
    /// Number of revoked badges.
    pub revoked: u64,
}

impl Ratings {
    /// Replaces the current key. Badges signed by the old key stay valid, unless the key is
    /// compromised: then all of them are revoked.
    ///
    /// # Errors
    /// `not_found`; `forbidden`, also for an agent's own key; `validation_error` for a key of
    /// another organization; `conflict` for a key that is already retired or compromised, or if
    /// nothing was signed yet.
    pub async fn rotate_issuer_key(
        &self,
        caller: &Caller,
        id: &str,
        rotation: Rotation,
    ) -> Result<Rotated, Problem> {
        let organization = self.changeable(caller, id).await?;
        let why = "an agent's own key cannot replace the keys that sign badges; use another principal's key";
        self.reject_agent_keys(caller, &organization, why).await?;
        if rotation.compromised && !is_operator(caller) {
            authorise(caller, Scope::BadgesRevoke)?;
        }
        let key = self.named(&organization, rotation.key.as_ref()).await?;
        let conflict = |message| Err(Problem::new(ErrorCode::Conflict, message));
        if key.compromised {
            return conflict(
                "this key is known to be compromised; its signatures are not \
                trusted",
            );
        }
        let current = key.retired_at.is_none();
        if !current && !rotation.compromised {
            return conflict("this key is already retired; set `compromised` if it was exposed");
        }
        let successor = match current {
            true => {
                let fresh = self.badges.issuer.fresh_key(&organization);
                Some(fresh.map_err(|cause| internal(&cause))?)
            }
            false => None,
        };
        let now = self.clock.now();
        let revocation = Revocation {
            reason: RevocationReason::KeyCompromise,
            note: None,
            by: caller.principal.clone(),
            at: now,
        };
        let retirement = Retirement {
            organization: &organization,
            key: &key.public,
            successor: successor.as_ref(),
            compromised: rotation.compromised.then_some(&revocation),
            at: now,
        };
        let action = match rotation.compromised {
            true => "issuer-keys:compromised",
            false => "issuer-keys:rotate",
        };
        let mut decision = self.audit_entry(caller, action, &organization.id);
        decision.reasons.push(multibase(&key.public));
        let revoked =
            match store::badges::retire_issuer_key(&self.store, &retirement, &decision).await {
                Ok(revoked) => revoked,
                Err(StoreError::Stale | StoreError::Exists(_)) => {
                    return Err(changed_concurrently("key"));
                }
                Err(cause) => return Err(internal(&cause)),
            };
        Ok(Rotated {
            keys: self.issuer_keys(&organization).await?,
            revoked,
        })
    }

    async fn issuer_keys(
        &self,
        organization: &OrganizationRecord,
    ) -> Result<Vec<IssuerKeyRecord>, Problem> {
        let keys = store::badges::issuer_keys(&self.store, organization.number).await;
        keys.map_err(|cause| internal(&cause))
    }

    async fn named(
        &self,
        organization: &OrganizationRecord,
        key: Option<&PublicKey>,
    ) -> Result<IssuerKeyRecord, Problem> {
        let keys = self.issuer_keys(organization).await?.into_iter();
        let Some(key) = key else {
            let current = keys.into_iter().find(|it| it.retired_at.is_none());
            let message = "this organization has not signed anything yet; its key is created when it is \
                    first needed";
            return current.ok_or_else(|| Problem::new(ErrorCode::Conflict, message));
        };
        let own = keys.into_iter().find(|it| it.public == *key);
        own.ok_or_else(|| {
            let message = "`key` is not a key of this organization; its badges name their key \
                in `proof.verificationMethod`";
            Problem::validation("key", message)
        })
    }
}
