//! Archive digests: `sha256-` and canonical base64 (Subresource Integrity, SHA-256 only).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

pub fn of(bytes: &[u8]) -> String {
    of_digest(&Sha256::digest(bytes).into())
}

/// The text of a SHA-256 digest that was computed part by part.
pub fn of_digest(digest: &[u8; 32]) -> String {
    format!("sha256-{}", STANDARD.encode(digest))
}

/// Parses the digest; `None` unless it has the canonical form.
pub fn parse(integrity: &str) -> Option<[u8; 32]> {
    // The engine refuses missing padding and non-zero unused bits.
    let digest = STANDARD.decode(integrity.strip_prefix("sha256-")?).ok()?;
    digest.try_into().ok()
}

pub fn matches(integrity: &str, bytes: &[u8]) -> bool {
    parse(integrity).is_some_and(|digest| digest[..] == Sha256::digest(bytes)[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn bytes_match_only_their_own_integrity_hash() {
        let integrity = of(b"pack");
        assert!(matches(&integrity, b"pack"));
        assert!(!matches(&integrity, b"pack "));
    }

    #[rstest]
    #[case("sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", true)]
    #[case::unused_bits("sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV=", false)]
    #[case::no_padding("sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU", false)]
    #[case::url_safe("sha256-47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU=", false)]
    #[case::hex(
        "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        false
    )]
    #[case::other_algorithm("sha512-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", false)]
    #[case::newline("sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", false)]
    fn only_the_canonical_spelling_of_a_hash_is_valid(#[case] text: &str, #[case] sound: bool) {
        assert_eq!(parse(text).is_some(), sound);
        assert_eq!(matches(text, b""), sound);
    }
}
