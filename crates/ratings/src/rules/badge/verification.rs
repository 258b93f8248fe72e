//! Verifies a badge: a pure function of the presented credential and the known facts.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::Badge;
use super::credential::states_badge;
use crate::credential::did::{DidDocument, Signatory};
use crate::credential::proof::{self, issuer};
use crate::credential::status_list::{self, has_type};
use crate::rules::badge::host_url::HostUrl;
use crate::rules::scoring::interval::Intervals;
use touchstone_kit::keys::PublicKey;

/// Maximum number of altered members that a message names.
const NAMED: usize = 20;

/// The host's record of an issued badge. Anyone with access to the database can change it, so it is
/// trusted only where a credential signed by the organization agrees.
#[derive(Clone, Copy, Debug)]
pub struct StoredBadge<'a> {
    /// The content of the badge.
    pub badge: &'a Badge,
    /// The id of the organization.
    pub organization: &'a str,
    /// The trusted keys of the organization.
    pub keys: &'a [PublicKey],
    /// The number of the status list.
    pub status_list: i64,
    /// The index of the badge's bit in the list.
    pub status_index: u32,
}

impl StoredBadge<'_> {
    /// The base URL of the host when it issued the badge.
    fn base_url(&self) -> Option<&str> {
        HostUrl::verified_at(&self.badge.verification_url, self.badge.id)
    }

    fn agrees(&self, credential: &Value) -> bool {
        self.base_url().is_some_and(|base_url| {
            let list = status_list::address(base_url, self.status_list);
            states_badge(credential, self.badge, base_url, &list, self.status_index)
        })
    }

    /// Whether the organization signed it, under the name it had at the host's address.
    fn is_signed_by_organization(&self, credential: &Value) -> bool {
        let place = self.base_url().map(HostUrl::public);
        let method = credential.pointer("/proof/verificationMethod");
        self.keys.iter().any(|key| {
            let signatory = match &place {
                Some(Ok(place)) => place.signatory(self.organization, key),
                _ => Signatory::by_key(key),
            };
            issuer(credential) == Some(&signatory.did)
                && method.and_then(Value::as_str) == Some(&signatory.method)
        })
    }
}

/// Known facts about a badge that the presented credential does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerificationContext<'a> {
    /// The record of the badge, if there is one.
    pub recorded: Option<StoredBadge<'a>>,
    /// Whether the record says that the badge is revoked.
    pub revoked: bool,
    /// The issuer's status list, if available.
    pub status_list: Option<&'a Value>,
    pub documents: &'a [DidDocument],
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Whether there are no reasons against it.
    pub valid: bool,
    /// All reasons why the badge is invalid.
    pub reasons: Vec<Reason>,
    /// Whether the badge has expired.
    pub expired: bool,
    /// `None` if this could not be determined.
    pub revoked: Option<bool>,
    /// Whether the credential is what was issued, even if it has expired or was revoked. Otherwise
    /// none of its content is trusted.
    #[serde(skip)]
    pub sound: bool,
}

impl Verification {
    /// Adds the result for the picture that contained the credential; `matches_credential` is true
    /// if the picture was rendered from the credential.
    #[must_use]
    pub fn in_picture(mut self, matches_credential: bool) -> Self {
        if !matches_credential {
            self.valid = false;
            self.reasons.push(Reason::new(
                "picture_altered",
                "the picture differs from the one rendered for its credential; trust only the \
                credential",
            ));
        }
        self
    }

    /// Adds the result for a JSON badge that contained the credential, given the members that
    /// differ from the credential.
    #[must_use]
    pub fn in_document(mut self, altered: &[String]) -> Self {
        if !altered.is_empty() {
            let shown: Vec<&str> = altered.iter().take(NAMED).map(String::as_str).collect();
            let rest = match altered.len() - shown.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            self.valid = false;
            self.reasons.push(Reason::new(
                "document_altered",
                format!(
                    "the badge differs from its signed credential in {}{rest}; trust only the \
                    credential",
                    shown.join(", ")
                ),
            ));
        }
        self
    }
}

/// The verification of a badge, as shown to a person.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub badge: Badge,
    pub verification: Verification,
    pub notes: Vec<String>,
    /// The intervals of the assessment, which the badge does not contain.
    pub intervals: Intervals,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// A stable code for programs.
    pub code: &'static str,
    /// The reason in words.
    pub message: String,
}

impl Reason {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Verifies a credential that is presented at `now`.
pub fn verify(
    presented: &Value,
    context: &VerificationContext<'_>,
    now: Timestamp,
) -> Verification {
    verify_at(presented, check_proof(presented, context), context, now)
}

/// The reasons against a credential that do not depend on the time. Takes some milliseconds, and
/// depends only on the arguments.
pub fn check_proof(presented: &Value, context: &VerificationContext<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if !(has_type(presented, "VerifiableCredential") && has_type(presented, "OpenBadgeCredential"))
    {
        reasons.push(Reason::new(
            "not_a_badge",
            "it is not an Open Badges 3.0 credential",
        ));
    }
    if let Err(fault) = proof::verify(presented, context.documents) {
        reasons.push(Reason::new("unproven", fault.to_string()));
    }
    if let Some(recorded) = &context.recorded {
        if !recorded.is_signed_by_organization(presented) {
            reasons.push(Reason::new(
                "other_issuer",
                "it is not signed with a trusted key of its organization",
            ));
        }
        if !recorded.agrees(presented) {
            reasons.push(Reason::new(
                "not_as_recorded",
                "the credential differs from the record of the badge",
            ));
        }
    }
    reasons
}

/// The checks that depend on the time; `reasons` are those of [`check_proof`].
pub fn verify_at(
    presented: &Value,
    mut reasons: Vec<Reason>,
    context: &VerificationContext<'_>,
    now: Timestamp,
) -> Verification {
    let sound = reasons.is_empty();
    let expired = timeliness(presented, now, &mut reasons);
    let revoked = revocation(presented, context, now, &mut reasons);
    Verification {
        valid: reasons.is_empty(),
        reasons,
        expired,
        revoked,
        sound,
    }
}

/// Checks that `now` is within the validity, start inclusive and end exclusive. Returns whether the
/// badge has expired.
fn timeliness(presented: &Value, now: Timestamp, reasons: &mut Vec<Reason>) -> bool {
    let at = |name: &str| {
        let text = presented.get(name).and_then(Value::as_str);
        text.and_then(|text| text.parse::<Timestamp>().ok())
    };
    let (Some(from), Some(until)) = (at("validFrom"), at("validUntil")) else {
        reasons.push(Reason::new(
            "no_validity",
            "/validFrom or /validUntil is not a timestamp",
        ));
        return false;
    };
    if now < from {
        reasons.push(Reason::new(
            "not_yet_valid",
            format!("it is not valid before {from}"),
        ));
    }
    if now >= until {
        reasons.push(Reason::new(
            "expired",
            format!("it was valid until {until}"),
        ));
    }
    now >= until
}

fn revocation(
    presented: &Value,
    context: &VerificationContext<'_>,
    now: Timestamp,
    reasons: &mut Vec<Reason>,
) -> Option<bool> {
    let listed = context
        .status_list
        .map(|list| status_list::revoked(presented, list, context.documents, now));
    if context.revoked || matches!(listed, Some(Ok(true))) {
        let by = issuer(presented).unwrap_or("its issuer");
        reasons.push(Reason::new("revoked", format!("{by} revoked it")));
        return Some(true);
    }
    match listed {
        Some(Err(unknown)) => {
            reasons.push(Reason::new("status_unknown", unknown.to_string()));
            None
        }
        Some(Ok(_)) => Some(false),
        None => context.recorded.map(|_| false),
    }
}
