//! The token of `/v1/interrupts/{token}`, untrusted: not a token of this host, or one with the
//! signed content.
//!
//! Unsigned text never passes the signature check, so every other input is a payload that is signed
//! first.

#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use libfuzzer_sys::{Corpus, fuzz_target};
use sha2::Sha256;
use touchstone_runs::rules::workflow::token::InterruptToken;

const SECRET: [u8; 32] = [7; 32];

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((kind, rest)) = data.split_first() else {
        return Corpus::Reject;
    };
    let text = if kind % 2 == 0 {
        // Other bytes are not a valid request path.
        let Ok(text) = std::str::from_utf8(rest) else {
            return Corpus::Reject;
        };
        assert!(
            InterruptToken::read(text, &SECRET).is_err(),
            "a forged token: {text:?}"
        );
        return Corpus::Keep;
    } else {
        let mut mac = Hmac::<Sha256>::new_from_slice(&SECRET).expect("a key of any length");
        mac.update(rest);
        let signature = mac.finalize().into_bytes();
        format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(rest),
            URL_SAFE_NO_PAD.encode(signature)
        )
    };
    if let Ok(token) = InterruptToken::read(&text, &SECRET) {
        let again = token.sign(&SECRET).expect("a token can be signed");
        assert_eq!(InterruptToken::read(&again, &SECRET), Ok(token));
        assert!(InterruptToken::read(&again, &[8; 32]).is_err());
    }
    Corpus::Keep
});
