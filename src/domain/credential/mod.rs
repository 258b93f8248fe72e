//! Verifiable Credentials 2.0 as far as this host issues and reads them: Open Badges 3.0 and the lists that revoke them.
//!
//! The one proof is `eddsa-rdfc-2022` (Data Integrity EdDSA Cryptosuites 1.0): what is signed is the RDF a document stands
//! for, not its octets. A document may therefore say only what [`terms`] knows. JSON-LD drops whatever no context defines,
//! and what is dropped is signed by nobody; [`closed`] refuses such documents before a signature is looked at. Contexts
//! are built from the same terms, and nothing is ever fetched.

pub mod baking;
mod closed;
mod contexts;
pub mod did;
pub mod proof;
pub mod rdf;
pub mod status_list;
mod terms;

use serde_json::Value;

pub use closed::{Fault, FaultKind, is_ambiguous};
pub use terms::{CREDENTIALS_V2, OPEN_BADGES, OPEN_BADGES_EXTENSIONS};

use crate::protocol::json;

/// Octets a credential may have. One of ours has about ten thousand.
pub const MAX_OCTETS: usize = 256 * 1024;

/// Why something is no credential that can be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// More than [`MAX_OCTETS`].
    #[error("has {0} bytes; the limit is {MAX_OCTETS}")]
    TooLarge(usize),
    /// Not strict JSON.
    #[error("{0}")]
    Json(#[from] json::Error),
    /// JSON, and no object.
    #[error("is not a JSON object")]
    NoObject,
}

/// Reads a credential, a status list or a DID document; two readers cannot read it differently.
///
/// # Errors
/// [`Unreadable`].
pub fn parse(octets: &[u8]) -> Result<Value, Unreadable> {
    if octets.len() > MAX_OCTETS {
        return Err(Unreadable::TooLarge(octets.len()));
    }
    let document = json::parse_foreign(octets)?;
    if document.is_object() {
        Ok(document)
    } else {
        Err(Unreadable::NoObject)
    }
}

/// The octets a credential is served and baked as: compact JSON that may stand in any XML document as it is.
pub fn served(credential: &Value) -> String {
    // Of the characters XML does not know JSON escapes all but two, and those can only stand inside of texts.
    credential
        .to_string()
        .replace('\u{fffe}', "\\ufffe")
        .replace('\u{ffff}', "\\uffff")
}

/// Whether two documents say the same as RFC 8785 has it: a signature alone does not see the order of a set, for one.
pub fn same(one: &Value, other: &Value) -> bool {
    let canonical = |document: &Value| serde_json_canonicalizer::to_vec(document);
    matches!((canonical(one), canonical(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests;
