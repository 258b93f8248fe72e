//! Settings that several features use, and the error of invalid settings.

use std::path::PathBuf;

use serde::Deserialize;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file, the environment or a value is invalid; the text names the source and the field.
    #[error("the configuration is not usable: {0}")]
    Unusable(String),
}

/// Where a host keeps its data.
#[derive(Clone, Debug)]
pub struct DataSettings {
    /// Folder of the embedded database and of the host's own keys.
    pub data: PathBuf,
    /// `postgres://…`, to use PostgreSQL instead of the embedded database.
    pub database_url: Option<String>,
}

/// Encryption of secrets at rest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecretSettings {
    /// A private key, PEM (PKCS #8). If unset, the host keeps one in its data folder.
    pub key_file: Option<PathBuf>,
}

/// Signing of verdicts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttestSettings {
    /// The private key, PEM (PKCS #8). If unset, a host with a data folder keeps one there.
    pub key_file: Option<PathBuf>,
    /// The host's name in signed documents. Default: the fingerprint of its key.
    pub host_id: Option<String>,
    /// Public keys whose attestations are accepted as baselines.
    pub trusted_keys: Vec<PathBuf>,
}
