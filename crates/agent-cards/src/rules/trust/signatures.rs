//! Points for signatures: 30 if one is valid, bonuses for its quality, and deductions for invalid
//! or expired ones.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::rules::finding::{Code, Finding, Findings};
use crate::rules::signature::{Checked, SigningTime, State};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Signatures {
    pub score: u64,
    pub max_score: u64,
    pub tested: bool,
    pub has_valid_signature: bool,
    /// Whether two different keys made valid signatures.
    pub multiple_signatures: bool,
    /// Whether a valid signature covers the whole card.
    pub covers_all_fields: bool,
    /// Whether a valid signature is recent.
    pub is_recent: bool,
    pub has_invalid_signature: bool,
    pub has_expired_signature: bool,
}

pub(super) fn score(checked: Option<&[Checked]>, findings: &mut Findings) -> Signatures {
    let Some(signatures) = checked else {
        findings.push(Finding::new(
            Code::SignaturesNotChecked,
            "/signatures",
            "Signatures were not checked, so the card's claims count for 60 %; score the card with \
            signature verification.",
        ));
        return points(false, &[]);
    };
    if signatures.is_empty() {
        findings.push(Finding::new(
            Code::SignaturesAbsent,
            "/signatures",
            "The card has no signature, so its claims count for 60 %; sign it (A2A 0.3.0 §5.5.6).",
        ));
    }
    for (index, signature) in signatures.iter().enumerate() {
        report(index, signature, findings);
    }
    points(true, signatures)
}

fn points(tested: bool, signatures: &[Checked]) -> Signatures {
    let any = |state| signatures.iter().any(|it| it.result.state == state);
    let held = || signatures.iter().filter_map(|it| it.held.as_ref());
    let has_valid_signature = any(State::Valid);
    let keys: BTreeSet<_> = held().map(|it| it.key).collect();
    let multiple_signatures = keys.len() > 1;
    let covers_all_fields = held().any(|it| it.covers_all);
    let is_recent = held().any(|it| it.time == SigningTime::Recent);
    let has_invalid_signature = any(State::Invalid);
    let has_expired_signature = any(State::Expired);
    let awarded = 30 * u64::from(has_valid_signature)
        + 3 * u64::from(multiple_signatures)
        + 4 * u64::from(covers_all_fields)
        + 3 * u64::from(is_recent);
    let penalty = 15 * u64::from(has_invalid_signature) + 10 * u64::from(has_expired_signature);
    Signatures {
        score: awarded.saturating_sub(penalty),
        max_score: 40,
        tested,
        has_valid_signature,
        multiple_signatures,
        covers_all_fields,
        is_recent,
        has_invalid_signature,
        has_expired_signature,
    }
}

fn report(index: usize, signature: &Checked, findings: &mut Findings) {
    let mut find = |code, message: String| {
        findings.push(Finding::new(code, format!("/signatures/{index}"), message));
    };
    if let Some(reason) = signature.result.reason {
        let code = match reason.state() {
            State::Expired => Code::SignatureExpired,
            State::Unverifiable => Code::SignatureUnverifiable,
            _ => Code::SignatureInvalid,
        };
        find(code, reason.message().to_owned());
    }
    let Some(held) = &signature.held else {
        return;
    };
    if !held.covers_all {
        find(
            Code::SignatureCoveragePartial,
            "The signature leaves out members that the signer's library does not know; sign the \
            whole card by RFC 8785."
                .to_owned(),
        );
    }
    let time = match held.time {
        SigningTime::Recent => None,
        SigningTime::Old => Some((
            Code::SignatureNotRecent,
            "The signature is older than 90 days; sign the card again.",
        )),
        SigningTime::Unknown => Some((
            Code::SignatureTimeUnknown,
            "The protected header has no signing time; add `iat`.",
        )),
        SigningTime::Future => Some((
            Code::SignatureTimeFuture,
            "The signature's `iat` is in the future; correct the signer's clock.",
        )),
    };
    if let Some((code, message)) = time {
        find(code, message.to_owned());
    }
    if held.without_key_id {
        find(
            Code::SignatureKidMissing,
            "The protected header does not name its key; add `kid`.".to_owned(),
        );
    }
    if held.issuer_unbound {
        find(
            Code::SignatureIssuerUnbound,
            "The keys come from a host that is neither the agent's nor its provider's; serve \
            them from one of these, or configure the host as trusted."
                .to_owned(),
        );
    }
}
