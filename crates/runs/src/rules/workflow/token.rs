//! Tokens that let a caller without an API key answer one interrupt (OpenWOP interrupt, signed
//! resolution tokens; OpenWOP v2 identity §4).
//!
//! `ow2.hs256.<kid>.<payload>.<mac>`, where `mac` is HMAC-SHA256 of the payload and `kid` names the
//! secret. A token is valid for one interrupt of one run and for a limited time. An answer to the
//! interrupt uses the token up. Tokens of earlier versions are `<payload>.<mac>` and are valid until
//! they expire.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use touchstone_kit::hex::hex_prefix;
use touchstone_kit::ids::{NodeId, RunId, TenantId};

/// The permitted use of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// To read and to answer.
    Resolve,
    /// To read only.
    Inspect,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterruptToken {
    pub tenant: TenantId,
    pub run_id: RunId,
    /// The node that waits.
    pub node_id: NodeId,
    pub interrupt_id: String,
    /// When the token expires.
    pub expires_at: Timestamp,
    pub intent: Intent,
}

/// The text is not a token of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a token of this host")]
pub struct NoToken;

type HmacSha256 = Hmac<Sha256>;

/// What tokens begin with; those of earlier versions do not.
const FORM: &str = "ow2.";
const ALGORITHM: &str = "hs256";
/// Separates names of secrets from other hashes of them.
const KEY_RECIPE: &str = "touchstone:interrupt-token-key:v1";

/// The name of a secret in tokens.
fn key_id(secret: &[u8; 32]) -> String {
    let hash = Sha256::new().chain_update(KEY_RECIPE).chain_update(secret);
    hex_prefix(&hash.finalize(), 8)
}

fn mac(secret: &[u8; 32], payload: &[u8]) -> Result<HmacSha256, NoToken> {
    let mut mac = HmacSha256::new_from_slice(secret).map_err(|_| NoToken)?;
    mac.update(payload);
    Ok(mac)
}

impl InterruptToken {
    /// The signed token as text.
    ///
    /// # Errors
    /// Never for a token of this host.
    pub fn sign(&self, secret: &[u8; 32]) -> Result<String, NoToken> {
        let payload = serde_json::to_vec(self).map_err(|_| NoToken)?;
        let signature = mac(secret, &payload)?.finalize().into_bytes();
        Ok(format!(
            "{FORM}{ALGORITHM}.{}.{}.{}",
            key_id(secret),
            URL_SAFE_NO_PAD.encode(&payload),
            URL_SAFE_NO_PAD.encode(signature)
        ))
    }

    /// Whether a text has the form of tokens since major 2.
    pub fn is_of_v2(text: &str) -> bool {
        text.starts_with(FORM)
    }

    /// Verifies and parses a token. The signature is compared in constant time before anything is
    /// parsed.
    ///
    /// # Errors
    /// [`NoToken`].
    pub fn read(text: &str, secret: &[u8; 32]) -> Result<Self, NoToken> {
        let signed = match text.strip_prefix(FORM) {
            None => text,
            Some(rest) => {
                let rest = rest.strip_prefix(ALGORITHM).ok_or(NoToken)?;
                let (key, signed) = rest
                    .strip_prefix('.')
                    .and_then(|rest| rest.split_once('.'))
                    .ok_or(NoToken)?;
                if key != key_id(secret) {
                    return Err(NoToken);
                }
                signed
            }
        };
        let (payload, signature) = signed.split_once('.').ok_or(NoToken)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| NoToken)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| NoToken)?;
        mac(secret, &payload)?
            .verify_slice(&signature)
            .map_err(|_| NoToken)?;
        serde_json::from_slice(&payload).map_err(|_| NoToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token() -> InterruptToken {
        InterruptToken {
            tenant: "acme".into(),
            run_id: "run_1".into(),
            node_id: "gate".into(),
            interrupt_id: "int-gate-1".to_owned(),
            expires_at: Timestamp::from_second(1_800_000_000).unwrap(),
            intent: Intent::Resolve,
        }
    }

    #[test]
    fn a_token_reads_back_under_its_own_secret_only() {
        let text = token().sign(&[1; 32]).unwrap();
        assert_eq!(InterruptToken::read(&text, &[1; 32]), Ok(token()));
        assert_eq!(InterruptToken::read(&text, &[2; 32]), Err(NoToken));
    }

    /// A token as earlier versions wrote it.
    fn of_before(text: &str) -> String {
        text.splitn(4, '.').last().unwrap().to_owned()
    }

    #[test]
    fn a_token_names_its_algorithm_and_its_secret() {
        let text = token().sign(&[1; 32]).unwrap();
        let parts: Vec<&str> = text.split('.').collect();
        assert_eq!(parts.len(), 5);
        assert_eq!(parts[..2], ["ow2", "hs256"]);
        assert_eq!(parts[2].len(), 8);
        let other = token().sign(&[2; 32]).unwrap();
        assert_ne!(other.split('.').nth(2), Some(parts[2]));
        let [payload, mac] = [parts[3], parts[4]];
        for forged in [
            format!("ow2.none.{}.{payload}.{mac}", parts[2]),
            format!("ow2.hs256x.{}.{payload}.{mac}", parts[2]),
            format!("ow2.hs256.{payload}.{mac}"),
            format!("ow2.hs256.00000000.{payload}.{mac}"),
            format!("ow2.hs256..{payload}.{mac}"),
            format!("ow2.{payload}.{mac}"),
            format!("{text}."),
            format!("{text}.{mac}"),
        ] {
            assert_eq!(InterruptToken::read(&forged, &[1; 32]), Err(NoToken));
        }
    }

    #[test]
    fn a_token_of_an_earlier_version_is_read() {
        let text = of_before(&token().sign(&[1; 32]).unwrap());
        assert_eq!(text.split('.').count(), 2);
        assert_eq!(InterruptToken::read(&text, &[1; 32]), Ok(token()));
        assert_eq!(InterruptToken::read(&text, &[2; 32]), Err(NoToken));
    }

    proptest! {
        #[test]
        fn a_changed_token_is_rejected(place in 0usize..1000, to in "[A-Za-z0-9_-]") {
            let text = token().sign(&[1; 32]).unwrap();
            let place = place % text.len();
            let mut changed = text.clone();
            changed.replace_range(place..=place, &to);
            let read = InterruptToken::read(&changed, &[1; 32]);
            // No other text decodes to the same bytes: the unused bits of the last character must
            // be zero.
            let expected = if changed == text { Ok(token()) } else { Err(NoToken) };
            prop_assert_eq!(read, expected);
        }
    }
}
