//! Reads and verifies an archive. The file may come from anyone: lines, sizes and the ratio of
//! compression are limited, and nothing is returned before all digests are verified.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::writer::digest_set;
use super::{
    Contents, Header, MAX_BYTES, MAX_FILE, MAX_LINE, MEDIA_TYPE, Manifest, PREDICATE_TYPE, VERSION,
    is_bomb,
};
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::dsse::{self, Unverified};
use touchstone_openwop::in_toto::{Envelope, STATEMENT_TYPE, Statement};

/// Why a file is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveFault {
    #[error("the file is not an archive of a run, or its first line is damaged")]
    NotAnArchive,
    #[error("the file has format version {0}, and this program reads version {VERSION}")]
    Version(u32),
    #[error("the file could not be read: {0}")]
    Unreadable(String),
    #[error("the file is truncated")]
    Truncated,
    #[error("the compressed data is damaged")]
    Damaged,
    #[error("the file has further data after its end")]
    FurtherData,
    #[error("line {0} is longer than {MAX_LINE} bytes")]
    LineTooLong(u64),
    #[error(
        "the file is larger than {MAX_FILE} bytes, or than {MAX_BYTES} bytes without compression"
    )]
    TooLarge,
    #[error("the file decompresses to far more bytes than a log does")]
    Bomb,
    #[error("line {line} cannot be read: {problem}")]
    Line { line: u64, problem: String },
    #[error("event {found} follows event {after}")]
    Sequence { after: u64, found: u64 },
    #[error("the file has no signature at its end")]
    NoSignature,
    #[error("the signature is not valid: {0}")]
    Unverified(#[from] Unverified),
    #[error("the signed statement is not about an archive")]
    OtherStatement,
    #[error("the signed statement cannot be read: {0}")]
    Statement(String),
    /// The signed digest of this part is another one.
    #[error("{0} was changed: its digest is not the signed one")]
    Digest(&'static str),
    /// A member of the statement contradicts the archive.
    #[error("`{0}` of the signed statement differs from the archive")]
    Contradiction(&'static str),
}

impl ArchiveFault {
    /// Whether the file cannot be an archive of this version, rather than a changed archive.
    pub const fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::NotAnArchive | Self::Version(_) | Self::Unreadable(_)
        )
    }
}

/// An archive whose digests are verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Archive {
    pub contents: Contents,
    pub manifest: Manifest,
    /// The envelope with the signature, which was verified if a key was given.
    pub envelope: Envelope,
}

/// Reads an archive to its end and passes every event of the log to `event`, with its sequence. With
/// a key, its signature is verified too.
///
/// # Errors
/// [`ArchiveFault`]. The events that were passed before it are not verified.
pub fn read<R: BufRead>(
    file: R,
    key: Option<&PublicKey>,
    mut event: impl FnMut(u64, &[u8]),
) -> Result<Archive, ArchiveFault> {
    let mut lines = Lines::new(file);
    let header = header(&mut lines)?;
    let line = lines.next()?.ok_or(ArchiveFault::NoSignature)?;
    let contents_digest = digest_set(Sha256::digest(&line).as_slice());
    let contents: Contents = lines.parsed(&line)?;
    let (mut events, mut events_digest) = (0, Sha256::new());
    let envelope: Envelope = loop {
        // The digest of the lines before the last one.
        let before = lines.digest.clone();
        let line = lines.next()?.ok_or(ArchiveFault::NoSignature)?;
        if !line.starts_with(EVENT) {
            lines.digest = before;
            break lines.parsed(&line)?;
        }
        let EventLine {
            sequence,
            event: it,
        } = lines.parsed(&line)?;
        if sequence != events + 1 {
            return Err(ArchiveFault::Sequence {
                after: events,
                found: sequence,
            });
        }
        events = sequence;
        events_digest.update(&line);
        match it.get().starts_with('"') {
            true => event(
                sequence,
                lines.parsed::<String>(it.get().as_bytes())?.as_bytes(),
            ),
            false => event(sequence, it.get().as_bytes()),
        }
    };
    let body_digest = digest_set(lines.digest.clone().finalize().as_slice());
    lines.end()?;

    let payload = match key {
        Some(key) => dsse::open(&envelope, key)?,
        None => dsse::unverified_payload(&envelope).ok_or(Unverified::Encoding)?,
    };
    let unreadable = |fault: serde_json::Error| ArchiveFault::Statement(fault.to_string());
    let statement: Statement = serde_json::from_slice(&payload).map_err(unreadable)?;
    if statement.kind != STATEMENT_TYPE || statement.predicate_type != PREDICATE_TYPE {
        return Err(ArchiveFault::OtherStatement);
    }
    let manifest: Manifest = serde_json::from_value(statement.predicate).map_err(unreadable)?;
    let record = &contents.record;
    for (member, agrees) in [
        ("formatVersion", manifest.format_version == header.version),
        (
            "runId",
            manifest.run_id == header.run_id && manifest.run_id == record.run_id,
        ),
        (
            "tenant",
            manifest.tenant == header.tenant && manifest.tenant == record.tenant,
        ),
        ("events", manifest.events == events),
    ] {
        if !agrees {
            return Err(ArchiveFault::Contradiction(member));
        }
    }
    if manifest.contents_digest != contents_digest {
        return Err(ArchiveFault::Digest("the run's record"));
    }
    if manifest.events_digest != digest_set(events_digest.finalize().as_slice()) {
        return Err(ArchiveFault::Digest("the run's log"));
    }
    if !matches!(statement.subject.as_slice(), [subject] if subject.digest == body_digest) {
        return Err(ArchiveFault::Digest("the archive"));
    }
    Ok(Archive {
        contents,
        manifest,
        envelope,
    })
}

/// How lines with events begin.
const EVENT: &[u8] = b"{\"sequence\":";

#[derive(Deserialize)]
struct EventLine<'a> {
    sequence: u64,
    #[serde(borrow)]
    event: &'a RawValue,
}

fn header<R: BufRead>(lines: &mut Lines<R>) -> Result<Header, ArchiveFault> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        media_type: String,
        version: u32,
    }
    // Anything may be in the file until its first line says what it is.
    let line = match lines.next() {
        Ok(Some(line)) => line,
        Ok(None)
        | Err(ArchiveFault::Damaged | ArchiveFault::Truncated | ArchiveFault::LineTooLong(_)) => {
            return Err(ArchiveFault::NotAnArchive);
        }
        Err(fault) => return Err(fault),
    };
    let kind: Kind = serde_json::from_slice(&line).map_err(|_| ArchiveFault::NotAnArchive)?;
    if kind.media_type != MEDIA_TYPE {
        return Err(ArchiveFault::NotAnArchive);
    }
    if kind.version != VERSION {
        return Err(ArchiveFault::Version(kind.version));
    }
    lines.parsed(&line)
}

/// The lines of an archive, each with its line break.
struct Lines<R> {
    from: BufReader<GzDecoder<Counted<R>>>,
    /// Of all lines that were read.
    digest: Sha256,
    number: u64,
    plain: u64,
}

impl<R: BufRead> Lines<R> {
    fn new(file: R) -> Self {
        let counted = Counted { file, bytes: 0 };
        Self {
            from: BufReader::with_capacity(64 << 10, GzDecoder::new(counted)),
            digest: Sha256::new(),
            number: 0,
            plain: 0,
        }
    }

    /// The next line; `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ArchiveFault> {
        self.number += 1;
        let mut line = Vec::new();
        loop {
            let part = self.from.fill_buf().map_err(|cause| unreadable(&cause))?;
            if part.is_empty() {
                return match line.is_empty() {
                    true => Ok(None),
                    false => Err(ArchiveFault::Truncated),
                };
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let part = match end {
                Some(end) => part.get(..=end).unwrap_or(part),
                None => part,
            };
            line.extend_from_slice(part);
            let taken = part.len();
            self.from.consume(taken);
            self.plain += taken as u64;
            let compressed = self.from.get_ref().get_ref().bytes;
            if self.plain > MAX_BYTES || compressed > MAX_FILE {
                return Err(ArchiveFault::TooLarge);
            }
            if is_bomb(self.plain, compressed) {
                return Err(ArchiveFault::Bomb);
            }
            if line.len() > MAX_LINE {
                return Err(ArchiveFault::LineTooLong(self.number));
            }
            if end.is_some() {
                self.digest.update(&line);
                return Ok(Some(line));
            }
        }
    }

    fn parsed<'a, T: Deserialize<'a>>(&self, line: &'a [u8]) -> Result<T, ArchiveFault> {
        serde_json::from_slice(line).map_err(|fault| ArchiveFault::Line {
            line: self.number,
            problem: fault.to_string(),
        })
    }

    /// Verifies the checksum of the compression, and that nothing follows.
    fn end(&mut self) -> Result<(), ArchiveFault> {
        let rest = self.from.fill_buf().map_err(|cause| unreadable(&cause))?;
        if !rest.is_empty() {
            return Err(ArchiveFault::FurtherData);
        }
        let after = self.from.get_mut().get_mut().fill_buf();
        match after.map_err(|cause| unreadable(&cause))?.is_empty() {
            true => Ok(()),
            false => Err(ArchiveFault::FurtherData),
        }
    }
}

fn unreadable(cause: &io::Error) -> ArchiveFault {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveFault::Truncated,
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => ArchiveFault::Damaged,
        _ => ArchiveFault::Unreadable(cause.to_string()),
    }
}

/// A file, and how much of it was read.
struct Counted<R> {
    file: R,
    bytes: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.bytes += amount as u64;
        self.file.consume(amount);
    }
}
