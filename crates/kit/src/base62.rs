//! Base62 encoding, used for the API keys of organizations: letters and digits only, so that a
//! double click selects the whole key.

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Number of digits that encode 32 bytes.
pub const LENGTH: usize = 43;

/// Encodes 32 bytes, read as one big-endian number, in exactly [`LENGTH`] digits.
#[expect(clippy::expect_used, reason = "there is a digit for each rest")]
pub fn base62(bytes: [u8; 32]) -> String {
    let mut number = bytes;
    let mut digits = Vec::with_capacity(LENGTH);
    for _ in 0..LENGTH {
        let mut rest: u32 = 0;
        for octet in &mut number {
            let value = (rest << 8) | u32::from(*octet);
            // Below 256, because the rest is below 62.
            *octet = (value / 62) as u8;
            rest = value % 62;
        }
        let digit = DIGITS.get(rest as usize);
        digits.push(char::from(*digit.expect("a rest is below 62")));
    }
    digits.into_iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_numbers_have_the_same_length() {
        let mut one = [0; 32];
        one[31] = 1;
        let mut hundred = [0; 32];
        hundred[31] = 100;
        assert_eq!(base62([0; 32]), "0".repeat(43));
        assert_eq!(base62(one), format!("{}1", "0".repeat(42)));
        assert_eq!(base62(hundred), format!("{}1c", "0".repeat(41)));
        let largest = base62([255; 32]);
        assert_eq!(largest.len(), LENGTH);
        assert!(largest > base62([254; 32]), "digits sort as numbers do");
    }
}
