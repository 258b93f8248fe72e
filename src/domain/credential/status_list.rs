//! Bitstring Status List 1.0: which credentials are revoked, as one signed list of bits that tells nothing else.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::did::{DidDocument, Signatory};
use super::proof::{self, Unproven, Unsignable, issuer, moment};
use super::terms::CREDENTIALS_V2;
use crate::domain::pack::keys::SecretKey;

/// Credentials a list speaks of; the fewest the standard allows, so that nobody is found out by an index.
pub const BITS: u32 = 131_072;
const OCTETS: usize = (BITS / 8) as usize;
/// Octets a list of others may unpack to.
const MAX_OCTETS: u64 = 1024 * 1024;
/// How long a signed list holds. It is signed anew each day and at each change.
pub const VALIDITY: SignedDuration = SignedDuration::from_hours(7 * 24);

const PURPOSE: &str = "revocation";
const ENTRY: &str = "BitstringStatusListEntry";
/// Multibase of unpadded base64url.
const BASE64URL: char = 'u';

/// The address of a list of a host that is reached at `base_url`.
pub fn address(base_url: &str, number: i64) -> String {
    format!("{base_url}/status/{number}")
}

/// The bits of a list.
#[derive(Clone, PartialEq, Eq)]
pub struct Bits(Vec<u8>);

impl std::fmt::Debug for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bits({} octets)", self.0.len())
    }
}

impl Default for Bits {
    fn default() -> Self {
        Self(vec![0; OCTETS])
    }
}

/// Why there is no such bit, or no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BitsFault {
    /// Behind the end.
    #[error("the list has no bit {0}")]
    OutOfRange(u64),
    /// Not the encoding.
    #[error("`encodedList` must be `u` followed by gzip data in unpadded base64url")]
    Encoding,
    /// Fewer bits than the standard allows, or more than are read.
    #[error("`encodedList` unpacks to fewer than {BITS} bits, or to more than the limit")]
    Length,
}

impl Bits {
    /// All of them: nothing that names the list is to be believed.
    pub fn all() -> Self {
        Self(vec![u8::MAX; OCTETS])
    }

    /// Sets or clears a bit; the first is the most significant of the first octet.
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

    /// As `encodedList` has it.
    pub fn encode(&self) -> String {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        // Writing into memory does not fail.
        let octets = packed
            .write_all(&self.0)
            .and_then(|()| packed.finish())
            .unwrap_or_default();
        format!("{BASE64URL}{}", URL_SAFE_NO_PAD.encode(octets))
    }

    /// Reads `encodedList`.
    ///
    /// # Errors
    /// Another encoding or an unusual length.
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

/// The `credentialStatus` of a credential whose bit is `index` of the list at `list`.
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
/// [`Unsignable`].
pub fn sign(
    bits: &Bits,
    url: &str,
    signatory: &Signatory,
    key: &SecretKey,
    now: Timestamp,
) -> Result<Value, Unsignable> {
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

/// Why a list does not say whether a credential is revoked. None of them means that it is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The credential has no status that is understood.
    #[error("/credentialStatus does not name a bit of a revocation list")]
    Entry,
    /// Another list.
    #[error("the status list is not the one the credential names ({0})")]
    OtherList(String),
    /// Somebody else's.
    #[error("the issuer of the status list is not the issuer of the credential")]
    OtherIssuer,
    /// Not a list of revocations.
    #[error("it is not a revocation status list")]
    NoList,
    /// Its proof does not hold.
    #[error("the status list cannot be trusted: {0}")]
    Unproven(#[from] Unproven),
    /// Too old, or of the future.
    #[error("the status list is valid from {from} until {until}; a current one is needed")]
    NotCurrent {
        /// When it begins to hold.
        from: String,
        /// When it ceases to.
        until: String,
    },
    /// Its bits cannot be read.
    #[error(transparent)]
    Bits(#[from] BitsFault),
}

/// Whether `list` says that `credential` is revoked.
///
/// # Errors
/// It cannot say so.
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
    // `+1` is a number to Rust, and another text than the one that was signed.
    let digits = index.bytes().all(|octet| octet.is_ascii_digit());
    let index = index.parse().ok().filter(|_| digits)?;
    Some((text(status, "statusListCredential")?, index))
}

fn text<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    document.get(name)?.as_str()
}

/// Whether a node has a type.
pub(crate) fn has_type(node: &Value, name: &str) -> bool {
    match node.get("type") {
        Some(Value::Array(types)) => types.iter().any(|it| it == name),
        Some(one) => one == name,
        None => false,
    }
}
