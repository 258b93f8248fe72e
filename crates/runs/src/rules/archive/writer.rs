//! Writes an archive, a part at a time.

use std::io::{self, Write as _};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{
    ArchivingHost, Contents, Header, MAX_BYTES, MAX_LINE, MEDIA_TYPE, Manifest, PREDICATE_TYPE,
    VERSION, is_bomb,
};
use touchstone_kit::hex::hex;
use touchstone_kit::keys::SecretKey;
use touchstone_openwop::dsse;
use touchstone_openwop::in_toto::{DigestSet, ResourceDescriptor, STATEMENT_TYPE, Statement};

/// Why a run cannot be archived.
#[derive(Debug, thiserror::Error)]
pub enum Unarchivable {
    /// The log has a gap, a repetition or a wrong order.
    #[error("event {found} follows event {after} in the log")]
    Sequence { after: u64, found: u64 },
    #[error("the log has {found} events instead of {expected}")]
    Incomplete { found: u64, expected: u64 },
    #[error("a line of the archive would be longer than {MAX_LINE} bytes")]
    LineTooLong,
    #[error(
        "the archive would be larger than {MAX_BYTES} bytes, or compresses too well to be read"
    )]
    TooLarge,
    #[error("a document cannot be written as JSON: {0}")]
    Document(#[from] serde_json::Error),
    #[error("the archive cannot be compressed: {0}")]
    Compression(#[from] io::Error),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub status: String,
    pub ended_at: Option<Timestamp>,
    /// Sequence of the last event.
    pub sequence: u64,
}

/// An archive that is being written.
pub struct Writer {
    gzip: GzEncoder<Vec<u8>>,
    header: Header,
    created_at: Timestamp,
    body: Sha256,
    contents_digest: DigestSet,
    events_digest: Sha256,
    events: u64,
    plain: u64,
    compressed: u64,
}

impl Writer {
    /// Begins an archive.
    ///
    /// # Errors
    /// [`Unarchivable`].
    pub fn new(contents: &Contents) -> Result<Self, Unarchivable> {
        let header = Header {
            media_type: MEDIA_TYPE.to_owned(),
            version: VERSION,
            run_id: contents.record.run_id.clone(),
            tenant: contents.record.tenant.clone(),
        };
        // Without time and operating system in the header, the same run gives the same bytes.
        let gzip = GzBuilder::new()
            .mtime(0)
            .operating_system(255)
            .write(Vec::new(), Compression::new(6));
        let mut writer = Self {
            gzip,
            created_at: contents.record.created_at,
            body: Sha256::new(),
            contents_digest: DigestSet::default(),
            events_digest: Sha256::new(),
            events: 0,
            plain: 0,
            compressed: 0,
            header: header.clone(),
        };
        writer.line(&line_of(&header)?)?;
        let contents = line_of(contents)?;
        writer.contents_digest = digest_set(Sha256::digest(&contents).as_slice());
        writer.line(&contents)?;
        Ok(writer)
    }

    /// Adds the next event of the log, as it is stored.
    ///
    /// # Errors
    /// [`Unarchivable`].
    pub fn event(&mut self, sequence: u64, body: &[u8]) -> Result<(), Unarchivable> {
        if sequence != self.events + 1 {
            return Err(Unarchivable::Sequence {
                after: self.events,
                found: sequence,
            });
        }
        let mut line = format!("{{\"sequence\":{sequence},\"event\":").into_bytes();
        let is_document = serde_json::from_slice::<&RawValue>(body).is_ok();
        match is_document && body.starts_with(b"{") && !body.contains(&b'\n') {
            true => line.extend_from_slice(body),
            // The text of an unreadable event, as a string.
            false => serde_json::to_writer(&mut line, &String::from_utf8_lossy(body))?,
        }
        line.extend_from_slice(b"}\n");
        self.events = sequence;
        self.events_digest.update(&line);
        self.line(&line)
    }

    /// The bytes of the file since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(self.gzip.get_mut());
        self.compressed += bytes.len() as u64;
        bytes
    }

    /// Number of bytes that [`take`](Self::take) would return.
    pub fn waiting(&self) -> usize {
        self.gzip.get_ref().len()
    }

    /// Signs the archive and returns its last bytes.
    ///
    /// # Errors
    /// [`Unarchivable`].
    pub fn finish(
        mut self,
        end: End,
        host: ArchivingHost,
        key: &SecretKey,
    ) -> Result<Vec<u8>, Unarchivable> {
        if self.events != end.sequence {
            return Err(Unarchivable::Incomplete {
                found: self.events,
                expected: end.sequence,
            });
        }
        let manifest = Manifest {
            format_version: VERSION,
            run_id: self.header.run_id.clone(),
            tenant: self.header.tenant.clone(),
            created_at: self.created_at,
            status: end.status,
            ended_at: end.ended_at,
            events: self.events,
            contents_digest: self.contents_digest.clone(),
            events_digest: digest_set(self.events_digest.clone().finalize().as_slice()),
            host,
        };
        let statement = Statement {
            kind: STATEMENT_TYPE.to_owned(),
            subject: vec![ResourceDescriptor {
                name: Some(manifest.run_id.to_string()),
                uri: None,
                digest: digest_set(self.body.clone().finalize().as_slice()),
            }],
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: serde_json::to_value(&manifest)?,
        };
        let envelope = dsse::seal(&serde_json::to_vec(&statement)?, key);
        self.line(&line_of(&envelope)?)?;
        let compressed = self.compressed;
        let rest = self.gzip.finish()?;
        if is_bomb(self.plain, compressed + rest.len() as u64) {
            return Err(Unarchivable::TooLarge);
        }
        Ok(rest)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Unarchivable> {
        if line.len() > MAX_LINE {
            return Err(Unarchivable::LineTooLong);
        }
        self.plain += line.len() as u64;
        if self.plain > MAX_BYTES {
            return Err(Unarchivable::TooLarge);
        }
        self.body.update(line);
        self.gzip.write_all(line)?;
        Ok(())
    }
}

fn line_of(document: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    Ok(line)
}

pub(super) fn digest_set(digest: &[u8]) -> DigestSet {
    DigestSet {
        sha256: Some(hex(digest)),
        ..DigestSet::default()
    }
}
