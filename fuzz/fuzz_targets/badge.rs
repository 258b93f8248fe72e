//! An untrusted badge: a picture or a document. Any input is checked within bounds, and an unsigned
//! badge is not accepted.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use touchstone_fuzz::now;
use touchstone_ratings::credential::{MAX_OCTETS, baking, parse};
use touchstone_ratings::rules::badge::{VerificationContext, verify};

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((kind, rest)) = data.split_first() else {
        return Corpus::Reject;
    };
    // A fuzzer rarely guesses a PNG's signature and checksums, so every fourth input is baked
    // first.
    let bytes = match kind % 4 {
        0 => [b"\x89PNG\r\n\x1a\n", rest].concat(),
        1 => [b"<svg xmlns=\"http://www.w3.org/2000/svg\">", rest].concat(),
        2 => {
            let Ok(text) = std::str::from_utf8(rest) else {
                return Corpus::Reject;
            };
            let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"><g/></svg>";
            if text.len() <= MAX_OCTETS
                && text
                    .chars()
                    .all(|c| c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}'))
            {
                let baked = baking::svg::bake(svg, text).expect("text in a picture");
                assert_eq!(baking::extract(baked.as_bytes()).as_deref(), Ok(rest));
                baked.into_bytes()
            } else {
                return Corpus::Reject;
            }
        }
        _ => rest.to_vec(),
    };
    if let Ok(text) = baking::extract(&bytes)
        && let Ok(credential) = parse(&text)
    {
        let checked = verify(
            &credential,
            &VerificationContext {
                status_list: Some(&credential),
                ..VerificationContext::default()
            },
            now(),
        );
        assert!(!checked.valid, "an unsigned badge is valid: {credential}");
    }
    Corpus::Keep
});
