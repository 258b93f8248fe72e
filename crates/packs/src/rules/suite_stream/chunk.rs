//! Chunks of tasks: the canonical texts of consecutive tasks, one a line, compressed, after the
//! SHA-256 of these lines.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use sha2::{Digest as _, Sha256};

/// The length of a chunk's lines in bytes. A task is read with its whole chunk, and larger chunks are
/// hardly compressed better.
const CHUNK_BYTES: usize = 64 * 1024;
const DIGEST_BYTES: usize = 32;
/// Maximum length of the lines of a stored chunk in bytes: more than the largest task.
const MAX_LINES: u64 = 1 << 30;

/// The SHA-256 of a chunk's lines.
pub type ChunkDigest = [u8; DIGEST_BYTES];

/// A stored chunk is not the one that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of the suite was modified in the store")]
pub struct Damaged;

/// Consecutive tasks of a suite, compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Number of tasks.
    pub tasks: u32,
    pub digest: ChunkDigest,
    pub octets: Vec<u8>,
}

/// Collects tasks into chunks.
#[derive(Debug, Default)]
pub struct Packer {
    lines: String,
    tasks: u32,
    compression: Compression,
}

impl Packer {
    /// For chunks that are not stored: they are a little larger, and packed in a fraction of the time.
    pub fn quick() -> Self {
        Self {
            compression: Compression::fast(),
            ..Self::default()
        }
    }

    /// Adds the canonical text of the next task. Returns a chunk when one is full.
    pub fn push(&mut self, canonical: &str) -> Option<Chunk> {
        let is_full = self.tasks > 0 && self.lines.len() + canonical.len() >= CHUNK_BYTES;
        let full = is_full.then(|| self.take()).flatten();
        self.lines.push_str(canonical);
        self.lines.push('\n');
        self.tasks += 1;
        full
    }

    /// The tasks that are in no chunk yet.
    pub fn take(&mut self) -> Option<Chunk> {
        if self.tasks == 0 {
            return None;
        }
        let digest = Sha256::digest(self.lines.as_bytes()).into();
        let chunk = Chunk {
            tasks: self.tasks,
            digest,
            octets: packed(&digest, &self.lines, self.compression),
        };
        // A large task does not keep its memory.
        self.lines = String::new();
        self.tasks = 0;
        Some(chunk)
    }
}

fn packed(digest: &ChunkDigest, lines: &str, compression: Compression) -> Vec<u8> {
    let mut octets = Vec::with_capacity(DIGEST_BYTES + lines.len() / 4);
    octets.extend_from_slice(digest);
    let mut encoder = DeflateEncoder::new(octets, compression);
    // Writing to memory cannot fail. If it did, the checksum would not match.
    let _ = encoder.write_all(lines.as_bytes());
    encoder.finish().unwrap_or_default()
}

/// The lines of a chunk, with their digest. A line ends with a line feed.
///
/// # Errors
/// [`Damaged`].
pub fn unpack(octets: &[u8]) -> Result<(String, ChunkDigest), Damaged> {
    let (digest, packed) = octets.split_first_chunk().ok_or(Damaged)?;
    let mut lines = String::new();
    DeflateDecoder::new(packed)
        .take(MAX_LINES)
        .read_to_string(&mut lines)
        .map_err(|_| Damaged)?;
    let is_same = Sha256::digest(lines.as_bytes())[..] == digest[..];
    is_same.then_some((lines, *digest)).ok_or(Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(tasks: &[String]) -> Vec<Chunk> {
        let mut packer = Packer::default();
        let mut chunks: Vec<Chunk> = tasks.iter().filter_map(|it| packer.push(it)).collect();
        chunks.extend(packer.take());
        chunks
    }

    #[test]
    fn chunks_have_every_task_once_and_in_order() {
        let tasks: Vec<String> = (0..5_000).map(|at| format!("{{\"n\":{at:030}}}")).collect();
        let chunks = chunks(&tasks);
        assert_eq!(chunks.len(), 3);
        let mut lines = Vec::new();
        for chunk in &chunks {
            let (text, digest) = unpack(&chunk.octets).unwrap();
            assert_eq!(digest, chunk.digest);
            assert_eq!(text.lines().count(), chunk.tasks as usize);
            assert!(text.len() <= CHUNK_BYTES);
            lines.extend(text.lines().map(str::to_owned));
        }
        assert_eq!(lines, tasks);
    }

    #[test]
    fn a_task_that_is_larger_than_a_chunk_is_a_chunk_of_its_own() {
        let large = "x".repeat(3 * CHUNK_BYTES);
        let tasks = ["a".to_owned(), large, "b".to_owned()];
        let counts: Vec<u32> = chunks(&tasks).iter().map(|it| it.tasks).collect();
        assert_eq!(counts, [1, 1, 1]);
        assert!(Packer::default().take().is_none());
    }

    #[test]
    fn a_changed_chunk_is_damaged() {
        let chunk = chunks(&["{\"a\":1}".to_owned()]).remove(0);
        for at in 0..chunk.octets.len() {
            let mut changed = chunk.octets.clone();
            changed[at] ^= 1;
            // The last bits of a compressed text may be padding.
            let same = unpack(&chunk.octets);
            assert!(unpack(&changed) == Err(Damaged) || unpack(&changed) == same);
        }
        assert_eq!(unpack(&[]), Err(Damaged));
    }
}
