//! Types of files that can be attached to a task.

use serde::{Deserialize, Serialize};

/// A type of file that models accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaType {
    #[serde(rename = "image/png")]
    Png,
    #[serde(rename = "image/jpeg")]
    Jpeg,
    #[serde(rename = "image/gif")]
    Gif,
    #[serde(rename = "image/webp")]
    Webp,
    #[serde(rename = "application/pdf")]
    Pdf,
}

impl MediaType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    pub const fn is_image(self) -> bool {
        !matches!(self, Self::Pdf)
    }

    /// Whether a file begins as files of this type do.
    pub fn fits(self, bytes: &[u8]) -> bool {
        match self {
            Self::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            Self::Jpeg => bytes.starts_with(b"\xff\xd8\xff"),
            Self::Gif => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
            Self::Webp => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
            Self::Pdf => bytes.starts_with(b"%PDF-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_recognized_by_the_first_bytes() {
        let files: [(MediaType, &[u8]); 5] = [
            (MediaType::Png, b"\x89PNG\r\n\x1a\nrest"),
            (MediaType::Jpeg, b"\xff\xd8\xff\xe0"),
            (MediaType::Gif, b"GIF89a"),
            (MediaType::Webp, b"RIFF\x00\x00\x00\x00WEBPVP8 "),
            (MediaType::Pdf, b"%PDF-1.7"),
        ];
        for (own, bytes) in files {
            for (other, _) in files {
                assert_eq!(other.fits(bytes), own == other, "{own:?} as {other:?}");
            }
            assert!(!own.fits(b""));
        }
    }

    #[test]
    fn the_name_is_the_one_of_documents() {
        for media_type in [MediaType::Png, MediaType::Pdf] {
            let written = serde_json::to_value(media_type).unwrap();
            assert_eq!(written, media_type.as_str());
        }
    }
}
