//! Bitstring Status List 1.0: the revoked credentials as one signed list of bits that reveals
//! nothing else.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::did::{DidDocument, Signatory};
use super::proof::{self, ProofError, SignError, issuer, moment};
use super::terms::CREDENTIALS_V2;
use touchstone_kit::keys::SecretKey;

/// Number of credentials in a list; the standard's minimum, so that an index does not identify a
/// credential.
pub const BITS: u32 = 131_072;
const OCTETS: usize = (BITS / 8) as usize;
/// Maximum size of an unpacked list from another host, in bytes.
const MAX_OCTETS: u64 = 1024 * 1024;
/// Validity of a signed list. Lists are signed again each day and after each change.
pub const VALIDITY: SignedDuration = SignedDuration::from_hours(7 * 24);

const PURPOSE: &str = "revocation";
const ENTRY: &str = "BitstringStatusListEntry";
/// Multibase prefix of unpadded base64url.
const BASE64URL: char = 'u';

/// The address of a list of the host at `base_url`.
pub fn address(base_url: &str, number: i64) -> String {
    format!("{base_url}/status/{number}")
}

#[derive(Clone, PartialEq, Eq)]
pub struct Bits(Vec<u8>);

impl std::fmt::Debug for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bits({} bytes)", self.0.len())
    }
}

impl Default for Bits {
    fn default() -> Self {
        Self(vec![0; OCTETS])
    }
}

/// Why a bit or a list cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BitsFault {
    /// The index is beyond the end.
    #[error("the list has no bit {0}")]
    OutOfRange(u64),
    /// The encoding is invalid.
    #[error("`encodedList` must be `u` followed by gzip data in unpadded base64url")]
    Encoding,
    /// Fewer bits than the standard's minimum, or more than the read limit.
    #[error("`encodedList` unpacks to fewer than {BITS} bits, or to more than the limit")]
    Length,
}

impl Bits {
    /// All bits set: every credential of the list is revoked.
    pub fn all() -> Self {
        Self(vec![u8::MAX; OCTETS])
    }

    /// Sets or clears a bit; index 0 is the most significant bit of the first byte.
    ///
    /// # Errors
    /// There is no such bit.
    pub fn set(&mut self, index: u32, value: bool) -> Result<(), BitsFault> {
        let (place, mask) = place(u64::from(index))?;
        let octet = self
            .0
            .get_mut(place)
            .ok_or(BitsFault::OutOfRange(index.into()))?;
        if value {
            *octet |= mask;
        } else {
            *octet &= !mask;
        }
        Ok(())
    }

    /// Whether a bit is set.
    ///
    /// # Errors
    /// There is no such bit.
    pub fn get(&self, index: u64) -> Result<bool, BitsFault> {
        let (place, mask) = place(index)?;
        let octet = self.0.get(place).ok_or(BitsFault::OutOfRange(index))?;
        Ok(octet & mask != 0)
    }

    /// The value of `encodedList`.
    pub fn encode(&self) -> String {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory does not fail.
        let octets = packed
            .write_all(&self.0)
            .and_then(|()| packed.finish())
            .unwrap_or_default();
        format!("{BASE64URL}{}", URL_SAFE_NO_PAD.encode(octets))
    }

    /// Reads `encodedList`.
    ///
    /// # Errors
    /// The encoding is invalid, or the length is out of range.
    pub fn decode(text: &str) -> Result<Self, BitsFault> {
        let packed = text.strip_prefix(BASE64URL).ok_or(BitsFault::Encoding)?;
        let packed = URL_SAFE_NO_PAD
            .decode(packed)
            .map_err(|_| BitsFault::Encoding)?;
        let mut octets = Vec::new();
        GzDecoder::new(packed.as_slice())
            .take(MAX_OCTETS + 1)
            .read_to_end(&mut octets)
            .map_err(|_| BitsFault::Encoding)?;
        if octets.len() < OCTETS || octets.len() as u64 > MAX_OCTETS {
            return Err(BitsFault::Length);
        }
        Ok(Self(octets))
    }
}

fn place(index: u64) -> Result<(usize, u8), BitsFault> {
    let place = usize::try_from(index / 8).map_err(|_| BitsFault::OutOfRange(index))?;
    Ok((place, 0x80 >> (index % 8)))
}

/// The `credentialStatus` of a credential whose bit has this index in `list`.
pub fn entry(list: &str, index: u32) -> Value {
    json!({
        "id": format!("{list}#{index}"),
        "type": ENTRY,
        "statusPurpose": PURPOSE,
        "statusListIndex": index.to_string(),
        "statusListCredential": list,
    })
}

/// The list at `url` as a signed credential, valid for [`VALIDITY`] from `now`.
///
/// # Errors
/// [`SignError`].
pub fn sign(
    bits: &Bits,
    url: &str,
    signatory: &Signatory,
    key: &SecretKey,
    now: Timestamp,
) -> Result<Value, SignError> {
    let until = now.saturating_add(VALIDITY).unwrap_or(Timestamp::MAX);
    let document = json!({
        "@context": [CREDENTIALS_V2],
        "id": url,
        "type": ["VerifiableCredential", "BitstringStatusListCredential"],
        "issuer": signatory.did,
        "validFrom": moment(now),
        "validUntil": moment(until),
        "credentialSubject": {
            "id": format!("{url}#list"),
            "type": "BitstringStatusList",
            "statusPurpose": PURPOSE,
            "encodedList": bits.encode(),
        },
    });
    proof::sign(document, signatory, key, now)
}

/// Why the revocation of a credential cannot be determined. None of these reasons means that it is
/// not revoked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The credential has no status of a supported kind.
    #[error("/credentialStatus does not name a bit of a revocation list")]
    Entry,
    /// The list is not the one that the credential names.
    #[error("the status list is not the one the credential names ({0})")]
    OtherList(String),
    /// Another issuer signed the list.
    #[error("the issuer of the status list is not the issuer of the credential")]
    OtherIssuer,
    /// Not a status list for revocations.
    #[error("it is not a revocation status list")]
    NoList,
    /// The list's proof is not accepted.
    #[error("the status list cannot be trusted: {0}")]
    ProofError(#[from] ProofError),
    /// The list has expired or is not valid yet.
    #[error("the status list is valid from {from} until {until}; a current one is needed")]
    NotCurrent {
        /// Start of the validity.
        from: String,
        /// End of the validity.
        until: String,
    },
    #[error(transparent)]
    Bits(#[from] BitsFault),
}

/// Whether `list` says that `credential` is revoked.
///
/// # Errors
/// The revocation cannot be determined.
pub fn revoked(
    credential: &Value,
    list: &Value,
    documents: &[DidDocument],
    now: Timestamp,
) -> Result<bool, Unknown> {
    let status = credential.get("credentialStatus").ok_or(Unknown::Entry)?;
    let (url, index) = bit(status).ok_or(Unknown::Entry)?;
    if text(list, "id") != Some(url) {
        return Err(Unknown::OtherList(url.to_owned()));
    }
    if issuer(list) != issuer(credential) {
        return Err(Unknown::OtherIssuer);
    }
    proof::verify(list, documents)?;
    let subject = list.get("credentialSubject").ok_or(Unknown::NoList)?;
    if !has_type(list, "BitstringStatusListCredential")
        || !has_type(subject, "BitstringStatusList")
        || text(subject, "statusPurpose") != Some(PURPOSE)
    {
        return Err(Unknown::NoList);
    }
    current(list, now)?;
    let encoded = text(subject, "encodedList").ok_or(Unknown::NoList)?;
    Ok(Bits::decode(encoded)?.get(index)?)
}

fn current(list: &Value, now: Timestamp) -> Result<(), Unknown> {
    let (from, until) = (text(list, "validFrom"), text(list, "validUntil"));
    let at = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
    match (at(from), at(until)) {
        (Some(from), Some(until)) if from <= now && now < until => Ok(()),
        _ => Err(Unknown::NotCurrent {
            from: from.unwrap_or("?").to_owned(),
            until: until.unwrap_or("?").to_owned(),
        }),
    }
}

fn bit(status: &Value) -> Option<(&str, u64)> {
    let understood = has_type(status, ENTRY) && text(status, "statusPurpose") == Some(PURPOSE);
    let index = text(status, "statusListIndex").filter(|_| understood)?;
    // Rust parses `+1` as a number, but it differs from the signed text.
    let digits = index.bytes().all(|octet| octet.is_ascii_digit());
    let index = index.parse().ok().filter(|_| digits)?;
    Some((text(status, "statusListCredential")?, index))
}

fn text<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    document.get(name)?.as_str()
}

pub(crate) fn has_type(node: &Value, name: &str) -> bool {
    match node.get("type") {
        Some(Value::Array(types)) => types.iter().any(|it| it == name),
        Some(one) => one == name,
        None => false,
    }
}
