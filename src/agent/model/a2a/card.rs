//! The card of an agent, of which only this is of interest: whether it streams.

use serde::Deserialize;
use url::Url;

/// Where an agent's card is (A2A 0.3 §5.3).
const PLACE: &str = "/.well-known/agent-card.json";

#[derive(Deserialize)]
struct Card {
    url: String,
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    #[serde(default)]
    streaming: bool,
}

/// Where the card of the agent at `url` would be.
pub fn place(url: &Url) -> Option<Url> {
    url.join(PLACE).ok()
}

/// Whether a card says that the agent at `url` streams. A host of several agents has the card of another one there.
pub fn streams(card: &[u8], url: &Url) -> bool {
    let Ok(card) = serde_json::from_slice::<Card>(card) else {
        return false;
    };
    let plain = |url: &str| url.trim_end_matches('/').to_owned();
    card.capabilities.streaming && plain(&card.url) == plain(url.as_str())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case(json!({"url": "https://a.example/agent", "capabilities": {"streaming": true}}), true)]
    #[case(json!({"url": "https://a.example/agent/", "capabilities": {"streaming": true}}), true)]
    #[case(json!({"url": "https://a.example/other", "capabilities": {"streaming": true}}), false)]
    #[case(json!({"url": "https://a.example/agent", "capabilities": {"streaming": false}}), false)]
    #[case(json!({"url": "https://a.example/agent"}), false)]
    #[case(json!("no card"), false)]
    fn an_agent_streams_if_its_own_card_says_so(#[case] card: Value, #[case] expected: bool) {
        let url = "https://a.example/agent".parse().unwrap();
        assert_eq!(streams(card.to_string().as_bytes(), &url), expected);
        assert_eq!(
            place(&url).unwrap().as_str(),
            "https://a.example/.well-known/agent-card.json"
        );
    }
}
