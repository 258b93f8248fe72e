//! The documents of a registry that are parsed here, and how large each may be.

use crate::domain::pack::archive::MAX_COMPRESSED;
use crate::domain::pack::keys::MAX_KEY_OCTETS;
use crate::domain::pack::verify::MAX_SERVED;
use crate::ports::SourceError;
use crate::protocol::json;
use serde::de::DeserializeOwned;

pub(super) const DISCOVERY: usize = 1024 * 1024;
pub(super) const INDEX: usize = 4 * 1024 * 1024;
pub(super) const SERVED: usize = MAX_SERVED;
/// One more than is accepted, so that an oversized archive is refused for its size and by the rules.
pub(super) const TARBALL: usize = MAX_COMPRESSED + 1;
/// A signature has 64 octets; what is longer is refused by the rules, not here.
pub(super) const SIGNATURE: usize = 4_096;
pub(super) const KEY: usize = MAX_KEY_OCTETS;

pub(super) fn parse<T: DeserializeOwned>(
    document: &'static str,
    octets: &[u8],
) -> Result<T, SourceError> {
    let malformed = |reason: String| SourceError::Malformed { document, reason };
    json::parse_as(octets)
        .map_err(|error| malformed(error.to_string()))?
        .map_err(|_| malformed("has not the members it should have".to_owned()))
}
