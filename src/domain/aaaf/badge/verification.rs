//! Whether a badge holds: one pure function over what was presented and what is known.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::Badge;
use super::credential::says;
use crate::domain::aaaf::place::Place;
use crate::domain::credential::did::{DidDocument, Signatory};
use crate::domain::credential::proof::{self, issuer};
use crate::domain::credential::status_list::{self, has_type};
use crate::domain::pack::keys::PublicKey;

/// Members of an altered badge that are named.
const NAMED: usize = 20;

/// What a host has on record of a badge that it issued. A record can be changed by whoever gets at the database; what it says
/// is believed only as far as a credential of the organization says the same.
#[derive(Clone, Copy, Debug)]
pub struct OnRecord<'a> {
    /// What the badge says.
    pub badge: &'a Badge,
    /// Id of the organization.
    pub organization: &'a str,
    /// The keys of the organization that are believed.
    pub keys: &'a [PublicKey],
    /// Number of the status list.
    pub status_list: i64,
    /// Its bit in it.
    pub status_index: u32,
}

impl OnRecord<'_> {
    /// Where the host was reached when it issued the badge.
    fn base_url(&self) -> Option<&str> {
        Place::verified_at(&self.badge.verification_url, self.badge.id)
    }

    fn agrees(&self, credential: &Value) -> bool {
        self.base_url().is_some_and(|base_url| {
            let list = status_list::address(base_url, self.status_list);
            says(credential, self.badge, base_url, &list, self.status_index)
        })
    }

    /// Whether the organization signed it, by the name it had at the host's address.
    fn is_signed_by_it(&self, credential: &Value) -> bool {
        let place = self.base_url().map(Place::public);
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

/// What is known of a badge beside what is presented.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing<'a> {
    /// What is on record, where there is a record.
    pub recorded: Option<OnRecord<'a>>,
    /// Whether the record says that it is revoked.
    pub revoked: bool,
    /// The issuer's status list, where it is at hand.
    pub status_list: Option<&'a Value>,
    /// Documents of `did:web` issuers.
    pub documents: &'a [DidDocument],
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Nothing speaks against it.
    pub valid: bool,
    /// Everything that does.
    pub reasons: Vec<Reason>,
    /// Whether it is past its time.
    pub expired: bool,
    /// Whether it is revoked; `None` if nobody could say.
    pub revoked: Option<bool>,
    /// Whether it is what was issued, whatever became of it since. Without that nothing it says is believed.
    #[serde(skip)]
    pub sound: bool,
}

impl Verification {
    /// The same for a credential that came in a picture, which `is_drawn_of_it` or shows something else.
    #[must_use]
    pub fn in_picture(mut self, is_drawn_of_it: bool) -> Self {
        if !is_drawn_of_it {
            self.valid = false;
            self.reasons.push(Reason::new(
                "picture_altered",
                "the picture differs from the one rendered for its credential; trust only the \
                credential",
            ));
        }
        self
    }

    /// The same of a credential in a JSON badge, given the members of the badge that differ from the credential.
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

/// What a person is told who verifies a badge.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The badge.
    pub badge: Badge,
    /// What came of it.
    pub verification: Verification,
    /// What has happened since the badge was issued.
    pub notes: Vec<String>,
    /// When it was verified.
    pub at: Timestamp,
}

/// Why a badge does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// For programs.
    pub code: &'static str,
    /// For people.
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

/// Checks a credential, presented at `now`.
pub fn verify(presented: &Value, standing: &Standing<'_>, now: Timestamp) -> Verification {
    verify_at(presented, unsound(presented, standing), standing, now)
}

/// What speaks against a credential whenever it is presented. It takes some milliseconds, and depends on nothing but what is
/// given.
pub fn unsound(presented: &Value, standing: &Standing<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if !(has_type(presented, "VerifiableCredential") && has_type(presented, "OpenBadgeCredential"))
    {
        reasons.push(Reason::new(
            "not_a_badge",
            "it is not an Open Badges 3.0 credential",
        ));
    }
    if let Err(fault) = proof::verify(presented, standing.documents) {
        reasons.push(Reason::new("unproven", fault.to_string()));
    }
    if let Some(recorded) = &standing.recorded {
        if !recorded.is_signed_by_it(presented) {
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

/// The rest, which depends on when it is presented; `reasons` are what speaks against it whenever that is.
pub fn verify_at(
    presented: &Value,
    mut reasons: Vec<Reason>,
    standing: &Standing<'_>,
    now: Timestamp,
) -> Verification {
    let sound = reasons.is_empty();
    let expired = timeliness(presented, now, &mut reasons);
    let revoked = revocation(presented, standing, now, &mut reasons);
    Verification {
        valid: reasons.is_empty(),
        reasons,
        expired,
        revoked,
        sound,
    }
}

/// Valid from the first moment to the last, without the last. True if that is past.
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
    standing: &Standing<'_>,
    now: Timestamp,
    reasons: &mut Vec<Reason>,
) -> Option<bool> {
    let listed = standing
        .status_list
        .map(|list| status_list::revoked(presented, list, standing.documents, now));
    if standing.revoked || matches!(listed, Some(Ok(true))) {
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
        None => standing.recorded.map(|_| false),
    }
}
