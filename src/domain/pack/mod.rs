//! The rules of agent packs: what is read, what is trusted, what is refused (OpenWOP node-packs, registry-operations;
//! RFC 0003, 0043, 0072, 0076, 0081, 0131).
//!
//! [`verify::verify`] is the whole procedure over fetched octets: served manifest, digest, key, archive, signature,
//! manifest, references, suites; the first failure decides. The parts stand on their own:
//!
//! ```text
//! archive     one gzip member, one tar stream, nothing on disk, every limit counted
//! manifest    pack.json: kind, engines, peers, runtime, agent ids
//! contents    the references of a manifest resolved against the archive: prompts, schemas, suites
//! keys        keys and who may sign which names; signature, integrity
//! lockfile    exact versions and digests
//! publication what the registry of this host serves of what is installed
//! build       the other direction: keys, templates, lint, deterministic archives, signing
//! ```

pub mod archive;
pub mod build;
pub mod capabilities;
pub mod contents;
pub mod integrity;
pub mod inventory;
pub mod keys;
pub mod lint;
mod lint_oasis;
pub mod lockfile;
pub mod manifest;
pub mod name;
mod oasis;
pub mod publication;
pub mod range;
pub mod refs;
pub mod template;
pub mod trust;
pub mod verify;

use serde::{Deserialize, Serialize};

use crate::protocol::error::{ErrorCode, Problem};

/// Where in the procedure a pack was refused.
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
    /// Suites.
    Suite,
    /// Making it visible.
    Install,
}

/// Why a pack is refused. Holds no content of the pack but names of files and members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {}{reason}", file.as_ref().map(|f| format!("{f}: ")).unwrap_or_default())]
pub struct Refusal {
    /// The wire code.
    pub code: ErrorCode,
    /// Where in the procedure.
    pub stage: Stage,
    /// The file of the pack it is about.
    pub file: Option<String>,
    /// What is wrong, and what to do about it.
    pub reason: String,
}

impl Refusal {
    /// A refusal that is about the pack as a whole.
    pub fn new(code: ErrorCode, stage: Stage, reason: impl Into<String>) -> Self {
        Self {
            code,
            stage,
            file: None,
            reason: reason.into(),
        }
    }

    /// Names the file it is about.
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
        let stage = serde_json::to_value(refusal.stage).unwrap_or_default();
        let problem = Self::new(refusal.code, refusal.reason).with("stage", stage);
        match refusal.file {
            Some(file) => problem.with("file", file),
            None => problem,
        }
    }
}
