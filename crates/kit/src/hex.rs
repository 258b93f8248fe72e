//! Hexadecimal encoding, used for digests, signatures and generated secrets.

/// Two lower-case digits per byte.
pub fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_has_two_digits() {
        assert_eq!(hex(&[]), "");
        assert_eq!(hex(&[0, 9, 10, 255]), "00090aff");
    }
}
