//! Credentials inside of pictures (Open Badges 3.0 §5.3): put in, and taken out of what strangers send.

pub mod png;
pub mod svg;

/// What keeps a credential from being put in or taken out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BakingFault {
    /// Larger than is read.
    #[error("the picture has more than {MAX_OCTETS} octets")]
    TooLarge,
    /// Not such a picture.
    #[error("it is no {0}")]
    Format(&'static str),
    /// A part of a PNG is damaged.
    #[error("the PNG is damaged: the checksum of its part {0} does not fit")]
    Checksum(String),
    /// No credential in it.
    #[error("the picture holds no credential")]
    Nothing,
    /// More than one.
    #[error("the picture holds more than one credential")]
    Several,
    /// One that is held differently.
    #[error("the credential is held in a way that is not read: {0}")]
    Unusual(&'static str),
    /// Too large.
    #[error("the credential in it has more than {} octets", super::MAX_OCTETS)]
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
