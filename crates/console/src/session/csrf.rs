//! The token that a form sends back, so that no other site can send it.
//!
//! Pages are compressed, and a compressed secret can be guessed from its length. So each page has
//! another text: random bytes, and the token XOR those bytes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq as _;

/// The text of a form's field; `pad` is random.
pub fn masked(token: &[u8; 32], pad: &[u8; 32]) -> String {
    let hidden = token.iter().zip(pad).map(|(a, b)| a ^ b);
    let bytes: Vec<u8> = pad.iter().copied().chain(hidden).collect();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Whether a form's field holds the token.
pub fn matches(token: &[u8; 32], text: &str) -> bool {
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(text) else {
        return false;
    };
    let Some((pad, hidden)) = bytes.split_at_checked(32) else {
        return false;
    };
    let found: Vec<u8> = pad.iter().zip(hidden).map(|(a, b)| a ^ b).collect();
    hidden.len() == 32 && bool::from(found.ct_eq(token.as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_masked_token_matches() {
        let token = [7; 32];
        for pad in [[0; 32], [7; 32], [255; 32]] {
            assert!(matches(&token, &masked(&token, &pad)));
            assert!(!matches(&[8; 32], &masked(&token, &pad)));
        }
        let short = URL_SAFE_NO_PAD.encode([0; 40]);
        for text in ["", "?", "AAAA", &short] {
            assert!(!matches(&token, text), "{text}");
        }
    }
}
