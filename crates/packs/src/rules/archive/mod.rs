//! Reads a pack archive: one pass, in memory, with every limit counted (OpenWOP node-packs; POSIX
//! pax; RFC 1952).
//!
//! Two readers that interpret an archive differently would see different packs. Everything
//! ambiguous is therefore refused: a second gzip member, names that differ only in case, extended
//! headers that rename or resize, entries after the end. Links and devices are refused even when
//! they stay inside the archive.

mod gzip;
mod header;
mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use bytes::Bytes;
use tar::Archive as TarReader;

use self::gzip::{GzipFault, Member};
use self::header::{Extended, Kind, RawHeader};
pub(super) use self::paths::segments as path_segments;
use super::{Refusal, Stage};
use touchstone_kit::error::ErrorCode;

pub const MANIFEST: &str = "pack.json";
/// Path of the embedded signature under `manual`.
pub const EMBEDDED_SIGNATURE: &str = "keys/pack.json.sig";

/// Maximum size of an archive in bytes.
pub const MAX_COMPRESSED: usize = 10 * 1024 * 1024;
/// Maximum size of the tar stream in bytes.
pub const MAX_UNPACKED: u64 = 50 * 1024 * 1024;
/// Maximum size of `pack.json` in bytes.
pub const MAX_MANIFEST: u64 = 256 * 1024;
/// Maximum size of one file in bytes.
pub const MAX_ENTRY: u64 = 5 * 1024 * 1024;
/// Maximum number of files and folders.
pub const MAX_ENTRIES: usize = 4_096;
/// Maximum length of a name in bytes.
pub const MAX_NAME: usize = 512;
/// Maximum size of an extended header in bytes.
const MAX_EXTENDED: u64 = 64 * 1024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// By name, relative to the root.
    pub files: BTreeMap<String, Bytes>,
}

impl Archive {
    /// The bytes of `pack.json`.
    ///
    /// # Errors
    /// `tarball_manifest_missing`.
    pub fn manifest(&self) -> Result<&Bytes, Refusal> {
        self.files.get(MANIFEST).ok_or_else(|| {
            Refusal::new(
                ErrorCode::TarballManifestMissing,
                Stage::Manifest,
                "the archive has no pack.json at its root; pack the folder's content, not the folder",
            )
        })
    }
}

/// Reads an archive.
///
/// # Errors
/// The first limit or rule that the archive violates.
pub fn read(tgz: &[u8]) -> Result<Archive, Refusal> {
    if tgz.len() > MAX_COMPRESSED {
        return Err(refuse(
            ErrorCode::TarballTooLarge,
            "the archive is larger than 10 MiB",
        ));
    }
    let mut member = Member::open(tgz).map_err(of_gzip)?;
    let outcome = read_entries(&mut member);
    // A truncated stream looks like a malformed tar; report the underlying cause.
    if let Some(fault) = member.fault() {
        return Err(of_gzip(fault));
    }
    let builder = outcome?;
    read_padding(&mut member)?;
    member.finish().map_err(of_gzip)?;
    builder.finish()
}

fn refuse(code: ErrorCode, reason: impl Into<String>) -> Refusal {
    Refusal::new(code, Stage::Archive, reason)
}

fn malformed(reason: impl Into<String>) -> Refusal {
    refuse(ErrorCode::TarballTarParseFailed, reason)
}

fn of_gzip(fault: GzipFault) -> Refusal {
    match fault {
        GzipFault::TooLarge => refuse(
            ErrorCode::TarballTooLarge,
            "the archive unpacks to more than 50 MiB",
        ),
        other => refuse(ErrorCode::TarballGunzipFailed, other.text()),
    }
}

fn read_entries(member: &mut Member<'_>) -> Result<Builder, Refusal> {
    let broken = |_| malformed("the tar stream is malformed or ends in the middle of an entry");
    let mut builder = Builder::default();
    let mut extended = Extended::default();
    let mut reader = TarReader::new(member);
    for entry in reader.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let header = RawHeader::parse(entry.header()).map_err(malformed)?;
        builder.count_header()?;
        if header.size != entry.size() {
            return Err(malformed("an entry's size is ambiguous"));
        }
        match header.kind {
            Kind::File | Kind::Folder => {
                let effective = std::mem::take(&mut extended)
                    .apply(&header)
                    .map_err(malformed)?;
                let name = paths::check(&effective, header.kind == Kind::Folder)
                    .map_err(|reason| refuse(ErrorCode::TarballPathTraversal, reason))?;
                builder.admit(&name, &header)?;
                let bytes = read_data(&mut entry, header.size)?;
                builder.add(name, header.kind, bytes)?;
            }
            Kind::LocalExtended | Kind::GlobalExtended | Kind::LongName => {
                if header.size > MAX_EXTENDED {
                    return Err(malformed("an extended header is larger than 64 KiB"));
                }
                let bytes = read_data(&mut entry, header.size)?;
                extended.read(header.kind, &bytes).map_err(malformed)?;
            }
            Kind::Other => {
                return Err(refuse(
                    ErrorCode::TarballPathTraversal,
                    "the archive has an entry that is neither a file nor a folder; links and \
                    devices are not allowed",
                ));
            }
        }
    }
    if extended.is_pending() {
        return Err(malformed(
            "the last entry is an extended header without a file",
        ));
    }
    Ok(builder)
}

fn read_data(entry: &mut impl Read, size: u64) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    let read = entry.take(size).read_to_end(&mut bytes);
    if read.is_err() || bytes.len() as u64 != size {
        return Err(malformed(
            "an entry's data is shorter than its declared size",
        ));
    }
    Ok(bytes)
}

/// Only zeros may follow the end marker.
fn read_padding(member: &mut Member<'_>) -> Result<(), Refusal> {
    let mut block = [0_u8; 4096];
    loop {
        match member.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(n) if block.iter().take(n).all(|octet| *octet == 0) => {}
            Ok(_) => return Err(malformed("the archive has data after its end marker")),
            Err(_) => {
                return Err(of_gzip(member.fault().unwrap_or(GzipFault::Corrupt)));
            }
        }
    }
}

/// Collects entries and refuses duplicate names.
#[derive(Default)]
struct Builder {
    headers: usize,
    entries: usize,
    files: BTreeMap<String, Bytes>,
    folded_files: BTreeSet<String>,
    folded_folders: BTreeSet<String>,
}

impl Builder {
    fn count_header(&mut self) -> Result<(), Refusal> {
        // Every file may have up to two extended headers.
        self.headers += 1;
        if self.headers > 3 * MAX_ENTRIES {
            return Err(too_many());
        }
        Ok(())
    }

    fn admit(&mut self, name: &str, header: &RawHeader) -> Result<(), Refusal> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(too_many());
        }
        if header.kind == Kind::Folder {
            if header.size != 0 {
                return Err(malformed("a folder has data").in_file(name));
            }
            return Ok(());
        }
        if name == MANIFEST && header.size > MAX_MANIFEST {
            return Err(
                refuse(ErrorCode::TarballManifestTooLarge, "is larger than 256 KiB").in_file(name),
            );
        }
        if header.size > MAX_ENTRY {
            return Err(
                refuse(ErrorCode::TarballEntryTooLarge, "is larger than 5 MiB").in_file(name),
            );
        }
        Ok(())
    }

    fn add(&mut self, name: String, kind: Kind, bytes: Vec<u8>) -> Result<(), Refusal> {
        if name.is_empty() {
            return Ok(());
        }
        let folded = paths::fold(&name);
        for (end, _) in folded.match_indices('/') {
            if let Some(parent) = folded.get(..end) {
                self.folded_folders.insert(parent.to_owned());
            }
        }
        if kind == Kind::Folder {
            self.folded_folders.insert(folded);
            return Ok(());
        }
        if !self.folded_files.insert(folded) {
            return Err(malformed(
                "occurs twice, or differs from another name only in case or Unicode form",
            )
            .in_file(name));
        }
        self.files.insert(name, Bytes::from(bytes));
        Ok(())
    }

    fn finish(self) -> Result<Archive, Refusal> {
        if let Some(both) = self.folded_files.intersection(&self.folded_folders).next() {
            return Err(malformed("is both a file and a folder").in_file(both.as_str()));
        }
        Ok(Archive { files: self.files })
    }
}

fn too_many() -> Refusal {
    refuse(
        ErrorCode::TarballTooLarge,
        "the archive has more than 4,096 entries",
    )
}
