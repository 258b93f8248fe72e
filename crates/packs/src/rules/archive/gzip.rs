//! Reads exactly one gzip member (RFC 1952); every byte is counted and checked.

use std::io::{self, Read};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use super::MAX_UNPACKED;

const RESERVED_FLAGS: u8 = 0b1110_0000;
const HEADER_CRC: u8 = 0b10;
const EXTRA: u8 = 0b100;
const NAME: u8 = 0b1000;
const COMMENT: u8 = 0b1_0000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GzipFault {
    NotGzip,
    Corrupt,
    TooLarge,
    Trailer,
    Trailing,
}

impl GzipFault {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::NotGzip => "the archive is not a gzip stream with a valid header",
            Self::Corrupt => "the compressed data is corrupt or truncated",
            Self::TooLarge => "the archive unpacks to more than 50 MiB",
            Self::Trailer => "the gzip checksum or length is wrong or missing",
            Self::Trailing => {
                "the archive has data after the gzip stream; it must have exactly \
                one member"
            }
        }
    }
}

/// The only member of the stream, decompressed while it is read.
pub(super) struct Member<'a> {
    inflater: DeflateDecoder<&'a [u8]>,
    crc: Crc,
    ended: bool,
    fault: Option<GzipFault>,
}

impl<'a> Member<'a> {
    pub(super) fn open(tgz: &'a [u8]) -> Result<Self, GzipFault> {
        let body = header(tgz).ok_or(GzipFault::NotGzip)?;
        Ok(Self {
            inflater: DeflateDecoder::new(body),
            crc: Crc::new(),
            ended: false,
            fault: None,
        })
    }

    pub(super) fn fault(&self) -> Option<GzipFault> {
        // A truncated deflate stream ends like a complete one, but no trailer follows it.
        let cut_short = self.ended && self.inflater.get_ref().is_empty();
        self.fault.or(cut_short.then_some(GzipFault::Trailer))
    }

    /// Checks the trailer. Call it after reading the whole stream.
    pub(super) fn finish(self) -> Result<(), GzipFault> {
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        let rest = *self.inflater.get_ref();
        let (trailer, after) = rest.split_first_chunk::<8>().ok_or(GzipFault::Trailer)?;
        let mut expected = [0_u8; 8];
        let (sum, length) = expected.split_at_mut(4);
        sum.copy_from_slice(&self.crc.sum().to_le_bytes());
        length.copy_from_slice(&self.crc.amount().to_le_bytes());
        if *trailer != expected {
            return Err(GzipFault::Trailer);
        }
        if !after.is_empty() {
            return Err(GzipFault::Trailing);
        }
        Ok(())
    }

    fn fail(&mut self, fault: GzipFault) -> io::Error {
        self.fault = Some(fault);
        io::Error::other(fault.text())
    }
}

impl Read for Member<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.fault.is_some() {
            return Err(io::Error::other("the stream has failed already"));
        }
        let Ok(count) = self.inflater.read(buffer) else {
            return Err(self.fail(GzipFault::Corrupt));
        };
        if count == 0 && !buffer.is_empty() {
            self.ended = true;
        }
        if self.inflater.total_out() > MAX_UNPACKED {
            return Err(self.fail(GzipFault::TooLarge));
        }
        self.crc.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// The deflate data after a valid header.
fn header(tgz: &[u8]) -> Option<&[u8]> {
    let (fixed, mut rest) = tgz.split_first_chunk::<10>()?;
    let [0x1f, 0x8b, 8, flags, ..] = *fixed else {
        return None;
    };
    if flags & RESERVED_FLAGS != 0 {
        return None;
    }
    if flags & EXTRA != 0 {
        let (length, after) = rest.split_first_chunk::<2>()?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    for flag in [NAME, COMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|octet| *octet == 0)?;
            rest = rest.get(end + 1..)?;
        }
    }
    if flags & HEADER_CRC != 0 {
        let covered = tgz.get(..tgz.len() - rest.len())?;
        let (stored, after) = rest.split_first_chunk::<2>()?;
        let mut crc = Crc::new();
        crc.update(covered);
        if crc.sum().to_le_bytes().get(..2)? != stored {
            return None;
        }
        rest = after;
    }
    Some(rest)
}
