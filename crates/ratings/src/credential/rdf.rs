//! Converts a document to the N-Quads that its signature covers: JSON-LD 1.1 to RDF, then RDFC-1.0
//! with SHA-256.

use oxjsonld::{JsonLdParser, JsonLdRemoteDocument};
use oxrdf::Dataset;
use oxrdf::dataset::{CanonicalizationAlgorithm, CanonicalizationHashAlgorithm};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::contexts::context;
use super::signature_coverage::{self, Fault};

/// Why a document has no N-Quads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdfError {
    /// A signature would not cover the whole document.
    #[error(transparent)]
    Open(#[from] Fault),
    #[error("the document is not valid JSON-LD: {0}")]
    JsonLd(String),
}

/// The canonical N-Quads of a document without its proof.
///
/// # Errors
/// [`RdfError`].
pub fn canonical(document: &Map<String, Value>) -> Result<String, RdfError> {
    signature_coverage::check(document)?;
    let text = serde_json::to_vec(document).map_err(no_json_ld)?;
    let quads = JsonLdParser::new()
        .for_slice(&text)
        .with_load_document_callback(|url, _| {
            let known = context(url).ok_or("an unknown context; contexts are never fetched")?;
            Ok(JsonLdRemoteDocument {
                document: known.to_string().into_bytes(),
                document_url: url.to_owned(),
            })
        });
    let mut dataset = quads.collect::<Result<Dataset, _>>().map_err(no_json_ld)?;
    dataset.canonicalize(CanonicalizationAlgorithm::Rdfc10 {
        hash_algorithm: CanonicalizationHashAlgorithm::Sha256,
    });
    let mut lines: Vec<String> = dataset.iter().map(|quad| format!("{quad} .\n")).collect();
    lines.sort_unstable();
    Ok(lines.concat())
}

/// SHA-256 of [`canonical`].
///
/// # Errors
/// [`RdfError`].
pub fn digest(document: &Map<String, Value>) -> Result<[u8; 32], RdfError> {
    canonical(document).map(|text| Sha256::digest(text).into())
}

fn no_json_ld(fault: impl std::fmt::Display) -> RdfError {
    RdfError::JsonLd(fault.to_string())
}
