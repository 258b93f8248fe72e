//! Credentials inside pictures (Open Badges 3.0 §5.3): embedding them, and extracting them from
//! untrusted files.

pub mod png;
pub mod svg;

/// Why a credential cannot be embedded or extracted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BakingFault {
    /// The file exceeds the read limit.
    #[error("the picture has more than {MAX_OCTETS} bytes")]
    TooLarge,
    /// The file does not have the expected format.
    #[error("the picture is not a valid {0}")]
    Format(&'static str),
    #[error("the PNG is damaged: the checksum of its {0} chunk does not match")]
    Checksum(String),
    #[error("the picture contains no credential")]
    Nothing,
    #[error("the picture contains more than one credential")]
    Several,
    /// The credential is embedded in an unsupported way.
    #[error("the credential is stored in an unsupported form: {0}")]
    Unsupported(&'static str),
    /// The credential exceeds its size limit.
    #[error(
        "the credential in the picture has more than {} bytes",
        super::MAX_OCTETS
    )]
    Credential,
}

/// Maximum size of a picture, in bytes.
pub const MAX_OCTETS: usize = 4 * 1024 * 1024;

/// The credential in a file: an SVG or PNG picture, or the credential itself.
///
/// # Errors
/// [`BakingFault`].
pub fn extract(file: &[u8]) -> Result<Vec<u8>, BakingFault> {
    if png::is_png(file) {
        png::extract(file).map(String::into_bytes)
    } else if svg::is_markup(file) {
        svg::extract(file).map(String::into_bytes)
    } else {
        Ok(file.to_vec())
    }
}

fn sized(credential: String) -> Result<String, BakingFault> {
    if credential.len() > super::MAX_OCTETS {
        return Err(BakingFault::Credential);
    }
    Ok(credential)
}

#[cfg(test)]
mod tests;
