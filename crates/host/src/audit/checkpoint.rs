//! Signed checkpoints of a chain (OpenWOP audit-log-integrity, RFC 0218).
//!
//! A checkpoint is a signed Merkle root over the entries since the previous checkpoint. The leaves
//! are the hashes of the entries. A parent is SHA-256 over the hexadecimal digits of its two
//! children; a last node without a sibling moves up unchanged. Checkpoints that are stored outside
//! the host reveal whether earlier entries were rewritten.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::audit::Link;
use touchstone_kit::hex::hex;
use touchstone_kit::keys::{PublicKey, SecretKey};

/// Maximum entries per checkpoint.
pub const MAX_ENTRIES: u32 = 1000;
/// A running host signs a checkpoint of new entries within this time.
pub const INTERVAL_SECONDS: u64 = 60;

/// A checkpoint (OpenWOP audit-verify-result `Checkpoint`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    #[serde(rename = "checkpoint")]
    pub id: String,
    /// Sequence of the previous checkpoint's last entry, or 0.
    #[serde(skip)]
    pub after: u64,
    /// Sequence of the last entry.
    pub at_sequence: u64,
    /// The root in hexadecimal.
    pub merkle_root: String,
    /// Ed25519 over the 32 bytes of the root, in base64.
    pub signature: String,
    #[serde(skip)]
    pub at: Timestamp,
}

impl Checkpoint {
    /// Signs consecutive entries; `None` for an empty slice.
    pub fn sign(id: String, links: &[Link], at: Timestamp, key: &SecretKey) -> Option<Self> {
        let (first, last) = (links.first()?, links.last()?);
        let leaves: Vec<[u8; 32]> = links.iter().map(Link::digest).collect();
        let root = merkle_root(&leaves)?;
        Some(Self {
            id,
            after: first.sequence.saturating_sub(1),
            at_sequence: last.sequence,
            merkle_root: hex(&root),
            signature: STANDARD.encode(key.sign(&root)),
            at,
        })
    }

    pub fn entries(&self) -> u64 {
        self.at_sequence.saturating_sub(self.after)
    }

    /// Whether this is a checkpoint of exactly these entries, signed with this key.
    pub fn holds(&self, links: &[Link], key: &PublicKey) -> bool {
        // The number of leaves is checked because inner nodes used as leaves would give the same
        // root.
        let complete = u64::try_from(links.len()) == Ok(self.entries());
        let leaves: Vec<[u8; 32]> = links.iter().map(Link::digest).collect();
        let root = merkle_root(&leaves).filter(|root| complete && hex(root) == self.merkle_root);
        let signature = STANDARD.decode(&self.signature).unwrap_or_default();
        root.is_some_and(|root| key.verifies(&root, &signature))
    }
}

/// The root over the leaves; `None` for an empty slice.
fn merkle_root(leaves: &[[u8; 32]]) -> Option<[u8; 32]> {
    let mut level = leaves.to_vec();
    while level.len() > 1 {
        let (pairs, odd) = level.as_chunks::<2>();
        let parents = pairs.iter().map(|[left, right]| parent(left, right));
        level = parents.chain(odd.iter().copied()).collect();
    }
    level.first().copied()
}

fn parent(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(format!("{}{}", hex(left), hex(right))).into()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn links(count: u64) -> Vec<Link> {
        (1..=count)
            .map(|sequence| Link {
                sequence,
                body: format!("{{\"n\":{sequence}}}"),
                hash: String::new(),
            })
            .collect()
    }

    fn key() -> SecretKey {
        SecretKey::from_random([7; 32])
    }

    fn signed(links: &[Link]) -> Checkpoint {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        Checkpoint::sign("cp_1".to_owned(), links, at, &key()).unwrap()
    }

    /// Roots of the entries `{"n":1}`, `{"n":2}` and so on, computed with Python's hashlib.
    #[rstest]
    #[case(1, "2bfd14f43d17fc7cea24e0917a8879b4b2f880b8baeec1b9d90fbaad655e71bd")]
    #[case(2, "f6aaf885a1bfb70c941a05dd1f41dfa9a445c991932245a27687b0e14912a600")]
    #[case(4, "658e2c8ee4a5ba946d7c720de8151aa70ee4fd3a438268874344ef6755473c9f")]
    #[case(5, "32d7783071237bb7d4cb24a3b0e69e59560194d197ee63adef6172740f688d69")]
    fn roots_are_those_of_rfc_0218(#[case] count: u64, #[case] root: &str) {
        let links = links(count);
        let checkpoint = signed(&links);
        assert_eq!(checkpoint.merkle_root, root);
        assert_eq!((checkpoint.after, checkpoint.at_sequence), (0, count));
        assert!(checkpoint.holds(&links, &key().public()));
    }

    #[test]
    fn the_checkpoint_signature_covers_the_bytes_of_the_root() {
        let checkpoint = signed(&links(3));
        let root: Vec<u8> = (0..32)
            .map(|n| u8::from_str_radix(&checkpoint.merkle_root[2 * n..2 * n + 2], 16).unwrap())
            .collect();
        let signature = STANDARD.decode(&checkpoint.signature).unwrap();
        assert!(key().public().verifies(&root, &signature));
    }

    #[test]
    fn a_checkpoint_fails_for_other_entries_keys_and_signatures() {
        let (links, public) = (links(4), key().public());
        let checkpoint = signed(&links);
        assert!(!checkpoint.holds(&links[1..], &public));
        assert!(!checkpoint.holds(&[], &public));
        assert!(!checkpoint.holds(&links, &SecretKey::from_random([8; 32]).public()));
        let mut changed = links.clone();
        changed[2].body = "{\"n\":30}".to_owned();
        assert!(!checkpoint.holds(&changed, &public));
        let mut forged = checkpoint.clone();
        forged.signature = signed(&changed).signature;
        assert!(!forged.holds(&links, &public));
        let mut shorter = checkpoint;
        shorter.after = 2;
        assert!(!shorter.holds(&links, &public));
    }

    #[test]
    fn an_empty_log_has_no_checkpoint() {
        let at = Timestamp::from_second(0).unwrap();
        assert_eq!(Checkpoint::sign("cp_1".to_owned(), &[], at, &key()), None);
    }
}
