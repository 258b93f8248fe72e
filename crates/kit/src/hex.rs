//! Hexadecimal encoding, used for digests, signatures and generated secrets.

/// Two lower-case digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The first `digits` digits of [`hex`], for short ids that are derived from digests.
pub fn hex_prefix(bytes: &[u8], digits: usize) -> String {
    let mut text = hex(bytes);
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_hex_digits() {
        assert_eq!(hex(&[]), "");
        assert_eq!(hex(&[0, 9, 10, 255]), "00090aff");
        assert_eq!(hex_prefix(&[0, 9, 10, 255], 6), "00090a");
    }
}
