//! `/api/v1/badges`. Public badges need no key; private ones are limited to members of their
//! organization.

pub mod issuer_keys;
pub mod public;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::http::RatingsApi;
use crate::http::guard::Viewer;
use crate::ports::assessments::AssessmentRecord;
use crate::ports::badges::{BadgeState, Revocation};
use crate::rules::Axis;
use crate::rules::badge::{DocumentShape, Mark, RevocationReason, Scale, Verification, document};
use crate::service::Member;
use crate::service::badges::{ChangesSinceIssue, VisibleBadge};
use touchstone_host::http::answer::etag::conditional_as;
use touchstone_host::http::answer::{Answer, OwnPage, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters, Query};
use touchstone_host::http::idempotency::{Done, once_per_principal};
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::fields::{Fields, Nulls};
use touchstone_kit::redaction::mask;

/// The media type of a verifiable credential.
pub(super) const CREDENTIAL: &str = "application/vc";
const MAX_NOTE: usize = 2000;

/// The format of a badge, taken from the end of the path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Record,
    Document,
    Svg,
    Png,
    Markdown,
}

impl Format {
    fn of(extension: Option<&str>) -> Option<Self> {
        match extension {
            None => Some(Self::Record),
            Some("json") => Some(Self::Document),
            Some("svg") => Some(Self::Svg),
            Some("png") => Some(Self::Png),
            Some("md") => Some(Self::Markdown),
            Some(_) => None,
        }
    }
}

/// `GET /api/v1/badges/{badgeId}`, by the id of the badge or of its assessment, optionally with the
/// suffix `.json`, `.svg`, `.png` or `.md`.
pub async fn get(
    State(state): State<Arc<RatingsApi>>,
    Extension(Viewer(viewer)): Extension<Viewer>,
    headers: HeaderMap,
    path: PathParameters,
    query: Query,
) -> Answer {
    let named = path.get("badgeId");
    let (id, extension) = match named.split_once('.') {
        Some((id, extension)) => (id, Some(extension)),
        None => (named, None),
    };
    let format = Format::of(extension).ok_or_else(|| {
        Problem::new(
            ErrorCode::NotFound,
            "no such badge; a badge is available as .json, .svg, .png and .md",
        )
    })?;
    let visible = state.ratings.badge(viewer.as_ref(), id).await?;
    let scale = match query.whole("scale", 1, 2)? {
        Some(_) if format != Format::Png => {
            let message = "`scale` is only allowed for .png, the only form with pixels";
            return Err(Problem::validation("scale", message).into());
        }
        Some(2) => Scale::Two,
        _ => Scale::One,
    };
    state.ratings.require_proof(&visible).await?;
    let (kind, body) = match format {
        Format::Record => (
            "application/json",
            text(&record(&visible, visible.shape(id))?),
        ),
        Format::Document => (
            "application/json",
            text(&plain(&visible, visible.shape(id))?),
        ),
        Format::Svg => ("image/svg+xml", state.ratings.badge_svg(&visible).await?),
        Format::Png => ("image/png", state.ratings.badge_png(&visible, scale).await?),
        Format::Markdown => (
            "text/markdown; charset=utf-8",
            state.ratings.badge_markdown(&visible).into(),
        ),
    };
    Ok(cached_response(&visible, &headers, kind, body))
}

/// `GET /api/v1/badges/{badgeId}/credential`: the exact bytes that were signed and that the
/// pictures contain.
pub async fn credential(
    State(state): State<Arc<RatingsApi>>,
    Extension(Viewer(viewer)): Extension<Viewer>,
    headers: HeaderMap,
    path: PathParameters,
) -> Answer {
    let visible = state.ratings.badge(viewer.as_ref(), path.get("badgeId"));
    let visible = visible.await?;
    let body = Bytes::from(visible.served().to_owned());
    Ok(cached_response(&visible, &headers, CREDENTIAL, body))
}

/// `GET /api/v1/badges/{badgeId}/verify`.
pub async fn verify(
    State(state): State<Arc<RatingsApi>>,
    Extension(Viewer(viewer)): Extension<Viewer>,
    headers: HeaderMap,
    path: PathParameters,
) -> Answer {
    let id = path.get("badgeId");
    let visible = match state.ratings.badge(viewer.as_ref(), id).await {
        Err(problem) if problem.code == ErrorCode::NotFound && prefers_page(&headers) => {
            return missing(&state);
        }
        visible => visible?,
    };
    let verification = state.ratings.verify_badge(&visible).await?;
    let appealed = state.ratings.is_appealed(&visible).await?;
    let changes = state.ratings.changes_since(&visible).await?;
    let mut response = if prefers_page(&headers) {
        let notes = notes(appealed, &changes);
        page(
            state
                .ratings
                .verification_page(&visible, verification, notes)
                .await?,
        )
    } else {
        let document = verification_json(
            &visible,
            visible.shape(id),
            &verification,
            appealed,
            &changes,
        )?;
        json(StatusCode::OK, &document)?
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// The page of a browser for a badge that does not exist.
fn missing(state: &RatingsApi) -> Answer {
    let mut response = page(state.ratings.missing_badge_page()?);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.extensions_mut().insert(OwnPage);
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Whether a client prefers HTML over JSON, as browsers do.
fn prefers_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|it| it.to_str().ok());
    let ranges = accept.unwrap_or_default().split(',');
    let mut ranges = ranges.map(|it| it.split(';').next().unwrap_or_default().trim());
    let decides = |it: &&str| matches!(*it, "text/html" | "application/json" | "*/*");
    ranges.find(decides) == Some("text/html")
}

/// The page is self-contained: it includes its styles and loads nothing.
fn page(text: Bytes) -> Response {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        ),
    );
    response
}

/// Changes since a badge was issued, in words.
fn notes(appealed: bool, changes: &ChangesSinceIssue) -> Vec<String> {
    let appealed = appealed.then(|| "An appeal against this rating is open.".to_owned());
    let newer = changes.newer.as_ref();
    let newer = newer.map(|it| format!("The agent has a newer rating: assessment {}.", it.id));
    let archived = changes
        .archived
        .then(|| "The agent is archived.".to_owned());
    [appealed, newer, archived].into_iter().flatten().collect()
}

/// `POST /api/v1/badges/{badgeId}/revoke`.
pub async fn revoke(
    State(state): State<Arc<RatingsApi>>,
    Extension(member): Extension<Member>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let id = path.get("badgeId").to_owned();
    // Check that the badge exists and belongs to the caller before validating the body.
    state.ratings.own_badge(&member, &id).await?;
    let (reason, note) = revocation(&body)?;
    let (ratings, caller) = (state.ratings.clone(), member.caller.clone());
    let endpoint = format!("POST /api/v1/badges/{id}/revoke");
    once_per_principal(&state.host, &caller, endpoint, key, &body, |_| async move {
        let revoked = ratings.revoke(&member, &id, reason, note).await?;
        Ok(Done::new(
            StatusCode::OK,
            record(&revoked, DocumentShape::Host)?,
        ))
    })
    .await
}

fn revocation(body: &Value) -> Result<(RevocationReason, Option<String>), Problem> {
    let fields = Fields::closed(body, "", &["reason", "note"], Nulls::Wrong)?;
    let reason = fields.text("reason")?.and_then(RevocationReason::parse);
    let reason = reason.ok_or_else(|| {
        let known: Vec<&str> = RevocationReason::ALL.iter().map(|it| it.as_str()).collect();
        fields.invalid("reason", &format!("must be one of {}", known.join(", ")))
    })?;
    let note = fields.text_of("note", 1..=MAX_NOTE)?;
    Ok((reason, note.map(|note| mask(note).into_owned())))
}

/// An answer that clients may cache but must revalidate, because a badge can be revoked at any
/// time.
fn cached_response(
    visible: &VisibleBadge,
    headers: &HeaderMap,
    kind: &'static str,
    body: Bytes,
) -> Response {
    let mut response = conditional_as(headers, kind, body);
    let caching = match visible.organization.private_badges {
        true => "private, no-cache",
        false => "no-cache",
    };
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

fn text(document: &Value) -> Bytes {
    document.to_string().into()
}

/// The badge as AAAF defines it, with its credential.
fn plain(visible: &VisibleBadge, shape: DocumentShape) -> Result<Value, Problem> {
    Ok(document(
        &visible.badge.badge,
        &visible.credential()?,
        shape,
    ))
}

/// The badge with its current state.
fn record(visible: &VisibleBadge, shape: DocumentShape) -> Result<Value, Problem> {
    let mut record = plain(visible, shape)?;
    let revocation = visible.badge.revocation.as_ref();
    let state = json!({
        "revision": visible.badge.revision,
        "state": visible.badge.state,
        "expired": visible.mark == Mark::Expired,
        "revoked": revocation.is_some(),
        "revoke_reason": revocation.map(|it| it.reason),
        "revoked_at": revocation.map(|it| it.at),
    });
    if let (Some(record), Value::Object(state)) = (record.as_object_mut(), state) {
        record.extend(state);
    }
    Ok(record)
}

/// A later rating, by id only: its scores are visible only to those who may see its badge.
fn newer_rating(newer: &AssessmentRecord) -> Value {
    let badge = newer.badge.as_ref();
    let issued = badge.filter(|it| matches!(it.state, BadgeState::Issued | BadgeState::Revoked));
    json!({
        "assessment_id": newer.id,
        "completed_at": newer.ended_at,
        "badge_id": issued.map(|it| it.id.as_str()),
        "badge_state": badge.map_or("none", |it| it.state.as_str()),
    })
}

fn verification_json(
    visible: &VisibleBadge,
    shape: DocumentShape,
    verification: &Verification,
    appealed: bool,
    changes: &ChangesSinceIssue,
) -> Result<Value, Problem> {
    let badge = &visible.badge.badge;
    let rating = |axis: Axis| {
        let rating = badge.rating(axis);
        // Scores without a valid signature are not shown anywhere.
        verification.sound.then(|| {
            json!({"composite_score": rating.score.as_f64(), "score": rating.score, "tier": rating.tier,
                "coverage": rating.coverage})
        })
    };
    let tier = |axis: Axis| verification.sound.then(|| badge.rating(axis).tier);
    let credential = visible.credential()?;
    let credential_id = credential.get("id").and_then(Value::as_str);
    let credential_id = credential_id.ok_or_else(|| internal(&NoId))?;
    let revocation: Option<&Revocation> = visible.badge.revocation.as_ref();
    Ok(json!({
        "valid": verification.valid,
        "badge_id": badge.id,
        "credential_id": credential_id,
        "agent": badge.agent,
        "agent_name": badge.agent.name,
        "organization": match shape {
            DocumentShape::Host => json!(badge.organization),
            DocumentShape::Specification => json!(badge.organization.name),
        },
        "organization_id": badge.organization.id,
        "performance": rating(Axis::Performance),
        "performance_tier": tier(Axis::Performance),
        "capability": rating(Axis::Capability),
        "capability_tier": tier(Axis::Capability),
        "assessment_id": badge.assessment_id,
        "issued": badge.certified_at,
        "certified_date": badge.certified_at,
        "valid_until": badge.valid_until,
        "expired": verification.expired,
        "revoked": revocation.is_some(),
        "revoke_reason": revocation.map(|it| it.reason),
        "appeal_open": appealed,
        "newer_rating": changes.newer.as_ref().map(newer_rating),
        "agent_archived": changes.archived,
        "reasons": verification.reasons,
    }))
}

/// A stored credential without an id.
#[derive(Debug, thiserror::Error)]
#[error("a stored credential has no id")]
struct NoId;
