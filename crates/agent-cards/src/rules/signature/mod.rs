//! Signatures of a card: JWS over the card without its signatures (A2A 0.3.0 §5.5.6, RFC 7515),
//! each with one of four states.
//!
//! A signature is *valid*; *expired*, which is correct but past its end; *invalid*, which is forged
//! or violates a rule; or *unverifiable*, which is undecided. [`check`] performs its steps in a
//! fixed order, and the first failure decides. Keys come from the operator's trust store or from a
//! key set that the protected header names, never from the signature itself.

mod algorithm;
mod header;
mod jwk;
mod key_set;
mod payload;
mod python;
mod reason;
mod schema;
mod source;
mod time;

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

pub use header::MAX_HEADER_OCTETS;
pub use jwk::{Jwk, Thumbprint};
pub use key_set::{KeySet, KeySetAnswer, MAX_KEY_SET_OCTETS, MAX_KEYS};
pub use payload::Profile;
pub use reason::Reason;
pub use time::SigningTime;

use super::document::Card;
use super::web_url;
use payload::{Payload, Payloads};
use source::{Prepared, Source};
use touchstone_kit::network::Allowed;

/// Maximum signatures of a card that are checked.
pub const MAX_SIGNATURES: usize = 10;
/// Maximum signatures of a card that are reported. Those beyond [`MAX_SIGNATURES`] do not change
/// the score, and a card can have a hundred thousand of them.
pub const MAX_RESULTS: usize = 100;
/// Maximum key sets that are fetched for a card.
pub const MAX_KEY_SETS: usize = 3;

/// Maximum verifications for a card: if no key id is named, every key is tried on every form of the
/// card.
pub const MAX_VERIFICATIONS: usize = 400;
/// Maximum bytes that are verified for a card.
pub const MAX_VERIFIED_OCTETS: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Valid,
    /// It is correct, but it or its key has expired.
    Expired,
    /// It is forged, or violates a rule.
    Invalid,
    /// It could not be decided.
    Unverifiable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SignatureResult {
    /// Index in the card's `signatures`.
    pub index: usize,
    pub state: State,
    /// Why it is not valid.
    pub reason: Option<Reason>,
    /// The signed form of the card, if it is known.
    pub profile: Option<Profile>,
    /// A deviation that does not make the signature invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<&'static str>,
}

/// Properties of a valid signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureProperties {
    /// Thumbprint of its key.
    pub key: Thumbprint,
    /// Whether it covers the whole card.
    pub covers_all: bool,
    pub time: SigningTime,
    /// Whether its header does not name its key.
    pub without_key_id: bool,
    /// Whether its key comes from a host that is unrelated to the agent.
    pub issuer_unbound: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    pub result: SignatureResult,
    /// Properties of the signature, if it is valid.
    pub held: Option<SignatureProperties>,
}

/// The keys and rules for verifying signatures.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// Keys that the operator trusts, by id.
    pub trust_store: BTreeMap<String, Jwk>,
    /// The result of fetching each key set, by its URL as in the header. A key set that is missing
    /// here was not fetched.
    pub key_sets: BTreeMap<String, KeySetAnswer>,
    /// Hosts whose key sets are accepted for any agent.
    pub trusted_issuers: BTreeSet<String>,
    /// Internal addresses that key sets may be fetched from.
    pub allowed: Allowed,
}

/// The key sets that must be fetched before [`check`], without duplicates, in order.
pub fn needed_key_sets(card: &Card, keys: &Keys) -> Vec<String> {
    let mut needed: Vec<String> = Vec::new();
    for signature in card.items("signatures").iter().take(MAX_SIGNATURES) {
        if let Ok(Prepared {
            source: Source::KeySet { text, .. },
            ..
        }) = source::prepare(signature, keys)
            && !needed.contains(&text)
            && needed.len() < MAX_KEY_SETS
        {
            needed.push(text);
        }
    }
    needed
}

/// Checks every reported signature of a card.
pub fn check(card: &Card, keys: &Keys, now: Timestamp) -> Vec<Checked> {
    let needed = needed_key_sets(card, keys);
    let sets: BTreeMap<&str, Result<KeySet, Reason>> = needed
        .iter()
        .map(|url| (url.as_str(), KeySetAnswer::read(keys.key_sets.get(url))))
        .collect();
    let examiner = Examiner {
        card,
        keys,
        sets,
        payloads: OnceCell::new(),
        verifications: Cell::new(0),
        octets: Cell::new(0),
        now,
    };
    let signatures = card
        .items("signatures")
        .iter()
        .enumerate()
        .take(MAX_RESULTS);
    let checked = signatures.map(|(index, signature)| {
        let prepared = if index < MAX_SIGNATURES {
            source::prepare(signature, keys)
        } else {
            Err(Reason::LimitExceeded)
        };
        let warning = prepared.as_ref().ok().and_then(|it| it.header.warning());
        let outcome = prepared.and_then(|it| examiner.examine(&it));
        let (reason, profile, held) = match outcome {
            Ok(Outcome::Holds(profile, held)) => (None, Some(profile), Some(held)),
            Ok(Outcome::Over(profile, reason)) => (Some(reason), Some(profile), None),
            Err(reason) => (Some(reason), None, None),
        };
        let result = SignatureResult {
            index,
            state: reason.map_or(State::Valid, Reason::state),
            reason,
            profile,
            warning,
        };
        Checked { result, held }
    });
    checked.collect()
}

enum Outcome {
    Holds(Profile, SignatureProperties),
    Over(Profile, Reason),
}

struct Examiner<'a> {
    card: &'a Card,
    keys: &'a Keys,
    sets: BTreeMap<&'a str, Result<KeySet, Reason>>,
    /// Created when the first signature needs them.
    payloads: OnceCell<Payloads>,
    /// Number of verifications so far.
    verifications: Cell<usize>,
    octets: Cell<usize>,
    now: Timestamp,
}

impl Examiner<'_> {
    /// Checks a signature from its key onwards.
    fn examine(&self, prepared: &Prepared<'_>) -> Result<Outcome, Reason> {
        let header = &prepared.header;
        let candidates: Vec<&Jwk> = match &prepared.source {
            Source::Trusted(key) => vec![*key],
            Source::KeySet { text, .. } => {
                let set = self.sets.get(text.as_str());
                let set = set
                    .ok_or(Reason::LimitExceeded)?
                    .as_ref()
                    .map_err(|reason| *reason)?;
                let named = set.with_id(header.key_id());
                if named.is_empty() {
                    return Err(Reason::KidNotFound);
                }
                named
            }
        };
        let usable: Vec<_> = candidates
            .into_iter()
            .filter_map(|key| Some((key, key.verifier(prepared.algorithm)?)))
            .collect();
        if usable.is_empty() {
            return Err(Reason::KeyMismatch);
        }
        let payloads = self
            .payloads
            .get_or_init(|| Payloads::of(self.card.members()));
        // One input at a time: each is as long as the card.
        for payload in Profile::ALL.into_iter().filter_map(|it| payloads.get(it)) {
            let input = format!("{}.{}", prepared.protected, payload.encoded);
            for (key, verifier) in &usable {
                self.spend(input.len())?;
                if verifier.verifies(input.as_bytes(), &prepared.signature) {
                    return self.judge_times(prepared, key, verifier.thumbprint(), payload);
                }
            }
        }
        Err(Reason::SignatureMismatch)
    }

    /// Counts a verification. Limits the work that an untrusted card can cause.
    fn spend(&self, octets: usize) -> Result<(), Reason> {
        self.verifications.set(self.verifications.get() + 1);
        self.octets.set(self.octets.get().saturating_add(octets));
        if self.verifications.get() > MAX_VERIFICATIONS || self.octets.get() > MAX_VERIFIED_OCTETS {
            return Err(Reason::LimitExceeded);
        }
        Ok(())
    }

    /// Checks the times of a signature that verifies.
    fn judge_times(
        &self,
        prepared: &Prepared<'_>,
        key: &Jwk,
        thumbprint: Thumbprint,
        payload: &Payload,
    ) -> Result<Outcome, Reason> {
        let header = &prepared.header;
        if key.is_revoked() {
            return Err(Reason::KeyRevoked);
        }
        for (expiry, reason) in [
            (header.expiry(), Reason::ExpPassed),
            (key.expiry(), Reason::KeyExpired),
        ] {
            if time::is_over(expiry, self.now) {
                return Ok(Outcome::Over(payload.profile, reason));
            }
        }
        if time::is_still_to_come(header.not_before(), self.now) {
            return Err(Reason::NotYetValid);
        }
        let held = SignatureProperties {
            key: thumbprint,
            covers_all: payload.covers_all,
            time: SigningTime::of(header.issued_at(), self.now),
            without_key_id: header.key_id().is_none(),
            issuer_unbound: match &prepared.source {
                Source::Trusted(_) => false,
                Source::KeySet { url, .. } => !self.speaks_for_agent(url),
            },
        };
        Ok(Outcome::Holds(payload.profile, held))
    }

    /// Whether keys from `key_set` are those of the agent, its provider or a trusted issuer.
    fn speaks_for_agent(&self, key_set: &Url) -> bool {
        let Some(host) = key_set.host_str() else {
            return false;
        };
        let own = [self.card.text("url"), self.card.provider_text("url")];
        self.keys.trusted_issuers.contains(host)
            || own
                .into_iter()
                .flatten()
                .any(|text| web_url::parse(text).is_some_and(|url| url.host_str() == Some(host)))
    }
}
