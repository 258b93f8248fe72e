//! Why a host cannot start.

use std::path::PathBuf;

use touchstone_agents::{model, tools};
use touchstone_host::ports::signing_key::NoSigningKey;
use touchstone_host::ports::store::StoreError;
use touchstone_host::{config, net};

/// Why the host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the data folder {} could not be created", folder.display())]
    DataFolder {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error("the database could not be opened")]
    Store(#[source] StoreError),
    #[error(transparent)]
    Models(#[from] model::Error),
    #[error(transparent)]
    Tools(#[from] tools::Error),
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The key that signs verdicts is not usable.
    #[error("`attest.key_file` is not usable")]
    SigningKey(#[source] NoSigningKey),
    /// The key that encrypts secrets is not usable.
    #[error("the host key, `secrets.key_file`, is not usable")]
    HostKey(#[source] NoSigningKey),
    /// The file of the host's own key does not exist, but the database was encrypted with it.
    #[error("the host key {} does not exist, which decrypts the secrets in this database", file.display())]
    HostKeyMissing { file: PathBuf },
    /// The database was encrypted with another key.
    #[error("the secrets in this database are not encrypted with the key in {}", file.display())]
    OtherHostKey {
        file: PathBuf,
        /// What could not be decrypted.
        source: StoreError,
    },
    /// The host key cannot be rotated because it shares a file with the signing key.
    #[error("`secrets.key_file` and `attest.key_file` are the same file, which cannot be rotated")]
    SharedKeyFile,
    /// Other processes still encrypt with the key that is being replaced.
    #[error("other processes still encrypt secrets with the old key; both keys stay usable")]
    OldKeyInUse,
    /// The export of telemetry is not configured correctly; the text names the variable or setting.
    #[error("{0}")]
    Telemetry(String),
    #[error(transparent)]
    OasisProvider(#[from] touchstone_oasis::net::SetupError),
    /// Their receivers would get deliveries of another form.
    #[error(
        "`openwop.preferred_version` is \"2.0\", but webhook subscriptions of OpenWOP v1 exist: {0}"
    )]
    SubscriptionsOfV1(i64),
    /// The client for webhook deliveries cannot be set up.
    #[error(transparent)]
    Net(#[from] net::Error),
}
