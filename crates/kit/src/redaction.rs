//! Masks credential-shaped text before it is stored or shown (OpenWOP SR-1).
//!
//! Masking goes by shape: text that looks like a key, a token or a password is replaced by
//! `[REDACTED:<kind>]`. Ordinary text that merely contains part of a credential shape (`task-1`
//! contains `sk-1`) stays unchanged. So do names of packs and agents:
//! `vendor.acme.pk-triage.default` contains `.pk-triage`, and masking it would make messages
//! useless.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};
use serde_json::Value;

use crate::pack_name::{MAX_NAME, is_pack_name};

/// Kinds of credentials with their shapes. If the expression has a group, the text of the first
/// group is kept.
const SHAPES: &[(&str, &str)] = &[
    (
        "private-key",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    ),
    (
        "jwt",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    ),
    ("bearer", r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}"),
    (
        "api-key",
        r"(^|[^A-Za-z0-9])(?:sk|pk|rk)[-_][A-Za-z0-9_-]{6,}",
    ),
    ("aws-key", r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"),
    (
        "github-token",
        r"\b(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{16,}",
    ),
    (
        "gitlab-token",
        r"\bgl(?:pat|ptt|dt|rt|cbt|ft)-[A-Za-z0-9_-]{16,}",
    ),
    (
        "package-token",
        r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{16,}",
    ),
    ("model-hub-token", r"\bhf_[A-Za-z0-9]{20,}"),
    ("webhook-secret", r"\bwhsec_[A-Za-z0-9+/=_-]{16,}"),
    ("slack-token", r"\bxox[a-z]-[A-Za-z0-9-]{8,}"),
    ("google-key", r"\bAIza[A-Za-z0-9_-]{30,}"),
    ("touchstone-key", r"\btsk_[a-z0-9]{1,64}_[A-Za-z0-9_-]{16,}"),
    ("organization-key", r"\bak_[A-Za-z0-9]{43}\b"),
    ("host-key", r"\bhk_(?:test|live)_[A-Za-z0-9_-]{6,}"),
    ("userinfo", r"(://)[^\s/:@]*:[^\s/@]+@"),
    (
        "secret",
        r#"(?i)((?:api[_-]?key|secret|passwd|password|access[_-]?token)["']?\s*[:=]\s*["']?)[^\s"',;]{4,}"#,
    ),
];

#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test uses every one of them"
)]
static PATTERNS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    let compile = |(kind, shape): &(&'static str, &str)| {
        (
            *kind,
            Regex::new(shape).expect("a shape is a valid expression"),
        )
    };
    SHAPES.iter().map(compile).collect()
});

/// Matches every text that any shape matches, in one pass; almost no text has a credential. Word
/// boundaries are left out, because they slow down the search in text that is not ASCII.
#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test uses every one of them"
)]
static ANY: LazyLock<RegexSet> = LazyLock::new(|| {
    let shapes = SHAPES.iter().map(|(_, shape)| shape.replace(r"\b", ""));
    RegexSet::new(shapes).expect("a shape is a valid expression")
});

/// The shapes to search a text for; none if no shape can match.
fn shapes(text: &str) -> &'static [(&'static str, Regex)] {
    if ANY.is_match(text) { &PATTERNS } else { &[] }
}

/// The kind whose shape a word in a name may match.
const LIKE_A_WORD: &str = "api-key";
/// Maximum number of letters of a word in a name. Credentials are longer, or contain digits too.
const LONGEST_WORD: usize = 16;
/// Maximum number of digits that may follow the letters.
const MOST_DIGITS: usize = 2;

/// Matches of a shape, except those that are words of a name.
fn found<'t>(
    (kind, pattern): &'t (&'static str, Regex),
    text: &'t str,
) -> impl Iterator<Item = Captures<'t>> {
    let may_be_named = *kind == LIKE_A_WORD;
    let found = pattern.captures_iter(text);
    found.filter(move |found| !(may_be_named && is_named(text, found)))
}

/// Whether a match is part of the name of a pack or an agent and consists of words. A key that was
/// appended to a name is not.
fn is_named(text: &str, found: &Captures<'_>) -> bool {
    let Some(whole) = found.get(0) else {
        return false;
    };
    let in_name = |c: &&u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_');
    let (before, after) = text.as_bytes().split_at(whole.start());
    // Look back no further than the longest possible name: an attacker may send text that consists
    // of nothing but names.
    let left = before.iter().rev().take(MAX_NAME + 1).take_while(in_name);
    let right = after.iter().take(MAX_NAME + 1).take_while(in_name);
    let (from, to) = (whole.start() - left.count(), whole.start() + right.count());
    let name = text.get(from..to).unwrap_or_default();
    let mut words = whole.as_str().split(['.', '-', '_']);
    is_pack_name(name.trim_end_matches('.'))
        && words.all(|word| {
            let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
            letters.len() <= LONGEST_WORD
                && word.len() - letters.len() <= MOST_DIGITS
                && letters.bytes().all(|b| b.is_ascii_lowercase())
        })
}

/// The text with every credential-shaped part masked; borrowed if nothing was masked.
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(text);
    for shape in shapes(text) {
        if let Some(changed) = mask_one(shape, &masked) {
            masked = Cow::Owned(changed);
        }
    }
    masked
}

/// The text with the matches of one shape masked; `None` if the shape does not occur.
fn mask_one(shape: &(&'static str, Regex), text: &str) -> Option<String> {
    let mut masked = String::new();
    let mut done = 0;
    for found in found(shape, text) {
        let whole = found.get(0)?;
        masked.push_str(text.get(done..whole.start())?);
        masked.push_str(found.get(1).map_or("", |kept| kept.as_str()));
        masked.push_str(&format!("[REDACTED:{}]", shape.0));
        done = whole.end();
    }
    (done > 0).then(|| masked + text.get(done..).unwrap_or_default())
}

/// Every credential-shaped part of a text: its kind, and the credential itself.
pub fn credentials(text: &str) -> impl Iterator<Item = (&'static str, &str)> {
    shapes(text).iter().flat_map(move |shape| {
        found(shape, text).filter_map(move |found| {
            let whole = found.get(0)?;
            // The kept prefix, such as `password=`, is not part of the credential.
            let from = found.get(1).map_or(whole.start(), |kept| kept.end());
            let credential = text.get(from..whole.end())?;
            Some((shape.0, credential))
        })
    })
}

/// Masks all strings in a document. Member names stay, because references may point to them.
pub fn mask_within(document: &mut Value) {
    match document {
        Value::String(text) => {
            if let Cow::Owned(masked) = mask(text) {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_within),
        Value::Object(members) => members.values_mut().for_each(mask_within),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[test]
    fn redaction_takes_linear_time() {
        // Scanning the whole text for each match would take minutes.
        let text = ".sk-aaaaaa".repeat(50_000);
        assert_eq!(credentials(&text).count(), 50_000);
        assert!(!mask(&text).contains("sk-aaaaaa"));
    }

    #[test]
    fn a_document_is_masked_however_deep_it_goes() {
        let key = "sk-abcdefghijklmnop";
        let mut document =
            serde_json::json!({"a": [key, {"b": format!("use {key}")}], "n": 5, "t": true});
        mask_within(&mut document);
        assert_eq!(
            document,
            serde_json::json!({"a": ["[REDACTED:api-key]", {"b": "use [REDACTED:api-key]"}], "n": 5, "t": true})
        );
    }

    #[rstest]
    #[case("use sk-canary0123456789 instead", "use [REDACTED:api-key] instead")]
    #[case("sk-abcdefghijklmnop", "[REDACTED:api-key]")]
    #[case("key AKIAIOSFODNN7EXAMPLE!", "key [REDACTED:aws-key]!")]
    #[case("ghp_0123456789abcdefghijklmnopqrstuvwxyz", "[REDACTED:github-token]")]
    #[case("glpat-0123456789abcdefghij", "[REDACTED:gitlab-token]")]
    #[case("pypi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3", "[REDACTED:package-token]")]
    #[case("npm_0123456789abcdefghijklmnopqrstuvwxyz", "[REDACTED:package-token]")]
    #[case("hf_0123456789abcdefghijABCDEF", "[REDACTED:model-hub-token]")]
    #[case("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "[REDACTED:webhook-secret]")]
    #[case("xoxb-123456789012-abcdef", "[REDACTED:slack-token]")]
    #[case("AIzaSyA0123456789012345678901234567890", "[REDACTED:google-key]")]
    #[case(
        "Authorization: Bearer abc.def-ghi",
        "Authorization: Bearer [REDACTED:bearer]"
    )]
    #[case("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[REDACTED:jwt]")]
    #[case(
        "ak_0123456789012345678901234567890123456789abc",
        "[REDACTED:organization-key]"
    )]
    #[case("tsk_0a1b2c_AAAAAAAAAAAAAAAAAAAAAAAAAAA", "[REDACTED:touchstone-key]")]
    #[case("hk_test_abcdef123", "[REDACTED:host-key]")]
    #[case("postgres://app:hunter2@db/x", "postgres://[REDACTED:userinfo]db/x")]
    #[case(
        "password = hunter22, user = x",
        "password = [REDACTED:secret], user = x"
    )]
    #[case(
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY----- end",
        "[REDACTED:private-key] end"
    )]
    #[case("-----BEGIN RSA PRIVATE KEY-----\nAAAA", "[REDACTED:private-key]")]
    fn credentials_are_masked_by_kind(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(mask(text), expected);
    }

    #[rstest]
    #[case("task-1 and desk-lamp-in-the-corner")]
    #[case("the secret of success")]
    #[case("bearer of bad news")]
    #[case("tokens: 12, sk-1")]
    #[case("https://example.com/a:b?c=d")]
    #[case("no agent `vendor.acme.pk-triage.default`; install its pack")]
    #[case("/v1/agents/private.sk-tools.rk_router-main.pk-customer-support-v2/deployments")]
    #[case("it was vendor.acme.pk-triage.default.")]
    #[case("")]
    fn ordinary_text_is_not_masked(#[case] text: &str) {
        assert!(matches!(mask(text), Cow::Borrowed(_)), "{}", mask(text));
    }

    #[rstest]
    #[case::not_a_name("see acme.sk-abcdefghij")]
    #[case::digits("vendor.acme.sk-live-0a1b2c3d4e5f")]
    #[case::long("vendor.acme.sk-abcdefghijklmnopqrstuvwx")]
    #[case::capitals("vendor.acme.triage.rk_AbCdEfGhIjKl")]
    #[case::beside("vendor.acme.triage sk-abcdefghij")]
    #[case::after("vendor.acme.triage:sk-abcdefghij")]
    fn api_keys_next_to_or_inside_names_are_masked(#[case] text: &str) {
        assert!(mask(text).ends_with("[REDACTED:api-key]"), "{}", mask(text));
        assert_eq!(credentials(text).count(), 1);
    }

    #[rstest]
    #[case("password = hunter22, user = x", &[("secret", "hunter22")])]
    #[case("Authorization: Bearer abc.def-ghi", &[("bearer", "abc.def-ghi")])]
    #[case("keys AKIAIOSFODNN7EXAMPLE and sk-abcdefghijkl", &[("api-key", "sk-abcdefghijkl"), ("aws-key", "AKIAIOSFODNN7EXAMPLE")])]
    #[case("the secret of success", &[])]
    fn credentials_are_found_without_the_surrounding_text(
        #[case] text: &str,
        #[case] expected: &[(&str, &str)],
    ) {
        assert_eq!(credentials(text).collect::<Vec<_>>(), expected);
    }

    proptest! {
        #[test]
        fn the_search_in_one_pass_misses_no_shape(
            text in "[é ]?.{0,20}(sk-|Bearer |AKIA|password=|://a:b@|ghp_|eyJ|-----BEGIN PRIVATE KEY-----)?[A-Za-z0-9_.-]{0,40}.{0,20}",
        ) {
            let one_by_one = PATTERNS.iter().flat_map(|shape| found(shape, &text)).count();
            prop_assert_eq!(credentials(&text).count(), one_by_one);
        }

        #[test]
        fn masking_is_idempotent(text in ".{0,40}(sk-|Bearer |AKIA|password=)?[A-Za-z0-9]{0,24}.{0,20}") {
            let once = mask(&text).into_owned();
            prop_assert_eq!(mask(&once).into_owned(), once.clone());
        }

        #[test]
        fn an_api_key_is_always_masked(before in "[ \\n,;:'\"(]?", key in "sk-[a-z0-9]{12,40}", after in "[ .,;)]?.{0,10}") {
            let text = format!("{before}{key}{after}");
            prop_assert!(!mask(&text).contains(&key));
        }
    }
}
