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
use touchstone_host::system::SystemIds;
use touchstone_host::system::host_key::HostKeyFile;
use touchstone_host::system::signing_key::SECRETS_FILE;
use touchstone_kit::keys::SecretKey;

const DATABASE_FILE: &str = "touchstone.db";

/// Whether there is a database: a file, or a server, which only a connection shows.
pub fn has_store(config: &Config) -> bool {
    match config.database_url.as_deref() {
        Some(url) if url.starts_with("postgres") => true,
        Some(url) => {
            let path = url.strip_prefix("sqlite://");
            let path = path.or_else(|| url.strip_prefix("sqlite:"));
            Path::new(path.unwrap_or(url)).exists()
        }
        // A file in place of the folder is reported when it is opened.
        None => config.data.join(DATABASE_FILE).exists() || config.data.is_file(),
    }
}

pub async fn open_store(config: &Config, keys: &Arc<HostKeyFile>) -> Result<Arc<Database>, Error> {
    let location = match &config.database_url {
        Some(url) => url.clone(),
        None => {
            data_folder(config)?;
            let file = config.data.join(DATABASE_FILE);
            format!("sqlite:{}", file.display())
        }
    };
    database::open(&location, keys.clone())
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
fn private_folder(folder: &Path) -> std::io::Result<()> {
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
/// [`Error::OtherHostKey`] if this host's key does not decrypt the database's secrets; nothing is
/// written then.
pub async fn encrypt_secrets(store: &Database, keys: &HostKeyFile) -> Result<(), Error> {
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
