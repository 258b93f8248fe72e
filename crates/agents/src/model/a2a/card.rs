//! The parts of an agent's card that the adapter needs: whether the agent streams, and its
//! identity.

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

/// Path of an agent's card (A2A 0.3 §5.3).
const PLACE: &str = "/.well-known/agent-card.json";

#[derive(Deserialize)]
struct Card {
    url: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    #[serde(default)]
    streaming: bool,
}

/// The URL of the card for the agent at `url`.
pub fn place(url: &Url) -> Option<Url> {
    url.join(PLACE).ok()
}

/// Whether a card says that the agent at `url` streams. A host with several agents may serve the
/// card of another agent there.
pub fn streams(card: &[u8], url: &Url) -> bool {
    own(card, url).is_some_and(|card| card.capabilities.streaming)
}

/// The identity of the agent at `url`, if its card names a semantic version.
pub fn identity(card: &[u8], url: &Url) -> Option<Value> {
    let card = own(card, url)?;
    let is_told = !card.name.is_empty() && semver::Version::parse(&card.version).is_ok();
    is_told.then(|| json!({"identity": {"name": card.name, "version": card.version}}))
}

fn own(card: &[u8], url: &Url) -> Option<Card> {
    let card: Card = serde_json::from_slice(card).ok()?;
    let plain = |url: &str| url.trim_end_matches('/').to_owned();
    (plain(&card.url) == plain(url.as_str())).then_some(card)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({"url": "https://a.example/agent/", "name": "clerk", "version": "1.2.0"}), true)]
    #[case(json!({"url": "https://a.example/other", "name": "clerk", "version": "1.2.0"}), false)]
    #[case(json!({"url": "https://a.example/agent", "name": "clerk", "version": "v1"}), false)]
    #[case(json!({"url": "https://a.example/agent", "name": "", "version": "1.2.0"}), false)]
    #[case(json!({"url": "https://a.example/agent"}), false)]
    fn an_agents_identity_is_read_only_from_the_card_at_its_url(
        #[case] card: Value,
        #[case] is_told: bool,
    ) {
        let url = "https://a.example/agent".parse().unwrap();
        let told = identity(card.to_string().as_bytes(), &url);
        let expected = json!({"identity": {"name": "clerk", "version": "1.2.0"}});
        assert_eq!(told, is_told.then_some(expected));
    }

    #[rstest]
    #[case(json!({"url": "https://a.example/agent", "capabilities": {"streaming": true}}), true)]
    #[case(json!({"url": "https://a.example/agent/", "capabilities": {"streaming": true}}), true)]
    #[case(json!({"url": "https://a.example/other", "capabilities": {"streaming": true}}), false)]
    #[case(json!({"url": "https://a.example/agent", "capabilities": {"streaming": false}}), false)]
    #[case(json!({"url": "https://a.example/agent"}), false)]
    #[case(json!("no card"), false)]
    fn streaming_is_read_only_from_the_card_at_the_agents_url(
        #[case] card: Value,
        #[case] expected: bool,
    ) {
        let url = "https://a.example/agent".parse().unwrap();
        assert_eq!(streams(card.to_string().as_bytes(), &url), expected);
        assert_eq!(
            place(&url).unwrap().as_str(),
            "https://a.example/.well-known/agent-card.json"
        );
    }
}
