//! A badge for tests.

use serde_json::Value;
use uuid::Uuid;

use super::{AxisResult, Badge, Dimension, DimensionResult, Issuance, Party, issue};
use crate::credential::did::Signatory;
use crate::credential::status_list::{self, Bits};
use crate::rules::evidence::{Recorder, Sources};
use touchstone_kit::keys::SecretKey;

pub const BASE: &str = "https://assess.example.org";
pub const LIST: &str = "https://assess.example.org/status/3";
pub const INDEX: u32 = 70_001;

pub fn key() -> SecretKey {
    SecretKey::from_random([9; 32])
}

pub fn signatory() -> Signatory {
    Signatory::by_key(&key().public())
}

fn rating(score: &str, tier: &str, coverage: &str) -> AxisResult {
    AxisResult {
        score: score.parse().unwrap(),
        tier: tier.parse().unwrap(),
        coverage: coverage.parse().unwrap(),
    }
}

/// A badge with every kind of dimension: assessed, not assessed, absent.
pub fn badge() -> Badge {
    let dimension = |dimension, score: Option<&str>| DimensionResult {
        dimension,
        score: score.map(|score| score.parse().unwrap()),
    };
    Badge {
        id: Uuid::from_u128(0x11),
        agent: Party {
            id: Uuid::from_u128(0x5eed_0000_0000_4000_8000_0000_0000_0022),
            name: "invoice-reader".to_owned(),
        },
        organization: Party {
            id: Uuid::from_u128(0x33),
            name: "Acme Quality".to_owned(),
        },
        performance: rating("0.93", "Elite", "1.00"),
        capability: rating("0.64", "Versatile", "0.85"),
        dimensions: vec![
            dimension(Dimension::Accuracy, Some("0.95")),
            dimension(Dimension::TaskCompletionRate, Some("0.90")),
            dimension(Dimension::ToolProficiency, Some("1.00")),
            dimension(Dimension::LearningRate, None),
        ],
        sources: Sources::from([(Recorder::Host, 120), (Recorder::Person, 30)]),
        assessment_id: Uuid::from_u128(0x44),
        window: None,
        certified_at: "2026-04-16T13:45:00Z".parse().unwrap(),
        valid_until: "2026-07-15T12:00:00Z".parse().unwrap(),
        verification_url: format!("{BASE}/api/v1/badges/{}/verify", Uuid::from_u128(0x11)),
    }
}

pub fn issued(badge: &Badge) -> Value {
    issue(
        badge,
        &Issuance {
            credential_id: Uuid::from_u128(0x55),
            base_url: BASE,
            status_list: LIST,
            status_index: INDEX,
            signatory: &signatory(),
            key: &key(),
        },
    )
    .unwrap()
}

pub fn list(revoked: &[u32], at: &str) -> Value {
    let mut bits = Bits::default();
    for index in revoked {
        bits.set(*index, true).unwrap();
    }
    status_list::sign(&bits, LIST, &signatory(), &key(), at.parse().unwrap()).unwrap()
}
