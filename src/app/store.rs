//! The database of a host, and the keys of the secrets in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::app::Error;
use crate::config::Config;
use crate::database;
use touchstone_host::ports::host_keys::HostKeys as _;
use touchstone_host::ports::host_secrets::{AUDIT_CHECKPOINTS, INTERRUPT_TOKENS, Reencrypt};
use touchstone_host::ports::ids::Ids as _;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::sqlite_file;
use touchstone_host::system::SystemIds;
use touchstone_host::system::host_key::HostKeyFile;
use touchstone_host::system::signing_key::{ATTEST_FILE, SECRETS_FILE};
use touchstone_kit::keys::SecretKey;

/// File name in a data folder of the embedded database.
const DATABASE_FILE: &str = "touchstone.db";

/// Whether there is a database: a file, or a server, which only a connection shows.
pub fn has_store(config: &Config) -> bool {
    match database_file(config) {
        None => true,
        // A file in place of the folder is reported when it is opened.
        Some(file) => file.exists() || config.data.is_file() && config.database_url.is_none(),
    }
}

/// The file of the embedded database; `None` with PostgreSQL.
pub fn database_file(config: &Config) -> Option<PathBuf> {
    match &config.database_url {
        Some(url) => sqlite_file(url).map(Path::to_owned),
        None => Some(config.data.join(DATABASE_FILE)),
    }
}

/// How [`database::open`] is told where the database is.
pub fn location(config: &Config) -> String {
    match &config.database_url {
        Some(url) => url.clone(),
        None => format!("sqlite:{}", config.data.join(DATABASE_FILE).display()),
    }
}

/// The file with the keys that encrypt secrets, whether it exists or not.
pub fn host_key_path(config: &Config) -> PathBuf {
    let configured = config.secrets.key_file.clone();
    configured.unwrap_or_else(|| config.data.join(SECRETS_FILE))
}

/// The file with the key that signs verdicts, whether it exists or not; `None` if the host has none.
pub fn signing_key_path(config: &Config) -> Option<PathBuf> {
    let own = || config.data.join(ATTEST_FILE);
    let configured = config.attest.key_file.clone();
    configured.or_else(|| config.database_url.is_none().then(own))
}

pub async fn open_store(config: &Config, keys: &Arc<HostKeyFile>) -> Result<Arc<Database>, Error> {
    if config.database_url.is_none() {
        data_folder(config)?;
    }
    database::open(&location(config), keys.clone())
        .await
        .map_err(Error::Store)
}

fn data_folder(config: &Config) -> Result<(), Error> {
    private_folder(&config.data).map_err(|source| Error::DataFolder {
        folder: config.data.clone(),
        source,
    })
}

/// Creates the folder for its owner only: it holds task contents.
pub fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)
}

/// The key that signs audit log checkpoints. All replicas share it, and it signs nothing else.
pub async fn audit_key(store: &Database) -> Result<SecretKey, StoreError> {
    let secret = store
        .host_secret(AUDIT_CHECKPOINTS, SystemIds.secret())
        .await?;
    Ok(SecretKey::from_random(secret))
}

/// The keys that encrypt secrets: a configured key file, else one in the data folder, even if the
/// database is on another host. Replicas on several machines share a configured file.
pub fn host_keys(config: &Config) -> Result<HostKeyFile, Error> {
    match &config.secrets.key_file {
        Some(file) => HostKeyFile::given(file).map_err(Error::HostKey),
        None => {
            data_folder(config)?;
            Ok(HostKeyFile::own(config.data.join(SECRETS_FILE)))
        }
    }
}

/// Encrypts secrets that earlier versions stored in plaintext.
///
/// # Errors
/// [`Error::OtherHostKey`] if this host's key does not decrypt the database's secrets, and
/// [`Error::HostKeyMissing`] if there is none; nothing is written then.
pub async fn encrypt_secrets(store: &Database, keys: &HostKeyFile) -> Result<(), Error> {
    let has_encrypted = store.has_encrypted_secrets().await;
    // The file is looked up last: another process may have created it for its first secret.
    if has_encrypted.map_err(Error::Store)? && !keys.path().exists() {
        return Err(Error::HostKeyMissing {
            file: keys.path().to_owned(),
        });
    }
    let unlock = async {
        let fresh = SystemIds.secret();
        store.host_secret(INTERRUPT_TOKENS, fresh).await?;
        store.reencrypt(Reencrypt::Plaintext).await
    };
    let encrypted = unlock.await.map_err(|source| match source {
        StoreError::Undecryptable { .. } => Error::OtherHostKey {
            file: keys.path().to_owned(),
            source,
        },
        StoreError::HostKey(cause) => Error::HostKey(cause),
        source => Error::Store(source),
    })?;
    if encrypted > 0 {
        tracing::info!(
            encrypted,
            "encrypted secrets that an earlier version stored in plaintext"
        );
    }
    Ok(())
}

/// The result of a host key rotation.
#[derive(Debug)]
pub struct RotatedHostKey {
    pub file: PathBuf,
    pub key_id: String,
    /// Number of rows that were encrypted again.
    pub reencrypted: u64,
}

/// Maximum passes over the database; then the rotation fails because other processes still use the
/// old key.
const ROTATION_PASSES: usize = 20;
/// How long other processes have to write secrets they encrypted with the old key.
const ROTATION_SETTLES: Duration = Duration::from_secs(1);

/// Encrypts all secrets with a new host key. Both keys remain usable until every secret is
/// encrypted with the new one, so an interrupted rotation continues when it is run again.
///
/// # Errors
/// The key file or the database is not usable; [`Error::OldKeyInUse`].
pub async fn rotate_host_key(config: &Config) -> Result<RotatedHostKey, Error> {
    let keys = Arc::new(host_keys(config)?);
    if config.attest.key_file.as_deref() == Some(keys.path()) {
        return Err(Error::SharedKeyFile);
    }
    let _lock = keys.lock().map_err(Error::HostKey)?;
    let store = open_store(config, &keys).await?;
    encrypt_secrets(&store, &keys).await?;
    keys.begin_rotation().map_err(Error::HostKey)?;
    let (mut reencrypted, mut unchanged) = (0, 0);
    for _ in 0..ROTATION_PASSES {
        let changed = store
            .reencrypt(Reencrypt::All)
            .await
            .map_err(Error::Store)?;
        reencrypted += changed;
        unchanged = if changed == 0 { unchanged + 1 } else { 0 };
        if unchanged == 2 {
            keys.finish_rotation().map_err(Error::HostKey)?;
            let ring = keys.ring().map_err(Error::HostKey)?;
            return Ok(RotatedHostKey {
                file: keys.path().to_owned(),
                key_id: ring.id().to_owned(),
                reencrypted,
            });
        }
        tokio::time::sleep(ROTATION_SETTLES).await;
    }
    Err(Error::OldKeyInUse)
}
