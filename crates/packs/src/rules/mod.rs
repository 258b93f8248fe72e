//! The rules of agent packs: parsing, trust and refusals (OpenWOP node-packs, registry-operations;
//! RFC 0003, 0043, 0072, 0076, 0081, 0131).
//!
//! [`verify::verify`] is the whole procedure over fetched bytes: served manifest, digest, key,
//! archive, signature, manifest, references, suites. The first failure decides. The parts can be
//! used separately:
//!
//! ```text
//! archive     one gzip member, one tar stream, nothing on disk, every limit counted
//! manifest    pack.json: kind, engines, peers, runtime, agent ids
//! contents    the references of a manifest resolved against the archive: prompts, schemas, suites
//! trust       the operator's trust settings, the trusted keys and the names each may sign
//! lockfile    exact versions and digests
//! publication what this host's registry serves about installed packs
//! suite_stream suites that arrive and are stored task by task
//! build       the publisher's side: keys, templates, lint, deterministic archives, signing
//! ```

pub mod archive;
pub mod attachments;
pub mod build;
pub mod contents;
pub mod format;
pub mod inventory;
pub mod lockfile;
pub mod manifest;
pub mod publication;
pub mod suite_stream;
pub mod trust;
pub mod verify;

pub use touchstone_kit::{integrity, pack_name as name};

use serde::{Deserialize, Serialize};

use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::json::value_of;

/// The verification stage that refused a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Finding the version: served manifest, yank, lockfile, approval.
    Resolve,
    /// The digest of the archive.
    Integrity,
    /// Key and signature.
    Signature,
    /// Reading the archive.
    Archive,
    /// `pack.json`.
    Manifest,
    /// Prompts and schemas.
    References,
    Suite,
    /// Recording the installation.
    Install,
}

/// Why a pack is refused. Contains no pack content except names of files and members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {}{reason}", file.as_ref().map(|f| format!("{f}: ")).unwrap_or_default())]
pub struct Refusal {
    pub code: ErrorCode,
    pub stage: Stage,
    /// The file of the pack at fault.
    pub file: Option<String>,
    /// The fault and its remedy.
    pub reason: String,
}

impl Refusal {
    /// A refusal of the pack as a whole.
    pub fn new(code: ErrorCode, stage: Stage, reason: impl Into<String>) -> Self {
        Self {
            code,
            stage,
            file: None,
            reason: reason.into(),
        }
    }

    /// Sets the file at fault.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }
}

impl Serialize for Refusal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut out = serializer.serialize_struct("Refusal", 4)?;
        out.serialize_field("code", &self.code)?;
        out.serialize_field("stage", &self.stage)?;
        out.serialize_field("file", &self.file)?;
        out.serialize_field("reason", &self.reason)?;
        out.end()
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let stage = value_of(&refusal.stage);
        let problem = Self::new(refusal.code, refusal.reason).with("stage", stage);
        match refusal.file {
            Some(file) => problem.with("file", file),
            None => problem,
        }
    }
}
