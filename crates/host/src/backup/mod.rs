//! The file of a backup: a tar archive with a manifest first, then the files that it lists, with their
//! digests. `tar` can list and unpack it.

pub mod manifest;

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use crate::backup::manifest::{BackupFile, FORMAT, FileEntry, Manifest, VERSION};
use crate::net::USER_AGENT;
use crate::system::private_files;
use touchstone_kit::hex::hex;

const MANIFEST: &str = "manifest.json";
const MAX_MANIFEST_BYTES: u64 = 64 << 10;
const BUFFER_BYTES: usize = 256 << 10;

/// Why a backup cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("the file is not a backup: {0}")]
    NotABackup(String),
    #[error("the backup is damaged: {0}")]
    Damaged(String),
    #[error("could not write {name}")]
    Write {
        name: &'static str,
        source: io::Error,
    },
}

/// Describes the files of a backup, which are in `folder`.
///
/// # Errors
/// A file cannot be read.
pub fn describe(
    folder: &Path,
    names: &[BackupFile],
    made_at: Timestamp,
    host_key_id: Option<String>,
) -> io::Result<Manifest> {
    let mut files = Vec::new();
    for name in names {
        let mut hashed = Hashed::new(io::sink());
        let mut file = File::open(folder.join(name.name()))?;
        let bytes = io::copy(&mut file, &mut hashed)?;
        files.push(FileEntry {
            name: *name,
            bytes,
            sha256: hashed.digest(),
        });
    }
    Ok(Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        made_by: USER_AGENT.to_owned(),
        made_at,
        host_key_id,
        files,
    })
}

/// Writes a backup of the described files, which are in `folder`.
///
/// # Errors
/// A file cannot be read, or the backup cannot be written.
pub fn write(manifest: &Manifest, folder: &Path, to: impl Write) -> io::Result<()> {
    let time = u64::try_from(manifest.made_at.as_second()).unwrap_or(0);
    let mut archive = Builder::new(to);
    let text = serde_json::to_vec_pretty(manifest)?;
    let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
    archive.append_data(&mut header(size, time), MANIFEST, text.as_slice())?;
    for file in &manifest.files {
        let name = file.name.name();
        let content = BufReader::with_capacity(BUFFER_BYTES, File::open(folder.join(name))?);
        archive.append_data(&mut header(file.bytes, time), name, content)?;
    }
    archive.into_inner()?.flush()
}

fn header(bytes: u64, time: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_mtime(time);
    header
}

/// Unpacks a backup into `folder` and verifies every digest.
///
/// # Errors
/// [`Unreadable`]; files that were unpacked before stay in the folder.
pub fn read(from: impl Read, folder: &Path) -> Result<Manifest, Unreadable> {
    let no_tar = |cause: io::Error| Unreadable::NotABackup(cause.to_string());
    let damaged = |cause: io::Error| Unreadable::Damaged(cause.to_string());
    let mut archive = Archive::new(BufReader::with_capacity(BUFFER_BYTES, from));
    let mut entries = archive.entries().map_err(no_tar)?;
    let first = entries.next().transpose().map_err(no_tar)?;
    let mut first = first
        .filter(|entry| entry.path_bytes().as_ref() == MANIFEST.as_bytes())
        .ok_or_else(|| Unreadable::NotABackup(format!("its first entry is not `{MANIFEST}`")))?;
    let mut text = Vec::new();
    let mut limited = first.by_ref().take(MAX_MANIFEST_BYTES);
    limited.read_to_end(&mut text).map_err(damaged)?;
    let manifest = Manifest::parse(&text).map_err(Unreadable::NotABackup)?;
    for file in &manifest.files {
        let name = file.name.name();
        let entry = entries.next().transpose().map_err(damaged)?;
        let mut entry = entry
            .filter(|entry| {
                entry.path_bytes().as_ref() == name.as_bytes()
                    && entry.header().entry_type() == EntryType::Regular
                    && entry.size() == file.bytes
            })
            .ok_or_else(|| {
                Unreadable::Damaged(format!("`{name}` is missing or has another size"))
            })?;
        let failed = |source| Unreadable::Write { name, source };
        let to = private_files::create_new(&folder.join(name)).map_err(failed)?;
        let mut to = Hashed::new(to);
        copy(&mut entry, &mut to, name)?;
        to.inner.sync_all().map_err(failed)?;
        if to.digest() != file.sha256 {
            return Err(Unreadable::Damaged(format!(
                "the digest of `{name}` differs from the manifest"
            )));
        }
    }
    match entries.next() {
        None => Ok(manifest),
        Some(_) => Err(Unreadable::Damaged(
            "it has more entries than the manifest lists".to_owned(),
        )),
    }
}

/// Copies an entry; a failure of the source is another one than a failure of the target.
fn copy(from: &mut impl Read, to: &mut impl Write, name: &'static str) -> Result<(), Unreadable> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer);
        let read = read.map_err(|cause| Unreadable::Damaged(format!("`{name}`: {cause}")))?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        to.write_all(bytes)
            .map_err(|source| Unreadable::Write { name, source })?;
    }
}

/// Hashes what is written through it.
struct Hashed<W> {
    inner: W,
    digest: Sha256,
}

impl<W> Hashed<W> {
    fn new(inner: W) -> Self {
        Self {
            inner,
            digest: Sha256::new(),
        }
    }

    fn digest(self) -> String {
        hex(&self.digest.finalize())
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
