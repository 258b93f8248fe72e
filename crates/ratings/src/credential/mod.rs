//! The part of Verifiable Credentials 2.0 that this host issues and reads: Open Badges 3.0 and
//! their status lists.
//!
//! The only proof type is `eddsa-rdfc-2022` (Data Integrity EdDSA Cryptosuites 1.0): it signs the
//! RDF of a document, not its bytes. A document may therefore contain only the terms that [`terms`]
//! defines. JSON-LD drops members that no context defines, so they would be unsigned;
//! [`signature_coverage`] rejects such documents before a signature is checked. Contexts are built
//! from the same terms, and nothing is ever fetched.

pub mod baking;
mod contexts;
pub mod did;
pub mod proof;
pub mod rdf;
mod signature_coverage;
pub mod status_list;
mod terms;

use serde_json::Value;

pub use signature_coverage::{Fault, FaultKind, is_ambiguous};
pub use terms::{CREDENTIALS_V2, OPEN_BADGES, OPEN_BADGES_EXTENSIONS};

use touchstone_kit::json;

/// Maximum size of a credential in bytes. This host's credentials have about ten thousand.
pub const MAX_OCTETS: usize = 256 * 1024;

/// Why a file cannot be read as a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// More than [`MAX_OCTETS`].
    #[error("has {0} bytes; the limit is {MAX_OCTETS}")]
    TooLarge(usize),
    /// Not strict JSON.
    #[error("{0}")]
    Json(#[from] json::Error),
    /// Valid JSON, but not an object.
    #[error("is not a JSON object")]
    NoObject,
}

/// Reads a credential, a status list or a DID document. Strict JSON ensures that two readers read
/// the same.
///
/// # Errors
/// [`ParseError`].
pub fn parse(bytes: &[u8]) -> Result<Value, ParseError> {
    if bytes.len() > MAX_OCTETS {
        return Err(ParseError::TooLarge(bytes.len()));
    }
    let document = json::parse_foreign(bytes)?;
    if document.is_object() {
        Ok(document)
    } else {
        Err(ParseError::NoObject)
    }
}

/// The form in which a credential is served and embedded: compact JSON that is valid inside any XML
/// document.
pub fn served(credential: &Value) -> String {
    // JSON escapes all characters that XML does not allow except two, which occur only inside
    // strings.
    credential
        .to_string()
        .replace('\u{fffe}', "\\ufffe")
        .replace('\u{ffff}', "\\uffff")
}

/// Whether two documents have the same RFC 8785 form. A signature alone does not cover, for
/// example, the order of a set.
pub fn same(one: &Value, other: &Value) -> bool {
    let canonical = |document: &Value| serde_json_canonicalizer::to_vec(document);
    matches!((canonical(one), canonical(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests;
