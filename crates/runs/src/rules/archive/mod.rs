//! Archives of runs: one file per run, which is read and verified without a host. The format is in
//! docs/archive.md.
//!
//! An archive is a gzip stream of JSON lines: a [`Header`], the run's [`Contents`], every event of
//! its log, and a DSSE envelope whose statement has a [`Manifest`] with digests of the lines before
//! it. The same run always gives the same bytes.

pub mod reader;
pub mod view;
pub mod writer;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::rules::eval::report::additions::Additions;
use crate::rules::run::record::RunRecord;
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::in_toto::DigestSet;
use touchstone_openwop::suite::Thresholds;

/// The media type of an archive, without its compression.
pub const MEDIA_TYPE: &str = "application/vnd.touchstone.run-archive+jsonl";
/// The version of the format that this program writes. It reads this version only.
pub const VERSION: u32 = 1;
/// The `predicateType` of the statement about an archive. The domain is reserved (RFC 2606) and
/// serves only as a name.
pub const PREDICATE_TYPE: &str = "https://touchstone.invalid/attestation/run-archive/v1";
/// How the names of archives end.
pub const SUFFIX: &str = ".run.jsonl.gz";

/// Maximum length of a line in bytes.
pub const MAX_LINE: usize = 64 << 20;
/// Maximum size of an archive in bytes, before compression.
pub const MAX_BYTES: u64 = 16 << 30;
/// Maximum size of the file in bytes.
pub const MAX_FILE: u64 = 4 << 30;
/// Size before compression from which on the ratio of both sizes is limited.
const RATIO_FROM: u64 = 64 << 20;
/// Maximum ratio of the size before compression to the size after it. Logs compress to a tenth.
const MAX_RATIO: u64 = 250;

/// Whether these sizes are those of a compression bomb.
const fn is_bomb(plain: u64, compressed: u64) -> bool {
    plain > RATIO_FROM && plain / MAX_RATIO > compressed
}

/// The first line: the format, for readers of any version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// [`MEDIA_TYPE`].
    pub media_type: String,
    /// [`VERSION`].
    pub version: u32,
    pub run_id: RunId,
    pub tenant: TenantId,
}

/// The second line: the run apart from its log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    pub record: RunRecord,
    /// The conditions of the suite for the run to pass; absent for a run that is not an eval run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// Tags, annotations and declarations that people added.
    #[serde(default)]
    pub additions: Additions,
}

/// The host that wrote an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivingHost {
    /// The name set by its operator, or the fingerprint of its key.
    pub id: String,
    /// The name of the software.
    pub name: String,
    pub version: String,
}

/// The signed statement about an archive. Its subject is the digest of all lines before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub format_version: u32,
    pub run_id: RunId,
    pub tenant: TenantId,
    pub created_at: Timestamp,
    /// `completed`, `failed` or `cancelled`.
    pub status: String,
    /// Time of the terminal event; absent if it is unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Number of events; the log has the sequences from 1 to this number.
    pub events: u64,
    /// Digest of the second line.
    pub contents_digest: DigestSet,
    /// Digest of the lines with events.
    pub events_digest: DigestSet,
    pub host: ArchivingHost,
}

/// The segments of the name that the archive of a run has: its tenant and the date of its creation
/// in UTC, so that rules of a bucket can select archives by both.
pub fn object_name(record: &RunRecord) -> [String; 5] {
    let date = record.created_at.to_zoned(TimeZone::UTC).date();
    [
        record.tenant.to_string(),
        format!("{:04}", date.year()),
        format!("{:02}", date.month()),
        format!("{:02}", date.day()),
        format!("{}{SUFFIX}", record.run_id),
    ]
}

#[cfg(test)]
mod tests;
