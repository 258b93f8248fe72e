//! Badges: shown, verified and revoked (AAAF S12).

pub mod issuer;
pub mod issuer_keys;

use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use moka::future::Cache;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use crate::credential::baking::{png, svg};
use crate::credential::did::{DidDocument, multibase};
use crate::credential::proof::issuer;
use crate::credential::status_list;
use crate::credential::status_list::Bits;
use crate::credential::{parse, served};
use crate::ports::agents::AgentNumber;
use crate::ports::assessments::{AssessmentRecord, Finding};
use crate::ports::badges::{
    BadgeRecord, BadgeState, Issued, Revocation, StatusListNumber, StatusListRecord,
};
use crate::ports::organizations::OrganizationRecord;
use crate::rules::assessment::order::Verdict;
use crate::rules::badge::{
    Inspection, Mark, OnRecord, Reason, RevocationReason, Scale, Shape, Standing, Verification,
    unsound, verify_at,
};
use crate::service::badges::issuer::Issuer;
use crate::service::{Aaaf, Member, is_id, not_there};
use crate::store;
use touchstone_host::access::Scope;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::authorise;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};

/// Size of the picture cache, in bytes.
const PICTURES: u64 = 32 * 1024 * 1024;
/// Number of signed status lists in the cache.
const LISTS: u64 = 256;
/// Number of proof results in the cache.
const PROOFS: u64 = 10_000;
/// Age at which a status list is signed again; a signed list is valid for a week.
const SIGNED_ANEW: SignedDuration = SignedDuration::from_hours(24);
/// Maximum number of pictures, proofs and signatures computed at the same time; others wait.
const AT_ONCE: usize = 2;

/// Renders and verifies badges, with caches.
pub struct Gallery {
    pub(super) issuer: Arc<Issuer>,
    pictures: Cache<(String, Mark, Scale), Bytes>,
    lists: Cache<StatusListNumber, Arc<SignedList>>,
    /// Reasons why a badge is invalid, by the digest of everything they depend on, so an entry is
    /// never out of date.
    proofs: Cache<[u8; 32], Vec<Reason>>,
    places: Arc<Semaphore>,
    /// Separate permits for deployment gates, so that public requests cannot delay them.
    gates: Arc<Semaphore>,
}

/// A signed status list.
struct SignedList {
    changes: i64,
    at: Timestamp,
    text: Bytes,
}

impl Gallery {
    pub fn new(issuer: Arc<Issuer>) -> Self {
        let weight = |_: &(String, Mark, Scale), picture: &Bytes| {
            u32::try_from(picture.len()).unwrap_or(u32::MAX)
        };
        Self {
            issuer,
            pictures: Cache::builder()
                .weigher(weight)
                .max_capacity(PICTURES)
                .build(),
            lists: Cache::new(LISTS),
            proofs: Cache::new(PROOFS),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            gates: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Runs work of some milliseconds on a blocking thread.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        self.work_for(Asking::Anybody, work).await
    }

    async fn work_for<T: Send + 'static>(
        &self,
        asking: Asking,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let places = match asking {
            Asking::Anybody => &self.places,
            Asking::Gate => &self.gates,
        };
        let place = places.clone().acquire_owned().await;
        let place = place.map_err(|cause| internal(&cause))?;
        let worked = tokio::task::spawn_blocking(move || {
            let worked = work();
            drop(place);
            worked
        });
        worked.await.map_err(|cause| internal(&cause))
    }
}

/// Maximum number of consecutive rejected ratings that are skipped in the search for an earlier
/// one.
const MOST_REJECTED: usize = 100;

/// Changes to an agent since its badge was issued.
#[derive(Clone, Debug)]
pub struct Since {
    pub newer: Option<AssessmentRecord>,
    /// Whether the agent was archived.
    pub archived: bool,
}

pub(super) fn is_rejected(assessment: &AssessmentRecord) -> bool {
    match &assessment.finding {
        Some(Finding::Scored {
            review: Some(review),
            ..
        }) => review.decision == Verdict::Reject,
        _ => false,
    }
}

/// Who asks whether a badge is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    Anybody,
    Gate,
}

/// A stored badge that differs from what was issued.
#[derive(Debug, thiserror::Error)]
#[error("the record of badge {badge} differs from the badge that was issued: {codes}")]
struct Altered {
    badge: String,
    codes: String,
}

/// A badge that the viewer may see.
#[derive(Clone, Debug)]
pub struct Seen {
    pub badge: BadgeRecord,
    pub organization: OrganizationRecord,
    /// The mark across the badge at this time.
    pub mark: Mark,
    issued: Issued,
}

impl Seen {
    pub(super) fn of(
        badge: BadgeRecord,
        organization: OrganizationRecord,
        now: Timestamp,
    ) -> Option<Self> {
        let revoked = badge.state == BadgeState::Revoked;
        Some(Self {
            issued: badge.issued.clone()?,
            mark: badge.badge.mark(revoked, now),
            badge,
            organization,
        })
    }

    /// The member types to use for the id that the request used.
    pub fn shape(&self, named: &str) -> Shape {
        match self.badge.badge.assessment_id.to_string() == named {
            true => Shape::Stated,
            false => Shape::Own,
        }
    }

    pub fn served(&self) -> &str {
        &self.issued.credential
    }

    /// The parsed credential.
    ///
    /// # Errors
    /// The stored credential is corrupt.
    pub fn credential(&self) -> Result<Value, Problem> {
        parse(self.issued.credential.as_bytes()).map_err(|cause| internal(&cause))
    }
}

impl Aaaf {
    /// A badge, by its id or by that of its assessment (then the newest one). Public badges are
    /// visible to everyone, private ones to members of the organization.
    ///
    /// # Errors
    /// `not_found`; for members `REVIEW_REQUIRED` while the badge is withheld, and `forbidden`
    /// without the scope.
    pub async fn badge(&self, viewer: Option<&Member>, id: &str) -> Result<Seen, Problem> {
        let nothing = || not_there("badge");
        if !is_id(id) {
            return Err(nothing());
        }
        let found = match store::badges::badge(&self.store, id).await {
            Ok(None) => store::badges::newest_badge(&self.store, id).await,
            found => found,
        };
        let (badge, organization) = found
            .map_err(|cause| internal(&cause))?
            .ok_or_else(nothing)?;
        let own = viewer.filter(|it| it.organization.number == badge.organization);
        let public = !organization.private_badges && badge.issued.is_some();
        match own {
            None if !public => return Err(nothing()),
            Some(member) if !public => authorise(&member.caller, Scope::BadgesRead)?,
            _ => {}
        }
        if badge.state == BadgeState::Withheld {
            return Err(Problem::new(
                ErrorCode::ReviewRequired,
                "this badge is withheld until its assessment is reviewed with `POST \
                /api/v1/assessments/{id}/review`",
            )
            .with("assessmentId", badge.badge.assessment_id.to_string()));
        }
        Seen::of(badge, organization, self.clock.now()).ok_or_else(nothing)
    }

    /// The address of the newest badge of an assessment; a suffix selects the format.
    pub fn badge_address(&self, assessment: &str) -> String {
        let base_url = self.gallery.issuer.base_url();
        format!("{base_url}/api/v1/badges/{assessment}")
    }

    /// The badge as SVG, with its credential inside.
    ///
    /// # Errors
    /// The host failed.
    pub async fn drawn(&self, seen: &Seen) -> Result<Bytes, Problem> {
        let seen = seen.clone();
        let drawn = move || {
            let drawn = crate::render::badge::svg(&seen.badge.badge, seen.mark);
            svg::bake(&drawn, seen.served())
        };
        let drawn = self.gallery.work(drawn).await?;
        drawn.map(Bytes::from).map_err(|cause| internal(&cause))
    }

    /// The badge as PNG, with its credential inside.
    ///
    /// # Errors
    /// The host failed.
    pub async fn painted(&self, seen: &Seen, scale: Scale) -> Result<Bytes, Problem> {
        let key = (seen.badge.badge.id.to_string(), seen.mark, scale);
        if let Some(picture) = self.gallery.pictures.get(&key).await {
            return Ok(picture);
        }
        let seen = seen.clone();
        let painted = move || {
            let painted = crate::render::badge::png(&seen.badge.badge, seen.mark, scale);
            let painted = painted.map_err(|cause| internal(&cause))?;
            png::bake(&painted, seen.served()).map_err(|cause| internal(&cause))
        };
        let picture = Bytes::from(self.gallery.work(painted).await??);
        self.gallery.pictures.insert(key, picture.clone()).await;
        Ok(picture)
    }

    pub fn written(&self, seen: &Seen) -> String {
        crate::render::badge::markdown(&seen.badge.badge, seen.mark)
    }

    /// The result of verifying a badge, as an HTML page for people.
    ///
    /// # Errors
    /// The host failed.
    pub async fn inspected(
        &self,
        seen: &Seen,
        verification: Verification,
        notes: Vec<String>,
    ) -> Result<Bytes, Problem> {
        let inspection = Inspection {
            badge: seen.badge.badge.clone(),
            verification,
            notes,
            at: self.clock.now(),
        };
        let page = move || crate::render::badge::page(&inspection);
        let page = self.gallery.work(page).await?;
        page.map(Bytes::from).map_err(|cause| internal(&cause))
    }

    /// Verifies a badge like any third party, and adds what only the host knows.
    ///
    /// # Errors
    /// The host failed.
    pub async fn verified(&self, seen: &Seen) -> Result<Verification, Problem> {
        self.verified_for(seen, Asking::Anybody).await
    }

    pub(super) async fn verified_for(
        &self,
        seen: &Seen,
        asking: Asking,
    ) -> Result<Verification, Problem> {
        let reasons = self.unsound(seen, asking).await?;
        let standing = Standing {
            revoked: seen.badge.state == BadgeState::Revoked,
            ..Standing::default()
        };
        let mut verification = verify_at(&seen.credential()?, reasons, &standing, self.clock.now());
        // The record is available, so the revocation is known.
        verification.revoked = Some(standing.revoked);
        Ok(verification)
    }

    /// Checks the proof before anything of a badge is shown: a record that says what was not issued
    /// is not rendered in any format. A revoked badge is marked as revoked, whether or not its
    /// proof still verifies.
    ///
    /// # Errors
    /// The record was altered.
    pub async fn hold_to_proof(&self, seen: &Seen) -> Result<(), Problem> {
        let reasons = self.unsound(seen, Asking::Anybody).await?;
        if reasons.is_empty() || seen.badge.state == BadgeState::Revoked {
            return Ok(());
        }
        let codes: Vec<&str> = reasons.iter().map(|it| it.code).collect();
        Err(internal(&Altered {
            badge: seen.badge.badge.id.to_string(),
            codes: codes.join(", "),
        }))
    }

    /// The reasons that make a badge invalid at any time.
    async fn unsound(&self, seen: &Seen, asking: Asking) -> Result<Vec<Reason>, Problem> {
        let keys = self.gallery.issuer.believed(&seen.organization).await;
        let keys = keys.map_err(|cause| internal(&cause))?;
        let on = json!([
            seen.issued.credential,
            seen.issued.status_list.0,
            seen.issued.status_index,
            seen.badge.badge,
            seen.organization.id,
            keys.iter().map(multibase).collect::<Vec<_>>(),
        ]);
        let digest = Sha256::digest(on.to_string()).into();
        if let Some(known) = self.gallery.proofs.get(&digest).await {
            return Ok(known);
        }
        let (credential, seen) = (seen.credential()?, seen.clone());
        let checked = move || {
            let did = issuer(&credential);
            let documents: Vec<DidDocument> = did
                .filter(|did| did.starts_with("did:web:"))
                .map(|did| DidDocument::new(did, &keys))
                .into_iter()
                .collect();
            let recorded = OnRecord {
                badge: &seen.badge.badge,
                organization: &seen.organization.id,
                keys: &keys,
                status_list: seen.issued.status_list.0,
                status_index: seen.issued.status_index,
            };
            let standing = Standing {
                recorded: Some(recorded),
                documents: &documents,
                ..Standing::default()
            };
            unsound(&credential, &standing)
        };
        let reasons = self.gallery.work_for(asking, checked).await?;
        self.gallery.proofs.insert(digest, reasons.clone()).await;
        Ok(reasons)
    }

    /// Whether the assessment behind a badge has an open appeal.
    ///
    /// # Errors
    /// The store failed.
    pub async fn is_appealed(&self, seen: &Seen) -> Result<bool, Problem> {
        let assessment = seen.badge.badge.assessment_id.to_string();
        let appealed = store::appeals::is_appealed(&self.store, &assessment).await;
        appealed.map_err(|cause| internal(&cause))
    }

    /// Changes to the agent since its badge was issued: a newer rating, and whether it was
    /// archived.
    ///
    /// # Errors
    /// The store failed.
    pub async fn since(&self, seen: &Seen) -> Result<Since, Problem> {
        let found = self.looked_up(seen).await;
        found.map_err(|cause| internal(&cause))
    }

    async fn looked_up(&self, seen: &Seen) -> Result<Since, StoreError> {
        let (badge, organization) = (&seen.badge, seen.badge.organization);
        let id = badge.badge.agent.id.to_string();
        let agent = store::agents::agent(&self.store, organization, &id).await?;
        let mut since = Since {
            newer: None,
            archived: agent.is_some_and(|it| it.archived),
        };
        let own = badge.badge.assessment_id.to_string();
        let Some(own) = store::assessments::assessment(&self.store, organization, &own).await?
        else {
            return Ok(since);
        };
        let last = self.standing_rating(badge.agent).await?;
        since.newer = last.filter(|it| it.id != own.id && it.created_at >= own.created_at);
        Ok(since)
    }

    /// The last rating of an agent that no reviewer rejected.
    pub(super) async fn standing_rating(
        &self,
        agent: AgentNumber,
    ) -> Result<Option<AssessmentRecord>, StoreError> {
        let mut before = Timestamp::MAX;
        for _ in 0..MOST_REJECTED {
            match store::assessments::last_rating(&self.store, agent, before).await? {
                Some(rejected) if is_rejected(&rejected) => before = rejected.created_at,
                last => return Ok(last),
            }
        }
        Ok(None)
    }

    /// Revokes a badge of the organization.
    ///
    /// # Errors
    /// `not_found`; `forbidden` for an agent's own key; `conflict` for a badge that is not issued
    /// or is already revoked.
    pub async fn revoke(
        &self,
        member: &Member,
        id: &str,
        reason: RevocationReason,
        note: Option<String>,
    ) -> Result<Seen, Problem> {
        let (mut badge, organization) = self.own_badge(member, id).await?;
        if self.is_agents_key(member).await? {
            return Err(Problem::new(
                ErrorCode::Forbidden,
                "an agent's own key cannot revoke badges; use another principal's key",
            ));
        }
        let taken = || {
            Problem::new(
                ErrorCode::Conflict,
                "only an issued badge can be revoked, and only once",
            )
        };
        if badge.state != BadgeState::Issued {
            return Err(taken());
        }
        let now = self.clock.now();
        let revocation = Revocation {
            reason,
            note,
            by: member.caller.principal.clone(),
            at: now,
        };
        let mut decision = self.decided(&member.caller, "badges:revoke", id);
        decision.reasons.push(reason.as_str().to_owned());
        let revoked =
            store::badges::revoke_badge(&self.store, &badge, &revocation, &organization, &decision)
                .await;
        match revoked {
            Ok(()) => {}
            Err(StoreError::Stale) => return Err(taken()),
            Err(cause) => return Err(internal(&cause)),
        }
        badge.state = BadgeState::Revoked;
        badge.revocation = Some(revocation);
        Seen::of(badge, organization, now).ok_or_else(taken)
    }

    /// A badge of the organization in any state.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn own_badge(
        &self,
        member: &Member,
        id: &str,
    ) -> Result<(BadgeRecord, OrganizationRecord), Problem> {
        let nothing = || not_there("badge");
        if !is_id(id) {
            return Err(nothing());
        }
        let found = store::badges::badge(&self.store, id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        let own = |(badge, _): &(BadgeRecord, OrganizationRecord)| {
            badge.organization == member.organization.number
        };
        found.filter(own).ok_or_else(nothing)
    }

    /// A signed status list, as it is served; `None` if no list has this number. The list
    /// is signed on request and again after each revocation and each day.
    ///
    /// # Errors
    /// The host failed.
    pub async fn status_list(&self, number: i64) -> Result<Option<Bytes>, Problem> {
        let number = StatusListNumber(number);
        let list = store::badges::status_list(&self.store, number).await;
        let Some(list) = list.map_err(|cause| internal(&cause))? else {
            return Ok(None);
        };
        let now = self.clock.now();
        if let Some(signed) = self.gallery.lists.get(&number).await
            && signed.changes == list.changes
            && now.duration_since(signed.at) < SIGNED_ANEW
        {
            return Ok(Some(signed.text.clone()));
        }
        let signed = Arc::new(self.signed(&list, now).await?);
        let text = signed.text.clone();
        self.gallery.lists.insert(number, signed).await;
        Ok(Some(text))
    }

    async fn signed(&self, list: &StatusListRecord, now: Timestamp) -> Result<SignedList, Problem> {
        let owner =
            store::organizations::organization_numbered(&self.store, list.organization).await;
        let owner = owner
            .map_err(|cause| internal(&cause))?
            .ok_or_else(|| not_there("status list"))?;
        let issuer = &self.gallery.issuer;
        let (key, signatory, disowned) = issuer
            .speaking_for(&owner, &list.issuer)
            .await
            .map_err(|cause| internal(&cause))?;
        // Read the bits after the number of changes: a revocation in between is then included, at
        // the cost of one extra signature.
        let revoked = store::badges::revoked_bits(&self.store, list.number).await;
        let revoked = revoked.map_err(|cause| internal(&cause))?;
        let url = status_list::address(&list.base_url, list.number.0);
        let signed = move || {
            // A holder of the exposed key could sign badges with any bit of the list.
            let mut bits = if disowned {
                Bits::all()
            } else {
                Bits::default()
            };
            for bit in revoked {
                bits.set(bit, true).map_err(|cause| internal(&cause))?;
            }
            status_list::sign(&bits, &url, &signatory, &key, now).map_err(|cause| internal(&cause))
        };
        let signed = self.gallery.work(signed).await??;
        Ok(SignedList {
            changes: list.changes,
            at: now,
            text: served(&signed).into(),
        })
    }

    /// The DID document of an organization.
    ///
    /// # Errors
    /// `not_found` if there is no such organization, or the host has no public name.
    pub async fn did_document(&self, organization: &str) -> Result<DidDocument, Problem> {
        let nothing = || not_there("DID document");
        if !is_id(organization) {
            return Err(nothing());
        }
        let found = store::organizations::organization(&self.store, organization).await;
        let organization = found
            .map_err(|cause| internal(&cause))?
            .ok_or_else(nothing)?;
        let issuer = &self.gallery.issuer;
        let did = issuer.did(&organization).ok_or_else(nothing)?;
        let document = issuer.document(&organization, &did).await;
        let document = document.map_err(|cause| internal(&cause))?;
        match document.verification_method.is_empty() {
            // The organization has never signed anything.
            true => Err(nothing()),
            false => Ok(document),
        }
    }
}
