//! Signatures of a card: JWS over the card without them (A2A 0.3.0 §5.5.6, RFC 7515), each with one of four states.
//!
//! A signature is *valid*; *expired*, which is right but over; *invalid*, which is a forgery or breaks a rule; or
//! *unverifiable*, which says nothing either way. The steps of [`check`] run in a fixed order, and the first that fails
//! decides. Keys come from the operator's trust store or from a key set the protected header names; never from the
//! signature itself.

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
pub use source::{Allowed, Endpoint, NoEndpoint};
pub use time::SigningTime;

use super::document::Card;
use super::web_url;
use payload::{Payload, Payloads};
use source::{Prepared, Source};

/// Signatures of one card that are looked at.
pub const MAX_SIGNATURES: usize = 10;
/// Signatures of one card that are told of. Those beyond [`MAX_SIGNATURES`] change no score, and a card can have a hundred
/// thousand of them.
pub const MAX_RESULTS: usize = 100;
/// Key sets that are fetched for one card.
pub const MAX_KEY_SETS: usize = 3;

/// Verifications that are tried for one card: where nobody names a key, every key may be the one, in every form of the card.
pub const MAX_VERIFICATIONS: usize = 400;
/// Octets that are verified for one card.
pub const MAX_VERIFIED_OCTETS: usize = 64 << 20;

/// What a signature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It holds.
    Valid,
    /// It is right, and its time or its key's is over.
    Expired,
    /// It is forged, or breaks a rule.
    Invalid,
    /// There is no telling.
    Unverifiable,
}

/// What became of one signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SignatureResult {
    /// Its place in the card.
    pub index: usize,
    /// Its state.
    pub state: State,
    /// Why it is not valid.
    pub reason: Option<Reason>,
    /// What of the card was signed, if it is known.
    pub profile: Option<Profile>,
    /// What is odd about it without being wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<&'static str>,
}

/// What speaks for a signature that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its key.
    pub key: Thumbprint,
    /// Whether it covers the whole card.
    pub covers_all: bool,
    /// When it was made.
    pub time: SigningTime,
    /// Whether its header does not name its key.
    pub without_key_id: bool,
    /// Whether its key comes from a host that has nothing to do with the agent.
    pub issuer_unbound: bool,
}

/// One signature, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What became of it.
    pub result: SignatureResult,
    /// What speaks for it, if it holds.
    pub held: Option<Held>,
}

/// What signatures are checked with.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// Keys the operator trusts, by their ids.
    pub trust_store: BTreeMap<String, Jwk>,
    /// What asking for each key set came to, by its URL as the header has it. One that is not here was not reached.
    pub key_sets: BTreeMap<String, KeySetAnswer>,
    /// Hosts whose key sets may speak for any agent.
    pub trusted_issuers: BTreeSet<String>,
    /// Internal places key sets may be fetched from.
    pub allowed: Allowed,
}

/// The key sets that have to be fetched before [`check`], each once, in order.
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

/// Checks every signature of a card that is told of.
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
    Holds(Profile, Held),
    Over(Profile, Reason),
}

struct Examiner<'a> {
    card: &'a Card,
    keys: &'a Keys,
    sets: BTreeMap<&'a str, Result<KeySet, Reason>>,
    /// Made when the first signature gets so far.
    payloads: OnceCell<Payloads>,
    /// What was tried so far.
    verifications: Cell<usize>,
    octets: Cell<usize>,
    now: Timestamp,
}

impl Examiner<'_> {
    /// From the key onwards.
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

    /// Counts a verification; strangers do not decide how long this host works for them.
    fn spend(&self, octets: usize) -> Result<(), Reason> {
        self.verifications.set(self.verifications.get() + 1);
        self.octets.set(self.octets.get().saturating_add(octets));
        if self.verifications.get() > MAX_VERIFICATIONS || self.octets.get() > MAX_VERIFIED_OCTETS {
            return Err(Reason::LimitExceeded);
        }
        Ok(())
    }

    /// Once the signature is known to be right.
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
        let held = Held {
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

    /// Whether keys from `key_set` are the agent's, its provider's, or of somebody who is trusted with any.
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
