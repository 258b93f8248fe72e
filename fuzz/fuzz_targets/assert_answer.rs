//! A line of a command that decides assertions: a decision within its bounds, or an error label
//! without any of its content.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use touchstone_agents::assert_command::read_line;

/// Maximum bytes of a reason.
const MAX_REASON: usize = 2_000;

fuzz_target!(|data: &[u8]| -> Corpus {
    match read_line(data) {
        None => return Corpus::Reject,
        Some((_, Ok(answer))) => {
            assert!((0.0..=1.0).contains(&answer.score), "{}", answer.score);
            assert!(answer.reason.len() <= MAX_REASON, "{}", answer.reason.len());
        }
        Some((_, Err(label))) => {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(label.chars().all(plain), "{label}");
        }
    }
    Corpus::Keep
});
