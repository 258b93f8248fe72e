//! Issues badges in the name of organizations (AAAF S12): their keys, the bits of their status
//! lists, the signed credential.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::credential::did::{DidDocument, Signatory};
use crate::credential::{served, status_list};
use crate::ports::agents::AgentRecord;
use crate::ports::assessments::AssessmentRecord;
use crate::ports::badges::{BadgeRecord, BadgeState, Issued, IssuerKeyRecord};
use crate::ports::organizations::OrganizationRecord;
use crate::rules::Rating;
use crate::rules::badge::host_url::HostUrl;
use crate::rules::badge::{
    Badge, BadgeMetadata, Issuance, IssueError, MissingScore, Party, Window, issue,
};
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::vault::{Vault, VaultError};
use touchstone_host::store::database::Database;
use touchstone_kit::keys::{PublicKey, SecretKey};
use touchstone_kit::sealing::owner;

/// Number of bits of a list that are used before the next list starts. Bits are drawn at random, so
/// a free one is found quickly.
const LIST_CAPACITY: u32 = status_list::BITS / 2;
/// Maximum number of draws; if all of them fail, something else is wrong.
const MAX_DRAWS: u32 = 32;

/// Why no badge was issued.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key cannot be encrypted or decrypted.
    #[error("cannot use the key of the organization")]
    Key(#[source] VaultError),
    /// The decrypted value is not a key, or is another key.
    #[error("the decrypted key is not the key of the organization")]
    OtherKey,
    /// The organization may not sign now.
    #[error("the organization is suspended or archived")]
    OrganizationInactive,
    #[error(transparent)]
    MissingScore(#[from] MissingScore),
    /// Its validity is empty, or an id is not a UUID.
    #[error("the recorded assessment has an invalid id or an empty validity period")]
    Unsound,
    #[error(transparent)]
    IssueError(#[from] IssueError),
    #[error(transparent)]
    Thread(#[from] tokio::task::JoinError),
    /// Every drawn bit is already taken.
    #[error("no free index in a status list was found")]
    NoBit,
}

/// Stores a badge together with the records of its transaction.
#[async_trait]
pub(crate) trait BadgeSink: Sync {
    /// Stores the badge; [`StoreError::Exists`] if its status bit is already taken.
    async fn store(&self, badge: &BadgeRecord) -> Result<(), StoreError>;
}

pub struct Issuer {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    vault: Arc<Vault>,
    host_url: HostUrl,
}

impl Issuer {
    /// Creates an issuer for the host at `host_url`.
    pub fn new(
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        vault: Arc<Vault>,
        host_url: HostUrl,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            vault,
            host_url,
        }
    }

    /// The base URL of the host.
    pub(crate) fn base_url(&self) -> &str {
        self.host_url.base_url()
    }

    /// The badge that a rating would certify, not issued yet.
    ///
    /// # Errors
    /// [`IssuerError`].
    pub async fn draft(
        &self,
        assessment: &AssessmentRecord,
        rating: &Rating,
        valid_until: Timestamp,
        now: Timestamp,
    ) -> Result<BadgeRecord, IssuerError> {
        let (organization, agent) = self.parties(assessment).await?;
        let (id, request) = (self.ids.uuid(), &assessment.request.assessment);
        let metadata = BadgeMetadata {
            id,
            agent: party(&agent.id, &agent.name)?,
            organization: party(&organization.id, &organization.name)?,
            assessment_id: assessment.id.parse().map_err(|_| IssuerError::Unsound)?,
            window: Some(Window {
                start: request.window_start,
                end: request.window_end,
            }),
            certified_at: now,
            valid_until,
            verification_url: self.host_url.verification(id),
        };
        Ok(BadgeRecord {
            organization: assessment.organization,
            agent: assessment.agent_number,
            revision: 1,
            state: BadgeState::Withheld,
            badge: Badge::of(rating, metadata)?,
            issued: None,
            revocation: None,
            created_at: now,
        })
    }

    /// Issues and stores the badge. If its status bit is already taken, which only the store knows,
    /// another one is drawn.
    ///
    /// # Errors
    /// [`IssuerError`].
    pub(crate) async fn issue(
        &self,
        draft: &BadgeRecord,
        sink: &dyn BadgeSink,
    ) -> Result<BadgeRecord, IssuerError> {
        let organization = self.organization(draft).await?;
        if organization.status.hinders(true).is_some() {
            return Err(IssuerError::OrganizationInactive);
        }
        let key = Arc::new(self.key(&organization).await?);
        let signatory = self.host_url.signatory(&organization.id, &key.public());
        for _ in 0..MAX_DRAWS {
            let issued = self
                .signed(draft, &organization, &signatory, key.clone())
                .await?;
            match sink.store(&issued).await {
                Ok(()) => return Ok(issued),
                Err(StoreError::Exists(_)) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        Err(IssuerError::NoBit)
    }

    async fn signed(
        &self,
        draft: &BadgeRecord,
        organization: &OrganizationRecord,
        signatory: &Signatory,
        key: Arc<SecretKey>,
    ) -> Result<BadgeRecord, IssuerError> {
        let now = self.clock.now();
        let base_url = self.host_url.base_url().to_owned();
        let list = store::badges::open_status_list(
            &self.store,
            organization.number,
            &signatory.did,
            &base_url,
            LIST_CAPACITY,
            now,
        )
        .await?;
        let list_url = status_list::address(&list.base_url, list.number.0);
        let mut issued = draft.clone();
        issued.state = BadgeState::Issued;
        issued.badge.certified_at = now;
        issued.badge.verification_url = self.host_url.verification(draft.badge.id);
        let (badge, signatory) = (issued.badge.clone(), signatory.clone());
        let (credential_id, index) = (self.ids.uuid(), self.random_bit());
        // Canonicalization takes some milliseconds.
        let credential = tokio::task::spawn_blocking(move || {
            let issuance = Issuance {
                credential_id,
                base_url: &base_url,
                status_list: &list_url,
                status_index: index,
                signatory: &signatory,
                key: &key,
            };
            issue(&badge, &issuance)
        });
        issued.issued = Some(Issued {
            credential: served(&credential.await??),
            status_list: list.number,
            status_index: index,
        });
        Ok(issued)
    }

    /// A random bit index.
    fn random_bit(&self) -> u32 {
        let [a, b, c, d, ..] = self.ids.secret();
        // The number of bits is a power of two, so every index is equally likely.
        u32::from_be_bytes([a, b, c, d]) % status_list::BITS
    }

    async fn parties(
        &self,
        assessment: &AssessmentRecord,
    ) -> Result<(OrganizationRecord, AgentRecord), IssuerError> {
        let number = assessment.organization;
        let organization = store::organizations::organization_numbered(&self.store, number).await?;
        let agent = store::agents::agent(&self.store, number, &assessment.agent).await?;
        organization.zip(agent).ok_or(IssuerError::Unsound)
    }

    async fn organization(&self, badge: &BadgeRecord) -> Result<OrganizationRecord, IssuerError> {
        let found =
            store::organizations::organization_numbered(&self.store, badge.organization).await?;
        found.ok_or(IssuerError::Unsound)
    }

    /// The current key of an organization, created when it is first needed.
    async fn key(&self, organization: &OrganizationRecord) -> Result<SecretKey, IssuerError> {
        if let Some(key) = self.current(organization).await? {
            return Ok(key);
        }
        let key = self.fresh_key(organization)?;
        match store::badges::add_issuer_key(&self.store, organization.number, &key).await {
            // Another replica may have created it first.
            Ok(()) | Err(StoreError::Exists(_)) => {}
            Err(cause) => return Err(cause.into()),
        }
        let key = self.current(organization).await?;
        key.ok_or(IssuerError::OtherKey)
    }

    /// Generates a key.
    ///
    /// # Errors
    /// The key cannot be encrypted.
    pub(crate) fn fresh_key(
        &self,
        organization: &OrganizationRecord,
    ) -> Result<IssuerKeyRecord, IssuerError> {
        let bytes = self.ids.secret();
        let sealed = self.vault.seal(&owner::issuer(&organization.id), &bytes);
        Ok(IssuerKeyRecord {
            public: SecretKey::from_random(bytes).public(),
            sealed: sealed.map_err(IssuerError::Key)?,
            created_at: self.clock.now(),
            retired_at: None,
            compromised: false,
        })
    }

    async fn current(
        &self,
        organization: &OrganizationRecord,
    ) -> Result<Option<SecretKey>, IssuerError> {
        let keys = store::badges::issuer_keys(&self.store, organization.number).await?;
        let current = keys.iter().find(|key| key.retired_at.is_none());
        match current {
            Some(key) => self.decrypt_key(organization, key).map(Some),
            None => Ok(None),
        }
    }

    fn decrypt_key(
        &self,
        organization: &OrganizationRecord,
        key: &IssuerKeyRecord,
    ) -> Result<SecretKey, IssuerError> {
        let owner = owner::issuer(&organization.id);
        let bytes = self.vault.open(&owner, &key.sealed);
        let bytes: [u8; 32] = bytes
            .map_err(IssuerError::Key)?
            .try_into()
            .map_err(|_| IssuerError::OtherKey)?;
        let secret = SecretKey::from_random(bytes);
        if secret.public() == key.public {
            Ok(secret)
        } else {
            Err(IssuerError::OtherKey)
        }
    }

    /// The key that speaks for an issuer: the key of a `did:key`, or the current key of a
    /// `did:web`. The flag says that nothing the issuer signed is trusted: no other key can vouch
    /// for a compromised `did:key`.
    ///
    /// # Errors
    /// [`IssuerError`].
    pub(crate) async fn key_of_issuer(
        &self,
        organization: &OrganizationRecord,
        issuer: &str,
    ) -> Result<(SecretKey, Signatory, bool), IssuerError> {
        let keys = store::badges::issuer_keys(&self.store, organization.number).await?;
        for key in &keys {
            let by_key = Signatory::by_key(&key.public);
            let signatory = if by_key.did == issuer {
                by_key
            } else if issuer.starts_with("did:web:") && key.retired_at.is_none() && !key.compromised
            {
                Signatory::by_web(issuer.to_owned(), &key.public)
            } else {
                continue;
            };
            let secret = self.decrypt_key(organization, key)?;
            return Ok((secret, signatory, key.compromised));
        }
        Err(IssuerError::OtherKey)
    }

    /// The document of a `did:web` issuer under its current or a former address.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn document(
        &self,
        organization: &OrganizationRecord,
        did: &str,
    ) -> Result<DidDocument, StoreError> {
        Ok(DidDocument::new(
            did,
            &self.trusted_keys(organization).await?,
        ))
    }

    /// The trusted keys of an organization, including retired ones.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn trusted_keys(
        &self,
        organization: &OrganizationRecord,
    ) -> Result<Vec<PublicKey>, StoreError> {
        let keys = store::badges::issuer_keys(&self.store, organization.number).await?;
        let sound = keys.into_iter().filter(|key| !key.compromised);
        Ok(sound.map(|key| key.public).collect())
    }

    /// The DID of an organization under the host's public name; `None` without one.
    pub(crate) fn did(&self, organization: &OrganizationRecord) -> Option<String> {
        self.host_url.did(&organization.id)
    }
}

fn party(id: &str, name: &str) -> Result<Party, IssuerError> {
    Ok(Party {
        id: id.parse().map_err(|_| IssuerError::Unsound)?,
        name: name.to_owned(),
    })
}
