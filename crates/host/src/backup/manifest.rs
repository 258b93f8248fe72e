//! The manifest of a backup: the first entry of the file.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Value of `format` in every manifest.
pub const FORMAT: &str = "touchstone-backup";
/// The version of the format that this program writes.
pub const VERSION: u32 = 1;

/// The files of a data folder that a backup may contain, in their order in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BackupFile {
    /// The key that encrypts secrets.
    #[serde(rename = "secrets.pem")]
    HostKey,
    /// The key that signs verdicts.
    #[serde(rename = "attest.pem")]
    SigningKey,
    /// The database; last, because a data folder with it is complete.
    #[serde(rename = "touchstone.db")]
    Database,
}

impl BackupFile {
    /// The name in the backup and in a data folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostKey => "secrets.pem",
            Self::SigningKey => "attest.pem",
            Self::Database => "touchstone.db",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    pub name: BackupFile,
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub format: String,
    pub version: u32,
    /// Program and version.
    pub made_by: String,
    /// When the snapshot of the database began.
    pub made_at: Timestamp,
    /// The id of the key that encrypts the secrets in the database, if its file could be read. It
    /// reveals nothing about the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_key_id: Option<String>,
    pub files: Vec<FileEntry>,
}

impl Manifest {
    /// Parses a manifest and checks what this program relies on.
    ///
    /// # Errors
    /// A message that names the member.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        // A newer version may have other members.
        let head: Head = serde_json::from_slice(bytes)
            .map_err(|cause| format!("`manifest.json` is not the manifest of a backup: {cause}"))?;
        if head.format != FORMAT {
            return Err(format!("`format` of the manifest must be `{FORMAT}`"));
        }
        if head.version != VERSION {
            return Err(format!(
                "`version` of the manifest is {}, but this program reads version {VERSION}: use a newer version of Touchstone",
                head.version
            ));
        }
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(|cause| format!("`manifest.json` is not usable: {cause}"))?;
        let names: Vec<BackupFile> = manifest.files.iter().map(|file| file.name).collect();
        let ordered = names.is_sorted_by(|one, next| one < next);
        if !ordered || !names.contains(&BackupFile::Database) {
            return Err(
                "`files` of the manifest must list each file once, the database last".to_owned(),
            );
        }
        Ok(manifest)
    }
}
