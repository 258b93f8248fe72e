//! Whether a badge holds: one pure function over what was presented and what is known.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::domain::credential::did::DidDocument;
use crate::domain::credential::proof::{self, issuer};
use crate::domain::credential::same;
use crate::domain::credential::status_list::{self, has_type};

/// What is known of a badge beside what is presented.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing<'a> {
    /// The credential on record, where there is a record. What is presented has to say the very same: a signature does not
    /// see everything.
    pub recorded: Option<&'a Value>,
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
    let mut reasons = Vec::new();
    if !(has_type(presented, "VerifiableCredential") && has_type(presented, "OpenBadgeCredential"))
    {
        reasons.push(Reason::new(
            "not_a_badge",
            "it is no Open Badges 3.0 credential",
        ));
    }
    if let Err(fault) = proof::verify(presented, standing.documents) {
        reasons.push(Reason::new("unproven", fault.to_string()));
    }
    if standing
        .recorded
        .is_some_and(|recorded| !same(recorded, presented))
    {
        reasons.push(Reason::new(
            "not_as_issued",
            "it says something else than the credential on record",
        ));
    }
    let expired = timeliness(presented, now, &mut reasons);
    let revoked = revocation(presented, standing, now, &mut reasons);
    Verification {
        valid: reasons.is_empty(),
        reasons,
        expired,
        revoked,
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
            "/validFrom and /validUntil are no moments in time",
        ));
        return false;
    };
    if now < from {
        reasons.push(Reason::new(
            "not_yet_valid",
            format!("it holds from {from} on"),
        ));
    }
    if now >= until {
        reasons.push(Reason::new("expired", format!("it held until {until}")));
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
        reasons.push(Reason::new("revoked", format!("{by} has revoked it")));
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
