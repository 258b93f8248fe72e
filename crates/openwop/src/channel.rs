//! Channel names, and the draw that decides which runs use a canary (RFC 0082 §A, §B).

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use touchstone_kit::ids::AgentId;

/// The reserved channel: it always resolves to the highest active version, and nothing is promoted
/// to it.
pub const LATEST: &str = "latest";

const MAX_CHARS: usize = 64;

/// The name of a channel: `[a-z0-9]` and, after the first character, `-`, `_` and `.`; at most 64
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Channel(String);

/// Why a text is not a channel name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a channel is 1 to 64 lower-case letters, digits, `-`, `_` or `.`, and begins with a letter \
    or digit"
)]
pub struct ChannelFault;

impl Channel {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the reserved [`LATEST`].
    pub fn is_latest(&self) -> bool {
        self.0 == LATEST
    }
}

impl std::str::FromStr for Channel {
    type Err = ChannelFault;

    fn from_str(text: &str) -> Result<Self, ChannelFault> {
        let within =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
        let begins = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if begins && text.len() <= MAX_CHARS && text.bytes().all(within) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ChannelFault)
        }
    }
}

impl TryFrom<String> for Channel {
    type Error = ChannelFault;

    fn try_from(text: String) -> Result<Self, ChannelFault> {
        text.parse()
    }
}

impl From<Channel> for String {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The draw of a run on a channel, 0..100. It depends only on the three arguments, so it is
/// repeatable, and it is evenly distributed over seeds. A version with a share of 30 takes the
/// draws below 30.
pub fn draw(seed: &str, agent: &AgentId, channel: &Channel) -> u8 {
    let mut digest = Sha256::new();
    for part in [seed, agent.as_str(), channel.as_str()] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    let octets: [u8; 32] = digest.finalize().into();
    // Remainder of a 64-bit number: the bias towards any draw is at most 100/2^64.
    let number = octets
        .iter()
        .take(8)
        .fold(0_u64, |number, octet| number << 8 | u64::from(*octet));
    (number % 100) as u8
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("stable", true)]
    #[case("eu-west.2_b", true)]
    #[case("0", true)]
    #[case("", false)]
    #[case("-x", false)]
    #[case("Stable", false)]
    #[case("a b", false)]
    #[case("a@b", false)]
    #[case("é", false)]
    fn channel_names_are_restricted_to_plain_characters(#[case] text: &str, #[case] sound: bool) {
        assert_eq!(text.parse::<Channel>().is_ok(), sound);
    }

    #[test]
    fn channel_names_have_at_most_64_characters() {
        assert!("x".repeat(64).parse::<Channel>().is_ok());
        assert!("x".repeat(65).parse::<Channel>().is_err());
    }

    #[test]
    fn a_traffic_draw_depends_only_on_run_agent_and_channel() {
        let agent = AgentId::from("vendor.acme.triage.default");
        let (stable, canary): (Channel, Channel) =
            ("stable".parse().unwrap(), "canary".parse().unwrap());
        let runs: Vec<String> = (0..200).map(|n| format!("run_{n}")).collect();
        let drawn =
            |channel| -> Vec<u8> { runs.iter().map(|run| draw(run, &agent, channel)).collect() };
        assert_eq!(drawn(&stable), drawn(&stable));
        assert_ne!(drawn(&stable), drawn(&canary));
        assert!(drawn(&stable).iter().all(|draw| *draw < 100));
    }

    #[test]
    fn traffic_draws_are_spread_evenly() {
        let agent = AgentId::from("vendor.acme.triage.default");
        let channel: Channel = "stable".parse().unwrap();
        let below = |share: u8| {
            (0..10_000)
                .filter(|n| draw(&format!("run_{n}"), &agent, &channel) < share)
                .count()
        };
        // Five standard deviations of a binomial distribution of 10 000.
        for (share, expected, within) in [(10, 1000, 150), (50, 5000, 250), (90, 9000, 150)] {
            let found = below(share);
            assert!(found.abs_diff(expected) < within, "{share}: {found}");
        }
        assert_eq!(below(0), 0);
        assert_eq!(below(100), 10_000);
    }
}
