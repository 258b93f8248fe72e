//! Credentials inside of pictures (Open Badges 3.0 §5.3): put in, and taken out of what strangers send.

pub mod png;
pub mod svg;

/// What keeps a credential from being put in or taken out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BakingFault {
    /// Larger than is read.
    #[error("the picture has more than {MAX_OCTETS} bytes")]
    TooLarge,
    /// Not such a picture.
    #[error("the picture is not a valid {0}")]
    Format(&'static str),
    /// A part of a PNG is damaged.
    #[error("the PNG is damaged: the checksum of its {0} chunk does not match")]
    Checksum(String),
    /// No credential in it.
    #[error("the picture contains no credential")]
    Nothing,
    /// More than one.
    #[error("the picture contains more than one credential")]
    Several,
    /// One that is held differently.
    #[error("the credential is stored in an unsupported form: {0}")]
    Unusual(&'static str),
    /// Too large.
    #[error(
        "the credential in the picture has more than {} bytes",
        super::MAX_OCTETS
    )]
    Credential,
}

/// Octets a picture may have.
pub const MAX_OCTETS: usize = 4 * 1024 * 1024;

/// The credential a file holds: an SVG or PNG picture, or itself.
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
