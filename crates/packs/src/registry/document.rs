//! The registry documents that are parsed here, and their maximum sizes.

use crate::ports::SourceError;
use crate::rules::archive::MAX_COMPRESSED;
use crate::rules::verify::MAX_SERVED;
use serde::de::DeserializeOwned;
use touchstone_kit::json;
use touchstone_kit::keys::MAX_KEY_OCTETS;

pub(super) const DISCOVERY: usize = 1024 * 1024;
pub(super) const INDEX: usize = 4 * 1024 * 1024;
pub(super) const SERVED: usize = MAX_SERVED;
/// One byte more than is accepted, so that the rules refuse an oversized archive for its size.
pub(super) const TARBALL: usize = MAX_COMPRESSED + 1;
/// A signature has 64 bytes; the rules refuse longer ones.
pub(super) const SIGNATURE: usize = 4_096;
pub(super) const KEY: usize = MAX_KEY_OCTETS;

pub(super) fn parse<T: DeserializeOwned>(
    document: &'static str,
    octets: &[u8],
) -> Result<T, SourceError> {
    let malformed = |reason: String| SourceError::Malformed { document, reason };
    json::parse_as(octets)
        .map_err(|error| malformed(error.to_string()))?
        .map_err(|_| malformed("does not have the required members".to_owned()))
}
