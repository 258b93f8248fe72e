//! Reading a pack archive: once, in order, in memory, counting (OpenWOP node-packs; POSIX pax; RFC 1952).
//!
//! Two readers that disagree on an archive see different packs, so whatever they could disagree on is refused: a second
//! gzip member, names that differ in case only, extended headers that rename or resize, entries after the end. Links and
//! devices are refused even when they stay inside.

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
use crate::protocol::error::ErrorCode;

/// The manifest's name at the archive root.
pub const MANIFEST: &str = "pack.json";
/// Where the signature is embedded under `manual`.
pub const EMBEDDED_SIGNATURE: &str = "keys/pack.json.sig";

/// Octets of an archive.
pub const MAX_COMPRESSED: usize = 10 * 1024 * 1024;
/// Octets of the tar stream.
pub const MAX_UNPACKED: u64 = 50 * 1024 * 1024;
/// Octets of `pack.json`.
pub const MAX_MANIFEST: u64 = 256 * 1024;
/// Octets of one file.
pub const MAX_ENTRY: u64 = 5 * 1024 * 1024;
/// Files and folders.
pub const MAX_ENTRIES: usize = 4_096;
/// Octets of a name.
pub const MAX_NAME: usize = 512;
/// Octets of an extended header.
const MAX_EXTENDED: u64 = 64 * 1024;

/// The files of a pack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// By name, relative to the root.
    pub files: BTreeMap<String, Bytes>,
}

impl Archive {
    /// The octets of `pack.json`.
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
/// The first limit or rule it breaks.
pub fn read(tgz: &[u8]) -> Result<Archive, Refusal> {
    if tgz.len() > MAX_COMPRESSED {
        return Err(refuse(
            ErrorCode::TarballTooLarge,
            "the archive is larger than 10 MiB",
        ));
    }
    let mut member = Member::open(tgz).map_err(of_gzip)?;
    let outcome = read_entries(&mut member);
    // A stream that breaks off looks like a malformed tar; the deeper cause is the one to report.
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
    let broken = |_| malformed("the tar stream is malformed, or ends in the middle of an entry");
    let mut builder = Builder::default();
    let mut extended = Extended::default();
    let mut reader = TarReader::new(member);
    for entry in reader.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let header = RawHeader::parse(entry.header()).map_err(malformed)?;
        builder.count_header()?;
        if header.size != entry.size() {
            return Err(malformed("an entry's size can be read in two ways"));
        }
        match header.kind {
            Kind::File | Kind::Folder => {
                let effective = std::mem::take(&mut extended)
                    .apply(&header)
                    .map_err(malformed)?;
                let name = paths::check(&effective, header.kind == Kind::Folder)
                    .map_err(|reason| refuse(ErrorCode::TarballPathTraversal, reason))?;
                builder.admit(&name, &header)?;
                let octets = read_data(&mut entry, header.size)?;
                builder.add(name, header.kind, octets)?;
            }
            Kind::LocalExtended | Kind::GlobalExtended | Kind::LongName => {
                if header.size > MAX_EXTENDED {
                    return Err(malformed("an extended header is larger than 64 KiB"));
                }
                let octets = read_data(&mut entry, header.size)?;
                extended.read(header.kind, &octets).map_err(malformed)?;
            }
            Kind::Other => {
                return Err(refuse(
                    ErrorCode::TarballPathTraversal,
                    "the archive has an entry that is neither file nor folder; links and devices are not allowed",
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
    let mut octets = Vec::new();
    let read = entry.take(size).read_to_end(&mut octets);
    if read.is_err() || octets.len() as u64 != size {
        return Err(malformed("an entry's data ends before its size is reached"));
    }
    Ok(octets)
}

/// After the end marker there is nothing but zeros.
fn read_padding(member: &mut Member<'_>) -> Result<(), Refusal> {
    let mut block = [0_u8; 4096];
    loop {
        match member.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(n) if block.iter().take(n).all(|octet| *octet == 0) => {}
            Ok(_) => return Err(malformed("something follows the end of the archive")),
            Err(_) => {
                return Err(of_gzip(member.fault().unwrap_or(GzipFault::Corrupt)));
            }
        }
    }
}

/// Collects entries and keeps the names apart.
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
        // Every file may have an extended header or two.
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

    fn add(&mut self, name: String, kind: Kind, octets: Vec<u8>) -> Result<(), Refusal> {
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
                "is there twice, or differs from another name in case or Unicode form only",
            )
            .in_file(name));
        }
        self.files.insert(name, Bytes::from(octets));
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
