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
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord};
use crate::ports::badges::{
    BadgeRecord, BadgeState, Issued, Revocation, StatusListNumber, StatusListRecord,
};
use crate::ports::organizations::OrganizationRecord;
use crate::rules::assessment::order::Verdict;
use crate::rules::badge::{
    DocumentShape, Inspection, Mark, Reason, RevocationReason, Scale, StoredBadge, Verification,
    VerificationContext, check_proof, verify_at,
};
use crate::rules::scoring::interval::Intervals;
use crate::service::badges::issuer::Issuer;
use crate::service::{Member, Ratings, is_id, not_found};
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
const RESIGN_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// Maximum number of pictures, proofs and signatures computed at the same time; others wait.
const AT_ONCE: usize = 2;

/// Renders and verifies badges, with caches.
pub struct BadgeRenderer {
    pub(super) issuer: Arc<Issuer>,
    pictures: Cache<(String, Mark, Scale), Bytes>,
    lists: Cache<StatusListNumber, Arc<SignedList>>,
    /// Reasons why a badge is invalid, by the digest of everything they depend on, so an entry is
    /// never out of date.
    proofs: Cache<[u8; 32], Vec<Reason>>,
    permits: Arc<Semaphore>,
    /// Separate permits for deployment gates, so that public requests cannot delay them.
    gates: Arc<Semaphore>,
}

/// A signed status list.
struct SignedList {
    changes: i64,
    at: Timestamp,
    text: Bytes,
}

impl BadgeRenderer {
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
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            gates: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Runs work of some milliseconds on a blocking thread.
    async fn run<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        self.run_for(Requester::Anybody, run).await
    }

    async fn run_for<T: Send + 'static>(
        &self,
        requester: Requester,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let permits = match requester {
            Requester::Anybody => &self.permits,
            Requester::Gate => &self.gates,
        };
        let permit = permits.clone().acquire_owned().await;
        let permit = permit.map_err(|cause| internal(&cause))?;
        let worked = tokio::task::spawn_blocking(move || {
            let worked = run();
            drop(permit);
            worked
        });
        worked.await.map_err(|cause| internal(&cause))
    }
}

/// Maximum number of consecutive rejected ratings that are skipped in the search for an earlier
/// one.
const MAX_REJECTED: usize = 100;

/// Changes to an agent since its badge was issued.
#[derive(Clone, Debug)]
pub struct ChangesSinceIssue {
    pub newer: Option<AssessmentRecord>,
    /// Whether the agent was archived.
    pub archived: bool,
}

pub(super) fn is_rejected(assessment: &AssessmentRecord) -> bool {
    match &assessment.outcome {
        Some(AssessmentOutcome::Scored {
            review: Some(review),
            ..
        }) => review.decision == Verdict::Reject,
        _ => false,
    }
}

/// Who asks whether a badge is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Requester {
    Anybody,
    Gate,
}

/// A stored badge that differs from what was issued.
#[derive(Debug, thiserror::Error)]
#[error("the record of badge {badge} differs from the badge that was issued: {codes}")]
struct AlteredBadge {
    badge: String,
    codes: String,
}

/// A badge that the viewer may see.
#[derive(Clone, Debug)]
pub struct VisibleBadge {
    pub badge: BadgeRecord,
    pub organization: OrganizationRecord,
    /// The mark across the badge at this time.
    pub mark: Mark,
    issued: Issued,
}

impl VisibleBadge {
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
    pub fn shape(&self, named: &str) -> DocumentShape {
        match self.badge.badge.assessment_id.to_string() == named {
            true => DocumentShape::Specification,
            false => DocumentShape::Host,
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

impl Ratings {
    /// A badge, by its id or by that of its assessment (then the newest one). Public badges are
    /// visible to everyone, private ones to members of the organization.
    ///
    /// # Errors
    /// `not_found`; for members `REVIEW_REQUIRED` while the badge is withheld, and `forbidden`
    /// without the scope.
    pub async fn badge(&self, viewer: Option<&Member>, id: &str) -> Result<VisibleBadge, Problem> {
        let nothing = || not_found("badge");
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
        VisibleBadge::of(badge, organization, self.clock.now()).ok_or_else(nothing)
    }

    /// The address of the newest badge of an assessment; a suffix selects the format.
    pub fn badge_address(&self, assessment: &str) -> String {
        let base_url = self.badges.issuer.base_url();
        format!("{base_url}/api/v1/badges/{assessment}")
    }

    /// The badge as SVG, with its credential inside.
    ///
    /// # Errors
    /// The host failed.
    pub async fn badge_svg(&self, visible: &VisibleBadge) -> Result<Bytes, Problem> {
        let visible = visible.clone();
        let badge_svg = move || {
            let badge_svg = crate::render::badge::svg(&visible.badge.badge, visible.mark);
            svg::bake(&badge_svg, visible.served())
        };
        let badge_svg = self.badges.run(badge_svg).await?;
        badge_svg.map(Bytes::from).map_err(|cause| internal(&cause))
    }

    /// The badge as PNG, with its credential inside.
    ///
    /// # Errors
    /// The host failed.
    pub async fn badge_png(&self, visible: &VisibleBadge, scale: Scale) -> Result<Bytes, Problem> {
        let key = (visible.badge.badge.id.to_string(), visible.mark, scale);
        if let Some(picture) = self.badges.pictures.get(&key).await {
            return Ok(picture);
        }
        let visible = visible.clone();
        let badge_png = move || {
            let badge_png = crate::render::badge::png(&visible.badge.badge, visible.mark, scale);
            let badge_png = badge_png.map_err(|cause| internal(&cause))?;
            png::bake(&badge_png, visible.served()).map_err(|cause| internal(&cause))
        };
        let picture = Bytes::from(self.badges.run(badge_png).await??);
        self.badges.pictures.insert(key, picture.clone()).await;
        Ok(picture)
    }

    pub fn badge_markdown(&self, visible: &VisibleBadge) -> String {
        crate::render::badge::markdown(&visible.badge.badge, visible.mark)
    }

    /// The result of verifying a badge, as an HTML page for people.
    ///
    /// # Errors
    /// The host failed.
    pub async fn verification_page(
        &self,
        visible: &VisibleBadge,
        verification: Verification,
        notes: Vec<String>,
    ) -> Result<Bytes, Problem> {
        let inspection = Inspection {
            intervals: self.intervals_of(&visible.badge).await?,
            badge: visible.badge.badge.clone(),
            verification,
            notes,
            at: self.clock.now(),
        };
        let page = move || crate::render::badge::page(&inspection);
        let page = self.badges.run(page).await?;
        page.map(Bytes::from).map_err(|cause| internal(&cause))
    }

    /// The intervals of the dimensions that a badge rates.
    async fn intervals_of(&self, badge: &BadgeRecord) -> Result<Intervals, Problem> {
        let id = badge.badge.assessment_id.to_string();
        let found = store::assessments::assessment(&self.store, badge.organization, &id).await;
        let found = found.map_err(|cause| internal(&cause))?;
        Ok(match found.and_then(|it| it.outcome) {
            Some(AssessmentOutcome::Scored { intervals, .. }) => intervals,
            _ => Intervals::new(),
        })
    }

    /// The page for people who look for a badge that does not exist or that they may not see.
    ///
    /// # Errors
    /// The host failed.
    pub fn missing_badge_page(&self) -> Result<Bytes, Problem> {
        let page = crate::render::badge::missing_page(self.clock.now());
        page.map(Bytes::from).map_err(|cause| internal(&cause))
    }

    /// Verifies a badge like any third party, and adds what only the host knows.
    ///
    /// # Errors
    /// The host failed.
    pub async fn verify_badge(&self, visible: &VisibleBadge) -> Result<Verification, Problem> {
        self.verify_for(visible, Requester::Anybody).await
    }

    pub(super) async fn verify_for(
        &self,
        visible: &VisibleBadge,
        requester: Requester,
    ) -> Result<Verification, Problem> {
        let reasons = self.check_proof(visible, requester).await?;
        let context = VerificationContext {
            revoked: visible.badge.state == BadgeState::Revoked,
            ..VerificationContext::default()
        };
        let mut verification =
            verify_at(&visible.credential()?, reasons, &context, self.clock.now());
        // The record is available, so the revocation is known.
        verification.revoked = Some(context.revoked);
        Ok(verification)
    }

    /// Checks the proof before anything of a badge is shown: a record that says what was not issued
    /// is not rendered in any format. A revoked badge is marked as revoked, whether or not its
    /// proof still verifies.
    ///
    /// # Errors
    /// The record was altered.
    pub async fn require_proof(&self, visible: &VisibleBadge) -> Result<(), Problem> {
        let reasons = self.check_proof(visible, Requester::Anybody).await?;
        if reasons.is_empty() || visible.badge.state == BadgeState::Revoked {
            return Ok(());
        }
        let codes: Vec<&str> = reasons.iter().map(|it| it.code).collect();
        Err(internal(&AlteredBadge {
            badge: visible.badge.badge.id.to_string(),
            codes: codes.join(", "),
        }))
    }

    /// The reasons that make a badge invalid at any time.
    async fn check_proof(
        &self,
        visible: &VisibleBadge,
        requester: Requester,
    ) -> Result<Vec<Reason>, Problem> {
        let keys = self.badges.issuer.trusted_keys(&visible.organization).await;
        let keys = keys.map_err(|cause| internal(&cause))?;
        let on = json!([
            visible.issued.credential,
            visible.issued.status_list.0,
            visible.issued.status_index,
            visible.badge.badge,
            visible.organization.id,
            keys.iter().map(multibase).collect::<Vec<_>>(),
        ]);
        let digest = Sha256::digest(on.to_string()).into();
        if let Some(known) = self.badges.proofs.get(&digest).await {
            return Ok(known);
        }
        let (credential, visible) = (visible.credential()?, visible.clone());
        let checked = move || {
            let did = issuer(&credential);
            let documents: Vec<DidDocument> = did
                .filter(|did| did.starts_with("did:web:"))
                .map(|did| DidDocument::new(did, &keys))
                .into_iter()
                .collect();
            let recorded = StoredBadge {
                badge: &visible.badge.badge,
                organization: &visible.organization.id,
                keys: &keys,
                status_list: visible.issued.status_list.0,
                status_index: visible.issued.status_index,
            };
            let context = VerificationContext {
                recorded: Some(recorded),
                documents: &documents,
                ..VerificationContext::default()
            };
            check_proof(&credential, &context)
        };
        let reasons = self.badges.run_for(requester, checked).await?;
        self.badges.proofs.insert(digest, reasons.clone()).await;
        Ok(reasons)
    }

    /// Whether the assessment behind a badge has an open appeal.
    ///
    /// # Errors
    /// The store failed.
    pub async fn is_appealed(&self, visible: &VisibleBadge) -> Result<bool, Problem> {
        let assessment = visible.badge.badge.assessment_id.to_string();
        let appealed = store::appeals::is_appealed(&self.store, &assessment).await;
        appealed.map_err(|cause| internal(&cause))
    }

    /// Changes to the agent since its badge was issued: a newer rating, and whether it was
    /// archived.
    ///
    /// # Errors
    /// The store failed.
    pub async fn changes_since(
        &self,
        visible: &VisibleBadge,
    ) -> Result<ChangesSinceIssue, Problem> {
        let found = self.find_changes(visible).await;
        found.map_err(|cause| internal(&cause))
    }

    async fn find_changes(&self, visible: &VisibleBadge) -> Result<ChangesSinceIssue, StoreError> {
        let (badge, organization) = (&visible.badge, visible.badge.organization);
        let id = badge.badge.agent.id.to_string();
        let agent = store::agents::agent(&self.store, organization, &id).await?;
        let mut changes_since = ChangesSinceIssue {
            newer: None,
            archived: agent.is_some_and(|it| it.archived),
        };
        let own = badge.badge.assessment_id.to_string();
        let Some(own) = store::assessments::assessment(&self.store, organization, &own).await?
        else {
            return Ok(changes_since);
        };
        let last = self.accepted_rating(badge.agent).await?;
        changes_since.newer = last.filter(|it| it.id != own.id && it.created_at >= own.created_at);
        Ok(changes_since)
    }

    /// The last rating of an agent that no reviewer rejected.
    pub(super) async fn accepted_rating(
        &self,
        agent: AgentNumber,
    ) -> Result<Option<AssessmentRecord>, StoreError> {
        let mut before = Timestamp::MAX;
        for _ in 0..MAX_REJECTED {
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
    ) -> Result<VisibleBadge, Problem> {
        let (mut badge, organization) = self.own_badge(member, id).await?;
        let message = "an agent's own key cannot revoke badges; use another principal's key";
        self.reject_agent_key(member, message).await?;
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
        let mut decision = self.audit_entry(&member.caller, "badges:revoke", id);
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
        VisibleBadge::of(badge, organization, now).ok_or_else(taken)
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
        let nothing = || not_found("badge");
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
        if let Some(signed) = self.badges.lists.get(&number).await
            && signed.changes == list.changes
            && now.duration_since(signed.at) < RESIGN_AFTER
        {
            return Ok(Some(signed.text.clone()));
        }
        let signed = Arc::new(self.signed(&list, now).await?);
        let text = signed.text.clone();
        self.badges.lists.insert(number, signed).await;
        Ok(Some(text))
    }

    async fn signed(&self, list: &StatusListRecord, now: Timestamp) -> Result<SignedList, Problem> {
        let owner =
            store::organizations::organization_numbered(&self.store, list.organization).await;
        let owner = owner
            .map_err(|cause| internal(&cause))?
            .ok_or_else(|| not_found("status list"))?;
        let issuer = &self.badges.issuer;
        let (key, signatory, disowned) = issuer
            .key_of_issuer(&owner, &list.issuer)
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
        let signed = self.badges.run(signed).await??;
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
        let nothing = || not_found("DID document");
        if !is_id(organization) {
            return Err(nothing());
        }
        let found = store::organizations::organization(&self.store, organization).await;
        let organization = found
            .map_err(|cause| internal(&cause))?
            .ok_or_else(nothing)?;
        let issuer = &self.badges.issuer;
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
