//! Trust: how reliable the card's claims are, out of 100 points times a confidence.
//!
//! Signatures 40, provider 25, security 20, documentation 15; the sum counts in full if a signature
//! is valid, for 60 % if none is, and for 40 % if one is invalid (CapiscIO's three-dimensional
//! scoring, October 2025). A check without any value to check earns no points.

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

/// The factor for the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// A signature is invalid: 0.4.
    Broken,
    /// No signature is valid, or none was checked: 0.6.
    Unproven,
    /// A signature is valid: 1.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trust {
    /// Of 100.
    pub total: Points,
    /// The sum of the categories.
    pub raw_score: u64,
    pub confidence_multiplier: Confidence,
    pub rating: TrustRating,
    /// Display name of the band.
    pub rating_label: &'static str,
    /// Whether signatures were not checked.
    pub partial_validation: bool,
    /// Points by category; `None` for an unreadable card.
    pub breakdown: Option<Breakdown>,
    /// The result of each signature, in order.
    pub signature_results: Vec<SignatureResult>,
}

/// Points by category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breakdown {
    pub signatures: Signatures,
    pub provider: Provider,
    pub security: Security,
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

    /// The score of an unreadable card.
    pub fn none(partial_validation: bool) -> Self {
        Self::of(0, None, Vec::new(), partial_validation)
    }
}

/// Scores a card. `checked` is `None` if signatures are not checked; `provider_reachable` is `None`
/// if the provider's site was not called.
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
