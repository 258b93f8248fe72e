//! Money as an integer number of nano-dollars.
//!
//! One token at 0.001 USD per million tokens costs exactly one nano-dollar, so prices with three
//! decimals and all sums of them are exact. Micro-dollars would round a single token of a cheap
//! model to nothing.

use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOS_PER_USD: f64 = 1e9;

/// A non-negative amount in 10⁻⁹ USD. Additions saturate. Serialized as a number of USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(pub u64);

impl NanoUsd {
    pub const ZERO: Self = Self(0);

    /// Converts an amount in USD, rounding to the nearest nano-dollar; `None` when negative, not
    /// finite or too large.
    pub fn from_usd(usd: f64) -> Option<Self> {
        let nanos = (usd * NANOS_PER_USD).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "the range is checked first"
        )]
        (nanos >= 0.0 && nanos < u64::MAX as f64).then_some(Self(nanos as u64))
    }

    /// The amount in USD, for documents that show it as a number.
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact below 2^53 nano-dollars, nine million USD"
    )]
    pub fn usd(self) -> f64 {
        self.0 as f64 / NANOS_PER_USD
    }

    /// The difference, or zero if it would be negative.
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for NanoUsd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for NanoUsd {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for NanoUsd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.usd())
    }
}

impl<'de> Deserialize<'de> for NanoUsd {
    /// Amounts above the range saturate, as additions do, so that every amount that can be written
    /// can be read back.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let usd = f64::deserialize(deserializer)?;
        if usd.is_nan() || usd < 0.0 {
            return Err(serde::de::Error::custom(
                "an amount in USD must be a number of at least 0",
            ));
        }
        Ok(Self::from_usd(usd).unwrap_or(Self(u64::MAX)))
    }
}

/// The price of a token in nano-dollars, which equals the price in milli-USD per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenPrice {
    /// Nano-dollars per input token.
    pub input: f64,
    /// Nano-dollars per output token.
    pub output: f64,
}

impl TokenPrice {
    /// Prices as they are published, in USD per million tokens. Both must be finite and not
    /// negative.
    pub fn per_million(input_usd: f64, output_usd: f64) -> Self {
        Self {
            input: input_usd * 1e3,
            output: output_usd * 1e3,
        }
    }

    /// The cost of one call, rounded up so that a call that cost something never shows as free.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "float-to-int casts saturate, and token counts are far below 2^53"
    )]
    pub fn cost(self, input_tokens: u64, output_tokens: u64) -> NanoUsd {
        let nanos = self.input * input_tokens as f64 + self.output * output_tokens as f64;
        // 150.00000000000003 counts as 150: a rounding error must not add another nano-dollar.
        NanoUsd((nanos - 1e-6).ceil().max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_price_is_exact() {
        let price = TokenPrice::per_million(0.15, 0.60);
        assert_eq!(price.cost(1, 0), NanoUsd(150));
        assert_eq!(price.cost(1_000_000, 1_000_000), NanoUsd(750_000_000));
    }

    #[test]
    fn a_call_that_costs_a_fraction_is_not_free() {
        assert_eq!(TokenPrice::per_million(0.0001, 0.0).cost(1, 0), NanoUsd(1));
        assert_eq!(TokenPrice::default().cost(1000, 1000), NanoUsd::ZERO);
    }

    #[test]
    fn every_amount_that_can_be_written_can_be_read() {
        for amount in [0, 1, (1 << 51) - 1, 1 << 53, u64::MAX - 1, u64::MAX].map(NanoUsd) {
            let text = serde_json::to_string(&amount).unwrap();
            let read: NanoUsd = serde_json::from_str(&text).unwrap();
            assert!(amount.0.abs_diff(read.0) <= amount.0 >> 50, "{text}");
        }
        assert!(serde_json::from_str::<NanoUsd>("-0.1").is_err());
    }

    #[test]
    fn negative_infinite_and_huge_amounts_are_rejected() {
        assert_eq!(NanoUsd::from_usd(-0.1), None);
        assert_eq!(NanoUsd::from_usd(f64::NAN), None);
        assert_eq!(NanoUsd::from_usd(1e300), None);
        assert_eq!(NanoUsd::from_usd(0.25), Some(NanoUsd(250_000_000)));
    }
}
