//! Files that are sent with the input of a task.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use touchstone_kit::headers::media_type::MediaType;
use touchstone_kit::hex::hex;

/// Bytes that an estimate counts for an image: endpoints charge by its resolution, up to a few
/// thousand tokens.
const IMAGE_BYTES: usize = 8 * 1024;
/// Bytes of a PDF for each byte that an estimate counts: much of it is layout and images.
const PDF_SHARE: usize = 8;

/// A file, ready to be sent.
#[derive(Clone, PartialEq)]
pub struct Attachment {
    /// Its name without folders.
    pub name: Arc<str>,
    pub media_type: MediaType,
    /// In lower-case hexadecimal.
    pub sha256: Arc<str>,
    /// Size in bytes.
    pub size: usize,
    /// Its content in Base64.
    pub base64: Arc<str>,
}

impl Attachment {
    /// The file at this path of a pack.
    pub fn new(path: &str, media_type: MediaType, bytes: &[u8]) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        Self {
            name: name.into(),
            media_type,
            sha256: hex(&Sha256::digest(bytes)).into(),
            size: bytes.len(),
            base64: STANDARD.encode(bytes).into(),
        }
    }

    /// Its content as a URL.
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type.as_str(), self.base64)
    }

    /// Approximate size in a request, for estimates.
    pub fn octets(&self) -> usize {
        match self.media_type.is_image() {
            true => IMAGE_BYTES,
            false => self.size.div_ceil(PDF_SHARE),
        }
    }

    /// Its identity without its content: name, media type, digest and size.
    pub fn reference(&self) -> Value {
        json!({
            "name": &*self.name, "mediaType": self.media_type, "sha256": &*self.sha256, "sizeBytes": self.size,
        })
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("sha256", &self.sha256)
            .field("media_type", &self.media_type)
            .finish_non_exhaustive()
    }
}

/// An image and a document, for tests of wire formats.
#[cfg(test)]
pub fn examples() -> [Attachment; 2] {
    [
        Attachment::new("evals/files/a.png", MediaType::Png, b"a"),
        Attachment::new("evals/files/b.pdf", MediaType::Pdf, b"b"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_described_without_its_content() {
        let file = Attachment::new("evals/files/a.png", MediaType::Png, b"canary");
        assert_eq!(&*file.name, "a.png");
        assert_eq!(file.data_url(), "data:image/png;base64,Y2FuYXJ5");
        let described = format!("{file:?} {}", file.reference());
        assert!(!described.contains("Y2FuYXJ5"), "{described}");
        assert!(described.contains(&*file.sha256));
    }
}
