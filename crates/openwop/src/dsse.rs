//! DSSE v1: signing a payload together with its type, and verifying the signature.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

use crate::in_toto::{Envelope, EnvelopeSignature, PAYLOAD_TYPE};
use touchstone_kit::keys::{PublicKey, SecretKey};

/// Accepts standard and URL-safe base64, padded or not.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Why an envelope is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// There is no signature.
    #[error("it is not signed")]
    Unsigned,
    /// No signature of the key covers this payload and type.
    #[error("no signature by this key covers it")]
    Signature,
    /// The signature is valid, but the payload is not a statement.
    #[error("its payload is not an in-toto statement")]
    PayloadType,
    /// Not base64.
    #[error("its payload is not base64")]
    Encoding,
}

/// The bytes that a signature covers. Lengths make the encoding unambiguous.
fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}

/// Signs a statement.
pub fn seal(payload: &[u8], key: &SecretKey) -> Envelope {
    let signature = key.sign(&pre_authentication(PAYLOAD_TYPE, payload));
    Envelope {
        payload: STANDARD.encode(payload),
        payload_type: PAYLOAD_TYPE.to_owned(),
        signatures: vec![EnvelopeSignature {
            keyid: key.public().fingerprint(),
            sig: STANDARD.encode(signature),
        }],
    }
}

/// The payload, after verifying that a signature of `key` covers it.
///
/// # Errors
/// No signature verifies, or the payload is not a statement.
pub fn open(envelope: &Envelope, key: &PublicKey) -> Result<Vec<u8>, Unverified> {
    let payload = decoded(&envelope.payload).ok_or(Unverified::Encoding)?;
    if envelope.signatures.is_empty() {
        return Err(Unverified::Unsigned);
    }
    let signed = pre_authentication(&envelope.payload_type, &payload);
    let covers = |signature: &EnvelopeSignature| {
        // The key decides, not the `keyid`, which is not signed.
        decoded(&signature.sig).is_some_and(|signature| key.verifies(&signed, &signature))
    };
    if !envelope.signatures.iter().any(covers) {
        return Err(Unverified::Signature);
    }
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(Unverified::PayloadType);
    }
    Ok(payload)
}

/// The payload of an envelope whose signature is not verified; `None` if it is not base64.
pub fn unverified_payload(envelope: &Envelope) -> Option<Vec<u8>> {
    decoded(&envelope.payload)
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    PLAIN.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn key() -> SecretKey {
        SecretKey::from_random([7; 32])
    }

    #[test]
    fn the_pre_authentication_encoding_matches_the_specification() {
        assert_eq!(
            pre_authentication("http://example.com/HelloWorld", b"hello world"),
            b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    #[test]
    fn an_envelope_verifies_only_with_the_key_that_signed_it() {
        let envelope = seal(b"{}", &key());
        assert_eq!(open(&envelope, &key().public()), Ok(b"{}".to_vec()));
        let other = SecretKey::from_random([8; 32]).public();
        assert_eq!(open(&envelope, &other), Err(Unverified::Signature));
    }

    #[rstest]
    #[case::payload(|it: &mut Envelope| it.payload = STANDARD.encode("[]"), Unverified::Signature)]
    #[case::kind(|it: &mut Envelope| it.payload_type = "text/plain".to_owned(), Unverified::Signature)]
    #[case::no_signature(|it: &mut Envelope| it.signatures.clear(), Unverified::Unsigned)]
    #[case::cut(|it: &mut Envelope| { it.signatures[0].sig.truncate(40); }, Unverified::Signature)]
    #[case::no_base64(|it: &mut Envelope| it.payload = "\u{e9}".to_owned(), Unverified::Encoding)]
    fn a_changed_envelope_does_not_verify(
        #[case] change: fn(&mut Envelope),
        #[case] expected: Unverified,
    ) {
        let mut envelope = seal(b"{}", &key());
        change(&mut envelope);
        assert_eq!(open(&envelope, &key().public()), Err(expected));
    }

    #[test]
    fn an_envelope_with_another_payload_type_does_not_verify() {
        let signature = key().sign(&pre_authentication("text/plain", b"{}"));
        let envelope = Envelope {
            payload_type: "text/plain".to_owned(),
            signatures: vec![EnvelopeSignature {
                keyid: String::new(),
                sig: STANDARD.encode(signature),
            }],
            ..seal(b"{}", &key())
        };
        assert_eq!(
            open(&envelope, &key().public()),
            Err(Unverified::PayloadType)
        );
    }

    #[test]
    fn other_signatures_and_key_ids_are_ignored_in_verification() {
        let mut envelope = seal(b"\xfb\xff", &key());
        let own = envelope.signatures.remove(0);
        envelope.signatures = vec![
            EnvelopeSignature {
                keyid: own.keyid.clone(),
                sig: "nonsense!".to_owned(),
            },
            EnvelopeSignature {
                keyid: "another".to_owned(),
                sig: own.sig.replace('+', "-").replace('/', "_").replace('=', ""),
            },
        ];
        envelope.payload = "-_8".to_owned();
        assert_eq!(open(&envelope, &key().public()), Ok(b"\xfb\xff".to_vec()));
    }
}
