//! Trust: how far what a card says can be relied on, out of 100 points times a confidence.
//!
//! Signatures 40, provider 25, security 20, documentation 15; the sum counts in full when a signature holds, for 60 % when
//! none does, and for 40 % when one is wrong (CapiscIO's three-dimensional scoring, October 2025). A check that has nothing
//! to look at earns nothing.

mod documentation;
mod provider;
mod security;
mod signatures;

use std::fmt;

use serde::{Serialize, Serializer};

pub use documentation::Documentation;
pub use provider::{Provider, site};
pub use security::Security;
pub use signatures::Signatures;

use super::document::Card;
use super::finding::Findings;
use super::points::Points;
use super::rating::TrustRating;
use super::signature::{Checked, SignatureResult, State};

/// How much of the points counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// A signature is wrong: 0.4.
    Broken,
    /// No signature holds, or nobody looked: 0.6.
    Unproven,
    /// A signature holds: 1.
    Proven,
}

impl Confidence {
    fn of(results: &[SignatureResult]) -> Self {
        let any = |state| results.iter().any(|it| it.state == state);
        if any(State::Invalid) {
            Self::Broken
        } else if any(State::Valid) {
            Self::Proven
        } else {
            Self::Unproven
        }
    }

    const fn tenths(self) -> u64 {
        match self {
            Self::Broken => 4,
            Self::Unproven => 6,
            Self::Proven => 10,
        }
    }
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Points::ratio(self.tenths(), 10).fmt(f)
    }
}

impl Serialize for Confidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Points::ratio(self.tenths(), 10).serialize(serializer)
    }
}

/// Trust in a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trust {
    /// Of 100.
    pub total: Points,
    /// The sum of the categories.
    pub raw_score: u64,
    /// How much of it counts.
    pub confidence_multiplier: Confidence,
    /// The band of the total.
    pub rating: TrustRating,
    /// The band in words.
    pub rating_label: &'static str,
    /// Whether signatures were left unchecked.
    pub partial_validation: bool,
    /// Where the points come from; `None` of a card that cannot be read.
    pub breakdown: Option<Breakdown>,
    /// Each signature, in order.
    pub signature_results: Vec<SignatureResult>,
}

/// Points by category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breakdown {
    /// The signatures.
    pub signatures: Signatures,
    /// Who stands behind the agent.
    pub provider: Provider,
    /// How it is spoken with.
    pub security: Security,
    /// What is written about it.
    pub documentation: Documentation,
}

impl Breakdown {
    fn sum(&self) -> u64 {
        self.signatures.score + self.provider.score + self.security.score + self.documentation.score
    }
}

impl Trust {
    fn of(
        raw_score: u64,
        breakdown: Option<Breakdown>,
        signature_results: Vec<SignatureResult>,
        partial_validation: bool,
    ) -> Self {
        let confidence_multiplier = Confidence::of(&signature_results);
        let total = Points::ratio(raw_score * confidence_multiplier.tenths(), 10);
        let rating = TrustRating::of(total);
        Self {
            total,
            raw_score,
            confidence_multiplier,
            rating,
            rating_label: rating.label(),
            partial_validation,
            breakdown,
            signature_results,
        }
    }

    /// In a card that cannot be read.
    pub fn none(partial_validation: bool) -> Self {
        Self::of(0, None, Vec::new(), partial_validation)
    }
}

/// Scores a card. `checked` is `None` when signatures are not to be checked; `provider_reachable` is `None` when nobody
/// asked the provider's site.
pub fn score(
    card: &Card,
    checked: Option<&[Checked]>,
    provider_reachable: Option<bool>,
    findings: &mut Findings,
) -> Trust {
    let breakdown = Breakdown {
        signatures: signatures::score(checked, findings),
        provider: provider::score(card, provider_reachable, findings),
        security: security::score(card, findings),
        documentation: documentation::score(card, findings),
    };
    let results = checked.unwrap_or_default().iter().map(|it| it.result);
    Trust::of(
        breakdown.sum(),
        Some(breakdown),
        results.collect(),
        checked.is_none(),
    )
}
