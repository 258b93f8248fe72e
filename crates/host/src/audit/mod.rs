//! The audit log: one hash chain of entries per tenant (OpenWOP audit-log-integrity).
//!
//! An entry's hash is SHA-256 over its RFC 8785 canonical form, which includes the previous entry's
//! hash. [`Walk`] therefore finds every changed, added, removed or moved entry at its position. The
//! hash of the last entry is stored separately, so that a truncated chain is found too. Entries
//! hold ids, labels and reasons, never content.

pub mod checkpoint;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use touchstone_kit::hex::hex;
use touchstone_kit::ids::{RunId, TenantId};

/// The stored head of an empty chain. The `prev_hash` of a first entry is `null`; first entries
/// written by earlier versions hold this value instead.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Done,
    /// The caller lacks the permission.
    Denied,
    /// A gate refused.
    Refused,
    /// An approval is pending.
    Pending,
}

/// A decision, before it is added to the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub at: Timestamp,
    pub principal: String,
    /// The requested action, such as `deploy:promote`.
    pub action: String,
    /// The resource, such as `agent-id@1.2.0`.
    pub resource: String,
    pub outcome: Outcome,
    /// Reasons, each as a name followed by a message.
    pub reasons: Vec<String>,
    /// The evidence, if the decision is about a deployment.
    pub decided_on: Option<Value>,
    /// The run that holds the events, if there is one.
    pub run_id: Option<RunId>,
}

impl Decision {
    /// An act that was done.
    pub fn done(at: Timestamp, principal: &str, action: &str, resource: String) -> Self {
        Self {
            at,
            principal: principal.to_owned(),
            action: action.to_owned(),
            resource,
            outcome: Outcome::Done,
            reasons: Vec::new(),
            decided_on: None,
            run_id: None,
        }
    }

    #[must_use]
    pub fn because(self, reasons: Vec<String>) -> Self {
        Self { reasons, ..self }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Position in the chain, from 1, without gaps.
    pub sequence: u64,
    /// The tenant that owns the chain.
    pub tenant: TenantId,
    pub at: Timestamp,
    pub principal: String,
    pub action: String,
    pub resource: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_on: Option<Value>,
    /// The run that holds the events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Hash of the previous entry; `null` in the first.
    #[serde(default)]
    pub prev_hash: Option<String>,
}

/// The end of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainHead {
    /// The last sequence number, 0 for an empty chain.
    pub sequence: u64,
    /// Hash of the last entry; [`GENESIS`] for an empty chain.
    pub hash: String,
}

impl Default for ChainHead {
    fn default() -> Self {
        Self {
            sequence: 0,
            hash: GENESIS.to_owned(),
        }
    }
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub sequence: u64,
    /// The entry in canonical form (RFC 8785).
    pub body: String,
    /// The hash of the entry when it was written.
    pub hash: String,
}

/// The entry could not be serialized, which is a bug.
#[derive(Debug, thiserror::Error)]
#[error("an audit entry cannot be written as canonical JSON")]
pub struct Unwritable(#[source] serde_json::Error);

impl ChainHead {
    /// The next link of the chain.
    ///
    /// # Errors
    /// [`Unwritable`], which no entry of this module's types triggers.
    pub fn extend(&self, tenant: &TenantId, decision: &Decision) -> Result<Link, Unwritable> {
        let entry = Entry {
            sequence: self.sequence + 1,
            tenant: tenant.clone(),
            at: decision.at,
            principal: decision.principal.clone(),
            action: decision.action.clone(),
            resource: decision.resource.clone(),
            outcome: decision.outcome,
            reasons: decision.reasons.clone(),
            decided_on: decision.decided_on.clone(),
            run_id: decision.run_id.clone(),
            prev_hash: (self.sequence > 0).then(|| self.hash.clone()),
        };
        let body = serde_json_canonicalizer::to_string(&entry).map_err(Unwritable)?;
        Ok(Link {
            sequence: entry.sequence,
            hash: hex(&digest(body.as_bytes())),
            body,
        })
    }
}

impl Link {
    /// The chain head if this link is the last one.
    pub fn head(&self) -> ChainHead {
        ChainHead {
            sequence: self.sequence,
            hash: self.hash.clone(),
        }
    }

    /// Whether the entry still has the hash it was written with.
    pub fn is_intact(&self) -> bool {
        self.found() == self.hash
    }

    /// The hash of the entry as it is now.
    pub fn digest(&self) -> [u8; 32] {
        let canonical = serde_json::from_str::<Value>(&self.body)
            .ok()
            .and_then(|value| serde_json_canonicalizer::to_string(&value).ok());
        digest(canonical.as_deref().unwrap_or(&self.body).as_bytes())
    }

    /// [`Self::digest`] in hexadecimal.
    fn found(&self) -> String {
        hex(&self.digest())
    }

    /// The previous hash in the entry; empty if it is absent, [`GENESIS`] for `null`.
    fn held(&self) -> String {
        let value: Option<Value> = serde_json::from_str(&self.body).ok();
        match value.as_ref().and_then(|value| value.get("prevHash")) {
            Some(Value::String(hash)) => hash.clone(),
            Some(Value::Null) => GENESIS.to_owned(),
            _ => String::new(),
        }
    }
}

/// A break of the chain (OpenWOP audit-verify-result `Anomaly`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Anomaly {
    /// The entry whose previous hash does not match the entry before; one past the end if the last
    /// entry was changed.
    pub at_seq: u64,
    /// The hash of the previous entry.
    pub expected_prev_hash: String,
    /// The previous hash that the entry holds.
    pub actual_prev_hash: String,
}

/// Verifies a chain link by link.
#[derive(Debug)]
pub struct Walk {
    /// The next expected sequence number.
    next: u64,
    expected: String,
    anomalies: Vec<Anomaly>,
}

/// Verification reports at most this many breaks.
const MAX_ANOMALIES: usize = 100;

impl Walk {
    /// Starts after `before`, or at the beginning of the chain.
    pub fn behind(before: Option<&Link>) -> Self {
        Self {
            next: before.map_or(1, |link| link.sequence + 1),
            expected: before.map_or_else(|| GENESIS.to_owned(), Link::found),
            anomalies: Vec::new(),
        }
    }

    /// Verifies the next stored link.
    pub fn step(&mut self, link: &Link) {
        let held = link.held();
        if held != self.expected || link.sequence != self.next {
            self.note(link.sequence, held);
        }
        self.next = link.sequence + 1;
        self.expected = link.found();
    }

    /// The sequence number of the last verified entry, or 0.
    pub fn reached(&self) -> u64 {
        self.next - 1
    }

    /// Compares the end of the chain with the stored head and returns all breaks.
    pub fn end(mut self, head: &ChainHead) -> Vec<Anomaly> {
        if self.expected != head.hash || self.next != head.sequence + 1 {
            self.note(self.next, head.hash.clone());
        }
        self.anomalies
    }

    /// The breaks found so far, for a part of the chain that does not reach its end.
    pub fn found(self) -> Vec<Anomaly> {
        self.anomalies
    }

    fn note(&mut self, at_seq: u64, actual_prev_hash: String) {
        if self.anomalies.len() < MAX_ANOMALIES {
            self.anomalies.push(Anomaly {
                at_seq,
                expected_prev_hash: self.expected.clone(),
                actual_prev_hash,
            });
        }
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn decision(n: u64) -> Decision {
        Decision {
            at: Timestamp::from_second(1_800_000_000 + i64::try_from(n).unwrap()).unwrap(),
            principal: "key_1".to_owned(),
            action: "deploy:promote".to_owned(),
            resource: format!("vendor.acme.triage.default@1.{n}.0"),
            outcome: Outcome::Refused,
            reasons: vec!["passed: it did not".to_owned()],
            decided_on: Some(json!({"evalRunId": "run_9"})),
            run_id: Some(RunId::from("run_1")),
        }
    }

    fn chain(length: u64) -> (Vec<Link>, ChainHead) {
        let mut head = ChainHead::default();
        let links = (0..length)
            .map(|n| {
                let link = head.extend(&TenantId::from("acme"), &decision(n)).unwrap();
                head = link.head();
                link
            })
            .collect();
        (links, head)
    }

    fn verify(links: &[Link], head: &ChainHead) -> Vec<u64> {
        let mut walk = Walk::behind(None);
        links.iter().for_each(|link| walk.step(link));
        walk.end(head)
            .iter()
            .map(|anomaly| anomaly.at_seq)
            .collect()
    }

    #[test]
    fn an_unchanged_chain_verifies() {
        for length in [0, 1, 2, 10] {
            let (links, head) = chain(length);
            assert_eq!(head.sequence, length);
            assert_eq!(verify(&links, &head), [] as [u64; 0]);
            assert!(links.iter().all(Link::is_intact));
        }
    }

    #[test]
    fn the_first_entry_alone_has_no_previous_hash() {
        let (mut links, head) = chain(2);
        let held =
            |link: &Link| serde_json::from_str::<Value>(&link.body).unwrap()["prevHash"].clone();
        assert_eq!(held(&links[0]), Value::Null);
        assert_eq!(held(&links[1]), links[0].hash.as_str());
        links[1].body = links[1]
            .body
            .replace(&format!("\"{}\"", links[0].hash), "null");
        assert_eq!(verify(&links, &head), [2, 3]);
    }

    /// Earlier versions wrote zeros as the previous hash of the first entry.
    #[test]
    fn a_chain_may_begin_with_zeros() {
        let (links, _) = chain(1);
        let body = links[0]
            .body
            .replace("\"prevHash\":null", &format!("\"prevHash\":\"{GENESIS}\""));
        assert_ne!(body, links[0].body);
        let hash = hex(&digest(body.as_bytes()));
        let first = Link {
            sequence: 1,
            body,
            hash,
        };
        let second = first
            .head()
            .extend(&TenantId::from("acme"), &decision(1))
            .unwrap();
        let head = second.head();
        assert_eq!(verify(&[first, second], &head), [] as [u64; 0]);
    }

    #[test]
    fn reformatting_an_entry_does_not_break_the_chain() {
        let (mut links, head) = chain(3);
        let value: Value = serde_json::from_str(&links[1].body).unwrap();
        links[1].body = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(verify(&links, &head), [] as [u64; 0]);
    }

    #[rstest]
    #[case::first(1)]
    #[case::middle(3)]
    #[case::last(5)]
    fn an_entry_that_was_changed_breaks_the_link_behind_it(#[case] at: usize) {
        let (mut links, head) = chain(5);
        let link = &mut links[at - 1];
        link.body = link.body.replace("refused", "done");
        assert!(!link.is_intact());
        assert_eq!(verify(&links, &head), [at as u64 + 1]);
    }

    #[test]
    fn an_entry_changed_together_with_its_hash_is_detected() {
        let (mut links, head) = chain(5);
        let link = &mut links[2];
        link.body = link.body.replace("refused", "done");
        link.hash = link.found();
        assert!(link.is_intact());
        assert_eq!(verify(&links, &head), [4]);
    }

    #[test]
    fn missing_and_duplicate_entries_are_detected() {
        let (links, head) = chain(5);
        let mut gone = links.clone();
        gone.remove(2);
        assert_eq!(verify(&gone, &head), [4]);
        let mut twice = links.clone();
        twice.insert(3, links[2].clone());
        assert_eq!(verify(&twice, &head), [3]);
    }

    #[test]
    fn a_truncated_or_extended_chain_is_detected() {
        let (links, head) = chain(5);
        assert_eq!(verify(&links[..3], &head), [4]);
        assert_eq!(verify(&[], &head), [1]);
        let (longer, _) = chain(6);
        assert_eq!(verify(&longer, &head), [7]);
    }

    #[test]
    fn entry_hashes_depend_on_the_tenant() {
        let (links, _) = chain(1);
        let other = ChainHead::default()
            .extend(&TenantId::from("globex"), &decision(0))
            .unwrap();
        assert_ne!(links[0].hash, other.hash);
    }

    #[test]
    fn part_of_a_chain_is_verified_against_the_preceding_entry() {
        let (mut links, _) = chain(5);
        links[1].body = links[1].body.replace("refused", "done");
        let mut walk = Walk::behind(Some(&links[2]));
        links[3..].iter().for_each(|link| walk.step(link));
        assert_eq!(walk.found(), []);
        let mut walk = Walk::behind(Some(&links[1]));
        links[2..].iter().for_each(|link| walk.step(link));
        assert_eq!(walk.found().len(), 1);
    }

    proptest! {
        #[test]
        fn any_change_of_any_member_is_found(at in 0_usize..6, member in 0_usize..11, text in "[A-Z]{1,12}") {
            let (mut links, head) = chain(6);
            let mut value: Value = serde_json::from_str(&links[at].body).unwrap();
            let key = value.as_object().unwrap().keys().nth(member).unwrap().clone();
            value[&key] = Value::from(text);
            links[at].body = value.to_string();
            prop_assert!(!links[at].is_intact());
            prop_assert!(!verify(&links, &head).is_empty());
        }
    }
}
